// SPDX-License-Identifier: BSD-2-Clause
//! Kernel objects: GSIs, MSIs, timers, and the quota account. A program invokes an object by an ipc
//! call to the object's id. All functions fail with the error of the call or of the object's
//! answer.

use crate::call::{failed, Failure, ANSWER};
use crate::ipc::{call, Message, Received};
use crate::utcb;
use keel_abi::call::{
    ACCOUNT_WORDS, MSI_ALLOCATE, OBJECT_ACK, OBJECT_BIND, OBJECT_GIVE, OBJECT_UNBIND, QUOTA_BUY_FRAMES, QUOTA_ENLARGE,
    QUOTA_READ, QUOTA_SELL_FRAMES, QUOTA_SHRINK, REGISTER_WORDS, TIMER_SET,
};
use keel_abi::ids::ID_TIMER;
use keel_abi::Id;

/// Invokes operation `label` on `object`. An error code in the answer becomes a failure of the
/// call.
pub fn invoke(object: Id, label: u64, words: &[u64]) -> Result<Received, Failure> {
    call(object, Message::new(label as u32, words))?.accepted().map_err(|failure| failed(ANSWER, failure))
}

/// Binds the GSI `object` to the calling thread, which gets its interrupts as messages from now on.
/// `mode` is one of `IRQ_MODE_*`.
pub fn bind(object: Id, mode: u64) -> Result<(), Failure> {
    invoke(object, OBJECT_BIND, &[mode]).map(|_| ())
}

/// Unbinds the GSI or MSI `object`.
pub fn unbind(object: Id) -> Result<(), Failure> {
    invoke(object, OBJECT_UNBIND, &[]).map(|_| ())
}

/// Acknowledges the last interrupt of `object`: the device was served, and the next interrupt may
/// come.
pub fn acknowledge(object: Id) -> Result<(), Failure> {
    invoke(object, OBJECT_ACK, &[]).map(|_| ())
}

/// A message-signalled interrupt (MSI, MSI-X), which a device raises by a write to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Msi {
    /// Sender of the interrupt's messages.
    pub id: Id,
    /// The address to which the device writes.
    pub address: u64,
    /// The value that it writes.
    pub data: u32,
}

/// Binds a free MSI to the calling thread. The kernel acknowledges an MSI when it delivers the
/// message.
pub fn bind_msi() -> Result<Msi, Failure> {
    let [id, address, data, ..] = invoke(Id::MSI, MSI_ALLOCATE, &[])?.words;
    Ok(Msi { id: Id(id), address, data: data as u32 })
}

/// Gives the right to `object` to the task `to`.
pub fn give(object: Id, to: Id) -> Result<(), Failure> {
    invoke(object, OBJECT_GIVE, &[to.0]).map(|_| ())
}

/// Claims a free timer. Its messages go to the calling thread.
pub fn claim_timer() -> Result<Id, Failure> {
    invoke(Id(ID_TIMER), OBJECT_BIND, &[]).map(|answer| Id(answer.words[0]))
}

/// Arms `timer` for the kernel time `time`, or disarms it (`TIMER_OFF`).
pub fn set_timer(timer: Id, time: u64) -> Result<(), Failure> {
    invoke(timer, TIMER_SET, &[time]).map(|_| ())
}

/// The words (`ACCOUNT_*`) of the quota account of `task` (nil: the caller's).
pub fn account(task: Id) -> Result<[u64; ACCOUNT_WORDS as usize], Failure> {
    let answer = invoke(Id::QUOTA, QUOTA_READ, &[task.0])?;
    let mut words = [0; ACCOUNT_WORDS as usize];
    for (index, word) in words.iter_mut().enumerate() {
        *word = if index < REGISTER_WORDS as usize { answer.words[index] } else { utcb::word(index) };
    }
    Ok(words)
}

/// Moves `pages` from the caller's account to the account of `task`, a task of the caller's clan.
pub fn enlarge(task: Id, pages: u64) -> Result<(), Failure> {
    invoke(Id::QUOTA, QUOTA_ENLARGE, &[task.0, pages]).map(|_| ())
}

/// Moves `pages` that `task` does not use from its account to the caller's.
pub fn shrink(task: Id, pages: u64) -> Result<(), Failure> {
    invoke(Id::QUOTA, QUOTA_SHRINK, &[task.0, pages]).map(|_| ())
}

/// Returns `pages` frame pages, from number `first` on, to the account.
pub fn sell_frames(first: u64, pages: u64) -> Result<(), Failure> {
    invoke(Id::QUOTA, QUOTA_SELL_FRAMES, &[first, pages]).map(|_| ())
}

/// Buys `pages` frame pages, from number `first` on, from the account.
pub fn buy_frames(first: u64, pages: u64) -> Result<(), Failure> {
    invoke(Id::QUOTA, QUOTA_BUY_FRAMES, &[first, pages]).map(|_| ())
}
