// SPDX-License-Identifier: GPL-2.0-only
//! Descriptor tables, task state segment with the port bitmap, system-call registers.
//! The selectors are those that 64-bit Linux programs expect to see.

use super::{cpu, cpu::cpu, cpu::Cpu, cpuid, cpuid::Feature, regs::*, segments, switch::*};
use crate::{base::facts, base::facts::Word, base::*, object::io_space, object::Task, object::TaskNumber};
use core::{arch::asm, mem::offset_of};

/// Kernel code.
pub const KERNEL_CS: u16 = 0x10;
/// Kernel data.
pub const KERNEL_SS: u16 = 0x18;
/// User code, 32 bits.
pub const USER_CS32: u16 = 0x23;
/// User data.
pub const USER_SS: u16 = 0x2b;
/// User code, 64 bits.
pub const USER_CS: u16 = 0x33;
/// Task state segment.
const TSS: u16 = 0x40;
/// First of the three thread-local descriptors.
const TLS_FIRST: usize = 12;
/// Processor number, in the limit of a segment.
const CPU_NUMBER: usize = 15;
/// Descriptors in the table.
const DESCRIPTORS: usize = 16;
/// Bytes of a stack for exceptions that need one of their own.
const IST_STACK: usize = 4096;

/// #DB.
pub const VECTOR_DB: u64 = 1;
/// #UD.
pub const VECTOR_UD: u64 = 6;
/// #NM: the FPU is off.
pub const VECTOR_NM: u64 = 7;
/// #DF.
pub const VECTOR_DF: u64 = 8;
/// #SS: an address beyond the limit of the stack's segment.
pub const VECTOR_SS: u64 = 12;
/// #GP.
pub const VECTOR_GP: u64 = 13;
/// #PF.
pub const VECTOR_PF: u64 = 14;
/// #MC.
pub const VECTOR_MC: u64 = 18;
/// First vector that is no exception.
pub const FIRST_INTERRUPT: u64 = 32;
/// `int 0x80`.
pub const VECTOR_INT80: u64 = 0x80;

object! {
    /// Task state segment (Intel SDM volume 3, 8.7), with the bitmap of ports behind it, which must
    /// start inside the first 64 KB of the segment.
    #[repr(C, align(128))]
    struct State const () {
        words: [Cell<u32>; 25] = [const { Cell::new(0) }; 25],
        reserved: u16 = 0,
        ports: Cell<u16> = Cell::new(NO_PORTS),
        bitmap: [Cell<u64>; io_space::WORDS] = [const { Cell::new(u64::MAX) }; io_space::WORDS],
        /// The processor reads one byte beyond; it must be all ones.
        end: Cell<u64> = Cell::new(u64::MAX),
    }
}

/// Where the stack pointers stand in `State::words`: for entries from user mode, and the first of
/// those for exceptions that need one of their own.
const ENTRY_STACK: usize = 1;
const IST: usize = 9;
/// In a gate: the entry stack, whatever the privilege level was. A supervisor task's stack may be
/// anything.
const ANY_LEVEL: u64 = 4;

/// A stack of that many bytes.
#[repr(C, align(16))]
pub struct Stack<const SIZE: usize>([Cell<u8>; SIZE]);

object! {
    /// A processor's own tables.
    pub struct Tables const () {
        /// The descriptors, by selector / 8.
        pub gdt: [Cell<u64>; DESCRIPTORS] = [const { Cell::new(0) }; DESCRIPTORS],
        /// Number of the task whose ports are in the bitmap, 0 for none.
        pub ports_of: Cell<TaskNumber> = Cell::new(TaskNumber::NONE),
        state: State = State::new(),
        /// Of #DB; of NMI; of #DF and #MC.
        ist: [Stack<IST_STACK>; 3] = [const { Stack([const { Cell::new(0) }; IST_STACK]) }; 3],
    }
}

impl Tables {
    /// Whether this processor uses them.
    pub fn are_loaded(&self) -> bool {
        let mut gdtr: Pointer = 0;
        // SAFETY: the instruction writes ten bytes.
        unsafe { asm!("sgdt [{}]", in(reg) &raw mut gdtr, options(nostack, preserves_flags)) };
        (gdtr >> 16) as u64 == self.gdt.as_ptr() as u64
    }
}

/// The interrupt descriptors are the same on all processors.
static IDT: Global<[[Cell<u64>; 2]; 256]> = Global::new([const { [const { Cell::new(0) }; 2] }; 256]);

/// Where in `Tables` a selector's descriptor lies.
pub const fn descriptor_place(selector: u16) -> usize {
    offset_of!(Tables, gdt) + (selector & !7) as usize
}

/// The same of the thread-local descriptors, after which the processor's number comes.
pub const TLS_PLACE: usize = descriptor_place(8 * TLS_FIRST as u16);

/// Where in `Tables` the bitmap's offset lies.
pub const PORTS: usize = offset_of!(Tables, state) + offset_of!(State, ports);
/// A bitmap offset beyond the segment's limit: no port is allowed.
pub const NO_PORTS: u16 = u16::MAX;
/// Limit of the TSS.
const TSS_LIMIT: u64 = (offset_of!(State, end)) as u64;
/// Offset of the bitmap.
pub const PORTS_OFFSET: u16 = offset_of!(State, bitmap) as u16;

/// Fills and loads this processor's tables; from here on gs points to its structure.
pub fn init(cpu: &Cpu) {
    fill_gdt(cpu);
    if cpu.index == 0 {
        fill_idt(cpu);
    }
    // The words of an entry begin below the end of `Cpu::exit_ss`.
    let top = cpu.exit_ss.as_ptr() as u64 + 8;
    set_stack(cpu, ENTRY_STACK, top);
    set_stack(cpu, IST + 2 * (ANY_LEVEL as usize - 1), top);
    for (number, stack) in cpu.tables.ist.iter().enumerate() {
        set_stack(cpu, IST + 2 * number, stack.0.as_ptr() as u64 + IST_STACK as u64);
    }
    let gdtr: Pointer = (cpu.tables.gdt.as_ptr() as u128) << 16 | (DESCRIPTORS * 8 - 1) as u128;
    let idtr: Pointer = (IDT.as_ptr() as u128) << 16 | (256 * 16 - 1);
    // The local table must be loaded with nothing: after a reset it is usable and begins at address
    // 0, where a user could lay a gate into the kernel. SAFETY: the tables are statics and
    // complete; the far return loads the kernel's code selector.
    unsafe {
        asm!("lgdt [{gdt}]", "lidt [{idt}]", "mov ss, {ss:e}", "push {cs}", "lea {t}, [rip + 2f]", "push {t}", "retfq", "2:",
            "ltr {tss:x}", "lldt {null:x}",
            gdt = in(reg) &gdtr, idt = in(reg) &idtr, ss = in(reg) KERNEL_SS as u32, cs = const KERNEL_CS,
            t = out(reg) _, tss = in(reg) TSS as u32, null = in(reg) 0);
        wrmsr(MSR_GS_BASE, cpu.address.get());
        wrmsr(MSR_KERNEL_GS_BASE, 0);
        wrmsr(MSR_STAR, (USER_CS32 as u64) << 48 | (KERNEL_CS as u64) << 32);
        wrmsr(MSR_CSTAR, compat_entry as *const () as u64);
        wrmsr(MSR_SFMASK, FLAGS_CLEARED);
        wrmsr(MSR_SYSENTER_CS, 0);
    }
}

unsafe extern "C" {
    fn compat_entry();
    fn nmi_entry();
    fn turn_entry();
    fn vector_stubs();
    static page_fault_entries: [u64; 4];
    static int80_entries: [u64; 4];
}

/// The ten bytes that LGDT and LIDT take: limit in bits 15:0, base in bits 79:16.
type Pointer = u128;

fn fill_gdt(cpu: &Cpu) {
    let tss = &raw const cpu.tables.state as u64;
    let set = |selector: u16, value: u64| cpu.tables.gdt[selector as usize / 8].set(value);
    set(KERNEL_CS, 0x00af_9b00_0000_ffff);
    set(KERNEL_SS, 0x00cf_9300_0000_ffff);
    set(TSS, TSS_LIMIT & 0xffff | (tss & 0xff_ffff) << 16 | 0x89 << 40 | (tss >> 24 & 0xff) << 56);
    set(TSS + 8, tss >> 32);
    segments::select(cpu, Reach::NONE);
}

/// User code of 64 bits.
pub const USER_CODE: u64 = 0x00af_fb00_0000_ffff;

/// Sets what the user's selectors mean: 32-bit code, data, 64-bit code, which are side by side, and
/// the segment with the processor's number in its limit, as LSL reads it.
pub fn set_user_segments(cpu: &Cpu, [segments @ .., number]: [u64; 4]) {
    let places = &cpu.tables.gdt[USER_CS32 as usize / 8..];
    places.iter().zip(segments).for_each(|(place, descriptor)| place.set(descriptor));
    cpu.tables.gdt[CPU_NUMBER].set(number | cpu.index as u64);
}

fn fill_idt(cpu: &Cpu) {
    // Vectors that a user may raise by `int n`: #BP, #OF and the gate of 32-bit Linux.
    const USER_VECTORS: [usize; 3] = [3, 4, VECTOR_INT80 as usize];
    let supervisor = facts::has_word(Word::Supervisor);
    let stack = if supervisor { ANY_LEVEL } else { 0 };
    let kind = 2 * supervisor as usize + cpu.pcids.on.get() as usize;
    // SAFETY: fast.s and fast32.s have the tables, which nothing changes.
    let (page_fault_entry, int80_entry) = unsafe { (page_fault_entries[kind], int80_entries[kind]) };
    for (vector, gate) in IDT.iter().enumerate() {
        let stub = vector_stubs as *const () as u64 + vector as u64 * 16;
        let (handler, ist) = match vector {
            1 => (stub, 1),
            2 => (nmi_entry as *const () as u64, 2),
            8 | 18 => (stub, 3),
            13 if use_fast_paths() => (turn_entry as *const () as u64, stack),
            14 if use_fast_paths() => (page_fault_entry, stack),
            128 if use_fast_paths() => (int80_entry, stack),
            _ => (stub, stack),
        };
        let privilege = if USER_VECTORS.contains(&vector) { 3 } else { 0 };
        let kind = ist | 0x8e << 8 | privilege << 13;
        gate[0].set(handler & 0xffff | (KERNEL_CS as u64) << 16 | kind << 32 | (handler >> 16 & 0xffff) << 48);
        gate[1].set(handler >> 32);
    }
}

/// Whether the fast paths are used.
pub fn use_fast_paths() -> bool {
    !facts::has_word(Word::NoFast) && cpuid::has(Feature::FsGsBase) && cpuid::has(Feature::Xsave)
}

fn set_stack(cpu: &Cpu, word: usize, top: u64) {
    cpu.tables.state.words[word].set(top as u32);
    cpu.tables.state.words[word + 1].set((top >> 32) as u32);
}

/// Allows the ports of a task if they are in the bitmap already; otherwise the first use faults.
pub fn select_ports(cpu: &Cpu, task: Ref<Task>) {
    let loaded = cpu.tables.ports_of.get() == task.number;
    cpu.tables.state.ports.set(if loaded { PORTS_OFFSET } else { NO_PORTS });
}

/// Copies the ports of the running task into the bitmap. False if it has none, or they are there
/// already.
pub fn load_ports(task: Ref<Task>) -> bool {
    let cpu = cpu();
    let loaded = cpu.tables.ports_of.get() == task.number;
    let state = &cpu.tables.state;
    let fresh = if loaded { state.ports.get() == NO_PORTS } else { io_space::load(task, &state.bitmap) };
    if fresh {
        cpu.tables.ports_of.set(task.number);
        state.ports.set(PORTS_OFFSET);
    }
    fresh
}

/// The ports of a task have changed: the bitmaps are stale. A processor that runs the task reads
/// the offset at its next port instruction.
pub fn forget_ports(task: Ref<Task>) {
    for cpu in cpu::all().filter(|cpu| cpu.tables.ports_of.get() == task.number) {
        cpu.tables.ports_of.set(TaskNumber::NONE);
        cpu.tables.state.ports.set(NO_PORTS);
    }
}

/// Loads the thread-local descriptors.
pub fn set_tls(descriptors: [u64; 3]) {
    for (number, descriptor) in descriptors.into_iter().enumerate() {
        cpu().tables.gdt[TLS_FIRST + number].set(descriptor);
    }
}

/// Whether a selector can be loaded as a user's data: null, or of a segment that is present and for
/// users, which all are data or code that can be read (`segments`).
fn is_loadable(selector: u16) -> bool {
    /// Of a selector: the local table. Of a descriptor: for users, no system's, and present.
    const LOCAL: u16 = 4;
    const FOR_USERS: u64 = 0xf0 << 40;
    let index = selector as usize / 8;
    let descriptor = cpu().tables.gdt[nospec::<DESCRIPTORS>(index)].get();
    selector <= 3 || index < DESCRIPTORS && selector & LOCAL == 0 && descriptor & FOR_USERS == FOR_USERS
}

/// The selectors in ds, es, fs, gs, 16 bits each from bit 0 on. Nearly always all are null.
pub fn selectors() -> u64 {
    let (ds, es, fs, gs): (u64, u64, u64, u64);
    // SAFETY: reading selectors has no effect.
    unsafe {
        asm!("mov {:e}, ds", "mov {:e}, es", "mov {:e}, fs", "mov {:e}, gs",
            out(reg) ds, out(reg) es, out(reg) fs, out(reg) gs, options(nomem, nostack, preserves_flags));
    }
    if ds | es | fs | gs == 0 {
        return 0;
    }
    ds & 0xffff | (es & 0xffff) << 16 | (fs & 0xffff) << 32 | (gs & 0xffff) << 48
}

/// Loads ds, es, fs, gs; the bases of fs and gs must be written afterwards.
pub fn load_selectors(selectors: u64) {
    let checked = |shift: u32| Some((selectors >> shift) as u16).filter(|it| is_loadable(*it)).map_or(0, u32::from);
    // SAFETY: each selector is null or a user segment that is present, so loading cannot fault. gs
    // is loaded while the user's base is the active one, since loading clears the active base.
    unsafe {
        asm!("mov ds, {:e}", "mov es, {:e}", "mov fs, {:e}", "swapgs", "mov gs, {:e}", "swapgs",
            in(reg) checked(0), in(reg) checked(16), in(reg) checked(32), in(reg) checked(48), options(nostack));
    }
}
