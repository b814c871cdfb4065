// SPDX-License-Identifier: BSD-2-Clause
//! lthread_ex_regs: creating, changing and deleting lthreads.

use crate::alien::{address, code_entry, code_syscall, Alien, FLAGS};
use crate::case::{Case, Outcome};
use crate::pool::cell;
use crate::threads::{child, helper, own, park, pause, remove, Main, Spawn, FIRST_HELPER, LAST_HELPER, RUNNER};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::HALF_SHIFT;
use keel_l4::abi::ids::LTHREAD_TASK;
use keel_l4::abi::memory::*;
use keel_l4::abi::{ExRegs, Frame};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::{kernel_object, thread, utcb, Id, Tag};

pub const CASES: &[Case] = &[
    ("argument-arrives", argument),
    ("created-does-not-run", created_stopped),
    ("any-number", any_number),
    ("given-number", given_number),
    ("number-taken", number_taken),
    ("number-of-the-task-itself", task_number),
    ("old-values-come-back", old_values),
    ("ip-and-cancel", ip_and_cancel),
    ("argument-of-a-queued-sender", argument_of_queued),
    ("ip-of-a-running-thread", ip_of_running),
    ("ip-that-no-user-can-have", bad_ip),
    ("handler-exchanged", handler_exchanged),
    ("delete-waiting", delete_waiting),
    ("delete-itself", delete_itself),
    ("delete-running", delete_running),
    ("start-of-a-running-thread", start_running),
    ("unknown-bits", unknown_bits),
    ("create-with-delete", create_with_delete),
    ("frame-of-a-native-thread", frame_of_native),
    ("alien-without-a-frame", alien_without_frame),
    ("of-the-root-task-denied", root_denied),
    ("of-no-thread", no_thread),
    ("in-a-child-task", in_child),
    ("version-zero-names-whoever-is-there", version_zero),
    ("two-hundred-threads", many_threads),
    ("thousand-create-delete-leaves-nothing", no_leak),
    ("state-is-told", state_told),
    ("messages-of-a-alien thread", alien_own_messages),
    ("entry-of-a-alien thread", alien_entry),
    ("calls-of-a-native-thread", native_no_calls),
    ("calls-neither-on-nor-off", calls_invalid),
];

extern "C" fn idle(_: u64) -> ! {
    park()
}

extern "C" fn tell(argument: u64) -> ! {
    cell(1).store(argument, SeqCst);
    park()
}

extern "C" fn count(_: u64) -> ! {
    loop {
        cell(2).fetch_add(1, SeqCst);
    }
}

fn argument() -> Outcome {
    helper(tell, 0xdead_beef_0bad_cafe)?;
    pause(1_000_000);
    same!("argument", cell(1).load(SeqCst), 0xdead_beef_0bad_cafe);
    Ok(())
}

extern "C" fn waiting(_: u64) -> ! {
    let _ = wait(Timeout::Never);
    park()
}

/// SYSRET to this address would fault in the kernel. The message arrives all the same, and then the
/// thread gets #GP.
fn bad_ip() -> Outcome {
    for ip in [1 << HALF_SHIFT, 1 << 63, u64::MAX >> 1, 1 << 48] {
        let id = Spawn::watched(waiting, 0).start()?;
        pause(1_000_000);
        let mut record = ExRegs::zeroed();
        record.ip = ip;
        thread::exchange(id, EX_IP, &mut record)?;
        let fault = call(id, Message::new(0, &[1]))?;
        same!("kind, vector, ip", (fault.tag.kind(), fault.tag.label(), fault.words[1]), (KIND_EXCEPTION, 13, ip));
        remove(id)?;
    }
    Ok(())
}

fn created_stopped() -> Outcome {
    let id = Spawn::new(tell, 5).create()?;
    pause(3_000_000);
    same!("before the start", cell(1).load(SeqCst), 0);
    same!("state", thread::schedule(id, 0, 0, 0)?.state, STATE_INACTIVE);
    thread::act(id, EX_START)?;
    pause(3_000_000);
    same!("after the start", cell(1).load(SeqCst), 5);
    Ok(())
}

fn any_number() -> Outcome {
    let (first, second) = (helper(idle, 0)?, helper(idle, 0)?);
    holds!("numbers of their own", first.lthread() != second.lthread());
    holds!("not a number that exists", first.lthread() >= FIRST_HELPER);
    Ok(())
}

fn given_number() -> Outcome {
    for number in [7, 100, 511, 512, 3000] {
        let id = Spawn { number, ..Spawn::light(idle, 0) }.start()?;
        same!("number", id.lthread(), number);
        remove(id)?;
    }
    Ok(())
}

fn number_taken() -> Outcome {
    let id = helper(idle, 0)?;
    refused!("creating it again", Spawn { number: id.lthread(), ..Spawn::new(idle, 0) }.create(), Call Busy);
    Ok(())
}

fn task_number() -> Outcome {
    let task = thread::task_of(own(RUNNER));
    refused!("deleting the task as an lthread", thread::act(task, EX_DELETE), Call NoPartner);
    Ok(())
}

fn old_values() -> Outcome {
    let id = Spawn::watched(idle, 0).create()?;
    let mut record = ExRegs::zeroed();
    (record.ip, record.sp) = (0x1111, 0x2222);
    thread::exchange(id, EX_IP | EX_SP, &mut record)?;
    same!("old ip", record.ip, idle as Main as usize as u64);
    same!("old pager, handler", (record.pager, record.handler), (utcb::my_id().0, utcb::my_id().0));
    thread::exchange(id, EX_IP | EX_SP, &mut record)?;
    same!("the values set before", (record.ip, record.sp), (0x1111, 0x2222));
    Ok(())
}

/// Moves `id` to `main` on a fresh stack.
fn redirect(id: Id, main: Main, more: u64) -> Result<Id, Failure> {
    let mut record = ExRegs::zeroed();
    (record.ip, record.sp) = (main as usize as u64, crate::pool::stack());
    thread::exchange(id, EX_IP | EX_SP | more, &mut record)
}

extern "C" fn landed(_: u64) -> ! {
    cell(3).store(1, SeqCst);
    park()
}

fn ip_and_cancel() -> Outcome {
    let id = helper(idle, 0)?;
    pause(1_000_000);
    redirect(id, landed, EX_CANCEL)?;
    pause(1_000_000);
    same!("it runs at the new place", cell(3).load(SeqCst), 1);
    Ok(())
}

/// The register has the destination of a message. The receiver gets the destination at the time of
/// the send.
fn argument_of_queued() -> Outcome {
    extern "C" fn sender(to: u64) -> ! {
        let _ = send(Id(to), Message::label(7), Timeout::Never);
        park()
    }
    let id = helper(sender, utcb::my_id().0)?;
    pause(1_000_000);
    let mut record = ExRegs::zeroed();
    record.argument = own(RUNNER).0;
    thread::exchange(id, EX_ARGUMENT, &mut record)?;
    same!("state", record.state, STATE_SENDING);
    let got = receive(id, Timeout::Zero)?;
    same!("label, redirected", (got.tag.label(), got.tag.has(TAG_REDIRECTED)), (7, false));
    Ok(())
}

fn ip_of_running() -> Outcome {
    let id = helper(count, 0)?;
    pause(2_000_000);
    redirect(id, landed, 0)?;
    pause(2_000_000);
    same!("it runs at the new place", cell(3).load(SeqCst), 1);
    Ok(())
}

fn handler_exchanged() -> Outcome {
    let id = helper(idle, 0)?;
    let mut record = ExRegs::zeroed();
    record.handler = utcb::my_id().0;
    thread::exchange(id, EX_HANDLER, &mut record)?;
    same!("the old handler", record.handler, own(RUNNER).0);
    pause(1_000_000);
    thread::act(id, EX_TRIGGER | EX_CANCEL)?;
    same!("the trigger comes here", receive(id, Timeout::After(1_000_000_000))?.from, id);
    Ok(())
}

fn delete_waiting() -> Outcome {
    let id = helper(idle, 0)?;
    pause(1_000_000);
    remove(id)?;
    refused!("a second time", remove(id), Call NoPartner);
    Ok(())
}

extern "C" fn vanish(_: u64) -> ! {
    cell(1).store(1, SeqCst);
    let _ = remove(utcb::my_id());
    cell(1).store(2, SeqCst);
    park()
}

fn delete_itself() -> Outcome {
    let id = helper(vanish, 0)?;
    pause(2_000_000);
    same!("how far it came", cell(1).load(SeqCst), 1);
    refused!("it is gone", remove(id), Call NoPartner);
    Ok(())
}

fn delete_running() -> Outcome {
    let id = helper(count, 0)?;
    pause(2_000_000);
    remove(id)?;
    let counted = cell(2).load(SeqCst);
    holds!("it had run", counted > 0);
    pause(2_000_000);
    same!("it does not run any more", cell(2).load(SeqCst), counted);
    Ok(())
}

fn start_running() -> Outcome {
    let id = helper(count, 0)?;
    pause(2_000_000);
    thread::act(id, EX_START)?;
    same!("state", thread::schedule(id, 0, 0, 0)?.state, STATE_READY);
    let waiting = helper(idle, 0)?;
    pause(25_000_000);
    thread::act(waiting, EX_START)?;
    same!("a waiting thread waits on", thread::schedule(waiting, 0, 0, 0)?.state, STATE_RECEIVING);
    Ok(())
}

fn unknown_bits() -> Outcome {
    let id = Spawn::new(idle, 0).create()?;
    for bit in EX_ALL.trailing_ones()..64 {
        refused!("an unknown bit", thread::act(id, 1 << bit), Call Invalid);
    }
    Ok(())
}

fn create_with_delete() -> Outcome {
    let id = thread::lthread(utcb::my_id(), LTHREAD_TASK as u16);
    for mask in [EX_DELETE, EX_CANCEL, EX_TRIGGER, EX_FPU_GET, EX_DEBUG_SET] {
        refused!("together with creation", thread::act(id, EX_CREATE | mask), Call Invalid);
    }
    Ok(())
}

fn frame_of_native() -> Outcome {
    let id = Spawn::new(idle, 0).create()?;
    let mut record = ExRegs::zeroed();
    record.frame = crate::pool::frame_index();
    refused!("binding a frame", thread::exchange(id, EX_FRAME, &mut record), Call Invalid);
    Ok(())
}

fn alien_without_frame() -> Outcome {
    let (task, _) = crate::alien::empty_task()?;
    let id = thread::lthread(task, LTHREAD_TASK as u16);
    refused!("alien, no frame", thread::act(id, EX_CREATE | EX_ALIEN), Call Invalid);
    refused!("native, no kernel area", thread::act(id, EX_CREATE), Call Invalid);
    Ok(())
}

fn root_denied() -> Outcome {
    for id in [Id::ROOT, Id::SIGMA0] {
        for mask in [EX_DELETE, EX_CANCEL, EX_IP, EX_START, 0] {
            refused!("another's thread", thread::act(id, mask), Call Denied);
        }
        let new = thread::lthread(id, 9);
        refused!("a thread in another's task", thread::act(new, EX_CREATE), Call Denied);
    }
    Ok(())
}

fn no_thread() -> Outcome {
    for id in [Id::NIL, Id::INVALID, Id::thread(0, 0xfff0, 0, 2), Id(0x100)] {
        refused!("no thread", thread::act(id, EX_DELETE), Call NoPartner);
        refused!("a thread in no task", thread::act(id, EX_CREATE), Call NoPartner);
    }
    Ok(())
}

extern "C" fn answer(_: u64) -> ! {
    if let Ok(got) = wait(Timeout::Never) {
        let _ = send(got.from, Message::new(0, &[utcb::my_id().0]), Timeout::Never);
    }
    park()
}

fn in_child() -> Outcome {
    let child = child(idle, 0)?;
    let mut record = ExRegs::zeroed();
    (record.ip, record.sp) = (answer as Main as usize as u64, crate::pool::stack());
    record.pager = own(crate::threads::PAGER).0;
    let any = thread::lthread(child.task, LTHREAD_TASK as u16);
    let id = thread::exchange(any, EX_CREATE | EX_START | EX_IP | EX_SP | EX_PAGER, &mut record)?;
    same!("its task", id.task(), child.number);
    same!("what it says its id is", keel_l4::ipc::call(id, Message::label(0))?.words[0], id.0);
    remove(id)?;
    Ok(())
}

fn version_zero() -> Outcome {
    let id = helper(idle, 0)?;
    same!("the id told", thread::act(thread::lthread(id, id.lthread()), EX_CANCEL)?, id);
    Ok(())
}

fn many_threads() -> Outcome {
    let before = kernel_object::account(Id::NIL)?[ACCOUNT_LTHREADS as usize];
    for number in FIRST_HELPER..FIRST_HELPER + 200 {
        Spawn { number, ..Spawn::light(idle, 0) }.create()?;
    }
    same!("lthreads accounted", kernel_object::account(Id::NIL)?[ACCOUNT_LTHREADS as usize], before + 200);
    for number in FIRST_HELPER..FIRST_HELPER + 200 {
        thread::act(thread::lthread(utcb::my_id(), number), EX_DELETE)?;
    }
    same!("afterwards", kernel_object::account(Id::NIL)?[ACCOUNT_LTHREADS as usize], before);
    holds!("room in the numbers that are cleared", FIRST_HELPER + 200 <= LAST_HELPER);
    Ok(())
}

fn no_leak() -> Outcome {
    // The first thread of a number allocates the page of its slot.
    remove(Spawn { number: 9, ..Spawn::light(idle, 0) }.start()?)?;
    let before = kernel_object::account(Id::NIL)?;
    for _ in 0..1000 {
        remove(Spawn { number: 9, ..Spawn::light(idle, 0) }.start()?)?;
    }
    same!("the account", kernel_object::account(Id::NIL)?, before);
    Ok(())
}

fn state_told() -> Outcome {
    let id = Spawn::new(idle, 0).create()?;
    let mut record = ExRegs::zeroed();
    record.pager = Id::ROOT.0;
    thread::exchange(id, EX_PAGER, &mut record)?;
    same!("of a stopped thread", record.state, STATE_INACTIVE);
    thread::act(id, EX_START)?;
    pause(2_000_000);
    record.pager = Id::ROOT.0;
    thread::exchange(id, EX_PAGER, &mut record)?;
    same!("of a waiting thread", record.state, STATE_RECEIVING);
    Ok(())
}

/// Switches a thread's own system-call dispatch; returns the old setting.
pub fn switch_calls(id: Id, on: u64) -> Result<u64, Failure> {
    let mut record = ExRegs::zeroed();
    record.dispatch = on;
    thread::exchange(id, EX_DISPATCH, &mut record).map(|_| record.dispatch)
}

type Answer = fn(&Alien) -> Result<Received, Failure>;

/// The two ways in which a handler can answer: with a call, and by the fast path.
const ANSWERS: [Answer; 2] =
    [Alien::resume, |alien| send_and_wait(alien.id, Message::label(0), Timeout::Zero, Timeout::Never)];

/// Registers of a message: its label, the words, and some that a call keeps.
fn own_message(frame: &mut Frame, label: u64) {
    frame.ax = CALL_HANDLER | label;
    (frame.r8, frame.r9, frame.r10, frame.r12, frame.r13, frame.r14) = (1, 2, 3, 4, 5, 6);
    (frame.di, frame.si, frame.dx, frame.bx, frame.bp) = (u64::MAX, u64::MAX, u64::MAX, 7, 8);
}

fn alien_own_messages() -> Outcome {
    let alien = Alien::new(code_syscall, |frame| own_message(frame, 5))?;
    let got = alien.start()?;
    same!("off: of the instruction", (got.tag.kind(), got.words[0]), (KIND_SYSCALL, CALL_HANDLER | 5));
    same!("were they on", switch_calls(alien.id, 1)?, 0);
    for answer in ANSWERS {
        alien.edit(|frame| own_message(frame, 5));
        let before = alien.regs();
        let got = answer(&alien)?;
        same!("a message of its own", (got.from, got.tag), (alien.id, Tag::new(5, REGISTER_WORDS)));
        same!("its words", got.words, [1, 2, 3, 4, 5, 6]);
        let after = alien.regs();
        same!("what it keeps", (after.bx, after.bp, after.sp, after.r12), (7, 8, before.sp, 4));
        same!("it waits for the answer", thread::schedule(alien.id, 0, 0, 0)?.state, STATE_FAULTED);
        alien.edit(|frame| frame.ax = 39);
        let got = answer(&alien)?;
        same!("without the bit: of the instruction", (got.tag.kind(), got.words[0]), (KIND_SYSCALL, 39));
    }
    // Not an L4 call, and the destination is not a user's choice.
    for label in 0..=CALL_MASK | IPC_SEND | IPC_RECEIVE | IPC_OPEN {
        alien.edit(|frame| own_message(frame, label));
        same!("nothing else", alien.resume()?.tag, Tag::new(label as u32, REGISTER_WORDS));
    }
    alien.edit(|frame| own_message(frame, 6));
    alien.act(EX_TRIGGER)?;
    same!("triggered before it runs on", alien.resume()?.tag.kind(), KIND_TRIGGER);
    same!("and then", alien.resume()?.tag, Tag::new(6, REGISTER_WORDS));
    same!("were they on", switch_calls(alien.id, 0)?, 1);
    alien.edit(|frame| own_message(frame, 5));
    same!("off again", alien.resume()?.words[0], CALL_HANDLER | 5);
    Ok(())
}

/// Calls from outside the entry's page come to the entry with the changes of `syscall`; all other
/// registers are unchanged.
fn alien_entry() -> Outcome {
    let alien = Alien::new(code_syscall, |frame| own_message(frame, 5))?;
    alien.start()?;
    switch_calls(alien.id, address(code_entry))?;
    // The entry's page is not mapped yet.
    alien.edit(|frame| frame.ax = 39);
    alien.resume()?;
    for answer in ANSWERS {
        alien.edit(|frame| {
            own_message(frame, 0);
            (frame.ax, frame.ip, frame.flags) = (39, address(code_syscall), FLAGS | CARRY);
        });
        let before = alien.regs();
        let got = answer(&alien)?;
        same!("from the entry's page: of the instruction", (got.tag.kind(), got.words[0]), (KIND_SYSCALL, 39));
        let after = alien.regs();
        same!("where from, and the flags", (after.r15, after.bx), (before.ip + INSTRUCTION, before.flags));
        same!("the stack", (after.sp, after.bp), (before.sp, before.bp));
        let words = |frame: &Frame| [frame.di, frame.si, frame.dx, frame.r8, frame.r9, frame.r10, frame.r12, frame.r14];
        same!("the others", words(&after), words(&before));
        alien.edit(|frame| (frame.ax, frame.ip) = (CALL_HANDLER | 6, address(code_syscall)));
        same!("its own messages pass by", answer(&alien)?.tag, Tag::new(6, REGISTER_WORDS));
    }
    switch_calls(alien.id, 1)?;
    alien.edit(|frame| (frame.ax, frame.ip) = (39, address(code_syscall)));
    alien.resume()?;
    same!("without an entry", alien.regs().ip, address(code_syscall) + INSTRUCTION);
    Ok(())
}

fn native_no_calls() -> Outcome {
    extern "C" fn ask(_: u64) -> ! {
        cell(1).store(thread::nearest(Id::NIL).map_or(0, |(id, _)| id.0), SeqCst);
        park()
    }
    let me = utcb::my_id();
    let id = Spawn { handler: me, ..Spawn::new(ask, 0) }.create()?;
    same!("were they on", switch_calls(id, 0)?, 1);
    thread::act(id, EX_START)?;
    let got = receive(id, Timeout::After(SECOND))?;
    same!("its call", (got.tag.kind(), got.words[0]), (KIND_SYSCALL, CALL_ID_NEAREST));
    same!("were they on", switch_calls(id, 1)?, 0);
    send(id, Message::label(0), Timeout::Zero)?;
    pause(3_000_000);
    same!("the call was the handler's affair", cell(1).load(SeqCst), 0);
    Ok(())
}

fn calls_invalid() -> Outcome {
    refused!("no entry of a native thread", switch_calls(utcb::my_id(), address(code_entry)), Call Invalid);
    let alien = Alien::new(code_syscall, |_| ())?;
    for id in [alien.id, utcb::my_id()] {
        refused!("no such one", switch_calls(id, DISPATCH_ON + 1), Call Invalid);
        refused!("not canonical", switch_calls(id, 1 << HALF_SHIFT), Call Invalid);
    }
    refused!("the upper half", switch_calls(alien.id, !0 << HALF_SHIFT), Call Invalid);
    Ok(())
}

/// The carry flag.
const CARRY: u64 = 1;
/// Length of the `syscall` instruction.
const INSTRUCTION: u64 = 2;
/// A second in ns.
const SECOND: u64 = 1_000_000_000;
