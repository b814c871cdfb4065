// SPDX-License-Identifier: BSD-2-Clause
//! Map items: what arrives where, with which rights, and what a grant moves.

use crate::case::{Case, Outcome};
use crate::pool::{self, cell, page, pages, peek, poke, PAGE, WINDOW};
use crate::threads::{child, helper, park, pause, Child, Spawn};
use crate::topics::window::{fault_at, fill};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::{KIND_PAGE_FAULT, UNMAP_FLUSH, UNMAP_RIGHTS};
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{AREA_DEFAULT, AREA_FRAMES, AREA_UTCBS, MAP_GRANT};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{answer_fault, call, receive, send, wait, Message, Timeout};
use keel_l4::{mapping, mapping::unmap, sigma0, utcb, Fpage, Id};

pub const CASES: &[Case] = &[
    ("page-arrives", page_arrives),
    ("both-see-changes", both_see),
    ("placement-equal-sizes", equal_sizes),
    ("placement-larger-window", larger_window),
    ("placement-smaller-window", smaller_window),
    ("hot-spot-selects-part", hot_spot),
    ("no-window-refuses", no_window),
    ("rights-of-the-item", rights_of_item),
    ("rights-never-grow", rights_never_grow),
    ("write-to-read-only-faults", write_read_only),
    ("no-execute", no_execute),
    ("nothing-mapped-nothing-arrives", nothing_there),
    ("what-a-reply-with-an-item-says", reply_with_item),
    ("many-items", many_items),
    ("large-fpage-with-holes", with_holes),
    ("a-row-of-pages", row_of_pages),
    ("grant-moves", grant_moves),
    ("grant-keeps-the-owner's-hold", grant_keeps_hold),
    ("superpage", superpage),
    ("part-of-a-superpage", part_of_superpage),
    ("uncached-device-page", device_page),
    ("into-the-kernel-area-refused", into_area),
    ("out-of-the-kernel-area-refused", out_of_area),
    ("malformed-fpage-refused", malformed),
    ("to-a-child-task", to_child),
    ("remap-another-page", remap_other),
    ("remap-the-same-page", remap_same),
    ("chain-through-tasks", chain),
    ("items-to-oneself", to_oneself),
    ("itself-onto-itself", onto_itself),
];

const LOAD: u32 = 1;
const STORE: u32 = 2;
const TAKE: u32 = 3;
const PASS: u32 = 4;

/// The label and the words of the mapper's replies.
const TOLD: u32 = 77;
const TOLD_WORDS: [u64; 3] = [1, 2, 3];

/// Replies to every caller with the map item in cells 0 (send base) and 1 (fpage), and with words.
extern "C" fn mapper(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let item = MapItem { send_base: cell(0).load(SeqCst), fpage: cell(1).load(SeqCst) };
                let reply = Message::new(TOLD, &TOLD_WORDS).with_maps(&[item]);
                keel_l4::ipc::send_and_wait(got.from, reply, Timeout::Zero, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// Lets a helper map `item` into `window` of the own space; returns what arrived.
pub fn map_here(item: MapItem, window: Fpage) -> Result<MapItem, Failure> {
    let mapper = Spawn::light(mapper, 0).start()?;
    cell(0).store(item.send_base, SeqCst);
    cell(1).store(item.fpage, SeqCst);
    utcb::set_receive_window(window);
    let answer = call(mapper, Message::label(0));
    utcb::set_receive_window(Fpage::NIL);
    crate::threads::remove(mapper)?;
    answer.map(|_| utcb::map_item(0))
}

/// A map item.
pub fn item(send_base: u64, fpage: Fpage) -> MapItem {
    MapItem { send_base, fpage: fpage.0 }
}

/// A page-sized window at `WINDOW` plus `number` pages.
fn slot(number: u64) -> Fpage {
    Fpage::memory(WINDOW + number * PAGE, 12, FPAGE_RWX)
}

/// The page at an address.
pub fn one(address: u64, rights: u64) -> Fpage {
    Fpage::memory(address, 12, rights)
}

/// Sends itself map items.
fn map_in_own_space(items: &[MapItem]) -> Result<(), Failure> {
    send(utcb::my_id(), Message::label(0).with_maps(items), Timeout::Zero)
}

/// A message of map items to oneself maps them in the own space, wherever they say.
fn to_oneself() -> Outcome {
    let (from, to) = (pages(3), slot(4).base());
    fill(from, 3, 70);
    let rights = |number: u64| if number == 1 { FPAGE_READ } else { FPAGE_READ | FPAGE_WRITE };
    let items = [0, 1, 2].map(|n| item(to + n * PAGE, one(from + n * PAGE, rights(n))));
    map_in_own_space(&items)?;
    for number in 0..3 {
        same!("content", peek(to + number * PAGE), 70 + number);
    }
    same!("a write to what may be read", fault_at(to + PAGE)?, 1);
    unmap(one(from, FPAGE_RWX), UNMAP_RIGHTS)?;
    same!("after an unmap of its source", fault_at(to)?, 0);
    map_in_own_space(&[item(to | MAP_GRANT, one(from + 2 * PAGE, FPAGE_RWX))])?;
    same!("a grant moves it", (peek(to), fault_at(from + 2 * PAGE)?), (72, 0));
    refused!("no items", send(utcb::my_id(), Message::label(0), Timeout::Zero), Send Invalid);
    let answer = Message::label(0).with_maps(&items);
    refused!("only an answer", answer_fault(utcb::my_id(), answer), Send Timeout);
    let words = Message::new(0, &[1]).with_maps(&[item(to, one(from, FPAGE_RWX))]);
    send(utcb::my_id(), words, Timeout::Zero)?;
    same!("with words: the items", peek(to), 70);
    Ok(())
}

/// A page onto itself, and onto a page of its own item, changes nothing else.
fn onto_itself() -> Outcome {
    let from = pages(2);
    fill(from, 2, 80);
    map_in_own_space(&[item(from, one(from, FPAGE_READ))])?;
    map_in_own_space(&[item(WINDOW, one(from + PAGE, FPAGE_RWX)), item(WINDOW + PAGE, one(WINDOW, FPAGE_RWX))])?;
    same!("a chain in one message", (peek(from), peek(WINDOW), peek(WINDOW + PAGE)), (80, 81, 81));
    unmap(one(from + PAGE, FPAGE_RWX), UNMAP_RIGHTS)?;
    same!("all of it goes with its source", (fault_at(WINDOW)?, fault_at(WINDOW + PAGE)?), (0, 0));
    Ok(())
}

fn page_arrives() -> Outcome {
    let from = page();
    // SAFETY: the page belongs to this case.
    unsafe { poke(from, 0xfeed) };
    let came = map_here(item(0, one(from, FPAGE_RWX)), slot(0))?;
    same!("place", came.send_base, WINDOW);
    same!("size", Fpage(came.fpage).log2(), 12);
    same!("content", peek(WINDOW), 0xfeed);
    Ok(())
}

fn both_see() -> Outcome {
    let from = page();
    map_here(item(0, one(from, FPAGE_RWX)), slot(0))?;
    // SAFETY: both addresses are this case's page.
    unsafe {
        poke(WINDOW + 8, 11);
        poke(from + 16, 22);
    }
    same!("both words at both places", (peek(from + 8), peek(WINDOW + 16)), (11, 22));
    Ok(())
}

fn equal_sizes() -> Outcome {
    // The send base must have no effect.
    let came = map_here(item(0x1234_5000, one(page(), FPAGE_RWX)), slot(5))?;
    same!("place", came.send_base, WINDOW + 5 * PAGE);
    Ok(())
}

fn larger_window() -> Outcome {
    let window = Fpage::memory(WINDOW, 16, FPAGE_RWX);
    let came = map_here(item(0x777_3000, one(page(), FPAGE_RWX)), window)?;
    same!("place: send base modulo window size", came.send_base, WINDOW + 0x3000);
    Ok(())
}

fn smaller_window() -> Outcome {
    let from = pool::pages(4);
    // SAFETY: the pages are this case's own.
    (0..4).for_each(|n| unsafe { poke(from + n * PAGE, 100 + n) });
    let came = map_here(item(0x2000, Fpage::memory(from, 14, FPAGE_RWX)), slot(0))?;
    same!("place and size", (came.send_base, Fpage(came.fpage).log2()), (WINDOW, 12));
    same!("the page at the send base's offset", peek(WINDOW), 102);
    Ok(())
}

fn hot_spot() -> Outcome {
    let from = pool::pages(4);
    // SAFETY: as above.
    (0..4).for_each(|n| unsafe { poke(from + n * PAGE, 200 + n) });
    for n in 0..4 {
        map_here(item(n * PAGE, Fpage::memory(from, 14, FPAGE_RWX)), slot(n))?;
        same!("the page selected", peek(WINDOW + n * PAGE), 200 + n);
    }
    Ok(())
}

fn no_window() -> Outcome {
    let came = map_here(item(0, one(page(), FPAGE_RWX)), Fpage::NIL)?;
    same!("fpage of a refused item", came.fpage, 0);
    Ok(())
}

fn rights_of_item() -> Outcome {
    for rights in [FPAGE_READ, FPAGE_READ | FPAGE_WRITE] {
        let came = map_here(item(0, one(page(), rights)), slot(rights))?;
        same!("rights that arrived", Fpage(came.fpage).rights(), rights);
    }
    Ok(())
}

fn rights_never_grow() -> Outcome {
    map_here(item(0, one(page(), FPAGE_READ)), slot(0))?;
    let came = map_here(item(0, one(WINDOW, FPAGE_RWX)), slot(1))?;
    same!("rights that arrived", Fpage(came.fpage).rights(), FPAGE_READ);
    Ok(())
}

extern "C" fn writer(address: u64) -> ! {
    // SAFETY: the case chose the address.
    unsafe { poke(address, 1) };
    cell(5).store(1, SeqCst);
    park()
}

fn write_read_only() -> Outcome {
    map_here(item(0, one(page(), FPAGE_READ)), slot(0))?;
    let id = Spawn::watched(writer, WINDOW + 8).start()?;
    let fault = receive(id, Timeout::Never)?;
    same!("kind and access", (fault.tag.kind(), fault.tag.label() as u64), (KIND_PAGE_FAULT, FPAGE_WRITE));
    same!("address and cause", (fault.words[0], fault.words[3]), (WINDOW + 8, 1));
    Ok(())
}

extern "C" fn jumper(address: u64) -> ! {
    // SAFETY: the case expects this fault.
    unsafe { core::mem::transmute::<u64, extern "C" fn()>(address)() };
    park()
}

fn no_execute() -> Outcome {
    map_here(item(0, one(page(), FPAGE_READ | FPAGE_WRITE)), slot(0))?;
    let id = Spawn::watched(jumper, WINDOW).start()?;
    let fault = receive(id, Timeout::Never)?;
    same!("kind and access", (fault.tag.kind(), fault.tag.label() as u64), (KIND_PAGE_FAULT, FPAGE_EXEC));
    same!("address", fault.words[0], WINDOW);
    Ok(())
}

fn nothing_there() -> Outcome {
    let came = map_here(item(0, slot(77)), slot(0))?;
    same!("fpage of nothing", came.fpage, 0);
    Ok(())
}

extern "C" fn mapper_of_32(_: u64) -> ! {
    let first = cell(0).load(SeqCst);
    let items: [MapItem; 32] =
        core::array::from_fn(|n| item((31 - n as u64) * PAGE, one(first + n as u64 * PAGE, FPAGE_RWX)));
    let _ = send(Id(cell(1).load(SeqCst)), Message::label(0).with_maps(&items), Timeout::Never);
    park()
}

fn many_items() -> Outcome {
    let from = pool::pages(32);
    // SAFETY: the pages are this case's own.
    (0..32).for_each(|n| unsafe { poke(from + n * PAGE, n) });
    cell(0).store(from, SeqCst);
    cell(1).store(utcb::my_id().0, SeqCst);
    utcb::set_receive_window(Fpage::memory(WINDOW, 17, FPAGE_RWX));
    let id = helper(mapper_of_32, 0)?;
    let got = receive(id, Timeout::Never)?;
    same!("number of items", got.tag.maps(), 32);
    for n in 0..32 {
        same!("a page, in reverse order", peek(WINDOW + n * PAGE), 31 - n);
    }
    Ok(())
}

fn with_holes() -> Outcome {
    map_here(item(0, one(page(), FPAGE_RWX)), slot(1))?;
    map_here(item(0, one(page(), FPAGE_RWX)), slot(14))?;
    // SAFETY: the slots have this case's pages.
    unsafe {
        poke(WINDOW + PAGE, 1);
        poke(WINDOW + 14 * PAGE, 14);
    }
    let to = WINDOW + (1 << 20);
    let came = map_here(item(0, Fpage::memory(WINDOW, 16, FPAGE_RWX)), Fpage::memory(to, 16, FPAGE_RWX))?;
    holds!("an item that was not refused", came.fpage != 0);
    same!("the two pages", (peek(to + PAGE), peek(to + 14 * PAGE)), (1, 14));
    let id = Spawn::watched(writer, to + 2 * PAGE).start()?;
    same!("a hole faults", receive(id, Timeout::Never)?.words[3], 0);
    Ok(())
}

/// A row of pages in one item, where nothing is, where another page is, and where the same are.
fn row_of_pages() -> Outcome {
    let (from, to) = (pool::pages(16), WINDOW + (1 << 20));
    // SAFETY: the pages are this case's own.
    (0..16).for_each(|n| unsafe { poke(from + n * PAGE, n + 1) });
    let (row, window) = (Fpage::memory(from, 16, FPAGE_READ), Fpage::memory(to, 16, FPAGE_RWX));
    for place in [None, Some(0), Some(7), Some(15)] {
        if let Some(place) = place {
            mapping::unmap(one(to + place * PAGE, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
            map_here(item(0, one(page(), FPAGE_RWX)), one(to + place * PAGE, FPAGE_RWX))?;
        }
        let came = map_here(item(0, row), window)?;
        same!("what arrived", (came.send_base, came.fpage), (to, Fpage::memory(to, 16, FPAGE_READ).0));
        let wrong = (0..16).find(|n| peek(to + n * PAGE) != n + 1);
        same!("a page that is wrong", wrong, None);
    }
    Ok(())
}

fn grant_moves() -> Outcome {
    map_here(item(0, one(page(), FPAGE_RWX)), slot(0))?;
    // SAFETY: the slot has this case's page.
    unsafe { poke(WINDOW, 5) };
    let came = map_here(item(MAP_GRANT, slot(0)), slot(1))?;
    holds!("an item that was not refused", came.fpage != 0);
    same!("content at the new place", peek(WINDOW + PAGE), 5);
    let id = Spawn::watched(writer, WINDOW).start()?;
    same!("the old place is empty", receive(id, Timeout::Never)?.words[3], 0);
    Ok(())
}

fn grant_keeps_hold() -> Outcome {
    let from = page();
    map_here(item(0, one(from, FPAGE_RWX)), slot(0))?;
    map_here(item(MAP_GRANT, slot(0)), slot(1))?;
    mapping::unmap(one(from, FPAGE_RWX), UNMAP_RIGHTS)?;
    let id = Spawn::watched(writer, WINDOW + PAGE).start()?;
    same!("what the owner takes back is gone", receive(id, Timeout::Never)?.words[3], 0);
    Ok(())
}

/// A superpage of RAM from sigma0, at the second superpage of the window.
fn superpage_here() -> Result<u64, Failure> {
    let at = WINDOW + (2 << 20);
    sigma0::any(Fpage::memory(0, 21, FPAGE_RWX), Fpage::memory(at, 21, FPAGE_RWX))?;
    Ok(at)
}

fn superpage() -> Outcome {
    let at = superpage_here()?;
    let to = WINDOW + (4 << 20);
    let came = map_here(item(0, Fpage::memory(at, 21, FPAGE_RWX)), Fpage::memory(to, 21, FPAGE_RWX))?;
    same!("size", Fpage(came.fpage).log2(), 21);
    for n in (0..512).step_by(37) {
        // SAFETY: the superpage is this case's own.
        unsafe { poke(at + n * PAGE, n + 1) };
        same!("a word of it", peek(to + n * PAGE), n + 1);
    }
    Ok(())
}

fn part_of_superpage() -> Outcome {
    let at = superpage_here()?;
    // SAFETY: as above.
    unsafe { poke(at + 5 * PAGE, 55) };
    map_here(item(0, one(at + 5 * PAGE, FPAGE_READ)), slot(0))?;
    same!("content", peek(WINDOW), 55);
    mapping::unmap(one(at + 5 * PAGE, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    // SAFETY: as above.
    unsafe { poke(at + 6 * PAGE, 66) };
    same!("the neighbour is still there", peek(at + 6 * PAGE), 66);
    let id = Spawn::watched(writer, at + 5 * PAGE).start()?;
    same!("the page taken out is gone", receive(id, Timeout::Never)?.words[0], at + 5 * PAGE);
    Ok(())
}

/// A page of the legacy video memory, which every PC has.
pub const VIDEO: u64 = 0xb_8000;

fn device_page() -> Outcome {
    let device = Fpage::memory(VIDEO, 12, FPAGE_READ | FPAGE_WRITE).with_cache(CACHE_UNCACHED);
    let came = sigma0::map(device, slot(0))?;
    same!("place", came.send_base, WINDOW);
    peek(WINDOW);
    Ok(())
}

fn into_area() -> Outcome {
    for offset in [0, AREA_UTCBS, AREA_FRAMES, AREA_FRAMES + PAGE] {
        let came = map_here(item(0, one(page(), FPAGE_RWX)), one(AREA_DEFAULT + offset, FPAGE_RWX))?;
        same!("fpage of a refused item", came.fpage, 0);
    }
    same!("the UTCB is still the kernel's", peek(utcb::address() as u64), utcb::address() as u64);
    Ok(())
}

fn out_of_area() -> Outcome {
    for offset in [0, AREA_UTCBS, AREA_FRAMES] {
        let came = map_here(item(0, one(AREA_DEFAULT + offset, FPAGE_RWX)), slot(0))?;
        same!("fpage of a refused item", came.fpage, 0);
    }
    Ok(())
}

fn malformed() -> Outcome {
    for word in [!FPAGE_IO, 11 << 4 | 7, 49 << 4 | 7, 1 << 48 | 12 << 4 | 7, 12 << 4 | 7 | 3 << 10] {
        let came = map_here(MapItem { send_base: 0, fpage: word }, slot(0))?;
        same!("fpage of a refused item", came.fpage, 0);
    }
    Ok(())
}

/// Serves: LOAD w0, STORE w1 at w0, TAKE the map items into the window w0, PASS the page w0 on to
/// w1.
extern "C" fn servant(_: u64) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let [address, value, ..] = got.words;
                let mut reply = Message::label(0);
                match got.tag.label() {
                    LOAD => reply = Message::new(0, &[peek(address)]),
                    // SAFETY: the case chose the address.
                    STORE => unsafe { poke(address, value) },
                    TAKE => utcb::set_receive_window(one(address, FPAGE_RWX)),
                    PASS => {
                        let pass = Message::label(9).with_maps(&[item(0, one(address, FPAGE_RWX))]);
                        let _ = call(Id(value), pass);
                    }
                    _ => (),
                }
                keel_l4::ipc::send_and_wait(got.from, reply, Timeout::Zero, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// A child that serves, with its window open at `WINDOW`.
fn open_servant() -> Result<Child, Failure> {
    let child = child(servant, 0)?;
    call(child.thread, Message::new(TAKE, &[WINDOW]))?;
    Ok(child)
}

/// What a reply with an item says, whether a page table has to be made for the item or not.
fn reply_with_item() -> Outcome {
    let (mapper, from, beside) = (Spawn::new(mapper, 0).start()?, page(), page());
    cell(1).store(one(from, FPAGE_READ).0, SeqCst);
    for _ in 0..3 {
        utcb::set_receive_window(slot(1));
        let told = call(mapper, Message::label(0));
        utcb::set_receive_window(Fpage::NIL);
        let told = told?;
        same!("sender, label, items", (told.from, told.tag.label(), told.tag.maps()), (mapper, TOLD, 1));
        same!("words", told.words[..3], TOLD_WORDS);
        same!("what arrived", utcb::map_item(0).fpage, one(WINDOW + PAGE, FPAGE_READ).0);
        // From now on the page tables stay.
        map_in_own_space(&[item(WINDOW + 2 * PAGE, one(beside, FPAGE_READ))])?;
        unmap(one(from, FPAGE_RWX), UNMAP_RIGHTS)?;
    }
    Ok(())
}

fn to_child() -> Outcome {
    let child = open_servant()?;
    let from = page();
    // SAFETY: the page is this case's own.
    unsafe { poke(from, 31) };
    call(child.thread, Message::label(0).with_maps(&[item(0, one(from, FPAGE_RWX))]))?;
    same!("what the child reads", call(child.thread, Message::new(LOAD, &[WINDOW]))?.words[0], 31);
    call(child.thread, Message::new(STORE, &[WINDOW, 32]))?;
    same!("what it wrote", peek(from), 32);
    Ok(())
}

fn remap_other() -> Outcome {
    let (a, b) = (page(), page());
    // SAFETY: the pages are this case's own.
    unsafe {
        poke(a, 1);
        poke(b, 2);
    }
    map_here(item(0, one(a, FPAGE_RWX)), slot(0))?;
    map_here(item(0, one(b, FPAGE_RWX)), slot(0))?;
    same!("the later page", peek(WINDOW), 2);
    mapping::unmap(one(a, FPAGE_RWX), UNMAP_RIGHTS)?;
    same!("which the first one's owner cannot take", peek(WINDOW), 2);
    Ok(())
}

fn remap_same() -> Outcome {
    let from = page();
    map_here(item(0, one(from, FPAGE_READ)), slot(0))?;
    map_here(item(0, one(from, FPAGE_READ | FPAGE_WRITE)), slot(0))?;
    // SAFETY: the slot has this case's page.
    unsafe { poke(WINDOW, 77) };
    same!("written through the wider mapping", peek(from), 77);
    Ok(())
}

fn chain() -> Outcome {
    let (first, second) = (open_servant()?, open_servant()?);
    let from = page();
    // SAFETY: the page is this case's own.
    unsafe { poke(from, 41) };
    call(first.thread, Message::label(0).with_maps(&[item(0, one(from, FPAGE_RWX))]))?;
    call(first.thread, Message::new(PASS, &[WINDOW, second.thread.0]))?;
    same!("what the second reads", call(second.thread, Message::new(LOAD, &[WINDOW]))?.words[0], 41);
    mapping::unmap(one(from, FPAGE_RWX), UNMAP_RIGHTS)?;
    for child in [first, second] {
        let before = crate::threads::unexpected();
        let read = keel_l4::ipc::call_within(
            child.thread,
            Message::new(LOAD, &[WINDOW]),
            Timeout::Never,
            Timeout::After(50_000_000),
        );
        holds!("no answer from a child without the page", read.is_err());
        same!("faults outside the image", crate::threads::unexpected(), before + 1);
    }
    pause(1);
    Ok(())
}
