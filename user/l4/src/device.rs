// SPDX-License-Identifier: BSD-2-Clause
//! What a driver in user mode reaches its device by: I/O ports, and registers in device memory. The boot
//! configuration says which of them the task may have; interrupts are in [`crate::source`].

use crate::call::Failure;
use crate::sigma0;
use core::arch::asm;
use keel_abi::boot::DIRECT_MAP;
use keel_abi::fpage::{CACHE_UNCACHED, FPAGE_READ, FPAGE_WRITE};
use keel_abi::Fpage;

/// Writes a byte to a port.
pub fn output(port: u16, value: u8) {
    // SAFETY: a port that the task does not have raises #GP, and one that it has is its own business.
    unsafe { asm!("out dx, al", in("dx") port, in("al") value, options(nostack, preserves_flags)) };
}

/// Reads a byte from a port.
pub fn input(port: u16) -> u8 {
    let value;
    // SAFETY: as in `output`.
    unsafe { asm!("in al, dx", in("dx") port, out("al") value, options(nostack, preserves_flags)) };
    value
}

/// Writes 2 bytes to the ports from `port` on.
pub fn output_word(port: u16, value: u16) {
    // SAFETY: as in `output`.
    unsafe { asm!("out dx, ax", in("dx") port, in("ax") value, options(nostack, preserves_flags)) };
}

/// Reads 2 bytes from the ports from `port` on.
pub fn input_word(port: u16) -> u16 {
    let value;
    // SAFETY: as in `output`.
    unsafe { asm!("in ax, dx", in("dx") port, out("ax") value, options(nostack, preserves_flags)) };
    value
}

/// Writes 4 bytes to the ports from `port` on.
pub fn output_long(port: u16, value: u32) {
    // SAFETY: as in `output`.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)) };
}

/// Reads 4 bytes from the ports from `port` on.
pub fn input_long(port: u16) -> u32 {
    let value;
    // SAFETY: as in `output`.
    unsafe { asm!("in eax, dx", in("dx") port, out("eax") value, options(nostack, preserves_flags)) };
    value
}

/// Registers of a device in memory: 2^`log2` bytes, uncached, each read or written once where the program says so.
#[derive(Debug)]
pub struct Registers {
    address: u64,
    log2: u8,
}

impl Registers {
    /// Asks for the 2^`log2` bytes of device memory (whole pages) at the physical address `physical`, which is a multiple of
    /// their size. They are placed like memory, at `DIRECT_MAP` + `physical`.
    pub fn map(physical: u64, log2: u8) -> Result<Registers, Failure> {
        let rights = FPAGE_READ | FPAGE_WRITE;
        let window = Fpage::memory(DIRECT_MAP + physical, log2, rights);
        sigma0::map(Fpage::memory(physical, log2, rights).with_cache(CACHE_UNCACHED), window)?;
        Ok(Registers { address: window.base(), log2 })
    }

    fn at(&self, offset: u64) -> *mut u32 {
        assert!(offset % 4 == 0 && offset < 1 << self.log2, "no register");
        (self.address + offset) as *mut u32
    }

    /// Reads the register `offset` bytes behind the first; panics if there is none.
    pub fn read(&self, offset: u64) -> u32 {
        // SAFETY: the place is mapped device memory, which no reference points to.
        unsafe { self.at(offset).read_volatile() }
    }

    /// Writes the register `offset` bytes behind the first; panics if there is none.
    pub fn write(&self, offset: u64, value: u32) {
        // SAFETY: as above. A device that is told to write to memory is what its user was trusted with (docs/boot.md).
        unsafe { self.at(offset).write_volatile(value) };
    }

    /// Writes the register of one byte `offset` bytes behind the first; panics if there is none.
    pub fn write_byte(&self, offset: u64, value: u8) {
        let word = self.at(offset & !3).cast::<u8>();
        // SAFETY: as above; the byte lies in that word.
        unsafe { word.add((offset & 3) as usize).write_volatile(value) };
    }
}
