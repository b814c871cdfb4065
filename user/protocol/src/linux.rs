// SPDX-License-Identifier: BSD-2-Clause
//! The interface of Linux on Keel to processes that use the µ-kernel: options of arch_prctl, and
//! the messages of native lthreads.

keel_abi::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// arch_prctl option of Linux on Keel: sets EX_DISPATCH of the calling thread to the second
    /// argument
    LINUX_PRCTL_DISPATCH = 0x4b45_4c01;
    /// arch_prctl option: native lthreads for the calling process, of one thread; returns their
    /// kernel area's address
    LINUX_PRCTL_AREA = 0x4b45_4c02;
    /// arch_prctl option: the caller is the service thread of the native lthread in the LinuxNative
    /// at the second argument
    LINUX_PRCTL_NATIVE = 0x4b45_4c03;
    /// arch_prctl option: the calling thread's page faults go first to the thread with this id, or
    /// to Linux only (nil)
    LINUX_PRCTL_PAGER = 0x4b45_4c04;
    /// arch_prctl option: where the calling thread's next exec runs its program, LINUX_PLACE_*
    LINUX_PRCTL_PLACE = 0x4b45_4c05;
    /// Where a program runs: where Linux's command line says
    LINUX_PLACE_NAMED = 0;
    /// It is an ordinary process, even if the command line names it
    LINUX_PLACE_PROCESS = 1;
    /// It is in supervisor mode, if Linux is
    LINUX_PLACE_KERNEL = 2;
    /// It is in the server's task; in supervisor mode, if Linux is
    LINUX_PLACE_SERVER = 3;
}

keel_abi::layout! {
    /// Messages between a native lthread and its service thread of Linux (LINUX_PRCTL_NATIVE).
    LinuxNative {
        /// To start an lthread: its instruction pointer, zero on return; zero to answer it and wait
        /// for its next message
        ip: u64,
        /// To start an lthread: its stack pointer
        sp: u64,
        /// To start an lthread: its first argument
        argument: u64,
        /// Returned: the lthread's id
        thread: u64,
        /// Returned: the thread to which the lthread sends messages for its service thread
        server: u64,
        /// Label of the lthread's message, or of the answer
        label: u64,
        /// Words of the message, or of the answer
        words: [u64; 6],
    }
}
