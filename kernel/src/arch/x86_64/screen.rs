// SPDX-License-Identifier: GPL-2.0-only
//! The screen as the loader left it: a framebuffer, else the PC's text mode. The kernel's console
//! is shown there if the command line has `screen`, and in a panic, when no other processor draws.

use crate::base::{abi::*, facts::BOOT_MAPPED, *};
use crate::{arch::direct, arch::multiboot::Information, arch::paging};

/// Where the text mode has its letters, and how many.
const TEXT: Range = Range::new(0xb_8000, 0xb_8000 + (2 * TEXT_COLUMNS * TEXT_ROWS) as u64);
const TEXT_COLUMNS: usize = 80;
const TEXT_ROWS: usize = 25;
/// The colours of a letter in text mode: white on black.
const TEXT_COLOURS: u16 = 0x0f00;
/// Pixels of a letter, with the space around it, before they are enlarged.
const LETTER: (usize, usize) = (6, 10);
/// A framebuffer's letters are as large as leaves room for so many in a line.
const COLUMNS: usize = 80;

/// The letters from ' ' to '~' in a picture, so many side by side.
const LETTERS: &[u8] = include_bytes!("letters.txt");
const SIDE_BY_SIDE: usize = 16;
const LINE: usize = SIDE_BY_SIDE * LETTER.0;
const _: () = assert!(LETTERS.len() == 96 / SIDE_BY_SIDE * LETTER.1 * LINE);

/// A screen.
#[derive(Clone, Copy)]
struct Screen {
    start: u64,
    /// Bytes of a line of pixels, and of a pixel; none in text mode.
    pitch: usize,
    pixel: usize,
    /// How much letters are enlarged.
    scale: usize,
    columns: usize,
    rows: usize,
}

/// What is shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// What was there before.
    Nothing,
    /// The console; after the last line the first one is written over.
    Console,
    /// A panic, as far as there is room: the beginning says most.
    Panic,
}

static SCREEN: Global<Cell<Option<Screen>>> = Global::new(Cell::new(None));
static SHOWN: Global<Cell<Shown>> = Global::new(Cell::new(Shown::Nothing));
/// Row and column of the next letter.
static NEXT: Global<Cell<(usize, usize)>> = Global::new(Cell::new((0, 0)));

/// Takes the loader's framebuffer where the boot tables map it, or the kernel's tables can be
/// extended, else the text mode, if that place is not RAM.
pub fn init(loader: &Information) {
    let text = Screen { start: TEXT.start, pitch: 0, pixel: 0, scale: 1, columns: TEXT_COLUMNS, rows: TEXT_ROWS };
    SCREEN.set(match of(&loader.framebuffer) {
        Some((screen, range)) => (range.end <= BOOT_MAPPED || paging::map_screen(range)).then_some(screen),
        None => (!loader.ram.overlaps(TEXT)).then_some(text),
    });
}

/// What a framebuffer's description (`Info` has it) means, and the memory that it takes; `None` if
/// that is nothing.
fn of(&[start, line, size, _]: &[u64; 4]) -> Option<(Screen, Range)> {
    let [pitch, width, height, bits] = [line, line >> 32, size, size >> 32 & 0xff].map(|field| field as u32 as usize);
    let pixel = bits.div_ceil(8);
    let scale = (width / (COLUMNS * LETTER.0)).max(1);
    let (columns, rows) = (width / (LETTER.0 * scale), height / (LETTER.1 * scale));
    let range = Range::new(start, start.checked_add(pitch as u64 * height as u64)?);
    let is_sound = (2..=4).contains(&pixel) && width * pixel <= pitch && columns > 0 && rows > 0 && start != 0;
    is_sound.then_some((Screen { start, pitch, pixel, scale, columns, rows }, range))
}

/// Shows this from now on, in place of whatever is there; a second panic below the first one.
pub fn show(shown: Shown) {
    if SHOWN.replace(shown) != shown {
        NEXT.set((0, 0));
        if let Some(screen) = SCREEN.get() {
            (0..screen.rows).for_each(|row| screen.clear(row));
        }
    }
}

/// Shows a letter of the console.
pub fn put(letter: char) {
    let Some(screen) = SCREEN.get().filter(|_| SHOWN.get() != Shown::Nothing) else { return };
    let (mut row, mut column) = NEXT.get();
    if letter != '\n' && row < screen.rows {
        screen.draw(row, column, letter);
        column += 1;
    }
    if letter == '\n' || column == screen.columns {
        (row, column) = (row + 1, 0);
        if row >= screen.rows && SHOWN.get() == Shown::Console {
            row = 0;
        }
        if row < screen.rows {
            screen.clear(row);
        }
    }
    NEXT.set((row, column));
}

impl Screen {
    fn clear(&self, row: usize) {
        (0..self.columns).for_each(|column| self.draw(row, column, ' '));
    }

    /// Draws a letter at a place on the screen.
    fn draw(&self, row: usize, column: usize, letter: char) {
        let letter = match letter {
            ' '..='~' => letter as u8,
            'µ' => b'u',
            _ => b'?',
        };
        let start = direct(PhysAddr::new(self.start));
        if self.pixel == 0 {
            let place = start.cast::<u16>().wrapping_add(row * self.columns + column);
            // SAFETY: the text mode's memory, which the direct map has.
            return unsafe { place.write_volatile(TEXT_COLOURS | letter as u16) };
        }
        let number = (letter - b' ') as usize;
        let picture = &LETTERS[number / SIDE_BY_SIDE * LETTER.1 * LINE + number % SIDE_BY_SIDE * LETTER.0..];
        for y in 0..LETTER.1 * self.scale {
            let line = start.wrapping_add((row * LETTER.1 * self.scale + y) * self.pitch);
            for x in 0..LETTER.0 {
                let is_lit = picture[y / self.scale * LINE + x] == b'#';
                let place = line.wrapping_add((column * LETTER.0 + x) * self.scale * self.pixel);
                // SAFETY: inside the framebuffer, as `of` has it, which the direct map has. White
                // is all ones in every format.
                unsafe { place.write_bytes(if is_lit { 0xff } else { 0 }, self.scale * self.pixel) };
            }
        }
    }
}
