// SPDX-License-Identifier: BSD-2-Clause
//! A timer of one's own: a kernel source that sends a message when its time has come.

use crate::call::Failure;
use crate::ipc::{receive, Timeout};
use crate::source::{claim_timer, set_timer};
use keel_abi::call::TIMER_OFF;
use keel_abi::Id;

/// A claimed timer. Its message goes to the thread that claimed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer(Id);

impl Timer {
    /// Claims a free one.
    pub fn claim() -> Result<Timer, Failure> {
        claim_timer().map(Timer)
    }

    /// The source from which its message comes.
    pub fn id(self) -> Id {
        self.0
    }

    /// Lets it fire at the kernel time `time` in nanoseconds; `None` stops it.
    pub fn set(self, time: Option<u64>) -> Result<(), Failure> {
        set_timer(self.0, time.unwrap_or(TIMER_OFF))
    }

    /// Waits for nothing else until the kernel time `time`.
    pub fn wait_until(self, time: u64) -> Result<(), Failure> {
        self.set(Some(time))?;
        receive(self.0, Timeout::Never).map(|_| ())
    }
}
