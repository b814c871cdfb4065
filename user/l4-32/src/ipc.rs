// SPDX-License-Identifier: BSD-2-Clause
//! Messages between threads. A message has a label and up to three words of 32 bits, with which a
//! call and a reply with open wait are fast between such threads; then words 3 to 5, which have 64
//! bits, bytes, and map items. All of these are in the UTCB until the thread's next ipc.

use crate::call::{invoke, Failure, Registers};
use crate::utcb;
use keel_abi::call::{CALL_IPC, IPC_OPEN, IPC_RECEIVE, IPC_SEND, REGISTER_WORDS, TAG_MAPS_SHIFT, TAG_WORDS_SHIFT};
use keel_abi::programs::{IPC_RECEIVE_ZERO, IPC_SEND_ZERO};
use keel_abi::{Error, Id, MapItem, Tag};
use keel_protocol::status::error_of;

/// Words of 32 bits.
pub const WORDS: usize = 3;
/// The first words of 64 bits, which a 64-bit thread has in registers, too.
const LONG_WORDS: usize = REGISTER_WORDS as usize;

/// How long a phase waits for its partner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Timeout {
    /// Without end.
    Never,
    /// No wait: the partner must be ready.
    Zero,
}

/// A message to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// The tag without the label.
    tag: u32,
    label: u32,
    words: [u32; WORDS],
}

impl Message {
    /// A message with up to three words; further ones are dropped.
    #[inline]
    pub fn new(label: u32, words: &[u32]) -> Message {
        let count = words.len().min(WORDS);
        let mut message = Message { tag: (count as u32) << TAG_WORDS_SHIFT, label, words: [0; WORDS] };
        message.words[..count].copy_from_slice(&words[..count]);
        message
    }

    /// The message with the words 3 to 5, which have 64 bits.
    pub fn with_long(mut self, long: [u64; LONG_WORDS - WORDS]) -> Message {
        long.into_iter().enumerate().for_each(|(index, word)| utcb::set_word(WORDS + index, word));
        self.tag = self.tag & !0xff | (LONG_WORDS as u32) << TAG_WORDS_SHIFT;
        self
    }

    /// The message with bytes (at most [`utcb::BYTES`]) after word 5, padded to whole words. A word
    /// must carry their number if it matters.
    pub fn with_bytes(mut self, bytes: &[u8]) -> Message {
        utcb::set_bytes(bytes);
        let words = LONG_WORDS + bytes.len().div_ceil(size_of::<u64>());
        self.tag = self.tag & !0xff | (words as u32) << TAG_WORDS_SHIFT;
        self
    }

    /// The message with the map items `items`.
    pub fn with_maps(mut self, items: &[MapItem]) -> Message {
        items.iter().enumerate().for_each(|(index, item)| utcb::set_map_item(index, *item));
        self.tag |= (items.len() as u32) << TAG_MAPS_SHIFT;
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
    /// Words 0 to 2.
    pub words: [u32; WORDS],
}

impl Received {
    /// Word 3, 4 or 5, until the next ipc.
    pub fn long(&self, index: usize) -> u64 {
        assert!((WORDS..LONG_WORDS).contains(&index));
        utcb::word(index)
    }

    /// Copies the first bytes after word 5 to `buffer`, as many as it has. `Invalid` if the message
    /// has fewer.
    pub fn bytes(&self, buffer: &mut [u8]) -> Result<(), Error> {
        let came = (self.tag.words() as usize).saturating_sub(LONG_WORDS) * size_of::<u64>();
        Error::Invalid.when(buffer.len() > came)?;
        utcb::bytes(buffer);
        Ok(())
    }

    /// The answer, or a failure if its label is an error code.
    pub fn accepted(self) -> Result<Received, Failure> {
        match error_of(self.tag.label() as u64) {
            Some(error) => Err(Failure::call(error)),
            None => Ok(self),
        }
    }
}

fn run(flags: u64, partner: Id, message: &Message) -> Result<Received, Failure> {
    utcb::set_word(0, message.label as u64);
    let after = invoke(Registers {
        ax: (CALL_IPC | flags) as u32,
        bx: message.tag,
        dx: message.words[0],
        cx: message.words[1],
        bp: message.words[2],
        di: partner.0 as u32,
        si: (partner.0 >> u32::BITS) as u32,
    })?;
    Ok(Received {
        from: Id(after.di as u64 | (after.si as u64) << u32::BITS),
        tag: Tag(after.bx as u64 | utcb::word(0) << u32::BITS),
        words: [after.dx, after.cx, after.bp],
    })
}

/// Sends `message` to `to`.
pub fn send(to: Id, message: Message, timeout: Timeout) -> Result<(), Failure> {
    let zero = if timeout == Timeout::Zero { IPC_SEND_ZERO } else { 0 };
    run(IPC_SEND | zero, to, &message).map(|_| ())
}

/// Receives from `from` only.
pub fn receive(from: Id, timeout: Timeout) -> Result<Received, Failure> {
    let zero = if timeout == Timeout::Zero { IPC_RECEIVE_ZERO } else { 0 };
    run(IPC_RECEIVE | zero, from, &Message::default())
}

/// Receives from any sender.
pub fn wait() -> Result<Received, Failure> {
    run(IPC_RECEIVE | IPC_OPEN, Id::NIL, &Message::default())
}

/// Sends `message` to `to` and receives its answer.
pub fn call(to: Id, message: Message) -> Result<Received, Failure> {
    run(IPC_SEND | IPC_RECEIVE, to, &message)
}

/// Sends `message` to `to`, which must wait for it, then receives from any sender.
pub fn reply_and_wait(to: Id, message: Message) -> Result<Received, Failure> {
    run(IPC_SEND | IPC_SEND_ZERO | IPC_RECEIVE | IPC_OPEN, to, &message)
}

/// The loop of a server that answers every message at once, until `answer` has none. A client that
/// does not wait for its answer gets none.
pub fn serve(mut answer: impl FnMut(&Received) -> Option<Message>) {
    let mut next = wait();
    loop {
        next = match next.map(|received| (received.from, answer(&received))) {
            Ok((from, Some(message))) => reply_and_wait(from, message),
            Ok((_, None)) => return,
            Err(_) => wait(),
        };
    }
}
