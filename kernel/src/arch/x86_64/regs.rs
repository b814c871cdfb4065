// SPDX-License-Identifier: GPL-2.0-only
//! Ports, model-specific and control registers, one instruction each.

use crate::base::VirtAddr;
use core::arch::asm;

/// IA32_STAR: selectors of SYSCALL and SYSRET.
pub const MSR_STAR: u32 = 0xc000_0081;
/// IA32_LSTAR: entry of SYSCALL from 64-bit code.
pub const MSR_LSTAR: u32 = 0xc000_0082;
/// IA32_CSTAR: entry of SYSCALL from 32-bit code (AMD).
pub const MSR_CSTAR: u32 = 0xc000_0083;
/// IA32_FMASK: flags that SYSCALL clears.
pub const MSR_SFMASK: u32 = 0xc000_0084;
/// IA32_FS_BASE.
pub const MSR_FS_BASE: u32 = 0xc000_0100;
/// IA32_GS_BASE.
pub const MSR_GS_BASE: u32 = 0xc000_0101;
/// IA32_KERNEL_GS_BASE: what swapgs exchanges gs base with.
pub const MSR_KERNEL_GS_BASE: u32 = 0xc000_0102;
/// IA32_PAT.
pub const MSR_PAT: u32 = 0x277;
/// IA32_TSC_AUX, which RDTSCP and RDPID read.
pub const MSR_TSC_AUX: u32 = 0xc000_0103;
/// IA32_SYSENTER_CS: zero makes SYSENTER fault.
pub const MSR_SYSENTER_CS: u32 = 0x174;
/// IA32_APIC_BASE.
pub const MSR_APIC_BASE: u32 = 0x1b;
/// IA32_ARCH_CAPABILITIES.
pub const MSR_ARCH_CAPABILITIES: u32 = 0x10a;
/// IA32_XAPIC_DISABLE_STATUS.
pub const MSR_XAPIC_DISABLE_STATUS: u32 = 0xbd;

/// All of CR0: protection, monitor coprocessor, the bit that is always set, numeric errors, write
/// protection, paging.
pub const CR0_BITS: u32 = 1 | 1 << 1 | 1 << 4 | 1 << 5 | 1 << 16 | 1 << 31;
/// CR0: task switched, the next FPU instruction traps.
pub const CR0_TS: u64 = 1 << 3;
/// CR4 at the start: PAE, global pages, FXSR, SIMD exceptions.
pub const CR4_BITS: u32 = 1 << 5 | 1 << 7 | 1 << 9 | 1 << 10;
/// CR4: user mode cannot read the TSC.
pub const CR4_TSD: u64 = 1 << 2;
/// CR4: global translations.
pub const CR4_PGE: u64 = 1 << 7;
/// CR4: translations are tagged with the number in CR3's low bits.
pub const CR4_PCIDE: u64 = 1 << 17;

/// Reads a model-specific register.
///
/// # Safety
/// The register exists.
pub unsafe fn rdmsr(msr: u32) -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: the caller's contract; reading changes nothing.
    unsafe { asm!("rdmsr", in("ecx") msr, out("eax") low, out("edx") high, options(nomem, nostack)) };
    (high as u64) << 32 | low as u64
}

/// Writes a model-specific register.
///
/// # Safety
/// The register exists and the value keeps the kernel's invariants.
pub unsafe fn wrmsr(msr: u32, value: u64) {
    // SAFETY: the caller's contract.
    unsafe { asm!("wrmsr", in("ecx") msr, in("eax") value as u32, in("edx") (value >> 32) as u32, options(nostack)) };
}

/// Writes a byte to a port.
///
/// # Safety
/// The port's device is the kernel's.
pub unsafe fn outb(port: u16, value: u8) {
    // SAFETY: the caller's contract.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nomem, nostack)) };
}

/// Reads a byte from a port.
///
/// # Safety
/// The port's device is the kernel's.
pub unsafe fn inb(port: u16) -> u8 {
    let value;
    // SAFETY: the caller's contract.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nomem, nostack)) };
    value
}

/// Reads four bytes from a port.
///
/// # Safety
/// The port's device is the kernel's, or reading it has no effect.
pub unsafe fn inl(port: u16) -> u32 {
    let value;
    // SAFETY: the caller's contract.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nomem, nostack)) };
    value
}

/// Reads the time-stamp counter.
pub fn rdtsc() -> u64 {
    // SAFETY: reading the counter has no effect.
    unsafe { core::arch::x86_64::_rdtsc() }
}

macro_rules! readable {
    ($($read:ident $name:literal)*) => {$(
        /// Reads the register.
        pub fn $read() -> u64 {
            let value;
            // SAFETY: reading has no effect.
            unsafe { asm!(concat!("mov {}, ", $name), out(reg) value, options(nomem, nostack)) };
            value
        }
    )*};
}

macro_rules! writable {
    ($($write:ident $name:literal)*) => {$(
        /// Writes the register.
        ///
        /// # Safety
        /// The value keeps the kernel's invariants.
        pub unsafe fn $write(value: u64) {
            // SAFETY: the caller's contract.
            unsafe { asm!(concat!("mov ", $name, ", {}"), in(reg) value, options(nostack)) };
        }
    )*};
}

readable! { read_sp "rsp" read_cr0 "cr0" read_cr2 "cr2" read_cr3 "cr3" read_cr4 "cr4" read_dr6 "dr6" }
writable! { write_cr0 "cr0" write_cr3 "cr3" write_cr4 "cr4" }
writable! { write_dr0 "dr0" write_dr1 "dr1" write_dr2 "dr2" write_dr3 "dr3" write_dr6 "dr6" write_dr7 "dr7" }

/// Clears CR0.TS.
pub fn clts() {
    // SAFETY: makes the FPU usable; fpu.rs decides when.
    unsafe { asm!("clts", options(nomem, nostack)) };
}

/// Drops what the TLB holds about one address of the present space.
pub fn invlpg(address: VirtAddr) {
    // SAFETY: dropping translations is always allowed.
    unsafe { asm!("invlpg [{}]", in(reg) address.raw(), options(nostack)) };
}

/// Drops what the TLB holds about one address of the space with a tag.
///
/// # Safety
/// The processor has INVPCID.
pub unsafe fn invpcid(tag: u64, address: VirtAddr) {
    // SAFETY: dropping translations is always allowed; type 0 wants tag and address in memory.
    unsafe { asm!("invpcid {}, [{}]", in(reg) 0u64, in(reg) &[tag, address.raw()], options(nostack)) };
}

/// Stops for good.
pub fn halt() -> ! {
    loop {
        // SAFETY: interrupts off and halted: nothing happens any more.
        unsafe { asm!("cli", "hlt", options(nomem, nostack)) };
    }
}
