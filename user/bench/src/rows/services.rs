// SPDX-License-Identifier: BSD-2-Clause
//! What servers give, with the library's code on both sides: a remote procedure call with two words, and one for which
//! the client lends 64 KB of its memory.

use crate::clock::span;
use crate::partner::*;
use crate::sample::row;
use keel_l4::abi::call::UNMAP_RIGHTS;
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SIZE};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message, Received};
use keel_l4::message::{ask, reply, value, Request as _};
use keel_l4::server::{self, Server};
use keel_l4::{mapping, utcb, Error, Fpage};

/// Log2 of the bytes that are lent.
const LENT_LOG2: u8 = 16;
/// Where the server finds them.
const LENT: Fpage = Fpage::memory(WINDOW, LENT_LOG2, FPAGE_RWX);

keel_l4::requests! {
    /// What the server does.
    enum Request {
        /// Adds two numbers.
        Add { left: u64, right: u64 } = 1,
        /// Touches each page of the memory that came with the request.
        Touch = 2,
    }
}

struct Servant;

impl Server for Servant {
    type Request = Request;

    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        Some(match request {
            Request::Add { left, right } => reply(left.checked_add(right).ok_or(Error::Invalid)),
            Request::Touch if received.tag.maps() == 1 && Fpage(utcb::map_item(0).fpage).size() == LENT.size() => {
                touch(LENT.base()..LENT.base() + LENT.size());
                reply(Ok(LENT.size() / PAGE_SIZE))
            }
            Request::Touch => reply::<u64>(Err(Error::Invalid)),
        })
    }
}

extern "C" fn servant(_: u64) -> ! {
    utcb::set_receive_window(LENT);
    server::run(&mut Servant)
}

/// All of them.
pub fn measure() -> Result<(), Failure> {
    let server = Partner::start(Space::Other, servant, 0)?;
    row("rpc-two-spaces", || span(|| ask::<u64>(server.id, &Request::Add { left: 1, right: 2 })))?;
    let lent = pages(LENT_LOG2);
    row("mapping-rpc-64k-two-spaces", || {
        span(|| {
            let message = Request::Touch.encode().with_maps(&[MapItem { send_base: 0, fpage: lent.0 }]);
            value::<u64>(call(server.id, message)?)?;
            mapping::unmap(lent, UNMAP_RIGHTS)
        })
    })?;
    server.end()
}
