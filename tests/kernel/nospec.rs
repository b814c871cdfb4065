// SPDX-License-Identifier: GPL-2.0-only
//! Host tests of the index mask.

use super::nospec;

#[test]
fn an_index_below_the_limit_stays() {
    for index in 0..16 {
        assert_eq!(nospec::<16>(index), index);
    }
}

#[test]
fn no_index_gets_beyond_the_limit() {
    for index in [80, 81, 1 << 32, 1 << 63, usize::MAX] {
        assert!(nospec::<16>(index) < 16);
    }
}
