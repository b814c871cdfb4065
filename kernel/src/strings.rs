// SPDX-License-Identifier: GPL-2.0-only
//! Strings: the parts that are sent and the parts of buffers, walked in step.
//!
//! A string consists of parts, each but its last marked STRING_CONTINUES; so does a buffer. The n-th string goes into the
//! n-th buffer. Owns the arithmetic and the progress only; transfer.rs does the copying. Lists are copied here before
//! they are used, so that what was checked stays as it is.

use core::cell::Cell;
use keel_abi::call::{MAX_STRINGS, MAX_STRING_BYTES};
use keel_abi::fpage::{PAGE_SIZE, SPACE_SHIFT};
use keel_abi::memory::STRING_CONTINUES;
use keel_abi::StringItem;

/// Parts in a list.
const PARTS: usize = MAX_STRINGS as usize;

/// The strings or buffers of one thread, and how far a transfer has come in them.
pub struct Parts {
    items: [Cell<StringItem>; PARTS],
    count: Cell<u8>,
    /// The present part, and the bytes of it that are done.
    at: Cell<u8>,
    done: Cell<u32>,
    /// Buffers: the present one belongs to the present string.
    open: Cell<bool>,
    /// Buffers: how many were begun, and the bytes in each.
    begun: Cell<u8>,
    bytes: [Cell<u32>; PARTS],
}

/// What a transfer has to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Copy `size` bytes, which lie in one page on either side; then `moved`.
    Copy { from: u64, to: u64, size: u64 },
    /// The buffers are too small.
    Cut,
    /// Nothing is left.
    Done,
}

fn size(item: StringItem) -> u64 {
    item.length & !STRING_CONTINUES
}

fn continues(item: StringItem) -> bool {
    item.length & STRING_CONTINUES != 0
}

fn is_valid(item: &StringItem) -> bool {
    size(*item) <= MAX_STRING_BYTES && item.address <= (1 << SPACE_SHIFT) - size(*item)
}

impl Parts {
    /// An empty list.
    pub const fn new() -> Parts {
        Parts {
            items: [const { Cell::new(StringItem::zeroed()) }; PARTS],
            count: Cell::new(0),
            at: Cell::new(0),
            done: Cell::new(0),
            open: Cell::new(false),
            begun: Cell::new(0),
            bytes: [const { Cell::new(0) }; PARTS],
        }
    }

    /// Takes up to PARTS parts, but none from the first on that is impossible: too long, or not in the user's half.
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

    fn next_part(&self) {
        self.at.set(self.at.get() + 1);
        self.done.set(0);
    }

    /// To the first part of the next buffer.
    fn next_buffer(&self) {
        self.open.set(false);
        while let Some((part, _)) = self.present() {
            self.next_part();
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

/// The next step of a transfer from `strings`, a whole list, to `buffers`. The same until `moved`.
pub fn next(strings: &Parts, buffers: &Parts) -> Step {
    while let Some((string, left)) = strings.present() {
        if !buffers.begin() {
            return Step::Cut;
        }
        if left == 0 {
            strings.next_part();
            if !continues(string) {
                buffers.next_buffer();
            }
            continue;
        }
        let (buffer, room) = match buffers.present() {
            Some((buffer, 0)) if continues(buffer) => {
                buffers.next_part();
                continue;
            }
            None | Some((_, 0)) => return Step::Cut,
            Some(part) => part,
        };
        let from = string.address + strings.done.get() as u64;
        let to = buffer.address + buffers.done.get() as u64;
        let in_page = PAGE_SIZE - (from % PAGE_SIZE).max(to % PAGE_SIZE);
        return Step::Copy { from, to, size: left.min(room).min(in_page) };
    }
    Step::Done
}

/// Notes that `size` bytes of the present step were copied.
pub fn moved(strings: &Parts, buffers: &Parts, size: u64) {
    let bytes = &buffers.bytes[buffers.begun.get() as usize - 1];
    for count in [&strings.done, &buffers.done, bytes] {
        count.set(count.get() + size as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Random parts in [base, base + 64 KB), and the same grouped by string.
    fn random_parts(random: &Random, base: u64, largest: u64) -> (Vec<StringItem>, Vec<Vec<StringItem>>) {
        let count = random.below(PARTS as u64 + 1);
        let (mut list, mut groups, mut group) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..count {
            let length = random.below(largest) * random.below(2);
            let more = number + 1 < count && random.below(3) == 0;
            let part = StringItem { address: base + random.below(0x8000), length };
            list.push(StringItem { length: length | if more { STRING_CONTINUES } else { 0 }, ..part });
            group.push(part);
            if !more {
                groups.push(core::mem::take(&mut group));
            }
        }
        (list, groups)
    }

    fn addresses(parts: &[StringItem]) -> Vec<u64> {
        parts.iter().flat_map(|part| part.address..part.address + part.length).collect()
    }

    /// Every byte of every string goes where a byte by byte model says, in steps within a page, or the message is cut.
    #[test]
    fn agrees_with_a_model_byte_by_byte() {
        let random = Random::new(5);
        let mut cuts = 0;
        for round in 0..3_000 {
            let (list, strings) = random_parts(&random, 0x10_0000, 0x2800);
            let (space, buffers) = random_parts(&random, 0x20_0000, 0x4000);
            let (from, to) = (Parts::new(), Parts::new());
            from.take(list.iter().copied());
            to.take(space.iter().copied());
            assert!(from.is_whole(list.len() as u64));
            let (mut pairs, mut lengths, mut cut) = (Vec::new(), Vec::new(), false);
            for (number, string) in strings.iter().enumerate() {
                let Some(buffer) = buffers.get(number) else {
                    cut = true;
                    break;
                };
                let (bytes, room) = (addresses(string), addresses(buffer));
                pairs.extend(bytes.iter().copied().zip(room.iter().copied()));
                lengths.push(StringItem { address: buffer[0].address, length: bytes.len().min(room.len()) as u64 });
                if bytes.len() > room.len() {
                    cut = true;
                    break;
                }
            }
            let mut copied = Vec::new();
            let end = loop {
                let step = next(&from, &to);
                assert_eq!(step, next(&from, &to), "asking twice changes nothing");
                let Step::Copy { from: source, to: target, size } = step else { break step };
                assert!(size > 0 && source % PAGE_SIZE + size <= PAGE_SIZE && target % PAGE_SIZE + size <= PAGE_SIZE);
                copied.extend((source..source + size).zip(target..target + size));
                moved(&from, &to, size);
            };
            assert_eq!(end, if cut { Step::Cut } else { Step::Done }, "round {round}");
            assert_eq!(copied, pairs, "round {round}");
            assert_eq!(to.arrived().collect::<Vec<_>>(), lengths, "round {round}");
            cuts += cut as u32;
        }
        assert!(cuts > 300 && cuts < 2_700, "both ends were seen: {cuts}");
    }

    #[test]
    fn impossible_parts_end_a_list() {
        let end = 1 << SPACE_SHIFT;
        for (address, length) in [(end, 1), (end - 1, 2), (u64::MAX, 1), (0, MAX_STRING_BYTES + 1), (0, u64::MAX)] {
            let parts = Parts::new();
            parts.take([StringItem { address: 0, length: 8 }, StringItem { address, length }].into_iter());
            assert!(!parts.is_whole(2) && parts.is_whole(1));
        }
        let open = Parts::new();
        open.take([StringItem { address: 0, length: STRING_CONTINUES }].into_iter());
        assert!(!open.is_whole(1));
    }
}
