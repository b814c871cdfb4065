// SPDX-License-Identifier: BSD-2-Clause
//! Client of the task that started this one, its parent: the root task, or a chief that implements
//! its protocol.

use crate::call::Failure;
use crate::message::{ask, Bytes};
use core::sync::atomic::{AtomicU64, Ordering};
use keel_abi::Id;
use keel_protocol::boot::{ROOT_PRINT, ROOT_RESTART, ROOT_SHUTDOWN};

crate::requests! {
    /// The services of a parent for the tasks that it started.
    pub enum Request {
        /// Prints text.
        Print {
            /// The text, or a piece of it.
            text: Bytes<5>,
        } = ROOT_PRINT,
        /// Shuts the machine down, or what the parent presents as the machine.
        Shutdown {
            /// `SHUTDOWN_*`.
            code: u64,
        } = ROOT_SHUTDOWN,
        /// Restarts a task of lower priority that may fail.
        Restart {
            /// Its number.
            task: u64,
        } = ROOT_RESTART,
    }
}

static PARENT: AtomicU64 = AtomicU64::new(Id::ROOT.0);

/// The thread that serves this task: the root task's, unless [`set_parent`] set another.
pub fn parent() -> Id {
    Id(PARENT.load(Ordering::Relaxed))
}

/// Sets the thread that serves this task.
pub fn set_parent(parent: Id) {
    PARENT.store(parent.0, Ordering::Relaxed);
}

/// Prints `bytes`, in as many messages as necessary.
pub fn print(bytes: &[u8]) {
    for chunk in bytes.chunks(Bytes::<5>::CAPACITY) {
        // If even the parent fails, there is no one to report it to.
        let _: Result<(), Failure> = ask(parent(), &Request::Print { text: Bytes::new(chunk) });
    }
}

/// Asks the parent to shut the machine down (`SHUTDOWN_*`). Returns only if the parent refuses.
pub fn shut_down(code: u64) -> Result<(), Failure> {
    ask(parent(), &Request::Shutdown { code })
}

/// Asks the parent to restart the task `number`, which does not work properly. The parent answers
/// before it restarts the task.
pub fn restart(number: u64) -> Result<(), Failure> {
    ask(parent(), &Request::Restart { task: number })
}
