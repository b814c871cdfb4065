// SPDX-License-Identifier: GPL-2.0-only
//! Indices that speculation cannot carry beyond their limit.

#[test]
fn an_index_stays_below_its_limit() {
    for index in [0, 1, 14, 15] {
        assert_eq!(super::bounded::<16>(index), index);
        assert_eq!(super::masked(index, 16), index);
    }
    assert_eq!([super::bounded::<16>(17), super::bounded::<16>(1 << 40)], [1, 0]);
    for index in [80, 81, 1 << 63, usize::MAX] {
        assert_eq!(super::masked(index, 80), 0);
    }
}
