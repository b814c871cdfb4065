// SPDX-License-Identifier: GPL-2.0-only
//! The mapping database: the tree of who got which page from whom.
//!
//! A node stands for one leaf entry of one page table; where it lies says which one (space.rs).
//! Owns the tree's shape only. Nodes are named by indices into a store, below `FIRST`; 0 is none. A
//! step takes constant time, or constant time for each child; whole subtrees are walked without
//! recursion.

use core::cell::Cell;

/// Index of a node; 0 is none.
pub type Index = u32;

/// Set in the `prev` of the first of those that came from one node; the rest of it says how many
/// they are.
const FIRST: u32 = 1 << 31;

/// One mapping. `next` and `prev` mean nothing in a root.
#[derive(Default)]
#[repr(C)]
pub struct Node {
    parent: Cell<Index>,
    child: Cell<Index>,
    next: Cell<Index>,
    prev: Cell<Index>,
}

/// Where nodes live.
pub trait Store {
    /// The node of an index that is in use.
    fn node(&self, index: Index) -> &Node;

    /// Whom it came from; 0 for a root.
    fn parent(&self, index: Index) -> Index {
        self.node(index).parent.get()
    }

    /// The first that came from it.
    fn first_child(&self, index: Index) -> Index {
        self.node(index).child.get()
    }

    /// The next that came from the same one.
    fn next_sibling(&self, index: Index) -> Index {
        self.node(index).next.get()
    }

    /// The one before it of those that came from the same one; 0 for the first.
    fn previous_sibling(&self, index: Index) -> Index {
        Some(self.node(index).prev.get()).filter(|prev| prev & FIRST == 0).unwrap_or(0)
    }

    /// Makes a node of whatever lies at `index`, under `parent` (0: a root).
    #[inline]
    fn plant(&self, index: Index, parent: Index) {
        self.node(index).child.set(0);
        self.attach(index, parent);
    }

    /// Hangs `index`, which is a root, under `parent` (0: it stays one).
    #[inline]
    fn attach(&self, index: Index, parent: Index) {
        let node = self.node(index);
        node.parent.set(parent);
        if parent != 0 {
            let first = self.node(parent).child.replace(index);
            let before = if first != 0 { self.node(first).prev.replace(index) } else { FIRST };
            node.next.set(first);
            node.prev.set(before + 1);
        }
    }

    /// Takes `index` from its parent; its children stay under it.
    #[inline]
    fn detach(&self, index: Index) {
        let node = self.node(index);
        let (next, prev, parent) = (node.next.get(), node.prev.get(), node.parent.take());
        if parent == 0 {
            return;
        }
        let child = &self.node(parent).child;
        if prev & FIRST != 0 {
            child.set(next);
        } else {
            self.node(prev).next.set(next);
            let first = self.node(child.get());
            first.prev.set(first.prev.get() - 1);
        }
        if next != 0 {
            self.node(next).prev.set(if prev & FIRST != 0 { prev - 1 } else { prev });
        }
    }

    /// Takes the only one that came from `index` from it.
    #[inline]
    fn detach_only(&self, index: Index) {
        self.node(self.node(index).child.take()).parent.set(0);
    }

    /// Puts `new`, a root from which nothing came, in the place of `old`: under its parent, with
    /// its children; `step` is called at each of them.
    fn replace(&self, old: Index, new: Index, mut step: impl FnMut()) {
        let parent = self.parent(old);
        self.detach(old);
        self.attach(new, parent);
        self.node(new).child.set(self.node(old).child.take());
        for child in self.each_child(new) {
            self.node(child).parent.set(new);
            step();
        }
    }

    /// All that came from it. The next one is found before one is given out, which may therefore be
    /// taken away.
    fn each_child(&self, index: Index) -> impl Iterator<Item = Index> {
        let some = |node| Some(node).filter(|node| *node != 0);
        core::iter::successors(some(self.first_child(index)), move |child| some(self.next_sibling(*child)))
    }

    /// How many came from it.
    fn children(&self, index: Index) -> u32 {
        match self.first_child(index) {
            0 => 0,
            first => self.node(first).prev.get() - FIRST,
        }
    }

    /// Hangs all that came from `index` under its parent, in front of it; `step` is called at each
    /// of them.
    fn hoist(&self, index: Index, mut step: impl FnMut()) {
        while self.children(index) > 0 {
            let child = self.first_child(index);
            self.detach(child);
            self.attach(child, self.parent(index));
            step();
        }
    }

    /// The node behind `index` in a walk of `top`'s subtree that visits parents first; 0 at the
    /// end. `step` is called at each level upwards.
    fn next_in_subtree(&self, mut index: Index, top: Index, mut step: impl FnMut()) -> Index {
        if self.first_child(index) != 0 {
            return self.first_child(index);
        }
        while index != top {
            if self.next_sibling(index) != 0 {
                return self.next_sibling(index);
            }
            index = self.parent(index);
            step();
        }
        0
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/mapdb.rs"]
mod tests;
