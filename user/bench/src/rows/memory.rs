// SPDX-License-Identifier: BSD-2-Clause
//! Mappings to another space by a call with one map item, unmap, and page faults with a user-level
//! pager.

use crate::clock::{between, Instruction, Timed};
use crate::partner::*;
use crate::rows::syscall;
use crate::sample::{row, rows};
use keel_l4::abi::call::{CALL_FPAGE_UNMAP, UNMAP_FLUSH, UNMAP_RIGHTS};
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SHIFT, PAGE_SIZE};
use keel_l4::abi::memory::{EX_HANDLER, EX_PAGER};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message};
use keel_l4::{mapping, utcb, Fpage, Tag};

/// Log2 of the range of a leaf page table.
const TABLE_LOG2: u8 = 21;
/// Log2 of 64 KB.
const LARGER: u8 = 16;

/// All of them.
pub fn measure() -> Result<(), Failure> {
    map(["map-page-two-spaces", "unmap-page-two-spaces"], 12, true)?;
    map(["map-64k-two-spaces", "unmap-64k-two-spaces"], LARGER, true)?;
    map(["map-page-and-tables-two-spaces", "unmap-page-and-tables-two-spaces"], 12, false)?;
    fault("page-fault-one-space", Space::Same, EX_PAGER)?;
    fault("page-fault-two-spaces", Space::Other, EX_PAGER)?;
    fault("page-fault-and-registers-two-spaces", Space::Other, EX_PAGER | EX_HANDLER)
}

/// Maps and unmaps. With `neighbour` another page keeps the receiver's page tables.
fn map(names: [&str; 2], log2: u8, neighbour: bool) -> Result<(), Failure> {
    let window = Fpage::memory(WINDOW, TABLE_LOG2, FPAGE_RWX);
    let receiver = Partner::start(Space::Other, accepting, window.0)?;
    if neighbour {
        let kept = Fpage::memory(&raw const KEPT as u64, PAGE_SHIFT as u8, FPAGE_RWX);
        let last = MapItem { send_base: window.size() - PAGE_SIZE, fpage: kept.0 };
        call(receiver.id, Message::label(0).with_maps(&[last]))?;
    }
    let fpage = pages(log2);
    utcb::set_map_item(0, MapItem { send_base: 0, fpage: fpage.0 });
    let send =
        Timed { ax: CALL, di: receiver.id.0, si: Tag::new(0, 0).with_maps(1).0, dx: receiver.id.0, ..Timed::default() };
    let take = Timed { ax: CALL_FPAGE_UNMAP, di: fpage.0, si: UNMAP_RIGHTS, ..Timed::default() };
    rows(names, || Ok([syscall(send)?, syscall(take)?]))?;
    receiver.end()
}

/// The page that is mapped as the neighbour.
#[repr(align(4096))]
struct Page(#[allow(dead_code)] [u8; PAGE_SIZE as usize]);
static KEPT: Page = Page([0; PAGE_SIZE as usize]);

/// A load that faults, up to the next instruction; the pager maps a page. `what` says whether it is
/// only the pager, or also the exception handler, which sees the registers.
fn fault(name: &str, space: Space, what: u64) -> Result<(), Failure> {
    let pager = Partner::start(Space::Same, mapping_pager, 0)?;
    let subject = Partner::start(space, subject, 0)?;
    // Lets the subject access its image while its pager serves the image.
    call(subject.id, Message::label(Instruction::Nothing as u32))?;
    subject.set_fault_endpoint(pager.id, what)?;
    let mut address = WINDOW;
    row(name, || {
        address += PAGE_SIZE;
        let answer = call(subject.id, Message::new(Instruction::Load as u32, &[address]))?;
        Ok(between(answer.words[0], answer.words[1]))
    })?;
    subject.end()?;
    pager.end()?;
    mapping::unmap(Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH).map(|_| ())
}
