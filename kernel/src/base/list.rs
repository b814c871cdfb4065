// SPDX-License-Identifier: GPL-2.0-only
//! Doubly linked lists through links inside the objects: no memory, constant time.
//!
//! An object type says by `Linked<Tag>` which of its links a list uses. An object is in at most one
//! list for each tag; `List` does not know which, its owner does.

use crate::base::Ref;
use core::{cell::Cell, marker::PhantomData};

/// The two links inside an object.
pub struct Links<T> {
    next: Cell<Option<Ref<T>>>,
    prev: Cell<Option<Ref<T>>>,
}

impl<T> Links<T> {
    /// Links of an object that is in no list.
    pub const fn new() -> Self {
        Links { next: Cell::new(None), prev: Cell::new(None) }
    }
}

/// An object that has links for lists of kind `Tag`.
pub trait Linked<Tag>: Sized {
    /// Those links.
    fn links(&self) -> &Links<Self>;
}

/// A list of `T`s linked by their `Tag` links.
pub struct List<T: Linked<Tag>, Tag> {
    head: Cell<Option<Ref<T>>>,
    tail: Cell<Option<Ref<T>>>,
    tag: PhantomData<Tag>,
}

impl<T: Linked<Tag>, Tag> List<T, Tag> {
    /// An empty list.
    pub const fn new() -> Self {
        List { head: Cell::new(None), tail: Cell::new(None), tag: PhantomData }
    }

    /// The first object.
    pub fn first(&self) -> Option<Ref<T>> {
        self.head.get()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.head.get().is_none()
    }

    /// Its objects, from the first on. The next one is found before an object is given out, which
    /// may therefore leave the list.
    pub fn iter(&self) -> impl Iterator<Item = Ref<T>> + '_ {
        core::iter::successors(self.first(), |item| self.next(*item))
    }

    /// The object behind `item`, which is in this list.
    pub fn next(&self, item: Ref<T>) -> Option<Ref<T>> {
        item.links().next.get()
    }

    /// Adds `item`, which is in no list, at the end.
    pub fn push_back(&self, item: Ref<T>) {
        // Its links are empty: `remove` takes them.
        item.links().prev.set(self.tail.get());
        match self.tail.replace(Some(item)) {
            Some(last) => last.links().next.set(Some(item)),
            None => self.head.set(Some(item)),
        }
    }

    /// Adds `item`, which is in no list, at the front.
    pub fn push_front(&self, item: Ref<T>) {
        item.links().next.set(self.head.get());
        match self.head.replace(Some(item)) {
            Some(first) => first.links().prev.set(Some(item)),
            None => self.tail.set(Some(item)),
        }
    }

    /// Takes `item`, which is in this list, out.
    pub fn remove(&self, item: Ref<T>) {
        let (next, prev) = (item.links().next.take(), item.links().prev.take());
        match prev {
            Some(before) => before.links().next.set(next),
            None => self.head.set(next),
        }
        match next {
            Some(behind) => behind.links().prev.set(prev),
            None => self.tail.set(prev),
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/list.rs"]
mod tests;
