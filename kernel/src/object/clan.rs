// SPDX-License-Identifier: GPL-2.0-only
//! Clans and chiefs: who really receives a message.
//!
//! The tasks that one task created are its clan, and it is their chief. Within a clan, the chief
//! included, a message goes straight to its destination. One that leaves the clan goes to the
//! sender's chief, one into another clan to the chief of the outermost clan that it enters. Plain
//! logic over anything that has a chief; nesting is at most 15 deep, and so are the walks.

/// What has a chief, or belongs to the outermost clan.
pub trait Member: Copy + PartialEq {
    /// Its chief.
    fn chief(self) -> Option<Self>;
}

/// Who receives a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nearest<T> {
    /// Its destination.
    Itself,
    /// The sender's chief.
    Outer(T),
    /// The chief of an inner clan.
    Inner(T),
}

/// Whether messages between these two go straight.
pub fn is_same_clan<T: Member>(a: T, b: T) -> bool {
    a.chief() == b.chief() || a.chief() == Some(b) || b.chief() == Some(a)
}

/// Who receives a message of `from` to `to`.
pub fn nearest<T: Member>(from: T, to: T) -> Nearest<T> {
    if is_same_clan(from, to) {
        return Nearest::Itself;
    }
    match chiefs(to).find(|chief| is_same_clan(from, *chief)) {
        Some(chief) => Nearest::Inner(chief),
        // Of the outermost clan everybody is near somebody above `to`: `from` has a chief.
        None => from.chief().map_or(Nearest::Itself, Nearest::Outer),
    }
}

/// Whether `task` lies in the clan of `chief` or in one within it.
pub fn is_inside<T: Member>(task: T, chief: T) -> bool {
    chiefs(task).any(|above| above == chief)
}

/// Its chief, that one's chief, and so on.
fn chiefs<T: Member>(task: T) -> impl Iterator<Item = T> {
    core::iter::successors(task.chief(), |chief| chief.chief())
}

#[cfg(test)]
#[path = "../../../tests/kernel/clan.rs"]
mod tests;
