// SPDX-License-Identifier: GPL-2.0-only
//! The processor's deadlines: a meldable heap balanced by coin flips (Gambin and Malinowski,
//! "Randomized meldable priority queues", 1998). Expected O(log n) for every operation, no memory
//! of its own, any entry can leave. Owns the order; what a deadline means is `Owner`'s business.

use crate::base::{Cell, Ref};

/// Of the coin's generator (Knuth, MMIX).
const MULTIPLIER: u64 = 6_364_136_223_846_793_005;

object! {
    /// One entry, embedded in what it belongs to.
    pub struct Deadline<Owner: Copy> const () {
        time: Cell<u64> = Cell::new(0),
        owner: Cell<Option<Owner>> = Cell::new(None),
        left: Cell<Node<Owner>> = Cell::new(None),
        right: Cell<Node<Owner>> = Cell::new(None),
        parent: Cell<Node<Owner>> = Cell::new(None),
    }
}

type Node<Owner> = Option<Ref<Deadline<Owner>>>;

impl<Owner: Copy> Deadline<Owner> {
    /// When it is due, if it is in a heap.
    pub fn time(&self) -> u64 {
        self.time.get()
    }

    /// Whether it is in a heap.
    pub fn is_armed(&self) -> bool {
        self.owner.get().is_some()
    }
}

object! {
    /// The heap.
    pub struct Deadlines<Owner: Copy> const () {
        root: Cell<Node<Owner>> = Cell::new(None),
        /// A linear congruential generator; its highest bit is the coin.
        coin: Cell<u64> = Cell::new(0),
    }
}

impl<Owner: Copy> Deadlines<Owner> {
    /// The earliest time, or `u64::MAX`.
    pub fn earliest(&self) -> u64 {
        self.root.get().map_or(u64::MAX, |root| root.time.get())
    }

    /// Adds `entry`, which is in no heap. Not inlined: who sets no deadline then saves fewer
    /// registers.
    #[inline(never)]
    pub fn insert(&self, entry: Ref<Deadline<Owner>>, time: u64, owner: Owner) {
        entry.time.set(time);
        entry.owner.set(Some(owner));
        // It has no links, as the root has no parent: `remove` takes them.
        self.root.set(self.meld(self.root.get(), Some(entry)));
    }

    /// Takes `entry` out, if it is in.
    pub fn remove(&self, entry: Ref<Deadline<Owner>>) {
        if entry.owner.take().is_none() {
            return;
        }
        let rest = self.meld(entry.left.take(), entry.right.take());
        let parent = entry.parent.take();
        if let Some(rest) = rest {
            rest.parent.set(parent);
        }
        match parent {
            None => self.root.set(rest),
            Some(above) if above.left.get() == Some(entry) => above.left.set(rest),
            Some(above) => above.right.set(rest),
        }
    }

    /// Takes out an entry whose time is at or before `now` and gives its owner.
    pub fn pop_due(&self, now: u64) -> Option<Owner> {
        let root = self.root.get().filter(|root| root.time.get() <= now)?;
        let owner = root.owner.get();
        self.remove(root);
        owner
    }

    /// Joins two heaps: walks down, hanging the later one under a child chosen by a coin.
    fn meld(&self, a: Node<Owner>, b: Node<Owner>) -> Node<Owner> {
        let (Some(mut upper), Some(mut lower)) = (a, b) else { return a.or(b) };
        if lower.time.get() < upper.time.get() {
            core::mem::swap(&mut upper, &mut lower);
        }
        let top = upper;
        loop {
            self.coin.set(self.coin.get().wrapping_mul(MULTIPLIER).wrapping_add(1));
            let side = if self.coin.get() >> 63 == 0 { &upper.left } else { &upper.right };
            let Some(mut below) = side.get() else {
                side.set(Some(lower));
                lower.parent.set(Some(upper));
                return Some(top);
            };
            if lower.time.get() < below.time.get() {
                core::mem::swap(&mut below, &mut lower);
            }
            side.set(Some(below));
            below.parent.set(Some(upper));
            upper = below;
        }
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/deadlines.rs"]
mod tests;
