// SPDX-License-Identifier: BSD-2-Clause
//! Flexpages: aligned, power-of-two sized regions of memory or of I/O ports.
//!
//! Layout: base 63:12, cache type 11:10, log2 size 9:4, I/O 3, rights 2:0. An I/O fpage has its
//! first port in 27:12 and its log2 size in ports (0 to 16).
//!
//! The base of a memory fpage is the *number* of an address: its lower 48 bits. A space has two
//! halves, and in the processor's form an address of the upper one has all upper bits set
//! (`canonical`). Numbers have no gap between the halves.

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Right to read
    FPAGE_READ = 4;
    /// Right to write
    FPAGE_WRITE = 2;
    /// Right to execute
    FPAGE_EXEC = 1;
    /// All rights
    FPAGE_RWX = 7;
    /// The fpage names I/O ports instead of memory
    FPAGE_IO = 8;
    /// Shift of the log2 size
    FPAGE_SIZE_SHIFT = 4;
    /// Width of the log2 size in bits
    FPAGE_SIZE_BITS = 6;
    /// Shift of the cache type
    FPAGE_CACHE_SHIFT = 10;
    /// Cache type: write-back
    CACHE_WRITE_BACK = 0;
    /// Cache type: write-combining
    CACHE_WRITE_COMBINING = 1;
    /// Cache type: uncached
    CACHE_UNCACHED = 2;
    /// Shift of the first port of an I/O fpage
    FPAGE_PORT_SHIFT = 12;
    /// Log2 of the smallest memory fpage
    PAGE_SHIFT = 12;
    /// Size of the smallest memory fpage in bytes
    PAGE_SIZE = 1 << PAGE_SHIFT;
    /// Log2 of an address space
    SPACE_SHIFT = 48;
    /// Log2 of each of its halves
    HALF_SHIFT = 47;
    /// End of the memory that can be mapped in the lower half: its last page stays empty
    USER_END = (1 << HALF_SHIFT) - PAGE_SIZE;
    /// First address of the upper half that can be mapped (TASK_UPPER_HALF)
    UPPER_START = 0xffff_d000_0000_0000;
    /// Where that ends: the µ-kernel's own last pages follow
    UPPER_END = 0xffff_ff80_0000_0000;
    /// First address of the last GB, which can be mapped too, except its last page
    UPPER_LAST = 0xffff_ffff_c000_0000;
    /// The whole space, all rights
    FPAGE_WHOLE = (SPACE_SHIFT << FPAGE_SIZE_SHIFT) | FPAGE_RWX;
    /// The nil fpage: names nothing, accepts nothing
    FPAGE_NIL = 0;
}

/// The number of an address: its lower bits, which fpages have.
pub const fn number(address: u64) -> u64 {
    address & ((1 << SPACE_SHIFT) - 1)
}

/// The address of a number, in the processor's form.
pub const fn canonical(number: u64) -> u64 {
    const UNUSED: u64 = 64 - SPACE_SHIFT;
    ((number << UNUSED) as i64 >> UNUSED) as u64
}

/// Returns true if `size` bytes (at most a half's) at an address are in one half of a space; then
/// the address is canonical.
pub const fn is_in_half(address: u64, size: u64) -> bool {
    const HALF: u64 = 1 << HALF_SHIFT;
    address == canonical(address) && address % HALF <= HALF - size
}

/// A flexpage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Fpage(pub u64);

impl Fpage {
    /// Nothing.
    pub const NIL: Fpage = Fpage(FPAGE_NIL);
    /// The whole space.
    pub const WHOLE: Fpage = Fpage(FPAGE_WHOLE);

    /// Returns the memory fpage of `2^log2` bytes that contains the address `base`.
    pub const fn memory(base: u64, log2: u8, rights: u64) -> Fpage {
        Fpage((number(base) >> log2 << log2) | ((log2 as u64) << FPAGE_SIZE_SHIFT) | (rights & FPAGE_RWX))
    }

    /// Returns the I/O fpage of `2^log2` ports that contains `port`.
    pub const fn io(port: u16, log2: u8) -> Fpage {
        let first = (port as u64) >> log2 << log2;
        Fpage((first << FPAGE_PORT_SHIFT) | ((log2 as u64) << FPAGE_SIZE_SHIFT) | FPAGE_IO | FPAGE_READ | FPAGE_WRITE)
    }

    /// Returns true if it names I/O ports.
    pub const fn is_io(self) -> bool {
        self.0 & FPAGE_IO != 0
    }

    /// Log2 of its size, in bytes or in ports.
    pub const fn log2(self) -> u8 {
        ((self.0 >> FPAGE_SIZE_SHIFT) & ((1 << FPAGE_SIZE_BITS) - 1)) as u8
    }

    /// Its rights.
    pub const fn rights(self) -> u64 {
        self.0 & FPAGE_RWX
    }

    /// Its cache type.
    pub const fn cache(self) -> u64 {
        (self.0 >> FPAGE_CACHE_SHIFT) & 3
    }

    /// Number of the first byte of a memory fpage.
    pub const fn base(self) -> u64 {
        (self.0 & !(PAGE_SIZE - 1)) >> self.log2() << self.log2()
    }

    /// First port of an I/O fpage.
    pub const fn port(self) -> u16 {
        (((self.0 >> FPAGE_PORT_SHIFT) & 0xffff) >> self.log2() << self.log2()) as u16
    }

    /// Size in bytes or ports.
    pub const fn size(self) -> u64 {
        1 << self.log2()
    }

    /// Returns true if it is one small, readable page of write-back memory; then it is also well
    /// formed.
    pub const fn is_page(self) -> bool {
        const FREE: u64 = (1 << SPACE_SHIFT) - PAGE_SIZE | FPAGE_WRITE | FPAGE_EXEC;
        self.0 & !FREE == PAGE_SHIFT << FPAGE_SIZE_SHIFT | FPAGE_READ
    }

    /// Returns true if it is well formed: a known cache type, a possible size, inside its space.
    pub const fn is_valid(self) -> bool {
        let log2 = self.log2() as u64;
        if self.is_io() {
            log2 <= 16 && self.0 >> 28 == 0
        } else {
            matches!(log2, PAGE_SHIFT..=SPACE_SHIFT)
                && self.cache() <= CACHE_UNCACHED
                && self.base() >> SPACE_SHIFT == 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_fpage_round_trip() {
        let page = Fpage::memory(0x1234_5678, 21, FPAGE_READ | FPAGE_WRITE).with_cache(CACHE_UNCACHED);
        assert_eq!((page.base(), page.size(), page.rights(), page.cache()), (0x1220_0000, 1 << 21, 6, 2));
        assert!(page.is_valid() && !page.is_io());
    }

    #[test]
    fn malformed_fpages_are_seen() {
        assert!(!Fpage::memory(0, 11, 7).is_valid());
        assert!(!Fpage::memory(0, 49, 7).is_valid());
        assert!(!Fpage(1 << 48 | Fpage::memory(0, 12, 7).0).is_valid());
        assert!(!Fpage(1 << 48 | Fpage::memory(0, 12, 7).0).is_page());
        assert!(!Fpage(FPAGE_IO | 17 << FPAGE_SIZE_SHIFT).is_valid());
        assert!(!Fpage::memory(0, 12, 7).with_cache(3).is_valid());
        assert!(Fpage::WHOLE.is_valid());
    }

    #[test]
    fn addresses_of_both_halves_have_numbers() {
        for (address, number) in
            [(0, 0), (0x7fff_ffff_ffff, 0x7fff_ffff_ffff), (u64::MAX, (1 << 48) - 1), (!0 << 47, 1 << 47)]
        {
            assert_eq!((super::number(address), canonical(number)), (number, address));
        }
        assert_eq!(Fpage::memory(UPPER_LAST, 30, FPAGE_READ).base(), 0xffff_c000_0000);
        assert!(Fpage::memory(UPPER_LAST, 12, FPAGE_READ).is_page());
    }

    #[test]
    fn memory_is_in_one_half() {
        let end = 1u64 << HALF_SHIFT;
        for (address, size) in [(0, 0), (0, end), (end - 8, 8), (!0 << 47, 1 << 47), (u64::MAX, 1), (u64::MAX, 0)] {
            assert!(is_in_half(address, size), "{address:#x} {size}");
        }
        for (address, size) in [(end - 8, 9), (end, 0), (end, 1), (!end, 0), (u64::MAX, 2), (1 << 63, 0), (1 << 48, 1)]
        {
            assert!(!is_in_half(address, size), "{address:#x} {size}");
        }
    }

    #[test]
    fn io_fpage_round_trip() {
        let ports = Fpage::io(0x3fb, 3);
        assert_eq!((ports.port(), ports.size()), (0x3f8, 8));
        assert!(ports.is_valid() && ports.is_io());
    }
}
