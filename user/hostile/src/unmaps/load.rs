// SPDX-License-Identifier: BSD-2-Clause
//! The loads of a task of the lowest priority with the usual kernel memory: single calls that only
//! read the state, or unmap everything.

use crate::tree::*;
use crate::{number, watch};
use keel_l4::abi::call::UNMAP_FLUSH;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::MAX_RANGES;
use keel_l4::abi::UnmapRange;
use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::ipc::{call, receive, send, wait, Message, Timeout};
use keel_l4::mapping::{unmap, unmap_in};
use keel_l4::program::Program;
use keel_l4::start::Stack;
use keel_l4::thread::{self, park};
use keel_l4::{utcb, Id};

/// Mappings of a tree whose size is not limited by memory.
const LEAVES: u64 = 16_000;
/// Mappings from each mapping of a deep tree: more than the kernel moves under another one in one
/// step.
const DEEP: u64 = 129;
/// Mappings from each mapping of a wide tree.
const WIDE: u64 = 7_000;
/// Nanoseconds after which a call that would take hours is cancelled.
const PATIENCE: u64 = 300_000_000;

/// Threads that each make one call that may be cancelled.
const CALLERS: usize = 3;

static STACKS: [Stack<{ 16 << 10 }>; CALLERS] = [const { Stack::new() }; CALLERS];
static ORDERS: Stack<{ 16 << 10 }> = Stack::new();

/// All loads; none of them beside a server's crowd.
pub fn run(program: Program) -> Result<(), Failure> {
    let has_loads = number(&program, "crowd", 0) == 0;
    let mapper = start_mapper()?;
    let own = thread::task_of(utcb::my_id());
    let load = |name: &str, children: u64, most: u64, work: &dyn Fn() -> Result<(), Failure>| {
        let mappings = grow(mapper, own_page(), children, most);
        watch::begins(name, mappings)?;
        work()?;
        watch::ends(name)?;
        unmap(window(), FPAGE_RWX | UNMAP_FLUSH).map(|_| ())
    };
    if has_loads {
        // The threads are created before a tree takes all memory.
        let mut callers = [Id::NIL; CALLERS];
        for (caller, stack) in callers.iter_mut().zip(&STACKS) {
            *caller = thread::spawn(stack, ask, 0)?;
            // This thread must be able to cancel the call in time.
            thread::set_priority(*caller, 0)?;
        }
        load("state-of-a-chain", CHAIN, u64::MAX, &|| ask_by(callers[0], 1))?;
        load("ranges-of-a-chain", CHAIN, u64::MAX, &|| ask_by(callers[1], MAX_RANGES))?;
        load("ranges-without-a-chain", FLAT, u64::MAX, &|| ask_by(callers[2], MAX_RANGES))?;
        load("state-of-a-page", CHAIN, u64::MAX, &|| unmap(one(page(0)), UNMAP_FLUSH).map(|_| ()))?;
        let leaves = UnmapRange { address: page(1) | FPAGE_READ, pages: LEAVES };
        load("rights-of-leaves", FLAT, LEAVES, &|| unmap_in(own, &[leaves]).map(|_| ()))?;
        for (name, children) in [("taking-a-chain", CHAIN), ("taking-a-deep-tree", DEEP), ("taking-a-wide-tree", WIDE)]
        {
            load(name, children, u64::MAX, &|| unmap(one(page(0)), FPAGE_RWX).map(|_| ()))?;
        }
        let mut clan = Clan::new(program);
        let child = clan.start("child", child, 0)?;
        thread::spawn(&ORDERS, order, child.0)?;
        // This load includes the creation of the chain.
        watch::begins("deleting-a-chain", CHILDS)?;
        clan.run()?;
        watch::ends("deleting-a-chain")?;
    }
    watch::done()?;
    park()
}

/// Lets a caller query the state of the whole space for all `ranges`, until `PATIENCE` is over.
fn ask_by(caller: Id, ranges: u64) -> Result<(), Failure> {
    send(caller, Message::new(0, &[ranges]), Timeout::Never)?;
    let _ = receive(caller, Timeout::After(PATIENCE));
    thread::delete(caller)
}

extern "C" fn ask(_: u64) -> ! {
    let whole = UnmapRange { address: FPAGE_RWX, pages: 1 << (SPACE_SHIFT - PAGE_SHIFT) };
    if let Ok(got) = wait(Timeout::Never) {
        let _ = unmap_in(thread::task_of(utcb::my_id()), &[whole; MAX_RANGES as usize][..got.words[0] as usize]);
        let _ = send(got.from, Message::label(0), Timeout::Never);
    }
    park()
}

/// Tells the child to create its chain and to exit; its chief deletes it then.
extern "C" fn order(child: u64) -> ! {
    let child = Id(child);
    let done = call(child, Message::label(0)).and_then(|_| send(child, Message::label(0), Timeout::Never));
    if let Err(failure) = done {
        keel_l4::println!("unmaps: the child makes no chain: {failure}");
    }
    park()
}
