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
    /// An empty one.
    pub const fn new() -> Ring<N> {
        Ring { bytes: [0; N], first: 0, used: 0 }
    }

    /// How many bytes it holds.
    pub fn used(&self) -> usize {
        self.used
    }

    /// How many more fit.
    pub fn room(&self) -> usize {
        N - self.used
    }

    /// Appends all of `bytes`, for which there must be room.
    pub fn put(&mut self, bytes: &[u8]) {
        assert!(bytes.len() <= self.room());
        for byte in bytes {
            self.bytes[(self.first + self.used) % N] = *byte;
            self.used += 1;
        }
    }

    /// Takes the oldest bytes out, as many as `bytes` has room for, and tells how many those were.
    pub fn take(&mut self, bytes: &mut [u8]) -> usize {
        let count = bytes.len().min(self.used);
        for byte in &mut bytes[..count] {
            *byte = self.bytes[self.first];
            self.first = (self.first + 1) % N;
        }
        self.used -= count;
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
            let count = ring.take(&mut out);
            for byte in &out[..count] {
                assert_eq!(*byte, taken);
                taken += 1;
            }
            assert_eq!(ring.used(), (put - taken) as usize);
        }
        assert!(taken > 80);
    }
}
