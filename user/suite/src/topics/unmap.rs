// SPDX-License-Identifier: BSD-2-Clause
//! fpage_unmap of the caller's own pages.

use crate::case::{Case, Outcome};
use crate::pool::{page, pages, peek, poke, PAGE, WINDOW};
use crate::threads::{child, own, park, pause, Spawn, RUNNER};
use crate::topics::window::{fault_at, fill, map_own, slot};
use crate::{refused, same};
use keel_l4::abi::call::{UNMAP_DIRTY, UNMAP_FLUSH, UNMAP_REFERENCED, UNMAP_RIGHTS};
use keel_l4::abi::fpage::*;
use keel_l4::abi::{MapItem, UnmapRange};
use keel_l4::ipc::{receive, send, Message, Timeout};
use keel_l4::mapping::{unmap, unmap_in};
use keel_l4::thread::task_of;
use keel_l4::{utcb, Fpage};

pub const CASES: &[Case] = &[
    ("takes-from-others", takes_from_others),
    ("leaves-the-caller's", leaves_own),
    ("flush-takes-the-caller's", flush),
    ("write-right-only", write_only),
    ("write-right-from-the-caller-too", write_flush),
    ("through-a-chain", chain),
    ("middle-of-a-chain", middle_of_chain),
    ("several-receivers", several),
    ("rows-lose-rights", rows),
    ("branches-of-many", branches),
    ("part-of-a-region", part),
    ("larger-than-what-is-mapped", larger),
    ("state-clean", clean),
    ("state-referenced", referenced),
    ("state-dirty", dirty),
    ("nothing-mapped", nothing),
    ("unknown-flags", unknown_flags),
    ("malformed-fpage", malformed),
    ("a-task-empties-its-own-space", empties_itself),
    ("again-and-again", again),
];

fn everything(page: Fpage) -> Outcome {
    unmap(page, UNMAP_RIGHTS)?;
    Ok(())
}

fn takes_from_others() -> Outcome {
    let from = page();
    map_own(from, FPAGE_RWX, 0)?;
    everything(Fpage::memory(from, 12, 0))?;
    same!("cause at the receiver's place", fault_at(WINDOW)?, 0);
    Ok(())
}

fn leaves_own() -> Outcome {
    let from = page();
    fill(from, 1, 7);
    map_own(from, FPAGE_RWX, 0)?;
    everything(Fpage::memory(from, 12, 0))?;
    same!("the caller's page", peek(from), 7);
    Ok(())
}

fn flush() -> Outcome {
    map_own(page(), FPAGE_RWX, 0)?;
    map_own(WINDOW, FPAGE_RWX, 1)?;
    unmap(slot(0), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    same!("causes at both places", (fault_at(WINDOW)?, fault_at(WINDOW + PAGE)?), (0, 0));
    Ok(())
}

fn write_only() -> Outcome {
    let from = page();
    fill(from, 1, 9);
    map_own(from, FPAGE_RWX, 0)?;
    unmap(Fpage::memory(from, 12, 0), FPAGE_WRITE)?;
    same!("it can still be read", peek(WINDOW), 9);
    same!("cause of a write's fault", fault_at(WINDOW)?, 1);
    fill(from, 1, 10);
    same!("the caller can still write", peek(WINDOW), 10);
    Ok(())
}

fn write_flush() -> Outcome {
    map_own(page(), FPAGE_RWX, 0)?;
    unmap(slot(0), FPAGE_WRITE | UNMAP_FLUSH)?;
    same!("cause of a write's fault", fault_at(WINDOW)?, 1);
    Ok(())
}

fn chain() -> Outcome {
    let from = page();
    map_own(from, FPAGE_RWX, 0)?;
    for place in 1..10 {
        map_own(WINDOW + (place - 1) * PAGE, FPAGE_RWX, place)?;
    }
    everything(Fpage::memory(from, 12, 0))?;
    for place in 0..10 {
        same!("cause", (place, fault_at(WINDOW + place * PAGE)?), (place, 0));
    }
    Ok(())
}

fn middle_of_chain() -> Outcome {
    let from = page();
    fill(from, 1, 3);
    map_own(from, FPAGE_RWX, 0)?;
    map_own(WINDOW, FPAGE_RWX, 1)?;
    map_own(WINDOW + PAGE, FPAGE_RWX, 2)?;
    everything(slot(0))?;
    same!("above it", (peek(from), peek(WINDOW)), (3, 3));
    same!("below it", (fault_at(WINDOW + PAGE)?, fault_at(WINDOW + 2 * PAGE)?), (0, 0));
    Ok(())
}

fn several() -> Outcome {
    let from = page();
    for place in 0..20 {
        map_own(from, FPAGE_RWX, place)?;
    }
    everything(Fpage::memory(from, 12, 0))?;
    for place in 0..20 {
        same!("cause", (place, fault_at(WINDOW + place * PAGE)?), (place, 0));
    }
    Ok(())
}

/// Maps pieces of the own space to other places of it.
fn map_here(items: &[MapItem]) -> Outcome {
    Ok(send(utcb::my_id(), Message::label(0).with_maps(items), Timeout::Zero)?)
}

fn rows() -> Outcome {
    const ROWS: u64 = 64;
    let row = PAGE << 4;
    let from = pages(16);
    fill(from, 16, 1);
    for number in 0..ROWS {
        map_here(&[MapItem { send_base: WINDOW + number * row, fpage: Fpage::memory(from, 16, FPAGE_RWX).0 }])?;
    }
    same!("the last page", peek(WINDOW + ROWS * row - PAGE), 16);
    let range = UnmapRange { address: WINDOW | FPAGE_READ, pages: ROWS << 4 };
    unmap_in(task_of(own(RUNNER)), &[range])?;
    for at in [WINDOW, WINDOW + ROWS * row - PAGE] {
        same!("cause", fault_at(at)?, 1);
    }
    Ok(())
}

/// Takes mappings of a page from each of which came as many as are hung under the page at once.
fn branches() -> Outcome {
    const BRANCHES: u64 = 4;
    const LEAVES: u64 = 128;
    let from = page();
    fill(from, 1, 7);
    let place = |number: u64| WINDOW + number * PAGE;
    let item = |from: u64, to: u64| MapItem { send_base: place(to), fpage: Fpage::memory(from, 12, FPAGE_RWX).0 };
    for branch in 0..BRANCHES {
        map_here(&[item(from, branch)])?;
        let first = BRANCHES + branch * LEAVES;
        for few in (first..first + LEAVES).step_by(16) {
            map_here(&core::array::from_fn::<_, 16, _>(|number| item(place(branch), few + number as u64)))?;
        }
    }
    same!("the last page", peek(place(BRANCHES * (LEAVES + 1) - 1)), 7);
    everything(Fpage::memory(from, 12, 0))?;
    for number in [0, BRANCHES - 1, BRANCHES, BRANCHES * (LEAVES + 1) - 1] {
        same!("cause", fault_at(place(number))?, 0);
    }
    same!("the caller's page", peek(from), 7);
    Ok(())
}

fn part() -> Outcome {
    let from = pages(4);
    fill(from, 4, 50);
    for place in 0..4 {
        map_own(from + place * PAGE, FPAGE_RWX, place)?;
    }
    everything(Fpage::memory(from, 13, 0))?;
    same!("causes of the first two", (fault_at(WINDOW)?, fault_at(WINDOW + PAGE)?), (0, 0));
    same!("the last two", (peek(WINDOW + 2 * PAGE), peek(WINDOW + 3 * PAGE)), (52, 53));
    Ok(())
}

fn larger() -> Outcome {
    map_own(page(), FPAGE_RWX, 3)?;
    unmap(Fpage::memory(WINDOW, 30, 0), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    same!("cause", fault_at(WINDOW + 3 * PAGE)?, 0);
    Ok(())
}

fn clean() -> Outcome {
    let from = page();
    map_own(from, FPAGE_RWX, 0)?;
    same!("state", unmap(Fpage::memory(from, 12, 0), UNMAP_RIGHTS)?, 0);
    Ok(())
}

fn referenced() -> Outcome {
    let from = page();
    map_own(from, FPAGE_RWX, 0)?;
    peek(WINDOW);
    same!("state", unmap(Fpage::memory(from, 12, 0), UNMAP_RIGHTS)?, UNMAP_REFERENCED);
    Ok(())
}

fn dirty() -> Outcome {
    let from = page();
    map_own(from, FPAGE_RWX, 0)?;
    fill(WINDOW, 1, 1);
    same!("state", unmap(Fpage::memory(from, 12, 0), UNMAP_RIGHTS)?, UNMAP_REFERENCED | UNMAP_DIRTY);
    Ok(())
}

fn nothing() -> Outcome {
    same!("state", unmap(Fpage::memory(WINDOW, 31, 0), UNMAP_RIGHTS | UNMAP_FLUSH)?, 0);
    Ok(())
}

fn unknown_flags() -> Outcome {
    for flags in [32u64, 1 << 63, 64 | 7] {
        refused!("unmap", unmap(slot(0), flags), Call Invalid);
    }
    Ok(())
}

fn malformed() -> Outcome {
    for word in [0, 11 << 4, 49 << 4, u64::MAX] {
        refused!("unmap", unmap(Fpage(word), UNMAP_RIGHTS), Call Invalid);
    }
    Ok(())
}

/// Unmaps everything from its own space, repeatedly: each round its code comes back by a fault.
extern "C" fn suicidal(_: u64) -> ! {
    for _ in 0..20 {
        let _ = unmap(Fpage::WHOLE, UNMAP_RIGHTS | UNMAP_FLUSH);
        crate::pool::cell(1).fetch_add(1, core::sync::atomic::Ordering::SeqCst);
    }
    park()
}

fn empties_itself() -> Outcome {
    child(suicidal, 0)?;
    pause(300_000_000);
    same!("rounds", crate::pool::cell(1).load(core::sync::atomic::Ordering::SeqCst), 20);
    Ok(())
}

extern "C" fn reader(address: u64) -> ! {
    peek(address);
    park()
}

fn again() -> Outcome {
    let from = page();
    for round in 0..300 {
        fill(from, 1, round);
        map_own(from, FPAGE_READ, 0)?;
        same!("content", peek(WINDOW), round);
        everything(Fpage::memory(from, 12, 0))?;
    }
    let id = Spawn::watched(reader, WINDOW).start()?;
    same!("cause", receive(id, Timeout::Never)?.words[3], 0);
    // SAFETY: the page is this case's own.
    unsafe { poke(from, 0) };
    Ok(())
}
