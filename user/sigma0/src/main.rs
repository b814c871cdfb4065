// SPDX-License-Identifier: BSD-2-Clause
//! sigma0: turns messages into questions to `Space` and its answers into replies.

#![no_std]
#![no_main]

use core::cell::UnsafeCell;
use keel_l4::abi::fpage::{FPAGE_READ, PAGE_SHIFT};
use keel_l4::abi::memory::MAP_GRANT;
use keel_l4::abi::{Info, MapItem};
use keel_l4::ipc::{Message, Received};
use keel_l4::message::reply;
use keel_l4::pager::Fault;
use keel_l4::server::{self, Server};
use keel_l4::sigma0::Request;
use keel_l4::{info, print, source, Error, Fpage, Id};
use keel_sigma0::space::Space;

keel_l4::entry!(main);

/// A copy of the information page that can be mapped: the kernel's own cannot be passed on.
#[repr(C, align(4096))]
struct InfoCopy(UnsafeCell<Info>);

// SAFETY: written once before the first message, only read afterwards.
unsafe impl Sync for InfoCopy {}

static INFO_COPY: InfoCopy = InfoCopy(UnsafeCell::new(Info::zeroed()));

extern "C" fn main(_: u64) -> ! {
    // The root task, which prints, is a client: sigma0 must never wait for it.
    print::set_sink(|_| ());
    // SAFETY: nobody else runs in this task, and nothing was mapped yet.
    unsafe { *INFO_COPY.0.get() = *info::info() };
    server::run(&mut Sigma0 { space: Space::new(info::regions(info::info())) })
}

/// What the loop works on.
struct Sigma0 {
    space: Space,
}

impl Server for Sigma0 {
    type Request = Request;

    fn request(&mut self, request: Request, received: &Received) -> Option<Message> {
        let task = received.from.task();
        Some(match request {
            Request::Map { fpage } => item(self.space.map(fpage, task)),
            Request::Any { fpage } => item(self.space.any(fpage, task)),
            Request::Info => item(Ok(Fpage::memory(INFO_COPY.0.get() as u64, PAGE_SHIFT as u8, FPAGE_READ))),
            Request::Interrupt { line } => reply(self.give_line(line, received.from)),
        })
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        self.space.fault(fault.address, fault.thread.task()).ok().map(|page| item(Ok(page)))
    }
}

impl Sigma0 {
    fn give_line(&mut self, line: u64, to: Id) -> Result<(), Error> {
        if self.space.has_line(line, to.task())? {
            return Ok(());
        }
        source::give(Id::irq(line as u32), to).map_err(|failure| failure.error)?;
        self.space.give_line(line, to.task())
    }
}

/// The reply with a map item at its own address, or with the error as its label.
fn item(result: Result<Fpage, Error>) -> Message {
    let page = match result {
        Ok(page) => page,
        Err(error) => return reply::<()>(Err(error)),
    };
    // The send base of ports counts ports; bit 0 is the grant bit and must stay clear.
    let send_base = if page.is_io() { page.port() as u64 & !MAP_GRANT } else { page.base() };
    reply(Ok(())).with_maps(&[MapItem { send_base, fpage: page.0 }])
}
