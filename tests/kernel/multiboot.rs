// SPDX-License-Identifier: GPL-2.0-only
//! Memory maps of loaders with very many regions.

use super::*;

fn entry(start: u64, size: u64, kind: u64) -> Vec<u8> {
    [start, size, kind].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// RAM and firmware memory alternate in more regions than a set has room for: some RAM is dropped,
/// and no firmware memory becomes RAM.
#[test]
fn a_long_map_is_cut_down() {
    const PIECE: u64 = 0x1_0000;
    for count in [10, 100, 130, 200, 400, 1000] {
        let mut information = Information::default();
        for number in 0..count {
            let kind = 1 + number % 2;
            assert_eq!(information.add_memory(&entry(number * PIECE, PIECE, kind)), Some(()));
        }
        information.settle();
        let Information { ram, reserved, lost, .. } = information;
        assert_eq!(lost.is_some(), count > MOST_PIECES as u64, "{count}");
        assert!(ram.iter().count() + reserved.iter().count() <= MOST_PIECES, "{count}");
        assert!(count > 100 || ram.total() >= count / 4 * PIECE, "{count}: {} bytes of RAM", ram.total());
        for number in 0..count {
            let piece = Range::new(number * PIECE, (number + 1) * PIECE);
            assert!(number % 2 == 0 || !ram.overlaps(piece), "{count}: piece {number} is the firmware's");
            assert!(ram.contains(piece) || reserved.contains(piece), "{count}: piece {number} would be a device's");
        }
    }
}

#[test]
fn what_is_both_is_reserved() {
    let mut information = Information::default();
    for (start, size, kind) in [(0, 100, 1), (40, 10, 2), (u64::MAX - 5, 100, 1)] {
        assert_eq!(information.add_memory(&entry(start, size, kind)), Some(()));
    }
    assert_eq!(information.add_memory(&[0; 10]), None);
    information.settle();
    assert!(information.ram.contains(Range::new(0, 40)) && information.ram.contains(Range::new(50, 100)));
    assert!(!information.ram.overlaps(Range::new(40, 50)));
}
