// SPDX-License-Identifier: GPL-2.0-only
//! Direct calls: an alien thread's system calls to a handler in supervisor mode that its space
//! shows, without a change of any thread's state.
//!
//! fast.s begins them (allow_direct_calls) where the handler resumes the thread, its client, and
//! waits for anybody: it leaves the CPU's lock in the state `lock::PAIR`, in place of free. While
//! the lock is in that state, the CPU is in user mode or in its first or last instructions in the
//! kernel, and the client or its handler runs. The client looks as if it ran, and the handler as
//! if it waited; only `Cpu::current` and `Cpu::client` say who does.
//!
//! Invariant: no other code has had the lock since, so all that allow_direct_calls has checked
//! still holds. Only the fast paths of this CPU know the pair. They take the lock for each direct
//! call and answer, and leave it with the pair again; on a uniprocessor they need not take it. Any
//! other code that takes the lock, on this CPU or another one, finds that state, and makes the
//! threads' states what they mean before it looks at anything (`settle`).
//!
//! Deadlocks: a pair holds no lock, and settling it changes memory alone. So no CPU waits for a
//! pair or sends it an IPI, and the order of the locks is as without pairs (lock.rs). The CPU runs
//! on. Its registers and TLB are as those of any CPU with a running thread (`lock::write_back`).

use crate::{arch::cpu::Cpu, arch::regs::rdtsc, object::thread::State};

/// The end of the direct calls of `cpu`, which need not be the current CPU; its lock is held, and
/// was with a pair. A client that made one is now a thread that waits for its handler, which runs;
/// bases, FPU and registers are theirs already.
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
