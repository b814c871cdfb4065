// SPDX-License-Identifier: GPL-2.0-only
//! What a multiboot1 loader passes on (Multiboot Specification 0.6.96).

use super::direct;
use keel_abi::ranges::Range;

/// Magic number in the kernel's header.
pub const HEADER_MAGIC: u32 = 0x1bad_b002;
/// Magic number that the loader passes.
pub const LOADER_MAGIC: u32 = 0x2bad_b002;
/// Header flags: modules page aligned, memory information, addresses in the header.
pub const HEADER_FLAGS: u32 = 1 | 1 << 1 | 1 << 16;

const HAS_COMMAND_LINE: u32 = 1 << 2;
const HAS_MODULES: u32 = 1 << 3;
const HAS_MEMORY_MAP: u32 = 1 << 6;
/// Longest command line that is looked at.
const MAX_TEXT: usize = 4096;

#[repr(C)]
struct Raw {
    flags: u32,
    memory: [u32; 2],
    boot_device: u32,
    command_line: u32,
    module_count: u32,
    modules: u32,
    symbols: [u32; 4],
    map_length: u32,
    map: u32,
}

#[repr(C)]
struct RawModule {
    start: u32,
    end: u32,
    text: u32,
    reserved: u32,
}

/// The loader's information.
pub struct Information(&'static Raw);

/// A boot module.
#[derive(Clone, Copy)]
pub struct Module {
    /// Where it lies.
    pub range: Range,
    /// Its command line.
    pub text: &'static [u8],
}

/// A piece of the memory map.
#[derive(Clone, Copy)]
pub struct Piece {
    /// Where it lies.
    pub range: Range,
    /// RAM that may be used.
    pub usable: bool,
}

impl Information {
    /// Takes over what the loader left at `address`; `None` if `magic` is not the loader's.
    ///
    /// # Safety
    /// Both come from the loader in eax and ebx.
    pub unsafe fn new(magic: u32, address: u32) -> Option<Information> {
        // SAFETY: the loader put its structure there, below 4 GB, which is mapped.
        (magic == LOADER_MAGIC).then(|| Information(unsafe { &*direct(address as u64).cast::<Raw>() }))
    }

    /// The kernel's command line.
    pub fn command_line(&self) -> &'static [u8] {
        if self.0.flags & HAS_COMMAND_LINE == 0 {
            &[]
        } else {
            text(self.0.command_line)
        }
    }

    /// The modules in order.
    pub fn modules(&self) -> impl Iterator<Item = Module> {
        let count = if self.0.flags & HAS_MODULES == 0 { 0 } else { self.0.module_count };
        let first = direct(self.0.modules as u64).cast::<RawModule>();
        (0..count as usize).map(move |number| {
            // SAFETY: the loader's array of `module_count` entries.
            let raw = unsafe { &*first.add(number) };
            Module { range: Range::new(raw.start as u64, raw.end as u64), text: text(raw.text) }
        })
    }

    /// The memory map.
    pub fn memory(&self) -> impl Iterator<Item = Piece> {
        let length = if self.0.flags & HAS_MEMORY_MAP == 0 { 0 } else { self.0.map_length as u64 };
        let (start, mut at) = (self.0.map as u64, 0);
        core::iter::from_fn(move || {
            if at + 24 > length {
                return None;
            }
            let entry = direct(start + at);
            // SAFETY: inside the loader's map: size, base, length, type, not aligned.
            let (size, base, bytes, kind) = unsafe {
                let read = |offset| entry.add(offset).cast::<u64>().read_unaligned();
                (entry.cast::<u32>().read_unaligned(), read(4), read(12), entry.add(20).cast::<u32>().read_unaligned())
            };
            at += size as u64 + 4;
            Some(Piece { range: Range::new(base, base.saturating_add(bytes)), usable: kind == 1 })
        })
    }
}

fn text(address: u32) -> &'static [u8] {
    let start = direct(address as u64);
    // SAFETY: a zero-terminated string of the loader's; the length is bounded.
    let length = (0..MAX_TEXT).find(|at| unsafe { *start.add(*at) } == 0).unwrap_or(MAX_TEXT);
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts(start, length) }
}
