// SPDX-License-Identifier: BSD-2-Clause
//! Messages to a preempter. The kernel sends one when a thread that `thread::set_preempter` put
//! under the preempter loses the processor. The thread waits for the answer, so the preempter
//! decides when it resumes, and with which priority and time slice.

use crate::call::Failure;
use crate::ipc::{send, Message, Received, Timeout};
use keel_abi::call::{KIND_PREEMPTION, PREEMPTED_PRIORITY, PREEMPTED_SLICE, PREEMPTER_EVERY};
use keel_abi::Id;

/// A thread that lost the processor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Preemption {
    /// The thread.
    pub thread: Id,
    /// Its time slice ended, or it gave the slice up.
    pub slice_ended: bool,
    /// A thread of higher priority became ready.
    pub higher_priority: bool,
    /// Kernel time of the message in nanoseconds.
    pub time: u64,
    /// The instruction at which the thread resumes.
    pub ip: u64,
    /// Index of its frame, if it is an alien thread.
    pub frame: u64,
    /// Nanoseconds of processor time that it has used.
    pub consumed: u64,
}

impl Preemption {
    /// Decodes `received`; `None` if it is not a preemption.
    pub fn of(received: &Received) -> Option<Preemption> {
        let [time, ip, frame, consumed, ..] = received.words;
        let why = received.tag.label() as u64;
        (received.tag.kind() == KIND_PREEMPTION).then_some(Preemption {
            thread: received.from,
            slice_ended: why & PREEMPTED_SLICE != 0,
            higher_priority: why & PREEMPTED_PRIORITY != 0,
            time,
            ip,
            frame,
            consumed,
        })
    }

    /// Answers, so that the thread resumes.
    pub fn answer(&self) -> Result<(), Failure> {
        send(self.thread, Message::label(0), Timeout::Zero)
    }
}

/// The same preempter, which gets a message for every preemption and not only at the end of time
/// slices.
pub const fn of_every_preemption(preempter: Id) -> Id {
    Id(preempter.0 | PREEMPTER_EVERY)
}

#[cfg(test)]
mod tests {
    use super::*;
    use keel_abi::call::KIND_USER;
    use keel_abi::Tag;

    #[test]
    fn only_the_kernel_tells_a_preemption() {
        let (from, words) = (Id::thread(1, 9, 3, 1), [7, 8, 9, 10, 0, 0]);
        let told = |kind, why| {
            Preemption::of(&Received { from, tag: Tag::kernel(kind, why as u32, 4), words })
                .map(|told| (told.slice_ended, told.higher_priority, told.time, told.ip, told.frame, told.consumed))
        };
        assert_eq!(told(KIND_USER, PREEMPTED_SLICE), None);
        assert_eq!(told(KIND_PREEMPTION, PREEMPTED_SLICE), Some((true, false, 7, 8, 9, 10)));
        assert_eq!(told(KIND_PREEMPTION, PREEMPTED_PRIORITY), Some((false, true, 7, 8, 9, 10)));
    }

    #[test]
    fn the_bit_leaves_the_id_as_it_is() {
        let id = Id::thread(1, 9, 3, 1);
        assert_eq!(of_every_preemption(id).0 & !PREEMPTER_EVERY, id.0);
    }
}
