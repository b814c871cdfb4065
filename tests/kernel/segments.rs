// SPDX-License-Identifier: GPL-2.0-only
//! Descriptors of threads in windows, against the processor's check of a segment's limit (Intel SDM
//! volume 3, 5.3), with random windows and random thread-local descriptors.

use super::*;
use crate::arch::Machine;
use crate::random::{seed, Random};
use keel_abi::call::{SMALL_ALL, SMALL_MAX_LOG2, SMALL_MIN_LOG2};
use std::ops::RangeInclusive;

/// Bits of a descriptor that the code under test has no name for.
const PRESENT: u64 = 1 << 47;
const NO_SYSTEM: u64 = 1 << 44;
const LONG: u64 = 1 << 53;
const EXECUTABLE: u64 = 1 << 43;
const USER: u64 = 3 << 45;
/// Bytes that 32 bits can name.
const SPACE: u64 = 1 << 32;
const PAGE_BYTES: u64 = 1 << PAGE_SHIFT;
const ROUNDS: u64 = 300_000;

/// The linear address of offset 0.
fn base(descriptor: u64) -> u64 {
    descriptor >> 16 & 0xff_ffff | descriptor >> 56 << 24
}

/// The offsets that the processor lets a program use, if any.
fn offsets(descriptor: u64) -> Option<RangeInclusive<u64>> {
    if descriptor & PRESENT == 0 {
        return None;
    }
    let limit = descriptor & 0xffff | (descriptor >> 48 & 0xf) << 16;
    let limit = if descriptor & PAGES != 0 { limit * PAGE_BYTES + PAGE_BYTES - 1 } else { limit };
    let expands_down = descriptor & EXECUTABLE == 0 && descriptor & DOWN != 0;
    let largest = if descriptor & BITS_32 != 0 { SPACE - 1 } else { 0xffff };
    let range = if expands_down { limit + 1..=largest } else { 0..=limit };
    (!range.is_empty()).then_some(range)
}

/// Whether a program reaches a linear address by this descriptor.
fn reaches(descriptor: u64, linear: u64) -> bool {
    let offset = linear.wrapping_sub(base(descriptor)) % SPACE;
    offsets(descriptor).is_some_and(|range| range.contains(&offset))
}

/// Fails if a program reaches an address outside of a window by this descriptor.
fn assert_inside(descriptor: u64, reach: Reach, what: &str) {
    let Some(range) = offsets(descriptor) else { return };
    // The offsets follow one another, and so do their addresses, modulo 4 GB: the first is in the
    // window, and all others are, if there is no more than is left of the window.
    let first = (base(descriptor) + range.start()) % SPACE;
    let bytes = range.end() - range.start() + 1;
    let inside = first >= reach.base() && first + bytes <= reach.base() + reach.size();
    assert!(inside, "{what}: {descriptor:#x} covers {bytes:#x} bytes from {first:#x} on, with {reach:?}");
}

fn any_window(random: &Random) -> Reach {
    let log2 = SMALL_MIN_LOG2 + random.below(SMALL_MAX_LOG2 - SMALL_MIN_LOG2 + 1);
    Reach::of(random.below(SPACE >> log2) << log2 | log2).expect("it is a window")
}

/// A number that often is at an edge of a window, of a page, or of what a limit can be.
fn edge(random: &Random, reach: Reach) -> u64 {
    let near = match random.below(6) {
        0 => reach.size(),
        1 => LARGEST + 1,
        2 => random.below(reach.size()) & !(PAGE_BYTES - 1),
        3 => random.below(SPACE),
        4 => SPACE,
        _ => random.below(reach.size()),
    };
    near.wrapping_add(random.below(5)).wrapping_sub(2) % SPACE
}

/// A descriptor that a user may have for a thread (segments::is_user_descriptor).
fn any_descriptor(random: &Random, reach: Reach) -> u64 {
    let code = random.below(4) == 0;
    let kind = if code { 0xa + random.below(2) } else { random.below(8) };
    let pages = random.below(2);
    let limit = match random.below(3) {
        0 => LARGEST,
        _ => edge(random, reach) >> (PAGE_SHIFT * pages) & LARGEST,
    };
    let present = if random.below(16) == 0 { 0 } else { PRESENT };
    let bits = kind << 40 | present | NO_SYSTEM | USER | random.below(2) * BITS_32 | pages * PAGES;
    let place = edge(random, reach);
    let descriptor = bits | limit & 0xffff | (limit >> 16) << 48 | (place & 0xff_ffff) << 16 | place >> 24 << 56;
    assert!(is_user_descriptor(descriptor), "{descriptor:#x}");
    descriptor
}

#[test]
fn no_offset_reaches_beyond_the_window() {
    let random = Random::new(seed(11));
    let mut covered = 0;
    for _ in 0..ROUNDS {
        let reach = any_window(&random);
        let own = any_descriptor(&random, reach);
        for down in [false, true] {
            let got = confined(own, reach, down);
            assert_inside(got, reach, "confined");
            assert!(got == 0 || is_user_descriptor(got), "{own:#x} became {got:#x}, which is no user's");
            assert_eq!(got & LONG, 0, "{own:#x} became 64-bit code");
            covered += offsets(got).is_some() as u64;
        }
    }
    assert!(covered > ROUNDS / 2, "most of them cover something: {covered}");
}

/// What is not taken away: addresses in the window that the program's own descriptor covers, from
/// its base on, or below it if it covers all. Only a last page that is not whole is missing.
#[test]
fn what_the_program_covers_in_its_window_stays() {
    let random = Random::new(seed(12));
    let (mut up, mut below) = (0, 0);
    for _ in 0..ROUNDS {
        let reach = any_window(&random);
        let own = any_descriptor(&random, reach);
        let expands_down = own & EXECUTABLE == 0 && own & DOWN != 0;
        if own & PRESENT == 0 || base(own) >= reach.size() || expands_down {
            let got = confined(own, reach, random.below(2) == 0);
            assert_eq!(offsets(got), None, "{own:#x} in {reach:?}");
            // Its selector and base stay in the registers, for when the thread leaves its window.
            let kept = (own & PRESENT, (reach.base() + base(own)) * (own != 0) as u64 % SPACE);
            assert_eq!((got & PRESENT, base(got)), kept, "{own:#x} in {reach:?}");
            continue;
        }
        let place = base(own);
        let last = *offsets(own).expect("it is present").end();
        let all = last == SPACE - 1 && own & EXECUTABLE == 0;
        assert_eq!(covers_all(own), all, "{own:#x}");
        let end = (last + 1).min(reach.size() - place);
        let end = if end <= LARGEST + 1 { end } else { end & !(PAGE_BYTES - 1) };
        let upwards = confined(own, reach, false);
        for offset in [0, end - 1, random.below(end)] {
            assert!(reaches(upwards, reach.base() + place + offset), "{own:#x} at {offset:#x} in {reach:?}");
            up += 1;
        }
        assert_eq!(base(upwards), reach.base() + place, "offsets mean what they meant");
        let downwards = confined(own, reach, true);
        if !all {
            assert_eq!(downwards, upwards, "{own:#x} has one side");
        } else if own & BITS_32 != 0 {
            // The first bytes before the base's page are missing.
            let first = place % PAGE_BYTES;
            for address in [first, place.saturating_sub(1), first + random.below(place - first + 1)] {
                let reached = reaches(downwards, reach.base() + address);
                assert_eq!(reached, (first..place).contains(&address), "{own:#x} at {address:#x} in {reach:?}");
                below += reached as u64;
            }
            assert_eq!(base(downwards), reach.base() + place, "offsets mean what they meant");
        }
    }
    assert!(up > ROUNDS && below > ROUNDS / 20, "both sides were seen: {up}, {below}");
}

/// Every descriptor of a processor that a user can load, with each reach.
#[test]
fn a_processor_has_no_other_user_segments() {
    let machine = Machine::take();
    let random = Random::new(seed(13));
    let cpu = machine.act(1);
    for _ in 0..ROUNDS / 100 {
        let reach = any_window(&random);
        select(cpu, reach);
        set_tls(core::array::from_fn(|_| confined(any_descriptor(&random, reach), reach, random.below(2) == 0)));
        for (number, descriptor) in cpu.tables.gdt.iter().map(|word| word.get()).enumerate() {
            if descriptor & (NO_SYSTEM | USER) == NO_SYSTEM | USER {
                assert_inside(descriptor, reach, &std::format!("entry {number}"));
                assert_eq!(descriptor & LONG, 0, "entry {number} is 64-bit code");
            }
        }
        let [code, data] = [USER_CS32, USER_SS].map(|selector| cpu.tables.gdt[selector as usize / 8].get());
        for descriptor in [code, data] {
            assert_eq!((base(descriptor), offsets(descriptor)), (reach.base(), Some(0..=reach.size() - 1)));
        }
        assert_eq!((code & EXECUTABLE, data & (EXECUTABLE | DOWN)), (EXECUTABLE, 0));
    }
    set_tls([0; 3]);
    for reach in [Reach::NONE, Reach::of(SMALL_ALL).expect("all")] {
        select(cpu, reach);
        let [code, data, long] = [USER_CS32, USER_SS, USER_CS].map(|it| cpu.tables.gdt[it as usize / 8].get());
        let all = (0, Some(0..=SPACE - 1));
        assert_eq!([code, data].map(|it| (base(it), offsets(it))), [all.clone(), all], "{reach:?}");
        assert_eq!(long & LONG != 0, reach == Reach::NONE, "64-bit code is for 64-bit threads");
    }
    select(cpu, Reach::NONE);
}
