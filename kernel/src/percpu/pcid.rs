// SPDX-License-Identifier: GPL-2.0-only
//! Tags of translations (PCID): a processor that comes back to a space finds those that it had.
//!
//! Whoever changes a space makes all processors forget it that are not in it, or drops what they
//! hold of it (`paging`).

use crate::base::{abi::*, *};

/// CR3, when written: the translations with this tag are kept.
pub const NOFLUSH: u64 = 1 << 63;
/// Spaces whose translations a processor keeps at most. A space has the same tag everywhere, and
/// two spaces that have the same one displace each other.
const PCIDS: usize = 512;

object! {
    /// The top tables of the spaces whose translations a processor may hold, by their tags (PCID,
    /// from 1 on).
    pub struct Pcids const () {
        /// Translations are tagged.
        pub on: Cell<bool> = Cell::new(false),
        roots: [Cell<PhysAddr>; PCIDS] = [const { Cell::new(PhysAddr::NONE) }; PCIDS],
    }
}

impl Pcids {
    /// Where the top tables stand, for fast.s, which enters spaces too.
    pub const ROOTS: usize = core::mem::offset_of!(Pcids, roots);
    /// From a page number to the tag's place.
    pub const MASK: usize = PCIDS - 1;

    fn place(root: PhysAddr) -> usize {
        (root.raw() >> PAGE_SHIFT) as usize & Pcids::MASK
    }

    /// The tag of a space whose translations may be held.
    pub fn of(&self, root: PhysAddr) -> Option<u64> {
        let place = Pcids::place(root);
        (self.on.get() && self.roots[place].get() == root).then_some(place as u64 + 1)
    }

    /// When the processor comes back to the space it begins without translations.
    pub fn forget(&self, root: PhysAddr) {
        if self.of(root).is_some() {
            self.roots[Pcids::place(root)].set(PhysAddr::NONE);
        }
    }

    /// What to load into CR3 for a space.
    pub fn enter(&self, root: PhysAddr) -> u64 {
        let place = Pcids::place(root);
        let keep = if self.roots[place].replace(root) == root { NOFLUSH } else { 0 };
        root.raw() | (place as u64 + 1) | keep
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/pcid.rs"]
mod tests;
