// SPDX-License-Identifier: BSD-2-Clause
//! A timer: a kernel object that sends a message at a set time.

use crate::call::Failure;
use crate::ipc::{receive, Timeout};
use crate::kernel_object::{claim_timer, set_timer};
use keel_abi::call::TIMER_OFF;
use keel_abi::Id;

/// A claimed timer. Its message goes to the thread that claimed it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer(Id);

impl Timer {
    /// Claims a free timer.
    pub fn claim() -> Result<Timer, Failure> {
        claim_timer().map(Timer)
    }

    /// The kernel object that sends the timer's message.
    pub fn id(self) -> Id {
        self.0
    }

    /// Sets the timer to fire at the kernel time `time` in nanoseconds; `None` stops it.
    pub fn set(self, time: Option<u64>) -> Result<(), Failure> {
        set_timer(self.0, time.unwrap_or(TIMER_OFF))
    }

    /// Sets the timer to the kernel time `time` and waits for its message only.
    pub fn wait_until(self, time: u64) -> Result<(), Failure> {
        self.set(Some(time))?;
        receive(self.0, Timeout::Never).map(|_| ())
    }
}
