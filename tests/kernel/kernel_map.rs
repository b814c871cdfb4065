// SPDX-License-Identifier: GPL-2.0-only
//! Host tests of the check of the kernel's own map: tables with a page of the text, one of the
//! constants, one of the data, and large pages of the direct map pass; each wrong right is found.

use super::*;

const PAGE: u64 = span(0);
const TEXT: u64 = 0x10_0000;
const CONSTANTS: u64 = TEXT + PAGE;
const DATA: u64 = CONSTANTS + PAGE;
/// Slots of the lowest table, which is the image's.
const TEXT_SLOT: usize = (TEXT / PAGE) as usize;
const DATA_SLOT: usize = (DATA / PAGE) as usize;
/// Slots of the top table and of the two below it that lead to the image's.
const LAST: usize = ENTRIES - 1;
const ABOVE_IMAGE: usize = ENTRIES - 2;
const TABLE: u64 = PRESENT | WRITE;
/// Where physical memory begins in the two maps.
const DIRECT: u64 = UPPER_HALF | (UPPER_SLOTS.start as u64 * span(TOP_LEVEL));
const OFFSET: u64 = UPPER_HALF + LAST as u64 * span(TOP_LEVEL) + ABOVE_IMAGE as u64 * span(TOP_LEVEL - 1);

/// A table, which begins at a page.
#[repr(align(4096))]
struct Table([u64; ENTRIES]);

/// The kernel's half: the top table, and those below.
struct Map {
    top: Box<Table>,
    /// For the image: of levels 2, 1, 0.
    image: [Box<Table>; 3],
    /// For the direct map, with large pages: of levels 2 and 1.
    direct: [Box<Table>; 2],
}

fn table() -> Box<Table> {
    Box::new(Table([0; ENTRIES]))
}

fn leading_to(table: &Table) -> u64 {
    table as *const Table as u64 | TABLE
}

/// A map with the rights that it must have.
fn right_map() -> Map {
    let mut map = Map { top: table(), image: [table(), table(), table()], direct: [table(), table()] };
    map.top.0[UPPER_SLOTS.start] = leading_to(&map.direct[0]);
    map.direct[0].0[0] = leading_to(&map.direct[1]);
    map.direct[0].0[1] = span(2) | PRESENT | WRITE | NO_EXECUTE | LARGE;
    // The first 2 MB have the image, whose pages are below small ones elsewhere.
    map.direct[1].0[1] = span(1) | PRESENT | WRITE | NO_EXECUTE | LARGE;
    map.top.0[LAST] = leading_to(&map.image[0]);
    map.image[0].0[ABOVE_IMAGE] = leading_to(&map.image[1]);
    map.image[1].0[0] = leading_to(&map.image[2]);
    map.image[2].0[TEXT_SLOT] = TEXT | PRESENT;
    map.image[2].0[TEXT_SLOT + 1] = CONSTANTS | PRESENT | NO_EXECUTE;
    map.image[2].0[DATA_SLOT] = DATA | PRESENT | WRITE | NO_EXECUTE;
    map
}

fn fault(map: &Map) -> Option<(u64, &'static str)> {
    let image = Image { address: OFFSET + TEXT, text: TEXT..CONSTANTS, constants: CONSTANTS..DATA };
    // SAFETY: the tables are as the levels say.
    unsafe { find_fault(map.top.0.as_ptr(), TOP_LEVEL, UPPER_SLOTS, UPPER_HALF, &image) }
}

#[test]
fn least_rights_pass() {
    assert_eq!(fault(&right_map()), None);
}

#[test]
fn a_page_that_can_be_written_and_executed_is_found() {
    let mut map = right_map();
    map.image[2].0[DATA_SLOT] &= !NO_EXECUTE;
    assert_eq!(fault(&map), Some((OFFSET + DATA, "it can be written and executed")));
    let mut map = right_map();
    map.image[2].0[TEXT_SLOT] |= WRITE;
    assert_eq!(fault(&map), Some((OFFSET + TEXT, "it can be written and executed")));
    for (level, place) in [(2, 0), (1, 1)] {
        let mut map = right_map();
        map.direct[place].0[1] &= !NO_EXECUTE;
        assert_eq!(fault(&map), Some((DIRECT + span(level), "it can be written and executed")));
    }
}

#[test]
fn a_page_or_a_table_that_users_reach_is_found() {
    for bit in [USER, MAPPED] {
        let mut map = right_map();
        map.image[2].0[DATA_SLOT] |= bit;
        assert_eq!(fault(&map), Some((OFFSET + DATA, "users reach it")));
        let mut map = right_map();
        map.direct[1].0[1] |= bit;
        assert_eq!(fault(&map), Some((DIRECT + span(1), "users reach it")));
        let mut map = right_map();
        map.top.0[LAST] |= bit;
        assert_eq!(fault(&map), Some((UPPER_HALF + LAST as u64 * span(TOP_LEVEL), "users reach it")));
    }
}

/// At its own address or in the direct map, by a small page or by a large one that has it.
#[test]
fn text_or_constants_that_can_be_written_are_found() {
    let what = "the kernel's text or constants can be written";
    let mut map = right_map();
    map.image[2].0[TEXT_SLOT + 1] |= WRITE;
    assert_eq!(fault(&map), Some((OFFSET + CONSTANTS, what)));
    let mut map = right_map();
    map.direct[1].0[0] = PRESENT | WRITE | NO_EXECUTE | LARGE;
    assert_eq!(fault(&map), Some((DIRECT, what)));
}

#[test]
fn what_can_be_executed_is_the_text_at_its_own_address() {
    let what = "it can be executed and is not the kernel's text";
    let mut map = right_map();
    map.image[2].0[TEXT_SLOT + 1] &= !NO_EXECUTE;
    assert_eq!(fault(&map), Some((OFFSET + CONSTANTS, what)));
    let mut map = right_map();
    map.image[2].0[0] = TEXT | PRESENT;
    assert_eq!(fault(&map), Some((OFFSET, what)));
    let mut map = right_map();
    map.direct[1].0[2] = 2 * span(1) | PRESENT | LARGE;
    assert_eq!(fault(&map), Some((DIRECT + 2 * span(1), what)));
}

#[test]
fn what_is_not_present_has_no_rights() {
    let mut map = right_map();
    map.image[2].0[DATA_SLOT] = DATA | WRITE | USER;
    assert_eq!(fault(&map), None);
}
