// SPDX-License-Identifier: BSD-2-Clause
//! Kernel sources: interrupt lines, timers, the memory account.

use crate::call::{failed, Failure, ANSWER};
use crate::ipc::{call, Message, Received};
use crate::utcb;
use keel_abi::call::{
    ACCOUNT_WORDS, MSI_ALLOCATE, OBJECT_ACK, OBJECT_BIND, OBJECT_GIVE, OBJECT_UNBIND, QUOTA_BUY_FRAMES, QUOTA_ENLARGE,
    QUOTA_READ, QUOTA_SELL_FRAMES, QUOTA_SHRINK, REGISTER_WORDS, TIMER_SET,
};
use keel_abi::ids::ID_TIMER;
use keel_abi::Id;

/// Asks `source` for the operation `label`; a refusal in the answer becomes a failure of the call.
pub fn operate(source: Id, label: u64, words: &[u64]) -> Result<Received, Failure> {
    call(source, Message::new(label as u32, words))?.accepted().map_err(|failure| failed(ANSWER, failure))
}

/// Receives interrupt line `source` from now on (`IRQ_MODE_*`).
pub fn attach(source: Id, mode: u64) -> Result<(), Failure> {
    operate(source, OBJECT_BIND, &[mode]).map(|_| ())
}

/// Ends that.
pub fn detach(source: Id) -> Result<(), Failure> {
    operate(source, OBJECT_UNBIND, &[]).map(|_| ())
}

/// Tells that the device behind the line was served.
pub fn acknowledge(source: Id) -> Result<(), Failure> {
    operate(source, OBJECT_ACK, &[]).map(|_| ())
}

/// An interrupt that a device raises by writing to memory (MSI, MSI-X).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MessageInterrupt {
    /// Who sends the message that the interrupt becomes.
    pub source: Id,
    /// Where the device is to write.
    pub address: u64,
    /// What it is to write there.
    pub data: u32,
}

/// Receives a free interrupt by message from now on. It is acknowledged already when it comes.
pub fn attach_message() -> Result<MessageInterrupt, Failure> {
    let [source, address, data, ..] = operate(Id::MSI, MSI_ALLOCATE, &[])?.words;
    Ok(MessageInterrupt { source: Id(source), address, data: data as u32 })
}

/// Gives the right over `source` to the task `to`.
pub fn give(source: Id, to: Id) -> Result<(), Failure> {
    operate(source, OBJECT_GIVE, &[to.0]).map(|_| ())
}

/// Claims a free timer.
pub fn claim_timer() -> Result<Id, Failure> {
    operate(Id(ID_TIMER), OBJECT_BIND, &[]).map(|answer| Id(answer.words[0]))
}

/// Arms `timer` for the kernel time `time`, or disarms it (`TIMER_OFF`).
pub fn set_timer(timer: Id, time: u64) -> Result<(), Failure> {
    operate(timer, TIMER_SET, &[time]).map(|_| ())
}

/// The account of `task` (nil: the caller's), by `ACCOUNT_*`.
pub fn account(task: Id) -> Result<[u64; ACCOUNT_WORDS as usize], Failure> {
    let answer = operate(Id::QUOTA, QUOTA_READ, &[task.0])?;
    let mut words = [0; ACCOUNT_WORDS as usize];
    for (index, word) in words.iter_mut().enumerate() {
        *word = if index < REGISTER_WORDS as usize { answer.words[index] } else { utcb::word(index) };
    }
    Ok(words)
}

/// Moves `pages` of the caller's account to that of `task`, which is of the caller's clan.
pub fn enlarge(task: Id, pages: u64) -> Result<(), Failure> {
    operate(Id::QUOTA, QUOTA_ENLARGE, &[task.0, pages]).map(|_| ())
}

/// Moves `pages` that `task` does not use from its account to the caller's.
pub fn shrink(task: Id, pages: u64) -> Result<(), Failure> {
    operate(Id::QUOTA, QUOTA_SHRINK, &[task.0, pages]).map(|_| ())
}

/// Gives back the frame pages from `first` on.
pub fn sell_frames(first: u64, pages: u64) -> Result<(), Failure> {
    operate(Id::QUOTA, QUOTA_SELL_FRAMES, &[first, pages]).map(|_| ())
}

/// Buys the frame pages from `first` on.
pub fn buy_frames(first: u64, pages: u64) -> Result<(), Failure> {
    operate(Id::QUOTA, QUOTA_BUY_FRAMES, &[first, pages]).map(|_| ())
}
