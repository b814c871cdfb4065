// SPDX-License-Identifier: BSD-2-Clause
//! Disables the bus mastering of PCI devices, so that the DMA of a failed task ends. The next
//! driver of a device enables it again.

use keel_l4::pci::{self, Function, FUNCTIONS_OF_DEVICE};

/// Functions of all devices on all buses.
const FUNCTIONS: u32 = 1 << 16;
/// Registers, and their fields.
const VENDOR: u32 = 0;
const NO_DEVICE: u32 = u32::MAX;
const COMMAND: u32 = 4;
const BUS_MASTER: u32 = 1 << 2;
/// The upper half is the status register, where a one clears a bit.
const COMMAND_MASK: u32 = 0xffff;
const CLASS: u32 = 8;
const CLASS_SHIFT: u32 = 24;
const BRIDGE: u32 = 6;
/// Functions between two calls of `pause`.
const CHUNK: u32 = 256;

/// Disables the bus mastering of all devices except bridges. Calls `pause` on the way.
pub fn silence(pause: &mut dyn FnMut()) {
    if pci::claim().is_err() {
        return;
    }
    let mut function = 0;
    while function < FUNCTIONS {
        if Function(function).read(VENDOR) == NO_DEVICE && function % FUNCTIONS_OF_DEVICE == 0 {
            function += FUNCTIONS_OF_DEVICE;
        } else {
            silence_one(Function(function));
            function += 1;
        }
        if function % CHUNK == 0 {
            pause();
        }
    }
}

fn silence_one(function: Function) {
    let command = function.read(COMMAND);
    let is_device = command != NO_DEVICE && function.read(CLASS) >> CLASS_SHIFT != BRIDGE;
    if is_device && command & BUS_MASTER != 0 {
        function.write(COMMAND, command & COMMAND_MASK & !BUS_MASTER);
    }
}
