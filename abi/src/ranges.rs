// SPDX-License-Identifier: BSD-2-Clause
//! A set of numbers, stored as sorted, disjoint ranges that do not touch: free memory, memory of a
//! task.

use crate::list::{Full, List};

/// The numbers from `start` up to but not including `end`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Range {
    /// First number.
    pub start: u64,
    /// First number after it.
    pub end: u64,
}

impl Range {
    /// Returns a range; it is empty if `end` is not above `start`.
    pub const fn new(start: u64, end: u64) -> Range {
        Range { start, end }
    }

    /// Returns the number of its elements.
    pub const fn size(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns true if it is empty.
    pub const fn is_empty(self) -> bool {
        self.end <= self.start
    }

    /// Returns true if a number is in both ranges.
    pub const fn overlaps(self, other: Range) -> bool {
        self.start < other.end && other.start < self.end && !self.is_empty() && !other.is_empty()
    }

    /// Returns true if `other` is inside this range.
    pub const fn contains(self, other: Range) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Returns the largest range inside it whose ends are aligned to `alignment` (a power of two).
    pub fn shrink_to(self, alignment: u64) -> Range {
        let start = self.start.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
        Range::new(start, (self.end / alignment * alignment).max(start))
    }

    /// Returns the smallest range around it whose ends are aligned to `alignment`.
    pub fn grow_to(self, alignment: u64) -> Range {
        Range::new(self.start / alignment * alignment, self.end.div_ceil(alignment).saturating_mul(alignment))
    }
}

/// A set of at most `N` ranges.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ranges<const N: usize> {
    list: List<Range, N>,
}

impl<const N: usize> Ranges<N> {
    /// Returns the ranges in ascending order.
    pub fn iter(&self) -> impl Iterator<Item = Range> + '_ {
        self.list.iter().copied()
    }

    /// Returns the number of elements of the set.
    pub fn total(&self) -> u64 {
        self.iter().map(Range::size).sum()
    }

    /// Returns true if all of `range` is in the set.
    pub fn contains(&self, range: Range) -> bool {
        range.is_empty() || self.iter().any(|r| r.contains(range))
    }

    /// Returns true if any part of `range` is in the set.
    pub fn overlaps(&self, range: Range) -> bool {
        self.iter().any(|r| r.overlaps(range))
    }

    /// Adds `range`; `Full` if there is no room, and the set is unchanged.
    pub fn insert(&mut self, range: Range) -> Result<(), Full> {
        if range.is_empty() {
            return Ok(());
        }
        let first = self.list.partition_point(|r| r.end < range.start);
        let last = self.list.partition_point(|r| r.start <= range.end);
        let around = |all: Range, r: &Range| Range::new(all.start.min(r.start), all.end.max(r.end));
        let merged = self.list[first..last].iter().fold(range, around);
        self.list.replace(first..last, &[merged])
    }

    /// Removes `range`; `Full` if this splits a range and there is no room, and the set is
    /// unchanged.
    pub fn remove(&mut self, range: Range) -> Result<(), Full> {
        let first = self.list.partition_point(|r| r.end <= range.start);
        let last = self.list.partition_point(|r| r.start < range.end);
        if range.is_empty() || first >= last {
            return Ok(());
        }
        let rest = [Range::new(self.list[first].start, range.start), Range::new(range.end, self.list[last - 1].end)];
        let some = rest[0].is_empty() as usize..2 - rest[1].is_empty() as usize;
        self.list.replace(first..last, &rest[some])
    }

    /// Returns the gaps between neighbours. To insert one needs no room.
    pub fn gaps(&self) -> impl Iterator<Item = Range> + '_ {
        self.list.windows(2).map(|pair| Range::new(pair[0].end, pair[1].start))
    }

    /// Returns the lowest range of `size` numbers in the set that is aligned to `alignment` (a
    /// power of two).
    pub fn find(&self, size: u64, alignment: u64) -> Option<Range> {
        self.iter().find_map(|r| {
            let start = r.start.checked_next_multiple_of(alignment)?;
            let end = start.checked_add(size)?;
            (end <= r.end).then_some(Range::new(start, end))
        })
    }

    /// Returns the largest range.
    pub fn largest(&self) -> Option<Range> {
        self.iter().max_by_key(|r| r.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small generator, so that the property tests repeat themselves exactly.
    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn it_is_the_set_that_a_bitmap_says() {
        let mut seed = 0x1234_5678_9abc_def1;
        for _ in 0..200 {
            let mut ranges: Ranges<64> = Ranges::default();
            let mut bits = [false; 120];
            for _ in 0..60 {
                let start = next(&mut seed) % 120;
                let range = Range::new(start, (start + next(&mut seed) % 20).min(120));
                let add = next(&mut seed) % 2 == 0;
                if add { ranges.insert(range) } else { ranges.remove(range) }.unwrap();
                (range.start..range.end).for_each(|n| bits[n as usize] = add);
            }
            for n in 0..120 {
                assert_eq!(ranges.contains(Range::new(n, n + 1)), bits[n as usize]);
            }
            let list: Vec<Range> = ranges.iter().collect();
            assert!(list.windows(2).all(|w| w[0].end < w[1].start));
            assert!(list.iter().all(|r| !r.is_empty()));
        }
    }

    #[test]
    fn a_full_set_stays_as_it_was() {
        let mut ranges: Ranges<2> = Ranges::default();
        ranges.insert(Range::new(0, 10)).unwrap();
        ranges.insert(Range::new(20, 30)).unwrap();
        assert_eq!((ranges.insert(Range::new(12, 14)), ranges.remove(Range::new(3, 4))), (Err(Full), Err(Full)));
        assert_eq!(ranges.total(), 20);
        ranges.insert(Range::new(10, 20)).unwrap();
        assert_eq!(ranges.largest(), Some(Range::new(0, 30)));
    }

    #[test]
    fn a_gap_finds_room_in_a_full_set() {
        let mut ranges: Ranges<4> = Ranges::default();
        assert_eq!(ranges.gaps().next(), None);
        for start in [0, 20, 25, 90] {
            ranges.insert(Range::new(start, start + 2)).unwrap();
        }
        let gaps: Vec<_> = ranges.gaps().collect();
        assert_eq!(gaps, [Range::new(2, 20), Range::new(22, 25), Range::new(27, 90)]);
        ranges.insert(gaps[1]).unwrap();
        assert_eq!(ranges.iter().collect::<Vec<_>>(), [Range::new(0, 2), Range::new(20, 27), Range::new(90, 92)]);
    }

    #[test]
    fn places_are_aligned_and_inside() {
        let mut ranges: Ranges<4> = Ranges::default();
        ranges.insert(Range::new(0x1000, 0x30_0000)).unwrap();
        ranges.insert(Range::new(u64::MAX - 10, u64::MAX)).unwrap();
        assert_eq!(ranges.find(0x10_0000, 0x20_0000), Some(Range::new(0x20_0000, 0x30_0000)));
        assert_eq!(ranges.find(0x20_0000, 0x20_0000), None);
        assert_eq!(ranges.find(u64::MAX, 0x1000), None);
    }
}
