// SPDX-License-Identifier: GPL-2.0-only
//! Segments of threads that run 32-bit code in a window: what their selectors mean, and which
//! thread-local descriptors they get (Intel SDM volume 3, 3.4.5; Uhlig, Dannowski, Skoglund,
//! Haeberlen, Heiser: "Performance of address-space multiplexing on the Pentium", section 3).
//!
//! In 32-bit code the processor checks every address against a segment's limit, and adds its base.
//! So a thread with no segment beyond its window reaches nothing else of the tables that it runs
//! on. In 64-bit code there are neither bases nor limits: it must have no way there. While such a
//! thread is loaded, the descriptor table of its processor has no other user segments.

use super::{cpu::Cpu, tables::*};
use crate::base::{abi::*, Reach};

/// Descriptor bits of a user's segment: for user mode, and no system's.
const USER: u64 = 0x70 << 40;
/// The same, present, and used.
const USED: u64 = 0xf1 << 40;
/// 64-bit code, which a user's own descriptor must not be.
const BITS_64: u64 = 1 << 53;
/// What makes it writable data, or code that can be read; 32-bit offsets, and a limit in pages.
const WRITABLE: u64 = 1 << 41;
const CODE: u64 = 0xa << 40;
const BITS_32: u64 = 1 << 54;
const PAGES: u64 = 1 << 55;
/// Of data: offsets are those above the limit.
const DOWN: u64 = 1 << 42;
/// The bits that are neither base nor limit nor its unit.
const KIND: u64 = 0x0070_ff00_0000_0000;
/// The largest limit.
const LARGEST: u64 = (1 << 20) - 1;

/// A descriptor with this base below 4 GB, and this limit in the unit that `kind` says.
const fn descriptor(kind: u64, base: u64, limit: u64) -> u64 {
    kind | limit & 0xffff | (limit >> 16 & 0xf) << 48 | (base & 0xff_ffff) << 16 | (base >> 24 & 0xff) << 56
}

/// The same of these bytes from `base` on, at least one; where they are many their last page only
/// if it is whole.
const fn bytes(kind: u64, base: u64, bytes: u64) -> u64 {
    if bytes <= LARGEST + 1 {
        return descriptor(kind, base, bytes - 1);
    }
    descriptor(kind | PAGES, base, (bytes >> PAGE_SHIFT) - 1)
}

/// The base of a descriptor, and the last offset that it covers, if it does not expand down.
const fn extent(descriptor: u64) -> (u64, u64) {
    let limit = descriptor & 0xffff | (descriptor >> 48 & 0xf) << 16;
    let last = if descriptor & PAGES != 0 { limit << PAGE_SHIFT | 0xfff } else { limit };
    (descriptor >> 16 & 0xff_ffff | descriptor >> 56 << 24, last)
}

/// What the user's selectors mean to a thread with this reach: 32-bit code and data that reach this
/// (for none: all of 32 bits); 64-bit code, for none alone; and one byte at its base, to whose
/// limit a processor's number is added. Nothing is left that leads elsewhere.
pub const fn descriptors(reach: Reach) -> [u64; 4] {
    let none = reach.raw() == Reach::NONE.raw();
    let (base, size) = (reach.base(), if none { Reach::ALL.size() } else { reach.size() });
    let [code, data] = [bytes(USED | CODE | BITS_32, base, size), bytes(USED | WRITABLE | BITS_32, base, size)];
    [code, data, if none { USER_CODE } else { 0 }, bytes(USED | BITS_32, base, 1)]
}

/// Makes them mean that on this processor.
#[cold]
pub fn select(cpu: &Cpu, reach: Reach) {
    cpu.reach.set(reach);
    set_user_segments(cpu, descriptors(reach));
}

/// Whether a descriptor is empty or a user's data or code segment. Code must be readable, and not
/// conforming: the kernel loads it into data segment registers too, and must not fault.
pub fn is_user_descriptor(descriptor: u64) -> bool {
    let is_data = descriptor & CODE & !WRITABLE == 0;
    descriptor == 0 || descriptor & (USER | BITS_64) == USER && (is_data || descriptor & (CODE | DOWN) == CODE)
}

/// Whether a thread-local descriptor covers all offsets: the part of it that is in a window is on
/// both sides of its base, as the C library's of i386 is.
pub fn covers_all(descriptor: u64) -> bool {
    extent(descriptor).1 == Reach::ALL.size() - 1 && descriptor & (CODE & !WRITABLE | DOWN) == 0
}

/// What a thread gets in place of a thread-local descriptor of its own: what that covers of the
/// window from its base on, or, `down` and where it covers all, below its base. One without offsets
/// for one whose base is outside, and for one that expands down itself: of one that is not there
/// the thread would lose selector and base, and need them when it leaves its window.
pub fn confined(own: u64, reach: Reach, down: bool) -> u64 {
    let (base, last) = extent(own);
    let expands_down = own & (CODE & !WRITABLE | DOWN) == DOWN;
    match reach {
        Reach::NONE | Reach::ALL => own,
        _ if own == 0 => 0,
        _ if base >= reach.size() || expands_down => {
            descriptor(own & KIND & !(CODE & !WRITABLE) | DOWN | PAGES, reach.base() + base, LARGEST)
        }
        // Offsets above the limit are those from the base, less what it is above the window's, on.
        _ if down && covers_all(own) => {
            descriptor(own & KIND | DOWN | PAGES, reach.base() + base, LARGEST - (base >> PAGE_SHIFT))
        }
        _ => bytes(own & KIND, reach.base() + base, (last + 1).min(reach.size() - base)),
    }
}

#[cfg(test)]
#[path = "../../../../tests/kernel/segments.rs"]
mod tests;
