// SPDX-License-Identifier: BSD-2-Clause
//! I/O ports as fpages: the right to use them, mapping them on, and unmapping them.

use crate::alien::{code_in, Alien};
use crate::case::{Case, Outcome};
use crate::threads::child;
use crate::{refused, same};
use keel_l4::abi::call::{KIND_EXCEPTION, KIND_SYSCALL, UNMAP_FLUSH, UNMAP_RIGHTS};
use keel_l4::abi::memory::{EX_START, MAP_GRANT};
use keel_l4::abi::MapItem;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, receive, send, wait, Message, Timeout};
use keel_l4::protocol::status::ERROR_DENIED;
use keel_l4::{mapping, sigma0, utcb, Fpage};

pub const CASES: &[Case] = &[
    ("no-right-no-access", no_right),
    ("given-by-sigma0", from_sigma0),
    ("a-single-odd-port", odd_port),
    ("passed-on", passed_on),
    ("only-the-ports-of-the-fpage", only_those),
    ("taken-back", taken_back),
    ("taken-back-from-the-caller-too", flushed),
    ("granted", granted),
    ("not-held-not-passed", not_held),
    ("passed-back", passed_back),
    ("dies-with-the-task", dies),
    ("memory-window-refuses-ports", wrong_window),
];

/// Eight ports without effect: the legacy POST codes' (0x80) and the DMA page registers'.
const PORTS: Fpage = Fpage::io(0x80, 3);
const ALL: Fpage = Fpage::io(0, 16);
const PORTS_ITEM: MapItem = MapItem { send_base: PORTS.port() as u64, fpage: PORTS.0 };

fn take_ports() -> Result<(), Failure> {
    sigma0::map(PORTS, ALL).map(|_| ())
}

fn read_port(port: u16) {
    // SAFETY: reading these ports has no effect; without the right it raises #GP.
    unsafe { core::arch::asm!("in al, dx", in("dx") port, out("al") _, options(nostack, preserves_flags)) };
}

/// An alien thread that reads `port` and then calls; stopped before it runs.
fn prober(port: u64) -> Result<Alien, Failure> {
    Alien::new(code_in, |f| f.dx = port)
}

/// Kind of the first message of a prober after its first fault is answered with the item `ports`.
fn probe(port: u64, send_base: u64, ports: Option<Fpage>) -> Result<(Alien, u64), Failure> {
    let alien = prober(port)?;
    let fault = alien.start_raw()?;
    let code = crate::threads::same_place(fault.words[0], 7);
    let got = match ports {
        Some(ports) => call(alien.id, Message::label(0).with_maps(&[code, MapItem { send_base, fpage: ports.0 }]))?,
        None => call(alien.id, Message::label(0).with_maps(&[code]))?,
    };
    Ok((alien, alien.serve(got)?.tag.kind()))
}

fn no_right() -> Outcome {
    same!("kind", probe(0x80, 0, None)?.1, KIND_EXCEPTION);
    Ok(())
}

fn from_sigma0() -> Outcome {
    take_ports()?;
    (0x80..0x88).for_each(read_port);
    Ok(())
}

fn odd_port() -> Outcome {
    // Bit 0 of a send base is the grant bit, so that the send base of an odd port is the port
    // below.
    sigma0::map(Fpage::io(0x89, 0), ALL)?;
    read_port(0x89);
    same!("passed on", probe(0x89, 0x88, Some(Fpage::io(0x89, 0)))?.1, KIND_SYSCALL);
    Ok(())
}

fn passed_on() -> Outcome {
    take_ports()?;
    same!("kind", probe(0x80, 0x80, Some(PORTS))?.1, KIND_SYSCALL);
    Ok(())
}

fn only_those() -> Outcome {
    take_ports()?;
    same!("inside", probe(0x83, 0x82, Some(Fpage::io(0x82, 1)))?.1, KIND_SYSCALL);
    same!("before", probe(0x81, 0x82, Some(Fpage::io(0x82, 1)))?.1, KIND_EXCEPTION);
    same!("after", probe(0x84, 0x82, Some(Fpage::io(0x82, 1)))?.1, KIND_EXCEPTION);
    Ok(())
}

fn taken_back() -> Outcome {
    take_ports()?;
    let (alien, first) = probe(0x80, 0x80, Some(PORTS))?;
    same!("before", first, KIND_SYSCALL);
    mapping::unmap(PORTS, UNMAP_RIGHTS)?;
    same!("after", alien.resume()?.tag.kind(), KIND_EXCEPTION);
    read_port(0x80);
    Ok(())
}

extern "C" fn read_80(_: u64) -> ! {
    read_port(0x80);
    crate::threads::park()
}

fn flushed() -> Outcome {
    take_ports()?;
    mapping::unmap(PORTS, UNMAP_RIGHTS | UNMAP_FLUSH)?;
    let id = crate::threads::Spawn::watched(read_80, 0).create()?;
    keel_l4::thread::act(id, EX_START)?;
    let got = keel_l4::ipc::receive(id, keel_l4::ipc::Timeout::Never)?;
    same!("kind, vector", (got.tag.kind(), got.tag.label()), (KIND_EXCEPTION, 13));
    take_ports()?;
    Ok(())
}

fn granted() -> Outcome {
    take_ports()?;
    same!("the new holder", probe(0x80, 0x80 | MAP_GRANT, Some(PORTS))?.1, KIND_SYSCALL);
    let id = crate::threads::Spawn::watched(read_80, 0).start()?;
    let got = keel_l4::ipc::receive(id, keel_l4::ipc::Timeout::Never)?;
    same!("the old one", got.tag.kind(), KIND_EXCEPTION);
    Ok(())
}

fn not_held() -> Outcome {
    same!("kind", probe(0x3f8, 0x3f8, Some(Fpage::io(0x3f8, 3)))?.1, KIND_EXCEPTION);
    Ok(())
}

/// Maps back the ports that it gets, and reports the result.
extern "C" fn bounce(_: u64) -> ! {
    utcb::set_receive_window(ALL);
    if let Ok(got) = wait(Timeout::Never) {
        let told = send(got.from, Message::label(0).with_maps(&[PORTS_ITEM]), Timeout::Never);
        let error = told.err().map_or(0, |failure| failure.error as u32);
        let _ = send(got.from, Message::label(error), Timeout::Never);
    }
    crate::threads::park()
}

fn passed_back() -> Outcome {
    take_ports()?;
    let child = child(bounce, 0)?;
    send(child.thread, Message::label(0).with_maps(&[PORTS_ITEM]), Timeout::Never)?;
    utcb::set_receive_window(ALL);
    let got = receive(child.thread, Timeout::Never);
    utcb::set_receive_window(Fpage::NIL);
    refused!("what the receiver is told", got, Receive Denied);
    same!("and the sender", receive(child.thread, Timeout::Never)?.tag.label() as u64, ERROR_DENIED);
    Ok(())
}

fn dies() -> Outcome {
    take_ports()?;
    let (alien, first) = probe(0x80, 0x80, Some(PORTS))?;
    same!("before", first, KIND_SYSCALL);
    crate::threads::remove_task(alien.number)?;
    same!("a new task of another number", probe(0x80, 0, None)?.1, KIND_EXCEPTION);
    Ok(())
}

fn wrong_window() -> Outcome {
    let window = crate::topics::window::slot(0);
    refused!("ports into a memory window", sigma0::map(PORTS, window), Call NoMemory);
    refused!("memory into a port window", sigma0::any(Fpage::memory(0, 12, 7), ALL), Call NoMemory);
    Ok(())
}
