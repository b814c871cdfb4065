// SPDX-License-Identifier: BSD-2-Clause
//! What a call's status says: the way back from `Status` and error codes.

use keel_abi::{Error, Side, Status};

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
