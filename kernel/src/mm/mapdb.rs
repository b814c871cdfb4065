// SPDX-License-Identifier: GPL-2.0-only
//! The mapping database: the tree of who got which page from whom.
//!
//! A node stands for one leaf entry of one page table; where it lies says which one (space.rs).
//! Owns the tree's shape only. A step takes constant time, or constant time for each child; whole
//! subtrees are walked without recursion.

use crate::base::Cell;

newtype! {
    /// The index of a mapping node in its store, below `FIRST`, or none. space.rs makes one of the
    /// place of an entry, and the nodes hold the others. The number of a group of nodes is none.
    pub struct NodeIndex(u32);
}

impl NodeIndex {
    /// Whether it is a node.
    pub const fn is_some(self) -> bool {
        self.0 != 0
    }

    /// The node so many places behind it in the store.
    pub const fn behind(self, places: usize) -> NodeIndex {
        NodeIndex(self.0 + places as u32)
    }
}

/// Set in the `prev` of the first of those that came from one node; the rest of it says how many
/// they are.
pub(crate) const FIRST: u32 = 1 << 31;

/// One mapping. `next` and `prev` mean nothing in a root.
#[derive(Default)]
#[repr(C)]
pub struct Node {
    parent: Cell<NodeIndex>,
    child: Cell<NodeIndex>,
    next: Cell<NodeIndex>,
    /// The index of the one before it, or `FIRST` and the count.
    pub(crate) prev: Cell<u32>,
}

/// Where nodes live.
pub trait Store {
    /// The node of an index that is in use.
    fn node(&self, index: NodeIndex) -> &Node;

    /// Whom it came from; none for a root.
    fn parent(&self, index: NodeIndex) -> NodeIndex {
        self.node(index).parent.get()
    }

    /// The first that came from it.
    fn first_child(&self, index: NodeIndex) -> NodeIndex {
        self.node(index).child.get()
    }

    /// The next that came from the same one.
    fn next_sibling(&self, index: NodeIndex) -> NodeIndex {
        self.node(index).next.get()
    }

    /// Makes a node of whatever lies at `index`, under `parent` (none: a root).
    fn plant(&self, index: NodeIndex, parent: NodeIndex) {
        self.node(index).child.set(NodeIndex::NONE);
        self.attach(index, parent);
    }

    /// Hangs `index`, which is a root, under `parent` (none: it stays one).
    fn attach(&self, index: NodeIndex, parent: NodeIndex) {
        let node = self.node(index);
        node.parent.set(parent);
        if parent.is_some() {
            let first = self.node(parent).child.replace(index);
            let before = if first.is_some() { self.node(first).prev.replace(index.0) } else { FIRST };
            node.next.set(first);
            node.prev.set(before + 1);
        }
    }

    /// Takes `index` from its parent; its children stay under it.
    fn detach(&self, index: NodeIndex) {
        let node = self.node(index);
        let (next, prev, parent) = (node.next.get(), node.prev.get(), node.parent.take());
        if parent == NodeIndex::NONE {
            return;
        }
        let child = &self.node(parent).child;
        if prev & FIRST != 0 {
            child.set(next);
        } else {
            self.node(NodeIndex(prev)).next.set(next);
            let first = self.node(child.get());
            first.prev.set(first.prev.get() - 1);
        }
        if next.is_some() {
            self.node(next).prev.set(if prev & FIRST != 0 { prev - 1 } else { prev });
        }
    }

    /// Takes the only one that came from `index` from it, for good: what its node says means
    /// nothing any more.
    fn drop_only(&self, index: NodeIndex) {
        self.node(index).child.set(NodeIndex::NONE);
    }

    /// Puts `new`, a root from which nothing came, in the place of `old`: under its parent, with
    /// its children; `step` is called at each of them.
    fn replace(&self, old: NodeIndex, new: NodeIndex, mut step: impl FnMut()) {
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
    fn each_child(&self, index: NodeIndex) -> impl Iterator<Item = NodeIndex> {
        let some = |node: NodeIndex| Some(node).filter(|node| node.is_some());
        core::iter::successors(some(self.first_child(index)), move |child| some(self.next_sibling(*child)))
    }

    /// How many came from it.
    fn children(&self, index: NodeIndex) -> u32 {
        match self.first_child(index) {
            NodeIndex::NONE => 0,
            first => self.node(first).prev.get() - FIRST,
        }
    }

    /// Hangs all that came from `index` under its parent, in front of it; `step` is called at each
    /// of them.
    fn hoist(&self, index: NodeIndex, mut step: impl FnMut()) {
        while self.children(index) > 0 {
            let child = self.first_child(index);
            self.detach(child);
            self.attach(child, self.parent(index));
            step();
        }
    }

    /// The node behind `index` in a walk of `top`'s subtree that visits parents first; none at
    /// the end. `step` is called at each level upwards.
    fn next_in_subtree(&self, mut index: NodeIndex, top: NodeIndex, mut step: impl FnMut()) -> NodeIndex {
        if self.first_child(index).is_some() {
            return self.first_child(index);
        }
        while index != top {
            if self.next_sibling(index).is_some() {
                return self.next_sibling(index);
            }
            index = self.parent(index);
            step();
        }
        NodeIndex::NONE
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/mapdb.rs"]
mod tests;
