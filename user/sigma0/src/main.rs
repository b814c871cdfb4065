// SPDX-License-Identifier: BSD-2-Clause
//! sigma0's loop: decodes messages, asks `Space`, and encodes its decision as the reply.

#![no_std]
#![no_main]

use keel_l4::ipc::{Message, Received};
use keel_l4::message::reply;
use keel_l4::pager::{refused, Fault};
use keel_l4::server::{self, Server};
use keel_l4::sigma0::{give, Request};
use keel_l4::{kernel_object, kip, print, Error, Id};
use keel_sigma0::space::Space;

keel_l4::entry!(main);

extern "C" fn main(_: u64) -> ! {
    // sigma0 must never wait for the root task, which prints: the root task is a client.
    print::set_sink(|_| ());
    server::run(&mut Sigma0 { space: Space::new(kip::regions(kip::kip())) })
}

/// The state of the loop.
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
            Request::Kip => give(Ok(unsafe { kip::mappable_copy() })),
            Request::Interrupt { gsi } => reply(self.give_interrupt(gsi, received.from)),
        })
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        let page = self.space.fault(fault.address, fault.thread.task());
        // sigma0 refuses what no task may have. The thread then stops, and the kernel prints the
        // thread, the address and the reason.
        Some(page.map_or_else(|_| refused(), |page| give(Ok(page))))
    }
}

impl Sigma0 {
    fn give_interrupt(&mut self, gsi: u64, to: Id) -> Result<(), Error> {
        if self.space.has_interrupt(gsi, to.task())? {
            return Ok(());
        }
        kernel_object::give(Id::irq(gsi as u32), to).map_err(|failure| failure.error)?;
        self.space.give_interrupt(gsi, to.task())
    }
}
