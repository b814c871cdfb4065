// SPDX-License-Identifier: BSD-2-Clause
//! Flexpages: aligned, power-of-two sized regions of memory or of I/O ports.
//!
//! Layout: base 63:12, cache type 11:10, log2 size 9:4, I/O 3, rights 2:0. An I/O fpage has its
//! first port in 27:12 and its log2 size in ports (0 to 16).

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
    /// Log2 of the user's address space
    SPACE_SHIFT = 47;
    /// End of the memory that can be mapped: the last page of the user's address space stays empty
    USER_END = (1 << SPACE_SHIFT) - PAGE_SIZE;
    /// The whole user space, all rights
    FPAGE_WHOLE = (SPACE_SHIFT << FPAGE_SIZE_SHIFT) | FPAGE_RWX;
    /// The nil fpage: names nothing, accepts nothing
    FPAGE_NIL = 0;
}

/// A flexpage.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Fpage(pub u64);

impl Fpage {
    /// Nothing.
    pub const NIL: Fpage = Fpage(FPAGE_NIL);
    /// The whole user space.
    pub const WHOLE: Fpage = Fpage(FPAGE_WHOLE);

    /// Returns the memory fpage of `2^log2` bytes that contains `base`.
    pub const fn memory(base: u64, log2: u8, rights: u64) -> Fpage {
        Fpage((base >> log2 << log2) | ((log2 as u64) << FPAGE_SIZE_SHIFT) | (rights & FPAGE_RWX))
    }

    /// Returns the I/O fpage of `2^log2` ports that contains `port`.
    pub const fn io(port: u16, log2: u8) -> Fpage {
        let first = (port as u64) >> log2 << log2;
        Fpage((first << FPAGE_PORT_SHIFT) | ((log2 as u64) << FPAGE_SIZE_SHIFT) | FPAGE_IO | FPAGE_READ | FPAGE_WRITE)
    }

    /// Returns the fpage with another cache type.
    pub const fn with_cache(self, cache: u64) -> Fpage {
        Fpage((self.0 & !(3 << FPAGE_CACHE_SHIFT)) | ((cache & 3) << FPAGE_CACHE_SHIFT))
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

    /// First byte of a memory fpage.
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
            log2 >= PAGE_SHIFT
                && log2 <= SPACE_SHIFT
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
        assert!(!Fpage::memory(0, 48, 7).is_valid());
        assert!(!Fpage::memory(1 << 47, 12, 7).is_valid());
        assert!(!Fpage(FPAGE_IO | 17 << FPAGE_SIZE_SHIFT).is_valid());
        assert!(!Fpage::memory(0, 12, 7).with_cache(3).is_valid());
        assert!(Fpage::WHOLE.is_valid());
    }

    #[test]
    fn io_fpage_round_trip() {
        let ports = Fpage::io(0x3fb, 3);
        assert_eq!((ports.port(), ports.size()), (0x3f8, 8));
        assert!(ports.is_valid() && ports.is_io());
    }
}
