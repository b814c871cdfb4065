// SPDX-License-Identifier: GPL-2.0-only
//! x86-64: everything that names a register, a port or a bit of the processor.

pub mod acpi;
pub mod apic;
pub mod boot;
pub mod clock;
pub mod compat;
pub mod cpu;
pub mod cpuid;
pub mod direct;
pub mod entry;
pub mod fpu;
pub mod frequency;
pub mod kernel_map;
pub mod lookup;
pub mod multiboot;
pub mod paging;
pub mod print;
pub mod reference;
pub mod regs;
pub mod screen;
pub mod segments;
pub mod serial;
pub mod switch;
pub mod tables;
pub mod x2apic;

use crate::base::PhysAddr;

/// Where all physical memory lies in the kernel's half of every space.
pub const DIRECT: u64 = 0xffff_8000_0000_0000;
/// Distance between the kernel's link address and its place in memory.
pub const OFFSET: u64 = 0xffff_ffff_8000_0000;

/// Kernel address of physical memory.
pub fn direct(physical: PhysAddr) -> *mut u8 {
    (DIRECT + physical.raw()) as *mut u8
}

/// Physical address of what `direct` leads to.
pub fn direct_physical(address: *const u8) -> PhysAddr {
    PhysAddr::new(address as u64 - DIRECT)
}
