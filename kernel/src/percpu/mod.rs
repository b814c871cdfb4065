// SPDX-License-Identifier: GPL-2.0-only
//! What each processor has beside its registers: its lock, its queues, its TLB tags.

pub mod deadlines;
pub mod lock;
pub mod pcid;
pub mod preempt;
pub mod runqueue;
