// SPDX-License-Identifier: BSD-2-Clause
//! A pipe in memory that two threads share, of one space or of two: one writes, the other reads, and they meet by ipc only
//! where one of them waits. It keeps POSIX's rules: a write waits until all of it is in; a read takes what there is, and
//! waits where there is nothing; nothing left and no writer is the end; no reader is an error for the writer. A thread
//! that is gone has closed its end.
//!
//! An end believes nothing that the other one writes: who scribbles in the memory makes it carry wrong bytes or wait for
//! ever, and no more. While a thread is in a call of its end, its partner sends it nothing but what this module sends.

use crate::call::Failure;
use crate::ipc::{receive, send, Message, Timeout};
use crate::thread::switch;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use keel_abi::{Error, Id};

/// Who holds the other end: how it is woken, and how it wakes.
pub trait Partner {
    /// Lets it run, if it could.
    fn give_way(&self);

    /// Wakes it: it waits, or is about to.
    fn wake(&self) -> Result<(), Failure>;

    /// Waits until it wakes the caller; `NoPartner` if it is gone.
    fn wait(&self) -> Result<(), Failure>;
}

impl Partner for Id {
    #[inline]
    fn give_way(&self) {
        // Who is gone cannot run.
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

/// States of an end that does not wait. One that waits says for how many bytes.
const RUNS: u64 = 0;
const CLOSED: u64 = u64::MAX;

/// What one end tells the other.
#[derive(Debug)]
#[repr(C, align(64))]
struct Told {
    /// How many bytes passed it since the beginning; only this end writes it.
    moved: AtomicU64,
    /// `RUNS`, `CLOSED`, or for how many bytes it waits. Who changes that number back to `RUNS` ends the wait: the other end,
    /// which then wakes it, or itself.
    state: AtomicU64,
}

impl Told {
    const fn new() -> Told {
        Told { moved: AtomicU64::new(0), state: AtomicU64::new(RUNS) }
    }
}

/// The memory of a pipe that holds `N` bytes, a power of two.
#[derive(Debug)]
#[repr(C, align(4096))]
pub struct Pipe<const N: usize> {
    writer: Told,
    reader: Told,
    bytes: UnsafeCell<[u8; N]>,
}

// SAFETY: the bytes are copied as such, in and out, and nobody makes a reference to them: what a partner changes at the same
// time only makes them others.
unsafe impl<const N: usize> Sync for Pipe<N> {}

impl<const N: usize> Pipe<N> {
    /// An empty one, open at both ends.
    pub const fn new() -> Pipe<N> {
        assert!(N.is_power_of_two());
        Pipe { writer: Told::new(), reader: Told::new(), bytes: UnsafeCell::new([0; N]) }
    }

    /// The end to write to, which one thread holds; `reader` holds the other.
    pub const fn write_end<P: Partner>(&self, reader: P) -> WriteEnd<'_, N, P> {
        WriteEnd(End { pipe: self, own: &self.writer, other: &self.reader, partner: reader, moved: 0 })
    }

    /// The end to read from, which one thread holds; `writer` holds the other.
    pub const fn read_end<P: Partner>(&self, writer: P) -> ReadEnd<'_, N, P> {
        ReadEnd(End { pipe: self, own: &self.reader, other: &self.writer, partner: writer, moved: 0 })
    }

    /// Where the bytes that follow the first `moved` ones lie: the place, and how many there are before the memory ends.
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
    own: &'a Told,
    other: &'a Told,
    partner: P,
    /// What stands in `own.moved`.
    moved: u64,
}

impl<const N: usize, P: Partner> End<'_, N, P> {
    /// Waits until the other end has moved to `behind` bytes before this one and `wish` more, or is closed. How far it
    /// is, in bytes beyond `behind`: 0, if it is closed and was there.
    #[inline]
    fn wait(&self, behind: u64, wish: u64) -> Result<u64, Failure> {
        let mut gave_way = false;
        loop {
            let closed = self.other.state.load(SeqCst) == CLOSED;
            let ahead = self.ahead(behind);
            if ahead >= wish || closed {
                return Ok(ahead);
            }
            // Mostly the other end is ready to run and does what this one waits for. That saves both the ipc.
            if core::mem::replace(&mut gave_way, true) {
                self.sleep(behind, wish)?;
            } else {
                self.partner.give_way();
            }
        }
    }

    /// How many bytes this end can move. No more than there is memory, whatever the other end says.
    #[inline]
    fn ahead(&self, behind: u64) -> u64 {
        self.other.moved.load(SeqCst).wrapping_add(behind).wrapping_sub(self.moved).min(N as u64)
    }

    /// One sleep, unless the wish is fulfilled by now.
    fn sleep(&self, behind: u64, wish: u64) -> Result<(), Failure> {
        self.own.state.store(wish, SeqCst);
        // The other end looks at the state after each change. It comes too late for one that was before.
        let late = self.ahead(behind) >= wish || self.other.state.load(SeqCst) == CLOSED;
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

    /// This end moved `count` bytes. Wakes the other end if that is what it waits for: `there` bytes are there for it now.
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
            // The next wait finds that out.
            Err(failure) if failure.error == Error::NoPartner => Ok(()),
            woken => woken,
        }
    }

    fn close(&mut self) -> Result<(), Failure> {
        self.own.state.store(CLOSED, SeqCst);
        // Whatever it waits for does not come any more.
        self.wake(CLOSED - 1)
    }
}

/// The end to write to.
#[derive(Debug)]
pub struct WriteEnd<'a, const N: usize, P: Partner = Id>(End<'a, N, P>);

impl<const N: usize, P: Partner> WriteEnd<'_, N, P> {
    /// Writes all of `bytes`, and waits until they are in the pipe. `NoPartner`: nobody will read them.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut rest = bytes;
        while !rest.is_empty() {
            // Not for each byte that gets free: for all that is left, or half of the pipe.
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
        // SAFETY: the first piece ends where the memory ends at the latest, and both together are no longer than it.
        unsafe {
            place.copy_from_nonoverlapping(first.as_ptr(), first.len());
            if !second.is_empty() {
                self.0.pipe.place(0).0.copy_from_nonoverlapping(second.as_ptr(), second.len());
            }
        }
    }

    /// Closes it: who reads gets what is left, then the end.
    pub fn close(mut self) -> Result<(), Failure> {
        self.0.close()
    }
}

/// The end to read from.
#[derive(Debug)]
pub struct ReadEnd<'a, const N: usize, P: Partner = Id>(End<'a, N, P>);

impl<const N: usize, P: Partner> ReadEnd<'_, N, P> {
    /// Waits for bytes, and takes as many as there are and `buffer` holds; 0 at the end.
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

    /// Closes it: who writes is refused.
    pub fn close(mut self) -> Result<(), Failure> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{sync_channel, Receiver, SyncSender};
    use std::thread::{scope, Scope};

    /// A thread of the host, met as ipc meets: who wakes waits until the other one is there.
    struct Host(SyncSender<()>, Receiver<()>);

    fn gone<T>(_: T) -> Failure {
        Failure::call(Error::NoPartner)
    }

    impl Partner for Host {
        fn give_way(&self) {
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
    /// Bytes that a test sends through.
    const TOTAL: usize = 3_000;

    /// Byte `index` of what is sent.
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
                // The byte that was read may have been what the last one waited for.
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

    /// A partner that nobody may wait for.
    struct Nobody;

    impl Partner for Nobody {
        fn give_way(&self) {}

        fn wake(&self) -> Result<(), Failure> {
            panic!("it does not wait");
        }

        fn wait(&self) -> Result<(), Failure> {
            panic!("nobody wakes this end");
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
