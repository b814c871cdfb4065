// SPDX-License-Identifier: BSD-2-Clause
//! Small tasks on several processors: in one host's tables at the same time, unmapping and moving
//! while they run, and promotion beside a thread that stays.

use crate::case::{Case, Fault, Outcome};
use crate::pool::{page, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::threads::remove_task;
use crate::topics::small::PROMOTED;
use crate::topics::window::fault_at;
use crate::{holds, same};
use core::hint::spin_loop;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_READ, FPAGE_RWX, FPAGE_WRITE};
use keel_l4::abi::{MapItem, UnmapRange};
use keel_l4::ipc::{call, receive, send, Message, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::mapping::{move_in, unmap};
use keel_l4::thread::{self, set_processor, set_reach};
use keel_l4::{utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("tasks-on-each-processor", tasks_on_each),
    ("threads-of-one-task-on-each-processor", threads_on_each),
    ("calls-across", calls_across),
    ("unmapped-while-another-reads", unmapped_while_read),
    ("write-taken-while-another-writes", write_taken),
    ("a-large-page-taken-while-another-reads", large_taken),
    ("a-table-moves-while-another-reads", table_moves),
    ("moves-while-it-runs", moves),
    ("set-elsewhere-while-it-runs", set_elsewhere),
    ("promoted-beside-a-thread-that-stays", promoted_beside),
    ("promoted-and-demoted-there", promoted_there),
    ("the-home-dies-while-they-run", home_dies),
    ("the-task-dies-while-it-runs", task_dies),
    ("windows-come-and-go-beside-one-that-runs", come_and_go),
    ("processor-numbers", numbers),
];

/// Another processor than the worker's.
const OTHER: u64 = 1;
/// Where small tasks have what they read and write.
const THERE: u64 = 0x50_0000;
const TABLE: u64 = 512 * PAGE;
/// Most tasks at once.
const TASKS: usize = 4;

/// A small task whose thread is on a processor.
fn there(window: u64, processor: u64) -> Result<Small, Fault> {
    let small = Small::new(window)?;
    set_processor(small.thread, processor)?;
    Ok(small)
}

/// Window number `number`.
fn window(number: u64) -> u64 {
    WINDOW + number * SIZE | LOG2
}

/// Waits, without a call, until a word of 32 bits of the suite's has changed often.
fn goes_on(at: u64) -> Outcome {
    let (before, end) = (word(at), now() + PATIENCE);
    while word(at).wrapping_sub(before) < 10 {
        holds!("a count that changes", now() < end);
        spin_loop();
    }
    Ok(())
}

/// Has a small thread count without end in the page at `THERE`, which is the suite's `from`.
fn count(small: &Small, from: u64) -> Outcome {
    small.tell(small_count, THERE, 0)?;
    while word(from) == 0 {
        answer_next(small, 1_000_000)?;
    }
    Ok(())
}

/// Waits for a fault of a small thread at `THERE`.
fn fault_of(small: &Small, present: u64) -> Outcome {
    let got = receive(small.thread, Timeout::After(PATIENCE))?;
    same!("the fault", (got.tag.kind(), got.words[0], got.words[3]), (KIND_PAGE_FAULT, THERE, present));
    Ok(())
}

fn tasks_on_each() -> Outcome {
    let count_of = kip().processors.min(TASKS as u64);
    let mut all = [None; TASKS];
    for number in 0..count_of {
        let mut small = there(window(number), number)?;
        let from = small.give_new(THERE, 0);
        if number > 0 {
            count(&small, from)?;
        }
        all[number as usize] = Some((small, from));
    }
    for (_, from) in all.iter().flatten().skip(1) {
        goes_on(*from)?;
    }
    // The one beside the worker reads its own page all the time.
    if let Some((small, from)) = all[0] {
        for value in 1..100 {
            small.ask(small_store, THERE, value)?;
            same!("its own", (small.ask(small_load, THERE, 0)?, word(from) as u64), (value, value));
        }
    }
    check()
}

fn threads_on_each() -> Outcome {
    let mut small = Small::new(USUAL)?;
    let mut counters = [0; TASKS];
    for number in 1..kip().processors.min(TASKS as u64) {
        small.add()?;
        set_processor(small.thread, number)?;
        small.begin()?;
        let at = THERE + number * PAGE;
        counters[number as usize] = small.give_new(at, 0);
        small.tell(small_count, at, 0)?;
        while word(counters[number as usize]) == 0 {
            answer_next(&small, 1_000_000)?;
        }
    }
    for counter in counters.into_iter().filter(|counter| *counter != 0) {
        goes_on(counter)?;
    }
    check()
}

fn calls_across() -> Outcome {
    let (client, server) = (Small::new(window(0))?, there(window(1), OTHER)?);
    server.tell(small_echo, 0, 0)?;
    let ax = CALL_IPC | IPC_SEND | IPC_RECEIVE;
    for round in 0..50 {
        let words = [round, 5, 6, 1 << 50 | round, 8, 9];
        let end = client.call(&Call { ax, tag: 6, label: round, to: server.thread, words })?;
        same!("status, label", (end.status, end.label), (0, round));
        same!("words", end.words, [round + 1, 5, 6, 1 << 50 | round, 8, 9]);
        let got = call(server.thread, Message::new(9, &[round]))?;
        same!("and from 64 bits", (got.tag.label(), got.words[0]), (9, round + 1));
    }
    Ok(())
}

/// A small task on the other processor that counts in the suite's page, of which it gets no more.
fn counter_there() -> Result<(Small, u64), Fault> {
    let mut small = there(USUAL, OTHER)?;
    let from = small.give_new(THERE, 0);
    count(&small, from)?;
    Ok((small, from))
}

/// Gives a page to a thread that waits for one.
fn give(small: &Small, from: u64, log2: u8, rights: u64) -> Outcome {
    let item = MapItem { send_base: THERE & !((1 << log2) - 1), fpage: Fpage::memory(from, log2, rights).0 };
    Ok(send(small.thread, Message::label(0).with_maps(&[item]), Timeout::Zero)?)
}

fn unmapped_while_read() -> Outcome {
    let (small, from) = counter_there()?;
    for _ in 0..20 {
        goes_on(from)?;
        unmap(Fpage::memory(from, 12, 0), UNMAP_RIGHTS)?;
        let last = word(from);
        fault_of(&small, 0)?;
        same!("not one more count", word(from), last);
        same!("nothing in the window", fault_at(WINDOW + THERE)?, 0);
        give(&small, from, 12, FPAGE_RWX)?;
    }
    check()
}

fn write_taken() -> Outcome {
    let (small, from) = counter_there()?;
    for _ in 0..10 {
        goes_on(from)?;
        let state = unmap(Fpage::memory(from, 12, 0), FPAGE_WRITE)?;
        let last = word(from);
        same!("it was written", state & UNMAP_DIRTY, UNMAP_DIRTY);
        fault_of(&small, 1)?;
        same!("not one more count", word(from), last);
        give(&small, from, 12, FPAGE_RWX)?;
    }
    check()
}

fn large_taken() -> Outcome {
    const LARGE: u8 = 21;
    let small = there(USUAL, OTHER)?;
    let slot = Fpage::memory(crate::pool::WINDOW, LARGE, FPAGE_RWX);
    keel_l4::sigma0::any(Fpage::memory(0, LARGE, FPAGE_RWX), slot)?;
    let counter = slot.base() + THERE % TABLE;
    set_word(counter, 0);
    small.tell(small_count, THERE, 0)?;
    for _ in 0..10 {
        fault_of(&small, 0)?;
        same!("nothing in the window", fault_at(WINDOW + THERE)?, 0);
        give(&small, slot.base(), LARGE, FPAGE_RWX)?;
        goes_on(counter)?;
        unmap(Fpage::memory(slot.base(), LARGE, 0), UNMAP_RIGHTS)?;
        let last = word(counter);
        for _ in 0..1000 {
            spin_loop();
        }
        same!("not one more count", word(counter), last);
    }
    check()
}

fn table_moves() -> Outcome {
    let (mut small, from) = counter_there()?;
    small.give_no_more(THERE);
    let (at, to) = (THERE & !(TABLE - 1), 5 * TABLE);
    for _ in 0..10 {
        goes_on(from)?;
        move_in(small.task, UnmapRange { address: at, pages: TABLE / PAGE }, to)?;
        let last = word(from);
        fault_of(&small, 0)?;
        same!("not one more count", word(from), last);
        move_in(small.task, UnmapRange { address: to, pages: TABLE / PAGE }, at)?;
        // It tries again, and has its page.
        send(small.thread, Message::label(0), Timeout::Zero)?;
    }
    check()
}

fn moves() -> Outcome {
    let (small, from) = counter_there()?;
    let last = kip().processors - 1;
    for place in [0, last, OTHER, 0, last, OTHER] {
        set_processor(small.thread, place)?;
        let (before, end) = (word(from), now() + PATIENCE);
        while word(from) == before {
            holds!("a count that changes", now() < end);
            crate::threads::pause(100_000);
        }
    }
    same!("its reach", small.reach_now()?, USUAL);
    check()
}

fn set_elsewhere() -> Outcome {
    let (small, from) = counter_there()?;
    for reach in [SMALL_ALL, window(1), SMALL_ALL, 0xc000_0000 | 30, SMALL_ALL, USUAL] {
        set_reach(small.thread, reach, Id::NIL)?;
        // Its tables are the same, and so is its page.
        goes_on(from)?;
        same!("its reach", small.reach_now()?, reach);
        if reach == SMALL_ALL {
            same!("nothing in the window", fault_at(WINDOW + THERE)?, 0);
        }
    }
    check()
}

fn promoted_beside() -> Outcome {
    let (mut small, from) = counter_there()?;
    let stays = small.thread;
    small.give_new(SIZE, 0x1357);
    small.add()?;
    small.begin()?;
    for _ in 0..5 {
        same!("beyond the window", small.ask(small_load, SIZE, 0)?, 0x1357);
        same!("both", (small.reach_now()?, thread::reach(stays)?), (PROMOTED, USUAL));
        goes_on(from)?;
        same!("what both see", small.ask(small_load, THERE, 0)? > 0, true);
        set_reach(small.thread, USUAL, Id::NIL)?;
    }
    check()
}

fn promoted_there() -> Outcome {
    let mut small = there(USUAL, OTHER)?;
    small.give_new(SIZE, 0x2468);
    for _ in 0..10 {
        same!("beyond the window", small.ask(small_load, SIZE, 0)?, 0x2468);
        same!("returned", set_reach(small.thread, USUAL, Id::NIL)?, PROMOTED);
        let me = utcb::my_id().0 & u32::MAX as u64;
        same!("inside", small.ask(small_load, BLOCKS + BLOCK_CHIEF, 0)?, me);
    }
    check()
}

fn home_dies() -> Outcome {
    for _ in 0..5 {
        let (home, number) = home()?;
        let mut small = Small::hosted(USUAL, home)?;
        set_processor(small.thread, OTHER)?;
        let from = small.give_new(THERE, 0);
        count(&small, from)?;
        goes_on(from)?;
        remove_task(number)?;
        goes_on(from)?;
        same!("its reach", small.reach_now()?, SMALL_ALL);
        remove_task(small.number)?;
        crate::pool::reset_tasks();
    }
    check()
}

fn task_dies() -> Outcome {
    for _ in 0..10 {
        let (small, from) = counter_there()?;
        goes_on(from)?;
        remove_task(small.number)?;
        let last = word(from);
        same!("nothing in the window", fault_at(WINDOW + THERE)?, 0);
        same!("not one more count", word(from), last);
        crate::pool::reset_tasks();
    }
    check()
}

fn come_and_go() -> Outcome {
    let (small, from) = counter_there()?;
    let shared = page();
    for round in 0..20 {
        let mut other = Small::new(window(1 + round % 3))?;
        other.give(THERE, shared, FPAGE_READ);
        set_word(shared, round as u32);
        same!("what it reads", other.ask(small_load, THERE, 0)?, round);
        goes_on(from)?;
        remove_task(other.number)?;
    }
    same!("its reach", small.reach_now()?, USUAL);
    check()
}

fn numbers() -> Outcome {
    const SELECTOR: u64 = 15 << 3 | 3;
    let small = Small::new(USUAL)?;
    for number in (0..kip().processors).rev() {
        set_processor(small.thread, number)?;
        same!("its processor", small.try_it(small_lsl, SELECTOR, 0)?.words[..2], [number, 1]);
    }
    Ok(())
}
