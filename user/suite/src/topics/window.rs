// SPDX-License-Identifier: BSD-2-Clause
//! Shared functions of the topics: map pages to the window, and check whether they are there.

use crate::case::Fault;
use crate::pool::{poke, PAGE, WINDOW};
use crate::threads::{park, remove, Spawn};
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SHIFT};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, send, Message, Timeout};
use keel_l4::{utcb, Fpage, Id};

/// The page-sized window number `number`.
pub fn slot(number: u64) -> Fpage {
    Fpage::memory(WINDOW + number * PAGE, PAGE_SHIFT as u8, FPAGE_RWX)
}

/// Writes `first`, `first` + 1 and so on into the first words of `count` pages from `address` on.
pub fn fill(address: u64, count: u64, first: u64) {
    for n in 0..count {
        // SAFETY: a case fills pages that are its own.
        unsafe { poke(address + n * PAGE, first + n) };
    }
}

/// Sends the page at its argument (address | rights) to the thread in cell 31.
extern "C" fn giver(argument: u64) -> ! {
    let page = Fpage::memory(argument, PAGE_SHIFT as u8, argument & FPAGE_RWX);
    let to = Id(crate::pool::cell(31).load(core::sync::atomic::Ordering::SeqCst));
    let message = Message::label(0).with_maps(&[MapItem { send_base: 0, fpage: page.0 }]);
    let _ = send(to, message, Timeout::Never);
    park()
}

/// Maps the own page at `address` with `rights` to slot `number` of the own space.
pub fn map_own(address: u64, rights: u64, number: u64) -> Result<MapItem, Failure> {
    crate::pool::cell(31).store(utcb::my_id().0, core::sync::atomic::Ordering::SeqCst);
    utcb::set_receive_window(slot(number));
    let giver = Spawn::light(giver, address | rights).start()?;
    let got = receive(giver, Timeout::Never);
    utcb::set_receive_window(Fpage::NIL);
    remove(giver)?;
    got.map(|_| utcb::map_item(0))
}

extern "C" fn toucher(address: u64) -> ! {
    // SAFETY: the case expects a fault here; if there is none, the page belongs to the case.
    unsafe { poke(address, 0xdead) };
    let to = Id(crate::pool::cell(31).load(core::sync::atomic::Ordering::SeqCst));
    let _ = send(to, Message::label(u32::MAX), Timeout::Never);
    park()
}

/// Lets a helper write to `address` and returns the cause in its fault message: 0 no page is
/// mapped, 1 writing is forbidden.
pub fn fault_at(address: u64) -> Result<u64, Fault> {
    crate::pool::cell(31).store(utcb::my_id().0, core::sync::atomic::Ordering::SeqCst);
    let me = utcb::my_id();
    let helper = Spawn { pager: me, handler: me, ..Spawn::light(toucher, address) }.start()?;
    let got = receive(helper, Timeout::Never)?;
    remove(helper)?;
    if got.tag.label() == u32::MAX {
        return Err(Fault::new(format_args!("expected a fault at {address:#x}, got none")));
    }
    Ok(got.words[3])
}
