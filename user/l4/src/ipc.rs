// SPDX-License-Identifier: BSD-2-Clause
//! Messages between threads: send, receive, call, notify, sleep. These are wrappers of the one
//! system call, with timeouts. `message` gives messages types; `server` is the loop that answers
//! them. Words beyond the six in registers, and items, are in the calling thread's UTCB until its
//! next ipc. All functions fail with the phase (`Side`) and the error of the call.

use crate::call::{invoke, Failure, Registers};
use crate::utcb;
use keel_abi::call::{
    CALL_IPC, IPC_ANSWER, IPC_NOTIFY, IPC_OPEN, IPC_RECEIVE, IPC_RECEIVE_TIMEOUT_SHIFT, IPC_SEND,
    IPC_SEND_TIMEOUT_SHIFT, IPC_VIRTUAL_SENDER, REGISTER_WORDS, TIMEOUT_NEVER, TIMEOUT_UTCB, TIMEOUT_ZERO,
    TIME_ABSOLUTE,
};
use keel_abi::{Error, Id, MapItem, Status, StringItem, Tag};
use keel_protocol::status::{error_of, failure};

/// How long a phase waits for its partner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// Without end.
    Never,
    /// No wait: the partner must be ready.
    Zero,
    /// This many nanoseconds.
    After(u64),
    /// Until this kernel time.
    At(u64),
}

impl Timeout {
    /// The kind for the flags. `store` stores the time, if there is one.
    #[inline(always)]
    fn encode(self, store: fn(u64)) -> u64 {
        match self {
            Timeout::Never => TIMEOUT_NEVER,
            Timeout::Zero => TIMEOUT_ZERO,
            Timeout::After(time) => {
                store(time & !TIME_ABSOLUTE);
                TIMEOUT_UTCB
            }
            Timeout::At(time) => {
                store(time | TIME_ABSOLUTE);
                TIMEOUT_UTCB
            }
        }
    }
}

/// A message to send: its tag and the words that are passed in registers. Further words and the map
/// items are in the UTCB.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// The tag.
    pub tag: Tag,
    /// Words 0 to 5.
    pub words: [u64; REGISTER_WORDS as usize],
}

/// The most bytes that a message can carry after its register words.
pub const MAX_BYTES: usize = utcb::BYTES;

impl Message {
    /// A message that consists of a label.
    pub const fn label(label: u32) -> Message {
        Message { tag: Tag::new(label, 0), words: [0; REGISTER_WORDS as usize] }
    }

    /// A message with up to six words; further ones are dropped.
    #[inline]
    pub fn new(label: u32, words: &[u64]) -> Message {
        let mut message = Message::label(label);
        let count = words.len().min(REGISTER_WORDS as usize);
        message.words[..count].copy_from_slice(&words[..count]);
        message.tag = Tag::new(label, count as u64);
        message
    }

    /// Returns the message with the map items `items`, which are stored in the UTCB.
    pub fn with_maps(mut self, items: &[MapItem]) -> Message {
        for (index, item) in items.iter().enumerate() {
            utcb::set_map_item(index, *item);
        }
        self.tag = self.tag.with_maps(items.len() as u64);
        self
    }

    /// Returns the message with string items, which are stored in the UTCB.
    pub fn with_strings(mut self, parts: &[StringItem]) -> Message {
        for (index, part) in parts.iter().enumerate() {
            utcb::set_string(index, *part);
        }
        self.tag = self.tag.with_strings(parts.len() as u64);
        self
    }

    /// Returns the message with `bytes` (at most [`MAX_BYTES`]) after the register words. The bytes
    /// are stored in the UTCB and padded to whole words; the register words must carry their number
    /// if it matters.
    pub fn with_bytes(mut self, bytes: &[u8]) -> Message {
        utcb::set_bytes(bytes);
        let words = REGISTER_WORDS + bytes.len().div_ceil(size_of::<u64>()) as u64;
        self.tag = Tag::new(self.tag.label(), words).with_maps(self.tag.maps()).with_strings(self.tag.strings());
        self
    }
}

/// A received message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The sender.
    pub from: Id,
    /// Its tag.
    pub tag: Tag,
    /// Words 0 to 5.
    pub words: [u64; REGISTER_WORDS as usize],
}

impl Received {
    /// Returns an answer, or a failure if its label is an error code. Servers and kernel objects
    /// answer with label 0 or an error code.
    #[inline]
    pub fn accepted(self) -> Result<Received, Failure> {
        match error_of(self.tag.label() as u64) {
            Some(error) => Err(Failure::call(error)),
            None => Ok(self),
        }
    }

    /// Copies the first `count` bytes after the register words to the front of `buffer`. They stay
    /// in the UTCB until the next ipc. `Invalid` if the message has fewer, or the buffer is too
    /// small.
    pub fn bytes(&self, count: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let came = self.tag.words().saturating_sub(REGISTER_WORDS) * size_of::<u64>() as u64;
        if count > came || count > buffer.len() as u64 {
            return Err(Error::Invalid);
        }
        utcb::bytes(&mut buffer[..count as usize]);
        Ok(count as usize)
    }
}

impl From<Registers> for Received {
    #[inline]
    fn from(registers: Registers) -> Received {
        Received { from: Id(registers.di), tag: Tag(registers.si), words: registers.words }
    }
}

/// The two phases of an ipc, before they are encoded in registers.
#[derive(Clone, Copy, Debug, Default)]
struct Phases {
    flags: u64,
    to: u64,
    message: Message,
    from: u64,
}

impl Phases {
    #[inline(always)]
    fn send(mut self, to: Id, message: Message, timeout: Timeout) -> Phases {
        self.flags |= IPC_SEND | timeout.encode(utcb::set_send_timeout) << IPC_SEND_TIMEOUT_SHIFT;
        self.to = to.0;
        self.message = message;
        self
    }

    fn shown_as(mut self, sender: Id) -> Phases {
        self.flags |= IPC_VIRTUAL_SENDER;
        utcb::set_virtual_sender(sender);
        self
    }

    #[inline(always)]
    fn receive(mut self, timeout: Timeout) -> Phases {
        self.flags |= IPC_RECEIVE | timeout.encode(utcb::set_receive_timeout) << IPC_RECEIVE_TIMEOUT_SHIFT;
        self
    }

    #[inline(always)]
    fn from(mut self, from: Id) -> Phases {
        self.from = from.0;
        self
    }

    #[inline(always)]
    fn open(mut self) -> Phases {
        self.flags |= IPC_OPEN;
        self
    }

    #[inline]
    fn run(self) -> Result<Received, Failure> {
        let after = invoke(Registers {
            ax: CALL_IPC | self.flags,
            di: self.to,
            si: self.message.tag.0,
            dx: self.from,
            words: self.message.words,
        });
        match failure(Status(after.ax)) {
            Some((side, error)) => Err(Failure { side, error }),
            None => Ok(Received::from(after)),
        }
    }
}

/// Sends `message` to `to`.
#[inline]
pub fn send(to: Id, message: Message, timeout: Timeout) -> Result<(), Failure> {
    Phases::default().send(to, message, timeout).run().map(|_| ())
}

/// Sends `message` to `to` with the virtual sender `sender`. Only a chief may do this, and only if
/// the message goes in the same direction.
pub fn send_as(sender: Id, to: Id, message: Message, timeout: Timeout) -> Result<(), Failure> {
    Phases::default().send(to, message, timeout).shown_as(sender).run().map(|_| ())
}

/// Sends `message` to `to` if that thread waits for the answer to its fault; otherwise fails with
/// `Timeout`.
pub fn answer_fault(to: Id, message: Message) -> Result<(), Failure> {
    let mut phases = Phases::default().send(to, message, Timeout::Zero);
    phases.flags |= IPC_ANSWER;
    phases.run().map(|_| ())
}

/// Receives from `from` only.
#[inline]
pub fn receive(from: Id, timeout: Timeout) -> Result<Received, Failure> {
    Phases::default().receive(timeout).from(from).run()
}

/// Receives from any sender.
#[inline]
pub fn wait(timeout: Timeout) -> Result<Received, Failure> {
    Phases::default().receive(timeout).open().run()
}

/// Sends `message` to `to` and receives its answer.
#[inline]
pub fn call(to: Id, message: Message) -> Result<Received, Failure> {
    call_within(to, message, Timeout::Never, Timeout::Never)
}

/// [`call`] with timeouts for both phases.
#[inline]
pub fn call_within(to: Id, message: Message, send: Timeout, receive: Timeout) -> Result<Received, Failure> {
    Phases::default().send(to, message, send).receive(receive).from(to).run()
}

/// Sends `message` to `to`, then receives from any sender.
#[inline]
pub fn send_and_wait(to: Id, message: Message, send: Timeout, receive: Timeout) -> Result<Received, Failure> {
    Phases::default().send(to, message, send).receive(receive).open().run()
}

/// [`send_and_wait`] with the virtual sender `sender`.
pub fn send_as_and_wait(
    sender: Id,
    to: Id,
    message: Message,
    send: Timeout,
    receive: Timeout,
) -> Result<Received, Failure> {
    Phases::default().send(to, message, send).shown_as(sender).receive(receive).open().run()
}

/// ORs `bits` into the notification word of `to`. Never waits.
pub fn notify(to: Id, bits: u64) -> Result<(), Failure> {
    let mut phases = Phases::default().send(to, Message::new(0, &[bits]), Timeout::Never);
    phases.flags |= IPC_NOTIFY;
    phases.run().map(|_| ())
}

/// ORs `bits` into the notification word of `to`, then receives from any sender.
pub fn notify_and_wait(to: Id, bits: u64, timeout: Timeout) -> Result<Received, Failure> {
    let mut phases = Phases::default().send(to, Message::new(0, &[bits]), Timeout::Never).receive(timeout).open();
    phases.flags |= IPC_NOTIFY;
    phases.run()
}

/// Sleeps for `nanoseconds`. A cancellation ends the sleep early.
pub fn sleep(nanoseconds: u64) {
    // The call ends by its timeout or by a cancellation; both end the sleep.
    let _ = receive(Id::NIL, Timeout::After(nanoseconds));
}
