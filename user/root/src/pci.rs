// SPDX-License-Identifier: BSD-2-Clause
//! Takes from the devices on PCI the right to reach memory, so that what a failed task had begun ends. Its next
//! drivers give it again.

use core::arch::asm;
use keel_l4::sigma0;

/// Configuration mechanism 1: the port for a register's address, and behind it the one for its value.
const ADDRESS: u16 = 0xcf8;
const VALUE: u16 = ADDRESS + 4;
const PORTS_LOG2: u8 = 3;
const ENABLE: u32 = 1 << 31;
/// Functions of all devices on all buses, and of one device.
const FUNCTIONS: u32 = 1 << 16;
const FUNCTIONS_OF_DEVICE: u32 = 8;
const FUNCTION_SHIFT: u32 = 8;
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
    if sigma0::ports(ADDRESS, PORTS_LOG2).is_err() {
        return;
    }
    let mut function = 0;
    while function < FUNCTIONS {
        if read(function, VENDOR) == NO_DEVICE && function % FUNCTIONS_OF_DEVICE == 0 {
            function += FUNCTIONS_OF_DEVICE;
        } else {
            silence_one(function);
            function += 1;
        }
        if function % STRETCH == 0 {
            pause();
        }
    }
}

fn silence_one(function: u32) {
    let command = read(function, COMMAND);
    let is_device = command != NO_DEVICE && read(function, CLASS) >> CLASS_SHIFT != BRIDGE;
    if is_device && command & BUS_MASTER != 0 {
        select(function, COMMAND);
        output(VALUE, command & COMMAND_MASK & !BUS_MASTER);
    }
}

fn read(function: u32, register: u32) -> u32 {
    select(function, register);
    let value;
    // SAFETY: the root task has the port.
    unsafe { asm!("in eax, dx", in("dx") VALUE, out("eax") value, options(nostack, preserves_flags)) };
    value
}

fn select(function: u32, register: u32) {
    output(ADDRESS, ENABLE | function << FUNCTION_SHIFT | register);
}

fn output(port: u16, value: u32) {
    // SAFETY: the root task has the port, and the values are those of this module.
    unsafe { asm!("out dx, eax", in("dx") port, in("eax") value, options(nostack, preserves_flags)) };
}
