// SPDX-License-Identifier: BSD-2-Clause
//! Takes from the devices on PCI the right to reach memory, so that what a failed task had begun ends. Its next
//! drivers give it again.

use keel_l4::pci::{self, Function, FUNCTIONS_OF_DEVICE};

/// Functions of all devices on all buses.
const FUNCTIONS: u32 = 1 << 16;
/// Registers, and what is in them.
const VENDOR: u32 = 0;
const NO_DEVICE: u32 = u32::MAX;
const COMMAND: u32 = 4;
const BUS_MASTER: u32 = 1 << 2;
/// The upper half is the status, whose bits a one clears.
const COMMAND_MASK: u32 = 0xffff;
const CLASS: u32 = 8;
const CLASS_SHIFT: u32 = 24;
const BRIDGE: u32 = 6;
/// Functions that are looked at before the next pause.
const STRETCH: u32 = 256;

/// Ends the bus mastering of all devices but bridges; `pause` is called on the way.
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
        if function % STRETCH == 0 {
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
