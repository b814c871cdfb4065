// SPDX-License-Identifier: BSD-2-Clause
//! A test case, how it fails, and the checks that make it fail.

use core::fmt::{self, Write};
use keel_l4::call::Failure;

/// What a case returns.
pub type Outcome = Result<(), Fault>;

/// A case: its name and its function.
pub type Case = (&'static str, fn() -> Outcome);

/// Longest description of a failure.
const TEXT_BYTES: usize = 240;

/// Why a case failed, in words.
#[derive(Clone, Copy)]
pub struct Fault {
    bytes: [u8; TEXT_BYTES],
    used: usize,
}

impl Fault {
    /// No text.
    pub const fn empty() -> Fault {
        Fault { bytes: [0; TEXT_BYTES], used: 0 }
    }

    /// A failure with this text (cut if it is too long).
    pub fn new(arguments: fmt::Arguments<'_>) -> Fault {
        let mut fault = Fault::empty();
        // Only a text that is too long fails; its beginning is kept.
        let _ = fault.write_fmt(arguments);
        fault
    }

    /// The words.
    pub fn text(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.used]).unwrap_or("?")
    }
}

impl Write for Fault {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            let end = self.used + c.len_utf8();
            if end > TEXT_BYTES {
                return Err(fmt::Error);
            }
            c.encode_utf8(&mut self.bytes[self.used..end]);
            self.used = end;
        }
        Ok(())
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault::new(format_args!("expected success, got {:?}: {:?}", failure.side, failure.error))
    }
}

/// Fails unless both values are equal; the text says what is compared.
#[macro_export]
macro_rules! same {
    ($what:expr, $got:expr, $expected:expr) => {
        match (&$got, &$expected) {
            (got, expected) if *got == *expected => (),
            (got, expected) => {
                return Err($crate::case::Fault::new(format_args!(
                    "{}: expected {:x?}, got {:x?}",
                    $what, expected, got
                )))
            }
        }
    };
}

/// Fails unless the condition holds.
#[macro_export]
macro_rules! holds {
    ($what:expr, $condition:expr) => {
        if !$condition {
            return Err($crate::case::Fault::new(format_args!("expected {}, got the contrary", $what)));
        }
    };
}

/// Fails unless the call failed with this error on this side.
#[macro_export]
macro_rules! refused {
    ($what:expr, $result:expr, $side:ident $error:ident) => {{
        let expected = keel_l4::call::Failure { side: keel_l4::Side::$side, error: keel_l4::Error::$error };
        match $result {
            Err(got) if got == expected => $crate::errors::note_message(got),
            got => {
                return Err($crate::case::Fault::new(format_args!(
                    "{}: expected {:?}, got {:x?}",
                    $what, expected, got
                )))
            }
        }
    }};
}
