// SPDX-License-Identifier: BSD-2-Clause
//! The parser of the ELF images that native programs start, of 64 and of 32 bits. It does not trust
//! their headers: it checks every number before it uses it.

use core::fmt;
use keel_abi::acpi::number;
use keel_abi::fpage::{FPAGE_EXEC, FPAGE_READ, FPAGE_WRITE, PAGE_SIZE, UPPER_LAST, USER_END};
use keel_abi::list::List;
use keel_abi::ranges::Range;

/// Loadable segments of one image at most.
pub const MAX_SEGMENTS: usize = 16;
/// Size of the largest image in bytes.
const MAX_IMAGE: u64 = 1 << 30;

/// Where a segment can be: in the lower half, or in the last GB. The last 2 MB of that are left
/// out: the superpage in which an image ends has an end of its own.
const PLACES: [Range; 2] = [Range::new(PAGE_SIZE, USER_END), Range::new(UPPER_LAST, 0xffff_ffff_ffe0_0000)];

const TYPE_EXECUTABLE: u64 = 2;
const SEGMENT_LOAD: u64 = 1;

/// Where a class of ELF files has its fields: offsets and sizes in bytes (ELF specification 1.2,
/// and its draft of 64 bits).
struct Class {
    /// Identification: magic, class, little endian, version 1.
    identification: [u8; 7],
    machine: u64,
    /// Size of an address.
    word: usize,
    header: usize,
    table: usize,
    entry_size: usize,
    program_header: usize,
    flags: usize,
    offset: usize,
    virt: usize,
    in_file: usize,
    in_memory: usize,
}

/// Files of x86-64.
const CLASS_64: Class = Class {
    identification: [0x7f, b'E', b'L', b'F', 2, 1, 1],
    machine: 62,
    word: 8,
    header: 64,
    table: 32,
    entry_size: 54,
    program_header: 56,
    flags: 4,
    offset: 8,
    virt: 16,
    in_file: 32,
    in_memory: 40,
};

/// Files of i386.
const CLASS_32: Class = Class {
    identification: [0x7f, b'E', b'L', b'F', 1, 1, 1],
    machine: 3,
    word: 4,
    header: 52,
    table: 28,
    entry_size: 42,
    program_header: 32,
    flags: 24,
    offset: 4,
    virt: 8,
    in_file: 16,
    in_memory: 20,
};

/// A loadable segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Its addresses in the task.
    pub virt: Range,
    /// The range of its bytes in the file; the rest of the segment is zero.
    pub file: Range,
    /// Its rights.
    pub rights: u64,
}

/// An image.
#[derive(Clone, Copy, Debug, Default)]
pub struct Image {
    /// First instruction.
    pub entry: u64,
    /// Loadable segments, in order of their addresses.
    pub segments: List<Segment, MAX_SEGMENTS>,
}

/// The reason why an image is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// Shorter than its headers say.
    Short,
    /// Not an x86 executable of the class that is asked for.
    NotExecutable,
    /// It has no loadable segment, or too many.
    Segments,
    /// A segment is outside the user's space, too large, or overlaps another one.
    Address,
    /// The entry is not in an executable segment.
    Entry,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ElfError::Short => "it is cut short",
            ElfError::NotExecutable => "it is not an x86 executable, or of another size of addresses",
            ElfError::Segments => "it has no or too many loadable segments",
            ElfError::Address => "a segment's address or size is impossible",
            ElfError::Entry => "its entry is not in an executable segment",
        })
    }
}

/// Returns the little-endian number of `size` bytes at `offset`.
fn field(bytes: &[u8], offset: usize, size: usize) -> Result<u64, ElfError> {
    number(bytes, offset, size).ok_or(ElfError::Short)
}

/// Parses the ELF file `file` of 64 bits.
pub fn parse(file: &[u8]) -> Result<Image, ElfError> {
    parse_class(file, &CLASS_64)
}

/// Parses the ELF file `file` of 32 bits.
pub fn parse_32(file: &[u8]) -> Result<Image, ElfError> {
    parse_class(file, &CLASS_32)
}

fn parse_class(file: &[u8], class: &Class) -> Result<Image, ElfError> {
    if file.len() < class.header {
        return Err(ElfError::Short);
    }
    let executable = file.starts_with(&class.identification)
        && field(file, 16, 2)? == TYPE_EXECUTABLE
        && field(file, 18, 2)? == class.machine
        && field(file, class.entry_size, 2)? == class.program_header as u64;
    if !executable {
        return Err(ElfError::NotExecutable);
    }
    let table = field(file, class.table, class.word)?;
    let mut image = Image { entry: field(file, 24, class.word)?, segments: List::default() };
    for index in 0..field(file, class.entry_size + 2, 2)? {
        let at = table.checked_add(index * class.program_header as u64).ok_or(ElfError::Short)?;
        if let Some(segment) = segment(file, class, at as usize)? {
            let place = image.segments.partition_point(|s| s.virt.start < segment.virt.start);
            image.segments.replace(place..place, &[segment]).map_err(|_| ElfError::Segments)?;
        }
    }
    check(&image)?;
    Ok(image)
}

/// Returns the segment whose program header is at `at`; `None` if it is empty or not loadable.
fn segment(file: &[u8], class: &Class, at: usize) -> Result<Option<Segment>, ElfError> {
    let part = |offset, size| field(file, at.checked_add(offset).ok_or(ElfError::Short)?, size);
    let word = |offset| part(offset, class.word);
    let (kind, flags) = (part(0, 4)?, part(class.flags, 4)?);
    let (offset, virt) = (word(class.offset)?, word(class.virt)?);
    let (in_file, in_memory) = (word(class.in_file)?, word(class.in_memory)?);
    if kind != SEGMENT_LOAD || in_memory == 0 {
        return Ok(None);
    }
    let file_end = offset.checked_add(in_file).filter(|end| *end <= file.len() as u64).ok_or(ElfError::Short)?;
    let virt_end = virt.checked_add(in_memory).ok_or(ElfError::Address)?;
    let possible = PLACES.iter().any(|place| place.contains(Range::new(virt, virt_end)));
    if in_file > in_memory || !possible {
        return Err(ElfError::Address);
    }
    // Flags: execute 1, write 2, read 4.
    let right = |flag: u64, right: u64| if flags & flag != 0 { right } else { 0 };
    let rights = FPAGE_READ | right(1, FPAGE_EXEC) | right(2, FPAGE_WRITE);
    Ok(Some(Segment { virt: Range::new(virt, virt_end), file: Range::new(offset, file_end), rights }))
}

fn check(image: &Image) -> Result<(), ElfError> {
    if image.segments.is_empty() {
        return Err(ElfError::Segments);
    }
    if image.span().size() > MAX_IMAGE || image.segments.windows(2).any(|w| w[0].virt.end > w[1].virt.start) {
        return Err(ElfError::Address);
    }
    let entry = Range::new(image.entry, image.entry.saturating_add(1));
    match image.segments.iter().find(|s| s.virt.contains(entry)) {
        Some(segment) if segment.rights & FPAGE_EXEC != 0 => Ok(()),
        _ => Err(ElfError::Entry),
    }
}

impl Image {
    /// Returns the addresses from the first to the last byte in memory.
    pub fn span(&self) -> Range {
        let start = self.segments.first().map_or(0, |s| s.virt.start);
        Range::new(start, self.segments.iter().map(|s| s.virt.end).max().unwrap_or(start))
    }

    /// Returns true if two segments with different rights share a page.
    pub fn shares_pages(&self) -> bool {
        self.segments
            .windows(2)
            .any(|w| w[0].virt.grow_to(PAGE_SIZE).overlaps(w[1].virt.grow_to(PAGE_SIZE)) && w[0].rights != w[1].rights)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An image with the given segments (flags, offset, address, file size, memory size).
    fn image(entry: u64, segments: &[(u32, u64, u64, u64, u64)]) -> Vec<u8> {
        let mut file = vec![0u8; 0x2000];
        file[..7].copy_from_slice(&CLASS_64.identification);
        file[16] = 2;
        file[18] = 62;
        file[24..32].copy_from_slice(&entry.to_le_bytes());
        file[32] = 64;
        file[54] = 56;
        file[56..58].copy_from_slice(&(segments.len() as u16).to_le_bytes());
        for (index, (flags, offset, virt, in_file, in_memory)) in segments.iter().enumerate() {
            let at = 64 + 56 * index;
            file[at..at + 4].copy_from_slice(&1u32.to_le_bytes());
            file[at + 4..at + 8].copy_from_slice(&flags.to_le_bytes());
            for (place, value) in [(8, offset), (16, virt), (32, in_file), (40, in_memory)] {
                file[at + place..at + place + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
        file
    }

    #[test]
    fn a_good_image_is_read_in_order() {
        let file = image(0x100_0010, &[(6, 0x1000, 0x100_2000, 0x10, 0x3000), (5, 0, 0x100_0000, 0x1000, 0x1000)]);
        let image = parse(&file).unwrap();
        assert_eq!(image.span(), Range::new(0x100_0000, 0x100_5000));
        assert_eq!(image.segments[0].rights, FPAGE_READ | FPAGE_EXEC);
        assert_eq!(image.segments[1].file, Range::new(0x1000, 0x1010));
        assert!(!image.shares_pages());
    }

    #[test]
    fn an_image_in_the_upper_half_is_read() {
        let text = (5, 0, UPPER_LAST, 0x1000, 0x3fe0_0000);
        assert_eq!(parse(&image(UPPER_LAST, &[text])).unwrap().span(), PLACES[1]);
    }

    #[test]
    fn bad_images_are_refused() {
        let text = (5, 0, 0x100_0000, 0x1000, 0x1000);
        let refused = |entry, segments: &[_]| parse(&image(entry, segments)).map(|_| ()).unwrap_err();
        assert_eq!(refused(0x100_0000, &[]), ElfError::Segments);
        assert_eq!(refused(0x100_1000, &[text]), ElfError::Entry);
        assert_eq!(refused(0x100_0000, &[(6, 0, 0x100_0000, 1, 0x1000)]), ElfError::Entry);
        assert_eq!(refused(0x100_0000, &[text, text]), ElfError::Address);
        assert_eq!(refused(0, &[(5, 0, 0, 1, 1)]), ElfError::Address);
        assert_eq!(refused(0, &[(5, 0, u64::MAX, 1, 1)]), ElfError::Address);
        assert_eq!(refused(0, &[(5, 0, USER_END, 1, 1)]), ElfError::Address);
        assert_eq!(refused(0, &[(5, 0, UPPER_LAST - 1, 1, 1)]), ElfError::Address);
        assert_eq!(refused(0, &[(5, 0, u64::MAX - PAGE_SIZE, 1, 2)]), ElfError::Address);
        assert_eq!(refused(0x1000, &[(5, 0, 0x1000, 9, 8)]), ElfError::Address);
        assert_eq!(refused(0x1000, &[(5, 0, 0x1000, 1, 2 << 30)]), ElfError::Address);
        assert_eq!(refused(0x1000, &[(5, u64::MAX, 0x1000, 1, 1)]), ElfError::Short);
        assert_eq!(refused(0x1000, &[(5, 0x1fff, 0x1000, 2, 2)]), ElfError::Short);
        assert_eq!(refused(0x1000, &[(5, 0, 0x1000, 1, 1); 20]), ElfError::Segments);
        assert_eq!(parse(b"\x7fELF").map(|_| ()).unwrap_err(), ElfError::Short);
        assert_eq!(parse(&[0; 4096]).map(|_| ()).unwrap_err(), ElfError::NotExecutable);
    }

    /// An image of 32 bits with one segment, from the first address on.
    fn image_32() -> Vec<u8> {
        let mut file = vec![0u8; 0x2000];
        let header = [(16, 0x3_0002u32), (24, 0x1_0004), (28, 52), (42, 0x1_0020)];
        let segment = [(52, 1u32), (56, 0x1000), (60, 0x1_0000), (68, 0x20), (72, 0x1800), (76, 5)];
        file[..7].copy_from_slice(&CLASS_32.identification);
        for (at, value) in header.into_iter().chain(segment) {
            file[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        file
    }

    #[test]
    fn an_image_of_32_bits_is_read_as_one() {
        let mut file = image_32();
        let Image { entry, segments } = parse_32(&file).unwrap();
        assert_eq!((entry, segments.len()), (0x1_0004, 1));
        assert_eq!(segments[0].virt, Range::new(0x1_0000, 0x1_1800));
        assert_eq!(segments[0].file, Range::new(0x1000, 0x1020));
        assert_eq!(segments[0].rights, FPAGE_READ | FPAGE_EXEC);
        assert_eq!(parse(&file).map(|_| ()).unwrap_err(), ElfError::NotExecutable);
        file[72..76].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(parse_32(&file).map(|_| ()).unwrap_err(), ElfError::Address);
        assert_eq!(parse_32(b"\x7fELF").map(|_| ()).unwrap_err(), ElfError::Short);
        assert_eq!(parse_32(&image(0x100_0010, &[])).map(|_| ()).unwrap_err(), ElfError::NotExecutable);
    }

    #[test]
    fn any_damage_gives_an_answer() {
        let good = image(0x100_0010, &[(5, 0, 0x100_0000, 0x1000, 0x1000), (6, 0x1000, 0x100_2000, 0x10, 0x3000)]);
        damage(&good, 176, parse);
        damage(&image_32(), 84, parse_32);
    }

    /// Reads the file with random bytes among its first ones, which are its headers.
    fn damage(good: &[u8], headers: u64, parse: fn(&[u8]) -> Result<Image, ElfError>) {
        let mut seed = 0x2545_f491_4f6c_dd1du64;
        for _ in 0..50_000 {
            let mut file = good.to_vec();
            for _ in 0..3 {
                seed ^= seed << 13;
                seed ^= seed >> 7;
                seed ^= seed << 17;
                file[(seed % headers) as usize] = (seed >> 32) as u8;
            }
            if let Ok(image) = parse(&file) {
                assert!(PLACES.iter().any(|place| place.contains(image.span())) && image.span().size() <= MAX_IMAGE);
                assert!(image.segments.iter().all(|s| s.file.end <= 0x2000 && s.file.size() <= s.virt.size()));
            }
        }
    }
}
