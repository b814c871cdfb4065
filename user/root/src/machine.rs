// SPDX-License-Identifier: BSD-2-Clause
//! What the root task gets from sigma0: memory one-to-one, the firmware's memory, ports, interrupt lines. Also its last
//! words: an error in the boot configuration ends the machine here.

use crate::log;
use crate::shutdown::end;
use core::fmt::Display;
use keel_l4::abi::boot::{DIRECT_MAP, SHUTDOWN_BAD_CONFIG};
use keel_l4::abi::fpage::{CACHE_UNCACHED, FPAGE_READ, FPAGE_RWX, PAGE_SHIFT, PAGE_SIZE};
use keel_l4::abi::memory::REGION_FIRMWARE;
use keel_l4::abi::Region;
use keel_l4::call::Failure;
use keel_l4::info::{info, regions};
use keel_l4::mapping::blocks;
use keel_l4::ranges::{Range, Ranges};
use keel_l4::serial::PORTS_LOG2;
use keel_l4::{println, sigma0, Fpage};

/// Ends the machine because of `error`.
pub fn refuse(error: impl Display) -> ! {
    println!("root: error: {error}");
    end(SHUTDOWN_BAD_CONFIG)
}

/// Opens the serial line at `port` for the log.
pub fn open_log(port: u16) {
    match sigma0::ports(port, PORTS_LOG2) {
        Ok(_) => log::open(port),
        Err(failure) => refuse(format_args!("no serial line for the log at port {port:#x}: {failure}")),
    }
}

/// Whether an address that the firmware names can be the firmware's or a device's: not in RAM for others, and no nonsense.
pub fn is_outside(range: Range) -> bool {
    let overlaps = |region: Region| Range::new(region.start, region.end).overlaps(range);
    let in_ram = regions(info()).any(|region| region.kind != REGION_FIRMWARE && overlaps(region));
    range.start != 0 && range.end <= DIRECT_MAP && !in_ram
}

/// Bytes of the firmware's, which are mapped one-to-one to be read.
pub fn firmware(physical: u64, length: usize) -> Option<&'static [u8]> {
    let range = Range::new(physical, physical.checked_add(length as u64)?);
    if !is_outside(range) {
        return None;
    }
    let pages = range.grow_to(PAGE_SIZE);
    for page in (pages.start..pages.end).step_by(PAGE_SIZE as usize) {
        let page = Fpage::memory(page, PAGE_SHIFT as u8, FPAGE_READ).with_cache(CACHE_UNCACHED);
        sigma0::map(page, Fpage::WHOLE).ok()?;
    }
    // SAFETY: mapped above, and nobody writes to what the firmware has left to be read.
    Some(unsafe { bytes(range) })
}

/// Gets ports or device memory of sigma0 to pass them on; more than once is all the same.
pub fn obtain(fpage: Fpage) -> Result<(), Failure> {
    let item = if fpage.is_io() { sigma0::ports(fpage.port(), fpage.log2()) } else { sigma0::map(fpage, Fpage::WHOLE) };
    item.map(|_| ())
}

/// The memory that the root task has.
#[derive(Default)]
pub struct Claimed {
    have: Ranges<128>,
}

impl Claimed {
    /// Gets all of `range` (whole pages) that it does not have yet, by the largest blocks.
    pub fn claim(&mut self, range: Range) {
        let mut missing: Ranges<128> = Ranges::new();
        let known = missing.insert(range).is_ok() && self.have.iter().all(|r| missing.remove(r).is_ok());
        if !known || self.have.insert(range).is_err() {
            refuse("the memory is in too many pieces");
        }
        for piece in missing.iter() {
            for (at, log2) in blocks(piece.start, piece.start, piece.end) {
                if let Err(failure) = sigma0::map(Fpage::memory(at, log2, FPAGE_RWX), Fpage::WHOLE) {
                    refuse(format_args!("sigma0 gives no memory at {at:#x}: {failure}"));
                }
            }
        }
    }
}

/// The bytes of physical memory in `range`.
///
/// # Safety
/// The range must be claimed, and nobody may write there while the slice lives.
pub unsafe fn bytes(range: Range) -> &'static [u8] {
    // SAFETY: claimed memory is mapped one-to-one; the caller promises the rest.
    unsafe { core::slice::from_raw_parts(range.start as *const u8, range.size() as usize) }
}

/// The same, to be written.
///
/// # Safety
/// The range must be claimed, and nobody else may use it while the slice lives.
pub unsafe fn bytes_mut(range: Range) -> &'static mut [u8] {
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts_mut(range.start as *mut u8, range.size() as usize) }
}
