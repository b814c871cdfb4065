// SPDX-License-Identifier: GPL-2.0-only
//! `Global<T>`: a static whose fields are `Cell`s.
//!
//! Invariant: only exclusive code (lock.rs), or code that has the ordering lock (`lock::ordered`),
//! changes it, and code under a single processor's lock at most reads it. Interrupts are off except
//! in the two marked windows of entry.s, in which no reference into a global is in use.

/// A static of the kernel.
pub struct Global<T>(T);

// SAFETY: see the module's invariant.
unsafe impl<T> Sync for Global<T> {}

impl<T> Global<T> {
    /// Wraps the initial value.
    pub const fn new(value: T) -> Self {
        Global(value)
    }
}

impl<T> core::ops::Deref for Global<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
