// SPDX-License-Identifier: GPL-2.0-only
//! The machine of the host tests, in place of `arch`: two processors that take turns in one thread
//! of the host.
//!
//! Page tables, PCIDs, descriptors, states and the fast paths' tables are the kernel's own. Control
//! registers and TLBs (`regs`), timers and inter-processor interrupts (`apic`), and the entries
//! (`entry`) are emulated. Physical memory is the host's, one to one. Time advances only when the
//! machine advances it. Interrupts occur where the kernel enables them, with a random frequency. A
//! seed reproduces a run.

#[path = "../../kernel/src/arch/x86_64/acpi.rs"]
pub mod acpi;
#[path = "../../kernel/src/arch/x86_64/clock.rs"]
pub mod clock;
#[path = "../../kernel/src/arch/x86_64/compat.rs"]
pub mod compat;
#[path = "../../kernel/src/arch/x86_64/cpu.rs"]
pub mod cpu;
#[path = "../../kernel/src/arch/x86_64/direct.rs"]
pub mod direct;
#[path = "../../kernel/src/arch/x86_64/entry/fast.rs"]
pub mod fast;
#[path = "../../kernel/src/arch/x86_64/fpu.rs"]
pub mod fpu;
#[path = "../../kernel/src/arch/x86_64/frequency.rs"]
pub mod frequency;
#[path = "../../kernel/src/arch/x86_64/kernel_map.rs"]
pub mod kernel_map;
#[path = "../../kernel/src/arch/x86_64/lookup.rs"]
pub mod lookup;
#[path = "../../kernel/src/arch/x86_64/multiboot.rs"]
pub mod multiboot;
#[path = "../../kernel/src/arch/x86_64/paging.rs"]
pub mod paging;
#[path = "../../kernel/src/arch/x86_64/print.rs"]
pub mod print;
#[path = "../../kernel/src/arch/x86_64/screen.rs"]
pub mod screen;
#[path = "../../kernel/src/arch/x86_64/segments.rs"]
pub mod segments;
#[path = "../../kernel/src/arch/x86_64/serial.rs"]
pub mod serial;
#[path = "../../kernel/src/arch/x86_64/tables.rs"]
pub mod tables;
#[path = "../../kernel/src/arch/x86_64/x2apic.rs"]
pub mod x2apic;

use crate::base::{facts, Global, PhysAddr, Ref, VirtAddr};
use crate::ipc::across;
use crate::object::{task, Task, TaskNumber, Thread, PAGE, POOL};
use crate::percpu::lock;
use crate::random::Random;
use crate::sched;
use crate::sys::{leave, tasks};
use core::arch::asm;
use core::cell::{Cell, RefCell};
use cpu::Cpu;
use keel_abi::ranges::Range;
use std::alloc::{alloc_zeroed, Layout};
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, OnceLock};

/// Physical memory is mapped at its own address.
pub const DIRECT: u64 = 0;
/// The kernel too.
pub const OFFSET: u64 = 0;
/// Processors.
pub const PROCESSORS: usize = 2;
/// Bytes of the pool, and of user memory.
const POOL_BYTES: usize = 48 << 20;
const USER_BYTES: usize = 8 << 20;
/// Bytes of a large page: both begin at one.
const LARGE_PAGE: usize = 2 << 20;

/// Kernel address of physical memory.
pub fn direct(physical: PhysAddr) -> *mut u8 {
    physical.raw() as *mut u8
}

/// Physical address of what `direct` leads to.
pub fn direct_physical(address: *const u8) -> PhysAddr {
    PhysAddr::new(address as u64)
}

/// Page-table entries by tag, level and address.
type Translations = BTreeMap<(u64, u8, u64), u64>;

/// The state of the machine outside the kernel's own structures.
struct State {
    time: Cell<u64>,
    /// The processor whose registers are accessed.
    acting: Cell<usize>,
    cr3: [Cell<u64>; PROCESSORS],
    timers: [Cell<u64>; PROCESSORS],
    kicked: [Cell<bool>; PROCESSORS],
    /// The TLB of each processor.
    translations: [RefCell<Translations>; PROCESSORS],
    /// One in this many polls for interrupts finds some; 0: none does.
    disturbed: Cell<u64>,
    /// The thread that then becomes ready, if any.
    intruder: Cell<Option<Ref<Thread>>>,
    /// Polls for interrupts.
    polls: Cell<u64>,
    /// The address to which the second processor writes then if it runs, and the number of its
    /// writes.
    neighbour: Cell<Option<u64>>,
    writes: Cell<u64>,
    random: Random,
    console: RefCell<Vec<u8>>,
}

static STATE: Global<State> = Global::new(State {
    time: Cell::new(0),
    acting: Cell::new(0),
    cr3: [const { Cell::new(0) }; PROCESSORS],
    timers: [const { Cell::new(u64::MAX) }; PROCESSORS],
    kicked: [const { Cell::new(false) }; PROCESSORS],
    translations: [const { RefCell::new(BTreeMap::new()) }; PROCESSORS],
    disturbed: Cell::new(0),
    intruder: Cell::new(None),
    polls: Cell::new(0),
    neighbour: Cell::new(None),
    writes: Cell::new(0),
    random: Random::new(1),
    console: RefCell::new(Vec::new()),
});

static LOCK: Mutex<()> = Mutex::new(());
/// The first byte of user memory.
static MEMORY: OnceLock<u64> = OnceLock::new();

/// The machine, for one test at a time.
pub struct Machine(#[allow(dead_code)] MutexGuard<'static, ()>);

/// Runs the steps of a history. If one panics, prints its number and the seed.
pub fn each_step(history: &str, seed: u64, steps: u64, mut take: impl FnMut(u64)) {
    for step in 0..steps {
        let told = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| take(step)));
        if let Err(cause) = told {
            eprintln!("{history}: seed {seed}, step {step}");
            std::panic::resume_unwind(cause);
        }
    }
}

/// Deletes a task and its clan, inner tasks first, with all their lthreads.
pub fn delete_with_clan(top: Ref<Task>) {
    unsafe { tasks::delete_lthreads(top) };
    while task::innermost(top) != top {
        unsafe { tasks::delete(task::innermost(top)) };
    }
    unsafe { tasks::delete(top) };
}

impl Machine {
    /// The machine, with the kernel set up in it.
    pub fn take() -> Machine {
        // After a failed test the state of the kernel is not reliable.
        let machine = Machine(LOCK.lock().expect("the test before left a sound kernel"));
        MEMORY.get_or_init(start);
        machine.act(0);
        machine.write_beside(None);
        STATE.disturbed.set(0);
        STATE.intruder.set(None);
        machine
    }

    /// The user memory.
    pub fn memory(&self) -> core::ops::Range<u64> {
        let start = *MEMORY.get().expect("`take` made it");
        start..start + USER_BYTES as u64
    }

    /// From now on the kernel runs on this processor.
    pub fn act(&self, processor: usize) -> &'static Cpu {
        act(processor)
    }

    /// One in this many polls for interrupts finds some (0: none), and then perhaps this thread
    /// becomes ready.
    pub fn disturb(&self, one_in: u64, intruder: Option<Ref<Thread>>) {
        STATE.disturbed.set(one_in);
        STATE.intruder.set(intruder);
    }

    /// The number of polls for interrupts: a measure of the kernel's work.
    pub fn polls(&self) -> u64 {
        STATE.polls.get()
    }

    /// Kernel time in ns.
    pub fn now(&self) -> u64 {
        clock::now()
    }

    /// Advances the time. The acting processor takes its timer's interrupt if it is due.
    pub fn pass(&self, ns: u64) {
        STATE.time.set(STATE.time.get() + ns);
        due();
    }

    /// Advances the time up to `time`, but not beyond the next timer interrupt.
    pub fn pass_until(&self, time: u64) {
        let next = STATE.timers[STATE.acting.get()].get().clamp(self.now(), time);
        self.pass(next - self.now());
    }

    /// A user access by the running thread of the acting processor: by its TLB, otherwise by a walk
    /// of the page tables. Panics if the TLB entry allows more than the page tables. Returns
    /// whether the access succeeds.
    pub fn touch(&self, address: u64, write: bool) -> bool {
        touch(address, write)
    }

    /// A user access to a linear address by the acting processor, whatever tables it has loaded: by
    /// its TLB, otherwise by a walk of these tables. Returns the physical address, and the entry
    /// with the rights of all levels; or none, a page fault.
    pub fn access(&self, linear: u64, write: bool) -> Option<(u64, u64)> {
        access(linear, write)
    }

    /// Whenever the kernel polls for interrupts on the first processor, the second one writes there
    /// if it is in user mode.
    pub fn write_beside(&self, address: Option<u64>) {
        STATE.neighbour.set(address);
        STATE.writes.set(0);
    }

    /// The number of these writes.
    pub fn writes(&self) -> u64 {
        STATE.writes.get()
    }

    /// Checks all of the kernel's invariants; the error describes a violated one.
    pub fn check(&self) -> Result<(), String> {
        STATE.console.borrow_mut().clear();
        match crate::debugger::check::run() {
            0 => Ok(()),
            _ => Err(String::from_utf8_lossy(&STATE.console.borrow()).into_owned()),
        }
    }

    /// An entry into the kernel on a processor, as code with all locks expects it. Returns the
    /// thread that runs afterwards.
    pub fn kernel(&self, processor: usize, serve: impl FnOnce(&Cpu)) -> Ref<Thread> {
        let cpu = act(processor);
        lock::enter(cpu);
        lock::take_all_locks(cpu);
        if STATE.kicked[processor].take() {
            sched::program(cpu);
        }
        serve(cpu);
        leave(cpu)
    }

    /// The running thread of a processor makes the system call in its frame.
    pub fn system_call(&self, processor: usize) -> Ref<Thread> {
        let cpu = act(processor);
        lock::enter(cpu);
        if !across::wait(cpu) && !across::send(cpu) {
            lock::take_all_locks(cpu);
            crate::sys::syscall::enter(cpu.current.get().expect("it makes a call"));
        }
        leave(cpu)
    }
}

/// A user access by the running thread of the acting processor (`Machine::touch`).
fn touch(address: u64, write: bool) -> bool {
    let processor = STATE.acting.get();
    let cpu = cpu::cpu();
    let thread = cpu.current.get().expect("a thread runs");
    assert_eq!(cpu.space.get(), thread.space.get(), "the space of the thread that runs is loaded");
    let tag = STATE.cr3[processor].get() % paging::span(0);
    let mut held = STATE.translations[processor].borrow_mut();
    let find = || crate::mm::space::find(thread.task, VirtAddr::new(keel_abi::fpage::number(address))).ok();
    let place = |level| (tag, level, address & !(paging::span(level) - 1));
    let known = (0..3).find_map(|level| Some((level, *held.get(&place(level))?)));
    if let Some((level, entry)) = known.filter(|(_, entry)| !write || entry & paging::WRITE != 0) {
        let leaf = find().unwrap_or_else(|| panic!("{address:#x} is used after it was taken away"));
        const SAME: u64 = paging::ADDRESS | paging::PRESENT | paging::USER | paging::PWT | paging::PCD;
        assert_eq!((leaf.level, leaf.entry & SAME), (level, entry & SAME), "{address:#x} is another page now");
        let less = |bit: u64| leaf.entry & bit < entry & bit;
        assert!(!less(paging::WRITE), "{address:#x} is written after that right was taken away");
        assert!(entry & paging::NO_EXECUTE >= leaf.entry & paging::NO_EXECUTE, "{address:#x} may still be executed");
        assert!(!write || leaf.entry & paging::ACCESSED != 0, "{address:#x} is used without being marked as accessed");
        if write {
            leaf.cell().set(leaf.entry | paging::DIRTY);
        }
        return true;
    }
    let Some(leaf) = find().filter(|leaf| !write || leaf.entry & paging::WRITE != 0) else { return false };
    let used = if write { paging::ACCESSED | paging::DIRTY } else { paging::ACCESSED };
    leaf.cell().set(leaf.entry | used);
    held.insert(place(leaf.level), leaf.entry | used);
    true
}

/// A user access to a linear address (`Machine::access`).
fn access(linear: u64, write: bool) -> Option<(u64, u64)> {
    let processor = STATE.acting.get();
    let tag = STATE.cr3[processor].get() % paging::span(0);
    let mut held = STATE.translations[processor].borrow_mut();
    let place = |level| (tag, level, linear & !(paging::span(level) - 1));
    let found = |level, entry: u64| Some(((entry & paging::ADDRESS) + linear % paging::span(level), entry));
    let known = (0..3).find_map(|level| Some((level, *held.get(&place(level))?)));
    // The first write by an entry is noted in the tables.
    let written = paging::WRITE | paging::DIRTY;
    if let Some((level, entry)) = known.filter(|(_, entry)| !write || entry & written == written) {
        return found(level, entry);
    }
    // A page fault drops what the processor has of the address.
    (0..3).for_each(|level| {
        held.remove(&place(level));
    });
    let (mut table, mut rights) = (STATE.cr3[processor].get() & paging::ADDRESS, paging::WRITE);
    for level in (0..=paging::TOP_LEVEL).rev() {
        let slot = paging::slot(VirtAddr::new(linear), level);
        // SAFETY: page tables are memory of the pool, one to one.
        let cell = unsafe { &*(table as *const Cell<u64>).add(slot) };
        let entry = cell.get();
        rights &= entry;
        if entry & (paging::PRESENT | paging::USER) != paging::PRESENT | paging::USER
            || write && rights & paging::WRITE == 0
        {
            return None;
        }
        let leaf = level == 0 || entry & paging::LARGE != 0;
        let used = if leaf && write { paging::ACCESSED | paging::DIRTY } else { paging::ACCESSED };
        cell.set(entry | used);
        if leaf {
            let entry = (entry | used) & !paging::WRITE | rights;
            held.insert(place(level), entry);
            return found(level, entry);
        }
        table = entry & paging::ADDRESS;
    }
    None
}

/// The second processor's write, if one is set and the processor is in user mode.
fn neighbour_writes() {
    let Some(address) = STATE.neighbour.get().filter(|_| STATE.acting.get() == 0) else { return };
    let cpu = act(1);
    if cpu.current.get().is_some_and(|thread| thread.space.get() == cpu.space.get()) && touch(address, true) {
        STATE.writes.set(STATE.writes.get() + 1);
    }
    act(0);
}

fn act(processor: usize) -> &'static Cpu {
    let cpu = cpu::all().nth(processor).expect("it was made");
    STATE.acting.set(processor);
    /// arch_prctl and its ARCH_SET_GS (Linux, asm/prctl.h). No program of the host's uses gs.
    const CALL: (u64, u64) = (158, 0x1001);
    let status: i64;
    // SAFETY: sets the base of gs, by which the kernel finds its processor's structure.
    unsafe {
        asm!("syscall", inlateout("rax") CALL.0 => status, in("rdi") CALL.1, in("rsi") cpu.address.get(),
            lateout("rcx") _, lateout("r11") _, options(nostack))
    };
    assert_eq!(status, 0, "gs can be set");
    cpu
}

fn leave(cpu: &'static Cpu) -> Ref<Thread> {
    leave::leave(cpu);
    lock::release(cpu);
    cpu.current.get().expect("a thread runs")
}

/// Zeroed memory below 4 GB forever, as the pool's is; it begins at a large page.
fn low_memory(bytes: usize) -> u64 {
    // Linux's numbers (asm/unistd_64.h, asm-generic/mman-common.h, asm/mman.h).
    const MMAP: u64 = 9;
    const READ_WRITE: u64 = 3;
    const PRIVATE_ANONYMOUS_32BIT: u64 = 0x62;
    let address: i64;
    // SAFETY: a mapping at a place that is free; the call changes rcx and r11 besides.
    unsafe {
        asm!("syscall", inlateout("rax") MMAP => address, in("rdi") 0, in("rsi") bytes + LARGE_PAGE, in("rdx") READ_WRITE,
            in("r10") PRIVATE_ANONYMOUS_32BIT, in("r8") -1, in("r9") 0, lateout("rcx") _, lateout("r11") _);
    }
    assert!(address > 0, "mmap: error {}", -address);
    (address as u64).next_multiple_of(LARGE_PAGE as u64)
}

/// The boot: memory, processors, sigma0 and the root task, without lthreads.
fn start() -> u64 {
    let memory = |bytes, alignment| {
        let layout = Layout::from_size_align(bytes, alignment).expect("a layout");
        // SAFETY: its size is not zero.
        unsafe { alloc_zeroed(layout) }
    };
    let (pool, users) = (low_memory(POOL_BYTES), memory(USER_BYTES, LARGE_PAGE) as u64);
    let set = |start, bytes: usize| {
        let mut set = facts::Memory::default();
        set.insert(Range::new(start, start + bytes as u64)).expect("it is empty");
        set
    };
    let ram = set(users, USER_BYTES);
    let facts = facts::Facts { ram, forbidden: set(pool, POOL_BYTES), users: ram };
    assert!(facts::FACTS.set(facts).is_ok(), "the machine boots once");
    serial::PORT.set(serial::COM[0]);
    for index in 0..PROCESSORS as u8 {
        // SAFETY: memory of this size, forever.
        let cpu = unsafe { cpu::create(memory(size_of::<cpu::Processor>(), PAGE).cast(), index, index as u32) };
        cpu.pcids.on.set(true);
        cpu::add(cpu);
    }
    let boot = act(0);
    clock::init(1_000_000_000);
    lock::all_locks_from_idle(boot);
    // SAFETY: the memory is the pool's, and the table's, forever.
    unsafe {
        POOL.init(PhysAddr::new(pool), PhysAddr::new(pool + POOL_BYTES as u64));
        task::init(memory(task::TABLE_BYTES, PAGE));
    }
    // The kernel's entries in the upper half, which lead nowhere, and its table below the last one.
    let table = POOL.take_zeroed(Ref::to(&POOL.root), crate::object::Kind::Table).expect("the pool is empty");
    POOL.word(table, paging::IMAGE_SLOT).set(KERNEL_ENTRY);
    let kernels = (&raw mut boot_pml4).cast::<u64>();
    // SAFETY: slots of the table, at which no task looks yet.
    unsafe {
        kernels.add(paging::UPPER_SLOTS.start).write(KERNEL_ENTRY);
        kernels.add(paging::ENTRIES - 1).write(POOL.physical(table).raw() | paging::PRESENT | paging::WRITE);
    }
    lock::release(boot);
    for number in [TaskNumber::SIGMA0, TaskNumber::ROOT] {
        let (quota, area) = (keel_abi::call::TASK_SHARED_QUOTA, keel_abi::memory::AREA_DEFAULT);
        let plan = task::Plan {
            number,
            chief: None,
            mcp: u8::MAX,
            quota,
            area,
            upper: number == TaskNumber::ROOT,
            supervisor: false,
            resident: false,
        };
        tasks::create(&plan).expect("the pool is large enough for two tasks");
    }
    users
}

/// Serves the acting processor's timer if its time has come.
fn due() {
    let timer = &STATE.timers[STATE.acting.get()];
    if timer.get() <= clock::now() {
        timer.set(u64::MAX);
        leave::timer_interrupt();
    }
}

/// An entry of the kernel's own, which nobody may follow.
const KERNEL_ENTRY: u64 = paging::ADDRESS | paging::PRESENT | paging::WRITE;

/// The kernel's own tables.
#[no_mangle]
#[allow(non_upper_case_globals)]
pub static mut boot_pml4: [u64; paging::ENTRIES] = [0; paging::ENTRIES];

/// Registers and TLBs.
pub mod regs {
    use super::{paging, VirtAddr, STATE};
    use core::cell::RefMut;

    pub const CR0_TS: u64 = 1 << 3;
    pub const CR4_TSD: u64 = 1 << 2;
    pub const CR4_PGE: u64 = 1 << 7;
    pub const CR4_PCIDE: u64 = 1 << 17;
    pub const MSR_GS_BASE: u32 = 0;
    pub const MSR_KERNEL_GS_BASE: u32 = 1;
    pub const MSR_STAR: u32 = 2;
    pub const MSR_CSTAR: u32 = 3;
    pub const MSR_SFMASK: u32 = 4;
    pub const MSR_SYSENTER_CS: u32 = 5;
    /// Line status: the transmitter takes a byte.
    const READY: u8 = 0x20;

    fn held() -> RefMut<'static, super::Translations> {
        STATE.translations[STATE.acting.get()].borrow_mut()
    }

    fn drop_address(tag: u64, address: u64, levels: u8) {
        let mut held = held();
        for level in 0..levels {
            held.remove(&(tag, level, address & !(paging::span(level) - 1)));
        }
    }

    pub fn invlpg(address: VirtAddr) {
        drop_address(read_cr3() % paging::span(0), address.raw(), paging::TOP_LEVEL);
    }

    /// A processor may cache a large page in parts, and need only drop the part with this address.
    pub unsafe fn invpcid(tag: u64, address: VirtAddr) {
        drop_address(tag, address.raw(), 1);
    }

    pub fn read_cr3() -> u64 {
        STATE.cr3[STATE.acting.get()].get()
    }

    pub unsafe fn write_cr3(value: u64) {
        let space = value & !crate::percpu::pcid::NOFLUSH;
        STATE.cr3[STATE.acting.get()].set(space);
        if value & crate::percpu::pcid::NOFLUSH == 0 {
            held().retain(|(tag, ..), _| *tag != space % paging::span(0));
        }
    }

    pub fn rdtsc() -> u64 {
        STATE.time.get()
    }

    pub unsafe fn outb(port: u16, value: u8) {
        if port == super::serial::COM[0] {
            STATE.console.borrow_mut().push(value);
        }
    }

    pub unsafe fn inb(_: u16) -> u8 {
        READY
    }

    pub unsafe fn wrmsr(_: u32, _: u64) {}
    pub fn clts() {}
    pub fn read_sp() -> u64 {
        0
    }
    pub fn halt() -> ! {
        panic!("the kernel halts")
    }

    macro_rules! without_effect {
        ($($read:ident $write:ident)*) => {
            $(pub fn $read() -> u64 { 0 }
            pub unsafe fn $write(_: u64) {})*
        };
    }
    without_effect!(read_cr0 write_cr0 read_cr2 write_dr0 read_cr4 write_cr4 read_dr1 write_dr1 read_dr2 write_dr2
        read_dr3 write_dr3 read_dr7 write_dr7);
}

/// Timers, interrupt lines, and requests between processors.
pub mod apic {
    use super::{cpu, facts, paging, switch, Range, STATE};
    use core::sync::atomic::Ordering;

    pub const TIMER_VECTOR: u64 = 0xf0;
    pub const MSI_VECTORS: u64 = 64;
    /// The number of lines.
    const LINES: u64 = 24;

    pub fn set_timer(time: u64) {
        STATE.timers[STATE.acting.get()].set(time);
    }

    /// A processor that must write its state back does so at once. Other requests wait until it
    /// acts.
    pub fn kick(target: u32) {
        let cpu = cpu::all().find(|cpu| cpu.apic_id == target).expect("it runs");
        if cpu.write_back_request.load(Ordering::SeqCst) {
            let acting = STATE.acting.replace(cpu.index as usize);
            switch::write_back_loaded(cpu);
            paging::leave(cpu);
            cpu.write_back_request.store(false, Ordering::SeqCst);
            STATE.acting.set(acting);
        }
        STATE.kicked[cpu.index as usize].set(true);
    }

    pub fn has_gsi(line: u64) -> bool {
        line < LINES
    }

    pub fn configure(_: u32, mode: u64, _: u32) -> bool {
        mode == keel_abi::call::IRQ_MODE_LEVEL
    }

    pub fn message(target: u32, number: u64) -> Option<(u64, u64)> {
        Some((target as u64, number))
    }

    pub fn register_pages() -> impl Iterator<Item = Range> {
        core::iter::empty()
    }

    pub fn set_masked(_: u32, _: bool) {}
    pub fn end_of_interrupt() {}
    pub fn find(_: u64, _: &facts::Memory) {}
    pub fn calibrate() {}
}

/// Nothing is measured: time is the machine's own.
pub mod reference {
    use super::{facts, frequency::Answer};

    pub fn find_tsc(_: u64, _: &facts::Memory) -> Answer {
        Answer { source: "", hz: 0 }
    }
}

/// The processors' features: all except XSAVE.
pub mod cpuid {
    #[derive(Clone, Copy, PartialEq)]
    pub enum Feature {
        Pcid,
        Xsave,
        FsGsBase,
        InvPcid,
        Smep,
        Smap,
        LargePages,
        ConstantTsc,
    }

    pub const XSAVE: u32 = 13;

    pub fn init() {}
    pub fn has(feature: Feature) -> bool {
        feature != Feature::Xsave
    }
    pub fn physical_bits() -> u32 {
        keel_abi::fpage::HALF_SHIFT as u32
    }
    pub fn leaf(_: u32, _: u32) -> [u32; 4] {
        [0; 4]
    }
}

/// The other processors run from the beginning.
pub mod boot {
    pub fn has_segment_limits() -> bool {
        true
    }

    pub mod smp {
        use crate::arch::multiboot::Information;

        pub fn start_boot_processor() {}
        pub fn start_others(_: &Information, _: usize) {}
    }
}

/// Entries and exits: the state of a thread that is in the processor.
pub mod switch {
    use super::{cpu, fpu, paging, tables, STATE};
    use crate::base::refs::Ref;
    use crate::object::thread::Thread;
    use crate::sched;
    use cpu::{cpu, Cpu};
    use keel_abi::fpage::canonical;

    pub const FLAGS_FIXED: u64 = 1 << 9 | 1 << 1;
    pub const FLAGS_NEED_IRET: u64 = 0;
    pub const FLAGS_CLEARED: u64 = 0;
    pub const NO_CALL: u64 = u64::MAX;
    /// The longest time in ns between two polls for interrupts.
    const MOMENT: u64 = 2_000;

    pub fn wait_for_interrupt() {
        let end = STATE.timers[STATE.acting.get()].get();
        assert!(end != u64::MAX, "no thread will ever run on processor {}", STATE.acting.get());
        let cpu = cpu();
        crate::percpu::lock::all_locks_from_idle(cpu);
        STATE.time.set(STATE.time.get().max(end));
        super::due();
        crate::percpu::lock::release(cpu);
    }

    pub fn poll() {
        STATE.polls.set(STATE.polls.get() + 1);
        super::neighbour_writes();
        let one_in = STATE.disturbed.get();
        if one_in == 0 || STATE.random.below(one_in) != 0 {
            return;
        }
        STATE.time.set(STATE.time.get() + STATE.random.below(MOMENT));
        super::due();
        let waits = |thread: &Ref<Thread>| thread.state() == crate::object::thread::State::Inactive;
        if let Some(thread) = STATE.intruder.get().filter(waits) {
            sched::wake(thread);
        }
    }

    pub fn load(cpu: &Cpu, thread: Ref<Thread>) -> bool {
        charge(cpu, thread);
        thread.frame().ip.get() == canonical(thread.frame().ip.get())
    }

    pub fn load_small(cpu: &Cpu, thread: Ref<Thread>) -> bool {
        charge(cpu, thread);
        true
    }

    pub fn charge(cpu: &Cpu, thread: Ref<Thread>) {
        if cpu.loaded.get() != Some(thread) {
            cpu.loaded_changed();
            cpu.loaded.set(Some(thread));
            thread.consumed.set(thread.consumed.get().wrapping_sub(STATE.time.get()));
            paging::switch(cpu, thread.space.get(), thread.half.get());
            tables::select_ports(cpu, thread.task);
            fpu::change(cpu, thread);
        }
    }

    pub fn save_loaded(thread: Ref<Thread>) -> u64 {
        thread.consumed.set(thread.consumed.get().wrapping_add(STATE.time.get()));
        0
    }

    pub fn consumed(thread: Ref<Thread>) -> u64 {
        let running = cpu::of(thread).loaded.get() == Some(thread);
        thread.consumed.get().wrapping_add(if running { STATE.time.get() } else { 0 })
    }

    pub fn write_back_loaded(cpu: &Cpu) {
        cpu.loaded_changed();
        fpu::put_away(cpu);
    }
}

/// The switch to the first thread.
pub mod entry {
    pub fn start() -> ! {
        panic!("the host tests do not boot")
    }
}
