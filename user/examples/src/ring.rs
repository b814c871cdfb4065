// SPDX-License-Identifier: BSD-2-Clause
//! A bounded buffer of bytes, first in, first out.

/// At most `N` bytes.
#[derive(Debug)]
pub struct Ring<const N: usize> {
    bytes: [u8; N],
    first: usize,
    used: usize,
}

impl<const N: usize> Ring<N> {
    /// An empty buffer.
    pub const fn new() -> Ring<N> {
        Ring { bytes: [0; N], first: 0, used: 0 }
    }

    /// The number of bytes in it.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The number of bytes that still fit.
    pub fn room(&self) -> usize {
        N - self.used
    }

    /// Appends all of `bytes`. Panics if there is no room.
    pub fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room());
        let end = self.first + self.used;
        if end + bytes.len() <= N {
            self.bytes[end..][..bytes.len()].copy_from_slice(bytes);
        } else {
            for (index, byte) in bytes.iter().enumerate() {
                self.bytes[(end + index) % N] = *byte;
            }
        }
        self.used += bytes.len();
    }

    /// The oldest bytes in one contiguous piece, at most `most`.
    pub fn front(&mut self, most: usize) -> &[u8] {
        let count = most.min(self.used);
        if self.first + count > N {
            self.bytes.rotate_left(self.first);
            self.first = 0;
        }
        &self.bytes[self.first..][..count]
    }

    /// Removes the `count` oldest bytes. There must be as many.
    pub fn remove(&mut self, count: usize) {
        self.used -= count;
        self.first = if self.used == 0 { 0 } else { (self.first + count) % N };
    }

    /// Moves the oldest bytes to `bytes`, as many as fit, and returns their number.
    pub fn take(&mut self, bytes: &mut [u8]) -> usize {
        let oldest = self.front(bytes.len());
        let count = oldest.len();
        bytes[..count].copy_from_slice(oldest);
        self.remove(count);
        count
    }
}

impl<const N: usize> Default for Ring<N> {
    fn default() -> Ring<N> {
        Ring::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_keep_their_order_around_the_end() {
        let mut ring: Ring<5> = Ring::new();
        let (mut put, mut taken) = (0u8, 0u8);
        for step in 0..50 {
            let count = ring.room().min(1 + step % 4);
            let bytes: Vec<u8> = (put..put + count as u8).collect();
            ring.put(&bytes);
            put += count as u8;
            let mut out = [0; 2];
            let count = match step % 3 {
                0 => {
                    let oldest = ring.front(out.len());
                    let count = oldest.len();
                    out[..count].copy_from_slice(oldest);
                    ring.remove(count);
                    count
                }
                _ => ring.take(&mut out),
            };
            for byte in &out[..count] {
                assert_eq!(*byte, taken);
                taken += 1;
            }
            assert_eq!(ring.used(), (put - taken) as usize);
        }
        assert!(taken > 80);
    }
}
