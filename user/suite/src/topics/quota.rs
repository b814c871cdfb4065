// SPDX-License-Identifier: BSD-2-Clause
//! Kernel memory is accounted: quotas, the errors when one is used up, and that other tasks are not
//! affected.

use crate::alien::{code_syscall, Alien};
use crate::case::{Case, Outcome};
use crate::pool::{cell, page, PAGE};
use crate::threads::*;
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::abi::memory::{AREA_FRAME_PAGES, EX_ALIEN, EX_CREATE, EX_FRAME, FRAMES_PER_PAGE};
use keel_l4::abi::{ExRegs, MapItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, Message, Timeout};
use keel_l4::kernel_object::{account, buy_frames, enlarge, sell_frames, shrink};
use keel_l4::protocol::status::{ERROR_NO_MEMORY, SIDE_RECEIVE};
use keel_l4::task::{create_empty, NewTask};
use keel_l4::{thread, utcb, Error, Fpage, Id};

pub const CASES: &[Case] = &[
    ("own-account", own_account),
    ("child's-account", childs_account),
    ("shared-account", shared_account),
    ("another-clan's-account-denied", denied),
    ("account-of-no-task", no_task),
    ("tasks-and-lthreads-are-counted", counted),
    ("tables-and-nodes-are-counted", tables_counted),
    ("frames-are-counted", frames_counted),
    ("quota-moves-to-the-child-and-back", moves),
    ("more-than-one-has", more_than_one_has),
    ("map-beyond-the-quota", map_beyond),
    ("both-partners-of-an-ipc-are-told", both_told),
    ("after-dropping-mappings-it-works-again", drop_and_retry),
    ("threads-beyond-the-quota", threads_beyond),
    ("frames-beyond-the-quota", frames_beyond),
    ("others-do-not-feel-it", others),
    ("frames-out-of-the-window", frames_out),
    ("enlarge-and-shrink", enlarge_and_shrink),
    ("enlarging-makes-room", enlarging_helps),
    ("shrinking-below-what-is-used", shrink_used),
    ("enlarging-beyond-what-one-has", enlarge_beyond),
    ("enlarging-another-chief's-task", enlarge_others),
    ("an-account-that-is-shared-does-not-grow", enlarge_shared),
    ("what-was-moved-returns-on-deletion", moved_returns),
    ("frames-sold", frames_sold),
    ("frames-sold-while-bound", frames_sold_bound),
    ("frames-sold-that-were-not-bought", frames_sold_again),
    ("operation-without-an-answer", no_answer),
];

extern "C" fn idle(_: u64) -> ! {
    park()
}

fn word(task: Id, word: u64) -> Result<u64, Failure> {
    account(task).map(|words| words[word as usize])
}

fn own_account() -> Outcome {
    let words = account(Id::NIL)?;
    holds!("used below the limit", words[ACCOUNT_USED as usize] <= words[ACCOUNT_LIMIT as usize]);
    holds!("something used", words[ACCOUNT_USED as usize] > 0);
    holds!("pages in the kernel's pool", words[ACCOUNT_POOL_FREE as usize] > 0);
    same!("the same by the own id", account(thread::task_of(own(RUNNER)))?, words);
    Ok(())
}

fn childs_account() -> Outcome {
    let child = child(idle, 0)?;
    pause(5_000_000);
    let words = account(child.task)?;
    same!("limit", words[ACCOUNT_LIMIT as usize], QUOTA);
    same!("tasks, lthreads", (words[ACCOUNT_TASKS as usize], words[ACCOUNT_LTHREADS as usize]), (1, 1));
    Ok(())
}

fn shared_account() -> Outcome {
    let task = create_empty(&NewTask { number: crate::pool::task_number(), ..NewTask::default() })?;
    same!("the creator's limit", word(task, ACCOUNT_LIMIT)?, word(Id::NIL, ACCOUNT_LIMIT)?);
    Ok(())
}

fn denied() -> Outcome {
    for id in [Id::ROOT, Id::SIGMA0, thread::task_of(Id::ROOT)] {
        refused!("reading", account(id), Call Denied);
    }
    Ok(())
}

fn no_task() -> Outcome {
    for id in [Id::INVALID, Id::thread(3, 0xfff0, 0xffff, 2), Id(5)] {
        refused!("reading", account(id), Call NoPartner);
    }
    Ok(())
}

fn counted() -> Outcome {
    let before = account(Id::NIL)?;
    create_empty(&NewTask { number: crate::pool::task_number(), ..NewTask::default() })?;
    Spawn::new(idle, 0).create()?;
    let after = account(Id::NIL)?;
    same!("tasks", after[ACCOUNT_TASKS as usize], before[ACCOUNT_TASKS as usize] + 1);
    same!("lthreads", after[ACCOUNT_LTHREADS as usize], before[ACCOUNT_LTHREADS as usize] + 1);
    Ok(())
}

/// An alien thread that has faulted once.
fn faulted() -> Result<Alien, Failure> {
    let alien = Alien::new(code_syscall, |_| ())?;
    alien.start_raw()?;
    Ok(alien)
}

/// Maps the page `from` to `address` of the task of `alien`, which faults again.
fn map_to(alien: &Alien, from: u64, address: u64) -> Result<(), Failure> {
    let item = MapItem { send_base: address, fpage: Fpage::memory(from, 12, FPAGE_RWX).0 };
    call(alien.id, Message::label(0).with_maps(&[item])).map(|_| ())
}

fn tables_counted() -> Outcome {
    let alien = faulted()?;
    let before = account(alien.task)?;
    map_to(&alien, page(), 0x5000_0000)?;
    let after = account(alien.task)?;
    // The first page below an empty top table takes three tables.
    same!("tables", after[ACCOUNT_TABLES as usize], before[ACCOUNT_TABLES as usize] + 3);
    same!("nodes", after[ACCOUNT_NODES as usize], before[ACCOUNT_NODES as usize] + 1);
    Ok(())
}

fn frames_counted() -> Outcome {
    let before = word(Id::NIL, ACCOUNT_FRAMES)?;
    buy_frames(crate::pool::FRAME_PAGES, 0)?;
    same!("buying none", word(Id::NIL, ACCOUNT_FRAMES)?, before);
    Spawn::new(idle, 0).create()?;
    same!("a UTCB counts as one", word(Id::NIL, ACCOUNT_FRAMES)?, before + 1);
    Ok(())
}

fn moves() -> Outcome {
    let before = word(Id::NIL, ACCOUNT_LIMIT)?;
    let child = child(idle, 0)?;
    let during = word(Id::NIL, ACCOUNT_LIMIT)?;
    holds!("less while the child has its part", during < before || word(Id::NIL, ACCOUNT_USED)? >= QUOTA);
    remove_task(child.number)?;
    same!("limit afterwards", word(Id::NIL, ACCOUNT_LIMIT)?, before);
    Ok(())
}

fn more_than_one_has() -> Outcome {
    for quota in [1 << 30, 1 << 40, u64::MAX] {
        let number = crate::pool::task_number();
        refused!("creating", create_empty(&NewTask { number, quota, ..NewTask::default() }), Call NoMemory);
    }
    for quota in [1, 2] {
        let plan = NewTask { quota, ..child_plan(idle, 0) };
        refused!("too little to live", make_child(&plan), Call NoMemory);
    }
    Ok(())
}

/// Maps one page per 2 MB until the kernel refuses; returns the number.
fn fill(alien: &Alien, from: u64) -> Result<u64, crate::case::Fault> {
    for n in 0..1000 {
        match map_to(alien, from, 0x4000_0000 + (n << 21)) {
            Ok(()) => (),
            Err(failure) => {
                same!("error", failure.error, Error::NoMemory);
                return Ok(n);
            }
        }
    }
    Err(crate::case::Fault::new(format_args!("expected an end of the quota, got none")))
}

fn map_beyond() -> Outcome {
    let alien = faulted()?;
    let mapped = fill(&alien, page())?;
    holds!("some pages mapped before", mapped > 10 && mapped < QUOTA);
    same!("the thread waits on", thread::schedule(alien.id, 0, 0, 0)?.state, STATE_FAULTED);
    let words = account(alien.task)?;
    holds!("used within the limit", words[ACCOUNT_USED as usize] <= words[ACCOUNT_LIMIT as usize]);
    Ok(())
}

/// Maps all that the calling child needs: with a full account it gets no more pages.
fn touch_all() {
    touch_image();
    cell(1).store(0, SeqCst);
    crate::errors::touch();
}

/// Accepts pages at new addresses until a receive fails; its error goes to cell 1, the number to
/// cell 2.
extern "C" fn collect(_: u64) -> ! {
    touch_all();
    for n in 0..1000 {
        utcb::set_receive_window(Fpage::memory(0x4000_0000 + (n << 21), 12, FPAGE_RWX));
        match keel_l4::ipc::wait(Timeout::Never) {
            Ok(_) => cell(2).store(n + 1, SeqCst),
            Err(failure) => {
                crate::errors::note_message(failure);
                cell(1).store((failure.side as u64) << 8 | failure.error as u64, SeqCst);
                break;
            }
        }
    }
    park()
}

fn both_told() -> Outcome {
    let child = child(collect, 0)?;
    let item = MapItem { send_base: 0, fpage: Fpage::memory(page(), 12, FPAGE_RWX).0 };
    let mut sent = 0;
    let failure = loop {
        match send(child.thread, Message::label(0).with_maps(&[item]), Timeout::After(1_000_000_000)) {
            Ok(()) => sent += 1,
            Err(failure) => break failure,
        }
        holds!("an end of the quota", sent < 1000);
    };
    same!("the sender's error", failure, Failure { side: keel_l4::Side::Send, error: Error::NoMemory });
    pause(5_000_000);
    let received = (cell(1).load(SeqCst), cell(2).load(SeqCst));
    same!("the receiver's error, messages before", received, (SIDE_RECEIVE << 8 | ERROR_NO_MEMORY, sent));
    Ok(())
}

fn drop_and_retry() -> Outcome {
    let alien = faulted()?;
    let from = page();
    fill(&alien, from)?;
    let all = keel_l4::abi::UnmapRange { address: 0, pages: (1 << 47) / PAGE };
    for _ in 0..3 {
        keel_l4::mapping::unmap_in(alien.task, &[all])?;
        holds!("room again", fill(&alien, from)? > 10);
    }
    keel_l4::mapping::unmap_in(alien.task, &[all])?;
    same!("and the thread can resume", alien.resume()?.tag.kind(), KIND_SYSCALL);
    Ok(())
}

/// Creates lthreads in its own task until the kernel refuses; the error goes to cell 1, the number
/// to cell 2.
extern "C" fn breed(_: u64) -> ! {
    touch_all();
    let mut record = ExRegs::zeroed();
    for _ in 0..1000 {
        let any = thread::lthread(utcb::my_id(), keel_l4::abi::ids::LTHREAD_TASK as u16);
        match thread::exchange(any, EX_CREATE, &mut record) {
            Ok(_) => cell(2).fetch_add(1, SeqCst),
            Err(failure) => {
                cell(1).store(failure.error as u64, SeqCst);
                park()
            }
        };
    }
    park()
}

fn threads_beyond() -> Outcome {
    let child = child(breed, 0)?;
    pause(50_000_000);
    same!("the child's error", cell(1).load(SeqCst), ERROR_NO_MEMORY);
    holds!("some threads before", cell(2).load(SeqCst) > 5);
    same!("lthreads accounted", word(child.task, ACCOUNT_LTHREADS)?, cell(2).load(SeqCst) + 1);
    Ok(())
}

/// Sends its parent the error with which it can buy no more, after a first message.
extern "C" fn hoard(parent: u64) -> ! {
    touch_all();
    let mut error = 0;
    while call(Id(parent), Message::new(0, &[error])).is_ok() {
        error = buy_frames(0, 256).map_or_else(|f| f.error as u64, |()| 0);
    }
    park()
}

/// Starts such a child; returns it, and its error.
fn hoarder() -> Result<(Child, u64), Failure> {
    let child = child(hoard, utcb::my_id().0)?;
    receive(child.thread, Timeout::Never)?;
    let error = call(child.thread, Message::new(0, &[]))?.words[0];
    Ok((child, error))
}

fn frames_beyond() -> Outcome {
    let (child, error) = hoarder()?;
    same!("the child's error", error, ERROR_NO_MEMORY);
    let words = account(child.task)?;
    holds!("used within the limit", words[ACCOUNT_USED as usize] <= words[ACCOUNT_LIMIT as usize]);
    Ok(())
}

fn others() -> Outcome {
    let before = word(Id::NIL, ACCOUNT_USED)?;
    let (greedy, _) = hoarder()?;
    let mine = word(Id::NIL, ACCOUNT_USED)?;
    holds!("our own use, without the child's account", mine <= before + QUOTA + 2);
    let alien = faulted()?;
    same!("another task lives", alien.resume()?.tag.kind(), KIND_SYSCALL);
    remove_task(greedy.number)?;
    Ok(())
}

fn frames_out() -> Outcome {
    refused!("more than 256 at once", buy_frames(0, 257), Call Invalid);
    for (first, count) in [(AREA_FRAME_PAGES, 1), (AREA_FRAME_PAGES - 1, 2), (u64::MAX, 1), (1, u64::MAX)] {
        refused!("buying", buy_frames(first, count), Call Invalid);
    }
    let (task, _) = crate::alien::empty_task()?;
    let mut record = ExRegs::zeroed();
    record.frame = u64::MAX - 1;
    let any = thread::lthread(task, keel_l4::abi::ids::LTHREAD_TASK as u16);
    let made = thread::exchange(any, EX_CREATE | EX_ALIEN | EX_FRAME, &mut record);
    refused!("a frame far out", made, Call Invalid);
    Ok(())
}

fn limits(child: &Child) -> Result<(u64, u64), Failure> {
    Ok((word(Id::NIL, ACCOUNT_LIMIT)?, word(child.task, ACCOUNT_LIMIT)?))
}

fn enlarge_and_shrink() -> Outcome {
    let child = child(idle, 0)?;
    let (mine, its) = limits(&child)?;
    enlarge(child.task, 10)?;
    same!("limits, enlarged", limits(&child)?, (mine - 10, its + 10));
    shrink(child.task, 30)?;
    same!("limits, shrunk", limits(&child)?, (mine + 20, its - 20));
    enlarge(child.task, 0)?;
    shrink(child.task, 0)?;
    same!("limits, moving nothing", limits(&child)?, (mine + 20, its - 20));
    Ok(())
}

fn enlarging_helps() -> Outcome {
    let alien = faulted()?;
    let from = page();
    let before = fill(&alien, from)?;
    enlarge(alien.task, QUOTA)?;
    // A page that is mapped already is mapped again without cost.
    holds!("about twice as many mappings", fill(&alien, from)? > before + QUOTA / 2);
    Ok(())
}

fn shrink_used() -> Outcome {
    let child = child(idle, 0)?;
    pause(5_000_000);
    let words = account(child.task)?;
    let (limit, used) = (words[ACCOUNT_LIMIT as usize], words[ACCOUNT_USED as usize]);
    for pages in [limit, limit - used + 1, u64::MAX] {
        refused!("shrinking", shrink(child.task, pages), Call NoMemory);
    }
    shrink(child.task, limit - used)?;
    same!("nothing free", account(child.task)?[ACCOUNT_LIMIT as usize], used);
    Ok(())
}

fn enlarge_beyond() -> Outcome {
    let child = child(idle, 0)?;
    let before = limits(&child)?;
    for pages in [before.0, 1 << 40, u64::MAX] {
        refused!("enlarging", enlarge(child.task, pages), Call NoMemory);
    }
    same!("limits", limits(&child)?, before);
    Ok(())
}

fn enlarge_others() -> Outcome {
    for id in [Id::ROOT, Id::SIGMA0, thread::task_of(own(RUNNER))] {
        refused!("enlarging", enlarge(id, 1), Call Denied);
        refused!("shrinking", shrink(id, 1), Call Denied);
    }
    for id in [Id::NIL, Id::INVALID, Id(5)] {
        refused!("enlarging no task", enlarge(id, 1), Call NoPartner);
        refused!("shrinking no task", shrink(id, 1), Call NoPartner);
    }
    Ok(())
}

fn enlarge_shared() -> Outcome {
    let task = create_empty(&NewTask { number: crate::pool::task_number(), ..NewTask::default() })?;
    refused!("enlarging", enlarge(task, 1), Call Invalid);
    refused!("shrinking", shrink(task, 1), Call Invalid);
    Ok(())
}

fn moved_returns() -> Outcome {
    let before = word(Id::NIL, ACCOUNT_LIMIT)?;
    let child = child(idle, 0)?;
    enlarge(child.task, 33)?;
    remove_task(child.number)?;
    same!("limit afterwards", word(Id::NIL, ACCOUNT_LIMIT)?, before);
    Ok(())
}

/// A frame page of the suite's window that the suite did not buy at its start.
const SPARE_FRAMES: u64 = crate::pool::FRAME_PAGES;

/// Creates a stopped alien thread in a new task, with frame `index`.
fn bind_frame(index: u64) -> Result<Id, Failure> {
    let (task, _) = crate::alien::empty_task()?;
    let mut record = ExRegs::zeroed();
    record.frame = index;
    let any = thread::lthread(task, keel_l4::abi::ids::LTHREAD_TASK as u16);
    thread::exchange(any, EX_CREATE | EX_ALIEN | EX_FRAME, &mut record)
}

fn frames_sold() -> Outcome {
    let before = account(Id::NIL)?;
    for _ in 0..3 {
        buy_frames(SPARE_FRAMES, 3)?;
        same!("frame pages", word(Id::NIL, ACCOUNT_FRAMES)?, before[ACCOUNT_FRAMES as usize] + 3);
        sell_frames(SPARE_FRAMES, 3)?;
        same!("the account", account(Id::NIL)?, before);
    }
    refused!("a frame that was sold", bind_frame(SPARE_FRAMES * FRAMES_PER_PAGE), Call NoPartner);
    Ok(())
}

fn frames_sold_bound() -> Outcome {
    buy_frames(SPARE_FRAMES, 2)?;
    let id = bind_frame((SPARE_FRAMES + 1) * FRAMES_PER_PAGE + 5)?;
    let during = word(Id::NIL, ACCOUNT_FRAMES)?;
    refused!("selling", sell_frames(SPARE_FRAMES, 2), Call Busy);
    same!("none went", word(Id::NIL, ACCOUNT_FRAMES)?, during);
    sell_frames(SPARE_FRAMES, 1)?;
    remove_task(id.task())?;
    sell_frames(SPARE_FRAMES, 2)?;
    same!("all went", word(Id::NIL, ACCOUNT_FRAMES)?, during - 2);
    Ok(())
}

fn frames_sold_again() -> Outcome {
    let before = account(Id::NIL)?;
    sell_frames(SPARE_FRAMES, 256)?;
    same!("the account", account(Id::NIL)?, before);
    refused!("more than 256 at once", sell_frames(0, 257), Call Invalid);
    for (first, count) in [(AREA_FRAME_PAGES, 1), (AREA_FRAME_PAGES - 1, 2), (u64::MAX, 1), (1, u64::MAX)] {
        refused!("selling", sell_frames(first, count), Call Invalid);
    }
    Ok(())
}

fn no_answer() -> Outcome {
    refused!("an operation without an answer", send(Id::QUOTA, Message::new(99, &[]), Timeout::Zero), Send Invalid);
    Ok(())
}
