// SPDX-License-Identifier: BSD-2-Clause
//! `Word`: 64 bits of memory that another program may write at any time, for example a user on
//! another processor.
//! Each `get` reads once and each `set` writes once, so a value that was read does not change
//! afterwards.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The word, with the interface of a `Cell`.
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    /// Returns a word with a value.
    pub const fn new(value: u64) -> Word {
        Word(AtomicU64::new(value))
    }

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

    /// Reads the word, then writes it, and returns the old value; the two steps are not atomic.
    #[inline]
    pub fn replace(&self, value: u64) -> u64 {
        let old = self.get();
        self.set(value);
        old
    }
}

/// Copies word by word, as many as both have.
pub fn copy<'a, 'b>(from: impl IntoIterator<Item = &'a Word>, to: impl IntoIterator<Item = &'b Word>) {
    from.into_iter().zip(to).for_each(|(from, to)| to.set(from.get()));
}

/// Copies the words of one slice to another, as many as both have, faster than `copy` if there are
/// many.
#[cfg(target_arch = "x86_64")]
#[inline]
pub fn copy_slice(from: &[Word], to: &[Word]) {
    let count = from.len().min(to.len());
    // SAFETY: both have `count` words, and each word is aligned: the processor reads and writes it
    // atomically (Intel SDM volume 3, 9.1.1). By the ABI the direction flag is clear.
    unsafe {
        core::arch::asm!(
            "rep movsq",
            inout("rcx") count => _,
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_ptr() => _,
            options(nostack, preserves_flags)
        );
    }
}

/// The type of a field in a structure that is shared.
pub trait Field {
    /// The same number of `Word`s.
    type Shared;
}

impl Field for u64 {
    type Shared = Word;
}

impl<const N: usize> Field for [u64; N] {
    type Shared = [Word; N];
}
