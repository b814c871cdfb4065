// SPDX-License-Identifier: BSD-2-Clause
//! What sigma0 may give, and to which task: RAM and boot modules, device memory, I/O ports, GSIs
//! and MSIs. The firmware's memory is given read-only. The kernel's own memory and the ports of the
//! interrupt controllers are never given.

use crate::owners::Owners;
use keel_l4::abi::fpage::{CACHE_WRITE_BACK, FPAGE_READ, HALF_SHIFT};
use keel_l4::abi::ids::{GSI_COUNT, MSI_SOURCES, TASK_ROOT};
use keel_l4::abi::memory::{REGION_FIRMWARE, REGION_FREE, REGION_MODULE};
use keel_l4::abi::Region;
use keel_l4::ranges::{Range, Ranges};
use keel_l4::{Error, Fpage};

/// The root task's image, where the kernel loaded it. Faults there are served one-to-one.
pub const ROOT_IMAGE: Range = Range::new(0x40_0000, 0x60_0000);

/// Ports of the two legacy interrupt controllers, which the kernel masked permanently.
const KERNEL_PORTS: [Range; 2] = [Range::new(0x20, 0x22), Range::new(0xa0, 0xa2)];

/// The most ranges of RAM that the KIP can list.
const REGIONS: usize = keel_l4::abi::memory::KIP_REGIONS as usize;

/// The kind of a page of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Memory {
    Ram,
    /// Tables and other memory that the firmware reserves.
    Firmware,
    Device,
}

/// All of sigma0's state.
#[derive(Debug)]
pub struct Space {
    /// RAM that was free at boot.
    free: Ranges<REGIONS>,
    /// RAM that was free at boot, and boot modules.
    ram: Ranges<REGIONS>,
    /// The kernel's memory.
    withheld: Ranges<REGIONS>,
    firmware: Ranges<REGIONS>,
    memory: Owners<2048>,
    ports: Owners<256>,
    interrupts: Owners<256>,
}

impl Space {
    /// The machine that `regions` describe, with nothing given out.
    pub fn new(regions: impl Iterator<Item = Region>) -> Space {
        let mut space = Space {
            free: Ranges::default(),
            ram: Ranges::default(),
            withheld: Ranges::default(),
            firmware: Ranges::default(),
            memory: Owners::new(),
            ports: Owners::new(),
            interrupts: Owners::new(),
        };
        for region in regions {
            let range = Range::new(region.start, region.end);
            let sets: &mut [&mut Ranges<REGIONS>] = match region.kind {
                REGION_FREE => &mut [&mut space.free, &mut space.ram],
                REGION_MODULE => &mut [&mut space.ram],
                REGION_FIRMWARE => &mut [&mut space.firmware],
                _ => &mut [&mut space.withheld],
            };
            for set in sets {
                // Whole pages only: a page that is partly withheld is withheld. The sets hold as
                // many ranges as the KIP has regions, so none can overflow.
                let pages = if region.kind == REGION_FREE { range.shrink_to(PAGE) } else { range.grow_to(PAGE) };
                let _ = set.insert(pages);
            }
        }
        space
    }

    /// Gives the memory or the ports of `fpage` to `task`. Returns what is to be mapped. `Denied`
    /// or `Busy` if the task may not have it.
    pub fn map(&mut self, fpage: Fpage, task: u32) -> Result<Fpage, Error> {
        if !fpage.is_valid() || fpage.rights() == 0 {
            return Err(Error::Invalid);
        }
        if fpage.is_io() {
            return self.map_ports(fpage, task);
        }
        let range = bytes_of(fpage);
        let memory = self.kind_of(range).ok_or(Error::Denied)?;
        if memory == Memory::Firmware && fpage.rights() != FPAGE_READ {
            return Err(Error::Denied);
        }
        if memory != Memory::Ram && fpage.cache() == CACHE_WRITE_BACK {
            return Err(Error::Invalid);
        }
        self.memory.claim(range, task)?;
        Ok(fpage)
    }

    fn map_ports(&mut self, fpage: Fpage, task: u32) -> Result<Fpage, Error> {
        let range = Range::new(fpage.port() as u64, fpage.port() as u64 + fpage.size());
        if KERNEL_PORTS.iter().any(|k| k.overlaps(range)) {
            return Err(Error::Denied);
        }
        self.ports.claim(range, task)?;
        Ok(fpage)
    }

    /// Gives any free RAM of the size and with the rights of `fpage` to `task`.
    pub fn any(&mut self, fpage: Fpage, task: u32) -> Result<Fpage, Error> {
        if !fpage.is_valid() || fpage.is_io() || fpage.rights() == 0 {
            return Err(Error::Invalid);
        }
        let range = self.find(fpage.size()).ok_or(Error::NoMemory)?;
        self.memory.claim(range, task)?;
        Ok(Fpage::memory(range.start, fpage.log2(), fpage.rights()).with_cache(fpage.cache()))
    }

    /// The lowest aligned block of `size` bytes of free RAM without an owner.
    fn find(&self, size: u64) -> Option<Range> {
        self.free.iter().find_map(|region| {
            let mut start = region.start.checked_next_multiple_of(size)?;
            loop {
                let block = Range::new(start, start.checked_add(size)?);
                if !region.contains(block) {
                    return None;
                }
                match self.memory.first_in(block) {
                    None => return Some(block),
                    Some(owned) => start = owned.end.checked_next_multiple_of(size)?,
                }
            }
        })
    }

    /// The page that answers a fault at `address` of a thread of `task`.
    pub fn fault(&mut self, address: u64, task: u32) -> Result<Fpage, Error> {
        let page = Fpage::memory(address, PAGE.trailing_zeros() as u8, keel_l4::abi::fpage::FPAGE_RWX);
        let range = bytes_of(page);
        if task as u64 == TASK_ROOT && ROOT_IMAGE.contains(range) {
            return Ok(page);
        }
        if !self.ram.contains(range) {
            return Err(Error::Denied);
        }
        self.memory.claim(range, task)?;
        Ok(page)
    }

    /// Whether `task` already has the interrupt `gsi` (MSIs follow the GSIs); an error if it may
    /// not have it.
    pub fn has_interrupt(&mut self, gsi: u64, task: u32) -> Result<bool, Error> {
        if gsi >= GSI_COUNT + MSI_SOURCES {
            return Err(Error::Invalid);
        }
        let range = Range::new(gsi, gsi + 1);
        match self.interrupts.first_in(range) {
            None => Ok(false),
            Some(_) => self.interrupts.claim(range, task).map(|()| true),
        }
    }

    /// Records that `task` has the interrupt `gsi`.
    pub fn give_interrupt(&mut self, gsi: u64, task: u32) -> Result<(), Error> {
        self.interrupts.claim(Range::new(gsi, gsi + 1), task)
    }

    fn kind_of(&self, range: Range) -> Option<Memory> {
        if self.withheld.overlaps(range) {
            None
        } else if self.ram.contains(range) {
            Some(Memory::Ram)
        } else if self.firmware.overlaps(range) && !self.ram.overlaps(range) {
            Some(Memory::Firmware)
        } else {
            (!self.ram.overlaps(range) && range.end <= 1 << HALF_SHIFT).then_some(Memory::Device)
        }
    }
}

const PAGE: u64 = keel_l4::abi::fpage::PAGE_SIZE;

fn bytes_of(fpage: Fpage) -> Range {
    Range::new(fpage.base(), fpage.base() + fpage.size())
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_l4::abi::fpage::{CACHE_UNCACHED, FPAGE_RWX};
    use keel_l4::abi::memory::REGION_KERNEL;

    const MB: u64 = 1 << 20;

    fn space() -> Space {
        let region = |start, end, kind| Region { start, end, kind };
        Space::new(
            [
                region(0x1000, 0x9_fc00, REGION_FREE),
                region(0x9_fc00, 0xa_0000, REGION_FIRMWARE),
                region(MB, 6 * MB, REGION_KERNEL),
                region(6 * MB, 16 * MB + 0x1800, REGION_MODULE),
                region(16 * MB + 0x2000, 64 * MB, REGION_FREE),
            ]
            .into_iter(),
        )
    }

    #[test]
    fn memory_is_given_once_and_again_to_its_owner() {
        let mut space = space();
        let block = Fpage::memory(8 * MB, 21, FPAGE_RWX);
        assert_eq!((space.map(block, 2), space.map(block, 2)), (Ok(block), Ok(block)));
        assert_eq!(space.map(Fpage::memory(9 * MB, 12, FPAGE_RWX), 3), Err(Error::Busy));
        assert_eq!(space.map(Fpage::memory(0, 26, FPAGE_RWX), 2), Err(Error::Denied));
    }

    #[test]
    fn a_block_may_span_a_module_and_the_memory_behind_it() {
        let block = Fpage::memory(16 * MB, 21, FPAGE_RWX);
        assert_eq!(space().map(block, 2), Ok(block));
    }

    #[test]
    fn the_kernels_memory_and_half_pages_stay() {
        let mut space = space();
        assert_eq!(space.map(Fpage::memory(2 * MB, 12, FPAGE_RWX), 2), Err(Error::Denied));
        assert_eq!(space.fault(0x9_f000, 2), Err(Error::Denied));
        assert_eq!(space.fault(0x40_0000, 2), Ok(Fpage::memory(0x40_0000, 12, FPAGE_RWX)));
        assert_eq!(space.fault(0x40_0000, 3), Err(Error::Denied));
        assert_eq!(space.fault(u64::MAX >> 17 << 13, 3), Err(Error::Denied));
    }

    #[test]
    fn device_memory_is_never_cached() {
        let mut space = space();
        let page = Fpage::memory(0xfebc_0000, 12, FPAGE_RWX);
        assert_eq!(space.map(page, 2), Err(Error::Invalid));
        let page = page.with_cache(CACHE_UNCACHED);
        assert_eq!((space.map(page, 2), space.map(page, 3)), (Ok(page), Err(Error::Busy)));
    }

    #[test]
    fn the_firmwares_memory_is_read_only() {
        let mut space = space();
        let page = Fpage::memory(0x9_f000, 12, FPAGE_READ).with_cache(CACHE_UNCACHED);
        assert_eq!(space.map(page, 2), Ok(page));
        assert_eq!(space.map(Fpage::memory(0x9_f000, 12, FPAGE_READ), 2), Err(Error::Invalid));
        assert_eq!(space.map(Fpage::memory(0x9_f000, 12, FPAGE_RWX).with_cache(CACHE_UNCACHED), 2), Err(Error::Denied));
    }

    #[test]
    fn any_finds_free_ram_until_there_is_none() {
        let mut space = space();
        let mut pages = Vec::new();
        while let Ok(page) = space.any(Fpage::memory(0, 22, FPAGE_RWX), 5) {
            assert!(page.base() >= 16 * MB && page.base() % (4 * MB) == 0);
            pages.push(page.base());
        }
        assert_eq!(pages.len(), 11);
        pages.dedup();
        assert_eq!(pages.len(), 11);
        assert_eq!(space.any(Fpage::memory(0, 12, FPAGE_RWX), 5).map(|p| p.base()), Ok(0x1000));
    }

    #[test]
    fn ports_and_lines_have_one_owner() {
        let mut space = space();
        assert!(space.map(Fpage::io(0x3f8, 3), 4).is_ok());
        assert_eq!(space.map(Fpage::io(0x3fc, 0), 5), Err(Error::Busy));
        assert_eq!(space.map(Fpage::io(0x20, 1), 5), Err(Error::Denied));
        assert_eq!(space.map(Fpage::io(0, 16), 5), Err(Error::Denied));
        assert_eq!((space.has_interrupt(4, 2), space.give_interrupt(4, 2)), (Ok(false), Ok(())));
        assert_eq!((space.has_interrupt(4, 2), space.has_interrupt(4, 3)), (Ok(true), Err(Error::Busy)));
        assert_eq!(
            (space.has_interrupt(GSI_COUNT, 2), space.has_interrupt(GSI_COUNT + MSI_SOURCES, 2)),
            (Ok(false), Err(Error::Invalid))
        );
    }

    #[test]
    fn malformed_requests_are_refused() {
        let mut space = space();
        for word in [0, u64::MAX, 7, 63 << 4 | 7, 1 << 48 | 12 << 4 | 7, 8, 12 << 4] {
            assert!(space.map(Fpage(word), 2).is_err(), "{word:#x}");
            assert!(space.any(Fpage(word), 2).is_err(), "{word:#x}");
        }
        // Well-formed, but there is no such physical memory.
        assert!(space.map(Fpage(1 << 47 | 12 << 4 | 7), 2).is_err());
    }
}
