// SPDX-License-Identifier: BSD-2-Clause
//! The interface between the root task and the tasks that it starts: the start record and the root
//! task's services.

pub use keel_abi::panic::{DEBUG_EXIT_PORT, SHUTDOWN_KERNEL_PANIC};

keel_abi::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Magic number of a start record: "KEELBOOT"
    START_MAGIC = 0x544f_4f42_4c45_454b;
    /// Memory regions that a start record can hold
    START_REGIONS = 16;
    /// Bytes of the command line, zero byte included
    START_COMMAND_LINE = 2048;
    /// GSIs that a start record can hold
    START_IRQS = 32;
    /// Base of the direct map: physical address p is mapped at DIRECT_MAP + p
    DIRECT_MAP = 0xffff_d000_0000_0000;
    /// Root service (label): print w0 bytes, which are in w1 to w5
    ROOT_PRINT = 1;
    /// Root service (label): shut the machine down; w0 = SHUTDOWN_*
    ROOT_SHUTDOWN = 2;
    /// Shutdown code: power off
    SHUTDOWN_POWER_OFF = 0x10;
    /// Shutdown code: reboot
    SHUTDOWN_REBOOT = 0x11;
    /// Shutdown code: the server panicked (native tasks run on unless boot.conf says otherwise)
    SHUTDOWN_PANIC = 0x12;
    /// Shutdown code: the boot configuration has an error
    SHUTDOWN_BAD_CONFIG = 0x14;
    /// Shutdown code: a test suite passed
    SHUTDOWN_TESTS_PASSED = 0x20;
    /// Shutdown code: a test suite failed
    SHUTDOWN_TESTS_FAILED = 0x21;
    /// Log2 of the number of DEBUG_EXIT_PORT's ports
    EXIT_PORTS_LOG2 = 2;
}

/// Root service (label): restart a server of lower priority; w0 = number of its task.
/// It is for native tasks only, so it is not in the C header.
pub const ROOT_RESTART: u64 = 3;

keel_abi::layout! {
    /// Start record: the first lthread of a server gets its address in rdi.
    Start {
        /// START_MAGIC
        magic: u64,
        /// Id of the root task's service thread
        root: u64,
        /// Virtual address of the kernel area
        area: u64,
        /// Physical address of the first byte of the server's image
        image_phys: u64,
        /// Virtual address of that byte
        image_virt: u64,
        /// Size of the image in memory in bytes
        image_size: u64,
        /// Physical address of the initial RAM disk, or 0
        initrd_phys: u64,
        /// Its size in bytes
        initrd_size: u64,
        /// First task number that the server may create
        task_first: u64,
        /// Log2 of the count of such numbers
        task_log2: u64,
        /// Priority of the server's first lthread; the server may use priorities up to this plus 2
        priority: u64,
        /// Number of processors that the server may use, from number 0 on: at least 1, and all of
        /// them exist
        processors: u64,
        /// Number of memory regions
        region_count: u64,
        /// Memory regions (all mapped at DIRECT_MAP + physical address): start, end, kind each
        regions: [u64; 48],
        /// Number of GSIs that the server owns
        irq_count: u64,
        /// The GSIs
        irqs: [u64; 32],
        /// Command line, zero-terminated
        command_line: [u64; 256],
    }
}

const _: () = assert!(core::mem::size_of::<Start>() <= 4096);
