// SPDX-License-Identifier: BSD-2-Clause
//! A pipe with POSIX's rules: a bounded buffer. A write of at most [`ATOMIC`] bytes is written as a
//! whole. A client waits if there is no room, or nothing to read. An empty pipe without a writer is
//! the end; a pipe without a reader is an error for the writer.
//!
//! L4 messages are synchronous and the kernel does not buffer them, so a thread buffers the bytes:
//! [`thread`] is its loop, [`Pipe`] its decisions, [`WriteEnd`] and [`ReadEnd`] its clients. One
//! side holds each end and closes it once. A client that is deleted before it closes its end leaves
//! it open.

use crate::ring::Ring;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message, Received, MAX_BYTES};
use keel_l4::list::List;
use keel_l4::message::{ask, reply, value, Request as _};
use keel_l4::server::{self, answer_later, Server};
use keel_l4::{requests, Error, Id};

/// Capacity in bytes.
pub const CAPACITY: usize = 4096;
/// The longest write that is never mixed with another: one message.
pub const ATOMIC: usize = MAX_BYTES;
/// Threads that can wait at either end.
const WAITERS: usize = 4;

requests! {
    /// The services of the pipe's thread.
    pub enum Request {
        /// Takes the bytes after the words (at most [`ATOMIC`]); answers their number when they are
        /// in the buffer.
        Write {
            /// The number of bytes.
            count: u64,
        } = 1,
        /// Answers the number of bytes, with the bytes after the words; 0 at the end.
        Read {
            /// The most bytes to read.
            most: u64,
        } = 2,
        /// Closes the write end.
        CloseWrite = 3,
        /// Closes the read end.
        CloseRead = 4,
    }
}

/// The bytes of one message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    bytes: [u8; ATOMIC],
    used: usize,
}

impl Chunk {
    /// No bytes.
    pub const EMPTY: Chunk = Chunk { bytes: [0; ATOMIC], used: 0 };

    /// The first [`ATOMIC`] bytes of `bytes`.
    pub fn new(bytes: &[u8]) -> Chunk {
        let mut chunk = Chunk::EMPTY;
        chunk.add(bytes);
        chunk
    }

    /// Appends the first of `bytes`, as many as fit.
    pub fn add(&mut self, bytes: &[u8]) {
        let added = bytes.len().min(ATOMIC - self.used);
        self.bytes[self.used..self.used + added].copy_from_slice(&bytes[..added]);
        self.used += added;
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }
}

/// An answer to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<'a> {
    /// This many bytes were written, or an end was closed.
    Done(u64),
    /// These bytes were read; none at the end of the pipe.
    Data(&'a [u8]),
    /// The request failed.
    Refused(Error),
}

impl Answer<'_> {
    /// The reply to the client.
    pub fn message(&self) -> Message {
        match self {
            Answer::Done(count) => reply(Ok(*count)),
            Answer::Data(bytes) => reply(Ok(bytes.len() as u64)).with_bytes(bytes),
            Answer::Refused(error) => reply::<u64>(Err(*error)),
        }
    }
}

/// The state of a pipe. Each method passes the answers, each with its client, to `answer`: for the
/// caller, or for others that waited. At most one of them gets bytes, except at the end of the
/// pipe.
pub struct Pipe {
    ring: Ring<CAPACITY>,
    writing: bool,
    reading: bool,
    writers: List<(Id, Chunk), WAITERS>,
    readers: List<(Id, usize), WAITERS>,
}

impl Pipe {
    /// An empty pipe, open at both ends.
    pub const fn new() -> Pipe {
        Pipe {
            ring: Ring::new(),
            writing: true,
            reading: true,
            writers: List::empty((Id::NIL, Chunk::EMPTY)),
            readers: List::empty((Id::NIL, 0)),
        }
    }

    /// `from` writes `bytes`, at most [`ATOMIC`].
    pub fn write(&mut self, from: Id, bytes: &[u8], mut answer: impl FnMut(Id, Answer)) {
        if !self.writing {
            answer(from, Answer::Refused(Error::Denied));
        } else if !self.reading {
            answer(from, Answer::Refused(Error::NoPartner));
        } else if self.writers.is_empty() && bytes.len() <= self.ring.room() {
            self.ring.put(bytes);
            answer(from, Answer::Done(bytes.len() as u64));
        } else if self.writers.push((from, Chunk::new(bytes))).is_err() {
            answer(from, Answer::Refused(Error::Busy));
        }
        self.pump(answer);
    }

    /// `from` reads at most `most` bytes.
    pub fn read(&mut self, from: Id, most: u64, mut answer: impl FnMut(Id, Answer)) {
        if !self.reading {
            answer(from, Answer::Refused(Error::Denied));
        } else if most == 0 {
            answer(from, Answer::Data(&[]));
        } else if self.readers.push((from, most.min(ATOMIC as u64) as usize)).is_err() {
            answer(from, Answer::Refused(Error::Busy));
        }
        self.pump(answer);
    }

    /// Closes the write end: readers get what is left, then the end.
    pub fn close_write(&mut self, from: Id, mut answer: impl FnMut(Id, Answer)) {
        self.writing = false;
        answer(from, Answer::Done(0));
        self.pump(answer);
    }

    /// Closes the read end: writers fail, also those that wait.
    pub fn close_read(&mut self, from: Id, mut answer: impl FnMut(Id, Answer)) {
        self.reading = false;
        answer(from, Answer::Done(0));
        self.writers.iter().for_each(|(writer, _)| answer(*writer, Answer::Refused(Error::NoPartner)));
        self.writers.remove(0, self.writers.len());
        self.readers.iter().for_each(|(reader, _)| answer(*reader, Answer::Refused(Error::Denied)));
        self.readers.remove(0, self.readers.len());
    }

    /// Moves bytes as long as the client at the head of a queue can be served.
    fn pump(&mut self, mut answer: impl FnMut(Id, Answer)) {
        loop {
            if let Some((writer, chunk)) = self.writers.first().filter(|(_, chunk)| chunk.used <= self.ring.room()) {
                self.ring.put(chunk.bytes());
                answer(*writer, Answer::Done(chunk.used as u64));
                self.writers.remove(0, 1);
                continue;
            }
            let ended = !self.writing && self.writers.is_empty();
            match self.readers.first().copied().filter(|_| self.ring.used() > 0 || ended) {
                Some((reader, most)) => {
                    self.readers.remove(0, 1);
                    let oldest = self.ring.front(most);
                    let count = oldest.len();
                    answer(reader, Answer::Data(oldest));
                    self.ring.remove(count);
                }
                None => return,
            }
        }
    }
}

impl Default for Pipe {
    fn default() -> Pipe {
        Pipe::new()
    }
}

/// A pipe as a server, and the bytes of the last answer.
struct Thread {
    pipe: Pipe,
    came: [u8; ATOMIC],
}

impl Server for Thread {
    type Request = Request;

    /// The client that sent the request is answered with the next wait, in one ipc; each of the
    /// others by an ipc of its own. Bytes for the former stay in the UTCB meanwhile: the others
    /// that are answered then are writers and get no bytes.
    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        let caller = received.from;
        let mut own = None;
        let answer = |to, answer: Answer| {
            if to == caller {
                own = Some(answer.message());
            } else {
                answer_later(to, answer.message());
            }
        };
        match request {
            Request::Write { count } => match received.bytes(count, &mut self.came) {
                Ok(count) => self.pipe.write(caller, &self.came[..count], answer),
                Err(error) => return Some(reply::<u64>(Err(error))),
            },
            Request::Read { most } => self.pipe.read(caller, most, answer),
            Request::CloseWrite => self.pipe.close_write(caller, answer),
            Request::CloseRead => self.pipe.close_read(caller, answer),
        }
        own
    }
}

/// The main function of a pipe's thread.
pub extern "C" fn thread(_: u64) -> ! {
    server::run(&mut Thread { pipe: Pipe::new(), came: [0; ATOMIC] })
}

/// The write end.
#[derive(Debug)]
pub struct WriteEnd(Id);

impl WriteEnd {
    /// The write end of the pipe of `thread`.
    pub fn new(thread: Id) -> WriteEnd {
        WriteEnd(thread)
    }

    /// Writes all of `bytes` and waits until they are in the pipe. `NoPartner` if no reader is
    /// left.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        for chunk in bytes.chunks(ATOMIC) {
            let request = Request::Write { count: chunk.len() as u64 };
            value::<u64>(call(self.0, request.encode().with_bytes(chunk))?)?;
        }
        Ok(())
    }

    /// Closes it.
    pub fn close(self) -> Result<(), Failure> {
        ask::<u64>(self.0, &Request::CloseWrite).map(|_| ())
    }
}

/// The read end.
#[derive(Debug)]
pub struct ReadEnd(Id);

impl ReadEnd {
    /// The read end of the pipe of `thread`.
    pub fn new(thread: Id) -> ReadEnd {
        ReadEnd(thread)
    }

    /// Waits for bytes and takes as many as are available and fit into `buffer`. Returns 0 at the
    /// end.
    pub fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Failure> {
        let answer = call(self.0, Request::Read { most: buffer.len() as u64 }.encode())?;
        let count = value::<u64>(answer)?;
        answer.bytes(count, buffer).map_err(Failure::call)
    }

    /// Closes it.
    pub fn close(self) -> Result<(), Failure> {
        ask::<u64>(self.0, &Request::CloseRead).map(|_| ())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const A: Id = Id(1);
    const B: Id = Id(2);

    /// An answer, with bytes of its own.
    #[derive(Debug, PartialEq)]
    enum Told {
        Done(u64),
        Data(Vec<u8>),
        Refused(Error),
    }

    fn answers(act: impl FnOnce(&mut dyn FnMut(Id, Answer))) -> Vec<(Id, Told)> {
        let mut list = Vec::new();
        act(&mut |to, answer| {
            let told = match answer {
                Answer::Done(count) => Told::Done(count),
                Answer::Data(bytes) => Told::Data(bytes.to_vec()),
                Answer::Refused(error) => Told::Refused(error),
            };
            list.push((to, told));
        });
        list
    }

    fn data(bytes: &[u8]) -> Told {
        Told::Data(bytes.to_vec())
    }

    #[test]
    fn a_reader_waits_for_bytes_and_gets_the_end() {
        let mut pipe = Pipe::new();
        assert!(answers(|a| pipe.read(B, 10, a)).is_empty());
        assert!(answers(|a| pipe.write(A, b"some", a)) == [(A, Told::Done(4)), (B, data(b"some"))]);
        assert!(answers(|a| pipe.write(A, b"more words", a)) == [(A, Told::Done(10))]);
        assert!(answers(|a| pipe.close_write(A, a)) == [(A, Told::Done(0))]);
        assert!(answers(|a| pipe.read(B, 5, a)) == [(B, data(b"more "))]);
        assert!(answers(|a| pipe.read(B, 9, a)) == [(B, data(b"words"))]);
        assert!(answers(|a| pipe.read(B, 9, a)) == [(B, data(b""))]);
        assert!(answers(|a| pipe.write(A, b"late", a)) == [(A, Told::Refused(Error::Denied))]);
    }

    #[test]
    fn a_writer_waits_for_room_and_is_refused_without_readers() {
        let mut pipe = Pipe::new();
        let full = &[7; ATOMIC];
        for _ in 0..CAPACITY / ATOMIC {
            assert!(answers(|a| pipe.write(A, full, a)) == [(A, Told::Done(ATOMIC as u64))]);
        }
        assert!(answers(|a| pipe.write(A, full, a)).is_empty());
        // A small read does not split the write that waits.
        assert!(answers(|a| pipe.read(B, 1, a)) == [(B, data(&[7]))]);
        assert!(answers(|a| pipe.close_read(B, a)) == [(B, Told::Done(0)), (A, Told::Refused(Error::NoPartner))]);
        assert!(answers(|a| pipe.write(A, full, a)) == [(A, Told::Refused(Error::NoPartner))]);
        assert!(answers(|a| pipe.read(B, 1, a)) == [(B, Told::Refused(Error::Denied))]);
    }

    #[test]
    fn closing_lets_waiting_readers_go() {
        let mut pipe = Pipe::new();
        for reader in 0..WAITERS as u64 {
            assert!(answers(|a| pipe.read(Id(10 + reader), 1, a)).is_empty());
        }
        assert!(answers(|a| pipe.read(B, 1, a)) == [(B, Told::Refused(Error::Busy))]);
        assert!(answers(|a| pipe.read(B, 0, a)) == [(B, data(b""))]);
        let ended = answers(|a| pipe.close_write(A, a));
        assert!(ended.len() == 1 + WAITERS && ended[1..].iter().all(|(_, answer)| *answer == data(b"")));
    }

    /// Random writes and reads against a queue of bytes: nothing is lost, doubled or mixed.
    #[test]
    fn it_is_the_queue_that_it_promises() {
        let mut state = 0x1234_5678_9abc_def1u64;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut pipe, mut queue) = (Pipe::new(), VecDeque::new());
        let (mut writes, mut reads, mut next, mut got) = (false, false, 0u8, 0u64);
        for _ in 0..20_000 {
            let list = if random(2) == 0 && !writes {
                let bytes: Vec<u8> = (0..random(ATOMIC as u64))
                    .map(|_| {
                        next = next.wrapping_add(1);
                        next
                    })
                    .collect();
                queue.extend(bytes.iter().copied());
                writes = true;
                answers(|a| pipe.write(A, &bytes, a))
            } else if !reads {
                reads = true;
                answers(|a| pipe.read(B, 1 + random(2000), a))
            } else {
                Vec::new()
            };
            for (to, answer) in list {
                match answer {
                    Told::Done(_) => writes = to != A,
                    Told::Data(bytes) => {
                        reads = false;
                        got += bytes.len() as u64;
                        assert!(bytes.iter().all(|byte| queue.pop_front() == Some(*byte)));
                    }
                    Told::Refused(error) => panic!("{error:?}"),
                }
            }
        }
        assert!(got > 1_000_000, "{got}");
    }
}
