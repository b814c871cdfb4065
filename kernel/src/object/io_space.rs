// SPDX-License-Identifier: GPL-2.0-only
//! The I/O ports of a task: a bitmap in the polarity of the processor's (a set bit forbids), and
//! where they came from.
//!
//! io.rs maps ports and takes them back.

use crate::{base::*, object::*};

/// Ports of a PC.
const PORTS: usize = 1 << 16;
/// Words of a bitmap.
pub const WORDS: usize = PORTS / 64;

/// List tag: grants that a space gave.
pub struct Given;
/// List tag: grants that a space got.
pub struct Got;

/// The ports of a task.
pub struct IoSpace {
    pub(crate) task: Ref<Task>,
    pub(crate) depth: u8,
    pub(crate) bitmap: [PoolPage; 2],
    pub(crate) given: List<Grant, Given>,
    pub(crate) got: List<Grant, Got>,
}

/// Ports that went from one space to another.
pub struct Grant {
    pub(crate) from: Ref<IoSpace>,
    pub(crate) to: Ref<IoSpace>,
    pub(crate) bitmap: [PoolPage; 2],
    pub(crate) given: Links<Grant>,
    pub(crate) got: Links<Grant>,
}

linked!(Grant, Given, given);
linked!(Grant, Got, got);

/// Word `index` of a bitmap that lies in two pages of the pool.
pub(crate) fn word(bitmap: &[PoolPage; 2], index: usize) -> &'static Cell<u64> {
    const PER_PAGE: usize = PAGE / 8;
    POOL.word(bitmap[index / PER_PAGE], index % PER_PAGE)
}

/// Copies a task's bitmap for the processor. False if the task has no ports.
pub fn load(task: Ref<Task>, to: &[Cell<u64>; WORDS]) -> bool {
    let Some(space) = task.io.get() else { return false };
    for (part, page) in to.chunks_exact(PAGE / 8).zip(space.bitmap) {
        POOL.copy_words(page, part);
    }
    true
}
