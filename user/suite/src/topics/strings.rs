// SPDX-License-Identifier: BSD-2-Clause
//! String items: what is copied where, what the receiver gets to know, and the limits.

use crate::case::{Case, Fault, Outcome};
use crate::pool::{self, pages, PAGE, WINDOW};
use crate::post::{failed, End, Job, Post};
use crate::topics::hostile::random;
use crate::topics::maps::VIDEO;
use crate::topics::window::{map_own, slot};
use crate::{holds, same};
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{AREA_DEFAULT, AREA_UTCBS, STRING_CONTINUES};
use keel_l4::abi::StringItem;
use keel_l4::ipc::{receive, send, Message, Timeout};
use keel_l4::strings::more;
use keel_l4::{mapping, sigma0, strings, utcb, Error, Fpage, Id, Side, Tag};

pub const CASES: &[Case] = &[
    ("one-string", one_string),
    ("receiver-meets-a-queued-sender", queued),
    ("between-tasks", between_tasks),
    ("every-alignment", every_alignment),
    ("gather", gather),
    ("scatter", scatter),
    ("three-strings", three_strings),
    ("empty-strings", empty_strings),
    ("with-words-and-maps", with_everything),
    ("lengths-in-a-larger-buffer", lengths),
    ("overlapping-memory", overlapping),
    ("call-and-reply", call_and_reply),
    ("four-megabytes", four_megabytes),
    ("random-lists", random_lists),
    ("no-buffer", no_buffer),
    ("buffer-too-small", too_small),
    ("fewer-buffers-than-strings", fewer_buffers),
    ("compound-buffer-too-small", compound_too_small),
    ("impossible-buffers-do-not-count", impossible_buffers),
    ("malformed-strings", malformed),
    ("strings-checked-when-sent", checked_when_sent),
    ("device-memory", device_memory),
    ("pages-of-the-kernel", kernel_pages),
    ("referenced-and-dirty", referenced_and_dirty),
];

/// An item of a string or a buffer.
pub fn item(address: u64, length: u64) -> StringItem {
    StringItem { address, length }
}

/// The pattern's byte for an address.
pub fn byte(address: u64) -> u8 {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

/// The bytes of the case's own memory at [address, address + size).
pub fn bytes(address: u64, size: u64) -> &'static [u8] {
    // SAFETY: memory of the case; nothing writes there while the slice is used.
    unsafe { core::slice::from_raw_parts(address as *const u8, size as usize) }
}

/// Fills memory of the case with a pattern that depends on the address.
pub fn fill(address: u64, size: u64) {
    for at in address..address + size {
        // SAFETY: as above.
        unsafe { (at as *mut u8).write_volatile(byte(at)) };
    }
}

/// Checks that the bytes from `from` on are at `to`, and the byte after them is still zero.
pub fn arrived(from: u64, to: u64, size: u64) -> Outcome {
    match (0..size).find(|n| bytes(to, size)[*n as usize] != byte(from + n)) {
        Some(n) => Err(Fault::new(format_args!("byte {n} of {size}: expected {:#x}", byte(from + n)))),
        None => {
            same!("the byte after", bytes(to + size, 1)[0], 0);
            Ok(())
        }
    }
}

/// Lets a sender and a receiver in the suite's task meet; either of them waits first.
fn meet(parts: &[StringItem], buffers: &[StringItem], queued: bool) -> Result<(End, End), Fault> {
    let (sender, receiver) = (Post::create(0)?, Post::create(1)?);
    let (sends, receives) = (Job::send(receiver.id, parts), Job::receive(sender.id, buffers));
    if queued {
        sender.start_and_wait(sends)?;
        receiver.start(receives)?;
    } else {
        receiver.start_and_wait(receives)?;
        sender.start(sends)?;
    }
    let ends = (sender.end()?, receiver.end()?);
    crate::threads::remove(sender.id)?;
    crate::threads::remove(receiver.id)?;
    pool::reset_stacks();
    Ok(ends)
}

/// Both succeed, and `strings` arrived.
pub fn passes(parts: &[StringItem], buffers: &[StringItem], queued: bool, strings: &[StringItem]) -> Outcome {
    let (sent, got) = meet(parts, buffers, queued)?;
    same!("both statuses", (sent.status, got.status), (Ok(()), Ok(())));
    same!("strings that came", got.arrived(), strings);
    Ok(())
}

/// Both get the error that the message was cut; `strings` arrived.
fn is_cut(parts: &[StringItem], buffers: &[StringItem], strings: &[StringItem]) -> Outcome {
    for queued in [false, true] {
        let (sent, got) = meet(parts, buffers, queued)?;
        let both = (failed(Side::Send, Error::MessageCut), failed(Side::Receive, Error::MessageCut));
        same!("both statuses", (sent.status, got.status), both);
        same!("strings that came", got.arrived(), strings);
    }
    Ok(())
}

fn one_string() -> Outcome {
    let (from, to) = (pages(4), pages(4));
    fill(from, 3 * PAGE);
    passes(&[item(from + 5, 2 * PAGE)], &[item(to + 3, 2 * PAGE)], false, &[item(to + 3, 2 * PAGE)])?;
    arrived(from + 5, to + 3, 2 * PAGE)
}

fn queued() -> Outcome {
    let (from, to) = (pages(4), pages(4));
    fill(from, 3 * PAGE);
    passes(&[item(from + 1, 2 * PAGE)], &[item(to + 9, 3 * PAGE)], true, &[item(to + 9, 2 * PAGE)])?;
    arrived(from + 1, to + 9, 2 * PAGE)
}

fn between_tasks() -> Outcome {
    let (from, to) = (pages(4), pages(4));
    fill(from, 3 * PAGE);
    let sender = Post::create(0)?;
    let receiver = Post::in_child(1, Job::receive(sender.id, &[item(to, 3 * PAGE)]))?;
    sender.start(Job::send(receiver.id, &[item(from, 3 * PAGE)]))?;
    same!("both statuses", (sender.end()?.status, receiver.end()?.status), (Ok(()), Ok(())));
    arrived(from, to, 3 * PAGE)?;
    // And from child to child, back into new memory.
    let (sender, receiver) = (Post::create(2)?, pages(4));
    let second = Post::in_child(3, Job::send(sender.id, &[item(from, PAGE + 1)]))?;
    sender.start(Job::receive(second.id, &[item(receiver, 2 * PAGE)]))?;
    same!("both statuses", (second.end()?.status, sender.end()?.status), (Ok(()), Ok(())));
    arrived(from, receiver, PAGE + 1)
}

fn every_alignment() -> Outcome {
    let (from, to) = (pages(2), pages(2));
    fill(from, 2 * PAGE);
    for n in 0..9u64 {
        let (source, target, size) = (from + PAGE - 4 + n, to + PAGE - 13 + 3 * n % 8, 1 + 7 * n);
        // SAFETY: the page belongs to the case.
        unsafe { core::ptr::write_bytes(to as *mut u8, 0, 2 * PAGE as usize) };
        passes(&[item(source, size)], &[item(target, size)], n % 2 == 0, &[item(target, size)])?;
        arrived(source, target, size)?;
    }
    Ok(())
}

fn gather() -> Outcome {
    let (from, to) = (pages(2), pages(2));
    fill(from, 2 * PAGE);
    let parts = [more(item(from + 4000, 200)), more(item(from + 10, 0)), item(from, 10)];
    passes(&parts, &[item(to + 4090, 300)], false, &[item(to + 4090, 210)])?;
    same!("the first part", bytes(to + 4090, 200), bytes(from + 4000, 200));
    same!("the second part", bytes(to + 4290, 10), bytes(from, 10));
    Ok(())
}

fn scatter() -> Outcome {
    let (from, to) = (pages(2), pages(2));
    fill(from, 2 * PAGE);
    let buffers = [more(item(to + 100, 50)), more(item(to + 10, 0)), item(to + 4000, 500)];
    passes(&[item(from + 4000, 350)], &buffers, true, &[item(to + 100, 350)])?;
    same!("the first part", bytes(to + 100, 51)[..50], bytes(from + 4000, 50)[..]);
    same!("the second part", bytes(to + 4000, 300), bytes(from + 4050, 300));
    same!("the byte after the first", bytes(to + 150, 1)[0], 0);
    Ok(())
}

fn three_strings() -> Outcome {
    let (from, to) = (pages(2), pages(2));
    fill(from, 2 * PAGE);
    let parts = [item(from, 100), more(item(from + 200, 50)), item(from + 300, 50), item(from + 400, 8)];
    let buffers = [more(item(to, 30)), item(to + 50, 300), item(to + 1000, 100), item(to + 2000, 100)];
    passes(&parts, &buffers, false, &[item(to, 100), item(to + 1000, 100), item(to + 2000, 8)])?;
    same!("the third", bytes(to + 2000, 8), bytes(from + 400, 8));
    same!("the second's second part", bytes(to + 1050, 50), bytes(from + 300, 50));
    Ok(())
}

fn empty_strings() -> Outcome {
    let to = pages(1);
    passes(&[item(0, 0), item(0, 0)], &[item(to, 0), item(to + 8, 8)], false, &[item(to, 0), item(to + 8, 0)])
}

fn with_everything() -> Outcome {
    let (from, to) = (pages(1), pages(1));
    fill(from, 100);
    let sender = Post::create(0)?;
    let receiver = Post::create(1)?;
    let message = Message::new(0x1234, &[1, 2, 3, 4, 5, 6]);
    sender.start(Job::send(receiver.id, &[item(from, 100)]).with(message))?;
    receiver.start(Job::receive(sender.id, &[item(to, 100)]))?;
    same!("the sender's status", sender.end()?.status, Ok(()));
    let got = receiver.end()?;
    same!("sender, label, words", (got.from, got.tag.label(), got.words), (sender.id, 0x1234, [1, 2, 3, 4, 5, 6]));
    same!("counts in the tag", (got.tag.words(), got.tag.maps(), got.tag.strings()), (6, 0, 1));
    arrived(from, to, 100)?;
    // The same with a map item, which the worker itself receives.
    let giver = crate::threads::helper(give_both, utcb::my_id().0)?;
    utcb::set_receive_window(slot(0));
    // SAFETY: the page belongs to the case.
    unsafe { strings::offer(&[item(to + 200, 100)]) };
    let got = receive(giver, Timeout::Never);
    utcb::set_receive_window(Fpage::NIL);
    // SAFETY: no buffer is offered.
    unsafe { strings::offer(&[]) };
    let got = got?;
    same!("items that came", (got.tag.maps(), got.tag.strings()), (1, 1));
    same!("where the page was placed", utcb::map_item(0).send_base, WINDOW);
    same!("the string", strings::arrived(got.tag).next(), Some(item(to + 200, 6)));
    same!("its bytes", bytes(to + 200, 6), b"string");
    Ok(())
}

extern "C" fn give_both(to: u64) -> ! {
    let page = keel_l4::abi::MapItem { send_base: 0, fpage: Fpage::memory(pool::page(), 12, FPAGE_RWX).0 };
    let message = Message::label(0).with_maps(&[page]).with_strings(&[strings::string(b"string")]);
    let _ = send(Id(to), message, Timeout::Never);
    crate::threads::park()
}

fn lengths() -> Outcome {
    let (from, to) = (pages(1), pages(1));
    for size in [0, 1, 7, 8, 9, 100] {
        passes(&[item(from, size)], &[item(to, 100)], false, &[item(to, size)])?;
    }
    Ok(())
}

fn overlapping() -> Outcome {
    for (from, to) in [(100, 108), (108, 100), (0, PAGE - 50)] {
        let base = pages(4);
        fill(base, 4 * PAGE);
        passes(
            &[item(base + from, 3 * PAGE - 200)],
            &[item(base + to, 4 * PAGE)],
            false,
            &[item(base + to, 3 * PAGE - 200)],
        )?;
        // Within a page the bytes are as if copied in one step; bytes that are copied later are
        // those of that time.
        let same = (0..8).all(|n| bytes(base + to, 8)[n] == byte(base + from + n as u64));
        holds!("the first bytes as they were", same);
    }
    Ok(())
}

extern "C" fn echo(_: u64) -> ! {
    let memory = pages(2);
    // SAFETY: two pages of this thread's own.
    unsafe { strings::offer(&[item(memory, 2 * PAGE)]) };
    let mut next = keel_l4::ipc::wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let back = strings::arrived(got.tag).next().unwrap_or(item(memory, 0));
                let reply = Message::label(1).with_strings(&[back]);
                keel_l4::ipc::send_and_wait(got.from, reply, Timeout::Zero, Timeout::Never)
            }
            Err(_) => keel_l4::ipc::wait(Timeout::Never),
        };
    }
}

fn call_and_reply() -> Outcome {
    let server = crate::threads::helper(echo, 0)?;
    let (from, to) = (pages(2), pages(2));
    fill(from, 2 * PAGE);
    for size in [1, 100, PAGE, 2 * PAGE] {
        // SAFETY: the pages belong to the case.
        unsafe { strings::offer(&[item(to, 2 * PAGE)]) };
        let got = keel_l4::ipc::call(server, Message::label(0).with_strings(&[item(from, size)]));
        // SAFETY: no buffer is offered.
        unsafe { strings::offer(&[]) };
        same!("what came back", strings::arrived(got?.tag).next(), Some(item(to, size)));
        same!("its bytes", bytes(to, size) == bytes(from, size), true);
    }
    Ok(())
}

/// Physical addresses of the large areas, once sigma0 has given them.
static AREAS: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// Large area 0 or 1, of `MAX_STRING_BYTES`, at the beginning of the window or after the first. Its
/// content is undefined.
pub fn large_area(number: usize) -> Result<u64, Fault> {
    let log2 = MAX_STRING_BYTES.ilog2() as u8;
    if AREAS[number].load(SeqCst) == 0 {
        let window = Fpage::memory(WINDOW, pool::WINDOW_LOG2, FPAGE_RWX);
        let placed = sigma0::any(Fpage::memory(0, log2, FPAGE_RWX), window)?.send_base;
        mapping::unmap(Fpage::memory(placed, log2, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
        AREAS[number].store(placed - WINDOW, SeqCst);
    }
    let memory = Fpage::memory(AREAS[number].load(SeqCst), log2, FPAGE_RWX);
    let place = Fpage::memory(WINDOW + number as u64 * MAX_STRING_BYTES, log2, FPAGE_RWX);
    Ok(sigma0::map(memory, place)?.send_base)
}

fn four_megabytes() -> Outcome {
    let (from, to) = (large_area(0)?, large_area(1)?);
    for at in (from..from + MAX_STRING_BYTES).step_by(8) {
        // SAFETY: memory that belongs to the case.
        unsafe { pool::poke(at, at) };
    }
    passes(&[item(from, MAX_STRING_BYTES)], &[item(to, MAX_STRING_BYTES)], false, &[item(to, MAX_STRING_BYTES)])?;
    same!("all of it", bytes(to, MAX_STRING_BYTES) == bytes(from, MAX_STRING_BYTES), true);
    Ok(())
}

/// Rounds of random lists.
const ROUNDS: u32 = 150;

/// Random items in [base, base + 8 pages) that do not overlap; their strings have `total` bytes.
fn random_list(state: &mut u64, base: u64, list: &mut [StringItem; 8]) -> usize {
    let count = 1 + (random(state) % 8) as usize;
    for (number, part) in list[..count].iter_mut().enumerate() {
        let start = base + number as u64 * PAGE + random(state) % 2048;
        *part = item(start, random(state) % 2048);
        if random(state) % 2 == 0 && number + 1 < count {
            *part = more(*part);
        }
    }
    count
}

fn random_lists() -> Outcome {
    let (from, to) = (pages(8), pages(8));
    let mut state = pool::seed(0x57_1196);
    fill(from, 8 * PAGE);
    let (mut parts, mut buffers) = ([item(0, 0); 8], [item(0, 0); 8]);
    for round in 0..ROUNDS {
        let count = random_list(&mut state, from, &mut parts);
        let room = random_list(&mut state, to, &mut buffers);
        let (sent, got) = meet(&parts[..count], &buffers[..room], round % 2 == 0)?;
        // The model: byte by byte, string by string.
        let (mut part, mut buffer, mut strings, mut cut) = (0, 0, 0, false);
        while part < count && !cut {
            let first = buffer;
            cut = buffer == room;
            let (mut used, mut length) = (0, 0);
            loop {
                let size = parts[part].length & !STRING_CONTINUES;
                for n in 0..size {
                    while !cut && used == buffers[buffer].length & !STRING_CONTINUES {
                        cut = buffers[buffer].length & STRING_CONTINUES == 0;
                        if !cut {
                            (buffer, used) = (buffer + 1, 0);
                        }
                    }
                    if cut {
                        break;
                    }
                    let (source, target) = (parts[part].address + n, buffers[buffer].address + used);
                    same!("a byte", (round, target, bytes(target, 1)[0]), (round, target, byte(source)));
                    (used, length) = (used + 1, length + 1);
                }
                part += 1;
                if cut || parts[part - 1].length & STRING_CONTINUES == 0 {
                    break;
                }
            }
            if first < room {
                let told = got.strings[strings];
                same!("address of a string", (round, told), (round, item(buffers[first].address, length)));
                strings += 1;
            }
            while !cut && buffers[buffer].length & STRING_CONTINUES != 0 {
                buffer += 1;
            }
            buffer += 1;
        }
        let error = |side| if cut { failed(side, Error::MessageCut) } else { Ok(()) };
        same!("statuses", (round, sent.status, got.status), (round, error(Side::Send), error(Side::Receive)));
        same!("strings that came", (round, got.arrived().len()), (round, strings));
    }
    Ok(())
}

fn no_buffer() -> Outcome {
    is_cut(&[item(pages(1), 8)], &[], &[])
}

fn too_small() -> Outcome {
    let (from, to) = (pages(1), pages(1));
    fill(from, PAGE);
    is_cut(&[item(from, 101)], &[item(to, 100)], &[item(to, 100)])?;
    arrived(from, to, 100)
}

fn fewer_buffers() -> Outcome {
    let (from, to) = (pages(1), pages(1));
    is_cut(&[item(from, 10), item(from, 10)], &[item(to, 100)], &[item(to, 10)])?;
    is_cut(&[item(from, 10), item(from, 0)], &[item(to, 100)], &[item(to, 10)])
}

fn compound_too_small() -> Outcome {
    let (from, to) = (pages(1), pages(1));
    fill(from, PAGE);
    let parts = [more(item(from, 50)), item(from + 50, 51), item(from, 1)];
    is_cut(&parts, &[more(item(to, 60)), item(to + 60, 40), item(to + 500, 8)], &[item(to, 100)])?;
    arrived(from, to, 100)
}

/// Invalid buffers, each of which ends the list.
const IMPOSSIBLE: [StringItem; 5] = [
    StringItem { address: 1 << 47, length: 1 },
    StringItem { address: (1 << 47) - 1, length: 2 },
    StringItem { address: u64::MAX, length: 2 },
    StringItem { address: 0xffff_7fff_ffff_ffff, length: 1 },
    StringItem { address: 0, length: MAX_STRING_BYTES + 1 },
];

fn impossible_buffers() -> Outcome {
    let (from, to) = (pages(1), pages(1));
    for bad in IMPOSSIBLE {
        is_cut(&[item(from, 10), item(from, 10)], &[item(to, 10), bad], &[item(to, 10)])?;
        is_cut(&[item(from, 20)], &[more(item(to, 10)), bad], &[item(to, 10)])?;
    }
    Ok(())
}

fn malformed() -> Outcome {
    let from = pages(1);
    let receiver = Post::create(1)?;
    receiver.start_and_wait(Job::receive(utcb::my_id(), &[item(pages(1), 100)]))?;
    let refused = |parts: &[StringItem]| {
        crate::refused!("a list", send(receiver.id, Message::label(0).with_strings(parts), Timeout::Zero), Send Invalid);
        Ok::<(), Fault>(())
    };
    for bad in IMPOSSIBLE {
        refused(&[bad])?;
        refused(&[item(from, 10), bad])?;
        refused(&[more(item(from, 10)), bad])?;
    }
    refused(&[more(item(from, 10))])?;
    let nine = Message { tag: Tag::new(0, 0).with_strings(MAX_STRINGS + 1), words: [0; 6] };
    crate::refused!("nine parts", send(receiver.id, nine, Timeout::Zero), Send Invalid);
    // The receiver is not affected.
    receiver.reaches(STATE_RECEIVING)?;
    send(receiver.id, Message::label(0).with_strings(&[item(from, 10)]), Timeout::Zero)?;
    same!("the receiver's status", receiver.end()?.status, Ok(()));
    Ok(())
}

/// Reports the address of its UTCB, then sends a string to its argument.
extern "C" fn forger(to: u64) -> ! {
    let me = utcb::address();
    pool::cell(1).store(me as u64, SeqCst);
    let message = Message::label(0).with_strings(&[strings::string(b"as it was")]);
    let _ = send(Id(to), message, Timeout::Never);
    crate::threads::park()
}

fn checked_when_sent() -> Outcome {
    let to = pages(1);
    let sender = crate::threads::helper(forger, utcb::my_id().0)?;
    crate::threads::pause(2_000_000);
    let utcb_of_sender = pool::cell(1).load(SeqCst);
    let strings_at = utcb_of_sender + core::mem::offset_of!(keel_l4::abi::Utcb, strings) as u64;
    // SAFETY: another thread's UTCB, whose list the kernel has already read.
    unsafe { pool::poke(strings_at, u64::MAX) };
    // SAFETY: the page belongs to the case.
    unsafe { strings::offer(&[item(to, 100)]) };
    let got = receive(sender, Timeout::Never);
    // SAFETY: no buffer is offered.
    unsafe { strings::offer(&[]) };
    same!("the string", strings::arrived(got?.tag).next(), Some(item(to, 9)));
    same!("its bytes", bytes(to, 9), b"as it was");
    Ok(())
}

/// Strings that cannot be read and buffers that cannot be written: both partners get `Aborted`.
fn aborts(parts: &[StringItem], buffers: &[StringItem]) -> Outcome {
    for queued in [false, true] {
        let (sent, got) = meet(parts, buffers, queued)?;
        let both = (failed(Side::Send, Error::Aborted), failed(Side::Receive, Error::Aborted));
        same!("both statuses", (sent.status, got.status), both);
    }
    Ok(())
}

fn device_memory() -> Outcome {
    let device = Fpage::memory(VIDEO, 12, FPAGE_READ | FPAGE_WRITE).with_cache(CACHE_UNCACHED);
    sigma0::map(device, slot(0))?;
    aborts(&[item(WINDOW, 8)], &[item(pages(1), 8)])?;
    aborts(&[item(pages(1), 8)], &[item(WINDOW, 8)])
}

fn kernel_pages() -> Outcome {
    aborts(&[item(AREA_DEFAULT, 8)], &[item(pages(1), 8)])?;
    aborts(&[item(pages(1), 8)], &[item(AREA_DEFAULT + AREA_UTCBS, 8)])
}

fn referenced_and_dirty() -> Outcome {
    let (from, to) = (pages(1), pages(1));
    map_own(from, FPAGE_RWX, 0)?;
    map_own(to, FPAGE_RWX, 1)?;
    let state = |number| mapping::unmap(slot(number), UNMAP_FLUSH);
    same!("before", (state(0)?, state(1)?), (0, 0));
    passes(&[item(WINDOW, 8)], &[item(WINDOW + PAGE, 8)], false, &[item(WINDOW + PAGE, 8)])?;
    let take = |number| mapping::unmap(slot(number), UNMAP_FLUSH | UNMAP_RIGHTS);
    same!("the source", take(0)?, UNMAP_REFERENCED);
    same!("the target", take(1)?, UNMAP_REFERENCED | UNMAP_DIRTY);
    Ok(())
}
