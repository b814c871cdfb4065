// SPDX-License-Identifier: GPL-2.0-only
//! Strings: the parts that are sent and the parts of buffers, walked in step.
//!
//! A string consists of parts, each but its last marked STRING_CONTINUES; so does a buffer. The
//! n-th string goes into the n-th buffer. Owns the arithmetic and the progress only; transfer.rs
//! does the copying. Lists are copied here before they are used, so that what was checked stays as
//! it is.

use crate::base::{abi::*, *};

/// StringItems in a list.
const STRING_ITEMS: usize = MAX_STRINGS as usize;

object! {
    /// The strings or buffers of one thread, and how far a transfer has come in them.
    pub struct StringItems const () {
        items: [Cell<StringItem>; STRING_ITEMS] = [const { Cell::new(StringItem::zeroed()) }; STRING_ITEMS],
        count: Cell<u8> = Cell::new(0),
        /// The present part, and the bytes of it that are done.
        at: Cell<u8> = Cell::new(0),
        done: Cell<u32> = Cell::new(0),
        /// Buffers: the present one belongs to the present string.
        open: Cell<bool> = Cell::new(false),
        /// Buffers: how many were begun, and the bytes in each.
        begun: Cell<u8> = Cell::new(0),
        bytes: [Cell<u32>; STRING_ITEMS] = [const { Cell::new(0) }; STRING_ITEMS],
    }
}

fn size(item: StringItem) -> u64 {
    item.length & !STRING_CONTINUES
}

fn continues(item: StringItem) -> bool {
    item.length & STRING_CONTINUES != 0
}

fn is_valid(item: &StringItem) -> bool {
    size(*item) <= MAX_STRING_BYTES && is_in_half(item.address, size(*item))
}

impl StringItems {
    /// Takes up to STRING_ITEMS parts, but none from the first on that is impossible: too long, or
    /// not in one half of the space.
    pub fn take(&self, items: impl Iterator<Item = StringItem>) {
        self.count.set(0);
        for (cell, item) in self.items.iter().zip(items.take_while(is_valid)) {
            cell.set(item);
            self.count.set(self.count.get() + 1);
        }
        self.at.set(0);
        self.done.set(0);
        self.open.set(false);
        self.begun.set(0);
    }

    /// Whether these are `count` parts, the last of which ends its string.
    pub fn is_whole(&self, count: u64) -> bool {
        let last = self.list().last();
        self.count.get() as u64 == count && !last.is_some_and(|part| continues(part.get()))
    }

    /// Of buffers: where each string lies that has come, and its length.
    pub fn arrived(&self) -> impl Iterator<Item = StringItem> + '_ {
        let list = self.list();
        let begins = move |n: &usize| *n == 0 || !continues(list[*n - 1].get());
        let firsts = (0..list.len()).filter(begins).map(|n| list[n].get().address);
        let lengths = self.bytes[..self.begun.get() as usize].iter();
        firsts.zip(lengths).map(|(address, bytes)| StringItem { address, length: bytes.get() as u64 })
    }

    fn list(&self) -> &[Cell<StringItem>] {
        &self.items[..self.count.get() as usize]
    }

    /// The present part and the bytes left of it; `None` behind the last.
    fn present(&self) -> Option<(StringItem, u64)> {
        let item = self.list().get(self.at.get() as usize)?.get();
        Some((item, size(item) - self.done.get() as u64))
    }

    fn next_item(&self) {
        self.at.set(self.at.get() + 1);
        self.done.set(0);
    }

    /// To the first part of the next buffer.
    fn next_buffer(&self) {
        self.open.set(false);
        while let Some((part, _)) = self.present() {
            self.next_item();
            if !continues(part) {
                return;
            }
        }
    }

    /// Begins the present buffer, if there is one.
    fn begin(&self) -> bool {
        if !self.open.get() && self.present().is_some() {
            self.open.set(true);
            self.bytes[self.begun.get() as usize].set(0);
            self.begun.set(self.begun.get() + 1);
        }
        self.open.get()
    }
}

/// What a transfer from `strings`, a whole list, to `buffers` copies next: from where to where, and
/// how many bytes, which lie in one page on either side. The same until `moved`. `None`: nothing is
/// left. Error: MessageCut, if the buffers are too small.
pub fn next(strings: &StringItems, buffers: &StringItems) -> Result<Option<(VirtAddr, VirtAddr, u64)>, Error> {
    while let Some((string, left)) = strings.present() {
        Error::MessageCut.when(!buffers.begin())?;
        if left == 0 {
            strings.next_item();
            if !continues(string) {
                buffers.next_buffer();
            }
            continue;
        }
        let (buffer, room) = match buffers.present() {
            Some((buffer, 0)) if continues(buffer) => {
                buffers.next_item();
                continue;
            }
            None | Some((_, 0)) => return Err(Error::MessageCut),
            Some(part) => part,
        };
        let from = VirtAddr::new(string.address + strings.done.get() as u64);
        let to = VirtAddr::new(buffer.address + buffers.done.get() as u64);
        let in_page = PAGE_SIZE - from.offset_in(PAGE_SIZE).max(to.offset_in(PAGE_SIZE));
        return Ok(Some((from, to, left.min(room).min(in_page))));
    }
    Ok(None)
}

/// Notes that `size` bytes of the present step were copied.
pub fn moved(strings: &StringItems, buffers: &StringItems, size: u64) {
    let bytes = &buffers.bytes[buffers.begun.get() as usize - 1];
    for count in [&strings.done, &buffers.done, bytes] {
        count.set(count.get() + size as u32);
    }
}

#[cfg(test)]
#[path = "../../../tests/kernel/strings.rs"]
mod tests;
