// SPDX-License-Identifier: BSD-2-Clause
//! What the root task gets from sigma0: memory one-to-one, ports, interrupt lines. Also its last
//! words: an error in the boot configuration ends the machine here.

use crate::log;
use core::fmt::Display;
use keel_l4::abi::boot::{DEBUG_EXIT_PORT, END_BAD_CONFIG, EXIT_PORTS_LOG2};
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::call::Failure;
use keel_l4::mapping::blocks;
use keel_l4::ranges::{Range, Ranges};
use keel_l4::serial::PORTS_LOG2;
use keel_l4::{ipc, println, sigma0, thread, Fpage};

/// QEMU goes on for a moment after it was told to end (from version 9 on).
const END_TAKES_NS: u64 = 1_000_000_000;

/// Ends the machine because of `error`.
pub fn refuse(error: impl Display) -> ! {
    println!("root: error: {error}");
    end(END_BAD_CONFIG)
}

/// Ends the machine with `code`; sleeps for ever where it cannot be ended.
pub fn end(code: u64) -> ! {
    log::leave(code);
    ipc::sleep(END_TAKES_NS);
    println!("root: this machine has no way to be ended; it stands still (code {code:#x})");
    thread::park()
}

/// Opens the serial line at `port` for the log.
pub fn open_log(port: u16) {
    match sigma0::ports(port, PORTS_LOG2) {
        Ok(_) => log::open(port),
        Err(failure) => refuse(format_args!("no serial line for the log at port {port:#x}: {failure}")),
    }
}

/// Gets the port that ends the machine.
pub fn claim_exit() {
    if let Err(failure) = sigma0::ports(DEBUG_EXIT_PORT as u16, EXIT_PORTS_LOG2 as u8) {
        println!("root: no exit port: {failure}");
    }
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
