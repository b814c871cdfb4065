// SPDX-License-Identifier: BSD-2-Clause
//! What a panic of the µ-kernel tells the emulator. The root task tells the other ends in the same
//! way.

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Shutdown code: the µ-kernel panicked
    SHUTDOWN_KERNEL_PANIC = 0x13;
    /// Port of QEMU's isa-debug-exit device, to which SHUTDOWN_* is written
    DEBUG_EXIT_PORT = 0xf4;
}
