// SPDX-License-Identifier: GPL-2.0-only
//! A small set of address ranges: the memory map at boot.

use core::cell::Cell;

/// Ranges that a set holds at most; more fragmented firmware maps lose the rest.
const CAPACITY: usize = 64;

/// Disjoint ranges [start, end), in no order.
pub struct Intervals {
    ranges: [Cell<(u64, u64)>; CAPACITY],
    count: Cell<usize>,
}

impl Intervals {
    /// The empty set.
    pub const fn new() -> Intervals {
        Intervals { ranges: [const { Cell::new((0, 0)) }; CAPACITY], count: Cell::new(0) }
    }

    /// The ranges.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.ranges[..self.count.get()].iter().map(Cell::get)
    }

    /// Adds a range.
    pub fn add(&self, start: u64, end: u64) {
        self.remove(start, end);
        self.push(start, end);
    }

    fn push(&self, start: u64, end: u64) {
        if start < end && self.count.get() < CAPACITY {
            self.ranges[self.count.get()].set((start, end));
            self.count.set(self.count.get() + 1);
        }
    }

    /// Removes a range, whatever of it is there.
    pub fn remove(&self, start: u64, end: u64) {
        let mut index = 0;
        while index < self.count.get() {
            let (low, high) = self.ranges[index].get();
            if end <= low || high <= start {
                index += 1;
                continue;
            }
            self.count.set(self.count.get() - 1);
            self.ranges[index].set(self.ranges[self.count.get()].get());
            self.push(low, start.min(high));
            self.push(end.max(low), high);
            // The pieces do not meet [start, end); look at this index again.
        }
    }

    /// Becomes a copy of another set.
    pub fn copy(&self, other: &Intervals) {
        self.count.set(0);
        other.iter().for_each(|(start, end)| self.push(start, end));
    }

    /// Whether any of [start, end) is in the set.
    pub fn intersects(&self, start: u64, end: u64) -> bool {
        self.iter().any(|(low, high)| low < end && start < high)
    }

    /// The largest range, cut at `limit`.
    pub fn largest_below(&self, limit: u64) -> Option<(u64, u64)> {
        let cut = self.iter().filter(|(low, _)| *low < limit).map(|(low, high)| (low, high.min(limit)));
        cut.max_by_key(|(low, high)| high - low)
    }

    /// Highest end of any range.
    pub fn end(&self) -> u64 {
        self.iter().map(|(_, end)| end).max().unwrap_or(0)
    }

    /// Bytes in the set.
    pub fn total(&self) -> u64 {
        self.iter().map(|(start, end)| end - start).sum()
    }
}

#[cfg(test)]
#[path = "../../tests/kernel/intervals.rs"]
mod tests;
