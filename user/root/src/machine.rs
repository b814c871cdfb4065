// SPDX-License-Identifier: BSD-2-Clause
//! What the root task gets from sigma0: memory mapped one-to-one, the firmware's memory, ports.
//! Also the exit after an error: an error in the boot configuration shuts the machine down here.

use crate::log;
use crate::shutdown::shut_down;
use core::fmt::Display;
use keel_l4::abi::fpage::{CACHE_UNCACHED, FPAGE_READ, FPAGE_RWX, PAGE_SHIFT, PAGE_SIZE, USER_END};
use keel_l4::abi::memory::REGION_FIRMWARE;
use keel_l4::abi::Region;
use keel_l4::call::Failure;
use keel_l4::kip::{kip, regions};
use keel_l4::mapping::blocks;
use keel_l4::protocol::boot::SHUTDOWN_BAD_CONFIG;
use keel_l4::ranges::{Range, Ranges};
use keel_l4::serial::PORTS_LOG2;
use keel_l4::{println, sigma0, Fpage};

/// Logs `error` and shuts the machine down.
pub fn refuse(error: impl Display) -> ! {
    println!("root: error: {error}");
    shut_down(SHUTDOWN_BAD_CONFIG)
}

/// Opens the serial line at `port` for the log.
pub fn open_log(port: u16) {
    match sigma0::ports(port, PORTS_LOG2) {
        Ok(_) => log::open(port),
        Err(failure) => refuse(format_args!("no serial line for the log at port {port:#x}: {failure}")),
    }
}

/// Whether a range that the firmware names can be the firmware's or a device's memory: valid, and
/// not RAM of other use.
pub fn is_outside(range: Range) -> bool {
    let overlaps = |region: Region| Range::new(region.start, region.end).overlaps(range);
    let in_ram = regions(kip()).any(|region| region.kind != REGION_FIRMWARE && overlaps(region));
    range.start != 0 && range.end <= USER_END && !in_ram
}

/// Firmware memory, which is mapped one-to-one and read-only. `None` if sigma0 refuses it.
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
    // SAFETY: the range is mapped above, and nothing writes to memory that the firmware provides
    // for reading.
    Some(unsafe { bytes(range) })
}

/// Gets ports or device memory from sigma0 to map them on. A repeated request succeeds.
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
    /// Gets the parts of `range` (whole pages) that it does not have yet, in the largest possible
    /// blocks. Shuts down if sigma0 refuses.
    pub fn claim(&mut self, range: Range) {
        let mut missing: Ranges<128> = Ranges::default();
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
/// The range must be claimed. Nothing may write there while the slice exists.
pub unsafe fn bytes(range: Range) -> &'static [u8] {
    // SAFETY: claimed memory is mapped one-to-one; the caller guarantees the rest.
    unsafe { core::slice::from_raw_parts(range.start as *const u8, range.size() as usize) }
}

/// Like [`bytes`], for writing.
///
/// # Safety
/// The range must be claimed. Nothing else may use it while the slice exists.
pub unsafe fn bytes_mut(range: Range) -> &'static mut [u8] {
    // SAFETY: as above.
    unsafe { core::slice::from_raw_parts_mut(range.start as *mut u8, range.size() as usize) }
}
