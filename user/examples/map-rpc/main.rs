// SPDX-License-Identifier: BSD-2-Clause
//! Mapping RPC: the client lends the server 64 KB of its memory for the duration of a call. Nothing
//! is copied: the server works in the client's pages. After the answer the client unmaps them, and
//! with them all mappings that the server made of them.

#![no_std]
#![no_main]

use keel_l4::abi::call::{MAX_MAP_ITEMS, UNMAP_DIRTY, UNMAP_RIGHTS};
use keel_l4::abi::fpage::{FPAGE_READ, FPAGE_WRITE, PAGE_SIZE};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::clan::Clan;
use keel_l4::ipc::{call, Message, Received};
use keel_l4::list::List;
use keel_l4::mapping::{blocks, items, unmap};
use keel_l4::memory::{Pages, Reserve};
use keel_l4::message::{reply, value, Request as _};
use keel_l4::program::Program;
use keel_l4::ranges::{Range, Ranges};
use keel_l4::server::{self, Server};
use keel_l4::{println, requests, utcb, Error, Fpage, Id};

keel_l4::program!(main);

/// Bytes that are lent.
const BYTES: u64 = 64 << 10;
const BYTES_LOG2: u8 = BYTES.ilog2() as u8;
/// Their address in the server; nothing else is mapped there.
const WINDOW: u64 = 0x10_0000_0000;

/// The content of each page.
const TEXT: &[u8] = b"the client's words";

static MEMORY: Reserve<{ BYTES as usize }> = Reserve::new();

requests! {
    /// The services of the server.
    enum Request {
        /// Turns the letters in the lent memory into capitals; answers their number.
        Capitals = 1,
    }
}

/// The server's window, which holds the client's pages during a request.
struct Capitals {
    window: Pages,
}

/// Whether the mappings that came with a message fill the window and are writable. The server must
/// check this, because an access to a missing page would be its own page fault. (A client can still
/// unmap its pages too early. A server that must survive that has its own pager, which maps zeroed
/// pages.)
fn complete(received: &Received) -> bool {
    let mut there: Ranges<{ MAX_MAP_ITEMS as usize }> = Ranges::default();
    for item in (0..received.tag.maps() as usize).map(utcb::map_item) {
        let page = Fpage(item.fpage);
        if !page.is_io() && page.rights() & FPAGE_WRITE != 0 {
            // There is room for as many ranges as items.
            let _ = there.insert(Range::new(item.send_base, item.send_base + page.size()));
        }
    }
    there.contains(Range::new(WINDOW, WINDOW + BYTES))
}

impl Server for Capitals {
    type Request = Request;

    fn request(&mut self, Request::Capitals: Request, received: &Received) -> Option<Message> {
        if !complete(received) {
            return Some(reply::<()>(Err(Error::Invalid)));
        }
        let mut turned = 0;
        let mut page = [0; PAGE_SIZE as usize];
        for at in (0..BYTES).step_by(page.len()) {
            self.window.read(at, &mut page);
            turned += page.iter().filter(|byte| byte.is_ascii_lowercase()).count() as u64;
            page.make_ascii_uppercase();
            self.window.write(at, &page);
        }
        Some(reply(Ok(turned)))
    }
}

fn server(_: u64) -> Result<(), Failure> {
    utcb::set_receive_window(Fpage::memory(WINDOW, BYTES_LOG2, FPAGE_READ | FPAGE_WRITE));
    // SAFETY: nothing else uses the window, and `complete` ensures that it is mapped when it is
    // used.
    let window = unsafe { Pages::new(WINDOW, BYTES / PAGE_SIZE) };
    server::run(&mut Capitals { window })
}

fn client(server: u64) -> Result<(), Failure> {
    let memory = MEMORY.take().ok_or(Failure::call(Error::NoMemory))?;
    // Accesses each page, because only a page that is mapped here can be lent.
    for page in (0..BYTES).step_by(PAGE_SIZE as usize) {
        memory.write(page, TEXT);
    }
    let (start, end) = (memory.address(), memory.address() + BYTES);
    let mut lent: List<MapItem, 16> = List::empty(MapItem { send_base: 0, fpage: 0 });
    for item in items(start, end, 0, FPAGE_READ | FPAGE_WRITE) {
        lent.push(item).map_err(|_| Failure::call(Error::Invalid))?;
    }

    let turned: u64 = value(call(Id(server), Request::Capitals.encode().with_maps(&lent))?)?;
    let mut dirty = true;
    for (at, log2) in blocks(start, 0, end) {
        dirty &= unmap(Fpage::memory(at, log2, 0), UNMAP_RIGHTS)? & UNMAP_DIRTY != 0;
    }
    let mut text = [0; TEXT.len()];
    memory.read(BYTES - PAGE_SIZE, &mut text);
    println!("{turned} letters turned; the last page says {:?}", core::str::from_utf8(&text).unwrap_or("?"));
    println!("the pages are back, {}", if dirty { "written to by the server" } else { "untouched" });
    match call(Id(server), Request::Capitals.encode()).and_then(value::<u64>) {
        Ok(turned) => println!("without memory {turned} letters were turned"),
        Err(failure) => println!("without memory: {failure}"),
    }
    Ok(())
}

fn main(program: Program) -> Result<(), Failure> {
    let mut clan = Clan::new(program);
    let server = clan.start_server("server", server, 0)?;
    clan.start("client", client, server.0)?;
    clan.run()
}
