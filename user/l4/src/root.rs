// SPDX-License-Identifier: BSD-2-Clause
//! Asking the task that started this one, its parent: the root task, or whoever speaks its protocol.

use crate::call::Failure;
use crate::message::{ask, Bytes};
use core::sync::atomic::{AtomicU64, Ordering};
use keel_abi::boot::{ROOT_PRINT, ROOT_RESTART, ROOT_SHUTDOWN};
use keel_abi::Id;

crate::requests! {
    /// What a parent does for the tasks that it started.
    pub enum Request {
        /// Prints text.
        Print {
            /// The text, or a part of it.
            text: Bytes<5>,
        } = ROOT_PRINT,
        /// Ends the machine, or what the parent takes for it.
        End {
            /// `END_*`.
            code: u64,
        } = ROOT_SHUTDOWN,
        /// Starts a less important task anew that may fail.
        Restart {
            /// Its number.
            task: u64,
        } = ROOT_RESTART,
    }
}

static PARENT: AtomicU64 = AtomicU64::new(Id::ROOT.0);

/// The thread that serves this task: the root task's, unless [`set_parent`] named another.
pub fn parent() -> Id {
    Id(PARENT.load(Ordering::Relaxed))
}

/// Names the thread that serves this task.
pub fn set_parent(parent: Id) {
    PARENT.store(parent.0, Ordering::Relaxed);
}

/// Prints `bytes`, in as many messages as they take.
pub fn print(bytes: &[u8]) {
    for chunk in bytes.chunks(Bytes::<5>::CAPACITY) {
        // Nobody is left to tell if even the parent does not listen.
        let _: Result<(), Failure> = ask(parent(), &Request::Print { text: Bytes::new(chunk) });
    }
}

/// Asks the parent to end the machine (`END_*`). It does not answer unless it refuses.
pub fn end(code: u64) -> Result<(), Failure> {
    ask(parent(), &Request::End { code })
}

/// Asks the parent to start the task `number` anew, which does not do what it should. It answers before it does so.
pub fn restart(number: u64) -> Result<(), Failure> {
    ask(parent(), &Request::Restart { task: number })
}
