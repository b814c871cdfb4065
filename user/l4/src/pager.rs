// SPDX-License-Identifier: BSD-2-Clause
//! Page faults: the fault message, the answers to it, and the loop of a program that is only a
//! pager.

use crate::ipc::{Message, Received};
use crate::message::NoRequest;
use crate::server::{self, Server};
use core::fmt;
use keel_abi::call::TAG_FORWARD;
use keel_abi::fpage::{FPAGE_EXEC, FPAGE_WRITE, PAGE_SHIFT, PAGE_SIZE};
use keel_abi::{Fpage, Id, MapItem, Tag};

/// A thread's page fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The thread. It waits for the answer.
    pub thread: Id,
    /// The accessed address.
    pub address: u64,
    /// The kind of access: one right of `FPAGE_*`.
    pub access: u64,
    /// Address of the instruction.
    pub ip: u64,
    /// Whether a page is mapped there, without that right.
    pub forbidden: bool,
}

impl Fault {
    /// Decodes a message of the kind `KIND_PAGE_FAULT`.
    pub fn of(received: &Received) -> Fault {
        let [address, ip, _, forbidden, ..] = received.words;
        Fault { thread: received.from, address, access: received.tag.label() as u64, ip, forbidden: forbidden != 0 }
    }

    /// The address of the accessed page.
    pub fn page(&self) -> u64 {
        self.address / PAGE_SIZE * PAGE_SIZE
    }

    /// The answer that maps the pager's own page at `address` to the faulting page, with `rights`.
    pub fn map(&self, address: u64, rights: u64) -> Message {
        let page = Fpage::memory(address, PAGE_SHIFT as u8, rights);
        Message::label(0).with_maps(&[MapItem { send_base: self.page(), fpage: page.0 }])
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match self.access {
            FPAGE_WRITE => "write to",
            FPAGE_EXEC => "jump to",
            _ => "read of",
        };
        write!(f, "{how} {:#x} at ip {:#x}", self.address, self.ip)
    }
}

/// The answer to a fault that the pager does not handle: the fault goes to the exception handler,
/// or stops the thread if it has none.
pub fn refused() -> Message {
    Message { tag: Tag(TAG_FORWARD), ..Message::default() }
}

/// Answers page faults.
pub trait Pager {
    /// The answer to a fault: [`Fault::map`] or a message with other map items. `None` leaves the
    /// thread waiting.
    fn page(&mut self, fault: &Fault) -> Option<Message>;

    /// The answer to an exception of a thread whose exception handler is also this pager.
    fn exception(&mut self, _received: &Received) -> Option<Message> {
        None
    }
}

/// A server that is only a pager.
struct Only<'a, P>(&'a mut P);

impl<P: Pager> Server for Only<'_, P> {
    type Request = NoRequest;

    fn request(&mut self, request: NoRequest, _: &Received) -> Option<Message> {
        match request {}
    }

    fn fault(&mut self, fault: &Fault) -> Option<Message> {
        self.0.page(fault)
    }

    fn exception(&mut self, received: &Received) -> Option<Message> {
        self.0.exception(received)
    }
}

/// Answers page faults in an endless loop.
pub fn run(pager: &mut impl Pager) -> ! {
    server::run(&mut Only(pager))
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_abi::call::KIND_PAGE_FAULT;

    #[test]
    fn a_fault_is_read_and_told() {
        let tag = Tag::kernel(KIND_PAGE_FAULT, FPAGE_WRITE as u32, 6);
        let fault = Fault::of(&Received { from: Id::ROOT, tag, words: [0x1234, 0x40_0010, 0, 1, 0, 0] });
        assert_eq!((fault.thread, fault.page(), fault.forbidden), (Id::ROOT, 0x1000, true));
        assert_eq!(fault.to_string(), "write to 0x1234 at ip 0x400010");
    }
}
