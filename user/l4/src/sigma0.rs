// SPDX-License-Identifier: BSD-2-Clause
//! Asking sigma0 for memory, ports and interrupt lines.

use crate::call::Failure;
use crate::ipc::{call, Message};
use crate::utcb;
use keel_abi::memory::{SIGMA0_ANY, SIGMA0_IRQ, SIGMA0_MAP};
use keel_abi::{Error, Fpage, Id, MapItem};

/// Asks for `fpage`, to be placed in `window`; tells what came.
pub fn map(fpage: Fpage, window: Fpage) -> Result<MapItem, Failure> {
    request(SIGMA0_MAP, fpage, window)
}

/// Asks for any free memory of the size of `fpage`, to be placed in `window`.
pub fn any(fpage: Fpage, window: Fpage) -> Result<MapItem, Failure> {
    request(SIGMA0_ANY, fpage, window)
}

fn request(operation: u64, fpage: Fpage, window: Fpage) -> Result<MapItem, Failure> {
    utcb::set_receive_window(window);
    let answer = call(Id::SIGMA0, Message::new(operation as u32, &[fpage.0]));
    utcb::set_receive_window(Fpage::NIL);
    let answer = answer?;
    refusal(answer.tag.label())?;
    let item = utcb::map_item(0);
    if answer.tag.maps() == 1 && item.fpage != 0 {
        Ok(item)
    } else {
        Err(Failure::call(Error::NoMemory))
    }
}

/// Asks for the right over interrupt line `line`.
pub fn interrupt(line: u32) -> Result<(), Failure> {
    let answer = call(Id::SIGMA0, Message::new(SIGMA0_IRQ as u32, &[line as u64]))?;
    refusal(answer.tag.label())
}

/// An answer's label is 0 or the positive error code.
fn refusal(label: u32) -> Result<(), Failure> {
    match Error::ALL.into_iter().find(|e| *e as u64 == label as u64) {
        Some(error) => Err(Failure::call(error)),
        None => Ok(()),
    }
}
