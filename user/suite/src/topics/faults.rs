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
use keel_l4::ipc::{call, receive, send, wait, Message, Received, Timeout};
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
    ("answer-can-move-the-thread", moves),
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
