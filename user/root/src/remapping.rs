// SPDX-License-Identifier: BSD-2-Clause
//! The tables of an Intel IOMMU (*Intel Virtualization Technology for Directed I/O*, revision 4.0,
//! chapters 3, 8 and 9): ACPI's table of the units, and the page tables that translate the
//! addresses of DMA.
//!
//! All devices share one address space. It maps memory one-to-one, so drivers need not know about
//! it.

use keel_l4::abi::acpi::number;
use keel_l4::abi::fpage::PAGE_SIZE;
use keel_l4::list::{Full, List};
use keel_l4::ranges::{Range, Ranges};

/// Units of one machine.
pub const MAX_UNITS: usize = 16;
/// Ranges of memory that the firmware's own devices need.
pub const MAX_RESERVED: usize = 16;
/// The signature of ACPI's table.
pub const SIGNATURE: &[u8; 4] = b"DMAR";
/// Fields of that table (8.1): the offset of its structures, and the relevant kinds of structures
/// (8.3, 8.4) with their fields.
const STRUCTURES: usize = 48;
const UNIT: u64 = 0;
const UNIT_REGISTERS: usize = 8;
const RESERVED: u64 = 1;
const RESERVED_FIRST: usize = 8;
const RESERVED_LAST: usize = 16;

/// What ACPI says about the machine's units.
#[derive(Clone, Copy, Debug, Default)]
pub struct Units {
    /// Physical addresses of their registers.
    pub registers: List<u64, MAX_UNITS>,
    /// The memory that the firmware reserves for its devices.
    pub reserved: Ranges<MAX_RESERVED>,
}

/// Decodes ACPI's table; `None` if it is invalid.
pub fn units(table: &[u8]) -> Option<Units> {
    let mut units = Units::default();
    let mut at = STRUCTURES;
    while at < table.len() {
        let (kind, length) = (number(table, at, 2)?, number(table, at + 2, 2)? as usize);
        let structure = table.get(at..at + length).filter(|_| length >= 4)?;
        match kind {
            UNIT => {
                let registers = number(structure, UNIT_REGISTERS, 8)?;
                units.registers.push(registers).ok().filter(|()| registers % PAGE_SIZE == 0)?;
            }
            RESERVED => {
                let last = number(structure, RESERVED_LAST, 8)?;
                let range = Range::new(number(structure, RESERVED_FIRST, 8)?, last.checked_add(1)?);
                units.reserved.insert(range.grow_to(PAGE_SIZE)).ok()?;
            }
            _ => {}
        }
        at += length;
    }
    Some(units)
}

/// Entries of a table, and the address bits that index it.
const ENTRIES: usize = 512;
const ENTRY_BITS: u32 = 9;
const PAGE_BITS: u32 = PAGE_SIZE.trailing_zeros();
/// A page table, a page of the root table (9.1) or of a context table (9.3). Entries of the last
/// two have two words.
pub type Table = [u64; ENTRIES];
/// Size of the page of an upper-level entry.
const SUPERPAGE: u64 = PAGE_SIZE << ENTRY_BITS;
/// An entry of the root table or a context table is present.
const PRESENT: u64 = 1;
/// The second word of a context entry: address width, and domain number.
const WIDTH_OF_3_LEVELS: u64 = 1;
const DOMAIN: u64 = 1 << 8;
/// A page table entry (9.8): read and write access; superpage.
const READ_WRITE: u64 = 3;
const IS_SUPERPAGE: u64 = 1 << 7;
const ADDRESS: u64 = 0xf_ffff_ffff_f000;
/// The tables that always exist.
const ROOT: usize = 0;
const CONTEXT: usize = 1;
const TOP: usize = 2;
const FIXED: usize = 3;

/// What all units of a machine support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Levels of tables: 3 or 4.
    pub levels: u32,
    /// Whether entries may be superpages of 2 MB.
    pub superpages: bool,
}

impl Shape {
    /// The first address that the tables cannot translate.
    fn limit(self) -> u64 {
        1 << (PAGE_BITS + ENTRY_BITS * self.levels)
    }

    /// The number of tables that suffices for any `ranges` ranges of page-aligned memory below
    /// `end`.
    pub fn tables(self, ranges: usize, end: u64) -> usize {
        let upper = (2..self.levels).map(|level| end.div_ceil(SUPERPAGE << (ENTRY_BITS * (level - 1))));
        // Only the two ends of a range of superpages can need a table.
        let last = if self.superpages { 2 * ranges as u64 } else { end.div_ceil(SUPERPAGE) };
        FIXED + (upper.sum::<u64>() + last) as usize
    }
}

/// The tables: one context table for all buses, one address space for all devices.
pub struct Tables<'a> {
    tables: &'a mut [Table],
    physical: u64,
    used: usize,
    shape: Shape,
}

impl<'a> Tables<'a> {
    /// Tables in `tables`, which begin at the physical address `physical`. At first they map
    /// nothing.
    pub fn new(tables: &'a mut [Table], physical: u64, shape: Shape) -> Result<Tables<'a>, Full> {
        let mut new = Tables { tables, physical, used: 0, shape };
        while new.used < FIXED {
            new.take()?;
        }
        let [context, top] = [CONTEXT, TOP].map(|table| new.address(table));
        for entry in new.tables[ROOT].chunks_exact_mut(2) {
            entry.copy_from_slice(&[context | PRESENT, 0]);
        }
        let width = WIDTH_OF_3_LEVELS + shape.levels as u64 - 3;
        for entry in new.tables[CONTEXT].chunks_exact_mut(2) {
            entry.copy_from_slice(&[top | PRESENT, DOMAIN | width]);
        }
        Ok(new)
    }

    fn address(&self, table: usize) -> u64 {
        self.physical + table as u64 * PAGE_SIZE
    }

    /// Takes an empty table.
    fn take(&mut self) -> Result<usize, Full> {
        self.tables.get_mut(self.used).ok_or(Full)?.fill(0);
        self.used += 1;
        Ok(self.used - 1)
    }

    /// Physical address of the root table.
    pub fn root(&self) -> u64 {
        self.address(ROOT)
    }

    /// The tables in use.
    pub fn used(&self) -> &[Table] {
        &self.tables[..self.used]
    }

    /// Maps the pages of `range` for devices. `Full` if it needs too many tables or is too high.
    pub fn allow(&mut self, range: Range) -> Result<(), Full> {
        if range.end > self.shape.limit() {
            return Err(Full);
        }
        let mut at = range.start;
        while at < range.end {
            let whole = self.shape.superpages && at % SUPERPAGE == 0 && range.end - at >= SUPERPAGE;
            at = self.enter(at, if whole { 1 } else { 0 })?;
        }
        Ok(())
    }

    /// Finds or makes the entry for `at` in a table of level `lowest`. Returns the address of the
    /// entry's target.
    fn enter(&mut self, at: u64, lowest: u32) -> Result<u64, Full> {
        let mut table = TOP;
        for level in (lowest..self.shape.levels).rev() {
            let size = PAGE_SIZE << (ENTRY_BITS * level);
            let index = (at / size) as usize % ENTRIES;
            let entry = self.tables[table][index];
            if entry & IS_SUPERPAGE != 0 {
                return Ok((at / size + 1) * size);
            }
            if level == lowest {
                let kind = if level > 0 { IS_SUPERPAGE } else { 0 };
                self.tables[table][index] = at | READ_WRITE | kind;
                return Ok(at + size);
            }
            if entry == 0 {
                let next = self.take()?;
                self.tables[table][index] = self.address(next) | READ_WRITE;
            }
            table = ((self.tables[table][index] & ADDRESS) - self.physical) as usize / PAGE_SIZE as usize;
        }
        unreachable!("the loop ends at the lowest level")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;
    const GB: u64 = 1 << 30;
    const PHYSICAL: u64 = 0x123_4000;
    const SHAPES: [Shape; 4] = [
        Shape { levels: 3, superpages: true },
        Shape { levels: 3, superpages: false },
        Shape { levels: 4, superpages: true },
        Shape { levels: 4, superpages: false },
    ];

    /// Walks the tables like the hardware.
    fn reached(tables: &Tables<'_>, device: usize, at: u64) -> Option<u64> {
        let table = |entry: u64| &tables.tables[((entry & ADDRESS) - PHYSICAL) as usize / PAGE_SIZE as usize];
        let root = tables.tables[0][2 * (device >> 8)];
        let context = &table(root)[2 * (device & 0xff)..][..2];
        assert!(root & 1 == 1 && context[0] & 0xfff == 1 && context[1] == 1 << 8 | (tables.shape.levels as u64 - 2));
        let mut entry = context[0];
        for level in (0..tables.shape.levels).rev() {
            let size = PAGE_SIZE << (9 * level);
            entry = table(entry)[(at / size % 512) as usize];
            if entry & 3 != 3 {
                return None;
            }
            if level == 0 || entry & IS_SUPERPAGE != 0 {
                return Some((entry & ADDRESS & !(size - 1)) + at % size);
            }
        }
        None
    }

    #[test]
    fn exactly_what_is_allowed_is_reached_at_its_own_address_by_every_device() {
        let ranges = [(MB, MB + 4096), (4 * MB - 4096, 9 * MB), (GB - 2 * MB, GB + 2 * MB), (5 * GB, 5 * GB + 12288)];
        for shape in SHAPES {
            let mut place = vec![[7; ENTRIES]; shape.tables(ranges.len(), 6 * GB)];
            let mut tables = Tables::new(&mut place, PHYSICAL, shape).unwrap();
            for (start, end) in ranges {
                tables.allow(Range::new(start, end)).unwrap();
            }
            for (start, end) in ranges {
                for device in [0, 0xff, 0x1234, 0xffff] {
                    for at in (start..end).step_by(4096).chain([end - 1]) {
                        assert_eq!(reached(&tables, device, at), Some(at), "{shape:?} {at:#x}");
                    }
                    for at in [0, start - 1, end, end + 3 * GB] {
                        assert_eq!(reached(&tables, device, at), None, "{shape:?} {at:#x}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_page_inside_a_superpage_is_reached_already() {
        let mut place = vec![[0; ENTRIES]; 8];
        let mut tables = Tables::new(&mut place, PHYSICAL, SHAPES[0]).unwrap();
        tables.allow(Range::new(2 * MB, 4 * MB)).unwrap();
        tables.allow(Range::new(3 * MB, 4 * MB + 4096)).unwrap();
        for at in [2 * MB, 3 * MB, 4 * MB - 1, 4 * MB + 1] {
            assert_eq!(reached(&tables, 8, at), Some(at));
        }
        assert_eq!(reached(&tables, 8, 4 * MB + 4096), None);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for shape in SHAPES {
            let mut place = vec![[0; ENTRIES]; FIXED];
            assert!(Tables::new(&mut place[..2], PHYSICAL, shape).is_err());
            let mut tables = Tables::new(&mut place, PHYSICAL, shape).unwrap();
            assert_eq!(tables.allow(Range::new(MB, MB + 4096)), Err(Full));
            assert_eq!(tables.allow(Range::new(MB, shape.limit() + 4096)), Err(Full));
        }
    }

    fn table(structures: &[&[u8]]) -> Vec<u8> {
        structures.iter().fold(vec![0; STRUCTURES], |all, structure| [&all, *structure].concat())
    }

    /// A structure of 24 bytes.
    fn structure(kind: u8, first: u64, second: u64) -> Vec<u8> {
        [&[kind, 0, 24, 0, 0, 0, 0, 0][..], &first.to_le_bytes(), &second.to_le_bytes()].concat()
    }

    #[test]
    fn units_and_what_is_reserved_are_found() {
        let [unit, other, third] =
            [structure(0, 0xfed9_0000, 0), structure(2, 1, 2), structure(1, 0x7000_0000, 0x7000_17ff)];
        let units = units(&table(&[&other, &unit, &third])).unwrap();
        assert_eq!(units.registers[..], [0xfed9_0000]);
        assert!(units.reserved.iter().eq([Range::new(0x7000_0000, 0x7000_2000)]));
    }

    #[test]
    fn a_table_that_makes_no_sense_is_none() {
        let unit = structure(0, 0xfed9_0000, 0);
        let mut short = unit.clone();
        short[2] = 0;
        for wrong in [&unit[..23], &unit[..3], &short, &structure(0, 0xfed9_0001, 0), &structure(1, 0, u64::MAX)] {
            assert!(units(&table(&[wrong])).is_none(), "{wrong:?}");
        }
        assert!(units(&table(&[unit.as_slice(); MAX_UNITS + 1])).is_none());
        assert!(units(&[]).is_some_and(|units| units.registers.is_empty()));
    }
}
