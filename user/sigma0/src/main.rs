// SPDX-License-Identifier: BSD-2-Clause
//! sigma0: turns messages into questions to `Space` and its answers into replies.

#![no_std]
#![no_main]

use keel_l4::ipc::{Message, Received};
use keel_l4::message::reply;
use keel_l4::pager::{refused, Fault};
use keel_l4::server::{self, Server};
use keel_l4::sigma0::{give, Request};
use keel_l4::{info, print, source, Error, Id};
use keel_sigma0::space::Space;

keel_l4::entry!(main);

extern "C" fn main(_: u64) -> ! {
    // The root task, which prints, is a client: sigma0 must never wait for it.
    print::set_sink(|_| ());
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
            Request::Map { fpage } => give(self.space.map(fpage, task)),
            Request::Any { fpage } => give(self.space.any(fpage, task)),
            // SAFETY: sigma0 has one thread.
            Request::Info => give(Ok(unsafe { info::mappable_copy() })),
            Request::Interrupt { line } => reply(self.give_line(line, received.from)),
        })
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        let page = self.space.fault(fault.address, fault.thread.task());
        // What is refused is nobody's: the thread stops, and the kernel's console says which, where and why.
        Some(page.map_or_else(|_| refused(), |page| give(Ok(page))))
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
