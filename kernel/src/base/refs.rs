// SPDX-License-Identifier: GPL-2.0-only
//! `Ref<T>`: a shared reference to a kernel object that lives in the pool.
//!
//! Invariant: whoever deletes an object first unlinks it from every list, table and field that
//! holds a `Ref` to it (lthreads.rs and tasks.rs do so in one place each), so that a `Ref` that can
//! be reached always points to a live object. All fields of such objects are `Cell`s, so that
//! shared references suffice.

use core::{ops::Deref, ptr::NonNull};

/// A copyable reference to a live kernel object.
#[repr(transparent)]
pub struct Ref<T>(NonNull<T>);

impl<T> Ref<T> {
    /// A reference to the object at `pointer`.
    ///
    /// # Safety
    /// `pointer` is valid and initialised, and the module's invariant holds for it.
    pub unsafe fn new(pointer: *mut T) -> Ref<T> {
        // SAFETY: the caller's contract.
        Ref(unsafe { NonNull::new_unchecked(pointer) })
    }

    /// A reference to a static.
    pub fn to(object: &'static T) -> Ref<T> {
        Ref(NonNull::from(object))
    }

    /// A reference to a part of the object.
    pub fn part<Part>(self, part: impl FnOnce(&T) -> &Part) -> Ref<Part> {
        Ref(NonNull::from(part(&self)))
    }

    /// Its address.
    pub fn as_ptr(self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T> Clone for Ref<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Ref<T> {}

impl<T> PartialEq for Ref<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Eq for Ref<T> {}

impl<T> Deref for Ref<T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the module's invariant.
        unsafe { self.0.as_ref() }
    }
}
