// SPDX-License-Identifier: BSD-2-Clause
//! The mappings of a task's address space, and the map items that answer its page faults.

use keel_l4::abi::call::MAX_MAP_ITEMS;
use keel_l4::abi::fpage::PAGE_SIZE;
use keel_l4::abi::MapItem;
use keel_l4::list::{Full, List};
use keel_l4::mapping::{self, block_log2};
use keel_l4::ranges::Range;

/// Mappings of one task: segments, memory regions, the start record.
const MAX_MAPPINGS: usize = 40;

/// Physical memory at an address of a task. Both are page-aligned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Its addresses in the task.
    pub virt: Range,
    /// Physical address of its first byte.
    pub phys: u64,
    /// The task's rights.
    pub rights: u64,
}

/// The items of an answer.
pub type Items = List<MapItem, { MAX_MAP_ITEMS as usize }>;

/// All mappings of a task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    list: List<Mapping, MAX_MAPPINGS>,
}

impl Pages {
    /// No mappings.
    pub fn new() -> Pages {
        Pages { list: List::default() }
    }

    /// Adds a mapping.
    pub fn add(&mut self, mapping: Mapping) -> Result<(), Full> {
        debug_assert!((mapping.virt.start | mapping.virt.end | mapping.phys) % PAGE_SIZE == 0);
        if mapping.virt.is_empty() {
            Ok(())
        } else {
            self.list.push(mapping)
        }
    }

    /// The items for a fault at `address` with the access `access`: the largest block around the
    /// address, then the blocks after it. `None` if nothing may be mapped there. The send base of
    /// an item is the virtual address, because the window of a fault is the whole space.
    pub fn answer(&self, address: u64, access: u64) -> Option<Items> {
        let page = address / PAGE_SIZE * PAGE_SIZE;
        // The last page of the address space has no end address.
        let whole = Range::new(page, page.checked_add(PAGE_SIZE)?);
        let mapping = self.list.iter().find(|m| m.virt.contains(whole))?;
        if access & !mapping.rights != 0 {
            return None;
        }
        let mut items = Items::empty(MapItem { send_base: 0, fpage: 0 });
        let at = around(mapping, page);
        let [phys, end] = [at, mapping.virt.end].map(|virt| mapping.phys + (virt - mapping.virt.start));
        for item in mapping::items(phys, end, at, mapping.rights).take(MAX_MAP_ITEMS as usize) {
            // The list has room for as many items.
            let _ = items.push(item);
        }
        Some(items)
    }
}

/// Start of the largest block that contains `page`, is inside the mapping and is aligned in both
/// spaces.
fn around(mapping: &Mapping, page: u64) -> u64 {
    let mut start = page;
    loop {
        let phys = mapping.phys + (start - mapping.virt.start);
        let size = 1u64 << (start | phys).trailing_zeros().min(47);
        let lower = start.checked_sub(size).filter(|l| *l >= mapping.virt.start);
        let covers =
            |l: u64| l + (1 << block_log2(l, mapping.phys + (l - mapping.virt.start), mapping.virt.end)) > page;
        match lower {
            Some(lower) if covers(lower) => start = lower,
            _ => return start,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_l4::Fpage;

    fn covers(items: &Items, mapping: &Mapping, address: u64) -> bool {
        for item in items.iter() {
            let page = Fpage(item.fpage);
            assert!(page.is_valid() && item.send_base % page.size() == 0);
            assert!(mapping.virt.contains(Range::new(item.send_base, item.send_base + page.size())));
            assert_eq!(page.base() - mapping.phys, item.send_base - mapping.virt.start);
        }
        items.iter().any(|i| {
            Range::new(i.send_base, i.send_base + Fpage(i.fpage).size()).contains(Range::new(address, address + 1))
        })
    }

    #[test]
    fn every_address_is_answered_by_blocks_inside() {
        let mapping = Mapping { virt: Range::new(0x2000_0012_3000, 0x2000_4567_8000), phys: 0x12_3000, rights: 6 };
        let mut pages = Pages::new();
        pages.add(mapping).unwrap();
        for address in (mapping.virt.start..mapping.virt.end).step_by(0x1_7654) {
            let items = pages.answer(address, 2).unwrap();
            assert!(covers(&items, &mapping, address), "{address:#x}");
        }
        assert!(pages.answer(mapping.virt.end, 4).is_none() && pages.answer(mapping.virt.start - 1, 4).is_none());
        assert!(pages.answer(mapping.virt.start, 1).is_none());
    }

    #[test]
    fn a_large_region_takes_few_faults() {
        let mapping = Mapping { virt: Range::new(0x2000_0060_0000, 0x2000_7ffe_0000), phys: 0x60_0000, rights: 6 };
        let mut pages = Pages::new();
        pages.add(mapping).unwrap();
        let items = pages.answer(0x2000_0060_0000, 4).unwrap();
        assert_eq!(items.iter().map(|i| Fpage(i.fpage).size()).sum::<u64>(), mapping.virt.size());
    }

    #[test]
    fn unlike_alignments_give_small_pages() {
        let mapping = Mapping { virt: Range::new(0x100_0000, 0x120_0000), phys: 0x70_1000, rights: 7 };
        let mut pages = Pages::new();
        pages.add(mapping).unwrap();
        let items = pages.answer(0x110_0000, 1).unwrap();
        assert!(items.len() == 32 && covers(&items, &mapping, 0x110_0000));
    }

    #[test]
    fn the_last_address_of_all_is_no_surprise() {
        let mut pages = Pages::new();
        pages.add(Mapping { virt: Range::new(0x100_0000, 0x120_0000), phys: 0x70_0000, rights: 7 }).unwrap();
        for address in [u64::MAX - 0x1fff, u64::MAX - 0xfff, u64::MAX] {
            assert!(pages.answer(address, 4).is_none());
        }
    }
}
