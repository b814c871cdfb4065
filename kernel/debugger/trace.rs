// SPDX-License-Identifier: GPL-2.0-only
//! The event trace: what each processor did, in a ring of its own; `docs/tracing.md` shows it.
//!
//! Only where the command line says `trace=`. A processor writes to its own ring alone, while it
//! has its lock; the debugger reads all. The IPC fast paths note nothing: tracing wants
//! `nofast`. In the other kernel these functions are nothing.

use super::ON;
use crate::arch::cpu::{self, cpu, Cpu};
use crate::arch::{paging, regs::rdtsc};
use crate::base::{Global, Ref};
use crate::boot::option;
use crate::object::thread::{Flags, Message};
use crate::object::Thread;
use core::cell::Cell;
use core::ptr::null;
use keel_abi::call::KIND_PAGE_FAULT;
use keel_abi::trace::*;
use keel_abi::{Id, Tag, TraceRecord};

/// Kilobytes that a ring may have: those of the processors lie 2 MB apart.
const MAX_KILOBYTES: usize = 1024;

struct Rings {
    /// Records in each; 0: nothing is traced.
    size: Cell<usize>,
    /// How many were written.
    counts: [Cell<usize>; cpu::MAX],
    records: [Cell<*const Cell<TraceRecord>>; cpu::MAX],
}

static RINGS: Global<Rings> = Global::new(Rings {
    size: Cell::new(0),
    counts: [const { Cell::new(0) }; cpu::MAX],
    records: [const { Cell::new(null()) }; cpu::MAX],
});

/// Makes the rings, of the size that the command line says, when all processors are there.
pub fn begin(line: &[u8]) {
    let Some(kilobytes) = option(line, b"trace=") else { return };
    let bytes = (kilobytes as usize).min(MAX_KILOBYTES) << 10;
    for cpu in cpu::all() {
        // SAFETY: at boot; the processors' own memory takes the indices below.
        let memory = unsafe { paging::map_processor(cpu::MAX as u8 + cpu.index, bytes) };
        RINGS.records[cpu.index as usize].set(memory.cast());
    }
    RINGS.size.set(bytes / size_of::<TraceRecord>());
}

fn ring(cpu: &Cpu) -> &'static [Cell<TraceRecord>] {
    // SAFETY: `begin` made as many records, zero.
    unsafe { core::slice::from_raw_parts(RINGS.records[cpu.index as usize].get(), RINGS.size.get()) }
}

/// The last `limit` events of a processor, the oldest first.
pub fn last(cpu: &Cpu, limit: usize) -> impl Iterator<Item = TraceRecord> {
    let (end, size) = (RINGS.counts[cpu.index as usize].get(), RINGS.size.get());
    let first = end - end.min(size).min(limit);
    let records = if size > 0 { ring(cpu) } else { &[] };
    (first..end).map(move |number| records[number % size].get())
}

#[inline(always)]
fn note(event: u64, label: u64, thread: Id, partner: Id, word: u64) {
    if ON && RINGS.size.get() > 0 {
        let (records, count) = (ring(cpu()), &RINGS.counts[cpu().index as usize]);
        let event = event | (cpu().index as u64) << RECORD_PROCESSOR_SHIFT | label << RECORD_LABEL_SHIFT;
        let record = TraceRecord { time: rdtsc(), event, thread: thread.0, partner: partner.0, word };
        records[count.get() % records.len()].set(record);
        count.set(count.get() + 1);
    }
}

/// The running thread made a system call. Those of alien threads are `raised`.
#[inline(always)]
pub fn call(thread: Ref<Thread>) {
    if ON && !thread.has(Flags::ALIEN) {
        note(TRACE_CALL, 0, thread.id, Id::NIL, thread.frame().orig_ax.get());
    }
}

/// An interrupt came.
#[inline(always)]
pub fn interrupt(vector: u64) {
    if ON {
        note(TRACE_INTERRUPT, vector, cpu().current.get().map_or(Id::NIL, |thread| thread.id), Id::NIL, 0);
    }
}

/// The kernel goes back to user mode.
#[inline(always)]
pub fn leave(cpu: &Cpu) {
    if ON {
        note(TRACE_LEAVE, 0, cpu.current.get().map_or(Id::NIL, |thread| thread.id), Id::NIL, 0);
    }
}

/// The processor has nothing to do.
#[inline(always)]
pub fn idle() {
    note(TRACE_IDLE, 0, Id::NIL, Id::NIL, 0);
}

/// The processor changes from one thread to another.
#[inline(always)]
pub fn switch(from: Option<Ref<Thread>>, to: Ref<Thread>) {
    if ON {
        note(TRACE_SWITCH, 0, to.id, from.map_or(Id::NIL, |from| from.id), 0);
    }
}

/// A message reaches a thread.
#[inline(always)]
pub fn message(from: Id, to: Id, tag: Tag) {
    note(TRACE_MESSAGE, tag.label() as u64, from, to, tag.0);
}

/// A message of the kernel's is on its way to a thread's pager or handler.
#[inline(always)]
pub fn raised(thread: Ref<Thread>, to: Id, message: Message) {
    if ON {
        let event = if message.tag.kind() == KIND_PAGE_FAULT { TRACE_FAULT } else { TRACE_EXCEPTION };
        note(event, message.tag.label() as u64, thread.id, to, message.words[0]);
    }
}
