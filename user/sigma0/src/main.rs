// SPDX-License-Identifier: BSD-2-Clause
//! sigma0: turns messages into questions to `Space` and its answers into replies.

#![no_std]
#![no_main]

use core::cell::UnsafeCell;
use keel_l4::abi::call::{KIND_PAGE_FAULT, KIND_USER};
use keel_l4::abi::fpage::{FPAGE_READ, PAGE_SHIFT};
use keel_l4::abi::memory::{MAP_GRANT, SIGMA0_ANY, SIGMA0_INFO, SIGMA0_IRQ, SIGMA0_MAP};
use keel_l4::abi::{Info, MapItem};
use keel_l4::ipc::{serve, Message, Received};
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
    let mut space = Space::new(info::regions(info::info()));
    serve(|request| answer(&mut space, request))
}

fn answer(space: &mut Space, request: &Received) -> Option<Message> {
    let task = request.from.task();
    let fpage = Fpage(request.words[0]);
    match (request.tag.kind(), request.tag.label() as u64) {
        (KIND_PAGE_FAULT, _) => space.fault(request.words[0], task).ok().map(|page| reply(Ok(page))),
        (KIND_USER, SIGMA0_MAP) => Some(reply(space.map(fpage, task))),
        (KIND_USER, SIGMA0_ANY) => Some(reply(space.any(fpage, task))),
        (KIND_USER, SIGMA0_INFO) => {
            Some(reply(Ok(Fpage::memory(INFO_COPY.0.get() as u64, PAGE_SHIFT as u8, FPAGE_READ))))
        }
        (KIND_USER, SIGMA0_IRQ) => Some(give_line(space, request.words[0], request.from)),
        (KIND_USER, _) => Some(refuse(Error::NotSupported)),
        _ => None,
    }
}

/// The reply with a map item at its own address, or with the error as its label.
fn reply(result: Result<Fpage, Error>) -> Message {
    match result {
        // The send base of ports counts ports; bit 0 is the grant bit and must stay clear.
        Ok(page) if page.is_io() => {
            Message::label(0).with_maps(&[MapItem { send_base: page.port() as u64 & !MAP_GRANT, fpage: page.0 }])
        }
        Ok(page) => Message::label(0).with_maps(&[MapItem { send_base: page.base(), fpage: page.0 }]),
        Err(error) => refuse(error),
    }
}

fn refuse(error: Error) -> Message {
    Message::label(error as u32)
}

fn give_line(space: &mut Space, line: u64, to: Id) -> Message {
    let given = space.has_line(line, to.task()).and_then(|has| {
        if has {
            return Ok(());
        }
        source::give(Id::irq(line as u32), to).map_err(|failure| failure.error)?;
        space.give_line(line, to.task())
    });
    match given {
        Ok(()) => Message::label(0),
        Err(error) => refuse(error),
    }
}
