// SPDX-License-Identifier: GPL-2.0-only
//! Sets of intervals against a bitmap.

use super::*;
use crate::random::Random;

#[test]
fn agrees_with_a_bitmap() {
    let set = Intervals::new();
    let mut model = [false; 64];
    let random = Random::new(9);
    for _ in 0..20_000 {
        let (a, b) = (random.below(65), random.below(65));
        let (start, end) = (a.min(b), a.max(b));
        let add = random.below(2) == 0;
        if add {
            set.add(start, end)
        } else {
            set.remove(start, end)
        }
        model[start as usize..end as usize].fill(add);
        assert_eq!(set.total(), model.iter().filter(|bit| **bit).count() as u64);
        let probe = random.below(64);
        assert_eq!(set.intersects(probe, probe + 1), model[probe as usize]);
    }
}
