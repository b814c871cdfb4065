// SPDX-License-Identifier: BSD-2-Clause
//! Long work for the kernel while a timer needs the processor at short intervals: large trees of
//! mappings that are unmapped, tasks with many pages and lthreads that are deleted, threads for
//! which many wait, storms of yields. It measures nothing itself. An observer outside of the
//! machine measures how long interrupts stay disabled.

use crate::partner::*;
use core::arch::global_asm;
use core::mem::offset_of;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::ids::{LTHREAD_TASK, TIMERS};
use keel_l4::abi::memory::MAP_GRANT;
use keel_l4::abi::{MapItem, StringItem, UnmapRange, Utcb};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, sleep, Message, Received, Timeout};
use keel_l4::pager::Fault;
use keel_l4::protocol::boot::Start;
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, NewThread};
use keel_l4::{kernel_object, kip, mapping, sigma0, strings, utcb, Fpage, Id};

/// Nanoseconds between two interrupts of the metronome.
const BEAT_NS: u64 = 20_000;
/// Log2 of one map item: less than a superpage, so that the kernel works page by page.
const ITEM_LOG2: u8 = 16;
/// Tasks that get all of this memory.
const TASKS: usize = 3;
/// How often a page is mapped on, one after the other or to as many places.
const CHAIN: u64 = 2_000;
/// Lthreads of a task that is deleted, and threads that wait for a thread that is deleted.
const CROWD: u16 = 100;
/// Frame pages that are bought in one call: the maximum.
const FRAME_PAGES: u64 = 256;
/// Threads that yield, and for how long.
const YIELDERS: u16 = 16;
const STORM_NS: u64 = 2_000_000;
/// Ports of the upper half of the space, which no device of the machine has.
const PORTS: Fpage = Fpage::io(0x8000, 15);
/// Tasks that get them from one task at a time.
const PORT_HOLDERS: u32 = 40;

/// Pages of one answer, and their addresses.
const ANSWERED: usize = 16;
const SCATTERED: u64 = 0x60_0000_0000;
const SCATTERED_LOG2: u8 = 31;

global_asm!(
    // Calls the thread in rdi, then sleeps.
    ".global call_once",
    "call_once:",
    "mov rdx, rdi",
    "xor esi, esi",
    "mov eax, {call}",
    "syscall",
    "2: xor edx, edx",
    "mov eax, {receive}",
    "syscall",
    "jmp 2b",
    // Waits for the thread in rdi, then sleeps.
    ".global wait_once",
    "wait_once:",
    "mov rdx, rdi",
    "mov eax, {receive}",
    "syscall",
    "jmp 2b",
    // Yields without end.
    ".global yield_forever",
    "yield_forever:",
    "xor edi, edi",
    "mov eax, {switch}",
    "syscall",
    "jmp yield_forever",
    // Reads a byte of the window, writes it, and calls the thread in rdi.
    ".global touch_and_call",
    "touch_and_call:",
    "mov rcx, {window}",
    "mov al, [rcx]",
    "mov [rcx], al",
    "jmp call_once",
    // Accepts mappings in the window in rdi, and answers.
    ".global accept_lightly",
    "accept_lightly:",
    "mov gs:[{receive_fpage}], rdi",
    "jmp acknowledge",
    receive_fpage = const offset_of!(Utcb, receive_fpage),
    window = const WINDOW,
    call = const CALL,
    receive = const CALL_IPC | IPC_RECEIVE,
    switch = const CALL_THREAD_SWITCH,
);

// They use only registers, so they need no stack.
unsafe extern "C" {
    fn call_once(partner: u64) -> !;
    fn wait_once(partner: u64) -> !;
    fn yield_forever(_: u64) -> !;
    fn touch_and_call(partner: u64) -> !;
    /// Accepts mappings in the fpage `window`, and answers with an empty message.
    pub fn accept_lightly(window: u64) -> !;
}

/// Runs all loads.
pub fn run(record: &Start) -> Result<(), Failure> {
    let metronome = Partner::start(Space::Same, metronome, 0)?;
    thread::set_priority(metronome.id, priority() + 1)?;
    let memory = large_memory(record)?;
    trees(memory)?;
    chain()?;
    crowded_task(memory)?;
    awaited_thread()?;
    frames()?;
    timers()?;
    storm()?;
    ports()?;
    port_holders()?;
    long_string(memory)?;
    pieces(memory)?;
    broad_grant(memory)?;
    answers(scattered)?;
    answers(|number| number as u64 * PAGE_SIZE)?;
    metronome.end()
}

/// Needs the processor at every beat.
extern "C" fn metronome(_: u64) -> ! {
    let Ok(timer) = kernel_object::claim_timer() else { park() };
    loop {
        let beat = kernel_object::set_timer(timer, kip::now() + BEAT_NS).and_then(|()| receive(timer, Timeout::Never));
        if beat.is_err() {
            park();
        }
    }
}

fn park() -> ! {
    loop {
        // Only a cancellation ends the wait.
        let _ = receive(Id::NIL, Timeout::Never);
    }
}

/// Sends all pages of `memory` to a partner with a window of that size.
fn send_pages(to: Partner, memory: Fpage) -> Result<(), Failure> {
    let item = 1u64 << ITEM_LOG2;
    let mut offset = 0;
    while offset < memory.size() {
        let items: [MapItem; MAX_MAP_ITEMS as usize] = core::array::from_fn(|number| {
            let at = offset + number as u64 * item;
            MapItem { send_base: at, fpage: Fpage::memory(memory.base() + at, ITEM_LOG2, FPAGE_RWX).0 }
        });
        call(to.id, Message::label(0).with_maps(&items))?;
        offset += MAX_MAP_ITEMS * item;
    }
    Ok(())
}

fn window() -> Fpage {
    Fpage::memory(WINDOW, LARGE_LOG2, FPAGE_RWX)
}

/// Trees with many branches: rights and mappings are revoked, as a whole and page by page.
fn trees(memory: Fpage) -> Result<(), Failure> {
    let mut partners = [None; TASKS];
    for partner in &mut partners {
        *partner = Some(Partner::start(Space::Other, accepting, window().0)?);
    }
    for take in [UNMAP_RIGHTS & FPAGE_WRITE, UNMAP_RIGHTS] {
        partners.iter().flatten().try_for_each(|partner| send_pages(*partner, memory))?;
        mapping::unmap(memory, take)?;
    }
    if let Some(first) = partners[0] {
        send_pages(first, memory)?;
        let pages = memory.size() / PAGE_SIZE;
        mapping::unmap_in(first.task(), &[UnmapRange { address: WINDOW, pages }])?;
        // A range without mappings, in a space with many page tables.
        mapping::unmap_in(first.task(), &[UnmapRange { address: 0, pages: 1 << (SPACE_SHIFT - PAGE_SHIFT) }])?;
    }
    partners.into_iter().rev().flatten().try_for_each(Partner::end)
}

/// A tree that is one long branch.
fn chain() -> Result<(), Failure> {
    let whole = Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX);
    let passer = Partner::start(Space::Same, accepting, whole.0)?;
    let mut from = pages(PAGE_SHIFT as u8);
    for link in 0..CHAIN {
        let item = MapItem { send_base: link * PAGE_SIZE, fpage: from.0 };
        call(passer.id, Message::label(0).with_maps(&[item]))?;
        from = Fpage::memory(WINDOW + link * PAGE_SIZE, PAGE_SHIFT as u8, FPAGE_RWX);
    }
    mapping::unmap(pages(PAGE_SHIFT as u8), UNMAP_RIGHTS)?;
    passer.end()
}

/// An lthread of `task` without a stack.
fn light(task: Id, main: Main, argument: u64) -> Result<Id, Failure> {
    let (number, ip, pager) = (LTHREAD_TASK as u16, main as usize as u64, image_pager());
    NewThread { task, number, ip, sp: 0, pager, handler: pager, argument }.start()
}

/// The deletion of a task with many pages and lthreads.
fn crowded_task(memory: Fpage) -> Result<(), Failure> {
    let partner = Partner::start(Space::Other, accepting, window().0)?;
    send_pages(partner, memory)?;
    for _ in 0..CROWD {
        light(partner.task(), echo, 0)?;
    }
    partner.end()
}

/// The deletion of a thread to which many send, or from which many receive.
fn awaited_thread() -> Result<(), Failure> {
    let awaited = light(own_task(), call_once, utcb::my_id().0)?;
    let mut crowd = [Id::NIL; 2 * CROWD as usize];
    for (number, one) in crowd.iter_mut().enumerate() {
        *one = light(own_task(), if number % 2 == 0 { call_once } else { wait_once }, awaited.0)?;
    }
    sleep(BEAT_NS * CROWD as u64);
    thread::delete(awaited)?;
    crowd.into_iter().try_for_each(thread::delete)
}

fn frames() -> Result<(), Failure> {
    kernel_object::buy_frames(0, FRAME_PAGES)?;
    kernel_object::sell_frames(0, FRAME_PAGES)
}

/// Many timers that expire at the same time, twice: received one by one, and deleted with their
/// thread.
fn timers() -> Result<(), Failure> {
    let owner = Partner::start(Space::Same, own_timers, 0)?;
    for _ in 0..2 {
        call(owner.id, Message::label(0))?;
    }
    owner.end()
}

extern "C" fn own_timers(_: u64) -> ! {
    let mut timers = [Id::NIL; TIMERS as usize];
    let mut claimed = 0;
    while let (Ok(timer), true) = (kernel_object::claim_timer(), claimed < timers.len()) {
        timers[claimed] = timer;
        claimed += 1;
    }
    let mut next = keel_l4::ipc::wait(Timeout::Never);
    loop {
        next = match next {
            Ok(asked) if asked.tag.kind() == KIND_USER => {
                let time = kip::now() + BEAT_NS;
                let set = timers[..claimed].iter().try_for_each(|timer| kernel_object::set_timer(*timer, time));
                sleep(2 * BEAT_NS);
                let fired = timers[..claimed].iter().try_for_each(|timer| receive(*timer, Timeout::Never).map(|_| ()));
                let answer = Message::label(set.and(fired).is_err() as u32);
                answer_and_wait(asked.from, answer)
            }
            _ => keel_l4::ipc::wait(Timeout::Never),
        }
    }
}

fn storm() -> Result<(), Failure> {
    let mut yielders = [Id::NIL; YIELDERS as usize];
    for one in &mut yielders {
        *one = light(own_task(), yield_forever, 0)?;
        thread::set_priority(*one, priority() - 1)?;
    }
    sleep(STORM_NS);
    yielders.into_iter().try_for_each(thread::delete)
}

fn give_ports(to: Id) -> Result<(), Failure> {
    let item = MapItem { send_base: PORTS.port() as u64, fpage: PORTS.0 };
    call(to, Message::label(0).with_maps(&[item])).map(|_| ())
}

/// Ports that are mapped on through two tasks, unmapped, and dropped with a task.
fn ports() -> Result<(), Failure> {
    sigma0::map(PORTS, PORTS)?;
    let partner = Partner::start(Space::Other, accepting, PORTS.0)?;
    for _ in 0..2 {
        give_ports(partner.id)?;
        mapping::unmap(PORTS, UNMAP_RIGHTS)?;
    }
    partner.end()
}

/// Ports that many tasks have from one.
fn port_holders() -> Result<(), Failure> {
    let numbers = task_number()..task_number() + PORT_HOLDERS;
    for number in numbers.clone() {
        let (ip, argument) = (accept_lightly as *const () as u64, PORTS.0);
        let holder = task::create(&NewTask { number, ip, argument, quota: TASK_SHARED_QUOTA, ..plan() })?;
        give_ports(thread::first_of(holder))?;
    }
    mapping::unmap(PORTS, UNMAP_RIGHTS)?;
    numbers.into_iter().try_for_each(|number| task::delete(number, own_task()))
}

/// A string of half the memory, into the other half.
fn long_string(memory: Fpage) -> Result<(), Failure> {
    let half = memory.size() / 2;
    let receiver = Partner::start(Space::Same, receiving, first_byte(memory) + half)?;
    let message = Message::label(0).with_strings(&[StringItem { address: first_byte(memory), length: half }]);
    call(receiver.id, message)?;
    receiver.end()
}

/// Receives a string into half the memory.
extern "C" fn receiving(address: u64) -> ! {
    // SAFETY: nothing else uses this memory.
    unsafe {
        strings::offer(&[StringItem { address, length: 1 << (LARGE_LOG2 - 1) }]);
        acknowledge(0)
    }
}

/// A page that was mapped to many places is granted.
fn broad_grant(memory: Fpage) -> Result<(), Failure> {
    let passer = Partner::start(Space::Same, accepting, Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX).0)?;
    let page = Fpage::memory(memory.base() + PAGE_SIZE, PAGE_SHIFT as u8, FPAGE_RWX).0;
    for branch in 0..CHAIN {
        call(passer.id, Message::label(0).with_maps(&[MapItem { send_base: branch * PAGE_SIZE, fpage: page }]))?;
    }
    let granted = MapItem { send_base: CHAIN * PAGE_SIZE | MAP_GRANT, fpage: page };
    call(passer.id, Message::label(0).with_maps(&[granted]))?;
    mapping::unmap(Fpage::memory(WINDOW, WINDOW_LOG2, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    passer.end()
}

/// One function for both threads that answer here, so that the inlined library code in measured
/// programs does not change.
#[inline(never)]
fn answer_and_wait(to: Id, answer: Message) -> Result<Received, Failure> {
    keel_l4::ipc::send_and_wait(to, answer, Timeout::Zero, Timeout::Never)
}

/// The address of page `number` of an answer: each has its own page table, alternately in two
/// gigabytes.
fn scattered(number: usize) -> u64 {
    (number as u64 % 2) << 30 | (number as u64) << 21
}

/// A pager answers with pages that the kernel perhaps must look up one by one: first read-only,
/// where another page is at the place of the last one, then with more rights.
fn answers(place: fn(usize) -> u64) -> Result<(), Failure> {
    let passer = Partner::start(Space::Same, accepting, Fpage::memory(SCATTERED, SCATTERED_LOG2, FPAGE_RWX).0)?;
    for number in 0..ANSWERED {
        let page = Fpage::memory(pages(ITEM_LOG2).base() + number as u64 * PAGE_SIZE, PAGE_SHIFT as u8, FPAGE_RWX);
        let item = MapItem { send_base: place(number), fpage: page.0 };
        call(passer.id, Message::label(0).with_maps(&[item]))?;
    }
    let (number, ip, me) = (task_number(), touch_and_call as *const () as u64, utcb::my_id().0);
    task::create(&NewTask { number, ip, argument: me, pager: me, ..plan() })?;
    let mut next = keel_l4::ipc::wait(Timeout::Never)?;
    let mut another = true;
    while next.tag.kind() == KIND_PAGE_FAULT {
        let fault = Fault::of(&next);
        let items: [MapItem; ANSWERED] = core::array::from_fn(|number| MapItem {
            send_base: WINDOW + number as u64 * PAGE_SIZE,
            fpage: Fpage::memory(SCATTERED + place(number), PAGE_SHIFT as u8, FPAGE_READ | fault.access).0,
        });
        let answer = match fault.access {
            FPAGE_EXEC => fault.map(fault.page(), FPAGE_READ | FPAGE_EXEC),
            _ if core::mem::take(&mut another) => {
                Message::label(0).with_maps(&[MapItem { fpage: items[0].fpage, ..items[ANSWERED - 1] }])
            }
            _ => Message::label(0).with_maps(&items),
        };
        next = answer_and_wait(next.from, answer)?;
    }
    task::delete(number, own_task())?;
    passer.end()
}

/// Superpages that are split, one together with the mappings that others have of it.
fn pieces(memory: Fpage) -> Result<(), Failure> {
    let partner = Partner::start(Space::Other, accepting, window().0)?;
    send_pages(partner, memory)?;
    for superpage in [memory.base(), memory.base() + memory.size() / 2] {
        mapping::unmap(Fpage::memory(superpage, PAGE_SHIFT as u8, FPAGE_RWX), UNMAP_RIGHTS | UNMAP_FLUSH)?;
    }
    partner.end()
}
