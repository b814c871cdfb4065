// SPDX-License-Identifier: GPL-2.0-only
//! Which mode the local APICs are in, and how one gets there (Intel SDM volume 3, 11.12.5).
//! Decisions alone, for the tests on the host.

/// IA32_APIC_BASE: x2APIC mode, if the local APIC is on.
pub const X2: u64 = 1 << 10;
/// IA32_APIC_BASE: on.
pub const ON: u64 = 1 << 11;
/// IA32_APIC_BASE: where the registers are in xAPIC mode.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// Largest id of a local APIC in xAPIC mode, and that lines and message-signalled interrupts can
/// name.
pub const LAST_SHORT_ID: u32 = 254;

/// Whether x2APIC mode is used: where it cannot be left, or where xAPIC mode cannot name all
/// processors.
pub fn is_needed(is_locked: bool, mut ids: impl Iterator<Item = u32>) -> bool {
    is_locked || ids.any(|id| id > LAST_SHORT_ID)
}

/// What is written to IA32_APIC_BASE, one after the other, to have only these of `ON` and `X2` set.
/// From x2APIC to xAPIC mode the way is through off; to x2APIC mode it is through xAPIC mode.
pub fn changes(now: u64, wanted: u64) -> impl Iterator<Item = u64> {
    let rest = now & !(ON | X2);
    let between = if wanted & X2 != 0 { rest | ON } else { rest };
    let between = ((now ^ wanted) & X2 != 0).then_some(between);
    between.into_iter().chain([rest | wanted]).filter(move |value| *value != now)
}

#[cfg(test)]
#[path = "../../../../tests/kernel/x2apic.rs"]
mod tests;
