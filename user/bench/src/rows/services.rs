// SPDX-License-Identifier: BSD-2-Clause
//! Services of servers, with the library's code on both sides: a remote procedure call with two
//! words, one for which the client lends 64 KB of its memory, and pipes.

use crate::clock::span;
use crate::partner::*;
use crate::sample::row;
use core::sync::atomic::{AtomicU64, Ordering};
use keel_examples::pipe::{self, ReadEnd, WriteEnd};
use keel_l4::abi::call::UNMAP_RIGHTS;
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SIZE};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message, Received};
use keel_l4::message::{ask, reply, value, Request as _};
use keel_l4::server::{self, Server};
use keel_l4::{mapping, utcb, Error, Fpage, Id};

/// Log2 of the bytes that are lent.
const LENT_LOG2: u8 = 16;
/// Their address in the server.
const LENT: Fpage = Fpage::memory(WINDOW, LENT_LOG2, FPAGE_RWX);

keel_l4::requests! {
    /// The services of the server.
    enum Request {
        /// Adds two numbers.
        Add { left: u64, right: u64 } = 1,
        /// Accesses each page of the memory that came with the request.
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
    server.end()?;
    byte_through_pipes()
}

/// The threads of the pipes to the repeater and back.
static PIPES: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];

/// The thread of a pipe, as its clients know it.
fn pipe_thread(number: usize) -> Id {
    Id(PIPES[number].load(Ordering::Relaxed))
}

/// Sends back each byte that comes.
extern "C" fn repeater(_: u64) -> ! {
    let (mut from, mut to) = (ReadEnd::new(pipe_thread(0)), WriteEnd::new(pipe_thread(1)));
    let mut byte = [0];
    loop {
        // The measuring thread waits for the byte and reports a failure.
        let _ = from.read(&mut byte).and_then(|_| to.write(&byte));
    }
}

/// One byte to another space and back, through a pipe each way. Each pipe is a thread of this task.
fn byte_through_pipes() -> Result<(), Failure> {
    let pipes = [Partner::start(Space::Same, pipe::thread, 0)?, Partner::start(Space::Same, pipe::thread, 0)?];
    PIPES.iter().zip(&pipes).for_each(|(thread, pipe)| thread.store(pipe.id.0, Ordering::Relaxed));
    let repeater = Partner::start(Space::Other, repeater, 0)?;
    let (mut to, mut from) = (WriteEnd::new(pipe_thread(0)), ReadEnd::new(pipe_thread(1)));
    row("pipe-1-byte-two-spaces", || span(|| to.write(&[1]).and_then(|()| from.read(&mut [0]))))?;
    repeater.end()?;
    pipes.into_iter().rev().try_for_each(Partner::end)
}
