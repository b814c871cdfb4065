// SPDX-License-Identifier: BSD-2-Clause
//! Client of the task that started this one (`keel_protocol::small`).

use crate::call::Failure;
use crate::ipc::{call, send, Message, Timeout};
use core::sync::atomic::{AtomicU32, Ordering};
use keel_abi::Id;
use keel_protocol::small::{SMALL_EXIT, SMALL_PRINT, SMALL_START, SMALL_TEXT};

/// The halves of the parent's id.
static PARENT: [AtomicU32; 2] = [const { AtomicU32::new(0) }; 2];

/// The thread that serves this task.
pub fn parent() -> Id {
    let [low, high] = [0, 1].map(|half: usize| PARENT[half].load(Ordering::Relaxed) as u64);
    Id(low | high << u32::BITS)
}

/// Sets the thread that serves this task.
pub(crate) fn set_parent(id: Id) {
    PARENT[0].store(id.0 as u32, Ordering::Relaxed);
    PARENT[1].store((id.0 >> u32::BITS) as u32, Ordering::Relaxed);
}

/// What this task is to do: its role, and its partner.
pub fn start() -> Result<(u32, Id), Failure> {
    let answer = call(parent(), Message::new(SMALL_START as u32, &[]))?.accepted()?;
    Ok((answer.words[0], Id(answer.long(3))))
}

/// Prints `bytes`, in as many messages as necessary.
pub fn print(bytes: &[u8]) {
    for chunk in bytes.chunks(SMALL_TEXT as usize) {
        let message = Message::new(SMALL_PRINT as u32, &[chunk.len() as u32]);
        // If even the parent fails, there is no one to report it to.
        let _ = call(parent(), message.with_bytes(chunk));
    }
}

/// Tells the parent that the task has ended (`SHUTDOWN_*`), upon which it is deleted.
pub fn exit(code: u32) {
    let _ = send(parent(), Message::new(SMALL_EXIT as u32, &[code]), Timeout::Never);
}
