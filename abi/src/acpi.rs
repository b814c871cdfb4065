// SPDX-License-Identifier: BSD-2-Clause
//! Finds tables of the firmware (ACPI 6.4, 5.2). All reads are bounded; a table that is malformed
//! counts as missing.

/// Reads a number of bytes at a physical address; `None` if they cannot be read.
pub type Reader<'r, 'a> = &'r mut dyn FnMut(u64, usize) -> Option<&'a [u8]>;

/// Size of the root pointer in bytes, version 1.
pub const ROOT_POINTER: usize = 20;
/// Size of the root pointer in bytes, from version 2 on.
pub const LONG_ROOT_POINTER: usize = 36;
/// Offsets in the root pointer: its version, and the addresses of the list of all tables (RSDT,
/// XSDT).
const REVISION: usize = 15;
const SHORT_LIST: usize = 16;
const LONG_LIST: usize = 24;
/// The first version with an XSDT, a list of 8-byte addresses.
const LONG_REVISION: u8 = 2;
/// Size of the header of each table, and offset of the table's length in it.
const HEADER: usize = 36;
const LENGTH: usize = 4;
/// Size of the longest table that is accepted.
const MOST_BYTES: usize = 1 << 20;

/// Returns the little-endian number of `size` bytes (8 at most) at `at`.
pub fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    Some(bytes.get(at..at.checked_add(size)?)?.iter().rev().fold(0, |number, byte| number << 8 | *byte as u64))
}

/// Calls `wanted` with each table of this signature in the root pointer's list, and returns its
/// first result.
pub fn find_map<'a, T>(
    root_pointer: u64,
    signature: &[u8; 4],
    read: Reader<'_, 'a>,
    mut wanted: impl FnMut(&'a [u8]) -> Option<T>,
) -> Option<T> {
    let short = read(root_pointer, ROOT_POINTER)?;
    let (list, name, step) = if short[REVISION] >= LONG_REVISION {
        (number(read(root_pointer, LONG_ROOT_POINTER)?, LONG_LIST, 8)?, b"XSDT", 8)
    } else {
        (number(short, SHORT_LIST, 4)?, b"RSDT", 4)
    };
    let list = table(list, name, read)?;
    let mut addresses = (HEADER..list.len()).step_by(step).filter_map(|at| number(list, at, step));
    addresses.find_map(|address| wanted(table(address, signature, read)?))
}

/// Returns the whole table at `physical` if it has this signature and its checksum is correct.
pub fn table<'a>(physical: u64, signature: &[u8; 4], read: Reader<'_, 'a>) -> Option<&'a [u8]> {
    let header = read(physical, HEADER).filter(|header| header.starts_with(signature))?;
    let length = Some(number(header, LENGTH, 4)? as usize).filter(|length| (HEADER..=MOST_BYTES).contains(length))?;
    read(physical, length).filter(|table| sums_to_zero(table))
}

/// Returns true if the checksum of a structure of the firmware is correct: its bytes add up to
/// zero.
pub fn sums_to_zero(bytes: &[u8]) -> bool {
    bytes.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: u64 = 0xe_0000;

    fn summed(signature: &[u8; 4], body: &[u8]) -> Vec<u8> {
        let mut table = vec![0; HEADER];
        table[..4].copy_from_slice(signature);
        table[LENGTH..LENGTH + 4].copy_from_slice(&((HEADER + body.len()) as u32).to_le_bytes());
        table.extend(body);
        table[9] = table.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
        table
    }

    /// Root pointer, list, and two tables, each in 256 bytes of its own.
    fn firmware(is_long: bool) -> Vec<u8> {
        let (addresses, name) = ([AT + 0x200, AT + 0x300], if is_long { b"XSDT" } else { b"RSDT" });
        let list: Vec<u8> = match is_long {
            true => addresses.iter().flat_map(|address| address.to_le_bytes()).collect(),
            false => addresses.iter().flat_map(|address| (*address as u32).to_le_bytes()).collect(),
        };
        let mut memory = vec![0; 0x400];
        let pointer = (AT + 0x100).to_le_bytes();
        if is_long {
            memory[REVISION] = LONG_REVISION;
            memory[LONG_LIST..LONG_LIST + 8].copy_from_slice(&pointer);
        } else {
            memory[SHORT_LIST..SHORT_LIST + 4].copy_from_slice(&pointer[..4]);
        }
        for (at, table) in
            [(0x100, summed(name, &list)), (0x200, summed(b"APIC", b"a")), (0x300, summed(b"DMAR", b"body"))]
        {
            memory[at..at + table.len()].copy_from_slice(&table);
        }
        memory
    }

    fn found<'a>(memory: &'a [u8], signature: &[u8; 4]) -> Option<&'a [u8]> {
        let mut read = |at: u64, length: usize| memory.get(at.checked_sub(AT)? as usize..)?.get(..length);
        find_map(AT, signature, &mut read, Some)
    }

    #[test]
    fn a_table_is_found_by_both_kinds_of_root_pointer() {
        for is_long in [false, true] {
            let memory = firmware(is_long);
            assert_eq!(found(&memory, b"DMAR").map(|table| &table[HEADER..]), Some(&b"body"[..]));
            assert_eq!(found(&memory, b"HPET"), None);
        }
    }

    #[test]
    fn each_table_is_asked_for_until_one_has_what_is_wanted() {
        let mut memory = firmware(true);
        for at in [0x200, 0x300] {
            memory[at..at + 4].copy_from_slice(b"SSDT");
            memory[at + 9] = 0;
            let length = u32::from_le_bytes(memory[at + LENGTH..at + LENGTH + 4].try_into().unwrap()) as usize;
            memory[at + 9] = memory[at..at + length].iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
        }
        let mut read = |at: u64, length: usize| memory.get(at.checked_sub(AT)? as usize..)?.get(..length);
        let long = |table: &[u8]| (table.len() > HEADER + 1).then_some(table.len());
        assert_eq!(find_map(AT, b"SSDT", &mut read, long), Some(HEADER + 4));
        assert_eq!(find_map(AT, b"SSDT", &mut read, |_| None::<()>), None);
        assert_eq!(table(AT + 0x300, b"SSDT", &mut read).map(<[u8]>::len), Some(HEADER + 4));
        assert_eq!(table(AT + 0x300, b"DSDT", &mut read), None);
    }

    #[test]
    fn a_broken_table_is_none_and_does_not_hide_the_others() {
        for length in [0u32, 35, 1 << 30, u32::MAX] {
            let mut memory = firmware(true);
            memory[0x200 + LENGTH..0x200 + LENGTH + 4].copy_from_slice(&length.to_le_bytes());
            assert!(found(&memory, b"APIC").is_none() && found(&memory, b"DMAR").is_some(), "{length}");
        }
        for at in [0x100, 0x300] {
            let mut memory = firmware(true);
            memory[at + 20] ^= 1;
            assert!(found(&memory, b"DMAR").is_none());
        }
        assert!(found(&[], b"DMAR").is_none());
    }
}
