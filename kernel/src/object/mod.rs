// SPDX-License-Identifier: GPL-2.0-only
//! Tasks, lthreads, clans, the KIP, and the memory that they are made of.

pub mod clan;
pub mod io_space;
pub mod kip;
pub mod pool;
pub mod task;
pub mod thread;

pub use pool::{Account, Kind, Page, PAGE, POOL};
pub use task::Task;
pub use thread::Thread;
