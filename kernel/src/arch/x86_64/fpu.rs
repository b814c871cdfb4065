// SPDX-License-Identifier: GPL-2.0-only
//! FPU states, debug registers, thread-local descriptors: what few threads have, and a switch
//! changes only where the next thread has them. A thread's first FPU instruction traps and gives it
//! a state; from then on the state is saved and restored eagerly when the owner changes.

use super::{cpu, cpu::cpu, cpu::Cpu, cpuid, cpuid::Feature, regs::*, segments, tables};
use crate::object::{thread::Flags, Kind, Thread, POOL};
use crate::{base::abi::*, base::*, percpu::lock};
use core::arch::{asm, x86_64::_xgetbv, x86_64::_xsetbv, x86_64::_XCR_XFEATURE_ENABLED_MASK};

/// Largest state that is used: half a page. With the components that are used 832 bytes are the
/// most.
const MAX_SIZE: usize = 2048;
/// Bytes of the legacy area and the XSAVE header.
const MIN_SIZE: usize = 576;
/// Components: x87, SSE, AVX.
pub const COMPONENTS: u64 = 7;
/// The number of the last one, the only one outside of the legacy area.
const AVX: u32 = 2;
/// The first word of the XSAVE header, and the words that it has.
const HEADER: usize = 512 / 8;
const HEADER_WORDS: usize = 8;
/// The word with the x87 control word, and its initial value.
const CONTROL_WORD: (usize, u64) = (0, 0x37f);
/// The word with MXCSR, and its initial value; its valid bits.
const MXCSR: (usize, u64) = (24 / 8, 0x1f80);
const MXCSR_VALID: u64 = 0xffff;

object! {
    /// An FPU state: an XSAVE area in the standard format.
    #[repr(C, align(64))]
    pub struct State const () {
        words: [Word; MAX_SIZE / 8] = [const { Word::new(0) }; MAX_SIZE / 8],
    }
}

object! {
    /// Debug registers 0 to 3, 6, 7 and thread-local descriptors of a thread.
    pub struct DebugTls const () {
        /// What was checked by `is_valid_debug`.
        pub debug: [Word; 6] = [const { Word::new(0) }; 6],
        /// What was checked by `segments::is_user_descriptor`.
        pub tls: [Word; 3] = [const { Word::new(0) }; 3],
        /// What of them is in its window (`confine`).
        pub shown: [Word; 3] = [const { Word::new(0) }; 3],
        /// The same for the other side of those that cover all.
        pub other: [Word; 3] = [const { Word::new(0) }; 3],
        /// The selectors that it had at its last call on a fast path, while they can be loaded; or
        /// null ones, which always can.
        pub selectors: Word = Word::new(0),
    }
}

/// Components of a state, and its bytes.
pub static MASK: Global<Cell<u64>> = Global::new(Cell::new(3));
pub static SIZE: Global<Cell<usize>> = Global::new(Cell::new(MIN_SIZE));

/// Chooses the components that are used; on each processor. Panics where the processor does not do
/// what CPUID says of it: a state that is larger than its place would overwrite another's.
pub fn init(cpu: &Cpu) {
    trap(cpu, true);
    if cpuid::has(Feature::Xsave) {
        let mask = cpuid::leaf(cpuid::XSAVE, 0)[0] as u64 & COMPONENTS;
        // SAFETY: OSXSAVE is on and the components are offered.
        let on = unsafe {
            _xsetbv(_XCR_XFEATURE_ENABLED_MASK, mask);
            _xgetbv(_XCR_XFEATURE_ENABLED_MASK)
        };
        assert!(on == mask, "the FPU has components {on:#x} on after {mask:#x} were switched on");
        let [avx, offset, ..] = cpuid::leaf(cpuid::XSAVE, AVX).map(|word| word as usize);
        let told = cpuid::leaf(cpuid::XSAVE, 0)[1] as usize;
        let size = area(mask, told, [offset, avx]);
        let size = size.unwrap_or_else(|| panic!("CPUID says that an FPU state takes {told} bytes"));
        let same = cpu.index == 0 || (mask, size) == (MASK.get(), SIZE.get());
        assert!(same, "the processors' FPUs are not the same");
        MASK.set(mask);
        SIZE.set(size);
    }
}

/// Bytes of a state with these components, of which CPUID tells the whole and offset and size of
/// AVX: enough for each, whole words; `None` if that is more than there is room for.
fn area(mask: u64, told: usize, [offset, size]: [usize; 2]) -> Option<usize> {
    let avx = if mask >> AVX & 1 == 1 { offset.checked_add(size)? } else { 0 };
    let bytes = told.max(avx).max(MIN_SIZE).checked_next_multiple_of(size_of::<u64>())?;
    (bytes <= MAX_SIZE).then_some(bytes)
}

impl State {
    /// The words that are used.
    fn words(&self) -> &[Word] {
        &self.words[..SIZE.get() / 8]
    }

    /// Becomes the initial state.
    fn reset(&self) {
        for word in self.words() {
            word.set(0);
        }
        self.words[CONTROL_WORD.0].set(CONTROL_WORD.1);
        self.words[MXCSR.0].set(MXCSR.1);
    }

    fn restore(&self) {
        let address = self.words.as_ptr();
        // SAFETY: the area is large enough and aligned, TS is clear, and the content was saved by
        // `save` or checked by `copy_in`.
        unsafe {
            if cpuid::has(Feature::Xsave) {
                asm!("xrstor64 [{}]", in(reg) address, in("eax") MASK.get() as u32, in("edx") 0, options(nostack));
            } else {
                asm!("fxrstor64 [{}]", in(reg) address, options(nostack));
            }
        }
    }
}

/// Saves the state that is in the processor to words that are enough for it. The first one is
/// aligned to 64 bytes, and the header is zero: of it the processor writes the first word alone,
/// and keeps there what it does not know.
#[inline(always)]
fn save(words: &[Word]) {
    let address = words.as_ptr();
    // SAFETY: the area is large enough and aligned; TS is clear.
    unsafe {
        if cpuid::has(Feature::Xsave) {
            asm!("xsave64 [{}]", in(reg) address, in("eax") MASK.get() as u32, in("edx") 0, options(nostack));
        } else {
            asm!("fxsave64 [{}]", in(reg) address, options(nostack));
            if let Some(word) = words.get(HEADER) {
                word.set(MASK.get());
            }
        }
    }
}

fn trap(cpu: &Cpu, on: bool) {
    match (cpu.fpu_off.replace(on), on) {
        // SAFETY: the FPU traps from now on.
        (false, true) => unsafe { write_cr0(read_cr0() | CR0_TS) },
        (true, false) => clts(),
        _ => {}
    }
}

/// Another thread's registers are loaded: its FPU state if it has one, else the FPU traps, unless
/// it borrows the state that is in the processor.
pub fn change(cpu: &Cpu, thread: Ref<Thread>) {
    let borrows = thread.borrows_fpu.get() && thread.fpu.get().is_none();
    let lent = borrows && cpu.fpu_owner.get().is_some_and(|owner| thread.handles(owner));
    cpu.fpu_lent.set(lent as u16);
    match thread.fpu.get() {
        None => trap(cpu, !lent),
        Some(state) => {
            trap(cpu, false);
            if cpu.fpu_owner.get() != Some(thread) {
                put_away(cpu);
                state.restore();
                cpu.fpu_owner.set(Some(thread));
            }
        }
    }
    if thread.extra.get().is_some() || cpu.debug_tls_loaded.get() {
        load_debug_tls(cpu, thread);
    }
}

/// Saves the FPU registers to their owner, which is not loaded or will be loaded again.
pub fn put_away(cpu: &Cpu) {
    if let Some(state) = cpu.fpu_owner.take().and_then(|owner| owner.fpu.get()) {
        trap(cpu, false);
        save(&state.words);
    }
}

/// Gives the running thread an FPU state at its first FPU instruction. Errors: no memory, or it
/// has none of its own and cannot borrow one now.
pub fn switch_on(thread: Ref<Thread>) -> Result<(), Error> {
    Error::Invalid.when(thread.borrows_fpu.get() && thread.fpu.get().is_none())?;
    state_of(thread)?;
    change(cpu(), thread);
    Ok(())
}

fn state_of(thread: Ref<Thread>) -> Result<Ref<State>, Error> {
    if let Some(state) = thread.fpu.get() {
        return Ok(state);
    }
    let memory = POOL.take(thread.task.account, SIZE.get(), Kind::Fpu)?.cast::<State>();
    // SAFETY: fresh memory, aligned to the power of two above its size. Only `SIZE` bytes of a
    // State are ever used by the processor; the pool's size for it is at least that.
    let state = unsafe { Ref::new(memory) };
    state.reset();
    thread.fpu.set(Some(state));
    thread.set(Flags::FPU);
    Ok(state)
}

/// Copies a thread's state to a buffer of its size, aligned to 64 bytes; the initial state if it
/// has none.
pub fn copy_out(thread: Ref<Thread>, [head, tail]: [&[Word]; 2]) {
    let write = |state: &State| {
        word::copy_slice(state.words(), head);
        word::copy_slice(&state.words()[head.len()..], tail);
    };
    let Some(state) = thread.fpu.get() else {
        let fresh = State::new();
        fresh.reset();
        return write(&fresh);
    };
    cpu::write_back_elsewhere(thread);
    if is_here(thread) {
        let to = if tail.is_empty() { head } else { &state.words };
        to[HEADER..HEADER + HEADER_WORDS].iter().for_each(|word| word.set(0));
        // Whoever runs finds the FPU on or off as it was.
        let (cpu, off) = (cpu(), cpu().fpu_off.get());
        trap(cpu, false);
        save(to);
        trap(cpu, off);
    } else if cpuid::has(Feature::Xsave) && state.words[HEADER].get() == 0 {
        // All components are initial, whatever is left of them in memory.
        let mxcsr = state.words[MXCSR.0].get();
        state.reset();
        state.words[MXCSR.0].set(mxcsr);
    }
    if !is_here(thread) || !tail.is_empty() {
        write(&state);
    }
}

/// Takes a thread's state from such a buffer, if the processor will take it. The buffer is a user's
/// memory: what is checked is read once.
pub fn copy_in(thread: Ref<Thread>, [head, tail]: [&[Word]; 2]) -> Result<(), Error> {
    const DATA: usize = HEADER + HEADER_WORDS;
    if !tail.is_empty() {
        let whole = State::new();
        word::copy_slice(head, whole.words());
        word::copy_slice(tail, &whole.words()[head.len()..]);
        return copy_in(thread, [whole.words(), &[]]);
    }
    let (components, mxcsr) = (head[HEADER].get(), head[MXCSR.0].get());
    let reserved = head[HEADER + 1..DATA].iter().fold(0, |all, word| all | word.get());
    Error::Invalid.when(components & !MASK.get() | reserved | mxcsr as u32 as u64 & !MXCSR_VALID != 0)?;
    let state = state_of(thread)?;
    forget_registers(thread);
    word::copy_slice(&head[..HEADER], state.words());
    word::copy_slice(&head[DATA..], &state.words()[DATA..]);
    state.words[HEADER].set(components);
    state.words[MXCSR.0].set(mxcsr);
    Ok(())
}

/// A thread's state becomes the initial one. One that borrows has none then.
pub fn reset(thread: Ref<Thread>) {
    let Some(state) = thread.fpu.get() else { return };
    forget_registers(thread);
    state.reset();
    if thread.borrows_fpu.get() {
        thread.fpu.set(None);
        thread.unset(Flags::FPU);
        // SAFETY: the thread had the only reference, and no processor has the state.
        unsafe { POOL.delete(state, Kind::Fpu) };
    }
}

/// Whether a thread's state is in this processor's registers.
fn is_here(thread: Ref<Thread>) -> bool {
    cpu().fpu_owner.get() == Some(thread)
}

/// A thread's state is the one in memory, which no processor has in its registers. If the thread
/// runs, it gets the state at its next FPU instruction, which traps.
fn forget_registers(thread: Ref<Thread>) {
    cpu::write_back_elsewhere(thread);
    if is_here(thread) {
        cpu().fpu_owner.set(None);
        trap(cpu(), true);
    }
}

/// Frees a thread's states.
pub fn drop_states(thread: Ref<Thread>) {
    // SAFETY: `sched::forget` and the thread's end leave no other reference.
    unsafe {
        if let Some(state) = thread.fpu.take() {
            POOL.delete(state, Kind::Fpu);
        }
        if let Some(extra) = thread.extra.take() {
            POOL.delete(extra, Kind::Fpu);
        }
    }
}

/// A thread's debug registers and descriptors, made if need be.
pub fn debug_tls_of(thread: Ref<Thread>) -> Result<Ref<DebugTls>, Error> {
    if let Some(extra) = thread.extra.get() {
        return Ok(extra);
    }
    let extra = POOL.make(thread.task.account, Kind::Fpu, DebugTls::new())?;
    thread.extra.set(Some(extra));
    thread.set(Flags::DEBUG_TLS);
    Ok(extra)
}

/// Whether debug registers 0 to 3, 6, 7 may have these values: addresses in the lower half, no
/// reserved bits but the one that stands for CR4.TSD.
pub fn is_valid_debug(words: &[Word]) -> bool {
    /// DR7: no general detect; bit 10 reads as one.
    const DR7_VALID: u64 = 0xffff_07ff | DEBUG_NO_TSC;
    let addresses = words[..4].iter().all(|address| address.get() >> HALF_SHIFT == 0);
    addresses && words[5].get() & !DR7_VALID == 0 && words[4].get() >> 32 == 0
}

/// A thread's debug registers or descriptors changed: they are loaded again before it runs on.
pub fn debug_tls_changed(thread: Ref<Thread>) {
    confine(thread);
    let cpu = cpu::of(thread);
    if cpu.loaded.get() == Some(thread) {
        lock::write_back(cpu);
    }
}

/// A thread's descriptors changed, or what of them it can reach.
pub fn confine(thread: Ref<Thread>) {
    let Some(extra) = thread.extra.get() else { return };
    extra.selectors.set(0);
    for (places, down) in [(&extra.shown, thread.down.get()), (&extra.other, !thread.down.get())] {
        for (place, own) in places.iter().zip(&extra.tls) {
            place.set(segments::confined(own.get(), thread.reach.get(), down));
        }
    }
}

/// DR7: the bits that switch breakpoint 0 on.
const ENABLE: u64 = 3;

/// Loads a thread's debug registers and descriptors, or none: as far as they are in its window.
fn load_debug_tls(cpu: &Cpu, thread: Ref<Thread>) {
    let extra = thread.extra.get();
    cpu.debug_tls_loaded.set(extra.is_some());
    let mut debug: [u64; 6] = core::array::from_fn(|number| extra.map_or(0, |extra| extra.debug[number].get()));
    let reach = thread.reach.get();
    for number in 0..4 * (reach != Reach::NONE) as usize {
        if debug[number] >= reach.size() {
            debug[5] &= !(ENABLE << (2 * number));
        }
        debug[number] += reach.base();
    }
    // SAFETY: addresses are the user's and dr7 has only valid bits (is_valid_debug).
    unsafe {
        write_dr7(0);
        write_dr0(debug[0]);
        write_dr1(debug[1]);
        write_dr2(debug[2]);
        write_dr3(debug[3]);
        if debug[5] & !DEBUG_NO_TSC != 0 {
            write_dr7(debug[5] & !DEBUG_NO_TSC);
        }
    }
    let (old, tsd) = (read_cr4(), CR4_TSD * (debug[5] / DEBUG_NO_TSC));
    if old & CR4_TSD != tsd {
        // SAFETY: the bit takes rights from user mode alone.
        unsafe { write_cr4(old ^ CR4_TSD) };
    }
    tables::set_tls(core::array::from_fn(|number| extra.map_or(0, |extra| extra.shown[number].get())));
}

#[cfg(test)]
#[path = "../../../../tests/kernel/fpu.rs"]
mod tests;
