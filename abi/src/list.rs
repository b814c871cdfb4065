// SPDX-License-Identifier: BSD-2-Clause
//! A list of bounded length in an array, without a heap; a full list returns an error.

use core::ops::{Deref, Range};

/// A list of at most `N` items; it dereferences to a slice.
#[derive(Clone, Copy, Debug)]
pub struct List<T, const N: usize> {
    pub(crate) items: [T; N],
    pub(crate) used: usize,
}

/// The error that the list is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

impl<T: Copy, const N: usize> List<T, N> {
    /// Returns an empty list; `filler` is never visible.
    pub const fn empty(filler: T) -> List<T, N> {
        List { items: [filler; N], used: 0 }
    }

    /// Appends `item`; `Full` if there is no room.
    pub fn push(&mut self, item: T) -> Result<(), Full> {
        *self.items.get_mut(self.used).ok_or(Full)? = item;
        self.used += 1;
        Ok(())
    }

    /// Puts `items` in the place of the items in `old`; `Full` if there is no room, and the list is
    /// unchanged.
    pub fn replace(&mut self, old: Range<usize>, items: &[T]) -> Result<(), Full> {
        let (end, used) = (old.start + items.len(), self.used - old.len() + items.len());
        if used > N {
            return Err(Full);
        }
        self.items.copy_within(old.end..self.used, end);
        self.items[old.start..end].copy_from_slice(items);
        self.used = used;
        Ok(())
    }
}

impl<T: Copy + Default, const N: usize> Default for List<T, N> {
    fn default() -> List<T, N> {
        List::empty(T::default())
    }
}

impl<T, const N: usize> Deref for List<T, N> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.items[..self.used]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_keep_their_order_and_the_bound_holds() {
        let mut list: List<u32, 4> = List::default();
        for item in [1, 2, 4] {
            list.push(item).unwrap();
        }
        list.replace(2..2, &[3]).unwrap();
        assert_eq!((list.push(5), list.replace(3..4, &[5, 6])), (Err(Full), Err(Full)));
        assert_eq!(&list[..], &[1, 2, 3, 4]);
        list.remove(1, 3);
        assert_eq!(&list[..], &[1, 4]);
        list.replace(0..1, &[5, 6, 7]).unwrap();
        assert_eq!(&list[..], &[5, 6, 7, 4]);
    }
}
