// SPDX-License-Identifier: BSD-2-Clause
//! The records of the event trace, which the kernel for debugging keeps for each processor. `docs/tracing.md` shows them.

crate::constants! {
    /// Constants of this module for the C header.
    CONSTANTS;
    /// Event: the thread made a system call; word = its eax, which names the call
    TRACE_CALL = 1;
    /// Event: an interrupt; label = vector; the thread is the one that ran, nil if none did
    TRACE_INTERRUPT = 2;
    /// Event: the kernel goes back to user mode, to this thread
    TRACE_LEAVE = 3;
    /// Event: the processor changed to this thread; partner = the one before
    TRACE_SWITCH = 4;
    /// Event: the processor has nothing to do until an interrupt comes
    TRACE_IDLE = 5;
    /// Event: a message of the thread (or source) reaches the partner; label = its label, word = its tag
    TRACE_MESSAGE = 6;
    /// Event: a page fault of the thread, for the partner; label = access wanted (`FPAGE_*`), word = address
    TRACE_FAULT = 7;
    /// Event: another message of the kernel's for the thread to the partner; label = its label, word = its first word
    TRACE_EXCEPTION = 8;
    /// Shift of the processor's number in the event word
    RECORD_PROCESSOR_SHIFT = 8;
    /// Shift of the label in the event word
    RECORD_LABEL_SHIFT = 32;
}

crate::layout! {
    /// One event.
    TraceRecord {
        /// Time stamp counter
        time: u64,
        /// TRACE_* 7:0, processor 15:8, label 63:32
        event: u64,
        /// Id of the thread that it is about
        thread: u64,
        /// Id of the other one, or nil
        partner: u64,
        /// What else there is to say
        word: u64,
    }
}
