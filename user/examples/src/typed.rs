// SPDX-License-Identifier: BSD-2-Clause
//! Input of a terminal, line by line. Keys are buffered until a client reads, and echoed only then,
//! so that early input does not mix with the output of programs.

use crate::pipe::Chunk;
use crate::ring::Ring;

/// The longest line, with its newline.
pub const LINE: usize = 80;
/// Keys that are buffered until a client reads; further ones are lost.
const KEYS: usize = 256;

const END: u8 = 0x04;
const BACKSPACE: u8 = 0x08;
const DELETE: u8 = 0x7f;
/// Erases the last character on the screen.
const ERASE: &[u8] = b"\x08 \x08";

/// The keys, and the line that is being typed.
#[derive(Debug)]
pub struct Typed {
    keys: Ring<KEYS>,
    line: [u8; LINE],
    used: usize,
}

impl Typed {
    /// No input.
    pub const fn new() -> Typed {
        Typed { keys: Ring::new(), line: [0; LINE], used: 0 }
    }

    /// A key was pressed.
    pub fn key(&mut self, byte: u8) {
        if self.keys.room() > 0 {
            self.keys.put(&[byte]);
        }
    }

    /// Called when a client reads. Returns what the terminal shows now, and the complete line with
    /// its newline, if there is one; an empty line after Ctrl-D at its beginning.
    pub fn line(&mut self) -> (Chunk, Option<Chunk>) {
        let (mut shown, mut key) = (Chunk::EMPTY, [0]);
        while self.keys.take(&mut key) > 0 {
            match key[0] {
                b'\r' | b'\n' => {
                    shown.add(b"\n");
                    self.line[self.used] = b'\n';
                    return (shown, Some(self.finish(1)));
                }
                END if self.used == 0 => return (shown, Some(self.finish(0))),
                BACKSPACE | DELETE if self.used > 0 => {
                    self.used -= 1;
                    shown.add(ERASE);
                }
                // One byte stays free for the newline.
                byte if !byte.is_ascii_control() && self.used + 1 < LINE => {
                    self.line[self.used] = byte;
                    self.used += 1;
                    shown.add(&key);
                }
                _ => {}
            }
        }
        (shown, None)
    }

    fn finish(&mut self, end: usize) -> Chunk {
        let chunk = Chunk::new(&self.line[..self.used + end]);
        self.used = 0;
        chunk
    }
}

impl Default for Typed {
    fn default() -> Typed {
        Typed::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(typed: &mut Typed) -> (Option<Vec<u8>>, Vec<u8>) {
        let (shown, line) = typed.line();
        (line.map(|chunk| chunk.bytes().to_vec()), shown.bytes().to_vec())
    }

    fn typed(keys: &[u8]) -> Typed {
        let mut typed = Typed::new();
        keys.iter().for_each(|key| typed.key(*key));
        typed
    }

    #[test]
    fn lines_come_one_by_one_and_are_shown_when_they_are_read() {
        let mut typed = typed(b"one\rtwo\nth");
        assert_eq!(read(&mut typed), (Some(b"one\n".to_vec()), b"one\n".to_vec()));
        assert_eq!(read(&mut typed), (Some(b"two\n".to_vec()), b"two\n".to_vec()));
        assert_eq!(read(&mut typed), (None, b"th".to_vec()));
        b"ree\r".iter().for_each(|key| typed.key(*key));
        assert_eq!(read(&mut typed), (Some(b"three\n".to_vec()), b"ree\n".to_vec()));
    }

    #[test]
    fn keys_erase_and_end() {
        assert_eq!(read(&mut typed(b"\x7fab\x08\x7f\x7fc\x1b\x04\r")).0, Some(b"c\n".to_vec()));
        assert_eq!(read(&mut typed(b"a\x7f")).1, b"a\x08 \x08");
        assert_eq!(read(&mut typed(b"\x04")), (Some(Vec::new()), Vec::new()));
        assert_eq!(read(&mut typed(b"\r")).0, Some(b"\n".to_vec()));
    }

    #[test]
    fn too_much_is_lost_but_the_end_is_not() {
        let (line, shown) = read(&mut typed(&[&[b'x'; LINE + 20][..], b"\r"].concat()));
        assert_eq!((line.unwrap().len(), shown.len()), (LINE, LINE));
        let mut typed = typed(&[b'y'; 2 * KEYS]);
        assert_eq!(read(&mut typed).1.len(), LINE - 1);
        typed.key(b'\n');
        assert_eq!(read(&mut typed).0.unwrap().len(), LINE);
    }
}
