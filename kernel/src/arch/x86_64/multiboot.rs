// SPDX-License-Identifier: GPL-2.0-only
//! What a multiboot loader passes on: by version 1 (Multiboot Specification 0.6.96) fields with
//! addresses, by version 2 (Multiboot2 Specification 2.0) tags. It is believed, but read within
//! bounds.

use crate::{arch::acpi::bytes, arch::acpi::number, base::abi::*, base::facts::limit, base::facts::Memory};

/// Magic numbers that the loader passes, of version 1 and of version 2.
const LOADER_MAGIC: [u32; 2] = [0x2bad_b002, 0x36d7_6289];
/// Pieces of memory that are left, of RAM and of others: from `Memory`'s room for pieces, modules
/// and what is the kernel's are cut out.
const MOST_PIECES: usize = 64;
/// Longest command line that is looked at.
const MAX_TEXT: usize = 4096;
/// The kind of a framebuffer whose pixels are colours.
const COLOURS: u64 = 1;

/// The loader's information.
#[derive(Clone, Copy, Default)]
pub struct Information {
    /// The kernel's command line.
    pub command_line: &'static [u8],
    /// The modules in order.
    pub modules: keel_abi::list::List<Module, { KIP_MODULES as usize }>,
    /// RAM that may be used.
    pub ram: Memory,
    /// What else the memory map tells of.
    pub reserved: Memory,
    /// Bytes of RAM that were left out, if there were too many pieces to keep.
    pub lost: Option<u64>,
    /// Physical address of ACPI's root pointer, if it was passed.
    pub rsdp: Option<u64>,
    /// The framebuffer, as `Info` has it; zeros if there is none.
    pub framebuffer: [u64; 4],
}

/// A boot module.
#[derive(Clone, Copy, Default)]
pub struct Module {
    /// Where it lies.
    pub range: Range,
    /// Its command line.
    pub text: &'static [u8],
}

impl Information {
    /// Takes over what the loader left at `address`; `None` if `magic` is not a loader's or it
    /// makes no sense.
    pub fn new(magic: u32, address: u64) -> Option<Information> {
        let mut information = Information::default();
        match LOADER_MAGIC.iter().position(|known| *known == magic)? {
            0 => information.take_fields(address)?,
            _ => information.take_tags(address)?,
        }
        information.settle();
        Some(information)
    }

    /// What is RAM and reserved is reserved: a piece of RAM that cannot be cut goes as a whole.
    /// Then the pieces are as few as can be cut further.
    fn settle(&mut self) {
        let Information { ram, reserved, .. } = self;
        loop {
            let overlapping = reserved.iter().find(|range| ram.overlaps(*range));
            let Some(range) = overlapping else { break };
            if ram.remove(range).is_err() {
                let whole = ram.iter().find(|piece| piece.overlaps(range)).unwrap_or_default();
                let _ = ram.remove(whole);
                reserve(reserved, whole);
            }
        }
        let all = *ram;
        self.lost = limit(&all, ram, reserved, MOST_PIECES);
    }

    /// Version 1: a bit of the flags says whether a field is there.
    fn take_fields(&mut self, address: u64) -> Option<()> {
        const COMMAND_LINE: (u32, usize) = (2, 16);
        const MODULES: (u32, usize) = (3, 20);
        const MEMORY_MAP: (u32, usize) = (6, 44);
        let all = bytes(address, 52)?;
        let field = |(bit, at)| (number(all, 0, 4)? >> bit & 1 == 1).then_some(number(all, at, 8)?);
        // A length or count, and behind it the address.
        let list = |which, size| field(which).and_then(|field| bytes(field >> 32, field as u32 as usize * size));
        self.command_line = field(COMMAND_LINE).map_or(&[], |field| text(field as u32 as u64));
        for entry in list(MODULES, 16).unwrap_or(&[]).chunks_exact(16) {
            self.add_module(entry, text(number(entry, 8, 4)?))?;
        }
        let mut map = list(MEMORY_MAP, 1).unwrap_or(&[]);
        while let Some(size) = number(map, 0, 4) {
            let (entry, rest) = map.split_at_checked(size as usize + 4)?;
            self.add_memory(&entry[4..])?;
            map = rest;
        }
        Some(())
    }

    /// Version 2. The texts lie in the list itself, which therefore is nobody's memory.
    fn take_tags(&mut self, address: u64) -> Option<()> {
        const COMMAND_LINE: u64 = 1;
        const MODULE: u64 = 3;
        const MEMORY_MAP: u64 = 6;
        const FRAMEBUFFER: u64 = 8;
        const RSDP: [u64; 2] = [14, 15];
        let size = number(bytes(address, 8)?, 0, 4)?;
        let (all, mut at) = (bytes(address, size as usize)?, 8);
        while let (Some(kind), Some(size)) = (number(all, at, 4), number(all, at + 4, 4)) {
            let tag = all.get(at + 8..at + size as usize)?;
            match kind {
                COMMAND_LINE => self.command_line = until_zero(tag),
                MODULE => self.add_module(tag, until_zero(tag.get(8..)?))?,
                MEMORY_MAP => {
                    let mut entries = tag.get(8..)?.chunks_exact(24.max(tag[0] as usize));
                    entries.try_for_each(|entry| self.add_memory(entry))?;
                }
                FRAMEBUFFER if number(tag, 21, 1)? == COLOURS => {
                    let rest = |at| number(tag, at, tag.len().saturating_sub(at).min(8));
                    self.framebuffer = [0, 8, 16, 24].map(|at| rest(at).unwrap_or(0));
                }
                // The pointer of the later version comes later.
                _ if RSDP.contains(&kind) => self.rsdp = Some(address + at as u64 + 8),
                _ => {}
            }
            at += (size as usize).next_multiple_of(8);
        }
        reserve(&mut self.reserved, Range::new(address, address + size));
        Some(())
    }

    fn add_module(&mut self, entry: &[u8], text: &'static [u8]) -> Option<()> {
        let range = Range::new(number(entry, 0, 4)?, number(entry, 4, 4)?);
        self.modules.push(Module { range, text }).ok()
    }

    fn add_memory(&mut self, entry: &[u8]) -> Option<()> {
        let (base, size) = (number(entry, 0, 8)?, number(entry, 8, 8)?);
        let range = Range::new(base, base.saturating_add(size));
        // RAM of which too many pieces are told is nobody's.
        if number(entry, 16, 4)? != 1 || self.ram.insert(range).is_err() {
            reserve(&mut self.reserved, range);
        }
        Some(())
    }
}

/// Adds to what is reserved; where that has no room, the smallest gap in it goes too.
fn reserve(reserved: &mut Memory, range: Range) {
    while reserved.insert(range).is_err() {
        let gap = reserved.gaps().min_by_key(|gap| gap.size());
        let _ = reserved.insert(gap.unwrap_or_default());
    }
}

fn text(address: u64) -> &'static [u8] {
    until_zero(bytes(address, MAX_TEXT).unwrap_or(&[]))
}

fn until_zero(text: &'static [u8]) -> &'static [u8] {
    text.split(|byte| *byte == 0).next().unwrap_or(&[])
}

#[cfg(test)]
#[path = "../../../../tests/kernel/multiboot.rs"]
mod tests;
