// SPDX-License-Identifier: BSD-2-Clause
//! What only the debug build has: the records of the event trace, which it keeps for each
//! processor (`docs/tracing.md` describes them), and the operations of the kernel object ID_CHECK.

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Event: the thread made a system call; word = its eax, which has the call number
    TRACE_CALL = 1;
    /// Event: an interrupt; label = vector; thread = the one that ran, nil if none did
    TRACE_INTERRUPT = 2;
    /// Event: the kernel returns to user mode, to this thread
    TRACE_LEAVE = 3;
    /// Event: the processor switched to this thread; partner = the previous one
    TRACE_SWITCH = 4;
    /// Event: the processor is idle until an interrupt
    TRACE_IDLE = 5;
    /// Event: a message of the thread (or kernel object) reaches the partner; label = its label,
    /// word = its tag
    TRACE_MESSAGE = 6;
    /// Event: a page fault of the thread; partner = its pager, label = access wanted (`FPAGE_*`),
    /// word = address
    TRACE_FAULT = 7;
    /// Event: another message of the kernel in the thread's name, to the partner; label = its
    /// label, word = its first word
    TRACE_EXCEPTION = 8;
    /// Shift of the processor's number in the event word
    RECORD_PROCESSOR_SHIFT = 8;
    /// Shift of the label in the event word
    RECORD_LABEL_SHIFT = 32;
    /// Check operation (to ID_CHECK): check all invariants; answer: w0 = number of violations
    CHECK_ALL = 0;
    /// Check operation: the next SYSCALL on processor w1 waits w0 ns (at most 10^9) for its lock
    CHECK_DELAY = 1;
}

crate::layout! {
    /// One event.
    TraceRecord {
        /// Time stamp counter
        time: u64,
        /// TRACE_* 7:0, processor 15:8, label 63:32
        event: u64,
        /// Id of the thread or kernel object
        thread: u64,
        /// Id of the partner, or nil
        partner: u64,
        /// One more word, by event
        word: u64,
    }
}
