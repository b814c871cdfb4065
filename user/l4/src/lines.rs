// SPDX-License-Identifier: BSD-2-Clause
//! Separates the output of tasks: buffers what each task prints and writes whole lines.

/// Longest line that is not split.
const LINE_BYTES: usize = 256;
/// Tasks whose lines are buffered at the same time.
const TASKS: usize = 20;

#[derive(Clone, Copy)]
struct Line {
    task: u32,
    used: usize,
    bytes: [u8; LINE_BYTES],
}

/// The unfinished lines.
pub struct Lines {
    lines: [Line; TASKS],
}

impl Lines {
    /// An empty buffer.
    pub const fn new() -> Lines {
        Lines { lines: [Line { task: 0, used: 0, bytes: [0; LINE_BYTES] }; TASKS] }
    }

    /// Adds `text` of task `task`. Passes each line that ends, or becomes too long, to `write`.
    pub fn add(&mut self, task: u32, text: &[u8], mut write: impl FnMut(&[u8])) {
        let own = self.lines.iter().position(|l| l.used > 0 && l.task == task);
        let Some(index) = own.or_else(|| self.lines.iter().position(|l| l.used == 0)) else {
            // More tasks than buffers: mixed output is better than none.
            return write(text);
        };
        let line = &mut self.lines[index];
        line.task = task;
        for byte in text {
            line.bytes[line.used] = *byte;
            line.used += 1;
            if *byte == b'\n' || line.used == LINE_BYTES {
                write(&line.bytes[..line.used]);
                line.used = 0;
            }
        }
    }

    /// Passes all unfinished lines to `write`, each with a newline.
    pub fn flush(&mut self, mut write: impl FnMut(&[u8])) {
        for line in self.lines.iter_mut().filter(|l| l.used > 0) {
            write(&line.bytes[..line.used]);
            write(b"\n");
            line.used = 0;
        }
    }
}

impl Default for Lines {
    fn default() -> Lines {
        Lines::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_do_not_mix() {
        let mut lines = Lines::new();
        let mut out = Vec::new();
        for (task, text) in [(3, "one "), (4, "two\nth"), (3, "and\n"), (4, "ree\n"), (5, "rest")] {
            lines.add(task, text.as_bytes(), |b| out.extend_from_slice(b));
        }
        lines.flush(|b| out.extend_from_slice(b));
        assert_eq!(String::from_utf8(out).unwrap(), "two\none and\nthree\nrest\n");
    }

    #[test]
    fn nothing_is_lost() {
        let mut lines = Lines::new();
        let mut count = 0;
        for task in 0..100 {
            lines.add(task, &[b'x'; 300], |b| count += b.len());
        }
        lines.flush(|b| count += b.iter().filter(|c| **c == b'x').count());
        // A flush ends each line; the newlines are counted separately.
        assert_eq!(count, 100 * 300);
    }
}
