// SPDX-License-Identifier: BSD-2-Clause
//! How to power the machine off and reset it, by ACPI (ACPI 6.4, 4.8.3, 4.8.4.6, 5.2.9 and 7.4.2).
//!
//! The values of the sleep state S5 are in `_S5_`, an AML object that is a package of numbers in
//! all firmware. So no interpreter is needed: the bytes are searched for the object. All reads are
//! bounds-checked; invalid values count as absent.

use keel_l4::abi::acpi::number;

/// Signatures: of the table with the registers, of the table with AML objects, and of tables with
/// more objects.
pub const FIXED: &[u8; 4] = b"FACP";
/// See [`FIXED`].
pub const OBJECTS: &[u8; 4] = b"DSDT";
/// See [`FIXED`].
pub const MORE_OBJECTS: &[u8; 4] = b"SSDT";
/// Fields of the table with the registers (5.2.9): 4 bytes each, and the later fields that replace
/// them.
const DSDT: usize = 40;
const SMI_COMMAND: usize = 48;
const ACPI_ENABLE: usize = 52;
const CONTROL: [usize; 2] = [64, 68];
const FLAGS: usize = 112;
const RESET_REGISTER: usize = 116;
const RESET_VALUE: usize = 128;
const LONG_DSDT: usize = 140;
const LONG_CONTROL: [usize; 2] = [172, 184];
const SLEEP_CONTROL: usize = 244;
/// Flags: the machine has a reset register; it has no fixed hardware.
const HAS_RESET: u64 = 1 << 10;
const HARDWARE_REDUCED: u64 = 1 << 20;
/// An address structure (5.2.3.2): the address space, and the address.
const SPACE_MEMORY: u64 = 0;
const SPACE_PORTS: u64 = 1;
const ADDRESS: usize = 4;
/// The control register: the sleep type, and the bit that starts the sleep.
const TYPE_SHIFT: u32 = 10;
const BEGIN: u16 = 1 << 13;
/// The sleep control register: sleep type and start bit.
const SHORT_TYPE_SHIFT: u32 = 2;
const SHORT_BEGIN: u8 = 1 << 5;
/// Sleep types have 3 bits.
const TYPE_MASK: u64 = 7;
/// AML (20.2): the name prefix, a package, and constants.
const NAME: u8 = 0x08;
const ROOT_PREFIX: u8 = b'\\';
const PACKAGE: u8 = 0x12;
const ZERO: u8 = 0;
const ONE: u8 = 1;
const BYTE: u8 = 0x0a;
const WORD: u8 = 0x0b;
const LONG: u8 = 0x0c;
const SOFT_OFF: &[u8; 4] = b"_S5_";
/// The number of further length bytes of a package, in the upper bits of the first.
const LENGTH_SHIFT: u32 = 6;

/// The address of a one-byte register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Register {
    /// An I/O port.
    Port(u16),
    /// A physical address.
    Memory(u64),
}

/// A 16-bit control register and its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Control {
    /// Its first port.
    pub port: u16,
    /// The sleep type, shifted to its field.
    pub value: u16,
}

impl Control {
    /// The bits that select and start a sleep.
    pub const MASK: u16 = (TYPE_MASK as u16) << TYPE_SHIFT | BEGIN;
    /// Starts the sleep.
    pub const BEGIN: u16 = BEGIN;
    /// Set while ACPI owns the registers, and not the firmware.
    pub const ENABLED: u16 = 1;
}

/// How the machine is powered off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Off {
    /// By one or two control registers, after a value was written to a port that gives them to
    /// ACPI.
    Control {
        /// The registers.
        registers: [Option<Control>; 2],
        /// The port and the value, if necessary.
        enable: Option<(u16, u8)>,
    },
    /// By this value in the sleep control register.
    Sleep(Register, u8),
}

/// What ACPI says about power off and reset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Power {
    /// How it is powered off.
    pub off: Option<Off>,
    /// The reset register and the value that resets the machine.
    pub reset: Option<(Register, u8)>,
}

impl Power {
    /// Decodes the table with the registers; `types` are the two sleep types of S5.
    pub fn new(fixed: &[u8], types: Option<[u8; 2]>) -> Power {
        Power { off: types.and_then(|types| off(fixed, types)), reset: reset(fixed) }
    }
}

fn off(fixed: &[u8], types: [u8; 2]) -> Option<Off> {
    if number(fixed, FLAGS, 4)? & HARDWARE_REDUCED != 0 {
        return Some(Off::Sleep(register(fixed, SLEEP_CONTROL)?, types[0] << SHORT_TYPE_SHIFT | SHORT_BEGIN));
    }
    let control = |which: usize| {
        let value = (types[which] as u16) << TYPE_SHIFT;
        control_port(fixed, which).map(|port| Control { port, value })
    };
    let registers = [Some(control(0)?), control(1)];
    let command = number(fixed, SMI_COMMAND, 4)?;
    // If either is zero ACPI owns the registers from the start (5.2.9).
    let value = fixed.get(ACPI_ENABLE).copied().filter(|value| *value != 0);
    let enable = u16::try_from(command).ok().filter(|port| *port != 0).zip(value);
    Some(Off::Control { registers, enable })
}

/// The first port of a control register. The later field is used if it exists and is not zero.
fn control_port(fixed: &[u8], which: usize) -> Option<u16> {
    let port = match register(fixed, LONG_CONTROL[which]) {
        Some(Register::Port(port)) => port,
        Some(Register::Memory(_)) => return None,
        None => u16::try_from(number(fixed, CONTROL[which], 4)?).ok()?,
    };
    (port != 0 && port % 2 == 0).then_some(port)
}

fn reset(fixed: &[u8]) -> Option<(Register, u8)> {
    let has = number(fixed, FLAGS, 4)? & HAS_RESET != 0;
    let value = *fixed.get(RESET_VALUE)?;
    register(fixed, RESET_REGISTER).filter(|_| has).map(|register| (register, value))
}

/// The register of the address structure at `at`, if it is supported.
fn register(fixed: &[u8], at: usize) -> Option<Register> {
    let address = number(fixed, at + ADDRESS, 8)?;
    match number(fixed, at, 1)? {
        SPACE_MEMORY if address != 0 => Some(Register::Memory(address)),
        SPACE_PORTS if address != 0 => u16::try_from(address).ok().map(Register::Port),
        _ => None,
    }
}

/// The address of the table with AML objects.
pub fn objects(fixed: &[u8]) -> Option<u64> {
    let long = number(fixed, LONG_DSDT, 8).filter(|address| *address != 0);
    long.or_else(|| number(fixed, DSDT, 4)).filter(|address| *address != 0)
}

/// The two sleep types of S5, if this table has them.
pub fn soft_off(table: &[u8]) -> Option<[u8; 2]> {
    let names = table.windows(SOFT_OFF.len()).enumerate().filter(|(_, window)| *window == SOFT_OFF);
    let is_defined = |at: usize| matches!(table.get(..at), Some([.., NAME] | [.., NAME, ROOT_PREFIX]));
    let mut defined = names.map(|(at, _)| at).filter(|at| is_defined(*at));
    defined.find_map(|at| package(table.get(at + SOFT_OFF.len()..)?))
}

/// The first two numbers of a package.
fn package(bytes: &[u8]) -> Option<[u8; 2]> {
    let (&[PACKAGE, length], _) = bytes.split_first_chunk::<2>()? else { return None };
    // The number of elements follows the length.
    let (&count, mut rest) = bytes.get(2 + (length >> LENGTH_SHIFT) as usize..)?.split_first()?;
    let mut types = [0; 2];
    if (count as usize) < types.len() {
        return None;
    }
    for sleep in &mut types {
        let (&kind, value) = rest.split_first()?;
        let size = match kind {
            ZERO | ONE => 0,
            BYTE => 1,
            WORD => 2,
            LONG => 4,
            _ => return None,
        };
        let found = if size == 0 { kind as u64 } else { number(value, 0, size)? };
        *sleep = u8::try_from(found).ok().filter(|found| *found as u64 <= TYPE_MASK)?;
        rest = value.get(size..)?;
    }
    Some(types)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A table of registers of this length with these fields: offset, size, value.
    fn fixed(length: usize, fields: &[(usize, usize, u64)]) -> Vec<u8> {
        let mut table = vec![0; length];
        for (at, size, value) in fields {
            table[*at..at + size].copy_from_slice(&value.to_le_bytes()[..*size]);
        }
        table
    }

    fn address(at: usize, space: u64, address: u64) -> [(usize, usize, u64); 2] {
        [(at, 1, space), (at + ADDRESS, 8, address)]
    }

    const PORTS: [(usize, usize, u64); 3] = [(SMI_COMMAND, 4, 0xb2), (ACPI_ENABLE, 1, 0xf1), (CONTROL[0], 4, 0x604)];
    const ENABLE: Option<(u16, u8)> = Some((0xb2, 0xf1));

    #[test]
    fn an_early_table_has_ports_and_no_reset_register() {
        let power = Power::new(&fixed(116, &PORTS), Some([5, 6]));
        let first = Some(Control { port: 0x604, value: 5 << 10 });
        assert_eq!(power, Power { off: Some(Off::Control { registers: [first, None], enable: ENABLE }), reset: None });
        assert_eq!(Power::new(&fixed(116, &PORTS), None), Power::default());
        for zero in [(SMI_COMMAND, 4, 0), (ACPI_ENABLE, 1, 0)] {
            let off = Power::new(&fixed(116, &[&PORTS[..], &[zero]].concat()), Some([5, 6])).off;
            assert_eq!(off, Some(Off::Control { registers: [first, None], enable: None }));
        }
    }

    #[test]
    fn later_fields_replace_the_early_ones() {
        let mut fields = [PORTS.to_vec(), vec![(FLAGS, 4, HAS_RESET), (RESET_VALUE, 1, 0xf)]].concat();
        fields.extend(address(LONG_CONTROL[0], SPACE_PORTS, 0x1804));
        fields.extend(address(LONG_CONTROL[1], SPACE_PORTS, 0x1904));
        fields.extend(address(RESET_REGISTER, SPACE_PORTS, 0xcf9));
        let registers = [Control { port: 0x1804, value: 7 << 10 }, Control { port: 0x1904, value: 1 << 10 }].map(Some);
        let power = Power::new(&fixed(276, &fields), Some([7, 1]));
        assert_eq!(power.off, Some(Off::Control { registers, enable: ENABLE }));
        assert_eq!(power.reset, Some((Register::Port(0xcf9), 0xf)));
        fields.push((FLAGS, 4, 0));
        assert_eq!(Power::new(&fixed(276, &fields), None).reset, None);
    }

    #[test]
    fn reduced_hardware_has_a_sleep_control_register() {
        let mut fields = vec![(FLAGS, 4, HAS_RESET | HARDWARE_REDUCED), (RESET_VALUE, 1, 0x42)];
        fields.extend(address(SLEEP_CONTROL, SPACE_MEMORY, 0xfea0_0200));
        fields.extend(address(RESET_REGISTER, SPACE_MEMORY, 0xfea0_0202));
        let power = Power::new(&fixed(276, &fields), Some([5, 5]));
        assert_eq!(power.off, Some(Off::Sleep(Register::Memory(0xfea0_0200), 5 << 2 | 1 << 5)));
        assert_eq!(power.reset, Some((Register::Memory(0xfea0_0202), 0x42)));
        assert_eq!(Power::new(&fixed(276, &[(FLAGS, 4, HARDWARE_REDUCED)]), Some([5, 5])), Power::default());
    }

    #[test]
    fn what_makes_no_sense_is_not_there() {
        // No control register, an odd port, a port that is too large, one in memory; a reset in PCI
        // configuration space.
        for (at, size, value) in [(CONTROL[0], 4, 0), (CONTROL[0], 4, 0x605), (CONTROL[0], 4, 0x1_0604)] {
            let table = fixed(276, &[PORTS.as_slice(), &[(at, size, value)]].concat());
            assert_eq!(Power::new(&table, Some([5, 5])).off, None, "{value:#x}");
        }
        let memory = [PORTS.as_slice(), &address(LONG_CONTROL[0], SPACE_MEMORY, 0xfed0_0000)].concat();
        assert_eq!(Power::new(&fixed(276, &memory), Some([5, 5])).off, None);
        let pci = [&[(FLAGS, 4, HAS_RESET)], address(RESET_REGISTER, 2, 0xcf9).as_slice()].concat();
        assert_eq!(Power::new(&fixed(276, &pci), None).reset, None);
        // Any length, any bytes.
        for length in 0..300 {
            for byte in [0x00, 0x01, 0x80, 0xff] {
                let table = vec![byte; length];
                let _ = (Power::new(&table, Some([7, 7])), objects(&table), soft_off(&table));
            }
        }
    }

    #[test]
    fn the_objects_are_where_the_later_field_says() {
        assert_eq!(objects(&fixed(116, &[(DSDT, 4, 0x7000)])), Some(0x7000));
        assert_eq!(objects(&fixed(276, &[(DSDT, 4, 0x7000)])), Some(0x7000));
        assert_eq!(objects(&fixed(276, &[(DSDT, 4, 0x7000), (LONG_DSDT, 8, 0x1_0000_0000)])), Some(0x1_0000_0000));
        assert_eq!(objects(&fixed(276, &[])), None);
    }

    fn defined(package: &[u8]) -> Vec<u8> {
        [b"\x10\x20\\_SB_".as_slice(), &[NAME], SOFT_OFF, package].concat()
    }

    #[test]
    fn the_types_are_numbers_of_any_size() {
        let forms: [(&[u8], [u8; 2]); 5] = [
            (&[PACKAGE, 6, 4, ZERO, ZERO, ZERO, ZERO], [0, 0]),
            (&[PACKAGE, 7, 4, ONE, BYTE, 5, ZERO], [1, 5]),
            (&[PACKAGE, 0x48, 0, 2, BYTE, 7, BYTE, 7], [7, 7]),
            (&[PACKAGE, 8, 2, WORD, 5, 0, LONG, 6, 0, 0, 0], [5, 6]),
            (&[PACKAGE, 6, 2, BYTE, 5, BYTE, 0], [5, 0]),
        ];
        for (bytes, types) in forms {
            assert_eq!(soft_off(&defined(bytes)), Some(types), "{bytes:?}");
        }
        let root = [&[NAME, ROOT_PREFIX], SOFT_OFF.as_slice(), &[PACKAGE, 6, 2, BYTE, 5, BYTE, 4]].concat();
        assert_eq!(soft_off(&root), Some([5, 4]));
    }

    #[test]
    fn what_is_no_such_package_is_passed_over() {
        let whole = [PACKAGE, 6, 2, BYTE, 5, BYTE, 4];
        for length in 0..whole.len() {
            assert_eq!(soft_off(&defined(&whole[..length])), None, "{length}");
        }
        let bad: [&[u8]; 5] = [
            &[PACKAGE, 4, 1, BYTE, 5, BYTE, 4],
            &[PACKAGE, 6, 2, BYTE, 8, BYTE, 4],
            &[PACKAGE, 6, 2, b'A', b'B', b'C', b'D'],
            &[0x14, 6, 2, BYTE, 5, BYTE, 4],
            &[PACKAGE, 0xff, 2, BYTE, 5, BYTE, 4],
        ];
        for bytes in bad {
            assert_eq!(soft_off(&defined(bytes)), None, "{bytes:?}");
            assert_eq!(soft_off(&[defined(bytes), defined(&whole)].concat()), Some([5, 4]), "{bytes:?}");
        }
        // A use of the name is not its definition.
        assert_eq!(soft_off(&[b"\x70".as_slice(), SOFT_OFF, &whole].concat()), None);
    }
}
