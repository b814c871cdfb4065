// SPDX-License-Identifier: GPL-2.0-only
//! The one ACPI table that the kernel reads: the MADT, for interrupt controllers (ACPI 6.4, 5.2.12).
//! Everything is read with bounds; a table that makes no sense is as good as none.

use super::{cpu, direct};
use crate::boot;
use keel_abi::acpi::{self, number, sums_to_zero};

/// Address of the I/O APIC where no table says otherwise.
const IO_APIC_DEFAULT: u64 = 0xfec0_0000;
/// ISA lines.
const ISA_LINES: usize = 16;
/// Where the BIOS keeps the root pointer.
const BIOS_AREA: core::ops::Range<u64> = 0xe_0000..0x10_0000;

/// An ISA line that is not where and how one expects it.
#[derive(Clone, Copy)]
struct Override {
    pin: u8,
    level: bool,
    low: bool,
}

/// What the MADT says.
#[derive(Clone, Copy)]
pub struct Madt {
    /// Physical address of the first I/O APIC.
    pub io_apic: u64,
    /// Ids of the local APICs of the processors that can be used.
    pub processors: [u8; cpu::MAX],
    /// How many.
    pub processor_count: usize,
    isa: [Override; ISA_LINES],
}

impl Madt {
    /// A PC without a table.
    pub const fn none() -> Madt {
        let mut isa = [Override { pin: 0, level: false, low: false }; ISA_LINES];
        let mut line = 0;
        while line < ISA_LINES {
            isa[line].pin = line as u8;
            line += 1;
        }
        Madt { io_apic: IO_APIC_DEFAULT, processors: [0; cpu::MAX], processor_count: 0, isa }
    }

    /// The I/O APIC's pin of a line.
    pub fn pin(&self, line: u32) -> u32 {
        self.isa.get(line as usize).map_or(line, |isa| isa.pin as u32)
    }

    /// Whether a line has its pin for itself: an ISA line that was moved takes the pin of another.
    pub fn owns_pin(&self, line: u32) -> bool {
        let moved = |(number, isa): (usize, &Override)| number as u32 != isa.pin as u32 && isa.pin as u32 == line;
        self.pin(line) != line || !self.isa.iter().enumerate().any(moved)
    }

    /// Whether a line is level triggered, and active low.
    pub fn mode(&self, line: u32) -> (bool, bool) {
        self.isa.get(line as usize).map_or((true, true), |isa| (isa.level, isa.low))
    }
}

/// `length` bytes of the firmware's or the loader's memory.
pub fn bytes(physical: u64, length: usize) -> Option<&'static [u8]> {
    let end = physical.checked_add(length as u64)?;
    if physical == 0 || end > boot::MAPPED_END.get() {
        return None;
    }
    // SAFETY: the direct map reaches to `MAPPED_END`; what firmware and loader left does not change.
    Some(unsafe { core::slice::from_raw_parts(direct(physical), length) })
}

/// Finds the root pointer in the BIOS area; 0 if there is none.
pub fn find_rsdp() -> u64 {
    let valid =
        |at: &u64| bytes(*at, acpi::ROOT_POINTER).is_some_and(|b| b.starts_with(b"RSD PTR ") && sums_to_zero(b));
    BIOS_AREA.step_by(16).find(valid).unwrap_or(0)
}

/// Reads the MADT that the root pointer leads to.
pub fn madt(rsdp: u64) -> Madt {
    acpi::find(rsdp, b"APIC", &mut bytes).and_then(parse).unwrap_or(Madt::none())
}

fn parse(table: &[u8]) -> Option<Madt> {
    const LOCAL_APIC: u8 = 0;
    const ENABLED: u64 = 1;
    const IO_APIC: u8 = 1;
    const OVERRIDE: u8 = 2;
    let mut madt = Madt::none();
    let mut at = 44;
    while at + 2 <= table.len() {
        let (kind, length) = (table[at], table[at + 1] as usize);
        let entry = table.get(at..at + length).filter(|_| length >= 2)?;
        match kind {
            LOCAL_APIC if length >= 8 && number(entry, 4, 4)? & ENABLED != 0 && madt.processor_count < cpu::MAX => {
                madt.processors[madt.processor_count] = entry[3];
                madt.processor_count += 1;
            }
            IO_APIC if length >= 12 && number(entry, 8, 4)? == 0 => madt.io_apic = number(entry, 4, 4)?,
            OVERRIDE if length >= 10 && (entry[3] as usize) < ISA_LINES => {
                let pin = number(entry, 4, 4)?.min(u8::MAX as u64) as u8;
                let (level, low) = (entry[8] >> 2 & 3 == 3, entry[8] & 3 == 3);
                madt.isa[entry[3] as usize] = Override { pin, level, low };
            }
            _ => {}
        }
        at += length;
    }
    Some(madt)
}
