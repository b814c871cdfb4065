// SPDX-License-Identifier: BSD-2-Clause
//! fpage_unmap in a given task: the chief's right over the tasks that it created.

use crate::alien::{code_load, code_store, Alien};
use crate::case::{Case, Fault, Outcome};
use crate::pool::{page, pages, peek, PAGE, WINDOW};
use crate::threads::{child, park, pause};
use crate::topics::window::{fault_at, fill, map_own};
use crate::{refused, same};
use keel_l4::abi::call::{
    ACCOUNT_LIMIT, ACCOUNT_USED, CALL_FPAGE_UNMAP, KIND_PAGE_FAULT, KIND_SYSCALL, UNMAP_FLUSH, UNMAP_MOVE,
    UNMAP_REFERENCED, UNMAP_RIGHTS, UNMAP_TASK, UNMAP_WHOLE,
};
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{AREA_DEFAULT, MAX_RANGES};
use keel_l4::abi::{MapItem, UnmapRange};
use keel_l4::call::{checked, Failure, Registers};
use keel_l4::ipc::{call, Message, Received};
use keel_l4::kernel_object::{account, enlarge, shrink};
use keel_l4::mapping::{move_in, unmap, unmap_in};
use keel_l4::{sigma0, thread, utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("takes-a-page", takes_page),
    ("takes-the-write-right", takes_write),
    ("leaves-the-neighbours", leaves_neighbours),
    ("many-ranges-in-one-call", many_ranges),
    ("empty-ranges-are-skipped", empty_ranges),
    ("no-ranges", no_ranges),
    ("cuts-a-superpage", cuts_superpage),
    ("a-superpage-goes-as-a-whole-without-memory-for-the-pieces", no_memory_for_pieces),
    ("a-superpage-is-reduced-as-a-whole-without-memory", no_memory_to_reduce_a_piece),
    ("the-caller's-superpage-stays-without-memory", no_memory_to_take_a_piece_back),
    ("reduces-what-was-derived", derived),
    ("the-owner's-page-stays", owner_stays),
    ("moves-a-table", moves),
    ("moves-nothing-to-a-place-in-use", moves_to_used),
    ("moves-whole-tables-only", moves_tables_only),
    ("too-many-ranges", too_many),
    ("beyond-the-space", beyond),
    ("of-another's-task-denied", denied),
    ("of-no-task", no_task),
    ("while-the-thread-runs", while_running),
];

/// Address at which the alien threads of this topic get pages.
const PLACE: u64 = 0x5000_0000;

fn range(address: u64, rights: u64, pages: u64) -> UnmapRange {
    UnmapRange { address: address | rights, pages }
}

/// An alien thread at `code` whose `rdi` is `address`, stopped at its first fault there.
fn faulting(code: unsafe extern "C" fn(), address: u64) -> Result<(Alien, Received), Failure> {
    let alien = Alien::new(code, |frame| frame.di = address)?;
    let first = alien.start()?;
    Ok((alien, first))
}

/// Answers the fault of `alien` with `count` pages from `from` on at `PLACE`.
fn give(alien: &Alien, from: u64, count: u64, rights: u64) -> Result<Received, Failure> {
    let items: [MapItem; 8] = core::array::from_fn(|n| {
        let offset = n as u64 * PAGE;
        MapItem { send_base: PLACE + offset, fpage: Fpage::memory(from + offset, 12, rights).0 }
    });
    let got = call(alien.id, Message::label(0).with_maps(&items[..count as usize]))?;
    alien.serve(got)
}

/// Lets it access `address` and returns the kind of the next message.
fn access(alien: &Alien, address: u64) -> Result<(u64, u64), Failure> {
    alien.edit(|frame| frame.di = address);
    let got = alien.resume()?;
    Ok((got.tag.kind(), got.words[3]))
}

fn takes_page() -> Outcome {
    let (alien, _) = faulting(code_load, PLACE)?;
    same!("after the mapping", give(&alien, page(), 1, FPAGE_RWX)?.tag.kind(), KIND_SYSCALL);
    unmap_in(alien.task, &[range(PLACE, 0, 1)])?;
    same!("kind and cause", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 0));
    Ok(())
}

fn takes_write() -> Outcome {
    let (alien, _) = faulting(code_store, PLACE)?;
    give(&alien, page(), 1, FPAGE_RWX)?;
    unmap_in(alien.task, &[range(PLACE, FPAGE_READ | FPAGE_EXEC, 1)])?;
    same!("kind and cause of a write", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 1));
    Ok(())
}

fn leaves_neighbours() -> Outcome {
    let (alien, _) = faulting(code_load, PLACE)?;
    give(&alien, pages(4), 4, FPAGE_RWX)?;
    unmap_in(alien.task, &[range(PLACE + PAGE, 0, 2)])?;
    same!("before", access(&alien, PLACE)?.0, KIND_SYSCALL);
    same!("after", access(&alien, PLACE + 3 * PAGE)?.0, KIND_SYSCALL);
    same!("the second", access(&alien, PLACE + 2 * PAGE)?, (KIND_PAGE_FAULT, 0));
    Ok(())
}

fn many_ranges() -> Outcome {
    let (alien, _) = faulting(code_load, PLACE)?;
    give(&alien, pages(8), 8, FPAGE_RWX)?;
    let ranges: [UnmapRange; MAX_RANGES as usize] = core::array::from_fn(|n| {
        // Every second page of the eight, then a hundred that are missing.
        range(PLACE + 2 * n as u64 * PAGE, 0, 1)
    });
    unmap_in(alien.task, &ranges)?;
    for n in [1, 3, 5, 7] {
        same!("a page that stays", access(&alien, PLACE + n * PAGE)?.0, KIND_SYSCALL);
    }
    same!("a page that went", access(&alien, PLACE + 6 * PAGE)?, (KIND_PAGE_FAULT, 0));
    Ok(())
}

fn empty_ranges() -> Outcome {
    let (alien, _) = faulting(code_load, PLACE)?;
    give(&alien, page(), 1, FPAGE_RWX)?;
    unmap_in(alien.task, &[range(PLACE, 0, 0), range(1 << 40, 0, 1 << 20), range(0, 0, 1)])?;
    unmap_in(alien.task, &[range(PLACE, 0, 0); MAX_RANGES as usize])?;
    same!("the page", access(&alien, PLACE)?.0, KIND_SYSCALL);
    Ok(())
}

fn no_ranges() -> Outcome {
    let (alien, _) = faulting(code_load, PLACE)?;
    unmap_in(alien.task, &[])?;
    Ok(())
}

/// Log2 of a superpage.
const SUPERPAGE: u8 = 21;

/// An alien thread with the superpage at an address of the suite's at `PLACE`.
fn with_superpage() -> Result<(Alien, u64), Fault> {
    let at = WINDOW + (2 << 20);
    sigma0::any(Fpage::memory(0, SUPERPAGE, FPAGE_RWX), Fpage::memory(at, SUPERPAGE, FPAGE_RWX))?;
    let (alien, _) = faulting(code_load, PLACE)?;
    let item = MapItem { send_base: PLACE, fpage: Fpage::memory(at, SUPERPAGE, FPAGE_RWX).0 };
    let got = call(alien.id, Message::label(0).with_maps(&[item]))?;
    match alien.serve(got)?.tag.kind() {
        KIND_SYSCALL => Ok((alien, at)),
        kind => Err(Fault::new(format_args!("expected a call after the mapping, got kind {kind}"))),
    }
}

/// Pages of a task's account that are not in use.
fn unused(task: Id) -> Result<u64, Failure> {
    let words = account(task)?;
    Ok(words[ACCOUNT_LIMIT as usize] - words[ACCOUNT_USED as usize])
}

/// Answers a fault at `PLACE` with the superpage at an address of the suite's.
fn give_superpage(alien: &Alien, at: u64) -> Result<Received, Failure> {
    let item = MapItem { send_base: PLACE, fpage: Fpage::memory(at, SUPERPAGE, FPAGE_RWX).0 };
    alien.serve(call(alien.id, Message::label(0).with_maps(&[item]))?)
}

fn no_memory_for_pieces() -> Outcome {
    let (alien, at) = with_superpage()?;
    let spare = unused(alien.task)?;
    shrink(alien.task, spare)?;
    unmap_in(alien.task, &[range(PLACE + PAGE, 0, 1)])?;
    same!("a page beside it, gone with the whole", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 0));
    enlarge(alien.task, spare)?;
    same!("the pager gives it again", give_superpage(&alien, at)?.tag.kind(), KIND_SYSCALL);
    unmap_in(alien.task, &[range(PLACE + PAGE, 0, 1)])?;
    same!("with memory it is cut", access(&alien, PLACE + PAGE)?, (KIND_PAGE_FAULT, 0));
    Ok(())
}

fn no_memory_to_reduce_a_piece() -> Outcome {
    let (alien, at) = with_superpage()?;
    shrink(alien.task, unused(alien.task)?)?;
    let state = unmap_in(alien.task, &[range(PLACE + PAGE, FPAGE_READ, 1)])?;
    same!("state", state, UNMAP_REFERENCED | UNMAP_WHOLE);
    same!("a page beside it can be read", access(&alien, PLACE)?.0, KIND_SYSCALL);
    fill(at, 1, 5);
    same!("the creator's superpage can be written", peek(at), 5);
    Ok(())
}

fn no_memory_to_take_a_piece_back() -> Outcome {
    let (alien, at) = with_superpage()?;
    fill(at, 1, 6);
    let spare = unused(Id::NIL)?;
    enlarge(alien.task, spare)?;
    let told = unmap(Fpage::memory(at + PAGE, PAGE_SHIFT as u8, 0), UNMAP_RIGHTS);
    shrink(alien.task, spare)?;
    same!("state", told?, UNMAP_REFERENCED | UNMAP_WHOLE);
    same!("the others lose the whole", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 0));
    same!("the caller keeps it", peek(at), 6);
    Ok(())
}

fn cuts_superpage() -> Outcome {
    let (alien, at) = with_superpage()?;
    unmap_in(alien.task, &[range(PLACE + 7 * PAGE, 0, 3)])?;
    for n in [0, 6, 10, 511] {
        same!("a page that stays", (n, access(&alien, PLACE + n * PAGE)?.0), (n, KIND_SYSCALL));
    }
    same!("a page that went", access(&alien, PLACE + 8 * PAGE)?, (KIND_PAGE_FAULT, 0));
    same!(
        "the creator's superpage",
        {
            fill(at + 8 * PAGE, 1, 4);
            peek(at + 8 * PAGE)
        },
        4
    );
    Ok(())
}

fn derived() -> Outcome {
    let from = page();
    fill(from, 1, 6);
    map_own(from, FPAGE_RWX, 0)?;
    map_own(WINDOW, FPAGE_RWX, 1)?;
    let me = thread::task_of(crate::threads::own(crate::threads::RUNNER));
    unmap_in(me, &[range(WINDOW, FPAGE_READ, 1)])?;
    same!("content", (peek(WINDOW), peek(WINDOW + PAGE)), (6, 6));
    same!("causes of writes", (fault_at(WINDOW)?, fault_at(WINDOW + PAGE)?), (1, 1));
    Ok(())
}

fn owner_stays() -> Outcome {
    let from = page();
    fill(from, 1, 8);
    let (alien, _) = faulting(code_load, PLACE)?;
    give(&alien, from, 1, FPAGE_RWX)?;
    unmap_in(alien.task, &[range(PLACE, 0, 1)])?;
    fill(from, 1, peek(from) + 1);
    same!("the creator's page", peek(from), 9);
    Ok(())
}

/// The destination of moved tables, and the range of a table.
const OTHER_PLACE: u64 = 0x6000_0000;
const TABLE: u64 = 512 * PAGE;

fn moves() -> Outcome {
    let from = pages(3);
    fill(from, 3, 0);
    let (alien, _) = faulting(code_store, PLACE)?;
    give(&alien, from, 3, FPAGE_RWX)?;
    unmap_in(alien.task, &[range(PLACE + PAGE, FPAGE_READ, 1)])?;
    move_in(alien.task, range(PLACE, 0, TABLE / PAGE), OTHER_PLACE)?;
    for n in [0, 2] {
        same!("a write where it is now", access(&alien, OTHER_PLACE + n * PAGE)?.0, KIND_SYSCALL);
    }
    same!("rights stay", access(&alien, OTHER_PLACE + PAGE)?, (KIND_PAGE_FAULT, 1));
    same!("where it was", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 0));
    // The creator's unmap also applies at the new address.
    unmap(Fpage::memory(from, PAGE_SHIFT as u8, 0), UNMAP_RIGHTS)?;
    same!("taken back", access(&alien, OTHER_PLACE)?, (KIND_PAGE_FAULT, 0));
    same!("its neighbour", access(&alien, OTHER_PLACE + 2 * PAGE)?.0, KIND_SYSCALL);
    Ok(())
}

fn moves_to_used() -> Outcome {
    let (alien, _) = faulting(code_load, PLACE)?;
    give(&alien, pages(2), 2, FPAGE_RWX)?;
    move_in(alien.task, range(PLACE, 0, TABLE / PAGE), PLACE)?;
    same!("onto itself", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 0));
    give(&alien, page(), 1, FPAGE_RWX)?;
    move_in(alien.task, range(PLACE, 0, TABLE / PAGE), AREA_DEFAULT)?;
    same!("into the kernel area", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 0));
    give(&alien, page(), 1, FPAGE_RWX)?;
    move_in(alien.task, range(PLACE, 0, TABLE / PAGE), (1 << HALF_SHIFT) - TABLE)?;
    same!("to the end of the space", access(&alien, PLACE)?, (KIND_PAGE_FAULT, 0));
    Ok(())
}

fn moves_tables_only() -> Outcome {
    let child = child(idle, 0)?;
    let whole = TABLE / PAGE;
    for (at, pages, to) in [
        (PLACE + PAGE, whole, OTHER_PLACE),
        (PLACE, whole - 1, OTHER_PLACE),
        (PLACE, 2 * whole, OTHER_PLACE),
        (PLACE, whole, OTHER_PLACE + PAGE),
        (PLACE, whole, 1 << 48),
        (PLACE, whole, 0u64.wrapping_sub(TABLE)),
    ] {
        refused!("move", move_in(child.task, range(at, 0, pages), to), Call Invalid);
    }
    for (flags, count) in [(UNMAP_MOVE, 1), (UNMAP_MOVE | UNMAP_FLUSH, 1), (UNMAP_TASK | UNMAP_MOVE, 0)] {
        let words = [count, OTHER_PLACE, 0, 0, 0, 0];
        let asked = Registers { ax: CALL_FPAGE_UNMAP, di: Fpage::WHOLE.0, si: flags, dx: child.task.0, words };
        refused!("move", checked(asked), Call Invalid);
    }
    refused!("move", move_in(Id::SIGMA0, range(PLACE, 0, whole), OTHER_PLACE), Call Denied);
    Ok(())
}

fn unmap_count(task: Id, count: u64) -> Result<(), Failure> {
    let words = [count, 0, 0, 0, 0, 0];
    checked(Registers { ax: CALL_FPAGE_UNMAP, di: 0, si: UNMAP_TASK, dx: task.0, words }).map(|_| ())
}

extern "C" fn idle(_: u64) -> ! {
    park()
}

fn too_many() -> Outcome {
    let child = child(idle, 0)?;
    for count in [MAX_RANGES + 1, 1 << 32, u64::MAX] {
        refused!("unmap", unmap_count(child.task, count), Call Invalid);
    }
    Ok(())
}

fn beyond() -> Outcome {
    let child = child(idle, 0)?;
    for bad in [range(1 << 48, 0, 1), range(0, 0, u64::MAX), range(!0xfff, 0, 1), range(PAGE, 0, 1 << 36)] {
        refused!("unmap", unmap_in(child.task, &[bad]), Call Invalid);
    }
    Ok(())
}

fn denied() -> Outcome {
    for id in [Id::ROOT, Id::SIGMA0] {
        refused!("unmap", unmap_in(thread::task_of(id), &[range(0x40_0000, 0, 512)]), Call Denied);
    }
    Ok(())
}

fn no_task() -> Outcome {
    for id in [Id::NIL, Id::INVALID, Id::thread(9, 0xfff0, 0xffff, 2)] {
        utcb::set_record_word(0, 0);
        utcb::set_record_word(1, 1);
        refused!("unmap", unmap_count(id, 1), Call NoPartner);
    }
    Ok(())
}

fn while_running() -> Outcome {
    let counter = page();
    let alien = Alien::new(crate::alien::code_spin, |frame| frame.di = PLACE)?;
    alien.start()?;
    for _ in 0..20 {
        let item = MapItem { send_base: PLACE, fpage: Fpage::memory(counter, 12, FPAGE_RWX).0 };
        keel_l4::ipc::send(alien.id, Message::label(0).with_maps(&[item]), keel_l4::ipc::Timeout::Zero)?;
        pause(2_000_000);
        let before = peek(counter);
        unmap_in(alien.task, &[range(PLACE, 0, 1)])?;
        let fault = keel_l4::ipc::receive(alien.id, keel_l4::ipc::Timeout::Never)?;
        same!("kind and address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, PLACE));
        crate::holds!("it had counted", before > 0);
    }
    Ok(())
}
