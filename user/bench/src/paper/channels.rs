// SPDX-License-Identifier: BSD-2-Clause
//! Table 4: bytes from space to space, by a pipe, by messages, and by mappings. The receiver
//! answers with the last byte plus one, and that byte is different each time, so a transfer that
//! failed is noticed.

use super::row;
use crate::partner::*;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::UNMAP_RIGHTS;
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SHIFT};
use keel_l4::abi::{MapItem, StringItem};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, send_and_wait, wait, Message, Received, Timeout};
use keel_l4::pipe::Pipe;
use keel_l4::protocol::boot::Start;
use keel_l4::{mapping, strings, utcb, Error, Fpage, Id};

/// Operations of a repetition, as in the rows that they are compared with.
const ROUND_TRIPS: u64 = 500;
const CHUNKS: u64 = 20;
/// Bytes of one transfer where the bandwidth is measured, as in lmbench.
const CHUNK_LOG2: u8 = 16;
const CHUNK: usize = 1 << CHUNK_LOG2;
/// The label of a mapping that does not count.
const NOTHING_SENT: u32 = 1;
/// Log2 of a superpage.
const SUPERPAGE_LOG2: u8 = 21;

/// One pipe in each direction, with the capacity of Linux's pipes; a pair for each row.
type Pipes = [Pipe<CHUNK>; 2];
static ROUND_TRIP_PIPES: Pipes = [const { Pipe::new() }; 2];
static BANDWIDTH_PIPES: Pipes = [const { Pipe::new() }; 2];
/// The thread that is measured.
static CLIENT: AtomicU64 = AtomicU64::new(0);

/// The bytes to send, and their destination.
#[repr(C, align(4096))]
struct Bytes(UnsafeCell<[u8; CHUNK]>);

// SAFETY: one thread uses each of them (`bytes`).
unsafe impl Sync for Bytes {}

static SENT: Bytes = Bytes(UnsafeCell::new([0; CHUNK]));
static ARRIVED: Bytes = Bytes(UnsafeCell::new([0; CHUNK]));

impl Bytes {
    /// # Safety
    /// Only one thread may call this, and have one result at a time.
    #[allow(clippy::mut_from_ref)]
    unsafe fn bytes(&'static self) -> &'static mut [u8; CHUNK] {
        // SAFETY: by this function's own contract.
        unsafe { &mut *self.0.get() }
    }
}

fn right(is: bool) -> Result<(), Failure> {
    if !is {
        return Err(Failure::call(Error::Invalid));
    }
    Ok(())
}

/// The result. After an error this thread stops; a thread that waits for it waits until the time
/// limit of the run.
fn done<T>(result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|_| keel_l4::start::stop())
}

fn client() -> Id {
    Id(CLIENT.load(Relaxed))
}

/// A byte back and forth through two pipes.
pub fn pipe_round_trip(name: &'static str, _: &Start) -> Result<(), Failure> {
    let echo = start_for_me(echo)?;
    let [there, back] = &ROUND_TRIP_PIPES;
    let (mut to, mut from) = (there.write_end(echo.id), back.read_end(echo.id));
    row(name, ROUND_TRIPS, |count| {
        (0..count).try_for_each(|number| {
            let (sent, mut got) = (number as u8, [0]);
            to.write(&[sent])?;
            right(from.read(&mut got)? == 1 && got[0] == sent.wrapping_add(1))
        })
    })?;
    echo.end()
}

extern "C" fn echo(_: u64) -> ! {
    let [there, back] = &ROUND_TRIP_PIPES;
    let (mut from, mut to) = (there.read_end(client()), back.write_end(client()));
    let mut byte = [0];
    loop {
        done(from.read(&mut byte).and_then(|_| to.write(&[byte[0].wrapping_add(1)])));
    }
}

/// 64 KB through a pipe, and a byte back.
pub fn pipe_bandwidth(name: &'static str, _: &Start) -> Result<(), Failure> {
    let drain = start_for_me(drain)?;
    let [there, back] = &BANDWIDTH_PIPES;
    let (mut to, mut from) = (there.write_end(drain.id), back.read_end(drain.id));
    // SAFETY: only this thread uses them now.
    let bytes = unsafe { SENT.bytes() };
    row(name, CHUNKS, |count| {
        (0..count).try_for_each(|number| {
            let mut got = [0];
            bytes[CHUNK - 1] = number as u8;
            to.write(bytes)?;
            right(from.read(&mut got)? == 1 && got[0] == (number as u8).wrapping_add(1))
        })
    })?;
    drain.end()
}

extern "C" fn drain(_: u64) -> ! {
    let [there, back] = &BANDWIDTH_PIPES;
    let (mut from, mut to) = (there.read_end(client()), back.write_end(client()));
    // SAFETY: only this thread uses them.
    let bytes = unsafe { ARRIVED.bytes() };
    loop {
        let mut got = 0;
        while got < CHUNK {
            got += done(from.read(&mut bytes[got..]));
        }
        done(to.write(&[bytes[CHUNK - 1].wrapping_add(1)]));
    }
}

/// Starts a thread in another space and tells it the caller's id.
fn start_for_me(main: Main) -> Result<Partner, Failure> {
    CLIENT.store(utcb::my_id().0, Relaxed);
    Partner::start(Space::Other, main, 0)
}

/// Answers each message with one more than what `last_byte` returns for it.
fn answer_with(last_byte: impl Fn(&Received) -> u8) -> ! {
    let mut next = wait(Timeout::Never);
    loop {
        next = match next {
            Ok(got) => {
                let answer = Message::new(0, &[last_byte(&got).wrapping_add(1) as u64]);
                send_and_wait(got.from, answer, Timeout::Never, Timeout::Never)
            }
            Err(_) => wait(Timeout::Never),
        };
    }
}

/// Sends `message` and checks the answer.
fn ask(to: Id, message: Message, sent: u8) -> Result<(), Failure> {
    right(call(to, message)?.words[0] == sent.wrapping_add(1) as u64)
}

/// A byte in a message, and one in the answer.
pub fn rpc_round_trip(name: &'static str, _: &Start) -> Result<(), Failure> {
    let server = Partner::start(Space::Other, byte_server, 0)?;
    row(name, ROUND_TRIPS, |count| {
        (0..count).try_for_each(|number| ask(server.id, Message::new(0, &[number as u8 as u64]), number as u8))
    })?;
    server.end()
}

extern "C" fn byte_server(_: u64) -> ! {
    answer_with(|got| got.words[0] as u8)
}

/// A string of 64 KB, and the answer of a byte.
pub fn rpc_bandwidth(name: &'static str, _: &Start) -> Result<(), Failure> {
    let server = Partner::start(Space::Other, string_server, 0)?;
    // SAFETY: this thread's, while it is here.
    let bytes = unsafe { SENT.bytes() };
    row(name, CHUNKS, |count| {
        (0..count).try_for_each(|number| {
            bytes[CHUNK - 1] = number as u8;
            ask(server.id, Message::label(0).with_strings(&[strings::string(bytes)]), number as u8)
        })
    })?;
    server.end()
}

extern "C" fn string_server(_: u64) -> ! {
    touch_image();
    let buffer = StringItem { address: ARRIVED.0.get() as u64, length: CHUNK as u64 };
    // SAFETY: no other thread uses the buffer while this thread exists, and this thread makes no
    // reference to it.
    unsafe { strings::offer(&[buffer]) };
    answer_with(|_| byte_at(buffer.address + CHUNK as u64 - 1))
}

/// A page that is mapped and unmapped.
pub fn mapping_page(name: &'static str, _: &Start) -> Result<(), Failure> {
    mapping(name, pages(PAGE_SHIFT as u8), ROUND_TRIPS, 1)
}

/// The same with 64 KB.
pub fn mapping_bandwidth(name: &'static str, _: &Start) -> Result<(), Failure> {
    mapping(name, pages(CHUNK_LOG2), CHUNKS, 1)
}

/// The same with a superpage; the figure is for 64 KB of it.
pub fn mapping_superpage(name: &'static str, record: &Start) -> Result<(), Failure> {
    let superpage = Fpage::memory(large_memory(record)?.base(), SUPERPAGE_LOG2, FPAGE_RWX);
    mapping(name, superpage, CHUNKS, superpage.size() / CHUNK as u64)
}

/// Maps `fpage` to another space, which reads the last byte, and unmaps it. Each time counts as
/// `worth` operations.
fn mapping(name: &str, fpage: Fpage, times: u64, worth: u64) -> Result<(), Failure> {
    let server = Partner::start(Space::Other, mapping_server, fpage.log2() as u64)?;
    if fpage.log2() < SUPERPAGE_LOG2 {
        // Another page of the server keeps the page table, which is not freed with each call.
        let stays = Fpage::memory(SENT.0.get() as u64, PAGE_SHIFT as u8, FPAGE_RWX);
        let end = MapItem { send_base: (1 << SUPERPAGE_LOG2) - stays.size(), fpage: stays.0 };
        call(server.id, Message::label(NOTHING_SENT).with_maps(&[end]))?;
    }
    let last = (first_byte(fpage) + fpage.size() - 1) as *mut u8;
    row(name, times * worth, |count| {
        (0..count / worth).try_for_each(|number| {
            // SAFETY: memory of this task that nothing else uses.
            unsafe { last.write_volatile(number as u8) };
            let message = Message::label(0).with_maps(&[MapItem { send_base: 0, fpage: fpage.0 }]);
            ask(server.id, message, number as u8)?;
            mapping::unmap(fpage, UNMAP_RIGHTS).map(|_| ())
        })
    })?;
    server.end()
}

extern "C" fn mapping_server(log2: u64) -> ! {
    utcb::set_receive_window(Fpage::memory(WINDOW, SUPERPAGE_LOG2, FPAGE_RWX));
    answer_with(|got| if got.tag.label() == NOTHING_SENT { 0 } else { byte_at(WINDOW + (1 << log2) - 1) })
}

fn byte_at(address: u64) -> u8 {
    // SAFETY: callers pass mapped memory: their own, or what a message has just mapped.
    unsafe { (address as *const u8).read_volatile() }
}
