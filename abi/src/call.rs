// SPDX-License-Identifier: BSD-2-Clause
//! The seven system calls: numbers, flags, message tag, status codes.
//!
//! A call is the instruction `syscall` with the call number in eax. rcx and r11 are lost; rax
//! returns the status: 0, or minus (side << 8 | code). `docs/abi.md` lists the registers of each
//! call.

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// ipc: optional send, then optional receive
    CALL_IPC = 0;
    /// id_nearest: names the thread that would receive a message to this id
    CALL_ID_NEAREST = 1;
    /// fpage_unmap: revoke mappings
    CALL_FPAGE_UNMAP = 2;
    /// thread_switch: donate the time slice, or yield
    CALL_THREAD_SWITCH = 3;
    /// thread_schedule: read or set priority, time slice, preempter, processor
    CALL_THREAD_SCHEDULE = 4;
    /// lthread_ex_regs: create, change, stop, delete an lthread
    CALL_LTHREAD_EX_REGS = 5;
    /// task_new: create, delete or hand over a task
    CALL_TASK_NEW = 6;
    /// The bits of eax that hold the call number
    CALL_MASK = 0xf;
    /// Bit of eax, of an alien thread with EX_DISPATCH: a message to its handler, with the other
    /// bits as its label
    CALL_HANDLER = 1 << 31;
    /// What becomes of system calls (EX_DISPATCH): KIND_SYSCALL messages to the handler; the
    /// default of alien threads
    DISPATCH_OFF = 0;
    /// What becomes of them: L4 calls of a native thread, CALL_HANDLER messages of an alien one;
    /// greater: an entry's address, a native thread's for upcalls
    DISPATCH_ON = 1;

    /// ipc has a send phase to rdi
    IPC_SEND = 1 << 4;
    /// ipc has a receive phase
    IPC_RECEIVE = 1 << 5;
    /// Open wait: receive from any sender (otherwise only from rdx)
    IPC_OPEN = 1 << 6;
    /// The send phase is a notification: word 0 is ORed into the receiver's notification word
    IPC_NOTIFY = 1 << 7;
    /// Shift of the send timeout kind
    IPC_SEND_TIMEOUT_SHIFT = 8;
    /// Shift of the receive timeout kind
    IPC_RECEIVE_TIMEOUT_SHIFT = 10;
    /// Width mask of a timeout kind
    IPC_TIMEOUT_MASK = 3;
    /// The receiver sees the UTCB's virtual_sender as the sender (propagation)
    IPC_VIRTUAL_SENDER = 1 << 12;
    /// The message is only the answer to a fault; ERROR_TIMEOUT if its receiver does not wait for
    /// one
    IPC_ANSWER = 1 << 13;
    /// Timeout kind: wait without limit
    TIMEOUT_NEVER = 0;
    /// Timeout kind: do not wait
    TIMEOUT_ZERO = 1;
    /// Timeout kind: the time in the UTCB
    TIMEOUT_UTCB = 2;
    /// Bit of a UTCB time: absolute kernel time, not relative to now; the bits below are
    /// nanoseconds
    TIME_ABSOLUTE = 1 << 63;
    /// UTCB time that never comes
    TIME_NEVER = u64::MAX;

    /// Message words carried in registers: r8 r9 r10 r12 r13 r14
    REGISTER_WORDS = 6;
    /// Message words at most, registers and UTCB together
    MAX_WORDS = 128;
    /// Map items at most
    MAX_MAP_ITEMS = 32;
    /// String items at most, and buffer items at most
    MAX_STRINGS = 8;
    /// Bytes of one string item at most
    MAX_STRING_BYTES = 4 << 20;
    /// Shift of the number of words in a tag
    TAG_WORDS_SHIFT = 0;
    /// Shift of the number of map items in a tag
    TAG_MAPS_SHIFT = 8;
    /// Shift of the number of string items in a tag
    TAG_STRINGS_SHIFT = 16;
    /// Shift of the kind (set by the kernel only; zero in what a user sends)
    TAG_KIND_SHIFT = 24;
    /// Mask of the kind after the shift
    TAG_KIND_MASK = 0xf;
    /// Tag flag: the message was for another thread (Utcb.destination); the receiver is a chief on
    /// its way
    TAG_REDIRECTED = 1 << 28;
    /// Tag flag, with TAG_REDIRECTED: it came from outside the receiver's clan, and was for a
    /// thread inside
    TAG_FROM_OUTSIDE = 1 << 29;
    /// Tag flag: the sender is a virtual one; Utcb.virtual_sender has the real one
    TAG_PROPAGATED = 1 << 30;
    /// Tag flag of a pager's answer to an alien thread's page fault: forward the fault to the
    /// thread's handler
    TAG_FORWARD = 1 << 31;
    /// Shift of the label: 32 bits on whose meaning the partners agree
    TAG_LABEL_SHIFT = 32;

    /// Kind: sent by a user
    KIND_USER = 0;
    /// Kind: page fault; label = access wanted, w0 = address, w1 = ip, w2 = frame index, w3 = 1 if
    /// a page is mapped
    KIND_PAGE_FAULT = 1;
    /// Kind: exception; label = vector, w0 = error code, w1 = ip, w2 = frame index, w3 = dr6 for
    /// #DB
    KIND_EXCEPTION = 2;
    /// Kind: system call of an alien thread; label = GATE_*, w0 = rax, w1 = ip, w2 = frame index
    KIND_SYSCALL = 3;
    /// Kind: a triggered exception; w1 = ip, w2 = frame index
    KIND_TRIGGER = 4;
    /// Kind: interrupt or timer; sender = the kernel object, w0 = kernel time in ns
    KIND_INTERRUPT = 5;
    /// Kind: notification; w0 = the notification word, which receiving it clears
    KIND_NOTIFY = 6;
    /// Kind: preemption; label = PREEMPTED_*, w0 = kernel time in ns, w1 = ip, w2 = frame index, w3
    /// = consumed time in ns
    KIND_PREEMPTION = 7;
    /// Kind: answer of a kernel object
    KIND_KERNEL = 8;
    /// Label bit of a preemption: the time slice ended, or was yielded
    PREEMPTED_SLICE = 1;
    /// Label bit of a preemption: a thread of higher priority was ready
    PREEMPTED_PRIORITY = 2;
    /// Bit of a preempter's id: it receives every preemption, not only the ends of time slices
    PREEMPTER_EVERY = 1;
    /// Label of an alien system call: `syscall`
    GATE_SYSCALL = 0;
    /// Label of an alien system call: `int 0x80`
    GATE_INT80 = 1;
    /// Label of an alien system call: `sysenter`; not used, because SYSENTER raises #GP
    GATE_SYSENTER = 2;

    /// Frame index: none
    FRAME_NONE = 0xffff_ffff;

    /// id_nearest relation: the destination itself, in the caller's clan
    NEAREST_SAME_CLAN = 0;
    /// id_nearest relation: the caller's chief receives the message
    NEAREST_OUTER = 1;
    /// id_nearest relation: the chief of an inner clan receives the message
    NEAREST_INNER = 2;

    /// fpage_unmap rsi: rights to revoke (FPAGE_READ removes the mapping)
    UNMAP_RIGHTS = 7;
    /// fpage_unmap rsi: also from the caller itself
    UNMAP_FLUSH = 8;
    /// fpage_unmap rsi: in the task rdx, the r8 ranges in Utcb.record; rdi is not used
    UNMAP_TASK = 16;
    /// fpage_unmap rsi, with UNMAP_TASK: move the one range, a whole page table, to the address r9
    /// of the same space
    UNMAP_MOVE = 32;
    /// fpage_unmap state: a page was accessed through the mapping
    UNMAP_REFERENCED = 1;
    /// fpage_unmap state: a page was written through the mapping
    UNMAP_DIRTY = 2;
    /// fpage_unmap state: no memory to split a superpage, which lost the rights as a whole
    UNMAP_WHOLE = 4;

    /// thread_schedule rsi: set the priority to rdx
    SCHEDULE_PRIORITY = 1;
    /// thread_schedule rsi: set the time slice to r8 nanoseconds (0: unlimited)
    SCHEDULE_SLICE = 2;
    /// thread_schedule rsi: set the preempter to r9 (nil: none)
    SCHEDULE_PREEMPTER = 4;
    /// thread_schedule rsi: move to processor r10
    SCHEDULE_PROCESSOR = 8;
    /// thread_schedule rsi: the thread's segments reach what r13 says, in the tables of the task
    /// r12 (nil: the caller's): window base | log2 of its size, or SMALL_*
    SCHEDULE_SMALL = 16;
    /// thread_schedule r13: a 64-bit thread in its own space
    SMALL_NONE = 0;
    /// thread_schedule r13: log2 of the smallest window
    SMALL_MIN_LOG2 = 24;
    /// thread_schedule r13: log2 of the largest window
    SMALL_MAX_LOG2 = 30;
    /// thread_schedule r13: a 32-bit thread in its own space
    SMALL_ALL = 32;
    /// Bit of the r13 that thread_schedule returns: the thread reached outside of its window, and
    /// is in its own space since
    SMALL_PROMOTED = 64;
    /// Thread state: stopped, or created and not yet started
    STATE_INACTIVE = 0;
    /// Thread state: running or ready
    STATE_READY = 1;
    /// Thread state: waits to send
    STATE_SENDING = 2;
    /// Thread state: waits to receive
    STATE_RECEIVING = 3;
    /// Thread state: waits for its pager or handler
    STATE_FAULTED = 4;
    /// Thread state: in a transfer that its partner performs
    STATE_TRANSFERRING = 5;
    /// Thread state: waits for its preempter
    STATE_PREEMPTED = 6;

    /// task_new rsi: mask of the maximum controlled priority
    TASK_MCP_MASK = 0xff;
    /// task_new rsi: make 2^(bits 23:16) numbers from rdi on inactive and hand them over to the
    /// task rdx
    TASK_INACTIVE = 1 << 8;
    /// task_new rsi: create no first lthread (rdx, r8, r9 are not used)
    TASK_NO_LTHREAD = 1 << 9;
    /// task_new rsi: the task may have memory in the upper half of its space; for tasks that may
    /// themselves
    TASK_UPPER_HALF = 1 << 10;
    /// task_new rsi: the task runs in supervisor mode: the root task's to give where the kernel's
    /// command line has the word `supervisor`, with TASK_UPPER_HALF, whose memory then is shown by
    /// all spaces of its clan; and such a task's to give to its own, without
    TASK_SUPERVISOR = 1 << 11;
    /// task_new rsi: with TASK_UPPER_HALF, the task's memory in the upper half may be shown by
    /// spaces of its clan, also the root task's to give where the command line has the word
    /// `supervisor`; and such a task's to give to its own, without: the task shows that, and runs
    /// 32-bit code only
    TASK_RESIDENT = 1 << 12;
    /// task_new rsi: shift of log2 of the number of task numbers that are handed over
    TASK_RANGE_SHIFT = 16;
    /// task_new r10, a quota in pages: use the chief's account
    TASK_SHARED_QUOTA = 0;

    /// Number of priorities: 0 to 255; 255 is the highest
    PRIORITIES = 256;

    /// Object operation: bind this interrupt or timer to the caller; w0 = IRQ_MODE_* for a GSI
    OBJECT_BIND = 1;
    /// Object operation: unbind it
    OBJECT_UNBIND = 2;
    /// Object operation: acknowledge a GSI after its device was served
    OBJECT_ACK = 3;
    /// Object operation: make the task w0 the owner of this interrupt
    OBJECT_GIVE = 4;
    /// Timer operation: fire at kernel time w0 ns (TIMER_OFF: never); replaces an earlier time
    TIMER_SET = 5;
    /// Timer time: never; disarms the timer
    TIMER_OFF = u64::MAX;
    /// Interrupt mode: as the firmware's tables say
    IRQ_MODE_DEFAULT = 0;
    /// Interrupt mode: edge triggered, active high
    IRQ_MODE_EDGE = 1;
    /// Interrupt mode: level triggered, active low
    IRQ_MODE_LEVEL = 2;
    /// MSI operation (to ID_MSI): allocate; answer: w0 = id, w1 = address, w2 = data
    MSI_ALLOCATE = 1;
    /// Quota operation: move w1 unused pages from the caller's account to that of the task w0 of
    /// its clan
    QUOTA_ENLARGE = 1;
    /// Quota operation: move w1 unused pages from the account of the task w0 of the caller's clan
    /// to the caller's
    QUOTA_SHRINK = 2;
    /// Quota operation: buy w1 frame pages from frame page w0 on in the caller's kernel area
    QUOTA_BUY_FRAMES = 3;
    /// Quota operation: read the account of the task w0 (nil: the caller's); answer: the words
    /// ACCOUNT_*
    QUOTA_READ = 4;
    /// Quota operation: sell w1 frame pages from frame page w0 on (refused while a frame in one of
    /// them is bound)
    QUOTA_SELL_FRAMES = 5;
    /// Word of QUOTA_READ: pages the account may use
    ACCOUNT_LIMIT = 0;
    /// Word of QUOTA_READ: pages it uses
    ACCOUNT_USED = 1;
    /// Word of QUOTA_READ: tasks
    ACCOUNT_TASKS = 2;
    /// Word of QUOTA_READ: lthreads
    ACCOUNT_LTHREADS = 3;
    /// Word of QUOTA_READ: page-table pages
    ACCOUNT_TABLES = 4;
    /// Word of QUOTA_READ: mapping nodes
    ACCOUNT_NODES = 5;
    /// Word of QUOTA_READ: frame pages and UTCBs
    ACCOUNT_FRAMES = 6;
    /// Word of QUOTA_READ: FPU states
    ACCOUNT_FPUS = 7;
    /// Word of QUOTA_READ: pages free in the kernel's pool
    ACCOUNT_POOL_FREE = 8;
    /// Number of words in the answer of QUOTA_READ
    ACCOUNT_WORDS = 9;
}

/// The reason why a call failed; a status has the side as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Error {
    /// The partner or object does not exist.
    NoPartner = 1,
    /// The timeout expired before the transfer began.
    Timeout = 2,
    /// Cancelled before a transfer began.
    Cancelled = 3,
    /// Aborted during the transfer.
    Aborted = 4,
    /// The account has no memory left.
    NoMemory = 5,
    /// The sender's page-fault timeout expired.
    SendFault = 6,
    /// The receiver's page-fault timeout expired.
    ReceiveFault = 7,
    /// The receiver's buffer is too small.
    MessageCut = 8,
    /// A malformed argument.
    Invalid = 9,
    /// The caller has no right to do this.
    Denied = 10,
    /// A server does not know the request.
    NotSupported = 11,
    /// It exists already, or belongs to another thread or task.
    Busy = 12,
    /// The versions of this slot are used up.
    Retired = 13,
}

impl Error {
    /// Fails with this error if `condition` holds: `Error::Invalid.when(size > MAX)?;`.
    pub fn when(self, condition: bool) -> Result<(), Error> {
        if condition {
            return Err(self);
        }
        Ok(())
    }
}

/// The part of a call that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u64)]
pub enum Side {
    /// The call itself.
    Call = 0,
    /// The send phase of an ipc.
    Send = 1,
    /// The receive phase of an ipc.
    Receive = 2,
}

/// The status word in rax: 0, or minus (side << 8 | code).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(transparent)]
pub struct Status(pub u64);

impl Status {
    /// Success.
    pub const OK: Status = Status(0);

    /// Returns the status of a failure.
    pub const fn error(side: Side, error: Error) -> Status {
        Status(((side as u64) << 8 | error as u64).wrapping_neg())
    }
}

/// The message tag in rsi.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(transparent)]
pub struct Tag(pub u64);

impl Tag {
    /// Returns a tag of a message that the kernel makes.
    pub const fn kernel(kind: u64, label: u32, words: u64) -> Tag {
        Tag((label as u64) << TAG_LABEL_SHIFT | (kind & TAG_KIND_MASK) << TAG_KIND_SHIFT | (words & 0xff))
    }

    /// Returns the tag with `strings` string items.
    pub const fn with_strings(self, strings: u64) -> Tag {
        Tag((self.0 & !(0xff << TAG_STRINGS_SHIFT)) | (strings & 0xff) << TAG_STRINGS_SHIFT)
    }

    /// Number of words.
    pub const fn words(self) -> u64 {
        self.0 & 0xff
    }

    /// Number of map items.
    pub const fn maps(self) -> u64 {
        self.0 >> TAG_MAPS_SHIFT & 0xff
    }

    /// Number of string items.
    pub const fn strings(self) -> u64 {
        self.0 >> TAG_STRINGS_SHIFT & 0xff
    }

    /// The kind: `KIND_*`.
    pub const fn kind(self) -> u64 {
        self.0 >> TAG_KIND_SHIFT & TAG_KIND_MASK
    }

    /// Returns true if all of these flags (`TAG_REDIRECTED` and so on) are set.
    pub const fn has(self, flags: u64) -> bool {
        self.0 & flags == flags
    }

    /// The label.
    pub const fn label(self) -> u32 {
        (self.0 >> TAG_LABEL_SHIFT) as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_fields_do_not_touch() {
        let tag = Tag::kernel(KIND_SYSCALL, 0xdead_beef, 3).with_maps(32).with_strings(8);
        assert_eq!((tag.words(), tag.maps(), tag.strings()), (3, 32, 8));
        assert_eq!((tag.kind(), tag.label()), (KIND_SYSCALL, 0xdead_beef));
    }
}
