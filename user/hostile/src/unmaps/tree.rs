// SPDX-License-Identifier: BSD-2-Clause
//! Trees of mappings of one page, made by a task for itself, and a child task that has one.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::MAX_MAP_ITEMS;
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SHIFT, PAGE_SIZE};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, send, send_and_wait, wait, Message, Timeout};
use keel_l4::start::Stack;
use keel_l4::{thread, utcb, Fpage, Id};

/// Where the mappings lie, one page after the other.
pub const WINDOW: u64 = 0x10_0000_0000;
/// Log2 of that area's size.
pub const WINDOW_LOG2: u8 = 30;
/// Where a child finds the page that it is given.
const GIVEN: u64 = WINDOW + (1 << WINDOW_LOG2);
/// Mappings of a child's chain: what is left of its chief's kernel memory is for page faults.
pub const CHILDS: u64 = 20_000;
/// What each mapping of a chain has.
pub const CHAIN: u64 = 1;
/// What the first mapping of a flat tree has: all others.
pub const FLAT: u64 = u64::MAX;

#[repr(align(4096))]
struct Page([AtomicU64; PAGE_SIZE as usize / 8]);

/// The page of which trees are made.
static OWN: Page = Page([const { AtomicU64::new(0) }; PAGE_SIZE as usize / 8]);
/// The address of the page of which the mapper makes trees.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// How many mappings come from each from which any come.
static CHILDREN: AtomicU64 = AtomicU64::new(0);
/// The mapper's, and that of a child's: the child has a copy of its chief's data, in which the first one is taken.
static STACKS: [Stack<{ 16 << 10 }>; 2] = [const { Stack::new() }; 2];

/// The address of the page of which trees are made, which is mapped.
pub fn own_page() -> u64 {
    OWN.0[0].store(1, Relaxed);
    &raw const OWN as u64
}

/// A page of the window.
pub fn page(number: u64) -> u64 {
    WINDOW + number * PAGE_SIZE
}

/// One page as an fpage.
pub fn one(address: u64) -> Fpage {
    Fpage::memory(address, PAGE_SHIFT as u8, FPAGE_RWX)
}

/// All places of mappings.
pub fn window() -> Fpage {
    Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX)
}

/// Answers with as many mappings as a message takes, from the one on that it is asked for.
extern "C" fn mapper(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let children = CHILDREN.load(Relaxed);
                let items: [MapItem; MAX_MAP_ITEMS as usize] = core::array::from_fn(|index| {
                    let number = got.words[0] + index as u64;
                    let from = match number {
                        0 => FIRST.load(Relaxed),
                        _ => page((number - 1) / children * children),
                    };
                    MapItem { send_base: number * PAGE_SIZE, fpage: one(from).0 }
                });
                send_and_wait(got.from, Message::label(0).with_maps(&items), Timeout::Zero, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// Starts the thread that `grow` asks.
pub fn start_mapper() -> Result<Id, Failure> {
    thread::spawn(&STACKS[0], mapper, 0)
}

/// Makes a tree in the window, of the page at `first`, with up to `most` mappings; how many there are, or a few more.
pub fn grow(mapper: Id, first: u64, children: u64, most: u64) -> u64 {
    FIRST.store(first, Relaxed);
    CHILDREN.store(children, Relaxed);
    let mut made = 0;
    utcb::set_receive_window(window());
    // In the end there is no memory for more.
    while made < most && call(mapper, Message::new(0, &[made])).is_ok() {
        made += MAX_MAP_ITEMS;
    }
    utcb::set_receive_window(Fpage::NIL);
    made
}

/// A child: makes a chain of the page that it is sent, or else of its own, answers with its size, and ends when it is told.
pub fn child(_: u64) -> Result<(), Failure> {
    let mapper = thread::spawn(&STACKS[1], mapper, 0)?;
    utcb::set_receive_window(one(GIVEN));
    let got = wait(Timeout::Never)?;
    let first = if got.tag.maps() > 0 { GIVEN } else { own_page() };
    let made = grow(mapper, first, CHAIN, CHILDS);
    send(got.from, Message::new(0, &[made]), Timeout::Never)?;
    wait(Timeout::Never).map(|_| ())
}
