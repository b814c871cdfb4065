// SPDX-License-Identifier: BSD-2-Clause
//! Page faults of native threads, with the worker as their pager.

use crate::case::{Case, Outcome};
use crate::pool::{cell, page, peek, poke, PAGE, WINDOW};
use crate::threads::{park, pause, remove, Spawn};
use crate::{holds, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{EX_HANDLER, EX_PAGER, EX_START, EX_TRIGGER};
use keel_l4::abi::{ExRegs, Frame, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::protocol::status::ERROR_TIMEOUT;
use keel_l4::{mapping, thread, utcb, Fpage, Id, Tag};

pub const CASES: &[Case] = &[
    ("read", read),
    ("write", write),
    ("execute", execute),
    ("label-kind-and-frame-index", message_shape),
    ("message-carries-the-registers", registers),
    ("a-mere-pager-sees-no-registers", no_registers),
    ("a-mere-pager-sees-no-more-words", no_more_words),
    ("answer-maps-and-resumes", answer),
    ("answer-without-a-page-faults-again", faults_again),
    ("answer-with-many-pages", many_pages),
    ("answer-with-many-items", many_items),
    ("answer-without-a-wait", no_wait),
    ("answer-whose-items-are-not-alike", unlike_items),
    ("answer-where-a-page-is", row_beside_a_page),
    ("answer-can-move-the-thread", moves),
    ("answer-with-items-can-move-the-thread", moves_and_maps),
    ("kernel-half", kernel_half),
    ("pager-changed", pager_changed),
    ("pager-gone", pager_gone),
    ("no-pager", no_pager),
    ("itself-as-pager", itself),
    ("state-while-it-waits", state),
    ("deleted-while-it-waits", deleted),
    ("answer-from-another-thread", wrong_answer),
];

extern "C" fn reader(address: u64) -> ! {
    cell(1).store(peek(address) + 1, SeqCst);
    park()
}

extern "C" fn writer(address: u64) -> ! {
    // SAFETY: the case chose the address.
    unsafe { poke(address, 4321) };
    cell(1).store(1, SeqCst);
    park()
}

extern "C" fn jumper(address: u64) -> ! {
    // SAFETY: the case wants the fault that this raises.
    unsafe { core::mem::transmute::<u64, extern "C" fn()>(address)() };
    park()
}

/// Starts `main(argument)` with the caller as pager and returns its fault.
fn fault_of(main: crate::threads::Main, argument: u64) -> Result<(Id, Received), Failure> {
    let id = Spawn::watched(main, argument).start()?;
    Ok((id, receive(id, Timeout::Never)?))
}

fn to_window(from: u64, rights: u64) -> MapItem {
    MapItem { send_base: WINDOW, fpage: Fpage::memory(from, 12, rights).0 }
}

fn read() -> Outcome {
    let (_, fault) = fault_of(reader, WINDOW + 0x123)?;
    same!(
        "access, address, cause",
        (fault.tag.label() as u64, fault.words[0], fault.words[3]),
        (FPAGE_READ, WINDOW + 0x123, 0)
    );
    Ok(())
}

fn write() -> Outcome {
    let (_, fault) = fault_of(writer, WINDOW + 0x128)?;
    same!(
        "access, address, cause",
        (fault.tag.label() as u64, fault.words[0], fault.words[3]),
        (FPAGE_WRITE, WINDOW + 0x128, 0)
    );
    Ok(())
}

fn execute() -> Outcome {
    let (_, fault) = fault_of(jumper, WINDOW + 0x10)?;
    same!(
        "access, address, ip",
        (fault.tag.label() as u64, fault.words[0], fault.words[1]),
        (FPAGE_EXEC, WINDOW + 0x10, WINDOW + 0x10)
    );
    Ok(())
}

fn message_shape() -> Outcome {
    let (id, fault) = fault_of(reader, WINDOW)?;
    same!("kind, sender", (fault.tag.kind(), fault.from), (KIND_PAGE_FAULT, id));
    same!("frame index", fault.words[2], FRAME_NONE);
    holds!("an ip in the code", crate::threads::in_image(fault.words[1]));
    Ok(())
}

/// Word `index` of the frame in the last message.
fn frame_word(offset: usize) -> u64 {
    utcb::word(REGISTER_WORDS as usize + offset / 8)
}

fn registers() -> Outcome {
    let (_, fault) = fault_of(reader, WINDOW)?;
    same!("number of words", fault.tag.words(), REGISTER_WORDS + 32);
    same!("ip", frame_word(core::mem::offset_of!(Frame, ip)), fault.words[1]);
    same!("rdi, the argument", frame_word(core::mem::offset_of!(Frame, di)), WINDOW);
    Ok(())
}

fn no_registers() -> Outcome {
    let (id, _) = fault_of(reader, WINDOW)?;
    for handler in [Id::NIL, Id::ROOT] {
        let mut record = ExRegs::zeroed();
        record.handler = handler.0;
        thread::exchange(id, EX_HANDLER, &mut record)?;
        utcb::set_word(REGISTER_WORDS as usize + core::mem::offset_of!(Frame, di) / 8, 0);
        let again = call(id, Message::label(0))?;
        same!("kind, number of words", (again.tag.kind(), again.tag.words()), (KIND_PAGE_FAULT, 4));
        same!("rdi's place", frame_word(core::mem::offset_of!(Frame, di)), 0);
    }
    Ok(())
}

/// The faulting thread's values in the word registers that the message does not use.
const SECRETS: [u64; 2] = [0x5ec2_e713_5ec2_e713, 0x5ec2_e714_5ec2_e714];

extern "C" fn keeper(address: u64) -> ! {
    // SAFETY: the case deletes the thread before the load is done.
    unsafe {
        core::arch::asm!("mov rax, [{at}]", at = in(reg) address, in("r13") SECRETS[0], in("r14") SECRETS[1], out("rax") _);
    }
    park()
}

/// Both paths of the message: the fast path is for an open wait.
fn no_more_words() -> Outcome {
    for open in [false, true] {
        let id = Spawn { pager: utcb::my_id(), ..Spawn::new(keeper, WINDOW) }.create()?;
        thread::set_priority(id, crate::threads::base_priority() - 1)?;
        thread::act(id, EX_START)?;
        let got = if open { wait(Timeout::Never)? } else { receive(id, Timeout::Never)? };
        same!("kind, sender, words", (got.tag.kind(), got.from, got.tag.words()), (KIND_PAGE_FAULT, id, 4));
        same!("the words after these", [got.words[4], got.words[5]], [0; 2]);
        remove(id)?;
    }
    Ok(())
}

fn answer() -> Outcome {
    let from = page();
    let (id, _) = fault_of(writer, WINDOW + 8)?;
    send(id, Message::label(0).with_maps(&[to_window(from, FPAGE_RWX)]), Timeout::Zero)?;
    pause(2_000_000);
    same!("it went on, its word arrived", (cell(1).load(SeqCst), peek(from + 8)), (1, 4321));
    Ok(())
}

fn faults_again() -> Outcome {
    let (id, first) = fault_of(reader, WINDOW)?;
    for _ in 0..5 {
        let again = call(id, Message::label(0))?;
        same!("the same fault", (again.words[0], again.words[1]), (first.words[0], first.words[1]));
    }
    Ok(())
}

extern "C" fn walker(address: u64) -> ! {
    let sum = (0..16).map(|n| peek(address + n * PAGE)).sum();
    cell(1).store(sum, SeqCst);
    park()
}

fn many_pages() -> Outcome {
    let from = crate::pool::pages(16);
    crate::topics::window::fill(from, 16, 1);
    let (id, _) = fault_of(walker, WINDOW)?;
    let item = MapItem { send_base: WINDOW, fpage: Fpage::memory(from, 16, FPAGE_READ).0 };
    send(id, Message::label(0).with_maps(&[item]), Timeout::Zero)?;
    pause(2_000_000);
    same!("sum of the pages' words", cell(1).load(SeqCst), 136);
    Ok(())
}

/// Pages of a walk, and one beyond them, which keeps the page tables.
const WALK: u64 = 16;
const BESIDE: u64 = 20;

/// Loads from the page beside the walk, then tells the thread in cell 2 the sum of the walk's
/// words.
extern "C" fn telling_walker(address: u64) -> ! {
    peek(address + BESIDE * PAGE);
    let sum = (0..WALK).map(|n| peek(address + n * PAGE)).sum();
    let _ = call(Id(cell(2).load(SeqCst)), Message::new(0, &[sum]));
    park()
}

/// The pages that a walk gets.
fn of_a_walk() -> u64 {
    let from = crate::pool::pages(WALK);
    crate::topics::window::fill(from, WALK, 1);
    from
}

/// Starts a walk whose page beside it is mapped. Returns the thread, and the first fault of the
/// walk. The answers are replies with an open wait, which is what fast paths serve.
fn walk(from: u64) -> Result<(Id, Received), Failure> {
    cell(2).store(utcb::my_id().0, SeqCst);
    let (id, _) = fault_of(telling_walker, WINDOW)?;
    let beside = MapItem { send_base: WINDOW + BESIDE * PAGE, fpage: Fpage::memory(from, 12, FPAGE_READ).0 };
    Ok((id, reply(id, &[beside])?))
}

fn reply(id: Id, items: &[MapItem]) -> Result<Received, Failure> {
    send_and_wait(id, Message::label(0).with_maps(items), Timeout::Never, Timeout::Never)
}

/// Their items.
fn items_of(from: u64) -> [MapItem; WALK as usize] {
    core::array::from_fn(|n| MapItem {
        send_base: WINDOW + n as u64 * PAGE,
        fpage: Fpage::memory(from + n as u64 * PAGE, 12, FPAGE_READ).0,
    })
}

/// Ends a walk, whose sum must be right.
fn walked(id: Id, told: &Received) -> Outcome {
    same!("kind, sum of the pages' words", (told.tag.kind(), told.words[0]), (KIND_USER, WALK * (WALK + 1) / 2));
    remove(id)?;
    mapping::unmap(Fpage::memory(WINDOW, 17, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    Ok(())
}

fn many_items() -> Outcome {
    let from = of_a_walk();
    for count in [2, 15, WALK as usize] {
        let (id, first) = walk(from)?;
        same!("its fault", (first.tag.kind(), first.words[0]), (KIND_PAGE_FAULT, WINDOW));
        let mut next = reply(id, &items_of(from)[..count])?;
        if count < WALK as usize {
            same!(
                "the fault after these",
                (next.tag.kind(), next.words[0]),
                (KIND_PAGE_FAULT, WINDOW + count as u64 * PAGE)
            );
            next = reply(id, &items_of(from)[count..])?;
        }
        walked(id, &next)?;
    }
    Ok(())
}

/// The pager's answer has no receive phase: it runs on, and waits later. The thread is less
/// important or not, the items are as many as a fast path maps or one more, and the thread is
/// deleted before it runs or not.
fn no_wait() -> Outcome {
    const WHOLE: usize = WALK as usize;
    let (from, base) = (of_a_walk(), crate::threads::base_priority());
    let all = items_of(from);
    let items: [MapItem; WHOLE + 1] = core::array::from_fn(|n| all[n % WHOLE]);
    for (priority, count) in [(base - 1, WHOLE), (base - 1, WHOLE + 1), (base, WHOLE)] {
        for is_deleted in [true, false] {
            let (id, _) = walk(from)?;
            thread::set_priority(id, priority)?;
            send(id, Message::label(0).with_maps(&items[..count]), Timeout::Zero)?;
            same!("it is ready, and the pager runs", thread::schedule(id, 0, 0, 0)?.state, STATE_READY);
            if is_deleted {
                remove(id)?;
                pause(1_000_000);
                mapping::unmap(Fpage::memory(WINDOW, 17, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
            } else {
                let told = wait(Timeout::Never)?;
                same!("who resumed", told.from, id);
                walked(id, &told)?;
            }
        }
    }
    Ok(())
}

/// Items that no fast path maps, among others that it does.
fn unlike_items() -> Outcome {
    const AT: usize = 9;
    let (from, here) = (of_a_walk(), WINDOW + AT as u64 * PAGE);
    // Nothing is mapped for these.
    for bad in [MapItem { send_base: here, fpage: 0 }, MapItem { send_base: here, fpage: Fpage::io(0x70, 0).0 }] {
        let (id, _) = walk(from)?;
        let mut items = items_of(from);
        let good = core::mem::replace(&mut items[AT], bad);
        let fault = reply(id, &items)?;
        same!("the page that is missing", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, here));
        walked(id, &reply(id, &[good])?)?;
    }
    // More than a fast path maps.
    let (id, _) = walk(from)?;
    let all = items_of(from);
    let items: [MapItem; WALK as usize + 1] = core::array::from_fn(|n| all[n % WALK as usize]);
    walked(id, &reply(id, &items)?)?;
    // A page that is there already with fewer rights, and one that is there from elsewhere.
    let (id, _) = walk(from)?;
    let items = items_of(from);
    let wrong = MapItem { send_base: here, fpage: items[0].fpage };
    let fault = reply(id, &[MapItem { send_base: WINDOW + 15 * PAGE, ..items[15] }, wrong])?;
    same!("the first page is missing", fault.words[0], WINDOW);
    let more = items.map(|item| MapItem { fpage: item.fpage | FPAGE_WRITE, ..item });
    walked(id, &reply(id, &more)?)
}

/// A row of pages in one item, where another page is at one of its places.
fn row_beside_a_page() -> Outcome {
    let (from, other) = (of_a_walk(), page());
    for place in [None, Some(5), Some(15)] {
        let (id, _) = walk(from)?;
        if let Some(place) = place {
            let wrong = MapItem { send_base: WINDOW + place * PAGE, fpage: Fpage::memory(other, 12, FPAGE_READ).0 };
            same!("the first page is missing", reply(id, &[wrong])?.words[0], WINDOW);
        }
        let row = MapItem { send_base: WINDOW, fpage: Fpage::memory(from, 16, FPAGE_READ).0 };
        walked(id, &reply(id, &[row])?)?;
    }
    Ok(())
}

extern "C" fn landing(argument: u64) -> ! {
    cell(1).store(argument, SeqCst);
    park()
}

fn moves() -> Outcome {
    let (id, fault) = fault_of(reader, WINDOW)?;
    let word = |offset: usize| REGISTER_WORDS as usize + offset / 8;
    utcb::set_word(word(core::mem::offset_of!(Frame, ip)), landing as *const () as u64);
    utcb::set_word(word(core::mem::offset_of!(Frame, di)), 777);
    let tag = Tag::new(0, fault.tag.words());
    send(id, Message { tag, words: [0; 6] }, Timeout::Zero)?;
    pause(2_000_000);
    same!("it landed elsewhere", cell(1).load(SeqCst), 777);
    Ok(())
}

/// Tells the thread in cell 2 its argument.
extern "C" fn telling(argument: u64) -> ! {
    let _ = call(Id(cell(2).load(SeqCst)), Message::new(0, &[argument]));
    park()
}

fn moves_and_maps() -> Outcome {
    let from = of_a_walk();
    let (id, fault) = walk(from)?;
    let word = |offset: usize| REGISTER_WORDS as usize + offset / 8;
    utcb::set_word(word(core::mem::offset_of!(Frame, ip)), telling as *const () as u64);
    utcb::set_word(word(core::mem::offset_of!(Frame, di)), 777);
    let whole = Message { tag: Tag::new(0, fault.tag.words()), words: [0; 6] };
    let told = send_and_wait(id, whole.with_maps(&items_of(from)), Timeout::Never, Timeout::Never)?;
    same!("it landed elsewhere", (told.tag.kind(), told.words[0]), (KIND_USER, 777));
    same!("the last page", peek(WINDOW + (WALK - 1) * PAGE), WALK);
    Ok(())
}

fn kernel_half() -> Outcome {
    for address in [0xffff_8000_0000_0000, 0xffff_ffff_8010_0000, u64::MAX - 7] {
        let (id, fault) = fault_of(reader, address)?;
        same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, address));
        remove(id)?;
    }
    let (_, hole) = fault_of(reader, 0x8000_0000_0000)?;
    same!("kind, vector of a non-canonical address", (hole.tag.kind(), hole.tag.label()), (KIND_EXCEPTION, 13));
    Ok(())
}

extern "C" fn page_server(to: u64) -> ! {
    let got = keel_l4::ipc::wait(Timeout::Never);
    cell(2).store(got.map_or(0, |g| g.words[0]), SeqCst);
    let _ = send(Id(to), Message::label(0), Timeout::Never);
    park()
}

fn pager_changed() -> Outcome {
    let server = crate::threads::helper(page_server, utcb::my_id().0)?;
    pause(1_000_000);
    let id = Spawn::watched(reader, WINDOW + 64).create()?;
    let mut record = ExRegs::zeroed();
    record.pager = server.0;
    thread::exchange(id, EX_PAGER | keel_l4::abi::memory::EX_START, &mut record)?;
    same!("the pager before", record.pager, utcb::my_id().0);
    receive(server, Timeout::Never)?;
    same!("the address that the new pager saw", cell(2).load(SeqCst), WINDOW + 64);
    Ok(())
}

fn state_of(id: Id) -> Result<u64, Failure> {
    Ok(thread::schedule(id, 0, 0, 0)?.state)
}

extern "C" fn idle(_: u64) -> ! {
    park()
}

fn pager_gone() -> Outcome {
    let pager = crate::threads::helper(idle, 0)?;
    let id = Spawn { pager, ..Spawn::new(reader, WINDOW) }.start()?;
    pause(2_000_000);
    same!("its state while the pager does not listen", state_of(id)?, STATE_SENDING);
    remove(pager)?;
    same!("its state afterwards", state_of(id)?, STATE_INACTIVE);
    Ok(())
}

fn no_pager() -> Outcome {
    for pager in [Id::NIL, Id::INVALID] {
        let id = Spawn { pager, ..Spawn::new(reader, WINDOW) }.start()?;
        pause(2_000_000);
        same!("its state", state_of(id)?, STATE_INACTIVE);
    }
    Ok(())
}

fn itself() -> Outcome {
    let id = Spawn::new(reader, WINDOW).create()?;
    let mut record = ExRegs::zeroed();
    record.pager = id.0;
    thread::exchange(id, EX_PAGER | keel_l4::abi::memory::EX_START, &mut record)?;
    pause(2_000_000);
    same!("its state", state_of(id)?, STATE_INACTIVE);
    Ok(())
}

fn state() -> Outcome {
    let (id, _) = fault_of(reader, WINDOW)?;
    let told = thread::schedule(id, 0, 0, 0)?;
    same!("state and partner", (told.state, told.partner), (STATE_FAULTED, utcb::my_id()));
    // Neither a cancellation nor a trigger ends the wait for the pager.
    thread::act(id, keel_l4::abi::memory::EX_CANCEL | EX_TRIGGER)?;
    same!("state afterwards", state_of(id)?, STATE_FAULTED);
    Ok(())
}

fn deleted() -> Outcome {
    let (id, _) = fault_of(reader, WINDOW)?;
    remove(id)?;
    crate::refused!("the answer", send(id, Message::label(0), Timeout::Never), Send NoPartner);
    mapping::unmap(crate::topics::window::slot(0), UNMAP_RIGHTS)?;
    Ok(())
}

extern "C" fn meddler(to: u64) -> ! {
    let word = match send(Id(to), Message::label(0), Timeout::After(1_000_000)) {
        Ok(()) => 1,
        Err(failure) => failure.error as u64 + 100,
    };
    cell(3).store(word, SeqCst);
    park()
}

fn wrong_answer() -> Outcome {
    let (id, _) = fault_of(reader, WINDOW)?;
    crate::threads::helper(meddler, id.0)?;
    pause(5_000_000);
    same!("the meddler's status", cell(3).load(SeqCst), 100 + ERROR_TIMEOUT);
    same!("its state", state_of(id)?, STATE_FAULTED);
    Ok(())
}
