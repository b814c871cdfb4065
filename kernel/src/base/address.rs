// SPDX-License-Identifier: GPL-2.0-only
//! Physical and virtual addresses, each of a type of its own: neither can be given for the other.
//!
//! Where one becomes the other has a name: the direct map (`arch::direct` and its inverse
//! `direct_physical`), the kernel's image (`paging::image_physical`), an entry of a page table
//! (`paging::leads_to`), and sigma0's space, which is physical memory (`space::find_source`).
//!
//! Bare numbers are left where nothing can be mixed, since all are of one kind: the words of the
//! ABI, the ranges of the memory map, what firmware's tables and devices say (physical), and the
//! map that the kernel makes of itself at boot. The kernel's own addresses are pointers.

use core::ops::{Add, Sub};

macro_rules! address {
    ($($(#[$about:meta])* $name:ident;)*) => {$(
        newtype! { $(#[$about])* pub struct $name(u64); }

        impl $name {
            /// The multiple of `size`, a power of two, at or below it.
            pub const fn align_down(self, size: u64) -> $name {
                $name(self.0 & !(size - 1))
            }

            /// How far it lies behind that.
            pub const fn offset_in(self, size: u64) -> u64 {
                self.0 & (size - 1)
            }
        }

        impl Add<u64> for $name {
            type Output = $name;

            fn add(self, bytes: u64) -> $name {
                $name(self.0 + bytes)
            }
        }

        /// How many bytes lie between; huge if it is the lower one.
        impl Sub for $name {
            type Output = u64;

            fn sub(self, from: $name) -> u64 {
                self.0.wrapping_sub(from.0)
            }
        }
    )*};
}

address! {
    /// The address of a byte in physical memory, RAM or a device's, below 2^52. It is made of the
    /// number of a page, of an entry of a page table, or of an address in the memory map. That of a
    /// top page table names a space: fast.s knows those (`Cpu::space`, `Thread::space`, `Pcids`).
    PhysAddr;

    /// The address of a byte in a space. space.rs has numbers of 48 bits (`fpage::number`), as
    /// fpages do. What is made of a user's pointer or of CR2 is in the processor's form, and may be
    /// any number; `space::access` takes its number. The kernel's own ones get this type where they
    /// go into a page table.
    VirtAddr;
}
