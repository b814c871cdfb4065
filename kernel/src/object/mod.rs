// SPDX-License-Identifier: GPL-2.0-only
//! Tasks, lthreads, clans, the KIP, and the memory that they are made of.

pub mod clan;
pub mod io_space;
pub mod kip;
#[allow(unsafe_code, reason = "makes objects and tables of pages, and takes them back")]
pub mod pool;
#[allow(unsafe_code, reason = "finds a thread by its number in a word")]
pub mod task;
#[allow(unsafe_code, reason = "frames and UTCBs, which users share")]
pub mod thread;

pub use pool::{Account, Kind, Page, PoolPage, PAGE, POOL};
pub use task::{Task, TaskNumber};
pub use thread::Thread;
