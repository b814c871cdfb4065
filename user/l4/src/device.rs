// SPDX-License-Identifier: BSD-2-Clause
//! How a driver in user mode accesses its device: I/O ports, and registers in device memory. The
//! boot configuration says which of them the task may have. Interrupts are in
//! [`crate::kernel_object`].

use crate::call::Failure;
use crate::sigma0;
use core::arch::asm;
use keel_abi::fpage::{CACHE_UNCACHED, FPAGE_READ, FPAGE_WRITE};
use keel_abi::programs::AREA_UPPER;
use keel_abi::{Error, Fpage};
use keel_protocol::boot::DIRECT_MAP;

/// Writes a byte to a port.
pub fn output(port: u16, value: u8) {
    // SAFETY: a port that the task does not have raises #GP. A port that it has is in its own
    // responsibility.
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

/// A device's registers in memory: 2^`log2` bytes, uncached. Each call of `read` or `write` is
/// exactly one access.
#[derive(Debug)]
pub struct Registers {
    address: u64,
    log2: u8,
}

impl Registers {
    /// Asks sigma0 for 2^`log2` bytes of device memory (whole pages) at `physical`, a multiple of
    /// their size. They are mapped at `DIRECT_MAP` + `physical`, below `AREA_UPPER`. Fails if the
    /// task may not have them.
    pub fn map(physical: u64, log2: u8) -> Result<Registers, Failure> {
        let rights = FPAGE_READ | FPAGE_WRITE;
        let place = DIRECT_MAP.checked_add(physical).filter(|place| place.saturating_add(1 << log2) <= AREA_UPPER);
        let address = place.ok_or(Failure::call(Error::Invalid))?;
        let window = Fpage::memory(address, log2, rights);
        sigma0::map(Fpage::memory(physical, log2, rights).with_cache(CACHE_UNCACHED), window)?;
        Ok(Registers { address, log2 })
    }

    fn at(&self, offset: u64) -> *mut u32 {
        assert!(offset % 4 == 0 && offset < 1 << self.log2, "no register");
        (self.address + offset) as *mut u32
    }

    /// Reads the register at `offset`. Panics if the offset is outside the registers.
    pub fn read(&self, offset: u64) -> u32 {
        // SAFETY: this is mapped device memory; no reference points to it.
        unsafe { self.at(offset).read_volatile() }
    }

    /// Writes the register at `offset`. Panics if the offset is outside the registers.
    pub fn write(&self, offset: u64, value: u32) {
        // SAFETY: as above. What a device writes to memory is in the responsibility of its driver
        // (docs/boot.md).
        unsafe { self.at(offset).write_volatile(value) };
    }

    /// Writes the one-byte register at `offset`. Panics if the offset is outside the registers.
    pub fn write_byte(&self, offset: u64, value: u8) {
        let word = self.at(offset & !3).cast::<u8>();
        // SAFETY: as above; the byte is in that word.
        unsafe { word.add((offset & 3) as usize).write_volatile(value) };
    }
}
