// SPDX-License-Identifier: BSD-2-Clause
//! A small task at random: loads, stores, pushes, segments and far jumps in its window and beyond,
//! between neighbours with secrets. Whenever it leaves its window it comes back, with other
//! thread-local descriptors.

use crate::case::{Case, Outcome};
use crate::pool::{attacks, seed, PAGE};
use crate::small::*;
use crate::small_code::*;
use crate::topics::hostile::random;
use crate::topics::small_attacks::{host_offset, host_page, siege, SECRET, VICTIM};
use crate::{holds, same};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use keel_l4::abi::call::*;
use keel_l4::abi::memory::*;
use keel_l4::abi::ExRegs;
use keel_l4::ipc::{send, wait, Message, Timeout};
use keel_l4::kip::now;
use keel_l4::println;
use keel_l4::thread::{exchange, set_reach};
use keel_l4::Id;

pub const CASES: &[Case] = &[
    ("random-accesses-0", || random_accesses(0)),
    ("random-accesses-1", || random_accesses(1)),
    ("random-accesses-2", || random_accesses(2)),
    ("random-accesses-3", || random_accesses(3)),
    ("random-accesses-4", || random_accesses(4)),
    ("random-accesses-5", || random_accesses(5)),
    ("random-accesses-6", || random_accesses(6)),
    ("random-accesses-7", || random_accesses(7)),
];

/// Accesses of all cases so far. A case makes its share of what is left.
static DONE: AtomicU64 = AtomicU64::new(0);
/// A case ends then in any case, in ns: the runner waits no longer than a minute.
const TIME: u64 = 45_000_000_000;
/// Faults of a round that its pager answers.
const FAULTS: u32 = 16;
/// Pages that it is told of.
const PLACES: u64 = 16;
/// Accesses at a time, after which it is in its window again.
const ROUND: u64 = 100;
/// Where the task may be caught in a loop of its own by a far jump: how long it may take, in ns.
const LOOP: u64 = 200_000_000;

/// A random thread-local descriptor that the kernel takes: data of any kind, or code.
fn any_descriptor(state: &mut u64) -> u64 {
    const FIXED: u64 = 0xf0 << 40;
    let bits = random(state);
    let kind = if bits % 4 == 0 { 0xa } else { bits >> 8 & 7 };
    let base = [0, PAGE, SIZE - PAGE, SIZE, random(state) % (1 << 32)][(bits >> 16) as usize % 5];
    let limit = [0xfffff, 0xfff, random(state) & 0xfffff][(bits >> 24) as usize % 3];
    let flags = (bits >> 32 & 1) << 55 | 1 << 54;
    FIXED | kind << 40 | flags | limit & 0xffff | limit >> 16 << 48 | (base & 0xff_ffff) << 16 | base >> 24 << 56
}

/// The accesses of case number `number`, from a seed of its own. The last one fails unless they are
/// as many as are wanted.
fn random_accesses(number: u64) -> Outcome {
    let siege = siege()?;
    let attacker = &siege.attacker;
    let mut state = seed(0x5a11_5bac + number);
    let cases_left = CASES.len() as u64 - number;
    let share = (attacks() - DONE.load(SeqCst)).div_ceil(cases_left);
    // What is beside its window, and where that and the host's page are in the host's tables.
    let beside = [SIZE, 2 * SIZE - PAGE, 0u64.wrapping_sub(PAGE), 0u64.wrapping_sub(SIZE), host_offset()];
    let base = VICTIM & !0xff;
    let there = [base + SIZE, base + 2 * SIZE - PAGE, base - PAGE, base - SIZE, host_page(), base];
    let places: [u64; 11] = core::array::from_fn(|number| if number < 5 { beside[number] } else { there[number - 5] });
    let (mut left, mut outside, end) = (share, 0, now() + TIME);
    while left > 0 && now() < end {
        attacker.set_tls(core::array::from_fn(|_| any_descriptor(&mut state)))?;
        for number in 0..PLACES {
            let place = places.get(number as usize).copied().unwrap_or_else(|| random(&mut state));
            set_word(attacker.block + BLOCK_BYTES + 4 * number, (place & !(PAGE - 1)) as u32);
        }
        let round = left.min(ROUND);
        attacker.tell(small_random, random(&mut state) & u32::MAX as u64 | 1, round)?;
        // Its report, a fault, an exception, or nothing.
        let mut faults = 0;
        let got = loop {
            faults += 1;
            match wait(Timeout::After(LOOP)) {
                // One at the same place again and again is for a right that its pager does not
                // have.
                Ok(got) if got.tag.kind() == KIND_PAGE_FAULT && faults < FAULTS && attacker.answers(&got)? => {}
                got => break got.ok(),
            }
        };
        let reported = got.is_some_and(|got| got.tag.kind() == KIND_USER);
        if reported {
            same!("a secret that it read", got.map(|got| got.words[0]) == Some(SECRET as u64), false);
        }
        let rest = word(attacker.block + BLOCK_SCRATCH) as u64;
        holds!("it comes on", (1..=round).contains(&rest));
        left -= if reported { round } else { round - rest + 1 };
        outside += (attacker.reach_now()? != VICTIM) as u64;
        set_reach(attacker.thread, VICTIM, Id::NIL)?;
        if !reported {
            // Back to its first instruction.
            let mut record = ExRegs::zeroed();
            (record.ip, record.sp) = (operation(small_monitor), BLOCKS + PAGE - 16);
            exchange(attacker.thread, EX_IP | EX_SP, &mut record)?;
            if got.is_some() {
                send(attacker.thread, Message::label(0), Timeout::Zero)?;
            }
            let first = attacker.serve()?;
            attacker.expect_report(&first)?;
        }
    }
    let done = DONE.fetch_add(share - left, SeqCst) + share - left;
    println!("small-random: {} accesses, {outside} times out of the window, {done} so far", share - left);
    holds!("it was beyond its window often", outside > 0);
    holds!("as many accesses as are wanted", cases_left > 1 || done == attacks());
    siege.end(VICTIM)
}
