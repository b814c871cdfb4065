// SPDX-License-Identifier: GPL-2.0-only
//! The ACPI tables that the kernel reads: the MADT, for interrupt controllers (ACPI 6.4, 5.2.12),
//! and where the HPET and the PM timer are (IA-PC HPET Specification 1.0a, 3.2.4; ACPI 6.4, 5.2.9).
//! Everything is read with bounds; a table that makes no sense is as good as none.

use crate::{arch::cpu, arch::direct, base::abi::*, base::facts::Memory, base::*};
/// The reader of firmware's numbers, for the loader's too.
pub use keel_abi::acpi::number;
use keel_abi::{acpi, acpi::sums_to_zero, list::List};

/// The I/O APIC where no table says otherwise.
const IO_APIC_DEFAULT: IoApic = IoApic { address: 0xfec0_0000, base: 0 };
/// I/O APICs that are used at most.
pub const IO_APICS: usize = 8;
/// ISA lines.
const ISA_IRQS: usize = 16;
/// Where the BIOS keeps the root pointer.
const BIOS_AREA: core::ops::Range<u64> = 0xe_0000..0x10_0000;

/// An I/O APIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoApic {
    /// Physical address of its registers.
    pub address: u64,
    /// The interrupt line of its first pin.
    pub base: u32,
}

/// Whether a line is level triggered, and active low.
type Mode = (bool, bool);

/// What the MADT says.
#[derive(Clone, Copy)]
pub struct Madt {
    /// The I/O APICs.
    pub io_apics: List<IoApic, IO_APICS>,
    /// Ids of the local APICs of the processors that can be used.
    pub processors: List<u32, { cpu::MAX }>,
    /// The pin and the mode of the ISA lines that are not where and how one expects them; any other
    /// has the pin of its number, edge triggered, active high.
    isa: [Option<(u8, Mode)>; ISA_IRQS],
}

impl Madt {
    /// A PC without a table.
    pub const NONE: Madt =
        Madt { io_apics: List::empty(IO_APIC_DEFAULT), processors: List::empty(0), isa: [None; ISA_IRQS] };

    /// A processor; those beyond the most that are used are left out, and one that is named twice
    /// is one.
    fn add_processor(&mut self, id: u32) {
        if !self.processors.contains(&id) {
            let _ = self.processors.push(id);
        }
    }

    /// There is an I/O APIC even where no table says so.
    fn or_default(mut self) -> Madt {
        if self.io_apics.is_empty() {
            let _ = self.io_apics.push(IO_APIC_DEFAULT);
        }
        self
    }

    /// The pin of a line, counted through all I/O APICs.
    pub fn pin(&self, line: u32) -> u32 {
        self.isa.get(line as usize).copied().flatten().map_or(line, |(pin, _)| pin as u32)
    }

    /// Whether a line has its pin for itself: an ISA line that was moved takes the pin of another.
    pub fn owns_pin(&self, line: u32) -> bool {
        self.pin(line) != line || !(0..ISA_IRQS as u32).any(|other| other != line && self.pin(other) == line)
    }

    /// The mode of a line.
    pub fn mode(&self, line: u32) -> Mode {
        self.isa.get(line as usize).map_or((true, true), |isa| isa.map_or((false, false), |(_, mode)| mode))
    }
}

/// `length` bytes of the firmware's or the loader's memory.
pub fn bytes(physical: u64, length: usize) -> Option<&'static [u8]> {
    physical.checked_add(length as u64).filter(|end| physical != 0 && *end <= facts::MAPPED_END.get())?;
    // SAFETY: the direct map reaches to `MAPPED_END`; what firmware and loader left does not
    // change.
    Some(unsafe { core::slice::from_raw_parts(direct(PhysAddr::new(physical)), length) })
}

/// Finds the root pointer in the BIOS area; 0 if there is none.
pub fn find_rsdp() -> u64 {
    let valid =
        |at: &u64| bytes(*at, acpi::ROOT_POINTER).is_some_and(|b| b.starts_with(b"RSD PTR ") && sums_to_zero(b));
    BIOS_AREA.step_by(16).find(valid).unwrap_or(0)
}

/// Reads the MADT that the root pointer leads to.
pub fn madt(rsdp: u64) -> Madt {
    acpi::find_map(rsdp, b"APIC", &mut bytes, parse_madt).unwrap_or(Madt::NONE).or_default()
}

/// Whether a device can have its registers in the page at an address that a table names: one that
/// is mapped from the start, above the images, and not RAM's.
pub fn can_be_registers(address: u64, ram: &Memory) -> bool {
    let page = Range::new(address, address.saturating_add(PAGE_SIZE));
    (facts::ROOT_IMAGE.end..=facts::BOOT_MAPPED - PAGE_SIZE).contains(&address) && !ram.overlaps(page)
}

fn parse_madt(table: &[u8]) -> Option<Madt> {
    const LOCAL_APIC: u8 = 0;
    const LOCAL_X2APIC: u8 = 9;
    const ENABLED: u64 = 1;
    /// Ids that mean all processors.
    const ALL: u8 = u8::MAX;
    const X2_ALL: u64 = u32::MAX as u64;
    const IO_APIC: u8 = 1;
    const OVERRIDE: u8 = 2;
    let mut madt = Madt::NONE;
    let mut at = 44;
    while at + 2 <= table.len() {
        let (kind, length) = (table[at], table[at + 1] as usize);
        let entry = table.get(at..at + length).filter(|_| length >= 2)?;
        match kind {
            LOCAL_APIC if length >= 8 && number(entry, 4, 4)? & ENABLED != 0 && entry[3] != ALL => {
                madt.add_processor(entry[3] as u32);
            }
            LOCAL_X2APIC if length >= 16 && number(entry, 8, 4)? & ENABLED != 0 && number(entry, 4, 4)? != X2_ALL => {
                madt.add_processor(number(entry, 4, 4)? as u32);
            }
            IO_APIC if length >= 12 => {
                // More than can be used are left alone.
                let _ = madt.io_apics.push(IoApic { address: number(entry, 4, 4)?, base: number(entry, 8, 4)? as u32 });
            }
            OVERRIDE if length >= 10 && (entry[3] as usize) < ISA_IRQS => {
                let pin = number(entry, 4, 4)?.min(u8::MAX as u64) as u8;
                madt.isa[entry[3] as usize] = Some((pin, (entry[8] >> 2 & 3 == 3, entry[8] & 3 == 3)));
            }
            _ => {}
        }
        at += length;
    }
    Some(madt)
}

/// Kinds of addresses, with which a generic address begins; the address is after three other bytes.
const IN_MEMORY: u8 = 0;
const IN_PORTS: u8 = 1;
const GENERIC_ADDRESS: usize = 4;

/// Finds the physical address of the HPET's registers in its table. `None` if the table makes no
/// sense.
pub fn parse_hpet(table: &[u8]) -> Option<u64> {
    const ADDRESS: usize = 40;
    /// The HPET's registers fill a block of 1 KB, which does not cross a page then.
    const BLOCK: u64 = 1 << 10;
    let address = number(table, ADDRESS + GENERIC_ADDRESS, 8)?;
    if table[ADDRESS] != IN_MEMORY || address == 0 || address % BLOCK != 0 {
        return None;
    }
    Some(address)
}

/// The port of the PM timer, by the FADT.
pub fn parse_pm_timer(table: &[u8]) -> Option<u16> {
    const PORT: usize = 76;
    const FLAGS: usize = 112;
    const ADDRESS: usize = 208;
    /// No such hardware.
    const REDUCED: u64 = 1 << 20;
    number(table, FLAGS, 4).filter(|flags| flags & REDUCED == 0)?;
    // The long address comes first where the table has it (ACPI 6.4, 5.2.9, X_PM_TMR_BLK).
    let port = match number(table, ADDRESS + GENERIC_ADDRESS, 8) {
        None | Some(0) => number(table, PORT, 4)?,
        Some(address) if table[ADDRESS] == IN_PORTS => address,
        Some(_) => return None,
    };
    u16::try_from(port).ok().filter(|port| *port != 0)
}

#[cfg(test)]
#[path = "../../../../tests/kernel/acpi.rs"]
mod tests;
