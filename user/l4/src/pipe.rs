// SPDX-License-Identifier: BSD-2-Clause
//! A pipe in memory that two threads share, in one space or in two. One writes, the other reads;
//! they use ipc only when one of them has to wait. It keeps POSIX's rules: a write waits until all
//! its bytes are in the pipe; a read takes what is there, and waits if there is nothing; an empty
//! pipe without a writer is the end; a pipe without a reader is an error for the writer. A thread
//! that no longer exists has closed its end.
//!
//! An end trusts nothing that the other end writes. A partner that corrupts the memory makes this
//! end pass wrong bytes or wait without end, and has no other effect. While a thread is in a call
//! of its end, its partner must send it no messages other than those of this module.

use crate::call::Failure;
use crate::ipc::{receive, send, Message, Timeout};
use crate::thread::switch;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use keel_abi::{Error, Id};

/// The holder of the other end: how to wake it, and how to wait for it.
pub trait Partner {
    /// Yields the processor to it, if it is ready.
    fn yield_to(&self);

    /// Wakes it. It waits, or is about to wait.
    fn wake(&self) -> Result<(), Failure>;

    /// Waits until it wakes the caller. `NoPartner` if it no longer exists.
    fn wait(&self) -> Result<(), Failure>;
}

impl Partner for Id {
    #[inline]
    fn yield_to(&self) {
        // The switch fails only if the partner no longer exists.
        let _ = switch(*self);
    }

    #[inline]
    fn wake(&self) -> Result<(), Failure> {
        send(*self, Message::label(0), Timeout::Never)
    }

    #[inline]
    fn wait(&self) -> Result<(), Failure> {
        receive(*self, Timeout::Never).map(|_| ())
    }
}

/// The state of an end that does not wait. The state of one that waits is the number of bytes for
/// which it waits.
const RUNS: u64 = 0;
const CLOSED: u64 = u64::MAX;

/// What one end reports to the other.
#[derive(Debug)]
#[repr(C, align(64))]
struct Shared {
    /// Bytes that passed this end since the beginning. Only this end writes it.
    moved: AtomicU64,
    /// `RUNS`, `CLOSED`, or the number of bytes for which the end waits. The thread that changes
    /// the number to `RUNS` ends the wait: the other end, which then wakes this one, or this end
    /// itself.
    state: AtomicU64,
}

impl Shared {
    const fn new() -> Shared {
        Shared { moved: AtomicU64::new(0), state: AtomicU64::new(RUNS) }
    }
}

/// The memory of a pipe with a capacity of `N` bytes, a power of two.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Pipe<const N: usize> {
    writer: Shared,
    reader: Shared,
    bytes: UnsafeCell<[u8; N]>,
}

// SAFETY: the bytes are only copied in and out, and no reference points to them. A partner that
// changes them at the same time only changes their values.
unsafe impl<const N: usize> Sync for Pipe<N> {}

impl<const N: usize> Pipe<N> {
    /// An empty pipe, open at both ends.
    pub const fn new() -> Pipe<N> {
        assert!(N.is_power_of_two());
        Pipe { writer: Shared::new(), reader: Shared::new(), bytes: UnsafeCell::new([0; N]) }
    }

    /// The write end, for one thread; `reader` is the holder of the other end.
    pub const fn write_end<P: Partner>(&self, reader: P) -> WriteEnd<'_, N, P> {
        WriteEnd(End { pipe: self, own: &self.writer, other: &self.reader, partner: reader, moved: 0 })
    }

    /// The read end, for one thread; `writer` is the holder of the other end.
    pub const fn read_end<P: Partner>(&self, writer: P) -> ReadEnd<'_, N, P> {
        ReadEnd(End { pipe: self, own: &self.reader, other: &self.writer, partner: writer, moved: 0 })
    }

    /// The place of the bytes that follow the first `moved` ones, and how many bytes there are from
    /// there to the end of the memory.
    #[inline]
    fn place(&self, moved: u64) -> (*mut u8, usize) {
        let at = moved as usize % N;
        // SAFETY: the offset is below `N`.
        (unsafe { self.bytes.get().cast::<u8>().add(at) }, N - at)
    }
}

impl<const N: usize> Default for Pipe<N> {
    fn default() -> Pipe<N> {
        Pipe::new()
    }
}

/// What both ends do.
#[derive(Debug)]
struct End<'a, const N: usize, P: Partner> {
    pipe: &'a Pipe<N>,
    own: &'a Shared,
    other: &'a Shared,
    partner: P,
    /// The value of `own.moved`.
    moved: u64,
}

impl<const N: usize, P: Partner> End<'_, N, P> {
    /// Waits until this end can move `wish` bytes, or the other end is closed. Returns how many
    /// bytes this end can move. It may be `lead` bytes ahead of the other end: none when it reads,
    /// the capacity when it writes.
    #[inline]
    fn wait(&self, lead: u64, wish: u64) -> Result<u64, Failure> {
        let mut yielded = false;
        loop {
            let closed = self.other.state.load(SeqCst) == CLOSED;
            let ahead = self.ahead(lead);
            if ahead >= wish || closed {
                return Ok(ahead);
            }
            // In most cases the other end is ready to run and does what this one waits for. A
            // switch saves both of them an ipc.
            if core::mem::replace(&mut yielded, true) {
                self.sleep(lead, wish)?;
            } else {
                self.partner.yield_to();
            }
        }
    }

    /// How many bytes this end can move: never more than the capacity, whatever the other end
    /// reports.
    #[inline]
    fn ahead(&self, lead: u64) -> u64 {
        self.other.moved.load(SeqCst).wrapping_add(lead).wrapping_sub(self.moved).min(N as u64)
    }

    /// Sleeps once, unless the wish is fulfilled already.
    fn sleep(&self, lead: u64, wish: u64) -> Result<(), Failure> {
        self.own.state.store(wish, SeqCst);
        // The other end checks the state after each change. A change before the store above is only
        // seen here.
        let late = self.ahead(lead) >= wish || self.other.state.load(SeqCst) == CLOSED;
        if late && self.own.state.compare_exchange(wish, RUNS, SeqCst, SeqCst).is_ok() {
            return Ok(());
        }
        match self.partner.wait() {
            Err(failure) if failure.error == Error::NoPartner => {
                self.other.state.store(CLOSED, SeqCst);
                Ok(())
            }
            woken => woken,
        }
    }

    /// Records that this end moved `count` bytes. Wakes the other end if it waits for at most
    /// `there` bytes, which are available to it now.
    #[inline]
    fn advance(&mut self, count: usize, there: u64) -> Result<(), Failure> {
        self.moved += count as u64;
        self.own.moved.store(self.moved, SeqCst);
        self.wake(there)
    }

    #[inline]
    fn wake(&self, there: u64) -> Result<(), Failure> {
        let wish = self.other.state.load(SeqCst);
        if wish == RUNS || wish > there || self.other.state.compare_exchange(wish, RUNS, SeqCst, SeqCst).is_err() {
            return Ok(());
        }
        match self.partner.wake() {
            // The next wait finds out.
            Err(failure) if failure.error == Error::NoPartner => Ok(()),
            woken => woken,
        }
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.own.state.store(CLOSED, SeqCst);
        // What the other end waits for can no longer come, so it is woken for any number.
        self.wake(CLOSED - 1)
    }
}

/// The write end.
#[derive(Debug)]
pub struct WriteEnd<'a, const N: usize, P: Partner = Id>(End<'a, N, P>);

impl<const N: usize, P: Partner> WriteEnd<'_, N, P> {
    /// Writes all of `bytes` and waits until they are in the pipe. `NoPartner` if no reader is
    /// left.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Not for each byte that becomes free: for the rest, or for half of the pipe.
            let room = self.0.wait(N as u64, rest.len().min(N / 2) as u64)? as usize;
            if self.0.other.state.load(SeqCst) == CLOSED {
                return Err(Failure::call(Error::NoPartner));
            }
            let (now, later) = rest.split_at(room.min(rest.len()));
            self.copy(now);
            let there = N - room + now.len();
            self.0.advance(now.len(), there as u64)?;
            rest = later;
        }
        Ok(())
    }

    #[inline]
    fn copy(&self, bytes: &[u8]) {
        let (place, before_end) = self.0.pipe.place(self.0.moved);
        let (first, second) = bytes.split_at(before_end.min(bytes.len()));
        // SAFETY: the first piece ends at the end of the memory at the latest, and both pieces
        // together are no longer than the memory.
        unsafe {
            place.copy_from_nonoverlapping(first.as_ptr(), first.len());
            if !second.is_empty() {
                self.0.pipe.place(0).0.copy_from_nonoverlapping(second.as_ptr(), second.len());
            }
        }
    }

    /// Closes the end. The reader gets what is left, then the end.
    pub fn close(mut self) -> Result<(), Failure> {
        self.0.close()
    }
}

/// The read end.
#[derive(Debug)]
pub struct ReadEnd<'a, const N: usize, P: Partner = Id>(End<'a, N, P>);

impl<const N: usize, P: Partner> ReadEnd<'_, N, P> {
    /// Waits for bytes and takes as many as are available and fit into `buffer`. Returns 0 at the
    /// end of the pipe.
    #[inline]
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let there = self.0.wait(0, buffer.len().min(1) as u64)? as usize;
        let count = there.min(buffer.len());
        if count > 0 {
            self.copy(&mut buffer[..count]);
            self.0.advance(count, (N - there + count) as u64)?;
        }
        Ok(count)
    }

    #[inline]
    fn copy(&self, bytes: &mut [u8]) {
        let (place, before_end) = self.0.pipe.place(self.0.moved);
        let (first, second) = bytes.split_at_mut(before_end.min(bytes.len()));
        // SAFETY: as in `WriteEnd::copy`.
        unsafe {
            place.copy_to_nonoverlapping(first.as_mut_ptr(), first.len());
            if !second.is_empty() {
                self.0.pipe.place(0).0.copy_to_nonoverlapping(second.as_mut_ptr(), second.len());
            }
        }
    }

    /// Closes the end. Further writes fail.
    pub fn close(mut self) -> Result<(), Failure> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
    use std::thread::{scope, Scope};

    /// A thread on the developer's machine with ipc's rendezvous: a wake-up waits until the other
    /// thread is there.
    struct Host(SyncSender<()>, Receiver<()>);

    fn gone<T>(_: T) -> Failure {
        Failure::call(Error::NoPartner)
    }

    impl Partner for Host {
        fn yield_to(&self) {
            std::thread::yield_now();
        }

        fn wake(&self) -> Result<(), Failure> {
            self.0.send(()).map_err(gone)
        }

        fn wait(&self) -> Result<(), Failure> {
            self.1.recv().map_err(gone)
        }
    }

    fn pair() -> (Host, Host) {
        let (there, back) = (sync_channel(0), sync_channel(0));
        (Host(there.0, back.1), Host(back.0, there.1))
    }

    const SMALL: usize = 64;
    /// Bytes that a test sends through the pipe.
    const TOTAL: usize = 3_000;

    /// Byte `index` of them.
    fn byte(index: usize) -> u8 {
        (index * 7 % 251) as u8
    }

    fn write_all<'a>(scope: &'a Scope<'a, '_>, mut end: WriteEnd<'a, SMALL, Host>, total: usize, longest: usize) {
        scope.spawn(move || {
            let (mut sent, mut length) = (0, 0);
            while sent < total {
                length = (length * 5 + 3) % longest + 1;
                let piece: Vec<u8> = (sent..total.min(sent + length)).map(byte).collect();
                end.write(&piece).unwrap();
                sent += piece.len();
            }
            end.close().unwrap();
        });
    }

    fn read_all(end: &mut ReadEnd<SMALL, Host>, longest: usize) -> usize {
        let (mut got, mut length) = (0, 0);
        loop {
            length = (length * 3 + 1) % longest + 1;
            let mut mouthful = vec![0; length];
            match end.read(&mut mouthful).unwrap() {
                0 => return got,
                count => assert!(mouthful[..count].iter().enumerate().all(|(at, byte)| *byte == self::byte(got + at))),
            }
            got += mouthful.len().min(end.0.moved as usize - got);
        }
    }

    #[test]
    fn all_bytes_arrive_in_their_order_whatever_the_pieces() {
        for (written, read) in [(1, 1), (7, 200), (200, 7), (SMALL, SMALL), (3 * SMALL, 1)] {
            let (pipe, (writer, reader)) = (Pipe::new(), pair());
            let got = scope(|scope| {
                write_all(scope, pipe.write_end(writer), TOTAL, written);
                read_all(&mut pipe.read_end(reader), read)
            });
            assert_eq!(got, TOTAL);
        }
    }

    #[test]
    fn what_fits_does_not_wait_and_the_end_comes_after_what_is_left() {
        let (pipe, (writer, reader)) = (Pipe::<SMALL>::new(), pair());
        let (mut to, mut from) = (pipe.write_end(writer), pipe.read_end(reader));
        to.write(&[7; SMALL]).unwrap();
        to.close().unwrap();
        let mut bytes = [0; SMALL];
        assert_eq!((from.read(&mut bytes[..10]), from.read(&mut bytes)), (Ok(10), Ok(SMALL - 10)));
        assert_eq!((from.read(&mut bytes), from.read(&mut bytes), from.read(&mut [])), (Ok(0), Ok(0), Ok(0)));
    }

    #[test]
    fn a_writer_that_waits_is_refused_when_the_reader_closes_or_goes() {
        for closes in [true, false] {
            let (pipe, (writer, reader)) = (Pipe::<SMALL>::new(), pair());
            scope(|scope| {
                let mut to = pipe.write_end(writer);
                let waiting = scope.spawn(move || [to.write(&[1; SMALL + 1]), to.write(&[1])]);
                let mut from = pipe.read_end(reader);
                assert_eq!(from.read(&mut [0]), Ok(1));
                if closes {
                    from.close().unwrap();
                } else {
                    drop(from);
                }
                let refused = Failure::call(Error::NoPartner);
                let [first, second] = waiting.join().unwrap();
                // The byte that was read may be the one for which the last wait waited.
                assert!(first == Ok(()) || first == Err(refused));
                assert_eq!(second, Err(refused));
            });
        }
    }

    #[test]
    fn a_reader_that_waits_finds_the_end_when_the_writer_goes() {
        let (pipe, (writer, reader)) = (Pipe::<SMALL>::new(), pair());
        drop(writer);
        assert_eq!(pipe.read_end(reader).read(&mut [0]), Ok(0));
    }

    /// A partner for which a wait is an error.
    struct Nobody;

    impl Partner for Nobody {
        fn yield_to(&self) {}

        fn wake(&self) -> Result<(), Failure> {
            panic!("it does not wait");
        }

        fn wait(&self) -> Result<(), Failure> {
            panic!("no wake-up of this end");
        }
    }

    #[test]
    fn what_came_just_before_an_end_sleeps_keeps_it_awake() {
        let pipe = Pipe::<SMALL>::new();
        let (mut to, mut from) = (pipe.write_end(Nobody), pipe.read_end(Nobody));
        to.write(b"x").unwrap();
        from.0.sleep(0, 1).unwrap();
        assert_eq!((pipe.reader.state.load(SeqCst), from.read(&mut [0])), (RUNS, Ok(1)));
        to.close().unwrap();
        from.0.sleep(0, 1).unwrap();
        assert_eq!(from.read(&mut [0]), Ok(0));
    }

    #[test]
    fn lies_of_the_partner_move_no_more_than_the_memory() {
        let (pipe, (writer, reader)) = (Pipe::<SMALL>::new(), pair());
        let mut from = pipe.read_end(reader);
        pipe.writer.moved.store(u64::MAX / 2, SeqCst);
        assert_eq!(from.read(&mut [0; 4 * SMALL]), Ok(SMALL));
        let mut to = pipe.write_end(writer);
        pipe.reader.moved.store(u64::MAX - 5, SeqCst);
        pipe.reader.state.store(SMALL as u64 * 10, SeqCst);
        assert_eq!(to.write(&[1; SMALL / 4]), Ok(()));
    }
}
