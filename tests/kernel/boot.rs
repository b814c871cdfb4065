// SPDX-License-Identifier: GPL-2.0-only
//! The memory map, reduced to the regions that fit into the KIP.

use super::*;
use crate::random::Random;

fn set(pieces: &[(u64, u64)]) -> Memory {
    let mut set = Memory::default();
    pieces.iter().for_each(|(start, end)| set.insert(Range::new(*start, *end)).expect("there is room"));
    set
}

fn pieces(set: &Memory) -> Vec<(u64, u64)> {
    set.iter().map(|range| (range.start, range.end)).collect()
}

#[test]
fn a_short_map_stays() {
    let (ram, mut firmware) = (set(&[(0, 10), (20, 30)]), set(&[(10, 20)]));
    let mut free = ram;
    assert_eq!(limit(&ram, &mut free, &mut firmware, 3), None);
    assert_eq!((pieces(&free), pieces(&firmware)), (vec![(0, 10), (20, 30)], vec![(10, 20)]));
}

/// Between the firmware's regions at 10 and 40 there is only RAM; a device begins at 50.
#[test]
fn gaps_of_ram_go_first() {
    let (ram, mut firmware) = (set(&[(0, 10), (12, 40)]), set(&[(10, 12), (40, 50), (55, 60)]));
    let mut free = ram;
    assert_eq!(limit(&ram, &mut free, &mut firmware, 4), Some(0));
    assert_eq!((pieces(&free), pieces(&firmware)), (vec![(0, 10), (12, 40)], vec![(10, 50), (55, 60)]));
}

/// RAM beside the firmware's memory is dropped before a device is, and a device before RAM whose
/// loss saves no region.
#[test]
fn then_the_smallest_ram_goes_and_devices_last() {
    let (ram, firmware) = (set(&[(0, 10), (12, 14), (60, 64), (90, 99)]), set(&[(14, 20), (55, 60)]));
    let (mut free, mut less) = (ram, firmware);
    assert_eq!(limit(&ram, &mut free, &mut less, 5), Some(2));
    assert_eq!((pieces(&free), pieces(&less)), (vec![(0, 10), (60, 64), (90, 99)], vec![(12, 20), (55, 60)]));
    let (mut free, mut less) = (ram, firmware);
    assert_eq!(limit(&ram, &mut free, &mut less, 3), Some(6));
    assert_eq!((pieces(&free), pieces(&less)), (vec![(0, 10), (90, 99)], vec![(12, 64)]));
}

/// Whatever the map: the result fits, free RAM was RAM before, and memory of the firmware or RAM is
/// still one of the two.
#[test]
fn nothing_becomes_a_device() {
    const SIZE: u64 = 500;
    let random = Random::new(10);
    for round in 0..2_000 {
        let (mut ram, mut firmware) = (Memory::default(), Memory::default());
        for _ in 0..random.below(100) {
            let start = random.below(SIZE);
            let range = Range::new(start, start + 1 + random.below(6));
            let (to, from) = if random.below(2) == 0 { (&mut ram, &mut firmware) } else { (&mut firmware, &mut ram) };
            if from.remove(range).is_ok() {
                let _ = to.insert(range);
            }
        }
        let (mut free, before) = (ram, firmware);
        let most = 1 + random.below(40) as usize;
        let lost = limit(&ram, &mut free, &mut firmware, most);
        assert!(free.iter().count() + firmware.iter().count() <= most, "round {round}");
        assert_eq!(ram.total() - free.total(), lost.unwrap_or(0), "round {round}");
        for at in 0..SIZE + 6 {
            let one = Range::new(at, at + 1);
            assert!(!free.contains(one) || ram.contains(one), "round {round}: {at} was no RAM");
            let was = ram.contains(one) || before.contains(one);
            assert!(!was || free.contains(one) || firmware.contains(one), "round {round}: {at} is a device");
        }
    }
}

/// An ELF image with one loadable segment, and one that is not.
fn image(start: u64, content: &[u8], in_memory: u64) -> Vec<u8> {
    const HEADERS: [usize; 2] = [64, 64 + 56];
    let mut file = vec![0; 64 + 2 * 56];
    let mut put =
        |at: usize, value: u64, size: usize| file[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    put(0, 0x2_464c_457f, 5);
    put(24, start + 1, 8);
    put(32, HEADERS[0] as u64, 8);
    put(56, 2, 2);
    put(HEADERS[0], 6, 4);
    put(HEADERS[0] + 16, 1, 8);
    put(HEADERS[1], 1, 4);
    for (at, value) in [(8, 64 + 2 * 56), (16, start), (32, content.len() as u64), (40, in_memory)] {
        put(HEADERS[1] + at, value, 8);
    }
    file.extend(content);
    file
}

#[test]
fn a_first_tasks_segments_come_to_their_place_and_nowhere_else() {
    let mut memory = vec![0xffu8; 16];
    let start = memory.as_mut_ptr() as u64 + 4;
    let place = Range::new(start, start + 8);
    assert_eq!(load_segments(&image(start, b"text", 6), place), Some(start + 1));
    assert_eq!(memory, *b"\xff\xff\xff\xfftext\0\0\xff\xff\xff\xff\xff\xff");
    let before = memory.clone();
    assert_eq!(load_segments(&image(start, b"text", 9), place), None);
    assert_eq!(load_segments(&image(start, b"text", u64::MAX), place), None);
    assert_eq!(load_segments(&image(start, b"text", 3), place), None);
    assert_eq!(load_segments(&image(start - 1, b"text", 4), place), None);
    let whole = image(start, b"text", 4);
    assert_eq!(load_segments(&whole[..whole.len() - 1], place), None);
    assert_eq!(load_segments(&whole[1..], place), None);
    assert_eq!(load_segments(&[], place), None);
    assert_eq!(memory, before);
}
