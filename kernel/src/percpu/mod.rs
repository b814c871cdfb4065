// SPDX-License-Identifier: GPL-2.0-only
//! What each processor has besides its registers: lock, run queue, deadlines, TLB tags; and the
//! preemption point.

pub mod deadlines;
pub mod lock;
pub mod pcid;
pub mod preempt;
pub mod runqueue;
