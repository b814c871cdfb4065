// SPDX-License-Identifier: BSD-2-Clause
//! A server that fails when there is much to unmap: a chain of mappings of a page that its child
//! was granted, which is not part of the server's memory; or threads that map on other processors.

use crate::tree::*;
use crate::{number, watch};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::MAX_MAP_ITEMS;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::MAP_GRANT;
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::ipc::{call, send_and_wait, sleep, wait, Message, Timeout};
use keel_l4::kip::kip;
use keel_l4::program::Program;
use keel_l4::protocol::boot::SHUTDOWN_PANIC;
use keel_l4::start::Stack;
use keel_l4::thread::{self, park, Main};
use keel_l4::{println, root, utcb, Fpage, Id};

/// The most processors of a crowd.
const PROCESSORS: usize = 16;
/// Pages that each pair of a crowd maps repeatedly.
const PAGES: u64 = 1024;
/// Nanoseconds for which a crowd maps before the server fails.
const BEFORE: u64 = 20_000_000;

static FAILS: Stack<{ 16 << 10 }> = Stack::new();
static STACKS: [[Stack<{ 4 << 10 }>; 2]; PROCESSORS] = [const { [const { Stack::new() }; 2] }; PROCESSORS];
/// The page that the child is granted.
static GRANTED: AtomicU64 = AtomicU64::new(0);

/// One life.
pub fn run(program: Program) -> Result<(), Failure> {
    if number(&program, "crowd", 0) > 0 {
        watch::ends("restart-in-a-crowd")?;
        return crowd();
    }
    watch::ends("restart-with-a-chain")?;
    GRANTED.store(program.record as *const _ as u64 & !(PAGE_SIZE - 1), Relaxed);
    let mut clan = Clan::new(program);
    let child = clan.start("child", child, 0)?;
    thread::spawn(&FAILS, fail, child.0)?;
    clan.run()
}

/// Grants the page, lets the child create its chain, and fails.
extern "C" fn fail(child: u64) -> ! {
    let item = MapItem { send_base: MAP_GRANT, fpage: one(GRANTED.load(Relaxed)).0 };
    let done = call(Id(child), Message::label(0).with_maps(&[item]))
        .and_then(|got| watch::begins("restart-with-a-chain", got.words[0]))
        .and_then(|()| root::shut_down(SHUTDOWN_PANIC));
    println!("unmaps: the server does not fail: {done:?}");
    park()
}

/// A pair of threads on each other processor maps one page repeatedly; then the server fails.
fn crowd() -> Result<(), Failure> {
    let others = kip().processors.min(PROCESSORS as u64) - 1;
    own_page();
    for processor in 1..=others {
        let stacks = &STACKS[processor as usize];
        let giver = pin(&stacks[0], give, 0, processor)?;
        let taker = pin(&stacks[1], take, processor, processor)?;
        call(taker, Message::new(0, &[giver.0]))?;
    }
    sleep(BEFORE);
    watch::begins("restart-in-a-crowd", others * PAGES)?;
    root::shut_down(SHUTDOWN_PANIC)
}

fn pin(stack: &'static Stack<{ 4 << 10 }>, main: Main, argument: u64, processor: u64) -> Result<Id, Failure> {
    let thread = thread::spawn(stack, main, argument)?;
    thread::set_processor(thread, processor)?;
    Ok(thread)
}

/// Answers with mappings of the one page, to the addresses in the request.
extern "C" fn give(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let items: [MapItem; MAX_MAP_ITEMS as usize] = core::array::from_fn(|index| {
                    let offset = (got.words[0] + index as u64) * PAGE_SIZE;
                    MapItem { send_base: offset, fpage: one(own_page()).0 }
                });
                send_and_wait(got.from, Message::label(0).with_maps(&items), Timeout::Zero, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// Lets its giver map into its own part of the window, without end.
extern "C" fn take(part: u64) -> ! {
    if let Ok(got) = wait(Timeout::Never) {
        let log2 = (PAGES * PAGE_SIZE).trailing_zeros() as u8;
        utcb::set_receive_window(Fpage::memory(WINDOW + (part << log2), log2, FPAGE_RWX));
        let giver = Id(got.words[0]);
        let _ = keel_l4::ipc::send(got.from, Message::label(0), Timeout::Never);
        for first in (0..PAGES / MAX_MAP_ITEMS).cycle() {
            // If there is no memory now, there will be some later.
            let _ = call(giver, Message::new(0, &[first * MAX_MAP_ITEMS]));
        }
    }
    park()
}
