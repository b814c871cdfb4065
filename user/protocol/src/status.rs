// SPDX-License-Identifier: BSD-2-Clause
//! What a call's status says: its sides' and codes' names as constants, the way back from
//! `Status` and a code, and the words for it.

use core::fmt;
use keel_abi::{Error, Side, Status};

keel_abi::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Side of a status: the call itself
    SIDE_CALL = Side::Call as u64;
    /// Side of a status: the send phase
    SIDE_SEND = Side::Send as u64;
    /// Side of a status: the receive phase
    SIDE_RECEIVE = Side::Receive as u64;
    /// Status code: the partner or object does not exist
    ERROR_NO_PARTNER = Error::NoPartner as u64;
    /// Status code: the timeout expired before the transfer began
    ERROR_TIMEOUT = Error::Timeout as u64;
    /// Status code: cancelled before a transfer began
    ERROR_CANCELLED = Error::Cancelled as u64;
    /// Status code: aborted during the transfer
    ERROR_ABORTED = Error::Aborted as u64;
    /// Status code: the account has no memory left for a mapping or an object
    ERROR_NO_MEMORY = Error::NoMemory as u64;
    /// Status code: the sender's page-fault timeout expired
    ERROR_SEND_FAULT = Error::SendFault as u64;
    /// Status code: the receiver's page-fault timeout expired
    ERROR_RECEIVE_FAULT = Error::ReceiveFault as u64;
    /// Status code: the receiver's buffer is too small
    ERROR_MESSAGE_CUT = Error::MessageCut as u64;
    /// Status code: a malformed argument
    ERROR_INVALID = Error::Invalid as u64;
    /// Status code: the caller has no right to do this
    ERROR_DENIED = Error::Denied as u64;
    /// Status code: a server does not know the request; the kernel never returns it
    ERROR_NOT_SUPPORTED = Error::NotSupported as u64;
    /// Status code: it exists already, or belongs to another thread or task
    ERROR_BUSY = Error::Busy as u64;
    /// Status code: the versions of this slot are used up
    ERROR_RETIRED = Error::Retired as u64;
}

/// Every error.
pub const ERRORS: [Error; 13] = [
    Error::NoPartner,
    Error::Timeout,
    Error::Cancelled,
    Error::Aborted,
    Error::NoMemory,
    Error::SendFault,
    Error::ReceiveFault,
    Error::MessageCut,
    Error::Invalid,
    Error::Denied,
    Error::NotSupported,
    Error::Busy,
    Error::Retired,
];

/// Returns the error with this code, `None` if there is none.
#[inline]
pub fn error_of(code: u64) -> Option<Error> {
    ERRORS.into_iter().find(|error| *error as u64 == code)
}

/// Why a call failed, and in which phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    /// The phase.
    pub side: Side,
    /// The reason.
    pub error: Error,
}

impl Failure {
    /// A failure of the call itself.
    pub const fn call(error: Error) -> Failure {
        Failure { side: Side::Call, error }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.error {
            Error::NoPartner => "it does not exist",
            Error::Timeout => "it took too long",
            Error::Cancelled => "it was cancelled",
            Error::Aborted => "it was aborted",
            Error::NoMemory => "the account has too little kernel memory",
            Error::SendFault => "the sender's page fault took too long",
            Error::ReceiveFault => "the receiver's page fault took too long",
            Error::MessageCut => "the message was cut",
            Error::Invalid => "an argument is impossible",
            Error::Denied => "there is no right to do this",
            Error::NotSupported => "it is not supported",
            Error::Busy => "it is in use by another task",
            Error::Retired => "its versions are used up",
        })
    }
}

/// Returns side and error, or `None` for success and for a word that is not a status.
#[inline]
pub fn failure(status: Status) -> Option<(Side, Error)> {
    let word = status.0.wrapping_neg();
    let error = error_of(word & 0xff)?;
    let side = [Side::Call, Side::Send, Side::Receive].into_iter().find(|side| *side as u64 == word >> 8)?;
    Some((side, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_round_trip() {
        assert_eq!(failure(Status::OK), None);
        for side in [Side::Call, Side::Send, Side::Receive] {
            for error in ERRORS {
                let status = Status::error(side, error);
                assert_eq!(failure(status), Some((side, error)));
                assert!((status.0 as i64) < 0);
            }
        }
    }
}
