// SPDX-License-Identifier: GPL-2.0-only
//! Host tests of the PCIDs: processors whose TLBs cache everything that hardware may cache, and a
//! random history of switches, accesses, changes and deletions of spaces. No processor may use a
//! TLB entry of a mapping that was changed.

use super::*;
use crate::random::Random;
use std::collections::HashMap;

const SPACES: u64 = 24;
const PAGES: u64 = 8;
const TAG: u64 = 0xfff;

/// Some of the spaces have the same pcid; none is at 0.
fn root(space: u64) -> PhysAddr {
    PhysAddr::new((space % 4 + (1 + space / 4) * PCIDS as u64) << PAGE_SHIFT)
}

#[derive(Default)]
struct Processor {
    pcids: Pcids,
    space: Option<u64>,
    pcid: u64,
    /// (pcid, page) to the version of the entry that was seen.
    held: HashMap<(u64, u64), u32>,
}

impl Default for Pcids {
    fn default() -> Pcids {
        let pcids = Pcids::new();
        pcids.on.set(true);
        pcids
    }
}

impl Processor {
    fn switch(&mut self, space: u64) {
        if self.space == Some(space) {
            return;
        }
        let loaded = self.pcids.enter(root(space));
        assert_eq!(loaded & !NOFLUSH & !TAG, root(space).raw());
        self.pcid = loaded & TAG;
        assert_ne!(self.pcid, 0, "the pcid of the time before there are pcids");
        if loaded & NOFLUSH == 0 {
            self.held.retain(|(pcid, _), _| *pcid != self.pcid);
        }
        self.space = Some(space);
    }

    /// Like `paging::shoot_down` for the other processors.
    fn leave(&mut self, space: u64) {
        if self.space == Some(space) {
            self.space = None;
        }
        self.pcids.forget(root(space));
    }

    /// Like `paging::flush` on the processor itself.
    fn flush(&mut self, space: u64, page: u64, by_address: bool) {
        match self.pcids.of(root(space)) {
            _ if self.space == Some(space) => drop(self.held.remove(&(self.pcid, page))),
            Some(pcid) if by_address => drop(self.held.remove(&(pcid, page))),
            _ => self.pcids.forget(root(space)),
        }
    }
}

fn history(seed: u64, by_address: bool) {
    let random = Random::new(seed);
    let mut versions: HashMap<(u64, u64), u32> = HashMap::new();
    let mut processors: Vec<Processor> = (0..3).map(|_| Processor::default()).collect();
    let mut kept = 0;
    for _ in 0..250_000 {
        let own = random.below(processors.len() as u64) as usize;
        let (space, page) = (random.below(SPACES), random.below(PAGES));
        match random.below(16) {
            0 => {
                // The space is deleted, and another one uses its top table from now on.
                processors.iter_mut().for_each(|processor| processor.leave(space));
                (0..PAGES).for_each(|page| *versions.entry((space, page)).or_default() += 1);
            }
            1..=3 => {
                let others = processors.iter_mut().enumerate().filter(|(number, _)| *number != own);
                others.for_each(|(_, processor)| processor.leave(space));
                *versions.entry((space, page)).or_default() += 1;
                processors[own].flush(space, page, by_address);
            }
            4..=7 => processors[own].switch(space),
            _ => {
                let processor = &mut processors[own];
                if let Some(space) = processor.space {
                    let now = versions.get(&(space, page)).copied().unwrap_or(0);
                    kept += u32::from(processor.held.contains_key(&(processor.pcid, page)));
                    let seen = *processor.held.entry((processor.pcid, page)).or_insert(now);
                    assert_eq!(seen, now, "a stale translation of page {page} of space {space}");
                }
            }
        }
    }
    assert!(kept > 1000, "pcids keep something");
}

#[test]
fn no_stale_translation_is_used() {
    for seed in 1..=2 {
        history(seed, true);
        history(seed, false);
    }
}

#[test]
fn a_space_keeps_its_translations_until_another_takes_its_tag() {
    let pcids = Pcids::default();
    let (first, second, third) = (root(0), root(1), root(4));
    assert_eq!([pcids.enter(first) & NOFLUSH, pcids.enter(second) & NOFLUSH], [0; 2]);
    assert_eq!([pcids.enter(first) & NOFLUSH, pcids.enter(second) & NOFLUSH], [NOFLUSH; 2]);
    assert_eq!(
        pcids.enter(third) & (NOFLUSH | TAG),
        pcids.enter(first) & (NOFLUSH | TAG),
        "both restart with the same pcid"
    );
    pcids.forget(second);
    assert_eq!((pcids.of(second), pcids.enter(second) & NOFLUSH), (None, 0));
}

#[test]
fn without_tags_nothing_is_held() {
    let pcids = Pcids::new();
    assert!(!pcids.on.get());
    pcids.enter(root(0));
    assert_eq!(pcids.of(root(0)), None);
}
