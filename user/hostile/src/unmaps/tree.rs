// SPDX-License-Identifier: BSD-2-Clause
//! Trees of mappings of one page that a task creates in its own space, and a child task that has
//! one.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::MAX_MAP_ITEMS;
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SHIFT, PAGE_SIZE};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, send, send_and_wait, wait, Message, Timeout};
use keel_l4::start::Stack;
use keel_l4::{thread, utcb, Fpage, Id};

/// Address of the mappings, one page after the other.
pub const WINDOW: u64 = 0x10_0000_0000;
/// Log2 of the size of their range.
pub const WINDOW_LOG2: u8 = 30;
/// Address at which a child gets its page.
const GIVEN: u64 = WINDOW + (1 << WINDOW_LOG2);
/// Mappings of a child's chain. The rest of its chief's kernel memory is for page faults.
pub const CHILDS: u64 = 20_000;
/// Mappings from each mapping of a chain.
pub const CHAIN: u64 = 1;
/// Mappings from the first mapping of a flat tree: all others.
pub const FLAT: u64 = u64::MAX;

#[repr(align(4096))]
struct Page([AtomicU64; PAGE_SIZE as usize / 8]);

/// The page of the trees.
static OWN: Page = Page([const { AtomicU64::new(0) }; PAGE_SIZE as usize / 8]);
/// The address of the page from which the mapper creates trees.
static FIRST: AtomicU64 = AtomicU64::new(0);
/// Number of mappings from each mapping that has any.
static CHILDREN: AtomicU64 = AtomicU64::new(0);
/// Stacks of the mapper and of a child's mapper. The child has a copy of its chief's data, in which
/// the first one is taken.
static STACKS: [Stack<{ 16 << 10 }>; 2] = [const { Stack::new() }; 2];

/// The address of the page of the trees, which is mapped.
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

/// The range of all mappings.
pub fn window() -> Fpage {
    Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX)
}

/// Answers with as many mappings as fit into a message, from the requested number on.
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

/// Starts the mapper, which `grow` calls.
pub fn start_mapper() -> Result<Id, Failure> {
    thread::spawn(&STACKS[0], mapper, 0)
}

/// Creates a tree in the window, of the page at `first`, with up to `most` mappings. Returns their
/// number, or slightly more.
pub fn grow(mapper: Id, first: u64, children: u64, most: u64) -> u64 {
    FIRST.store(first, Relaxed);
    CHILDREN.store(children, Relaxed);
    let mut made = 0;
    utcb::set_receive_window(window());
    // The loop ends when memory is used up.
    while made < most && call(mapper, Message::new(0, &[made])).is_ok() {
        made += MAX_MAP_ITEMS;
    }
    utcb::set_receive_window(Fpage::NIL);
    made
}

/// A child: creates a chain of the page that it receives, or of its own page, answers with its
/// size, and exits on request.
pub fn child(_: u64) -> Result<(), Failure> {
    let mapper = thread::spawn(&STACKS[1], mapper, 0)?;
    utcb::set_receive_window(one(GIVEN));
    let got = wait(Timeout::Never)?;
    let first = if got.tag.maps() > 0 { GIVEN } else { own_page() };
    let made = grow(mapper, first, CHAIN, CHILDS);
    send(got.from, Message::new(0, &[made]), Timeout::Never)?;
    wait(Timeout::Never).map(|_| ())
}
