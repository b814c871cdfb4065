// SPDX-License-Identifier: BSD-2-Clause
//! The owners of the ranges of one number space. A number has one owner and keeps it; a repeated
//! request of the owner succeeds. This module does not know what the numbers mean.

use keel_l4::list::List;
use keel_l4::ranges::Range;
use keel_l4::Error;

/// A range and the task that owns it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owned {
    range: Range,
    owner: u32,
}

/// At most `N` owned ranges, sorted and disjoint; neighbours of one owner are merged.
#[derive(Debug, Default)]
pub struct Owners<const N: usize> {
    list: List<Owned, N>,
}

impl<const N: usize> Owners<N> {
    /// Ranges into which one owner may split the space. The limit keeps one owner from using up the
    /// table.
    const SHARE: usize = N / 2;

    /// A space in which nothing is owned.
    pub fn new() -> Owners<N> {
        Owners { list: List::default() }
    }

    /// Makes `owner` the owner of all of `range`. Fails if another task owns a part of it, or if
    /// the table or the owner's share is full.
    pub fn claim(&mut self, range: Range, owner: u32) -> Result<(), Error> {
        let first = self.list.partition_point(|o| o.range.end <= range.start);
        let last = self.list.partition_point(|o| o.range.start < range.end);
        if range.is_empty() {
            return Err(Error::Invalid);
        }
        if self.list[first..last].iter().any(|o| o.owner != owner) {
            return Err(Error::Busy);
        }
        if first + 1 == last && self.list[first].range.contains(range) {
            return Ok(());
        }
        self.merge(first, last, Owned { range, owner })
    }

    /// Replaces the entries [`first`, `last`), and adjacent ones of the same owner, by `new`.
    fn merge(&mut self, mut first: usize, mut last: usize, mut new: Owned) -> Result<(), Error> {
        if first > 0 && self.list[first - 1].owner == new.owner && self.list[first - 1].range.end == new.range.start {
            first -= 1;
        }
        if self.list.get(last).is_some_and(|o| o.owner == new.owner && o.range.start == new.range.end) {
            last += 1;
        }
        if first == last && self.list.iter().filter(|o| o.owner == new.owner).count() >= Self::SHARE {
            return Err(Error::NoMemory);
        }
        for old in &self.list[first..last] {
            new.range = Range::new(new.range.start.min(old.range.start), new.range.end.max(old.range.end));
        }
        self.list.replace(first..last, &[new]).map_err(|_| Error::NoMemory)
    }

    /// The first owned range that overlaps `range`.
    pub fn first_in(&self, range: Range) -> Option<Range> {
        let first = self.list.partition_point(|o| o.range.end <= range.start);
        self.list.get(first).map(|o| o.range).filter(|r| r.overlaps(range))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    #[test]
    fn every_number_has_one_owner_for_ever() {
        let mut seed = 0x9e37_79b9_7f4a_7c15;
        for _ in 0..200 {
            let mut owners: Owners<256> = Owners::new();
            let mut model = [0u32; 100];
            for _ in 0..80 {
                let start = next(&mut seed) % 100;
                let range = Range::new(start, (start + 1 + next(&mut seed) % 12).min(100));
                let owner = 1 + (next(&mut seed) % 4) as u32;
                let cells = &mut model[range.start as usize..range.end as usize];
                let free = cells.iter().all(|c| *c == 0 || *c == owner);
                assert_eq!(owners.claim(range, owner), if free { Ok(()) } else { Err(Error::Busy) });
                if free {
                    cells.fill(owner);
                    assert_eq!(owners.claim(range, owner), Ok(()));
                }
            }
            for (n, cell) in model.iter().enumerate() {
                let one = Range::new(n as u64, n as u64 + 1);
                assert_eq!(owners.first_in(one).is_some(), *cell != 0);
            }
            assert!(owners.list.windows(2).all(|w| w[0].range.end <= w[1].range.start));
        }
    }

    #[test]
    fn one_owner_cannot_fill_the_table() {
        let mut owners: Owners<8> = Owners::new();
        for n in 0..4 {
            owners.claim(Range::new(2 * n, 2 * n + 1), 1).unwrap();
        }
        assert_eq!(owners.claim(Range::new(20, 21), 1), Err(Error::NoMemory));
        assert_eq!(owners.claim(Range::new(20, 21), 2), Ok(()));
        assert_eq!(owners.claim(Range::new(0, 8), 1), Ok(()));
    }
}
