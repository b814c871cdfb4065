// SPDX-License-Identifier: BSD-2-Clause
//! Structures in memory that kernel and user share: UTCB, frame, kernel information page.
//!
//! They lie in the *kernel area*, a window of a task's space whose base its creator chooses:
//! the information page, then the UTCBs by lthread number, then the window of frames.

use crate::call::REGISTER_WORDS;
use crate::word::Word;

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Where the kernel area lies unless a task's creator says otherwise
    AREA_DEFAULT = 0x6000_0000_0000;
    /// Size and alignment of a kernel area
    AREA_SIZE = 1 << 30;
    /// Offset of the kernel information page
    AREA_KIP = 0;
    /// Offset of the UTCB of lthread 0; the others follow, a page each
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
    /// Bit of a string item's length: the next item continues this string, or this buffer
    STRING_CONTINUES = 1 << 63;
    /// Unmap ranges at most in one call
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
    /// lthread_ex_regs: bind the frame (FRAME_NONE unbinds; the thread must be stopped or waiting for its handler)
    EX_FRAME = 1 << 8;
    /// lthread_ex_regs: trigger an exception, latched
    EX_TRIGGER = 1 << 9;
    /// lthread_ex_regs: cancel or abort an IPC under way
    EX_CANCEL = 1 << 10;
    /// lthread_ex_regs: let it run; a stopped alien thread starts with its frame
    EX_START = 1 << 11;
    /// lthread_ex_regs: copy the FPU state to the buffer (XSAVE layout, non-compacted)
    EX_FPU_GET = 1 << 12;
    /// lthread_ex_regs: take the FPU state from the buffer
    EX_FPU_SET = 1 << 13;
    /// lthread_ex_regs: read the debug registers
    EX_DEBUG_GET = 1 << 14;
    /// lthread_ex_regs: write the debug registers
    EX_DEBUG_SET = 1 << 15;
    /// lthread_ex_regs: write the three thread-local descriptors
    EX_TLS = 1 << 16;
    /// lthread_ex_regs: set the frame pointer register rdi of a new native thread to `argument`
    EX_ARGUMENT = 1 << 17;
    /// lthread_ex_regs: set what becomes of the thread's calls (DISPATCH_OFF, DISPATCH_ON, or an entry's address)
    EX_DISPATCH = 1 << 18;
    /// lthread_ex_regs: the FPU state becomes the initial one, after it was copied
    EX_FPU_RESET = 1 << 19;
    /// lthread_ex_regs: every bit that has a meaning
    EX_ALL = (1 << 20) - 1;

    /// Magic number of the information page: "KEEL-L4\0"
    KIP_MAGIC = 0x0034_4c2d_4c45_454b;
    /// Version of this interface
    KIP_VERSION = 2;
    /// Memory regions that the information page can hold
    KIP_REGIONS = 64;
    /// Boot modules that the information page can hold
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
    /// Feature: a change of space keeps translations, which are tagged (PCID)
    FEATURE_PCID = 4;
    /// sigma0 operation (label): map the fpage w0, at physical address = base; any free one of that size if w0's base is ANY_BASE
    SIGMA0_MAP = 1;
    /// sigma0 operation (label): map me the information page
    SIGMA0_KIP = 2;
    /// sigma0 operation (label): any RAM of the size given by fpage w0
    SIGMA0_ANY = 3;
    /// sigma0 operation (label): give my task the right over interrupt line w0; from GSI_COUNT on, over an interrupt by message
    SIGMA0_IRQ = 4;
}

crate::layout! {
    /// A map item: where in the receiver's window, and what.
    MapItem {
        /// Send base (the hot spot) | MAP_GRANT
        send_base: u64,
        /// The fpage in the sender's space; zero in a received item that was refused
        fpage: u64,
    }
}

crate::layout! {
    /// A string item or buffer.
    StringItem {
        /// Address
        address: u64,
        /// Length in bytes | STRING_CONTINUES
        length: u64,
    }
}

crate::layout! {
    /// A range of fpage_unmap in a given task.
    UnmapRange {
        /// Page-aligned address | rights that remain
        address: u64,
        /// Number of 4 KB pages
        pages: u64,
    }
}

crate::layout! {
    /// The record of lthread_ex_regs; the call exchanges: on return the old values stand in it.
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
        /// Size of the FPU buffer; on return the bytes that were copied
        fpu_size: u64,
        /// Debug registers 0 to 3, 6, 7
        debug: [u64; 6],
        /// Thread-local descriptors 12 to 14 of the descriptor table
        tls: [u64; 3],
        /// First argument of a new native thread (rdi)
        argument: u64,
        /// What becomes of the thread's calls: DISPATCH_OFF, DISPATCH_ON, or an entry's address
        dispatch: u64,
        /// Returned: state (STATE_*)
        state: u64,
    }
}

crate::layout! {
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
        /// Timeout of each page fault that this thread's strings cause in a receiver: 0, TIME_NEVER or a time
        send_fault_timeout: u64,
        /// Timeout of each page fault that strings for this thread cause in their sender: likewise
        receive_fault_timeout: u64,
        /// Fpage in which map items are accepted
        receive_fpage: u64,
        /// Virtual sender to send as; on receipt of a deceiving message the real sender
        virtual_sender: u64,
        /// Receive buffers offered: number of entries of `buffers`
        buffer_count: u64,
        /// On receipt of a redirected message whom it was for
        destination: u64,
        /// Zero
        spare: [u64; 6],
        /// Map items sent or received
        maps: [u64; 64],
        /// Strings to send; strings that came: where each lies and its length
        strings: [u64; 16],
        /// Receive buffers
        buffers: [u64; 16],
        /// Zero
        reserved: [u64; 16],
        /// Message words; the first REGISTER_WORDS travel in registers
        words: [u64; 128],
        /// Record of lthread_ex_regs, or ranges of fpage_unmap
        record: [u64; 256],
    }
}

crate::layout! {
    /// What a Linux thread and the native lthread that it attends to say to each other (LINUX_PRCTL_NATIVE).
    LinuxNative {
        /// To begin one: its instruction pointer, and on return zero; zero to answer it and hear of it again
        ip: u64,
        /// To begin one: its stack pointer
        sp: u64,
        /// To begin one: its first argument
        argument: u64,
        /// Returned: its id
        thread: u64,
        /// Returned: to whom it sends what this Linux thread shall hear
        server: u64,
        /// Label of its message, or of the answer
        label: u64,
        /// Words likewise
        words: [u64; 6],
    }
}

crate::layout! {
    /// Register frame of an alien thread, and the register words of an exception message.
    Frame as SharedFrame {
        /// Set by nobody: keeps the hardware's frame 16-byte aligned
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
        /// Its error code
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
}

impl SharedUtcb {
    /// The record of lthread_ex_regs.
    pub fn ex_regs(&self) -> &SharedExRegs {
        // SAFETY: `record` is at least as large (asserted below), and both consist of words.
        unsafe { &*self.record.as_ptr().cast() }
    }
}

impl SharedFrame {
    /// The registers with message words 0 to 5.
    #[inline]
    pub fn message(&self) -> [&Word; REGISTER_WORDS as usize] {
        [&self.r8, &self.r9, &self.r10, &self.r12, &self.r13, &self.r14]
    }
}

crate::layout! {
    /// A memory region of the information page.
    Region {
        /// First byte, physical
        start: u64,
        /// First byte after it
        end: u64,
        /// REGION_*
        kind: u64,
    }
}

crate::layout! {
    /// Kernel information page: read-only in every task with a kernel area. Regions, modules and
    /// the command line follow at the offsets given.
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
        /// Processors
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
        /// The loader's framebuffer, or zeros: its physical address; bytes of a line, and from bit 32 on pixels of it; lines, and
        /// from bit 32 on bits of a pixel; position and size of red, green and blue in it, 8 bits each
        framebuffer: [u64; 4],
        /// Memory regions: KIP_REGIONS entries of three words
        regions: [u64; 192],
        /// Boot modules, KIP_MODULES entries of three words: first byte, first byte after it, offset of the command line
        modules: [u64; 96],
        /// Command lines, zero-terminated
        strings: [u64; 204],
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
