// SPDX-License-Identifier: BSD-2-Clause
//! The pager and exception handler of all gangs. It maps image, den and arena, and answers other
//! faults and exceptions with a frame that starts the thread again as an attacker.

use crate::attack;
use crate::places::*;
use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::{FRAME_NONE, KIND_EXCEPTION, KIND_PAGE_FAULT, KIND_PREEMPTION, REGISTER_WORDS};
use keel_l4::abi::fpage::*;
use keel_l4::abi::{Frame, MapItem};
use keel_l4::ipc::{send_and_wait, wait, Message, Received, Timeout};
use keel_l4::pager::Fault;
use keel_l4::{utcb, Fpage, Id, Tag};

/// Address of the dens in the judge's space, one after the other.
pub const DENS: u64 = 0x20_0000_0000;
/// Address of the arenas in the judge's space.
pub const ARENAS: u64 = DENS + (1 << ARENA_LOG2);

/// Words of an answer with a whole frame.
const FRAME_WORDS: u64 = REGISTER_WORDS + (size_of::<Frame>() / 8) as u64;

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
}

/// The addresses of the image.
pub fn image() -> core::ops::Range<u64> {
    &raw const __image_start as u64..&raw const __image_end as u64
}

/// Address of a gang's den in the judge's space.
pub fn den(gang: usize) -> u64 {
    DENS + gang as u64 * DEN_PAGES * PAGE_SIZE
}

fn arena(gang: usize) -> u64 {
    ARENAS + ((gang as u64) << ARENA_LOG2)
}

/// The gang of a thread.
fn gang_of(thread: Id) -> Option<usize> {
    let index = (thread.task() as u64).checked_sub(FIRST_TASK.load(Relaxed))? / MEMBERS as u64;
    (index < GANGS as u64).then_some(index as usize)
}

/// Answers without end.
pub extern "C" fn run(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        let answer = next.ok().and_then(|received| answer(&received).map(|message| (received.from, message)));
        next = match answer {
            Some((to, message)) => send_and_wait(to, message, Timeout::Zero, Timeout::Never),
            None => wait(Timeout::Never),
        };
    }
}

fn answer(received: &Received) -> Option<Message> {
    let gang = gang_of(received.from)?;
    let mapped = match received.tag.kind() {
        KIND_PAGE_FAULT => page(gang, &Fault::of(received)),
        KIND_EXCEPTION => None,
        KIND_PREEMPTION => return Some(Message::label(0)),
        _ => return None,
    };
    // The frame of an alien thread is elsewhere. The thread stays blocked until its creator changes
    // it.
    mapped.or_else(|| (gang < ATTACKERS && received.words[2] == FRAME_NONE).then(|| astray(received.from)))
}

/// The answer that maps the page at the address of a fault.
fn page(gang: usize, fault: &Fault) -> Option<Message> {
    let item = |at: u64, log2: u8, from: u64, rights| {
        let item = MapItem { send_base: at >> log2 << log2, fpage: Fpage::memory(from, log2, rights).0 };
        Message::label(0).with_maps(&[item])
    };
    let (at, page) = (fault.address, PAGE_SHIFT as u8);
    if image().contains(&at) && fault.access != FPAGE_WRITE {
        return Some(item(at, page, at, FPAGE_READ | FPAGE_EXEC));
    }
    if (DEN..DEN + DEN_PAGES * PAGE_SIZE).contains(&at) {
        return Some(item(at, page, den(gang) + at - DEN, FPAGE_RWX));
    }
    if gang >= ATTACKERS {
        return None;
    }
    if (ARENA..ARENA + (1 << ARENA_LOG2)).contains(&at) {
        // Sometimes the whole arena in one mapping, sometimes one page.
        let log2 = if at & PAGE_SIZE == 0 { ARENA_LOG2 } else { page };
        return Some(item(at, log2, arena(gang) + at - ARENA, FPAGE_RWX));
    }
    if (WINDOW..WINDOW + (1 << WINDOW_LOG2)).contains(&at) {
        return Some(item(at, page, arena(gang) + at % (1 << ARENA_LOG2), FPAGE_RWX));
    }
    None
}

/// Number of restarted threads, which seeds their next calls.
static ASTRAY: AtomicU64 = AtomicU64::new(0);

/// The answer that restarts a native thread as an attacker. The words of its frame came with its
/// fault.
pub fn astray(thread: Id) -> Message {
    let set = |offset: usize, value| utcb::set_word(REGISTER_WORDS as usize + offset / 8, value);
    let number = thread.task() as u64 * 3 + thread.lthread() as u64;
    let seed = ASTRAY.fetch_add(1, Relaxed) << 32 | thread.0 >> 24;
    set(offset_of!(Frame, ip), attack::run as keel_l4::thread::Main as usize as u64);
    set(offset_of!(Frame, sp), stack(number));
    set(offset_of!(Frame, di), attack::argument(seed, number));
    Message { tag: Tag::new(0, FRAME_WORDS), ..Message::label(0) }
}
