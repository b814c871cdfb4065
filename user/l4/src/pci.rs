// SPDX-License-Identifier: BSD-2-Clause
//! The PCI configuration registers, by mechanism 1 (PCI Local Bus Specification 3.0, 3.2.2.3.2).
//! Several programs may have the two ports. The caller must know that no other program accesses
//! them at the same time, because an access is two port accesses.

use crate::call::Failure;
use crate::device::{input_long, output_long};
use crate::sigma0;

/// The port for a register's address, and after it the port for its value.
const ADDRESS: u16 = 0xcf8;
const VALUE: u16 = ADDRESS + 4;
const PORTS_LOG2: u8 = 3;
const ENABLE: u32 = 1 << 31;
const FUNCTION_SHIFT: u32 = 8;
/// Functions of one device.
pub const FUNCTIONS_OF_DEVICE: u32 = 8;

/// Asks sigma0 for the ports. Without them the functions below fault.
pub fn claim() -> Result<(), Failure> {
    sigma0::ports(ADDRESS, PORTS_LOG2).map(|_| ())
}

/// A function of a device, by number: the bus in bits 15:8, the device in 7:3, the function in 2:0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Function(pub u32);

impl Function {
    /// Reads the 4 bytes of configuration at `register`, a multiple of 4 below 256. All ones if the
    /// function does not exist.
    pub fn read(self, register: u32) -> u32 {
        self.select(register);
        input_long(VALUE)
    }

    /// Writes the 4 bytes of configuration at `register`.
    pub fn write(self, register: u32, value: u32) {
        self.select(register);
        output_long(VALUE, value);
    }

    fn select(self, register: u32) {
        output_long(ADDRESS, ENABLE | self.0 << FUNCTION_SHIFT | register);
    }
}
