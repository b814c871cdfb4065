// SPDX-License-Identifier: GPL-2.0-only
//! `Word`: 64 bits of memory that somebody else may write at any time, a user on another processor for example.
//! Each `get` reads once, and each `set` writes once; what was read does not change any more.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The word, with the interface of a `Cell`.
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// Reads it, once.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Writes it.
    #[inline]
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// Writes it and returns what was read before; not in one step.
    pub fn replace(&self, value: u64) -> u64 {
        let old = self.get();
        self.set(value);
        old
    }
}
