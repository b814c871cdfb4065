// SPDX-License-Identifier: BSD-2-Clause
//! The first two tasks as servers: what they refuse, and that no message harms them.

use crate::case::{Case, Outcome};
use crate::pool::{cell, peek, poke};
use crate::threads::{child, park, pause, Spawn};
use crate::topics::hostile::random;
use crate::topics::window::slot;
use crate::{holds, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::{MAX_MAP_ITEMS, UNMAP_FLUSH, UNMAP_RIGHTS};
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SIZE};
use keel_l4::abi::ids::GSI_COUNT;
use keel_l4::abi::{MapItem, Tag};
use keel_l4::ipc::{call, Message};
use keel_l4::protocol::boot::{ROOT_PRINT, ROOT_RESTART, ROOT_SHUTDOWN, SHUTDOWN_POWER_OFF, SHUTDOWN_TESTS_PASSED};
use keel_l4::protocol::sigma0::SIGMA0_IRQ;
use keel_l4::protocol::status::ERROR_DENIED;
use keel_l4::{mapping, sigma0, utcb, Error, Fpage, Id};

pub const CASES: &[Case] = &[
    ("print-of-nothing", print_nothing),
    ("print-with-a-lying-length", print_lying),
    ("end-by-a-child-denied", end_by_child),
    ("end-with-an-unknown-code", end_unknown),
    ("restart-at-equal-priority-denied", restart_denied),
    ("unknown-request", unknown_request),
    ("map-items-sent-to-servers-are-refused", unwanted_maps),
    ("sigma0-as-pager", sigma0_as_pager),
    ("sigma0-as-pager-of-what-is-not-ours", sigma0_refuses),
    ("random-messages", random_messages),
];

fn ask_root(label: u64, words: &[u64]) -> Result<u64, keel_l4::call::Failure> {
    call(Id::ROOT, Message::new(label as u32, words)).map(|answer| answer.tag.label() as u64)
}

fn print_nothing() -> Outcome {
    same!("label", ask_root(ROOT_PRINT, &[0])?, 0);
    same!("label without any word", ask_root(ROOT_PRINT, &[])?, 0);
    Ok(())
}

fn print_lying() -> Outcome {
    // The bytes are blanks and an end of line, so that the log stays readable.
    let blank = 0x2020_2020_2020_2020;
    let last = blank ^ (0x2a << 56);
    same!("label", ask_root(ROOT_PRINT, &[u64::MAX, blank, blank, blank, blank, last])?, 0);
    Ok(())
}

extern "C" fn end(code: u64) -> ! {
    cell(1).store(ask_root(ROOT_SHUTDOWN, &[code]).map_or(1000, |label| label + 1), SeqCst);
    park()
}

fn end_by_child() -> Outcome {
    for code in [SHUTDOWN_POWER_OFF, SHUTDOWN_TESTS_PASSED, 0] {
        cell(1).store(0, SeqCst);
        child(end, code)?;
        pause(10_000_000);
        same!("its answer, and one", cell(1).load(SeqCst), ERROR_DENIED + 1);
    }
    Ok(())
}

fn end_unknown() -> Outcome {
    for code in [0, 0x99, u64::MAX] {
        same!("label", ask_root(ROOT_SHUTDOWN, &[code])?, Error::Invalid as u64);
    }
    Ok(())
}

fn restart_denied() -> Outcome {
    for number in [0, u64::MAX, Id::ROOT.task() as u64, utcb::my_id().task() as u64] {
        same!("label", ask_root(ROOT_RESTART, &[number])?, ERROR_DENIED);
    }
    Ok(())
}

fn unknown_request() -> Outcome {
    same!("label", ask_root(0x7777, &[])?, Error::NotSupported as u64);
    Ok(())
}

fn unwanted_maps() -> Outcome {
    let page = crate::pool::page();
    let item = MapItem { send_base: 0x40_0000, fpage: Fpage::memory(page, 12, FPAGE_RWX).0 };
    for server in [Id::ROOT, Id::SIGMA0] {
        let items = [item; MAX_MAP_ITEMS as usize];
        call(server, Message::label(0x7777).with_maps(&items))?;
        // If the page arrived there its state would show it at some time; it has no mapping now.
        same!("state", mapping::unmap(Fpage::memory(page, 12, 0), UNMAP_RIGHTS)?, 0);
    }
    Ok(())
}

extern "C" fn reader(address: u64) -> ! {
    cell(1).store(peek(address) + 1, SeqCst);
    park()
}

/// The address of a page of the suite, mapped one-to-one.
fn one_to_one() -> Result<u64, keel_l4::call::Failure> {
    let whole = Fpage::memory(0, 46, FPAGE_RWX);
    Ok(sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), whole)?.send_base)
}

fn sigma0_as_pager() -> Outcome {
    let at = one_to_one()?;
    // SAFETY: the page is new.
    unsafe { poke(at, 4455) };
    mapping::unmap(Fpage::memory(at, 12, 0), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    Spawn { pager: Id::SIGMA0, ..Spawn::new(reader, at) }.start()?;
    pause(5_000_000);
    same!("what the thread read, and one", cell(1).load(SeqCst), 4456);
    mapping::unmap(Fpage::memory(at, 12, 0), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    Ok(())
}

fn sigma0_refuses() -> Outcome {
    // sigma0 itself, the root task, beyond all memory.
    for address in [0x20_0000, 0x40_0000, 1 << 45] {
        let id = Spawn { pager: Id::SIGMA0, ..Spawn::light(reader, address) }.start()?;
        pause(2_000_000);
        same!("what the thread read", cell(1).load(SeqCst), 0);
        crate::threads::remove(id)?;
    }
    Ok(())
}

fn random_messages() -> Outcome {
    let mut state = crate::pool::seed(0x0dd_ba11);
    keel_l4::utcb::set_receive_window(slot(3));
    for _ in 0..5000 {
        let server = if random(&mut state) & 1 == 0 { Id::ROOT } else { Id::SIGMA0 };
        let label = (random(&mut state) % 8) as u32;
        // Printing would fill the log, and the suite itself may shut down.
        if server == Id::ROOT && (label as u64 == ROOT_PRINT || label as u64 == ROOT_SHUTDOWN) {
            continue;
        }
        let mut words: [u64; 6] = core::array::from_fn(|_| random(&mut state) >> (random(&mut state) % 64));
        if label as u64 == SIGMA0_IRQ {
            // GSIs that no machine has: other cases ask for the others.
            words[0] |= GSI_COUNT;
        }
        let tag = Tag::new(label, random(&mut state) % 7);
        // Small requests may be granted; they must not use up what other cases need.
        if words[0] >> 4 & 63 > 12 || words[0] & 7 == 0 || words[0] >> 47 != 0 || label == 0 {
            call(server, Message { tag, words })?;
        }
    }
    keel_l4::utcb::set_receive_window(Fpage::NIL);
    let item = sigma0::any(Fpage::memory(0, 12, FPAGE_RWX), slot(0))?;
    holds!("sigma0 to serve on", Fpage(item.fpage).size() == PAGE_SIZE);
    same!("the root task's answer", ask_root(0x7777, &[])?, Error::NotSupported as u64);
    Ok(())
}
