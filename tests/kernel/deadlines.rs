// SPDX-License-Identifier: GPL-2.0-only
//! The heap of deadlines against a sorted model.

use super::*;
use crate::random::Random;
use std::collections::BTreeSet;

#[test]
fn agrees_with_a_sorted_set_over_random_histories() {
    let heap: Deadlines<usize> = Deadlines::new();
    let entries: Vec<Ref<Deadline<usize>>> = (0..500)
        // SAFETY: leaked, so it lives forever.
        .map(|_| unsafe { Ref::new(Box::leak(Box::new(Deadline::new()))) })
        .collect();
    let mut model: BTreeSet<(u64, usize)> = BTreeSet::new();
    let mut times = vec![0; entries.len()];
    let random = Random::new(42);
    for step in 0..300_000u64 {
        let which = random.below(entries.len() as u64) as usize;
        if random.below(4) == 0 {
            let due = random.below(1 << 20);
            match heap.pop_due(due) {
                Some(owner) => {
                    assert!(times[owner] <= due && times[owner] == model.first().unwrap().0);
                    assert!(model.remove(&(times[owner], owner)));
                }
                None => assert!(model.first().is_none_or(|(time, _)| *time > due)),
            }
        } else if entries[which].is_armed() {
            heap.remove(entries[which]);
            assert!(model.remove(&(times[which], which)), "step {step}");
        } else {
            times[which] = random.below(1 << 20);
            heap.insert(entries[which], times[which], which);
            model.insert((times[which], which));
        }
        assert_eq!(heap.earliest(), model.first().map_or(u64::MAX, |(time, _)| *time));
    }
}
