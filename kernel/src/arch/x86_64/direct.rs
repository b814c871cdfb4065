// SPDX-License-Identifier: GPL-2.0-only
//! Direct calls: an alien thread's system calls to a handler in supervisor mode that its space
//! shows, on a uniprocessor.
//!
//! fast.s begins them (allow_direct_calls) where the handler resumes the thread, its client, and
//! waits for anybody. While the client or its handler runs so, this CPU's lock is held in user
//! mode, and nothing else of the kernel's knows of a call: the client looks as if it ran, and the
//! handler as if it waited; only `Cpu::current` and `Cpu::client` tell who does. The slow paths
//! find the lock taken, and make that state what it means before they look at anything.

use crate::arch::{cpu::Cpu, regs::rdtsc};
use crate::object::thread::State;

/// The end of direct calls. A client that made one is now a thread that waits for its handler,
/// which runs; bases, FPU and registers are theirs already.
pub fn settle(cpu: &Cpu) {
    let (Some(client), Some(server)) = (cpu.client.take(), cpu.current.get()) else { return };
    client.change_state(State::Faulted);
    client.partner.set(server.id);
    server.waiters.set(server.waiters.get() + 1);
    server.change_state(State::Ready);
    let now = rdtsc();
    client.consumed.set(client.consumed.get().wrapping_add(now));
    server.consumed.set(server.consumed.get().wrapping_sub(now));
    cpu.loaded.set(Some(server));
}
