// SPDX-License-Identifier: BSD-2-Clause
//! Client of sigma0: memory, ports and interrupts.

use crate::call::Failure;
use crate::ipc::{call, Message};
use crate::message::{ask, reply, Request as _};
use crate::utcb;
use keel_abi::memory::MAP_GRANT;
use keel_abi::{Error, Fpage, Id, MapItem};
use keel_protocol::sigma0::{SIGMA0_ANY, SIGMA0_IRQ, SIGMA0_KIP, SIGMA0_MAP};

crate::requests! {
    /// The requests to sigma0.
    pub enum Request {
        /// This memory or these ports, mapped one-to-one.
        Map {
            /// The memory or the ports.
            fpage: Fpage,
        } = SIGMA0_MAP,
        /// A copy of the KIP.
        Kip = SIGMA0_KIP,
        /// Any free RAM.
        Any {
            /// Its size and rights.
            fpage: Fpage,
        } = SIGMA0_ANY,
        /// The right to a GSI or an MSI.
        Interrupt {
            /// The number of the GSI. MSIs follow the GSIs.
            gsi: u64,
        } = SIGMA0_IRQ,
    }
}

/// Log2 of the number of all ports.
const ALL_PORTS_LOG2: u8 = 16;

/// The answer that maps a page to its own address (a smaller window wraps it), or the error as the
/// label.
pub fn give(page: Result<Fpage, Error>) -> Message {
    let page = match page {
        Ok(page) => page,
        Err(error) => return reply::<()>(Err(error)),
    };
    // The send base of ports counts ports; bit 0 is the grant bit and must stay clear.
    let send_base = if page.is_io() { page.port() as u64 & !MAP_GRANT } else { page.base() };
    reply(Ok(())).with_maps(&[MapItem { send_base, fpage: page.0 }])
}

/// Asks for `fpage`, received in `window`. Returns what arrived.
pub fn map(fpage: Fpage, window: Fpage) -> Result<MapItem, Failure> {
    mapping(Request::Map { fpage }, window)
}

/// Asks for the 2^`log2` ports from `first` on.
pub fn ports(first: u16, log2: u8) -> Result<MapItem, Failure> {
    map(Fpage::io(first, log2), Fpage::io(0, ALL_PORTS_LOG2))
}

/// Asks for any free memory of the size of `fpage`, received in `window`.
pub fn any(fpage: Fpage, window: Fpage) -> Result<MapItem, Failure> {
    mapping(Request::Any { fpage }, window)
}

fn mapping(request: Request, window: Fpage) -> Result<MapItem, Failure> {
    utcb::set_receive_window(window);
    let answer = call(Id::SIGMA0, request.encode());
    utcb::set_receive_window(Fpage::NIL);
    let answer = answer?.accepted()?;
    let item = utcb::map_item(0);
    if answer.tag.maps() == 1 && item.fpage != 0 {
        Ok(item)
    } else {
        Err(Failure::call(Error::NoMemory))
    }
}

/// Asks for the right to GSI `gsi`; MSIs follow the GSIs.
pub fn interrupt(gsi: u32) -> Result<(), Failure> {
    ask(Id::SIGMA0, &Request::Interrupt { gsi: gsi as u64 })
}
