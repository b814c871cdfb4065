// SPDX-License-Identifier: GPL-2.0-only
//! The mapping database: the tree of who got which page from whom.
//!
//! A node stands for one leaf entry of one page table. Owns the tree's shape only; space.rs owns
//! the page tables that the nodes point to. Nodes are named by 32-bit indices into a store, 0 is
//! none. A step takes constant time, or constant time for each child; whole subtrees are walked without recursion.

use core::cell::Cell;

/// Index of a node; 0 is none.
pub type Index = u32;

object! {
    /// One mapping.
    #[repr(C)]
    pub struct Node const (table: u32, slot: u16, level: u8) {
        parent: Cell<Index> = Cell::new(0),
        child: Cell<Index> = Cell::new(0),
        next: Cell<Index> = Cell::new(0),
        pub(crate) prev: Cell<Index> = Cell::new(0),
        /// Pool page of the page table that holds the entry.
        pub table: Cell<u32> = Cell::new(table),
        /// Slot of the entry in that table.
        pub slot: Cell<u16> = Cell::new(slot),
        /// Level of the entry: 0 for 4 KB, 1 for 2 MB, 2 for 1 GB.
        pub level: Cell<u8> = Cell::new(level),
        /// How many came from it.
        children: Cell<u32> = Cell::new(0),
    }
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

    /// Hangs `index`, which is outside every tree, under `parent` (0: it becomes a root).
    fn attach(&self, index: Index, parent: Index) {
        let node = self.node(index);
        node.parent.set(parent);
        node.prev.set(0);
        node.next.set(0);
        if parent != 0 {
            let above = self.node(parent);
            above.children.set(above.children.get() + 1);
            let first = above.child.replace(index);
            node.next.set(first);
            if first != 0 {
                self.node(first).prev.set(index);
            }
        }
    }

    /// Takes `index` from its parent; its children stay under it.
    fn detach(&self, index: Index) {
        let node = self.node(index);
        let (next, prev, parent) = (node.next.take(), node.prev.take(), node.parent.take());
        if parent != 0 {
            let above = self.node(parent);
            above.children.set(above.children.get() - 1);
            if prev == 0 {
                above.child.set(next);
            }
        }
        if prev != 0 {
            self.node(prev).next.set(next);
        }
        if next != 0 {
            self.node(next).prev.set(prev);
        }
    }

    /// Puts `new`, which is outside every tree, in the place of `old`: under its parent, with its children; `step` is
    /// called at each of them.
    fn replace(&self, old: Index, new: Index, mut step: impl FnMut()) {
        let parent = self.parent(old);
        self.detach(old);
        self.attach(new, parent);
        let mut child = self.node(old).child.take();
        self.node(new).child.set(child);
        self.node(new).children.set(self.node(old).children.take());
        while child != 0 {
            self.node(child).parent.set(new);
            child = self.next_sibling(child);
            step();
        }
    }

    /// How many came from it.
    fn children(&self, index: Index) -> u32 {
        self.node(index).children.get()
    }

    /// Hangs all that came from `index` under its parent, in front of it; `step` is called at each of them.
    fn hoist(&self, index: Index, mut step: impl FnMut()) {
        while self.children(index) > 0 {
            let child = self.first_child(index);
            self.detach(child);
            self.attach(child, self.parent(index));
            step();
        }
    }

    /// The node behind `index` in a walk of `top`'s subtree that visits parents first; 0 at the end. `step` is called at
    /// each level upwards.
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
#[path = "../../tests/kernel/mapdb.rs"]
mod tests;
