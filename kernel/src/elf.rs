// SPDX-License-Identifier: GPL-2.0-only
//! Reads the two ELF images that the kernel starts itself, sigma0 and the root task. Boot files are
//! input like any other: everything is checked before it is used.

/// A program header's size.
const HEADER_SIZE: usize = 56;
/// Segments that an image may have.
const MAX_SEGMENTS: u16 = 16;
/// Loadable segment.
const PT_LOAD: u32 = 1;

/// A checked image.
pub struct File<'a> {
    image: &'a [u8],
    headers: usize,
    count: u16,
    /// First instruction.
    pub entry: u64,
}

/// A loadable segment.
pub struct Segment<'a> {
    /// Where it goes.
    pub address: u64,
    /// Its size in memory; what `content` does not fill is zero.
    pub size: usize,
    /// What the file holds of it.
    pub content: &'a [u8],
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

/// Checks an image all of whose segments must lie in [low, high).
pub fn parse(image: &[u8], low: u64, high: u64) -> Result<File<'_>, &'static str> {
    const CLASS_64_LITTLE: &[u8] = &[0x7f, b'E', b'L', b'F', 2, 1, 1];
    const MACHINE_X86_64: u16 = 62;
    const TYPE_EXECUTABLE: u16 = 2;
    if !image.starts_with(CLASS_64_LITTLE) || u16_at(image, 18) != Some(MACHINE_X86_64) {
        return Err("not an ELF file for x86-64");
    }
    if u16_at(image, 16) != Some(TYPE_EXECUTABLE) || u16_at(image, 54) != Some(HEADER_SIZE as u16) {
        return Err("not a static executable");
    }
    let (Some(entry), Some(headers), Some(count)) = (u64_at(image, 24), u64_at(image, 32), u16_at(image, 56)) else {
        return Err("cut short");
    };
    let headers = usize::try_from(headers).map_err(|_| "program headers outside the file")?;
    if count == 0 || count > MAX_SEGMENTS {
        return Err("no segments, or too many");
    }
    for index in 0..count {
        let header = header(image, headers, index).ok_or("program headers outside the file")?;
        if u32_at(header, 0) == Some(PT_LOAD) {
            let segment = segment(image, header).ok_or("a segment outside the file")?;
            let end = segment.address.checked_add(segment.size as u64).ok_or("a segment outside its place")?;
            if segment.address < low || end > high {
                return Err("a segment outside its place");
            }
        }
    }
    if !(low..high).contains(&entry) {
        return Err("its entry lies outside its place");
    }
    Ok(File { image, headers, count, entry })
}

fn header(image: &[u8], headers: usize, index: u16) -> Option<&[u8]> {
    let at = headers.checked_add(index as usize * HEADER_SIZE)?;
    image.get(at..at.checked_add(HEADER_SIZE)?)
}

fn segment<'a>(image: &'a [u8], header: &[u8]) -> Option<Segment<'a>> {
    let (offset, address) = (u64_at(header, 8)? as usize, u64_at(header, 16)?);
    let (in_file, size) = (u64_at(header, 32)? as usize, u64_at(header, 40)? as usize);
    let content = image.get(offset..offset.checked_add(in_file)?)?;
    (in_file <= size).then_some(Segment { address, size, content })
}

impl<'a> File<'a> {
    /// The loadable segments.
    pub fn segments(&self) -> impl Iterator<Item = Segment<'a>> + '_ {
        (0..self.count)
            .filter_map(|index| header(self.image, self.headers, index))
            .filter(|header| u32_at(header, 0) == Some(PT_LOAD))
            .filter_map(|header| segment(self.image, header))
    }
}

#[cfg(test)]
#[path = "../../tests/kernel/elf.rs"]
mod tests;
