// SPDX-License-Identifier: GPL-2.0-only
//! What the segments of a thread reach: a window, as thread_schedule names it.

use keel_abi::call::{SMALL_ALL, SMALL_MAX_LOG2, SMALL_MIN_LOG2, SMALL_NONE};

newtype! {
    /// A range below 4 GB, as base | log2 of its size; none for a 64-bit thread, which has all of
    /// its space.
    pub struct Reach(u64);
}

impl Reach {
    /// All that 32 bits can name.
    pub const ALL: Reach = Reach(SMALL_ALL);
    /// The bits of log2 of the size; the base is a multiple of more than they can be.
    const LOG2: u64 = (1 << SMALL_MIN_LOG2) - 1;

    /// What a user's word says, if it is a window within 4 GB, all or none.
    pub fn of(word: u64) -> Option<Reach> {
        let (base, log2) = (word & !Reach::LOG2, word & Reach::LOG2);
        let fits = matches!(log2, SMALL_MIN_LOG2..=SMALL_MAX_LOG2) && base % (1 << log2) == 0;
        (fits && base < 1 << SMALL_ALL || matches!(word, SMALL_NONE | SMALL_ALL)).then_some(Reach::new(word))
    }

    /// Whether it is a window, and neither all nor none.
    pub const fn is_window(self) -> bool {
        self.0 != SMALL_NONE && self.0 != SMALL_ALL
    }

    /// Its first byte.
    pub const fn base(self) -> u64 {
        self.0 & !Reach::LOG2
    }

    /// Its bytes, at least a page; 1 for none.
    pub const fn size(self) -> u64 {
        1 << (self.0 & Reach::LOG2)
    }

    /// Whether two windows have a byte in common.
    pub const fn overlaps(self, other: Reach) -> bool {
        self.base() < other.base() + other.size() && other.base() < self.base() + self.size()
    }
}
