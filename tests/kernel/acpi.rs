// SPDX-License-Identifier: GPL-2.0-only
//! ACPI's tables, as firmware makes them, and damaged ones.

use super::*;
use crate::random::Random;

/// A table's header, whose length and sum `find` has checked.
const HEADER: usize = 36;

fn madt(entries: &[&[u8]]) -> Vec<u8> {
    let mut table = vec![0; HEADER + 8];
    entries.iter().for_each(|entry| table.extend_from_slice(entry));
    table
}

fn local(id: u8, flags: u8) -> [u8; 8] {
    [0, 8, 1, id, flags, 0, 0, 0]
}

fn x2(id: u32, flags: u8) -> [u8; 16] {
    let [a, b, c, d] = id.to_le_bytes();
    [9, 16, 0, 0, a, b, c, d, flags, 0, 0, 0, 7, 0, 0, 0]
}

fn io(address: u32, base: u32) -> Vec<u8> {
    [&[1, 12, 0, 0][..], &address.to_le_bytes(), &base.to_le_bytes()].concat()
}

fn ids(entries: &[&[u8]]) -> Vec<u32> {
    parse_madt(&madt(entries)).expect("it is whole").processors.to_vec()
}

#[test]
fn processors_of_both_kinds_are_found_once() {
    let entries: [&[u8]; 8] = [
        &local(0, 1),
        &x2(0, 1),
        &local(4, 1),
        &local(5, 0),
        &local(u8::MAX, 1),
        &x2(300, 1),
        &x2(301, 0),
        &x2(u32::MAX, 1),
    ];
    assert_eq!(ids(&entries), [0, 4, 300]);
}

#[test]
fn more_processors_than_are_used_are_left_out() {
    let entries: Vec<_> = (0..40).map(|id| x2(id, 1)).collect();
    let found = ids(&entries.iter().map(|entry| &entry[..]).collect::<Vec<_>>());
    assert_eq!(found, (0..cpu::MAX as u32).collect::<Vec<_>>());
}

#[test]
fn io_apics_have_their_bases() {
    let found = parse_madt(&madt(&[&io(0xfec0_0000, 0), &io(0xfec1_0000, 24)])).expect("it is whole").or_default();
    let wanted = [IoApic { address: 0xfec0_0000, base: 0 }, IoApic { address: 0xfec1_0000, base: 24 }];
    assert_eq!(found.io_apics.to_vec(), wanted);
    let many: Vec<_> = (0..40).map(|number| io(0xfec0_0000 + number * 0x1000, number * 24)).collect();
    let many: Vec<_> = many.iter().map(|entry| &entry[..]).collect();
    assert_eq!(parse_madt(&madt(&many)).expect("it is whole").io_apics.len(), IO_APICS);
}

#[test]
fn without_a_table_there_is_one_io_apic() {
    for none in [Madt::NONE, parse_madt(&madt(&[&local(0, 1)])).expect("it is whole")] {
        assert_eq!(none.or_default().io_apics.to_vec(), [IO_APIC_DEFAULT]);
    }
}

#[test]
fn a_moved_line_takes_the_pin_of_another() {
    let found =
        parse_madt(&madt(&[&[2, 10, 0, 0, 2, 0, 0, 0, 0, 0], &[2, 10, 0, 9, 9, 0, 0, 0, 15, 0]])).expect("whole");
    assert_eq!((found.pin(0), found.owns_pin(2), found.owns_pin(0)), (2, false, true));
    assert_eq!((found.mode(9), found.mode(30)), ((true, true), (true, true)));
}

/// Whatever bytes a table has, reading ends and stays inside the table.
#[test]
fn damaged_tables_are_none_or_bounded() {
    let random = Random::new(18);
    let whole = madt(&[&local(0, 1), &x2(300, 1), &io(0xfec0_0000, 0), &[2, 10, 0, 0, 2, 0, 0, 0, 0, 0]]);
    for length in 0..whole.len() {
        let _ = (parse_madt(&whole[..length]), parse_hpet(&whole[..length]), parse_pm_timer(&whole[..length]));
    }
    for _ in 0..100_000 {
        let mut table: Vec<u8> = whole.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(table.len() as u64) as usize;
            table[at] = random.below(256) as u8;
        }
        if let Some(madt) = parse_madt(&table) {
            (0..256).for_each(|line| assert!(madt.pin(line) < 256, "{:?}", madt.pin(line)));
        }
        let _ = (parse_hpet(&table), parse_pm_timer(&table));
    }
    // An entry without a length would never end.
    assert!(parse_madt(&madt(&[&[0, 0]])).is_none() && parse_madt(&madt(&[&[0, 1]])).is_none());
    assert!(parse_madt(&madt(&[&[0, 8, 0]])).is_none());
}

fn hpet(space: u8, address: u64) -> Vec<u8> {
    [&[0; HEADER][..], &[1, 0xa2, 0x86, 0x80, space, 64, 0, 0], &address.to_le_bytes(), &[0, 0x64, 0, 0]].concat()
}

#[test]
fn an_hpet_is_in_memory_and_aligned() {
    assert_eq!(parse_hpet(&hpet(0, 0xfed0_0000)), Some(0xfed0_0000));
    assert_eq!(parse_hpet(&hpet(1, 0xfed0_0000)), None);
    assert_eq!(parse_hpet(&hpet(0, 0)), None);
    assert_eq!(parse_hpet(&hpet(0, 0xfed0_03fc)), None);
    assert_eq!(parse_hpet(&hpet(0, 0xfed0_0000)[..50]), None);
}

fn fadt(length: usize, port: u32, flags: u32, long: (u8, u64)) -> Vec<u8> {
    let mut table = vec![0; 276];
    table[76..80].copy_from_slice(&port.to_le_bytes());
    table[112..116].copy_from_slice(&flags.to_le_bytes());
    table[208] = long.0;
    table[212..220].copy_from_slice(&long.1.to_le_bytes());
    table.truncate(length);
    table
}

#[test]
fn a_pm_timer_has_a_port() {
    const REDUCED: u32 = 1 << 20;
    assert_eq!(parse_pm_timer(&fadt(116, 0x608, 0, (0, 0))), Some(0x608));
    assert_eq!(parse_pm_timer(&fadt(276, 0x608, 0, (1, 0x1808))), Some(0x1808));
    assert_eq!(parse_pm_timer(&fadt(276, 0x608, 0, (1, 0))), Some(0x608));
    assert_eq!(parse_pm_timer(&fadt(276, 0x608, 0, (0, 0xfed4_0000))), None);
    assert_eq!(parse_pm_timer(&fadt(276, 0x608, REDUCED, (1, 0x608))), None);
    assert_eq!(parse_pm_timer(&fadt(276, 0, 0, (1, 0))), None);
    assert_eq!(parse_pm_timer(&fadt(276, 0x1_0608, 0, (1, 0))), None);
    assert_eq!(parse_pm_timer(&fadt(100, 0x608, 0, (0, 0))), None);
}

/// A table that names RAM, the kernel or unmapped memory gives no register there.
#[test]
fn registers_are_no_rams() {
    let mut ram = Memory::default();
    ram.insert(Range::new(0x10_0000, 0x8000_0000)).expect("it is empty");
    assert!(can_be_registers(0xfec0_0000, &ram));
    for address in [0, 0x1000, 0xfec0, 0x7fff_f800, 0x1000_0000, facts::BOOT_MAPPED - 1, facts::BOOT_MAPPED, u64::MAX] {
        assert!(!can_be_registers(address, &ram), "{address:#x}");
    }
}
