// SPDX-License-Identifier: BSD-2-Clause
//! The cases, a file for each topic of `docs/abi.md`.

use crate::case::Case;
use keel_l4::abi::memory::FEATURE_SEGMENT_LIMITS;
use keel_l4::kip::kip;

mod alien_frames;
mod alien_pagers;
mod alien_triggers;
mod clans;
mod debug;
mod exceptions;
mod exchange;
mod faults;
mod fpu;
mod fuzz;
mod hardening;
mod hostile;
mod ids;
mod ipc;
mod ipc_errors;
mod ipc_order;
mod kernel_objects;
mod lending;
mod maps;
mod notify;
mod ports;
mod preempters;
mod preemption;
mod processors;
mod quota;
mod races;
mod schedule;
mod services;
mod sigma0;
mod small;
mod small_attacks;
mod small_calls;
mod small_ipc;
mod small_many;
mod small_memory;
mod small_processors;
mod small_random;
mod strings;
mod tasks;
mod transfers;
mod unmap;
mod unmap_task;
mod upper;
mod window;

/// The cases of a topic that can run here. Some need one processor, others several; small tasks
/// need segment limits, or a word on the kernel's command line in place of them.
pub fn runnable(topic: &str, cases: &'static [Case]) -> &'static [Case] {
    match topic {
        "processors" if kip().processors == 1 => processors::ALONE,
        "small" if !small::is_supported() => small::REFUSED,
        "small-processors" if kip().processors == 1 => &[],
        "small-attacks" | "small-random" if kip().features & FEATURE_SEGMENT_LIMITS == 0 => &[],
        _ if topic.starts_with("small-") && !small::is_supported() => &[],
        _ => cases,
    }
}

/// All topics in their order. Topics on which others depend come first.
pub const ALL: &[(&str, &[Case])] = &[
    ("ids", ids::CASES),
    ("ipc", ipc::CASES),
    ("ipc-errors", ipc_errors::CASES),
    ("ipc-order", ipc_order::CASES),
    ("notify", notify::CASES),
    ("maps", maps::CASES),
    ("strings", strings::CASES),
    ("transfers", transfers::CASES),
    ("preemption", preemption::CASES),
    ("unmap", unmap::CASES),
    ("unmap-task", unmap_task::CASES),
    ("upper", upper::CASES),
    ("sigma0", sigma0::CASES),
    ("services", services::CASES),
    ("faults", faults::CASES),
    ("exceptions", exceptions::CASES),
    ("alien", alien_frames::CASES),
    ("triggers", alien_triggers::CASES),
    ("alien-pagers", alien_pagers::CASES),
    ("fpu", fpu::CASES),
    ("lending", lending::CASES),
    ("debug", debug::CASES),
    ("exchange", exchange::CASES),
    ("tasks", tasks::CASES),
    ("schedule", schedule::CASES),
    ("preempters", preempters::CASES),
    ("processors", processors::CASES),
    ("races", races::CASES),
    ("objects", kernel_objects::CASES),
    ("ports", ports::CASES),
    ("quota", quota::CASES),
    ("hardening", hardening::CASES),
    ("clans", clans::CASES),
    ("small", small::CASES),
    ("small-ipc", small_ipc::CASES),
    ("small-calls", small_calls::CASES),
    ("small-memory", small_memory::CASES),
    ("small-many", small_many::CASES),
    ("small-processors", small_processors::CASES),
    ("small-guards", small_attacks::CASES),
    ("small-attacks", small_attacks::LIMITED),
    ("small-random", small_random::CASES),
    ("hostile", hostile::CASES),
    ("fuzz", fuzz::CASES),
];
