// SPDX-License-Identifier: BSD-2-Clause
//! Structures in memory that kernel and user share: UTCB, frame, kernel interface page (KIP).
//!
//! They are in the *kernel area*, a part of a task's space whose base the task's creator chooses:
//! the KIP, then the UTCBs by lthread number, then the frame window.

use crate::call::REGISTER_WORDS;
use crate::word::Word;

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Base of the kernel area of the root task's tasks
    AREA_DEFAULT = 0x6000_0000_0000;
    /// Size and alignment of a kernel area
    AREA_SIZE = 1 << 30;
    /// Size and alignment of a kernel area below 4 GB that is no multiple of AREA_SIZE: of a task
    /// with 32-bit threads. It has UTCBs of 511 lthreads, and no frame window
    AREA_SMALL_SIZE = 1 << 21;
    /// Offset of the kernel interface page (KIP)
    AREA_KIP = 0;
    /// Offset of the UTCB of lthread 0; the others follow, one page each
    AREA_UTCBS = 0x1000;
    /// Offset of the frame window
    AREA_FRAMES = 1 << 29;
    /// UTCBs that fit before the frame window
    AREA_MAX_UTCBS = 0x1_0000;
    /// Size of a frame in bytes
    FRAME_SIZE = 256;
    /// Frames in a page
    FRAMES_PER_PAGE = 16;
    /// Frame pages that fit into the window
    AREA_FRAME_PAGES = 1 << 17;

    /// Grant bit of a map item's send base: the sender loses the page
    MAP_GRANT = 1;
    /// Bit of the length of a string or buffer item: the next item continues it
    STRING_CONTINUES = 1 << 63;
    /// Ranges of fpage_unmap at most in one call
    MAX_RANGES = 128;

    /// lthread_ex_regs: set ip
    EX_IP = 1;
    /// lthread_ex_regs: set sp
    EX_SP = 1 << 1;
    /// lthread_ex_regs: set the pager
    EX_PAGER = 1 << 2;
    /// lthread_ex_regs: set the exception handler
    EX_HANDLER = 1 << 3;
    /// lthread_ex_regs: set the preempter
    EX_PREEMPTER = 1 << 4;
    /// lthread_ex_regs: create the lthread (refused if it exists); it does not run yet
    EX_CREATE = 1 << 5;
    /// lthread_ex_regs: delete it
    EX_DELETE = 1 << 6;
    /// lthread_ex_regs: with EX_CREATE, an alien thread (no UTCB; needs EX_FRAME)
    EX_ALIEN = 1 << 7;
    /// lthread_ex_regs: bind the frame (FRAME_NONE unbinds; the thread must be stopped or waiting
    /// for its handler)
    EX_FRAME = 1 << 8;
    /// lthread_ex_regs: trigger an exception; it stays pending until the thread next runs in user
    /// mode
    EX_TRIGGER = 1 << 9;
    /// lthread_ex_regs: cancel or abort an ipc
    EX_CANCEL = 1 << 10;
    /// lthread_ex_regs: start it; an alien thread starts with its frame
    EX_START = 1 << 11;
    /// lthread_ex_regs: copy the FPU state to the buffer (XSAVE layout, non-compacted)
    EX_FPU_GET = 1 << 12;
    /// lthread_ex_regs: set the FPU state from the buffer
    EX_FPU_SET = 1 << 13;
    /// lthread_ex_regs: read the debug registers
    EX_DEBUG_GET = 1 << 14;
    /// lthread_ex_regs: write the debug registers
    EX_DEBUG_SET = 1 << 15;
    /// lthread_ex_regs: write the three thread-local descriptors
    EX_TLS = 1 << 16;
    /// lthread_ex_regs: set rdi of a native thread to `argument`
    EX_ARGUMENT = 1 << 17;
    /// lthread_ex_regs: set what becomes of the thread's system calls (DISPATCH_*, or an
    /// entry's address)
    EX_DISPATCH = 1 << 18;
    /// lthread_ex_regs: set the initial FPU state, after EX_FPU_GET and EX_FPU_SET
    EX_FPU_RESET = 1 << 19;
    /// lthread_ex_regs: from now on the native thread has no FPU state of its own, and uses that of
    /// the alien thread that it handles
    EX_FPU_BORROW = 1 << 20;
    /// lthread_ex_regs: every bit that has a meaning
    EX_ALL = (1 << 21) - 1;

    /// Debug register 7 in the record: RDTSC and RDTSCP fault in user mode (CR4.TSD)
    DEBUG_NO_TSC = 1 << 32;

    /// Magic number of the KIP: "KEEL-L4\0"
    KIP_MAGIC = 0x0034_4c2d_4c45_454b;
    /// Version of this interface
    KIP_VERSION = 3;
    /// Memory regions that the KIP can hold
    KIP_REGIONS = 64;
    /// Boot modules that the KIP can hold
    KIP_MODULES = 32;
    /// Memory region type: free RAM
    REGION_FREE = 1;
    /// Memory region type: the kernel's own
    REGION_KERNEL = 2;
    /// Memory region type: a boot module
    REGION_MODULE = 3;
    /// Memory region type: firmware tables
    REGION_FIRMWARE = 4;
    /// Processor feature: FSGSBASE instructions
    FEATURE_FSGSBASE = 1;
    /// Processor feature: the TSC counts at a constant rate
    FEATURE_CONSTANT_TSC = 2;
    /// Feature: TLB entries have a PCID and stay valid when the address space changes
    FEATURE_PCID = 4;
    /// Processor feature: segments have limits, without which windows protect nothing
    FEATURE_SEGMENT_LIMITS = 8;
}

crate::layout! {
    /// A map item: the place in the receiver's window, and the fpage.
    MapItem {
        /// Send base (the hot spot) | MAP_GRANT
        send_base: u64,
        /// The fpage in the sender's space; zero in a received item that was refused
        fpage: u64,
    }

    /// A string item or a buffer item.
    StringItem {
        /// Address
        address: u64,
        /// Length in bytes | STRING_CONTINUES
        length: u64,
    }

    /// The record of lthread_ex_regs; the call exchanges: on return it has the old values.
    ExRegs as SharedExRegs {
        /// Instruction pointer
        ip: u64,
        /// Stack pointer
        sp: u64,
        /// Pager's id
        pager: u64,
        /// Exception handler's id
        handler: u64,
        /// Preempter's id | PREEMPTER_EVERY
        preempter: u64,
        /// Index of the frame in the chief's window
        frame: u64,
        /// Address of the FPU buffer in the caller's space, 64-byte aligned, mapped writable
        fpu: u64,
        /// Size of the FPU buffer in bytes; on return the number of bytes that were copied
        fpu_size: u64,
        /// Debug registers 0 to 3, 6, 7
        debug: [u64; 6],
        /// Thread-local descriptors 12 to 14 of the descriptor table
        tls: [u64; 3],
        /// First argument of a new native thread (rdi)
        argument: u64,
        /// What becomes of the thread's system calls: DISPATCH_*, or an entry's address
        dispatch: u64,
        /// Returned: state (STATE_*)
        state: u64,
    }

    /// User thread control block: a page in the kernel area, read and written by kernel and user.
    Utcb as SharedUtcb {
        /// Its own address
        address: u64,
        /// The thread's id, for the thread to read
        id: u64,
        /// Send timeout
        send_timeout: u64,
        /// Receive timeout
        receive_timeout: u64,
        /// Timeout of each page fault in a receiver of this thread's strings: 0, TIME_NEVER or a
        /// time
        send_fault_timeout: u64,
        /// Timeout of each page fault in a sender of strings to this thread: likewise
        receive_fault_timeout: u64,
        /// Fpage in which map items are accepted
        receive_fpage: u64,
        /// Virtual sender of the next message; on receipt of a message with TAG_PROPAGATED the real
        /// sender
        virtual_sender: u64,
        /// Number of buffer items that are offered in `buffers`
        buffer_count: u64,
        /// On receipt of a message with TAG_REDIRECTED: the thread that it was for
        destination: u64,
        /// Zero
        spare: [u64; 6],
        /// Map items sent or received
        maps: [u64; 64],
        /// String items to send; on receipt the address and the length of each string
        strings: [u64; 16],
        /// Buffer items
        buffers: [u64; 16],
        /// Zero
        reserved: [u64; 16],
        /// Message words; the first REGISTER_WORDS travel in registers
        words: [u64; 128],
        /// Record of lthread_ex_regs, or ranges of fpage_unmap
        record: [u64; 256],
    }

    /// Register frame of an alien thread, and the registers in an exception message.
    Frame as SharedFrame {
        /// Not used: keeps the processor's frame 16-byte aligned
        spare: u64,
        /// r15
        r15: u64,
        /// r14
        r14: u64,
        /// r13
        r13: u64,
        /// r12
        r12: u64,
        /// rbp
        bp: u64,
        /// rbx
        bx: u64,
        /// r11
        r11: u64,
        /// r10
        r10: u64,
        /// r9
        r9: u64,
        /// r8
        r8: u64,
        /// rax
        ax: u64,
        /// rcx
        cx: u64,
        /// rdx
        dx: u64,
        /// rsi
        si: u64,
        /// rdi
        di: u64,
        /// rax at a system call; all ones after a fault or an interrupt
        orig_ax: u64,
        /// rip
        ip: u64,
        /// cs: 0x33 or 0x23
        cs: u64,
        /// rflags
        flags: u64,
        /// rsp
        sp: u64,
        /// ss: 0x2b
        ss: u64,
        /// Vector of the last exception
        vector: u64,
        /// Error code of the last exception
        error_code: u64,
        /// Fault address of the last page fault
        cr2: u64,
        /// fs base
        fs_base: u64,
        /// gs base
        gs_base: u64,
        /// ds, es, fs, gs selectors, 16 bits each from bit 0 on
        segments: u64,
        /// dr6 of the last debug exception
        dr6: u64,
        /// Id of the bound thread
        thread: u64,
        /// Zero
        reserved: [u64; 2],
    }

    /// Kernel interface page (KIP): read-only in every task with a kernel area. Regions, modules
    /// and the command line follow at the offsets given.
    Info {
        /// KIP_MAGIC
        magic: u64,
        /// KIP_VERSION
        version: u64,
        /// Frequency of the TSC in Hz
        tsc_hz: u64,
        /// Kernel time in ns = ((tsc - tsc_base) * tsc_mult) >> tsc_shift
        tsc_base: u64,
        /// See tsc_base
        tsc_mult: u64,
        /// See tsc_base
        tsc_shift: u64,
        /// Number of processors
        processors: u64,
        /// FEATURE_*
        features: u64,
        /// Bytes of an FPU state
        fpu_size: u64,
        /// State components of an FPU state (XCR0)
        fpu_mask: u64,
        /// Physical address of ACPI's root pointer, or 0
        rsdp: u64,
        /// Number of Region entries
        region_count: u64,
        /// Number of Module entries
        module_count: u64,
        /// Offset of the kernel's command line, ends with a zero byte
        command_line: u64,
        /// Pages in the kernel's pool
        pool_pages: u64,
        /// Zero
        reserved: u64,
        /// The boot loader's framebuffer, or zeros: physical address; bytes, and from bit 32 on
        /// pixels, of a line; lines, and from bit 32 on bits of a pixel; position and size of red,
        /// green and blue in a pixel, 8 bits each
        framebuffer: [u64; 4],
        /// Memory regions: KIP_REGIONS entries of three words
        regions: [u64; 192],
        /// Boot modules, KIP_MODULES entries of three words: first byte, first byte after it,
        /// offset of the command line
        modules: [u64; 96],
        /// Command lines, zero-terminated
        strings: [u64; 204],
    }
}

impl SharedUtcb {
    /// Returns the record of lthread_ex_regs.
    pub fn ex_regs(&self) -> &SharedExRegs {
        // SAFETY: `record` is at least as large (asserted below), and both consist of words.
        unsafe { &*self.record.as_ptr().cast() }
    }
}

impl SharedFrame {
    /// Returns the registers that have message words 0 to 5.
    pub fn message(&self) -> [&Word; REGISTER_WORDS as usize] {
        [&self.r8, &self.r9, &self.r10, &self.r12, &self.r13, &self.r14]
    }
}

const _: () = {
    assert!(core::mem::size_of::<Utcb>() == 4096);
    assert!(core::mem::size_of::<Frame>() == FRAME_SIZE as usize);
    assert!(core::mem::size_of::<Info>() == 4096);
    assert!(core::mem::size_of::<ExRegs>() <= 2048);
    // The processor aligns its frame to 16 bytes: the word after ss must be aligned.
    assert!((core::mem::offset_of!(Frame, ss) + 8) % 16 == 0);
};
