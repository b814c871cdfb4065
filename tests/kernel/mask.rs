// SPDX-License-Identifier: GPL-2.0-only
//! Host tests of the masks.

use super::{bounded, masked};

#[test]
fn an_index_below_the_limit_stays() {
    for index in 0..16 {
        assert_eq!([bounded::<16>(index), masked(index, 16)], [index; 2]);
    }
    assert_eq!(masked(79, 80), 79);
}

#[test]
fn no_index_gets_beyond_the_limit() {
    for index in [80, 81, 1 << 32, 1 << 63, usize::MAX] {
        assert!(bounded::<16>(index) < 16);
        assert_eq!(masked(index, 80), 0);
        assert_eq!(masked(index, 0), 0);
    }
}
