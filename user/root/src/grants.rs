// SPDX-License-Identifier: BSD-2-Clause
//! What a task may get from sigma0. A request to sigma0 leaves the task's clan, so the kernel
//! redirects it to the root task, the chief. The root task answers within the grants of the boot
//! configuration.

use crate::hardware::Hardware;
use crate::plan::Share;
use keel_l4::abi::fpage::{CACHE_WRITE_BACK, FPAGE_RWX, PAGE_SHIFT};
use keel_l4::abi::ids::GSI_COUNT;
use keel_l4::list::{Full, List};
use keel_l4::protocol::boot::{START_IRQS, START_REGIONS};
use keel_l4::ranges::{Range, Ranges};
use keel_l4::{Error, Fpage};

/// The most pieces of the extra memory that is left.
const MAX_PIECES: usize = 64;

/// The grants of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Grants {
    /// Its memory, with the extra memory.
    memory: Ranges<{ START_REGIONS as usize + 1 }>,
    /// Extra memory that it has not asked for yet.
    left: Ranges<MAX_PIECES>,
    hardware: Hardware,
    gsis: Gsis,
}

/// GSIs, by number.
pub type Gsis = List<u32, { START_IRQS as usize }>;

impl Grants {
    /// The grants of a task with this share of the memory, this hardware and these GSIs.
    pub fn new(share: &Share, hardware: Hardware, gsis: Gsis) -> Result<Grants, Full> {
        let mut grants = Grants { hardware, gsis, ..Grants::default() };
        for range in share.memory.iter().chain([share.extra]) {
            grants.memory.insert(range)?;
        }
        grants.left.insert(share.extra)?;
        Ok(grants)
    }

    /// Grants `fpage`: memory, device memory (not cached) or ports. `Denied` if the task may not
    /// have it.
    pub fn map(&mut self, fpage: Fpage) -> Result<Fpage, Error> {
        if !fpage.is_valid() || fpage.rights() == 0 {
            return Err(Error::Invalid);
        }
        let start = if fpage.is_io() { fpage.port() as u64 } else { fpage.base() };
        let range = Range::new(start, start + fpage.size());
        let cached = fpage.cache() == CACHE_WRITE_BACK;
        if fpage.is_io() {
            return self.hardware.ports.contains(range).then_some(fpage).ok_or(Error::Denied);
        }
        let is_ram = self.memory.contains(range);
        if !is_ram && !self.hardware.devices.contains(range) {
            return Err(Error::Denied);
        }
        if cached != is_ram {
            return Err(Error::Invalid);
        }
        if is_ram {
            self.left.remove(range).map_err(|_| Error::NoMemory)?;
        }
        Ok(fpage)
    }

    /// Grants extra memory of the size and with the rights of `fpage`, which the task does not have
    /// yet.
    pub fn any(&mut self, fpage: Fpage) -> Result<Fpage, Error> {
        if !fpage.is_valid() || fpage.is_io() || fpage.rights() == 0 {
            return Err(Error::Invalid);
        }
        let range = self.left.find(fpage.size(), fpage.size()).ok_or(Error::NoMemory)?;
        self.map(Fpage::memory(range.start, fpage.log2(), fpage.rights()).with_cache(fpage.cache()))
    }

    /// Grants the page at `address` to a thread whose pager is sigma0.
    pub fn fault(&mut self, address: u64) -> Result<Fpage, Error> {
        self.map(Fpage::memory(address, PAGE_SHIFT as u8, FPAGE_RWX))
    }

    /// Whether it has GSI `gsi`. The task got the right to it at its start.
    pub fn gsi(&self, gsi: u64) -> Result<(), Error> {
        if gsi >= GSI_COUNT {
            return Err(Error::Invalid);
        }
        Error::Denied.when(!self.gsis.iter().any(|l| *l as u64 == gsi))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use keel_l4::abi::fpage::CACHE_UNCACHED;

    const MB: u64 = 1 << 20;

    fn grants() -> Grants {
        let text = "task a { image x ports 0x80-0x8f devices 0xb8000-0xb9fff }";
        let config = parse(text.as_bytes()).unwrap();
        let mut share = Share { extra: Range::new(16 * MB, 20 * MB), ..Share::default() };
        share.memory.insert(Range::new(8 * MB, 10 * MB)).unwrap();
        let mut gsis = Gsis::default();
        gsis.push(4).unwrap();
        Grants::new(&share, Hardware::new(&config, 0, [].into_iter()).unwrap(), gsis).unwrap()
    }

    fn page(address: u64) -> Fpage {
        Fpage::memory(address, 12, FPAGE_RWX)
    }

    #[test]
    fn only_what_was_granted() {
        let mut grants = grants();
        for address in [0, 20 * MB, 1 << 48, u64::MAX - 0xfff, u64::MAX] {
            assert!(grants.fault(address).is_err());
        }
        for fpage in [page(8 * MB), page(20 * MB - 1), Fpage::memory(8 * MB, 21, 4), Fpage::io(0x88, 3)] {
            assert_eq!((grants.map(fpage), grants.map(fpage)), (Ok(fpage), Ok(fpage)));
        }
        for fpage in [page(7 * MB), page(20 * MB), Fpage::memory(8 * MB, 22, 7), Fpage::io(0x70, 5), page(0x40_0000)] {
            assert_eq!(grants.map(fpage), Err(Error::Denied));
        }
        assert_eq!(
            (grants.gsi(4), grants.gsi(5), grants.gsi(GSI_COUNT)),
            (Ok(()), Err(Error::Denied), Err(Error::Invalid))
        );
        assert_eq!((grants.fault(8 * MB + 5), grants.fault(u64::MAX)), (Ok(page(8 * MB)), Err(Error::Denied)));
    }

    #[test]
    fn devices_are_never_cached_and_memory_always() {
        let mut grants = grants();
        let device = page(0xb_9000);
        assert_eq!(grants.map(device), Err(Error::Invalid));
        assert_eq!(grants.map(device.with_cache(CACHE_UNCACHED)), Ok(device.with_cache(CACHE_UNCACHED)));
        assert_eq!(grants.map(page(0xb_a000).with_cache(CACHE_UNCACHED)), Err(Error::Denied));
        assert_eq!(grants.map(page(8 * MB).with_cache(CACHE_UNCACHED)), Err(Error::Invalid));
    }

    #[test]
    fn extra_memory_is_given_once_until_there_is_none() {
        let mut grants = grants();
        assert_eq!(grants.map(page(17 * MB)), Ok(page(17 * MB)));
        assert_eq!(grants.any(Fpage::memory(0, 21, FPAGE_RWX)), Ok(Fpage::memory(18 * MB, 21, FPAGE_RWX)));
        assert_eq!(grants.any(Fpage::memory(0, 21, FPAGE_RWX)), Err(Error::NoMemory));
        let mut pages = 0;
        while let Ok(given) = grants.any(page(0)) {
            assert!((16 * MB..18 * MB).contains(&given.base()) && given.base() != 17 * MB);
            pages += 1;
        }
        assert_eq!(pages, 511);
    }

    #[test]
    fn malformed_requests_are_refused() {
        for word in [0, u64::MAX, 7, 63 << 4 | 7, 1 << 48 | 12 << 4 | 7, 8, 12 << 4] {
            assert_eq!(grants().map(Fpage(word)), Err(Error::Invalid), "{word:#x}");
            assert_eq!(grants().any(Fpage(word)), Err(Error::Invalid), "{word:#x}");
        }
    }
}
