// SPDX-License-Identifier: BSD-2-Clause
//! Several processors: threads that run at the same time; messages, mappings and deletion across
//! processors.
//!
//! The worker is on the boot processor. Most other threads are on `OTHER`.

use crate::alien::{code_fpu, code_spin, code_syscall, Alien};
use crate::case::{Case, Fault, Outcome};
use crate::pool::{cell, page, pages, peek, poke, PAGE, WINDOW};
use crate::post::{failed, Job, Post};
use crate::threads::{
    base_priority, child, child_plan, helper, in_image, make_child, park, pause, remove, remove_task, Spawn,
};
use crate::topics::strings::{arrived, fill, item, large_area};
use crate::topics::window::slot;
use crate::{holds, refused, same};
use core::hint::spin_loop;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::{FPAGE_READ, FPAGE_RWX};
use keel_l4::abi::ids::ID_CHECK;
use keel_l4::abi::memory::*;
use keel_l4::abi::trace::CHECK_ALL;
use keel_l4::abi::{ExRegs, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, notify, receive, send, send_and_wait, sleep, wait, Message, Received, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::mapping::unmap;
use keel_l4::pager::{Fault as PageFault, Pager};
use keel_l4::protocol::status::{ERROR_CANCELLED, ERROR_NO_PARTNER};
use keel_l4::{kernel_object, thread, utcb, Error, Fpage, Id, Side, Tag};

/// The tests for a single processor: there is no other one.
pub const ALONE: &[Case] = &[("only-one", only_one)];

pub const CASES: &[Case] = &[
    ("number-out-of-range", out_of_range),
    ("moves-itself", moves_itself),
    ("moves-one-that-waits", moves_waiting),
    ("moves-one-that-runs", moves_running),
    ("two-run-at-once", at_once),
    ("higher-priority-preempts-there", preempts_there),
    ("priority-changed-from-here", priority_from_here),
    ("many-calls", calls),
    ("long-messages", long_messages),
    ("strings", strings_across),
    ("string-fault-there", string_fault),
    ("string-cancelled-while-it-runs-there", string_cancelled),
    ("string-partner-deleted-while-it-runs-there", string_deleted),
    ("senders-queue", senders_queue),
    ("notify", notify_across),
    ("timeout-there", timeout_there),
    ("timeout-moves-along", timeout_moves),
    ("timer-of-a-thread-there", timer_there),
    ("cancel-there", cancel_there),
    ("registers-of-one-that-runs", registers_of_running),
    ("map-from-there", map_from_there),
    ("unmapped-while-in-use", unmapped_while_used),
    ("write-taken-while-in-use", write_taken_while_used),
    ("faults-answered-on-each-while-unmapped", answered_everywhere),
    ("delete-running", delete_running),
    ("delete-the-partner", delete_partner),
    ("delete-a-running-task", delete_task),
    ("alien-calls", alien_calls),
    ("trigger-while-running", trigger_running),
    ("fpu-follows", fpu_follows),
    ("fpu-read-while-running", fpu_while_running),
    ("exception-there", exception_there),
    ("slice-donated-by-one-that-moves", super::preempters::slice_of_moved),
    ("storm", storm),
];

/// A processor that is not the boot processor and exists in all these cases.
const OTHER: u64 = 1;
/// The longest wait of a case for an event on another processor, in ns.
const PATIENCE: u64 = 5_000_000_000;
/// A time in ns that is long for a processor and short for a case.
const A_WHILE: u64 = 2_000_000;

/// The number of this processor, from the limit of the descriptor for this purpose.
fn here() -> u64 {
    const SELECTOR: u64 = 15 << 3 | 3;
    let number: u64;
    // SAFETY: reads the limit of a descriptor.
    unsafe { core::arch::asm!("lsl {}, {}", out(reg) number, in(reg) SELECTOR, options(nomem, nostack)) };
    number
}

/// A helper, stopped, on that processor.
fn made_at(processor: u64, main: crate::threads::Main, argument: u64) -> Result<Id, Failure> {
    let id = Spawn::new(main, argument).create()?;
    thread::set_priority(id, base_priority())?;
    thread::set_processor(id, processor)?;
    Ok(id)
}

/// A helper that runs there.
fn helper_at(processor: u64, main: crate::threads::Main, argument: u64) -> Result<Id, Failure> {
    thread::act(made_at(processor, main, argument)?, EX_START)
}

/// Waits, without a call, until a word fulfils a condition.
fn until(what: &str, word: &AtomicU64, mut condition: impl FnMut(u64) -> bool) -> Outcome {
    let end = now() + PATIENCE;
    while !condition(word.load(SeqCst)) {
        if now() > end {
            return Err(Fault::new(format_args!("{what}: expected it soon, got {:x} for long", word.load(SeqCst))));
        }
        spin_loop();
    }
    Ok(())
}

/// Fails unless a word in which a thread counts keeps changing, or stays the same.
fn goes_on(what: &str, word: &AtomicU64) -> Outcome {
    let before = word.load(SeqCst);
    until(what, word, |now| now > before)
}

fn stands_still(word: &AtomicU64) -> bool {
    let before = word.load(SeqCst);
    let end = now() + A_WHILE;
    while now() < end {
        spin_loop();
    }
    word.load(SeqCst) == before
}

extern "C" fn count(number: u64) -> ! {
    loop {
        cell(number as usize).fetch_add(1, SeqCst);
    }
}

/// Stores in cell 1 the number of its processor, plus one.
extern "C" fn where_am_i(_: u64) -> ! {
    cell(1).store(here() + 1, SeqCst);
    park()
}

/// Answers every message.
fn answer_all(mut answer: impl FnMut(&Received) -> Message) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(received) => send_and_wait(received.from, answer(&received), Timeout::Zero, Timeout::Never),
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// Answers each message with its words and one more bit.
extern "C" fn echo(_: u64) -> ! {
    answer_all(|received| Message::new(received.tag.label(), &[received.words[0] + 1, here()]))
}

fn only_one() -> Outcome {
    same!("processors", kip().processors, 1);
    refused!("the second", thread::set_processor(utcb::my_id(), OTHER), Call Invalid);
    Ok(())
}

fn out_of_range() -> Outcome {
    for number in [kip().processors, 16, 255, 256, u64::MAX] {
        refused!("a number", thread::set_processor(utcb::my_id(), number), Call Invalid);
    }
    same!("where it was", thread::schedule(utcb::my_id(), 0, 0, 0)?.processor, 0);
    Ok(())
}

fn moves_itself() -> Outcome {
    for number in (0..kip().processors).rev() {
        thread::set_processor(utcb::my_id(), number)?;
        same!("by the descriptor", here(), number);
        same!("by the kernel", thread::schedule(utcb::my_id(), 0, 0, 0)?.processor, number);
    }
    Ok(())
}

fn moves_waiting() -> Outcome {
    extern "C" fn tell_when_told(_: u64) -> ! {
        let _ = wait(Timeout::Never);
        where_am_i(0)
    }
    let id = helper(tell_when_told, 0)?;
    pause(A_WHILE);
    thread::set_processor(id, OTHER)?;
    send(id, Message::label(0), Timeout::Never)?;
    until("its place", cell(1), |place| place == OTHER + 1)
}

fn moves_running() -> Outcome {
    extern "C" fn tell_for_ever(_: u64) -> ! {
        loop {
            cell(1).store(here() + 1, SeqCst);
        }
    }
    let id = helper_at(OTHER, tell_for_ever, 0)?;
    let last = kip().processors - 1;
    for place in [OTHER, last, OTHER, last] {
        thread::set_processor(id, place)?;
        until("its place", cell(1), |at| at == place + 1)?;
    }
    thread::set_processor(id, 0)?;
    until("beside the worker", cell(1), |at| at == 1)
}

fn at_once() -> Outcome {
    for number in 1..kip().processors {
        helper_at(number, count, number)?;
    }
    for number in 1..kip().processors {
        goes_on("a count, while this thread never gives up its processor", cell(number as usize))?;
    }
    Ok(())
}

fn preempts_there() -> Outcome {
    helper_at(OTHER, count, 2)?;
    until("the spinner", cell(2), |count| count > 0)?;
    let high = made_at(OTHER, where_am_i, 0)?;
    thread::set_priority(high, base_priority() + 1)?;
    thread::act(high, EX_START)?;
    until("the other", cell(1), |place| place == OTHER + 1)
}

fn priority_from_here() -> Outcome {
    let (one, two) = (helper_at(OTHER, count, 1)?, helper_at(OTHER, count, 2)?);
    thread::set_priority(one, base_priority() - 1)?;
    thread::set_priority(two, base_priority() - 2)?;
    goes_on("the more important one", cell(1))?;
    holds!("the other one standing still", stands_still(cell(2)));
    thread::set_priority(one, base_priority() - 3)?;
    goes_on("now the other one", cell(2))?;
    holds!("the first one standing still", stands_still(cell(1)));
    Ok(())
}

fn calls() -> Outcome {
    // Each takes as long as the host takes to run the other processor.
    const CALLS: u64 = 200;
    let server = helper_at(OTHER, echo, 0)?;
    for number in 0..CALLS {
        let answer = call(server, Message::new(7, &[number]))?;
        same!("label, words", (answer.tag.label(), answer.words[0], answer.words[1]), (7, number + 1, OTHER));
    }
    Ok(())
}

fn long_messages() -> Outcome {
    extern "C" fn sum(_: u64) -> ! {
        answer_all(|received| {
            let long = (6..received.tag.words() as usize).map(utcb::word);
            Message::new(0, &[received.words.into_iter().chain(long).sum()])
        })
    }
    let server = helper_at(OTHER, sum, 0)?;
    for length in [7, 20, MAX_WORDS] {
        for number in 6..length as usize {
            utcb::set_word(number, number as u64);
        }
        let message = Message { tag: Tag::new(0, length), words: [0, 1, 2, 3, 4, 5] };
        same!("the sum of what was sent", call(server, message)?.words[0], (0..length).sum::<u64>());
    }
    Ok(())
}

fn senders_queue() -> Outcome {
    extern "C" fn sender(number: u64) -> ! {
        let to = Id(cell(31).load(SeqCst));
        let _ = send(to, Message::new(1, &[1 << number]), Timeout::Never);
        park()
    }
    cell(31).store(utcb::my_id().0, SeqCst);
    let mut expected = 0;
    for number in 0..8 {
        helper_at(number % kip().processors, sender, number)?;
        expected |= 1 << number;
    }
    let mut got = 0;
    for _ in 0..8 {
        got |= wait(Timeout::After(PATIENCE))?.words[0];
    }
    same!("every thread's bit", got, expected);
    Ok(())
}

fn notify_across() -> Outcome {
    extern "C" fn collect(_: u64) -> ! {
        loop {
            if let Ok(received) = wait(Timeout::Never) {
                cell(1).fetch_or(received.words[0], SeqCst);
            }
        }
    }
    let id = helper_at(OTHER, collect, 0)?;
    for bit in 0..64 {
        notify(id, 1 << bit)?;
    }
    until("all bits", cell(1), |bits| bits == u64::MAX)
}

fn timeout_there() -> Outcome {
    extern "C" fn nap(length: u64) -> ! {
        let before = now();
        sleep(length);
        cell(1).store(now() - before, SeqCst);
        park()
    }
    helper_at(OTHER, nap, A_WHILE)?;
    until("the end of its sleep", cell(1), |time| time >= A_WHILE)
}

fn timeout_moves() -> Outcome {
    extern "C" fn nap(end: u64) -> ! {
        let _ = receive(Id::NIL, Timeout::At(end));
        cell(1).store(now(), SeqCst);
        park()
    }
    let end = now() + 10 * A_WHILE;
    let id = helper_at(OTHER, nap, end)?;
    // It is moved as often as possible from its first moment to its last.
    let last = kip().processors - 1;
    let mut places = [0, last].into_iter().cycle();
    until("the end of its sleep", cell(1), |woken| {
        woken != 0 || places.next().is_some_and(|place| thread::set_processor(id, place).is_err())
    })?;
    holds!("not before its time", cell(1).load(SeqCst) >= end);
    Ok(())
}

fn timer_there() -> Outcome {
    extern "C" fn own_timer(_: u64) -> ! {
        if let Ok(timer) = kernel_object::claim_timer() {
            for round in 1..=3 {
                let _ = kernel_object::set_timer(timer, now() + A_WHILE);
                let _ = receive(timer, Timeout::Never);
                cell(1).store(round, SeqCst);
            }
        }
        park()
    }
    helper_at(OTHER, own_timer, 0)?;
    until("three rounds", cell(1), |rounds| rounds == 3)
}

fn cancel_there() -> Outcome {
    extern "C" fn waiter(_: u64) -> ! {
        cell(2).store(1, SeqCst);
        let error = wait(Timeout::Never).err().map_or(0, |failure| failure.error as u64);
        cell(1).store(error, SeqCst);
        park()
    }
    let id = helper_at(OTHER, waiter, 0)?;
    until("its start", cell(2), |started| started == 1)?;
    while thread::schedule(id, 0, 0, 0)?.state != STATE_RECEIVING {
        spin_loop();
    }
    thread::act(id, EX_CANCEL)?;
    until("its error", cell(1), |error| error == ERROR_CANCELLED)
}

fn registers_of_running() -> Outcome {
    let id = helper_at(OTHER, count, 2)?;
    until("the spinner", cell(2), |count| count > 0)?;
    let mut record = ExRegs::zeroed();
    (record.ip, record.sp, record.argument) = (where_am_i as *const () as u64, crate::pool::stack(), 0);
    thread::exchange(id, EX_IP | EX_SP | EX_ARGUMENT, &mut record)?;
    holds!("the old place in the image", crate::threads::in_image(record.ip));
    until("the new place", cell(1), |place| place == OTHER + 1)
}

fn map_from_there() -> Outcome {
    extern "C" fn giver(address: u64) -> ! {
        let item = MapItem { send_base: 0, fpage: Fpage::memory(address, 12, FPAGE_RWX).0 };
        let _ = send(Id(cell(31).load(SeqCst)), Message::label(0).with_maps(&[item]), Timeout::Never);
        park()
    }
    cell(31).store(utcb::my_id().0, SeqCst);
    let from = page();
    // SAFETY: the page belongs to the case.
    unsafe { crate::pool::poke(from, 77) };
    let id = made_at(OTHER, giver, from)?;
    thread::act(id, EX_START)?;
    utcb::set_receive_window(slot(0));
    let got = receive(id, Timeout::After(PATIENCE));
    utcb::set_receive_window(Fpage::NIL);
    got?;
    same!("what came", peek(WINDOW), 77);
    Ok(())
}

/// An alien thread on the other processor that counts in the first word of the page at `WINDOW` of
/// its space, the suite's `page`.
fn counter_there(page: u64) -> Result<Alien, Fault> {
    let alien = Alien::new(code_spin, |frame| frame.di = WINDOW)?;
    thread::set_processor(alien.id, OTHER)?;
    let mut fault = alien.start()?;
    let item = MapItem { send_base: WINDOW, fpage: Fpage::memory(page, 12, FPAGE_RWX).0 };
    while fault.tag.kind() == KIND_PAGE_FAULT && fault.words[0] != WINDOW {
        fault = alien.serve(fault)?;
    }
    same!("the fault", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, WINDOW));
    send(alien.id, Message::label(0).with_maps(&[item]), Timeout::Zero)?;
    Ok(alien)
}

/// The word that it counts in.
fn counted(page: u64) -> &'static AtomicU64 {
    // SAFETY: a page of the suite that always exists and is used only as this word.
    unsafe { &*(page as *const AtomicU64) }
}

fn unmapped_while_used() -> Outcome {
    let page = page();
    let alien = counter_there(page)?;
    for _ in 0..20 {
        goes_on("its count", counted(page))?;
        unmap(Fpage::memory(page, 12, 0), UNMAP_RIGHTS)?;
        let last = peek(page);
        let fault = receive(alien.id, Timeout::After(PATIENCE))?;
        same!("it faults", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, WINDOW));
        same!("not one more count", peek(page), last);
        let item = MapItem { send_base: WINDOW, fpage: Fpage::memory(page, 12, FPAGE_RWX).0 };
        send(alien.id, Message::label(0).with_maps(&[item]), Timeout::Zero)?;
    }
    Ok(())
}

fn write_taken_while_used() -> Outcome {
    let page = page();
    let alien = counter_there(page)?;
    goes_on("its count", counted(page))?;
    let state = unmap(Fpage::memory(page, 12, 0), keel_l4::abi::fpage::FPAGE_WRITE)?;
    let last = peek(page);
    same!("dirty was found", state & UNMAP_DIRTY, UNMAP_DIRTY);
    let fault = receive(alien.id, Timeout::After(PATIENCE))?;
    same!("it may not write", (fault.words[0], fault.words[3]), (WINDOW, 1));
    same!("not one more count", peek(page), last);
    Ok(())
}

/// Pages that all tasks get from the same pagers' memory, and log2 of their size.
const ANSWERED: u64 = 16;
const ANSWERED_LOG2: u8 = 16;
/// Cell: their address.
const ANSWERED_FROM: usize = 20;
/// Cell: how often a reader found something else there.
const READ_WRONG: usize = 21;
/// First of the cells: how many faults a pager has answered.
const ANSWERS: usize = 22;
/// Most processors with a pager and a reader.
const ANSWERERS: u64 = 4;

/// A pager of the one reader on its processor.
struct Answerer(u64);

impl Pager for Answerer {
    fn page(&mut self, fault: &PageFault) -> Option<Message> {
        if in_image(fault.address) {
            peek(fault.page());
            return Some(fault.map(fault.page(), FPAGE_RWX));
        }
        cell(ANSWERS + self.0 as usize).fetch_add(1, SeqCst);
        Some(fault.map(cell(ANSWERED_FROM).load(SeqCst) + (fault.page() - WINDOW), FPAGE_READ))
    }
}

extern "C" fn answerer(number: u64) -> ! {
    keel_l4::pager::run(&mut Answerer(number))
}

/// Reads all pages again and again; its argument says whether it gives them back each time.
extern "C" fn answered_reader(gives_back: u64) -> ! {
    // A table is not given back while it has this page.
    peek(WINDOW + ANSWERED * PAGE);
    loop {
        let wrong = (0..ANSWERED).filter(|n| peek(WINDOW + n * PAGE) != n + 1).count();
        cell(READ_WRONG).fetch_add(wrong as u64, SeqCst);
        if gives_back != 0 {
            let _ = unmap(Fpage::memory(WINDOW, ANSWERED_LOG2, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH);
        }
    }
}

/// On each processor a pager answers faults with the same pages, which are unmapped meanwhile: the
/// answers of several processors change the same mappings. None of them is lost.
fn answered_everywhere() -> Outcome {
    const ROUNDS: u64 = 16;
    let pairs = kip().processors.min(ANSWERERS);
    let from = pages(2 * ANSWERED);
    super::window::fill(from, ANSWERED, 1);
    cell(ANSWERED_FROM).store(from, SeqCst);
    let mut pagers = [Id::NIL; ANSWERERS as usize];
    for number in 0..pairs {
        let pager = Spawn::new(answerer, number).create()?;
        pagers[number as usize] = pager;
        thread::set_processor(pager, number)?;
        thread::act(pager, EX_START)?;
        let plan = child_plan(answered_reader, number % 2);
        let reader = make_child(&keel_l4::task::NewTask { pager: pager.0, ..plan })?.thread;
        thread::set_priority(reader, base_priority() - 1)?;
        thread::set_processor(reader, number)?;
    }
    let answers = || (0..pairs as usize).map(|number| cell(ANSWERS + number).load(SeqCst));
    let end = now() + PATIENCE;
    let mut round = 0;
    while round < ROUNDS || answers().any(|count| count < ROUNDS * ANSWERED / 2) {
        holds!("faults are answered on each processor", now() < end);
        unmap(Fpage::memory(from, ANSWERED_LOG2, FPAGE_RWX), UNMAP_RIGHTS)?;
        // The reader on this processor runs meanwhile.
        sleep(500_000);
        round += 1;
    }
    // Without pagers nobody gets a page again: who read one now would have it without the kernel's
    // knowledge.
    pagers.iter().filter(|pager| **pager != Id::NIL).try_for_each(|pager| remove(*pager))?;
    unmap(Fpage::memory(from, ANSWERED_LOG2, FPAGE_RWX), UNMAP_RIGHTS)?;
    super::window::fill(from, ANSWERED, ANSWERED);
    pause(A_WHILE);
    same!("wrong words", cell(READ_WRONG).load(SeqCst), 0);
    if let Ok(answer) = kernel_object::invoke(Id(ID_CHECK), CHECK_ALL, &[]) {
        same!("what the check of the kernel finds", answer.words[0], 0);
    }
    Ok(())
}

fn delete_running() -> Outcome {
    for _ in 0..20 {
        let before = cell(2).load(SeqCst);
        let id = helper_at(OTHER, count, 2)?;
        until("the spinner", cell(2), |count| count > before)?;
        remove(id)?;
        holds!("its count standing still", stands_still(cell(2)));
        refused!("a message to it", send(id, Message::label(0), Timeout::Zero), Send NoPartner);
        crate::pool::reset_stacks();
    }
    Ok(())
}

fn delete_partner() -> Outcome {
    extern "C" fn caller(to: u64) -> ! {
        let error = call(Id(to), Message::label(0)).err().map_or(0, |failure| failure.error as u64);
        cell(1).store(error, SeqCst);
        park()
    }
    extern "C" fn swallow(_: u64) -> ! {
        let _ = wait(Timeout::Never);
        cell(2).store(1, SeqCst);
        count(3)
    }
    let server = helper_at(kip().processors - 1, swallow, 0)?;
    helper_at(OTHER, caller, server.0)?;
    until("the message", cell(2), |taken| taken == 1)?;
    remove(server)?;
    until("the caller's error", cell(1), |error| error == ERROR_NO_PARTNER)
}

fn delete_task() -> Outcome {
    let used = kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize];
    for _ in 0..10 {
        let before = cell(2).load(SeqCst);
        let made = child(count, 2)?;
        thread::set_processor(made.thread, OTHER)?;
        until("the child", cell(2), |count| count > before)?;
        remove_task(made.number)?;
        holds!("its count standing still", stands_still(cell(2)));
        crate::pool::reset_stacks();
    }
    same!("memory in use", kernel_object::account(Id::NIL)?[ACCOUNT_USED as usize], used);
    Ok(())
}

fn alien_calls() -> Outcome {
    let alien = Alien::new(code_syscall, |frame| frame.ax = 5)?;
    thread::set_processor(alien.id, OTHER)?;
    let mut got = alien.start()?;
    for number in 0..500 {
        same!("a call", (got.tag.kind(), got.words[0]), (KIND_SYSCALL, 5 + number));
        alien.edit(|frame| frame.ax = 6 + number);
        got = alien.resume()?;
    }
    Ok(())
}

fn trigger_running() -> Outcome {
    let page = page();
    let alien = counter_there(page)?;
    for _ in 0..20 {
        goes_on("its count", counted(page))?;
        alien.act(EX_TRIGGER)?;
        let got = receive(alien.id, Timeout::After(PATIENCE))?;
        same!("the trigger", got.tag.kind(), KIND_TRIGGER);
        same!("its frame is whole", alien.regs().di, WINDOW);
        alien.release()?;
    }
    Ok(())
}

fn fpu_follows() -> Outcome {
    let (one, two) = (Alien::new(code_fpu, |f| f.di = 0x1111)?, Alien::new(code_fpu, |f| f.di = 0x2222)?);
    for alien in [one, two] {
        alien.start()?;
    }
    for round in 0..2 * kip().processors {
        for (number, alien) in [one, two].iter().enumerate() {
            thread::set_processor(alien.id, (round + number as u64) % kip().processors)?;
            alien.resume()?;
        }
        same!("each its own", (one.regs().ax, two.regs().ax), (0x1111, 0x2222));
    }
    Ok(())
}

fn fpu_while_running() -> Outcome {
    extern "C" fn hold(_: u64) -> ! {
        // SAFETY: the register is this thread's.
        unsafe {
            core::arch::asm!("movq xmm0, {value}", "2: lock inc qword ptr [{cell}]", "jmp 2b",
                value = in(reg) 0x3333u64, cell = in(reg) cell(2).as_ptr(), options(noreturn))
        }
    }
    const XMM0: u64 = 160;
    let id = helper_at(OTHER, hold, 0)?;
    until("the spinner", cell(2), |count| count > 0)?;
    let buffer = pages(kip().fpu_size.div_ceil(PAGE));
    let mut record = ExRegs::zeroed();
    (record.fpu, record.fpu_size) = (buffer, kip().fpu_size);
    thread::exchange(id, EX_FPU_GET, &mut record)?;
    same!("xmm0", peek(buffer + XMM0), 0x3333);
    goes_on("its count", cell(2))
}

fn exception_there() -> Outcome {
    extern "C" fn crash(_: u64) -> ! {
        // SAFETY: an undefined instruction, which the case expects.
        unsafe { core::arch::asm!("ud2", options(noreturn)) }
    }
    let me = utcb::my_id();
    let id = Spawn { handler: me, ..Spawn::new(crash, 0) }.create()?;
    thread::set_processor(id, OTHER)?;
    thread::act(id, EX_START)?;
    let got = receive(id, Timeout::After(PATIENCE))?;
    same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, 6));
    Ok(())
}

/// A sender and a receiver that are not started yet, each on its processor.
fn posts(sender_at: u64, receiver_at: u64) -> Result<(Post, Post), Failure> {
    let me = utcb::my_id();
    let (sender, receiver) = (Post::paged_by(me, 0)?, Post::paged_by(me, 1)?);
    thread::set_processor(sender.id, sender_at)?;
    thread::set_processor(receiver.id, receiver_at)?;
    Ok((sender, receiver))
}

fn strings_across() -> Outcome {
    let (from, to) = (pages(8), pages(8));
    fill(from, 8 * PAGE);
    for way in 0..4 {
        let (sender, receiver) = if way & 1 == 0 { posts(0, OTHER)? } else { posts(OTHER, 0)? };
        let size = 7 * PAGE - way;
        let sends = Job::send(receiver.id, &[item(from + way, size)]);
        let receives = Job::receive(sender.id, &[item(to, size)]);
        if way & 2 == 0 {
            receiver.start_and_wait(receives)?;
            sender.start(sends)?;
        } else {
            sender.start_and_wait(sends)?;
            receiver.start(receives)?;
        }
        same!("both statuses", (sender.end()?.status, receiver.end()?.status), (Ok(()), Ok(())));
        arrived(from + way, to, size)?;
        remove(sender.id)?;
        remove(receiver.id)?;
        crate::pool::reset_stacks();
        // SAFETY: the pages belong to the case.
        unsafe { core::ptr::write_bytes(to as *mut u8, 0, 8 * PAGE as usize) };
    }
    Ok(())
}

fn string_fault() -> Outcome {
    let (from, to) = (page(), page());
    fill(from, PAGE);
    let (sender, receiver) = posts(0, OTHER)?;
    receiver.start_and_wait(Job::receive(sender.id, &[item(WINDOW, PAGE - 8)]))?;
    sender.start(Job::send(receiver.id, &[item(from, PAGE - 8)]))?;
    let fault = receive(receiver.id, Timeout::After(PATIENCE))?;
    same!("kind, address", (fault.tag.kind(), fault.words[0]), (KIND_PAGE_FAULT, WINDOW));
    let page = MapItem { send_base: WINDOW, fpage: Fpage::memory(to, 12, FPAGE_RWX).0 };
    send(receiver.id, Message::label(0).with_maps(&[page]), Timeout::Zero)?;
    same!("both statuses", (sender.end()?.status, receiver.end()?.status), (Ok(()), Ok(())));
    arrived(from, to, PAGE - 8)
}

/// Starts a long string on the other processor, acts on one of its partners from here while it is
/// half finished, and returns the other's result.
fn strike_there(stroke: u64, strikes_sender: bool) -> Outcome {
    let (from, to) = (large_area(0)?, large_area(1)?);
    // SAFETY: memory that belongs to the case.
    let set = |at: u64, value: u64| unsafe { poke(at, value) };
    set(from, 1);
    set(from + MAX_STRING_BYTES - 8, 1);
    let string = |at: u64| item(at, MAX_STRING_BYTES);
    loop {
        set(to, 0);
        set(to + MAX_STRING_BYTES - 8, 0);
        let (sender, receiver) = posts(OTHER, OTHER)?;
        receiver.start_and_wait(Job::receive(sender.id, &[string(to)]))?;
        sender.start(Job::send(receiver.id, &[string(from)]))?;
        while peek(to) == 0 {
            spin_loop();
        }
        let (victim, other) = if strikes_sender { (sender, receiver) } else { (receiver, sender) };
        let struck = thread::act(victim.id, stroke);
        let half_done = peek(to + MAX_STRING_BYTES - 8) == 0;
        let status = other.end()?.status;
        // The victim may no longer exist.
        let _ = remove(victim.id);
        remove(other.id)?;
        crate::pool::reset_stacks();
        if half_done {
            struck?;
            let side = if strikes_sender { Side::Receive } else { Side::Send };
            same!("the other's status", status, failed(side, Error::Aborted));
            return Ok(());
        }
    }
}

fn string_cancelled() -> Outcome {
    strike_there(EX_CANCEL, true)?;
    strike_there(EX_CANCEL, false)
}

fn string_deleted() -> Outcome {
    strike_there(EX_DELETE, true)?;
    strike_there(EX_DELETE, false)
}

/// Rounds of each thread of the storm.
const ROUNDS: u64 = 500;

/// Calls, moves, sleeps and yields in a random order; then adds one to cell 1.
extern "C" fn stormer(argument: u64) -> ! {
    let (server, mut random) = (Id(cell(31).load(SeqCst)), crate::pool::seed(argument + 1));
    for round in 0..ROUNDS {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let done = match random >> 60 {
            0 => thread::set_processor(utcb::my_id(), (random >> 40) % kip().processors),
            1 => thread::switch(Id::NIL),
            2 => notify(utcb::my_id(), 1).and_then(|()| wait(Timeout::Never).map(|_| ())),
            3 => {
                sleep(1000);
                Ok(())
            }
            _ => call(server, Message::new(0, &[round])).map(|answer| {
                if answer.words[0] != round + 1 {
                    cell(2).fetch_add(1, SeqCst);
                }
            }),
        };
        if done.is_err() {
            cell(2).fetch_add(1, SeqCst);
        }
    }
    cell(1).fetch_add(1, SeqCst);
    park()
}

fn storm() -> Outcome {
    const THREADS: u64 = 12;
    let server = helper_at(OTHER, echo, 0)?;
    cell(31).store(server.0, SeqCst);
    for number in 0..THREADS {
        helper_at(number % kip().processors, stormer, number)?;
    }
    let end = now() + 2 * PATIENCE;
    while cell(1).load(SeqCst) < THREADS && now() < end {
        sleep(A_WHILE);
    }
    same!("threads that ended, errors", (cell(1).load(SeqCst), cell(2).load(SeqCst)), (THREADS, 0));
    Ok(())
}
