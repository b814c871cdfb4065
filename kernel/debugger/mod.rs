// SPDX-License-Identifier: GPL-2.0-only
//! The kernel debugger: commands over the console's serial line, in the debug build only
//! (`ON`).
//!
//! A key on the console enters it at the next timer interrupt, and so does a panic where no
//! emulator waits for the end. The processor then runs exclusively with interrupts off, and after a
//! panic the other processors are stopped, so nothing that it shows changes. docs/debugger.md
//! describes the commands.

pub mod check;
pub mod trace;

use crate::arch::cpu::{self, Cpu};
use crate::arch::paging::{self, bits_rights, leads_to, span};
use crate::arch::regs::{inb, wrmsr, MSR_GS_BASE};
use crate::arch::{apic, clock, direct, print::log, serial, DIRECT, OFFSET};
use crate::base::{facts, facts::Word as Switch, PhysAddr, Ref, VirtAddr};
use crate::mm::space::{Leaf, Nodes};
use crate::mm::{mapdb::Store, space};
use crate::object::{task, Task, TaskNumber, Thread, POOL};
use crate::sys::panic;
use core::cell::Cell;
use core::fmt::{self, Display, Formatter, LowerHex, Write};
use keel_abi::call::{self, *};
use keel_abi::describe::Constant;
use keel_abi::fpage::{self, is_in_half, FPAGE_EXEC};
use keel_abi::ids::LTHREAD_TASK;
use keel_abi::ranges::Range;
use keel_abi::trace::{RECORD_LABEL_SHIFT, RECORD_PROCESSOR_SHIFT, TRACE_CALL, TRACE_FAULT, TRACE_MESSAGE};
use keel_abi::word::Word;
use keel_abi::{Frame, Id, Tag, TraceRecord};

/// Whether this is the debug build.
pub const ON: bool = cfg!(feature = "debugger");
/// The longest time that a timer is set for, in ns: a key is looked for at timer interrupts.
pub const LONGEST_TIMER_NS: u64 = if ON { 10_000_000 } else { 1 << 32 };
/// Longest line of a command.
const LINE: usize = 80;
/// Line status register: a byte has come, and nothing is wrong with it (a port that is not there
/// reads as all ones).
const CAME: (u8, u8) = (0x83, 1);
/// Words of a thread's stack that are searched for return addresses.
const STACK_WORDS: u64 = 512;
/// Words that `memory` shows if it is not told.
const MEMORY_WORDS: u64 = 8;

const HELP: [&str; 3] = [
    "threads, tasks, queues, registers T.L, backtrace [T.L], map T ADDRESS, memory ADDRESS [COUNT [T]],",
    "set ADDRESS WORD [T], touch read|write|run|below-stack|nothing-by-gs [ADDRESS T], trace [COUNT], check, panic, go. T and L are task and lthread, in decimal; other numbers are",
    "hexadecimal. An address is physical, or the kernel's, or where a T follows, of that task.",
];

impl Display for TaskNumber {
    fn fmt(&self, to: &mut Formatter) -> fmt::Result {
        Display::fmt(&self.raw(), to)
    }
}

impl LowerHex for VirtAddr {
    fn fmt(&self, to: &mut Formatter) -> fmt::Result {
        LowerHex::fmt(&self.raw(), to)
    }
}

/// The kernel is about to run the first thread.
pub fn begin(line: &[u8]) {
    if ON {
        trace::begin(line);
        apic::set_timer(u64::MAX - 1);
    }
}

/// An interrupt is about to be served. At a timer's, a key is looked for, and the timer is set to
/// look again if nobody sets it.
pub fn interrupt(vector: u64) {
    trace::interrupt(vector);
    if ON && vector == apic::TIMER_VECTOR {
        if get().is_some() {
            enter("key");
        }
        apic::set_timer(u64::MAX - 1);
    }
}

/// A panic enters it, unless an emulator waits for the end.
pub fn panicked() {
    if ON && !facts::has_word(Switch::DebugExit) {
        enter("panic");
    }
}

/// Serves commands until one says to go on.
fn enter(why: &str) {
    log!("debugger: {why} on processor {}; `help` names the commands", cpu::recover().map_or(0, |cpu| cpu.index));
    loop {
        match read_line(&mut [0; LINE]) {
            "go" => break,
            line if command(line).is_none() => log!("not understood: {line}"),
            _ => {}
        }
    }
}

/// A byte that has come over the console's line, if there is one.
fn get() -> Option<u8> {
    let port = serial::PORT.get();
    // SAFETY: the console's port.
    (port != 0 && unsafe { inb(port + 5) } & CAME.0 == CAME.1).then(|| unsafe { inb(port) })
}

fn read_line(line: &mut [u8; LINE]) -> &str {
    const BACKSPACE: [u8; 2] = [8, 0x7f];
    let echo = |text: &str| crate::arch::print::Console.write_str(text).unwrap_or(());
    let mut used = 0;
    echo("debugger> ");
    loop {
        match get() {
            Some(b'\r' | b'\n') => break,
            Some(key) if BACKSPACE.contains(&key) && used > 0 => {
                used -= 1;
                echo("\x08 \x08");
            }
            Some(key @ b' '..=b'~') if used < LINE => {
                line[used] = key;
                used += 1;
                serial::put(key);
            }
            _ => {}
        }
    }
    echo("\n");
    core::str::from_utf8(&line[..used]).unwrap_or("")
}

/// Does what a line says; `None` if it makes no sense.
fn command(line: &str) -> Option<()> {
    let mut words = line.split_ascii_whitespace();
    let name = words.next().unwrap_or("");
    let mut next = || words.next();
    match name {
        "" => {}
        "help" => HELP.iter().for_each(|line| log!("{line}")),
        "threads" => threads().for_each(show_thread),
        "tasks" => tasks().for_each(show_task),
        "queues" => show_queues(),
        "registers" => show_frame(thread(next()?)?),
        "backtrace" => match next() {
            None => panic::backtrace(),
            Some(word) => show_stack(thread(word)?),
        },
        "map" => family(task(next()?)?, VirtAddr::new(number(next()?)?))?,
        "memory" => {
            let (start, count) = (number(next()?)?, next().map_or(Some(MEMORY_WORDS), number)?);
            let owner = next().map(task);
            for address in (0..count).map(|n| start.wrapping_add(8 * n)) {
                log!("{address:#x}: {:#018x}", word_at(address, owner)?.get());
            }
        }
        "set" => {
            let (address, value) = (number(next()?)?, number(next()?)?);
            word_at(address, next().map(task))?.set(value);
        }
        "touch" => {
            let (how, address) = (next()?, next().map_or(Some(0), number)?);
            if let Some(word) = next() {
                let task = task(word)?;
                paging::switch(cpu::cpu(), POOL.physical(task.root_table), task.half());
            }
            touch(how, address)?;
            log!("nothing stopped it");
        }
        "trace" => {
            let limit = next().map_or(Some(u64::MAX), number)? as usize;
            cpu::all().flat_map(|cpu| trace::last(cpu, limit)).for_each(show_event);
        }
        "check" => {
            check::run();
        }
        "panic" => panic!("the debugger was asked for it"),
        _ => return None,
    }
    Some(())
}

fn number(word: &str) -> Option<u64> {
    u64::from_str_radix(word.strip_prefix("0x").unwrap_or(word), 16).ok()
}

fn task(word: &str) -> Option<Ref<Task>> {
    task::at(TaskNumber::new(word.parse().ok()?))
}

fn thread(word: &str) -> Option<Ref<Thread>> {
    let (number, lthread) = word.split_once('.')?;
    task(number)?.lthread(lthread.parse().ok()?)
}

/// Does what the kernel must not be able to do: a page fault of its own is a panic, and the
/// debugger is there again.
fn touch(how: &str, address: u64) -> Option<()> {
    let below_stack = cpu::cpu().address.get() - cpu::STACK as u64 - 1;
    // SAFETY: none; that something stops it is what the user of the debugger wants to see.
    unsafe {
        match how {
            "read" => drop((address as *const u8).read_volatile()),
            "write" => (address as *mut u8).write_volatile(0),
            "run" => core::mem::transmute::<u64, extern "C" fn()>(address)(),
            "below-stack" => drop((below_stack as *const u8).read_volatile()),
            "nothing-by-gs" => {
                wrmsr(MSR_GS_BASE, address);
                let _ = core::ptr::without_provenance::<u8>(1).read_volatile();
            }
            _ => return None,
        }
    }
    Some(())
}

/// The user's page at an address in the processor's form, which may be any number.
fn page_at(task: Ref<Task>, address: u64) -> Option<Leaf> {
    space::find(task, VirtAddr::new(fpage::number(address))).ok().filter(|_| is_in_half(address, 1))
}

/// What is mapped at an address: physical address and rights.
fn translate(task: Ref<Task>, address: u64) -> Option<(PhysAddr, u64)> {
    let leaf = page_at(task, address)?;
    Some((leaf.physical(VirtAddr::new(address)), bits_rights(leaf.entry)))
}

/// The word at an address: of a task's space, or physical, or the kernel's own for the same memory.
fn word_at(address: u64, owner: Option<Option<Ref<Task>>>) -> Option<&'static Word> {
    let physical = match owner {
        Some(owner) => translate(owner?, address)?.0.raw(),
        None if address >= OFFSET => address - OFFSET,
        None if address >= DIRECT => address - DIRECT,
        None => address,
    } & !7;
    // SAFETY: RAM, in the direct map; the kernel's own objects there are cells or words.
    facts::FACTS
        .get()?
        .ram
        .contains(Range::new(physical, physical + 1))
        .then(|| unsafe { &*direct(PhysAddr::new(physical)).cast() })
}

/// Every task. No interrupts are let in on the way.
fn tasks() -> impl Iterator<Item = Ref<Task>> {
    (0..task::TASK_NUMBERS as u32).map(TaskNumber::new).filter_map(task::at)
}

/// Every thread of a task.
fn lthreads(task: Ref<Task>) -> impl Iterator<Item = Ref<Thread>> {
    (0..LTHREAD_TASK as u16).filter_map(move |number| task.lthread(number)).take(task.lthreads.get() as usize)
}

/// Every thread.
fn threads() -> impl Iterator<Item = Ref<Thread>> {
    tasks().flat_map(lthreads)
}

/// Looks at every thread in a processor's run queue, the first to run first.
fn each_queued(cpu: &Cpu, mut look: impl FnMut(Ref<Thread>, u8)) {
    for (priority, list) in cpu.queue.lists.iter().enumerate().rev() {
        list.iter().for_each(|thread| look(thread, priority as u8));
    }
}

fn show_thread(thread: Ref<Thread>) {
    let (id, state, partner, open) = (thread.id, thread.state(), thread.partner.get(), thread.open.get());
    let (flags, waiters, ip) = (thread.flags.get().raw(), thread.waiters.get(), thread.frame().ip.get());
    let (priority, processor) = (thread.priority.get(), thread.cpu.get());
    log!("{id:?} {state:?} partner {partner:?} open {open} waiters {waiters} flags {flags:#x} ip {ip:#x}");
    log!("  priority {priority} processor {processor}");
}

fn show_task(task: Ref<Task>) {
    let words: [u64; ACCOUNT_POOL_FREE as usize] = core::array::from_fn(|word| task.account.word(word as u64));
    let [limit, used, tasks, lthreads, tables, nodes, ..] = words;
    let (number, account, chief) =
        (task.number, task.account.as_ptr(), task.chief.map_or(TaskNumber::NONE, |chief| chief.number));
    log!("task {number} chief {chief} lthreads {} account {account:p} uses {used} of {limit}:", task.lthreads.get());
    log!("  {tasks} tasks, {lthreads} lthreads, {tables} tables, {nodes} nodes");
}

fn show_queues() {
    for cpu in cpu::all() {
        let id = |who: &Cell<Option<Ref<Thread>>>| who.get().map_or(Id::NIL, |thread| thread.id);
        let (number, deadline) = (cpu.index, cpu.deadlines.earliest());
        log!("processor {number} runs {:?} next {:?} deadline {deadline}", id(&cpu.current), id(&cpu.handoff));
        each_queued(cpu, |thread, priority| log!("  {priority}: {:?}", thread.id));
    }
}

/// Shows every mapping of the page that a user has at an address. `None` if there is none.
fn family(task: Ref<Task>, address: VirtAddr) -> Option<()> {
    let page = page_at(task, address.raw())?;
    let place = page.physical(address);
    let above =
        |node| core::iter::successors(Some(node), |node| Some(Nodes.parent(*node)).filter(|node| node.is_some()));
    let top = above(page.node()).last().filter(|top| top.is_some())?;
    let mut node = top;
    while node.is_some() {
        let leaf = Leaf::of(node);
        let (size, physical) = (span(leaf.level), leads_to(leaf.entry));
        if place - physical < size {
            let (indent, task) = (
                2 * above(node).count(),
                POOL.page(leaf.table).task.get().map_or(TaskNumber::NONE, |task| task.number),
            );
            let address = fpage::canonical(leaf.address().raw());
            let (rights, entry) = (bits_rights(leaf.entry), leaf.cell().as_ptr());
            log!(
                "{:indent$}task {task} {address:#x} size {size:#x} rights {rights} at {:#x} by {entry:p}",
                "",
                physical.raw()
            );
        }
        node = Nodes.next_in_subtree(node, top, || {});
    }
    Some(())
}

/// Time in ns, processor, event, thread, partner, label, word, and what the word names.
fn show_event(record: TraceRecord) {
    let (event, processor) = (record.event & 0xff, record.event >> RECORD_PROCESSOR_SHIFT & 0xff);
    let label = record.event >> RECORD_LABEL_SHIFT;
    let named = match event {
        TRACE_CALL => name(call::CONSTANTS, "CALL_", record.word & CALL_MASK),
        TRACE_MESSAGE => name(call::CONSTANTS, "KIND_", Tag(record.word).kind()),
        TRACE_FAULT => name(fpage::CONSTANTS, "FPAGE_", label),
        _ => "-",
    };
    let (time, event) = (
        clock::ticks_to_ns(record.time - clock::PARAMETERS.get().1),
        name(keel_abi::trace::CONSTANTS, "TRACE_", event),
    );
    let (thread, partner, word) = (Id(record.thread), Id(record.partner), record.word);
    log!("{time} {processor} {event} {thread:?} {partner:?} {label:#x} {word:#x} {named}");
}

/// What is behind `prefix` in the name of a constant.
fn name(table: &'static [Constant], prefix: &str, value: u64) -> &'static str {
    table.iter().filter(|known| known.value == value).find_map(|known| known.name.strip_prefix(prefix)).unwrap_or("-")
}

fn show_frame(thread: Ref<Thread>) {
    for (field, word) in Frame::LAYOUT.fields.iter().zip(thread.frame().words()) {
        log!("{} {:#x}", field.name, word.get());
    }
}

/// The ip, and the words on a thread's stack that lie in memory that it may execute: no frame
/// pointers are kept.
fn show_stack(thread: Ref<Thread>) {
    let sp = thread.frame().sp.get();
    log!("  {:#x}", thread.frame().ip.get());
    for word in (0..STACK_WORDS).map_while(|n| word_at(sp.wrapping_add(8 * n), Some(Some(thread.task)))) {
        let address = word.get();
        if translate(thread.task, address).is_some_and(|(_, rights)| rights & FPAGE_EXEC != 0) {
            log!("  {address:#x}");
        }
    }
}
