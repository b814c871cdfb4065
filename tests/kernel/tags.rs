// SPDX-License-Identifier: GPL-2.0-only
//! Host tests of the tags: processors whose TLBs hold what the hardware may hold, and a random history of switches,
//! uses, changes and ends of spaces. Nobody may ever use a translation that was changed.

use super::*;
use crate::random::Random;
use std::collections::HashMap;

const SPACES: u64 = 24;
const PAGES: u64 = 8;
const TAG: u64 = 0xfff;

/// Some of the spaces have the same tag; none lies at 0.
fn root(space: u64) -> u64 {
    (space % 4 + (1 + space / 4) * TAGS as u64) << PAGE_SHIFT
}

#[derive(Default)]
struct Processor {
    tags: Tags,
    space: Option<u64>,
    tag: u64,
    /// (tag, page) to the version of the entry that was seen.
    held: HashMap<(u64, u64), u32>,
}

impl Default for Tags {
    fn default() -> Tags {
        let tags = Tags::new();
        tags.begin();
        tags
    }
}

impl Processor {
    fn switch(&mut self, space: u64) {
        if self.space == Some(space) {
            return;
        }
        let loaded = self.tags.enter(root(space));
        assert_eq!(loaded & !KEEP & !TAG, root(space));
        self.tag = loaded & TAG;
        assert_ne!(self.tag, 0, "the tag of the time before there are tags");
        if loaded & KEEP == 0 {
            self.held.retain(|(tag, _), _| *tag != self.tag);
        }
        self.space = Some(space);
    }

    /// As `paging::exclude` does to the others.
    fn leave(&mut self, space: u64) {
        if self.space == Some(space) {
            self.space = None;
        }
        self.tags.forget(root(space));
    }

    /// As `paging::flush` does on the processor itself.
    fn flush(&mut self, space: u64, page: u64, by_address: bool) {
        match self.tags.of(root(space)) {
            _ if self.space == Some(space) => drop(self.held.remove(&(self.tag, page))),
            Some(tag) if by_address => drop(self.held.remove(&(tag, page))),
            _ => self.tags.forget(root(space)),
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
                // The space ends, and another has its top table from now on.
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
                    kept += u32::from(processor.held.contains_key(&(processor.tag, page)));
                    let seen = *processor.held.entry((processor.tag, page)).or_insert(now);
                    assert_eq!(seen, now, "a stale translation of page {page} of space {space}");
                }
            }
        }
    }
    assert!(kept > 1000, "tags keep something");
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
    let tags = Tags::default();
    let (first, second, third) = (root(0), root(1), root(4));
    assert_eq!([tags.enter(first) & KEEP, tags.enter(second) & KEEP], [0; 2]);
    assert_eq!([tags.enter(first) & KEEP, tags.enter(second) & KEEP], [KEEP; 2]);
    assert_eq!(tags.enter(third) & (KEEP | TAG), tags.enter(first) & (KEEP | TAG), "both begin anew with the same tag");
    tags.forget(second);
    assert_eq!((tags.of(second), tags.enter(second) & KEEP), (None, 0));
}

#[test]
fn without_tags_nothing_is_held() {
    let tags = Tags::new();
    assert!(!tags.are_used());
    tags.enter(root(0));
    assert_eq!(tags.of(root(0)), None);
}
