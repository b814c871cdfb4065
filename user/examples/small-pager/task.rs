// SPDX-License-Identifier: BSD-2-Clause
//! The two programs of 32 bits of the example: a pager, and its client, which has the pager's
//! program, a copy of its data, and a heap after these.

#![no_std]
#![no_main]

use core::cell::UnsafeCell;
use keel_l4_32::abi::call::KIND_PAGE_FAULT;
use keel_l4_32::abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_WRITE, PAGE_SIZE};
use keel_l4_32::call::Failure;
use keel_l4_32::ipc::{call, serve, Message, Received};
use keel_l4_32::mapping::{page, take_back};
use keel_l4_32::program::Program;
use keel_l4_32::{println, Error, Id};

keel_l4_32::program!(main);

/// Bytes of a page.
const PAGE: u32 = PAGE_SIZE as u32;
/// Pages of the heap.
const HEAP: u32 = 8;
/// Pages that the pager can give: the heap, and copies of data and stack.
const FRAMES: u32 = 2 * HEAP;
/// The role of the pager, and its services: takes the heap's pages back; answers how many faults it
/// answered, in the image and in the heap.
const PAGER: u32 = 0;
const TAKE_BACK: u32 = 1;
const COUNT: u32 = 2;

/// The pages that the pager gives, at their client's.
#[repr(C, align(4096))]
struct Frames(UnsafeCell<[[u8; PAGE as usize]; FRAMES as usize]>);

// SAFETY: the task has one thread, and no reference points to the bytes.
unsafe impl Sync for Frames {}

static POOL: Frames = Frames(UnsafeCell::new([[0; PAGE as usize]; FRAMES as usize]));

unsafe extern "C" {
    static __image_start: u8;
    static __rodata_start: u8;
    static __data_start: u8;
    static __image_end: u8;
}

/// Address of a symbol of the linker's.
fn at(symbol: *const u8) -> u32 {
    symbol as u32
}

/// The first address of the client's heap: that after the image.
fn heap() -> u32 {
    at(&raw const __image_end)
}

/// The pager's state: the addresses in its client of the frames that are given, and the faults that
/// were answered, in the image and in the heap.
struct Pager {
    given: [u32; FRAMES as usize],
    used: usize,
    faults: [u32; 2],
}

impl Pager {
    /// The frame for the client's page, given before or now, and whether it is new.
    fn frame(&mut self, page: u32) -> Option<(u32, bool)> {
        let known = self.given[..self.used].iter().position(|given| *given == page);
        if known.is_none() {
            *self.given.get_mut(self.used)? = page;
            self.used += 1;
        }
        let index = known.unwrap_or(self.used - 1) as u32;
        Some((POOL.0.get() as u32 + index * PAGE, known.is_none()))
    }

    /// The pager's page for the client's, and the rights to it.
    fn page(&mut self, page: u32) -> Option<(u32, u64)> {
        let in_heap = (heap()..heap() + HEAP * PAGE).contains(&page);
        self.faults[in_heap as usize] += 1;
        if (at(&raw const __image_start)..at(&raw const __rodata_start)).contains(&page) {
            return Some((page, FPAGE_READ | FPAGE_EXEC));
        }
        if (at(&raw const __rodata_start)..at(&raw const __data_start)).contains(&page) {
            return Some((page, FPAGE_READ));
        }
        if !in_heap && !(at(&raw const __data_start)..heap()).contains(&page) {
            return None;
        }
        let (frame, new) = self.frame(page)?;
        if new && !in_heap {
            // SAFETY: both are whole pages of this task, which has one thread; the frame is new.
            unsafe { core::ptr::copy(page as *const u8, frame as *mut u8, PAGE as usize) };
        } else {
            // Only a page that is mapped here can be given. SAFETY: it is the pager's own.
            unsafe { (frame as *const u8).read_volatile() };
        }
        Some((frame, FPAGE_READ | FPAGE_WRITE))
    }

    /// The answer to a fault. Panics at an impossible one, upon which the pager's chief ends both.
    fn fault(&mut self, received: &Received) -> Message {
        let base = received.words[0] / PAGE * PAGE;
        let Some((address, rights)) = self.page(base) else {
            panic!("there is no page for address {:#x}", received.words[0]);
        };
        if rights & FPAGE_WRITE == 0 {
            // SAFETY: as above: a page of the image.
            unsafe { (address as *const u8).read_volatile() };
        }
        Message::new(0, &[]).with_maps(&[page(address, base, rights)])
    }

    /// Takes the pages of the heap back; the client's next access is a fault again.
    fn take_back(&self) -> Result<(), Failure> {
        let pages = (0..self.used).filter(|index| self.given[*index] >= heap());
        pages.map(|index| POOL.0.get() as u32 + index as u32 * PAGE).try_for_each(take_back)
    }
}

fn pager() {
    let mut pager = Pager { given: [0; FRAMES as usize], used: 0, faults: [0; 2] };
    serve(|received| {
        Some(match (received.tag.kind(), received.tag.label()) {
            (KIND_PAGE_FAULT, _) => pager.fault(received),
            (_, TAKE_BACK) => Message::new(pager.take_back().map_or_else(|failure| failure.error as u32, |()| 0), &[]),
            (_, COUNT) => Message::new(0, &pager.faults),
            _ => Message::new(Error::NotSupported as u32, &[]),
        })
    });
}

/// The first word of a page of the heap.
fn word(page: u32) -> *mut u32 {
    (heap() + page * PAGE) as *mut u32
}

fn client(pager: Id) -> Result<(), Failure> {
    for page in 0..HEAP {
        // SAFETY: the heap is this program's, and nothing else uses it.
        unsafe { word(page).write_volatile(page + 1) };
    }
    call(pager, Message::new(TAKE_BACK, &[]))?.accepted()?;
    // SAFETY: as above.
    let sum: u32 = (0..HEAP).map(|page| unsafe { word(page).read_volatile() }).sum();
    println!("client: wrote 1 to {HEAP} to the pages of its heap; after they were taken back their sum is {sum}");
    let [image, heap, _] = call(pager, Message::new(COUNT, &[]))?.accepted()?.words;
    let few = if image <= FRAMES { "no more than" } else { "more than" };
    println!("client: the pager answered {heap} faults in the heap, and {few} {FRAMES} in the image");
    Ok(())
}

fn main(program: Program) -> Result<(), Failure> {
    match program.role {
        PAGER => pager(),
        _ => client(program.partner)?,
    }
    Ok(())
}
