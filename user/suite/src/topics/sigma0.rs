// SPDX-License-Identifier: BSD-2-Clause
//! sigma0's answers to a task of the root task's clan.

use crate::case::{Case, Outcome};
use crate::pool::{cell, peek, poke, WINDOW};
use crate::threads::{child, park, pause};
use crate::{holds, refused, same};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::fpage::*;
use keel_l4::abi::memory::{KIP_MAGIC, REGION_KERNEL};
use keel_l4::ipc::{call, Message};
use keel_l4::kip::{kip, regions};
use keel_l4::protocol::sigma0::SIGMA0_KIP;
use keel_l4::{sigma0, utcb, Error, Fpage, Id};

pub const CASES: &[Case] = &[
    ("any-page", any_page),
    ("any-superpage-is-aligned", any_superpage),
    ("the-same-page-again", same_again),
    ("another-task's-page-refused", others_page),
    ("the-kernel's-memory-refused", kernel_memory),
    ("the-root-task's-memory-refused", root_memory),
    ("cached-device-memory-refused", cached_device),
    ("malformed-requests-refused", malformed),
    ("information-page", information),
    ("unknown-request-refused", unknown),
    ("taken-gsi", taken_gsi),
];

fn window(log2: u8) -> Fpage {
    Fpage::memory(WINDOW, log2, FPAGE_RWX)
}

/// The physical address of a page from sigma0, found by a one-to-one mapping.
fn physical(log2: u8) -> Result<u64, keel_l4::call::Failure> {
    let whole = Fpage::memory(0, 46, FPAGE_RWX);
    Ok(sigma0::any(Fpage::memory(0, log2, FPAGE_RWX), whole)?.send_base)
}

fn any_page() -> Outcome {
    let item = sigma0::any(Fpage::memory(0, 12, FPAGE_READ | FPAGE_WRITE), window(12))?;
    same!("place, rights", (item.send_base, Fpage(item.fpage).rights()), (WINDOW, FPAGE_READ | FPAGE_WRITE));
    // SAFETY: the page is new.
    unsafe { poke(WINDOW, 12345) };
    same!("content", peek(WINDOW), 12345);
    Ok(())
}

fn any_superpage() -> Outcome {
    let item = sigma0::any(Fpage::memory(0, 21, FPAGE_RWX), window(21))?;
    same!("size", Fpage(item.fpage).log2(), 21);
    // SAFETY: the superpage is new.
    unsafe { poke(WINDOW + (1 << 20), 1) };
    Ok(())
}

fn same_again() -> Outcome {
    let at = physical(12)?;
    // SAFETY: the page is new and mapped one-to-one.
    unsafe { poke(at, 99) };
    sigma0::map(Fpage::memory(at, 12, FPAGE_RWX), window(12))?;
    same!("the same page", peek(WINDOW), 99);
    Ok(())
}

extern "C" fn ask_for(address: u64) -> ! {
    let page = Fpage::memory(address, 12, FPAGE_RWX);
    let word = sigma0::map(page, Fpage::WHOLE).map_or_else(|failure| failure.error as u64, |_| 1000);
    cell(1).store(word, SeqCst);
    park()
}

fn others_page() -> Outcome {
    let at = physical(12)?;
    child(ask_for, at)?;
    pause(5_000_000);
    same!("the other's answer", cell(1).load(SeqCst), Error::Denied as u64);
    Ok(())
}

fn kernel_memory() -> Outcome {
    let mut tried = 0;
    for region in regions(kip()).filter(|r| r.kind == REGION_KERNEL) {
        for address in [region.start, region.end - 1] {
            let page = Fpage::memory(address, 12, FPAGE_RWX).with_cache(CACHE_UNCACHED);
            refused!("the kernel's memory", sigma0::map(page, window(12)), Call Denied);
            tried += 1;
        }
    }
    holds!("a region of the kernel's", tried > 0);
    Ok(())
}

fn root_memory() -> Outcome {
    refused!("its image", sigma0::map(Fpage::memory(0x40_0000, 12, FPAGE_RWX), window(12)), Call Denied);
    Ok(())
}

fn cached_device() -> Outcome {
    let page = Fpage::memory(0xb_9000, 12, FPAGE_READ | FPAGE_WRITE);
    refused!("write-back", sigma0::map(page, window(12)), Call Invalid);
    Ok(())
}

fn malformed() -> Outcome {
    for word in [0, 11 << 4 | 7, 63 << 4 | 7, u64::MAX, 12 << 4] {
        refused!("map", sigma0::map(Fpage(word), window(12)), Call Invalid);
        refused!("any", sigma0::any(Fpage(word), window(12)), Call Invalid);
    }
    refused!("all memory", sigma0::map(Fpage::memory(0, 47, FPAGE_RWX), window(12)), Call Denied);
    refused!("any 64 TB", sigma0::any(Fpage::memory(0, 46, FPAGE_RWX), window(12)), Call NoMemory);
    Ok(())
}

fn information() -> Outcome {
    utcb::set_receive_window(window(12));
    let answer = call(Id::SIGMA0, Message::label(SIGMA0_KIP as u32));
    utcb::set_receive_window(Fpage::NIL);
    same!("items", answer?.tag.maps(), 1);
    same!("magic", peek(WINDOW), KIP_MAGIC);
    same!("rights", Fpage(utcb::map_item(0).fpage).rights(), FPAGE_READ);
    Ok(())
}

fn unknown() -> Outcome {
    let answer = call(Id::SIGMA0, Message::label(0x1234))?;
    same!("label", answer.tag.label() as u64, Error::NotSupported as u64);
    Ok(())
}

fn taken_gsi() -> Outcome {
    // The suite has GSI 9 by the boot configuration or by a request; another request changes
    // nothing.
    sigma0::interrupt(9)?;
    sigma0::interrupt(9)?;
    refused!("a GSI beyond all", sigma0::interrupt(100_000), Call Invalid);
    Ok(())
}
