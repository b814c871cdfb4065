// SPDX-License-Identifier: GPL-2.0-only
//! The ready threads of one processor: 256 lists and a bitmap of those that are not empty.
//! The running thread is in none of them.

use crate::base::{abi::*, *};

/// List tag of the ready lists.
pub struct Ready;

/// Above every priority.
pub const NOBODY: u16 = PRIORITIES as u16;

object! {
    /// Ready threads by priority.
    pub struct RunQueue<T: Linked<Ready>> const () {
        pub(crate) lists: [List<T, Ready>; PRIORITIES as usize] = [const { List::new() }; PRIORITIES as usize],
        occupied: [Cell<u64>; PRIORITIES as usize / 64] = [const { Cell::new(0) }; PRIORITIES as usize / 64],
        /// The highest priority that has a thread, plus one; 0 if none has. Read at every IPC.
        above: Cell<u16> = Cell::new(0),
    }
}

impl<T: Linked<Ready>> RunQueue<T> {
    /// The highest priority that has a thread, or `None`.
    pub fn top(&self) -> Option<u8> {
        self.above.get().checked_sub(1).map(|top| top as u8)
    }

    /// Whether a thread of this priority is ready.
    pub fn has(&self, priority: u8) -> bool {
        !self.lists[priority as usize].is_empty()
    }

    /// Adds a thread behind those of its priority.
    pub fn push_back(&self, thread: Ref<T>, priority: u8) {
        self.lists[priority as usize].push_back(thread);
        self.mark(priority);
    }

    /// Adds a thread before those of its priority: it was preempted, not finished.
    pub fn push_front(&self, thread: Ref<T>, priority: u8) {
        self.lists[priority as usize].push_front(thread);
        self.mark(priority);
    }

    /// Takes a thread out that was added with this priority.
    pub fn remove(&self, thread: Ref<T>, priority: u8) {
        self.lists[priority as usize].remove(thread);
        if self.lists[priority as usize].is_empty() {
            let word = &self.occupied[priority as usize / 64];
            word.set(word.get() & !(1 << (priority % 64)));
            if self.top() == Some(priority) {
                let highest = self.occupied.iter().enumerate().rev().find(|(_, word)| word.get() != 0);
                let above = highest.map(|(index, word)| index as u32 * 64 + 64 - word.get().leading_zeros());
                self.above.set(above.unwrap_or(0) as u16);
            }
        }
    }

    /// Takes the first thread of the highest priority out.
    pub fn pop(&self) -> Option<Ref<T>> {
        let priority = self.top()?;
        let thread = self.lists[priority as usize].first()?;
        self.remove(thread, priority);
        Some(thread)
    }

    fn mark(&self, priority: u8) {
        let word = &self.occupied[priority as usize / 64];
        word.set(word.get() | 1 << (priority % 64));
        self.above.set(self.above.get().max(priority as u16 + 1));
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/runqueue.rs"]
mod tests;
