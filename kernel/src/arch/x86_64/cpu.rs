// SPDX-License-Identifier: GPL-2.0-only
//! What belongs to one processor, found through gs.

use super::{lookup::LookupCache, regs::wrmsr, regs::MSR_GS_BASE, tables::Stack, tables::Tables};
use crate::percpu::{deadlines::*, lock, lock::Lock, pcid::Pcids, runqueue::*};
use crate::{base::abi::*, base::*, object::thread::*};
use core::{arch::asm, mem::offset_of, ptr::null_mut, sync::atomic::*};

object! {
    /// The first fields are above the kernel stack, which is below this structure.
    #[repr(C)]
    pub struct Cpu const (index: u8, apic_id: u32) {
        /// What the first instructions and the hardware push at an exception or interrupt: a word,
        /// vector, error code,
        pub entry_words: [Cell<u64>; 3] = [const { Cell::new(0) }; 3],
        /// and five words in the order of IRET, which are also the checked words to leave with.
        pub exit_ip: Cell<u64> = Cell::new(0),
        /// See exit_ip.
        pub exit_cs: Cell<u64> = Cell::new(0),
        /// See exit_ip.
        pub exit_flags: Cell<u64> = Cell::new(0),
        /// See exit_ip.
        pub exit_sp: Cell<u64> = Cell::new(0),
        /// See exit_ip.
        pub exit_ss: Cell<u64> = Cell::new(0),
        /// Its own address, the top of the kernel stack.
        pub address: Cell<u64> = Cell::new(0),
        /// The user's stack pointer for a moment.
        pub scratch: Cell<u64> = Cell::new(0),
        /// Whether sysret may be used.
        pub exit_sysret: Cell<u64> = Cell::new(0),
        /// In the debug build, TSC ticks: the fast path of the next SYSCALL takes that
        /// long before it takes the lock.
        pub delay: Cell<u64> = Cell::new(0),
        /// Its number.
        pub index: u8 = index,
        /// Its local APIC's id.
        pub apic_id: u32 = apic_id,
        /// Taken at every entry into the kernel.
        pub lock: Lock = Lock::new(),
        /// It waits for a lock.
        pub is_spinning: AtomicBool = AtomicBool::new(false),
        /// It shall put its registers' content into memory (`lock::write_back`).
        pub write_back_request: AtomicBool = AtomicBool::new(false),
        /// It holds the locks of all processors.
        pub has_all_locks: Cell<bool> = Cell::new(false),
        /// Physical address of the top table of the space that is loaded, and perhaps
        /// `paging::STALE`.
        pub space: Cell<PhysAddr> = Cell::new(PhysAddr::NONE),
        /// Top table of the supervisor task whose upper half that space shows, or none.
        pub half: Cell<PhysAddr> = Cell::new(PhysAddr::NONE),
        /// The last one that was not none, while it may hold global translations of it.
        pub half_held: Cell<PhysAddr> = Cell::new(PhysAddr::NONE),
        /// What its descriptors reach.
        pub reach: Cell<Reach> = Cell::new(Reach::NONE),
        /// The spaces whose translations it may hold.
        pub pcids: Pcids = Pcids::new(),
        /// Its descriptors and task state.
        pub tables: Tables = Tables::new(),
        /// `Thread::state_word` of a thread of this processor that can take the processor over at
        /// once: it waits for anybody,
        pub open_wait: u64 = state_word(State::Receiving, true, index, Flags::NONE),
        /// for one thread,
        pub closed_wait: u64 = state_word(State::Receiving, false, index, Flags::NONE),
        /// for its handler's answer, as an alien thread.
        pub fault_wait: u64 = state_word(State::Faulted, false, index, Flags::ALIEN),
        /// The lowest priority with which that can be: nobody ready has one as high, and no time
        /// slice is to start or end.
        pub preemption_threshold: Cell<u16> = Cell::new(NOBODY),
        /// 1 if the FPU may be on although the running thread has no state: it borrows that of
        /// `fpu_owner`. The fast paths to native threads, which take for granted that it is off,
        /// read both as one word, above every priority then.
        pub fpu_lent: Cell<u16> = Cell::new(0),
        /// Partners of the fast paths.
        pub lookup_cache: LookupCache = LookupCache::new(),
        /// The running thread. Whenever the processor is in user mode there is one.
        pub current: Cell<Option<Ref<Thread>>> = Cell::new(None),
        /// While the lock is with a pair: the handler of direct calls.
        pub direct: Cell<Option<Ref<Thread>>> = Cell::new(None),
        /// The alien thread whose direct call the running thread serves.
        pub client: Cell<Option<Ref<Thread>>> = Cell::new(None),
        /// While it waits for the locks, that thread was given another ip (`Cpu::arrived`).
        pub redirected: Cell<bool> = Cell::new(false),
        /// Whose fs and gs bases are in the processor.
        pub loaded: Cell<Option<Ref<Thread>>> = Cell::new(None),
        /// A ready thread that is not in the run queue: the partner of the last IPC.
        pub handoff: Cell<Option<Ref<Thread>>> = Cell::new(None),
        /// Whose FPU state is in the processor.
        pub fpu_owner: Cell<Option<Ref<Thread>>> = Cell::new(None),
        /// Whether the next FPU instruction traps.
        pub fpu_off: Cell<bool> = Cell::new(false),
        /// Whether debug registers or thread-local descriptors of a thread are loaded.
        pub debug_tls_loaded: Cell<bool> = Cell::new(false),
        /// The other ready threads.
        pub queue: RunQueue<Thread> = RunQueue::new(),
        /// Timeouts, timers, the end of the time slice.
        pub deadlines: Deadlines<Due> = Deadlines::new(),
        /// End of the time slice, if somebody waits for it.
        pub slice: Deadline<Due> = Deadline::new(),
        /// Whose it is, if it is anybody's.
        pub slice_owner: Cell<Id> = Cell::new(Id::NIL),
        /// The time slice has ended, or was given up.
        pub slice_over: Cell<bool> = Cell::new(false),
        /// The running thread was given the processor by thread_switch.
        pub donated: Cell<bool> = Cell::new(false),
        /// The deadline for which the hardware's timer is set.
        pub programmed: Cell<u64> = Cell::new(u64::MAX),
    }
}

/// Processors that are used at most.
pub const MAX: usize = 16;
/// Bytes of a processor's kernel stack.
pub const STACK: usize = 32 << 10;
/// Bytes of the stack that boot runs on: copies of the memory map take most of it, some 42 KB.
pub const BOOT_STACK: usize = 64 << 10;

/// A processor's memory. The page below its stack is not mapped.
#[repr(C)]
pub struct Processor {
    stack: Stack<STACK>,
    /// What the kernel keeps of it.
    pub cpu: Cpu,
}

// What entry.s and `tables::init` rely on: the kernel stack ends at the Cpu structure, exceptions
// push what they push below `Cpu::address`, aligned to 16 bytes, and IRET reads five words of that.
const _: () = assert!(offset_of!(Processor, cpu) == STACK && align_of::<Cpu>() % 16 == 0);
const _: () = assert!(offset_of!(Cpu, exit_ip) == 3 * 8 && offset_of!(Cpu, address) == 8 * 8);

/// The processors that run, in the order of their numbers.
static ALL: [AtomicPtr<Cpu>; MAX] = [const { AtomicPtr::new(null_mut()) }; MAX];
static COUNT: AtomicU32 = AtomicU32::new(0);

/// Makes the structure of a processor in `memory`, which is its own from then on.
///
/// # Safety
/// `memory` is mapped, zero, and large enough.
pub unsafe fn create(memory: *mut Processor, index: u8, apic_id: u32) -> &'static Cpu {
    // SAFETY: the caller's contract.
    let cpu = unsafe {
        (&raw mut (*memory).cpu).write(Cpu::new(index, apic_id));
        &(*memory).cpu
    };
    cpu.address.set(cpu as *const _ as u64);
    cpu
}

/// From now on it is one of those that `all` names; its number is the next one.
pub fn add(cpu: &'static Cpu) {
    ALL[cpu.index as usize].store(cpu as *const Cpu as *mut Cpu, Ordering::Release);
    COUNT.store(cpu.index as u32 + 1, Ordering::Release);
}

/// How many processors run.
pub fn count() -> u32 {
    COUNT.load(Ordering::Relaxed)
}

/// The processors that run.
pub fn all() -> impl Iterator<Item = &'static Cpu> {
    // SAFETY: `add` put live structures there.
    ALL[..count() as usize].iter().map(|cpu| unsafe { &*cpu.load(Ordering::Acquire) })
}

/// The processor of a thread.
pub fn of(thread: Ref<Thread>) -> &'static Cpu {
    numbered(thread.cpu.get())
}

/// The processor of a number that one of them has.
pub fn numbered(index: u8) -> &'static Cpu {
    // SAFETY: a thread is only moved to processors that run, and numbers come from threads.
    unsafe { &*ALL[index as usize % MAX].load(Ordering::Relaxed) }
}

/// This processor's structure.
pub fn cpu() -> &'static Cpu {
    let address: *const Cpu;
    // SAFETY: gs points to the structure from `tables::init` on, which has its own address.
    unsafe {
        asm!("mov {}, gs:[{}]", out(reg) address, const offset_of!(Cpu, address),
            options(pure, nomem, nostack, preserves_flags));
        &*address
    }
}

/// Likewise, by the descriptor table in use, for a panic: gs may be a user's. It leads to the
/// structure again from here on. `None` where it was not set up yet.
pub fn recover() -> Option<&'static Cpu> {
    let found = all().find(|cpu| cpu.tables.are_loaded())?;
    // SAFETY: as `tables::init` has it.
    unsafe { wrmsr(MSR_GS_BASE, found.address.get()) };
    Some(found)
}

impl Cpu {
    /// The thread that came into the kernel here, if what it came for is to be served. While it
    /// waited for the locks, another processor may have deleted it, or given it another ip: then it
    /// is there already, and never made the call (or fault) that came before.
    pub fn arrived(&self) -> Option<Ref<Thread>> {
        self.current.get().filter(|_| !self.redirected.get())
    }

    /// Returns true if this CPU holds state of a thread: it runs there, or its address space, bases
    /// or FPU state are loaded.
    pub fn holds(&self, thread: Ref<Thread>) -> bool {
        [&self.current, &self.loaded, &self.fpu_owner].iter().any(|who| who.get() == Some(thread))
    }

    /// Something of the loaded thread changed: it is loaded again before it runs on.
    pub fn loaded_changed(&self) {
        if let Some(thread) = self.loaded.take() {
            super::switch::save_loaded(thread);
        }
    }
}

/// Makes another CPU write back what it holds of a thread, if it holds anything. A thread that runs
/// there has then entered the kernel: its registers are in its frame, and it does its exit work
/// before it resumes user mode. All CPU locks are held.
pub fn write_back_elsewhere(thread: Ref<Thread>) {
    let home = of(thread);
    if home.index != cpu().index && home.holds(thread) {
        lock::write_back(home);
    }
}
