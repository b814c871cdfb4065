// SPDX-License-Identifier: GPL-2.0-only
//! Host tests of the index masks.

use super::{array_index_nospec, nospec};

#[test]
fn an_index_below_the_limit_stays() {
    for index in 0..16 {
        assert_eq!([nospec::<16>(index), array_index_nospec(index, 16)], [index; 2]);
    }
    assert_eq!(array_index_nospec(79, 80), 79);
}

#[test]
fn no_index_gets_beyond_the_limit() {
    for index in [80, 81, 1 << 32, 1 << 63, usize::MAX] {
        assert!(nospec::<16>(index) < 16);
        assert_eq!(array_index_nospec(index, 80), 0);
        assert_eq!(array_index_nospec(index, 0), 0);
    }
}
