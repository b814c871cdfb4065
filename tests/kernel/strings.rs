// SPDX-License-Identifier: GPL-2.0-only
//! Scatter and gather against plain concatenation.

use super::*;
use crate::random::Random;
use keel_abi::fpage::HALF_SHIFT;

/// Random items in [base, base + 64 KB), and the same items grouped by string.
fn random_parts(random: &Random, base: u64, largest: u64) -> (Vec<StringItem>, Vec<Vec<StringItem>>) {
    let count = random.below(STRING_ITEMS as u64 + 1);
    let (mut list, mut groups, mut group) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..count {
        let length = random.below(largest) * random.below(2);
        let more = number + 1 < count && random.below(3) == 0;
        let part = StringItem { address: base + random.below(0x8000), length };
        list.push(StringItem { length: length | if more { STRING_CONTINUES } else { 0 }, ..part });
        group.push(part);
        if !more {
            groups.push(core::mem::take(&mut group));
        }
    }
    (list, groups)
}

fn addresses(parts: &[StringItem]) -> Vec<u64> {
    parts.iter().flat_map(|part| part.address..part.address + part.length).collect()
}

/// Every byte of every string is copied as a byte-by-byte model says, in steps within a page, or
/// the message is cut.
#[test]
fn agrees_with_a_model_byte_by_byte() {
    let random = Random::new(5);
    let mut cuts = 0;
    for round in 0..3_000 {
        let (list, strings) = random_parts(&random, 0x10_0000, 0x2800);
        let (space, buffers) = random_parts(&random, 0x20_0000, 0x4000);
        let (from, to) = (StringItems::new(), StringItems::new());
        from.take(list.iter().copied());
        to.take(space.iter().copied());
        assert!(from.is_whole(list.len() as u64));
        let (mut pairs, mut lengths, mut cut) = (Vec::new(), Vec::new(), false);
        for (number, string) in strings.iter().enumerate() {
            let Some(buffer) = buffers.get(number) else {
                cut = true;
                break;
            };
            let (bytes, room) = (addresses(string), addresses(buffer));
            pairs.extend(bytes.iter().copied().zip(room.iter().copied()));
            lengths.push(StringItem { address: buffer[0].address, length: bytes.len().min(room.len()) as u64 });
            if bytes.len() > room.len() {
                cut = true;
                break;
            }
        }
        let mut copied = Vec::new();
        let end = loop {
            let step = next(&from, &to);
            assert_eq!(step, next(&from, &to), "asking twice changes nothing");
            let Ok(Some((source, target, size))) = step else { break step };
            let (source, target) = (source.raw(), target.raw());
            assert!(size > 0 && source % PAGE_SIZE + size <= PAGE_SIZE && target % PAGE_SIZE + size <= PAGE_SIZE);
            copied.extend((source..source + size).zip(target..target + size));
            moved(&from, &to, size);
        };
        assert_eq!(end, if cut { Err(Error::MessageCut) } else { Ok(None) }, "round {round}");
        assert_eq!(copied, pairs, "round {round}");
        assert_eq!(to.arrived().collect::<Vec<_>>(), lengths, "round {round}");
        cuts += cut as u32;
    }
    assert!(cuts > 300 && cuts < 2_700, "both ends were seen: {cuts}");
}

#[test]
fn impossible_parts_end_a_list() {
    let end = 1 << HALF_SHIFT;
    for (address, length) in [(end, 1), (end - 1, 2), (u64::MAX, 2), (0, MAX_STRING_BYTES + 1), (0, u64::MAX)] {
        let parts = StringItems::new();
        parts.take([StringItem { address: 0, length: 8 }, StringItem { address, length }].into_iter());
        assert!(!parts.is_whole(2) && parts.is_whole(1));
    }
    let open = StringItems::new();
    open.take([StringItem { address: 0, length: STRING_CONTINUES }].into_iter());
    assert!(!open.is_whole(1));
}
