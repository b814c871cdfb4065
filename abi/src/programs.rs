// SPDX-License-Identifier: BSD-2-Clause
//! What only programs make or read of ids, tags and fpages. The µ-kernel has no use for it, and a
//! test of the command sees to that.

use crate::{call::*, fpage::*, ids::*, Fpage, Id, Tag};

impl Id {
    /// The quota.
    pub const QUOTA: Id = Id(ID_QUOTA);
    /// The allocator of MSIs.
    pub const MSI: Id = Id(ID_MSI);

    /// Returns the id of the GSI `line` (below [`GSI_COUNT`]).
    pub const fn irq(line: u32) -> Id {
        Id(ID_IRQ + line as u64)
    }

    /// Depth in the tree of clans.
    pub const fn nesting(self) -> u8 {
        take(self.0, ID_NESTING_SHIFT, ID_NESTING_BITS) as u8
    }
}

impl Tag {
    /// Returns a user's tag with `words` words and no items.
    pub const fn new(label: u32, words: u64) -> Tag {
        Tag::kernel(KIND_USER, label, words)
    }

    /// Returns the tag with `maps` map items.
    pub const fn with_maps(self, maps: u64) -> Tag {
        Tag((self.0 & !(0xff << TAG_MAPS_SHIFT)) | (maps & 0xff) << TAG_MAPS_SHIFT)
    }
}

impl Fpage {
    /// Returns the fpage with another cache type.
    pub const fn with_cache(self, cache: u64) -> Fpage {
        Fpage((self.0 & !(3 << FPAGE_CACHE_SHIFT)) | ((cache & 3) << FPAGE_CACHE_SHIFT))
    }
}
