// SPDX-License-Identifier: BSD-2-Clause
//! The interface between a task that runs 32-bit code and its parent, whose id its first thread
//! has in esi:edi at its start. Words 0 to 2 of such a thread have 32 bits, so that it cannot use
//! the root task's interface.

use keel_abi::memory::AREA_SMALL_SIZE;

keel_abi::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Address of such a task's kernel area: the first one that its size allows
    SMALL_AREA = AREA_SMALL_SIZE;
    /// Parent's service (label): what the task is to do; answer: w0 = role, w3 = id of its
    /// partner
    SMALL_START = 1;
    /// Parent's service (label): print w0 bytes, at most SMALL_TEXT, which are in the words after
    /// the first six
    SMALL_PRINT = 2;
    /// Bytes that are printed at once
    SMALL_TEXT = 128;
    /// Parent's service (label): the task has ended; w0 = SHUTDOWN_POWER_OFF or SHUTDOWN_PANIC.
    /// There is no answer
    SMALL_EXIT = 3;
}
