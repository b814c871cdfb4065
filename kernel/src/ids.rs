// SPDX-License-Identifier: GPL-2.0-only
//! Who may use which inactive task number: a sorted list of ranges, because numbers are handed
//! over by power-of-two ranges, not one by one.

use core::cell::Cell;

/// Ranges that can be kept apart; a hand-over that needs more is refused.
const MAX_RANGES: usize = 512;

#[derive(Clone, Copy)]
struct Range {
    first: u32,
    holder: u32,
}

/// The holders of all task numbers. Range i reaches to the start of range i + 1.
pub struct Ranges {
    ranges: [Cell<Range>; MAX_RANGES],
    count: Cell<usize>,
}

impl Ranges {
    /// All numbers belong to task 0, which is nobody.
    pub const fn new() -> Self {
        Ranges { ranges: [const { Cell::new(Range { first: 0, holder: 0 }) }; MAX_RANGES], count: Cell::new(1) }
    }

    fn index_of(&self, number: u32) -> usize {
        self.ranges[..self.count.get()].partition_point(|range| range.get().first <= number) - 1
    }

    /// Who holds a number.
    pub fn holder(&self, number: u32) -> u32 {
        self.ranges[self.index_of(number)].get().holder
    }

    /// Gives [first, end) to `holder`. False if the list is full; then nothing has changed.
    pub fn give(&self, first: u32, end: u32, holder: u32) -> bool {
        if self.count.get() + 2 > MAX_RANGES {
            return false;
        }
        let (from, to) = (self.split(first), self.split(end));
        for range in &self.ranges[from..to] {
            range.set(Range { holder, ..range.get() });
        }
        self.merge();
        true
    }

    /// What `holder` held goes to `heir`.
    pub fn inherit(&self, holder: u32, heir: u32) {
        let mut found = false;
        for range in &self.ranges[..self.count.get()] {
            if range.get().holder == holder {
                range.set(Range { holder: heir, ..range.get() });
                found = true;
            }
        }
        if found {
            self.merge();
        }
    }

    /// Makes a range start at `first`; its index.
    fn split(&self, first: u32) -> usize {
        let index = self.index_of(first);
        let old = self.ranges[index].get();
        if old.first == first {
            return index;
        }
        for place in (index + 1..self.count.get()).rev() {
            self.ranges[place + 1].set(self.ranges[place].get());
        }
        self.ranges[index + 1].set(Range { first, ..old });
        self.count.set(self.count.get() + 1);
        index + 1
    }

    /// Joins neighbours of one holder.
    fn merge(&self) {
        let mut kept = 0;
        for index in 1..self.count.get() {
            let range = self.ranges[index].get();
            if range.holder != self.ranges[kept].get().holder {
                kept += 1;
                self.ranges[kept].set(range);
            }
        }
        self.count.set(kept + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn agrees_with_an_array_over_random_hand_overs() {
        let ranges = Ranges::new();
        let mut model = [0u32; 4096];
        let random = Random::new(5);
        for _ in 0..20_000 {
            let size = 1u32 << random.below(9);
            let first = (random.below(4096) as u32) & !(size - 1);
            let holder = random.below(6) as u32;
            if random.below(10) == 0 {
                ranges.inherit(holder, 0);
                model.iter_mut().filter(|h| **h == holder).for_each(|h| *h = 0);
            } else if ranges.give(first, first + size, holder) {
                model[first as usize..(first + size) as usize].fill(holder);
            }
            let probe = random.below(4096) as usize;
            assert_eq!(ranges.holder(probe as u32), model[probe]);
        }
        for (number, holder) in model.iter().enumerate() {
            assert_eq!(ranges.holder(number as u32), *holder);
        }
    }
}
