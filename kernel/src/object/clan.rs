// SPDX-License-Identifier: GPL-2.0-only
//! Clans and chiefs: who really receives a message.
//!
//! The tasks that one task created are its clan, and it is their chief. Within a clan, the chief
//! included, a message goes straight to its destination. One that leaves the clan goes to the
//! sender's chief, one into another clan to the chief of the outermost clan that it enters. Nesting
//! is at most 15 deep, and so are the walks.

use crate::{base::abi::*, base::*, object::Task};

/// Whether messages between these two go straight.
pub fn is_same_clan(a: Ref<Task>, b: Ref<Task>) -> bool {
    a.chief == b.chief || a.chief == Some(b) || b.chief == Some(a)
}

/// The chief that receives a message of `from` to `to` in its place, and its relation to the sender
/// (`NEAREST_*`). `None`: the message goes straight.
pub fn nearest(from: Ref<Task>, to: Ref<Task>) -> Option<(Ref<Task>, u64)> {
    if is_same_clan(from, to) {
        return None;
    }
    match chiefs(to).find(|chief| is_same_clan(from, *chief)) {
        Some(chief) => Some((chief, NEAREST_INNER)),
        // Of the outermost clan everybody is near somebody above `to`: `from` has a chief.
        None => from.chief.map(|chief| (chief, NEAREST_OUTER)),
    }
}

/// Whether `task` lies in the clan of `chief` or in one within it.
pub fn is_inside(task: Ref<Task>, chief: Ref<Task>) -> bool {
    chiefs(task).any(|above| above == chief)
}

/// Its chief, that one's chief, and so on.
fn chiefs(task: Ref<Task>) -> impl Iterator<Item = Ref<Task>> {
    core::iter::successors(task.chief, |chief| chief.chief)
}

#[cfg(test)]
#[path = "../../../tests/kernel/clan.rs"]
mod tests;
