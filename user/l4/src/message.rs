// SPDX-License-Identifier: BSD-2-Clause
//! Typed messages. A request is an enum, a reply is a plain value; both are passed in the six
//! register words of a short message.
//!
//! `requests!` defines the enum and its encoding. Decoding trusts no sender: an unknown label is
//! `NotSupported`, a word that does not fit its field is `Invalid`. A reply has label 0 or an error
//! code, like the answers of kernel objects.

use crate::call::Failure;
use crate::ipc::{call, Message, Received};
use core::ops::Deref;
use keel_abi::call::REGISTER_WORDS;
use keel_abi::{Error, Fpage, Id};

/// Words that a typed message can carry.
pub const WORDS: usize = REGISTER_WORDS as usize;

/// Writes fields into the words of a message, in order.
#[derive(Debug, Default)]
pub struct Writer {
    words: [u64; WORDS],
    used: usize,
}

impl Writer {
    /// Appends a word. `requests!` and [`reply`] reject at compile time what does not fit.
    #[inline]
    pub fn word(&mut self, word: u64) {
        self.words[self.used] = word;
        self.used += 1;
    }

    /// The message with the words that were written.
    #[inline]
    pub fn message(&self, label: u32) -> Message {
        Message::new(label, &self.words[..self.used])
    }
}

/// Reads fields from the words of a message, in the same order.
#[derive(Debug)]
pub struct Reader {
    words: [u64; WORDS],
    used: usize,
}

impl Reader {
    /// Reads `words` from the first on.
    #[inline]
    pub fn new(words: [u64; WORDS]) -> Reader {
        Reader { words, used: 0 }
    }

    /// The next word; `None` after the last.
    #[inline]
    pub fn word(&mut self) -> Option<u64> {
        let word = self.words.get(self.used).copied();
        self.used += 1;
        word
    }
}

/// A value that takes a fixed number of words.
pub trait Field: Sized {
    /// The number of words.
    const WORDS: usize;

    /// Writes the value.
    fn put(&self, words: &mut Writer);

    /// Reads the value; `None` if the words do not encode one.
    fn take(words: &mut Reader) -> Option<Self>;
}

/// Implements [`Field`] for types of one word: conversion to a word, and back.
macro_rules! one_word {
    ($($name:ty: $to:expr, $from:expr;)*) => { $(
        impl Field for $name {
            const WORDS: usize = 1;

            #[inline]
            fn put(&self, words: &mut Writer) {
                let to: fn($name) -> u64 = $to;
                words.word(to(*self));
            }

            #[inline]
            fn take(words: &mut Reader) -> Option<$name> {
                let from: fn(u64) -> Option<$name> = $from;
                from(words.word()?)
            }
        }
    )* };
}

one_word! {
    u64: |value| value, Some;
    u32: u64::from, |word| word.try_into().ok();
    u16: u64::from, |word| word.try_into().ok();
    u8: u64::from, |word| word.try_into().ok();
    bool: u64::from, |word| (word <= 1).then_some(word == 1);
    Id: |id| id.0, |word| Some(Id(word));
    Fpage: |fpage| fpage.0, |word| Some(Fpage(word));
}

/// Implements [`Field`] for tuples: their fields in order.
macro_rules! tuples {
    ($($($name:ident)*;)*) => { $(
        impl<$($name: Field),*> Field for ($($name,)*) {
            const WORDS: usize = 0 $(+ $name::WORDS)*;

            #[allow(non_snake_case, unused_variables, clippy::unused_unit)]
            fn put(&self, words: &mut Writer) {
                let ($($name,)*) = self;
                $($name.put(words);)*
            }

            #[allow(unused_variables, clippy::unused_unit)]
            fn take(words: &mut Reader) -> Option<Self> {
                Some(($($name::take(words)?,)*))
            }
        }
    )* };
}

tuples! {
    ;
    A;
    A B;
    A B C;
    A B C D;
}

/// A few bytes in a message: their number, then `W` words that contain them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bytes<const W: usize> {
    words: [[u8; 8]; W],
    used: usize,
}

impl<const W: usize> Bytes<W> {
    /// The most bytes that fit.
    pub const CAPACITY: usize = 8 * W;

    /// The first [`Bytes::CAPACITY`] of `bytes`.
    pub fn new(bytes: &[u8]) -> Bytes<W> {
        let mut copy = Bytes { words: [[0; 8]; W], used: bytes.len().min(Self::CAPACITY) };
        copy.words.as_flattened_mut()[..copy.used].copy_from_slice(&bytes[..copy.used]);
        copy
    }
}

impl<const W: usize> Deref for Bytes<W> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.words.as_flattened()[..self.used]
    }
}

impl<const W: usize> Field for Bytes<W> {
    const WORDS: usize = 1 + W;

    fn put(&self, words: &mut Writer) {
        words.word(self.used as u64);
        self.words.iter().for_each(|word| words.word(u64::from_le_bytes(*word)));
    }

    /// A number of bytes above the capacity is cut to it.
    fn take(words: &mut Reader) -> Option<Bytes<W>> {
        let used = words.word()?.min(Self::CAPACITY as u64) as usize;
        let mut bytes = Bytes { words: [[0; 8]; W], used };
        for place in &mut bytes.words {
            *place = words.word()?.to_le_bytes();
        }
        Some(bytes)
    }
}

/// A client's request to a server; `requests!` implements it.
pub trait Request: Sized {
    /// The message that carries the request.
    fn encode(&self) -> Message;

    /// Decodes `received`: `NotSupported` for an unknown label, `Invalid` for an invalid word.
    fn decode(received: &Received) -> Result<Self, Error>;
}

/// The requests of a server that accepts none.
#[derive(Clone, Copy, Debug)]
pub enum NoRequest {}

impl Request for NoRequest {
    fn encode(&self) -> Message {
        match *self {}
    }

    fn decode(_: &Received) -> Result<NoRequest, Error> {
        Err(Error::NotSupported)
    }
}

/// The message that answers a request.
pub fn reply<A: Field>(result: Result<A, Error>) -> Message {
    const { assert!(A::WORDS <= WORDS, "the reply does not fit into the register words") };
    match result {
        Ok(value) => {
            let mut words = Writer::default();
            value.put(&mut words);
            words.message(0)
        }
        Err(error) => Message::label(error as u32),
    }
}

/// The value in an answer, or the error that it carries.
pub fn value<A: Field>(answer: Received) -> Result<A, Failure> {
    let answer = answer.accepted()?;
    A::take(&mut Reader::new(answer.words)).ok_or(Failure::call(Error::Invalid))
}

/// Sends a request to `server` and waits for the answer. An error in the answer becomes a failure
/// of the call.
pub fn ask<A: Field>(server: Id, request: &impl Request) -> Result<A, Failure> {
    value(call(server, request.encode())?)
}

/// Defines an enum of requests. Each has a label; its fields (any [`Field`]) follow in the words.
///
/// ```ignore
/// requests! {
///     /// What the calculator can do.
///     pub enum Request {
///         /// Adds two numbers; answers their sum.
///         Add { left: u64, right: u64 } = 1,
///         /// Forgets everything.
///         Clear = 2,
///     }
/// }
/// ```
#[macro_export]
macro_rules! requests {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $(
        $(#[$about:meta])* $request:ident $({ $( $(#[$doc:meta])* $field:ident : $type:ty ),+ $(,)? })? = $label:expr
    ),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $vis enum $name { $( $(#[$about])* $request $({ $( $(#[$doc])* $field: $type ),+ })? ),+ }

        impl $crate::message::Request for $name {
            fn encode(&self) -> $crate::ipc::Message {
                let mut words = $crate::message::Writer::default();
                match self { $(
                    $name::$request $({ $($field),+ })? => {
                        $(
                            const { assert!(0 $(+ <$type as $crate::message::Field>::WORDS)+ <= $crate::message::WORDS) };
                            $( $crate::message::Field::put($field, &mut words); )+
                        )?
                        words.message($label as u32)
                    }
                )+ }
            }

            fn decode(received: &$crate::ipc::Received) -> Result<$name, $crate::Error> {
                #[allow(unused_mut, unused_variables)]
                let mut words = $crate::message::Reader::new(received.words);
                let label = received.tag.label();
                $(
                    if label == $label as u32 {
                        return Ok($name::$request $({ $(
                            $field: $crate::message::Field::take(&mut words).ok_or($crate::Error::Invalid)?
                        ),+ })?);
                    }
                )+
                Err($crate::Error::NotSupported)
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_abi::{Side, Tag};

    requests! {
        /// Requests of all kinds.
        enum Sample {
            /// Nothing beside the label.
            Plain = 1,
            /// Numbers of all sizes.
            Numbers {
                /// One byte.
                small: u8,
                /// Two bytes.
                medium: u16,
                /// Four bytes.
                large: u32,
                /// A truth.
                truth: bool,
                /// A thread.
                thread: Id,
                /// A flexpage.
                fpage: Fpage,
            } = 2,
            /// Text.
            Text {
                /// The text.
                text: Bytes<5>,
            } = 3,
        }
    }

    fn arrive(message: Message) -> Received {
        Received { from: Id::ROOT, tag: message.tag, words: message.words }
    }

    #[test]
    fn requests_come_back() {
        let numbers =
            Sample::Numbers { small: 255, medium: 65535, large: 7, truth: true, thread: Id::ROOT, fpage: Fpage::WHOLE };
        for request in [Sample::Plain, numbers, Sample::Text { text: Bytes::new(b"some words") }] {
            assert_eq!(Sample::decode(&arrive(request.encode())), Ok(request));
        }
        assert_eq!(numbers.encode().tag, Tag::new(2, 6));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        assert_eq!(Sample::decode(&arrive(Message::label(4))), Err(Error::NotSupported));
        for words in [[256, 0, 0, 0, 0, 0], [0, 65536, 0, 0, 0, 0], [0, 0, 1 << 32, 0, 0, 0], [0, 0, 0, 2, 0, 0]] {
            let received = Received { from: Id::ROOT, tag: Tag::new(2, 6), words };
            assert_eq!(Sample::decode(&received), Err(Error::Invalid));
        }
        assert!(matches!(NoRequest::decode(&arrive(Message::label(0))), Err(Error::NotSupported)));
    }

    #[test]
    fn text_comes_back_and_a_lying_length_is_cut() {
        for text in
            ["", "a", "exactly forty bytes of text, no more ...", "more than forty bytes, of which the rest is cut"]
        {
            let request = Sample::Text { text: Bytes::new(text.as_bytes()) };
            let Ok(Sample::Text { text: came }) = Sample::decode(&arrive(request.encode())) else {
                panic!("no text came");
            };
            assert_eq!(&*came, &text.as_bytes()[..text.len().min(40)]);
        }
        let lie = Received { from: Id::ROOT, tag: Tag::new(3, 6), words: [u64::MAX, 0, 0, 0, 0, 0] };
        assert_eq!(Sample::decode(&lie), Ok(Sample::Text { text: Bytes::new(&[0; 40]) }));
    }

    #[test]
    fn replies_are_values_or_errors() {
        assert_eq!(value::<(u64, bool)>(arrive(reply(Ok((5u64, true))))), Ok((5, true)));
        assert_eq!(value::<()>(arrive(reply(Ok(())))), Ok(()));
        let denied = Failure { side: Side::Call, error: Error::Denied };
        assert_eq!(value::<u64>(arrive(reply::<u64>(Err(Error::Denied)))), Err(denied));
        assert_eq!(value::<bool>(arrive(reply(Ok(2u64)))), Err(Failure::call(Error::Invalid)));
    }
}
