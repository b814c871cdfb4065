// SPDX-License-Identifier: GPL-2.0-only
//! The IPC fast paths: what fast.s knows of the kernel's structures. Their code is there.
//!
//! They run under the own processor's lock and touch nothing but threads of this processor, and
//! mappings where no other processor does (`lock::ordered`). What
//! they compare in one instruction is kept so that one is enough: `Thread::state_word` beside the
//! values in `Cpu`, `Cpu::preemption_threshold`, `LookupCache` (lookup.rs).

use crate::base::{abi::*, facts::Word, *};
use crate::{arch::cpu::cpu, arch::tables, object::thread::Flags};

/// Flags of threads, for the assembly.
pub const ALIEN: u32 = Flags::ALIEN.raw();
pub const SMALL: u32 = Flags::SMALL.raw();
pub const DEBUG_TLS: u32 = Flags::DEBUG_TLS.raw();
pub const FPU: u32 = Flags::FPU.raw();
pub const DISPATCHED: u32 = Flags::DISPATCHED.raw();
/// Flags of reply and wait for anybody.
pub const REPLY_AND_WAIT: u64 = CALL_IPC | IPC_SEND | IPC_RECEIVE | IPC_OPEN;
/// Bits of the tag of a reply that does more than to resume its partner.
pub const TAG_ITEMS: u64 =
    0xff << TAG_MAPS_SHIFT | 0xff << TAG_STRINGS_SHIFT | TAG_FORWARD | MAX_WORDS << TAG_WORDS_SHIFT;
/// Clears the kind of the send timeout, which does not matter where the partner waits.
pub const ANY_SEND_TIMEOUT: i32 = !(IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT) as i32;

unsafe extern "C" {
    static syscall_entries: [u64; 10];
    fn slow_syscall_entry();
}

/// Where SYSCALL enters, once it is known how many processors there are. The entries that clear no
/// registers know no PCIDs (`paging::use_pcids`).
pub fn system_call_entry(processors: u32) -> u64 {
    if !tables::use_fast_paths() {
        return slow_syscall_entry as *const () as u64;
    }
    let unscrubbed = if facts::has_word(Word::NoClear) { 2 } else { 0 };
    let kind = if facts::has_word(Word::Supervisor) { 1 } else { unscrubbed };
    let number = 4 * kind + 2 * cpu().pcids.on.get() as usize + (processors > 1) as usize;
    // SAFETY: fast.s has the table, which nothing changes.
    unsafe { syscall_entries[number] }
}
