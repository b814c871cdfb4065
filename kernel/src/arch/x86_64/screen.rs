// SPDX-License-Identifier: GPL-2.0-only
//! The screen as the loader left it: a framebuffer, else the PC's text mode. The kernel's console
//! is shown there if the command line has `screen`, and in a panic, when no other processor draws.

use super::{direct, multiboot::Information, paging};
use crate::base::{facts::BOOT_MAPPED, Cell, Global, PhysAddr};
use keel_abi::ranges::Range;

/// Where the text mode has its letters, and how many.
const TEXT: Range = Range::new(0xb_8000, 0xb_8000 + (2 * TEXT_COLUMNS * TEXT_ROWS) as u64);
const TEXT_COLUMNS: usize = 80;
const TEXT_ROWS: usize = 25;
/// The colours of a letter in text mode: white on black.
const TEXT_COLOURS: u16 = 0x0f00;
/// Pixels of a letter, with the space around it, and columns and rows of a glyph, before they are
/// enlarged.
const LETTER: (usize, usize) = (6, 10);
const GLYPH: (usize, usize) = (5, 8);
/// A framebuffer's letters are as large as leaves room for so many in a line.
const COLUMNS: usize = 80;

/// The letters from ' ' to '~': columns from left to right in bytes from the fifth down, whose
/// lowest bit is the top.
#[rustfmt::skip]
const GLYPHS: [u64; 95] = [
    0x0000000000, 0x00005f0000, 0x0007000700, 0x147f147f14, 0x242a7f2a12, 0x2313086462, 0x3649562050, 0x0008070300,
    0x001c224100, 0x0041221c00, 0x2a1c7f1c2a, 0x08083e0808, 0x0080703000, 0x0808080808, 0x0000606000, 0x2010080402,
    0x3e5149453e, 0x00427f4000, 0x7249494946, 0x2141494d33, 0x1814127f10, 0x2745454539, 0x3c4a494931, 0x4121110907,
    0x3649494936, 0x464949291e, 0x0000360000, 0x0000403400, 0x0008142241, 0x1414141414, 0x0041221408, 0x0201590906,
    0x3e415d594e, 0x7c1211127c, 0x7f49494936, 0x3e41414122, 0x7f4141413e, 0x7f49494941, 0x7f09090901, 0x3e41415173,
    0x7f0808087f, 0x00417f4100, 0x2040413f01, 0x7f08142241, 0x7f40404040, 0x7f021c027f, 0x7f0408107f, 0x3e4141413e,
    0x7f09090906, 0x3e4151215e, 0x7f09192946, 0x2649494932, 0x03017f0103, 0x3f4040403f, 0x1f2040201f, 0x3f4038403f,
    0x6314081463, 0x0304780403, 0x6159494d43, 0x007f414100, 0x0204081020, 0x0041417f00, 0x0402010204, 0x4040404040,
    0x0003070800, 0x2054547840, 0x7f28444438, 0x3844444428, 0x384444287f, 0x3854545418, 0x00087e0902, 0x18a4a49c78,
    0x7f08040478, 0x00447d4000, 0x2040403d00, 0x7f10284400, 0x00417f4000, 0x7c04780478, 0x7c08040478, 0x3844444438,
    0xfc18242418, 0x18242418fc, 0x7c08040408, 0x4854545424, 0x04043f4424, 0x3c4040207c, 0x1c2040201c, 0x3c4030403c,
    0x4428102844, 0x4c9090907c, 0x4464544c44, 0x0008364100, 0x0000770000, 0x0041360800, 0x0201020402,
];

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

/// Takes the loader's framebuffer where the boot tables map it, or the kernel's tables can be extended,
/// else the text mode, if that place is not RAM.
pub fn init(loader: &Information) {
    let text = Screen { start: TEXT.start, pitch: 0, pixel: 0, scale: 1, columns: TEXT_COLUMNS, rows: TEXT_ROWS };
    SCREEN.set(match of(&loader.framebuffer) {
        Some((screen, range)) => (range.end <= BOOT_MAPPED || paging::map_screen(range)).then_some(screen),
        None => (!loader.ram.overlaps(TEXT)).then_some(text),
    });
}

/// What a framebuffer's description (`Info` has it) means, and the memory that it takes; `None` if that is nothing.
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
        SCREEN.get().iter().for_each(|screen| (0..screen.rows).for_each(|row| screen.clear(row)));
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
        let glyph = GLYPHS[(letter - b' ') as usize].to_be_bytes();
        let glyph = &glyph[glyph.len() - GLYPH.0..];
        for y in 0..LETTER.1 * self.scale {
            let line = start.wrapping_add((row * LETTER.1 * self.scale + y) * self.pitch);
            for x in 0..LETTER.0 {
                let bits = glyph.get(x).filter(|_| y / self.scale < GLYPH.1);
                let is_lit = bits.is_some_and(|bits| bits >> (y / self.scale) & 1 == 1);
                let place = line.wrapping_add((column * LETTER.0 + x) * self.scale * self.pixel);
                // SAFETY: inside the framebuffer, as `of` has it, which the direct map has. White
                // is all ones in every format.
                unsafe { place.write_bytes(if is_lit { 0xff } else { 0 }, self.scale * self.pixel) };
            }
        }
    }
}
