// SPDX-License-Identifier: GPL-2.0-only
//! How fast the TSC counts: by what is told of it, by what it is measured with, and which of
//! several answers counts. Arithmetic alone, for the tests on the host; `reference.rs` reads the
//! hardware.

use super::clock::NS_PER_S;

/// Measurements at most, because an emulator may be held up in any of them; one is good where this
/// part of it is unknown.
const MEASUREMENTS: usize = 50;
const PRECISION: u64 = 500;
/// Measured intervals in a second: one takes 10 ms.
const INTERVALS_PER_S: u64 = 100;
/// TSC ticks after which a reference that has not counted an interval stands still: ten times what
/// the fastest takes.
const PATIENCE: u64 = FASTEST / INTERVALS_PER_S * 10;
/// Frequencies in Hz outside of which an answer makes no sense. Emulated processors are slow.
const SLOWEST: u64 = 1_000_000;
const FASTEST: u64 = 10_000_000_000;
/// Two answers agree if they differ by at most this part: 1 %. Crystals differ by less,
/// measurements under an emulator by what `PRECISION` says, and wrong answers (a crystal taken for
/// another) by more.
const TOLERANCE: u64 = 100;

/// An answer, and where it is from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Its source, for people.
    pub source: &'static str,
    /// TSC ticks in a second.
    pub hz: u64,
}

/// The answer that most of them agree with; of several such ones the first.
pub fn choose(answers: impl DoubleEndedIterator<Item = Answer> + Clone) -> Option<Answer> {
    let support = |answer: &Answer| answers.clone().filter(|other| agree(answer.hz, other.hz)).count();
    // `max_by_key` takes the last one.
    answers.clone().rev().max_by_key(support)
}

/// Whether two frequencies are the same for all that one can tell.
pub fn agree(one: u64, other: u64) -> bool {
    one.abs_diff(other) <= one.min(other) / TOLERANCE
}

/// A frequency that makes sense.
fn plausible(hz: u128) -> Option<u64> {
    u64::try_from(hz).ok().filter(|hz| (SLOWEST..=FASTEST).contains(hz))
}

/// From a crystal, by CPUID's leaf of it.
pub fn of_crystal([denominator, numerator, crystal, _]: [u32; 4]) -> Option<u64> {
    plausible((crystal as u128 * numerator as u128).checked_div(denominator as u128)?)
}

/// From a hypervisor's kHz, 0 if unknown.
pub fn of_khz(khz: u32) -> Option<u64> {
    plausible(khz as u128 * 1000)
}

/// Computes it from KVM's clock, where ns = (ticks << shift) * multiplier >> 32. `None` if that
/// makes no sense.
pub fn of_kvm_clock(multiplier: u32, shift: i8) -> Option<u64> {
    let hz = ((NS_PER_S as u128) << 32).checked_div(multiplier as u128)?;
    let distance = shift.unsigned_abs() as u32;
    let scaled = (distance < 32).then(|| if shift < 0 { hz << distance } else { hz >> distance });
    scaled.and_then(plausible)
}

/// Computes the frequency in Hz of an HPET from its period in femtoseconds. `None` outside of what
/// its specification allows.
pub fn of_hpet(period: u32) -> Option<u64> {
    const FS_PER_S: u64 = 1_000_000_000_000_000;
    const LONGEST: u32 = 100_000_000;
    (1..=LONGEST).contains(&period).then(|| FS_PER_S / period as u64)
}

/// Something that counts at a known frequency.
pub struct Reference<'a> {
    /// Its frequency.
    pub hz: u64,
    /// The bits that it counts with.
    pub mask: u64,
    /// Starts it where it needs that: its count.
    pub start: &'a dyn Fn() -> u64,
    /// Its count, or `None` where it is not there after all.
    pub read: &'a dyn Fn() -> Option<u64>,
}

/// Measures another counter with a reference: its ticks in a second. Of several measurements that
/// one counts of whose beginning and end the least is unknown. `None` if the reference stands still
/// or is not there.
pub fn measure(reference: &Reference, tsc: &dyn Fn() -> u64, count: &dyn Fn() -> u64) -> Option<u64> {
    let mut best: Option<(u64, u64, u64)> = None;
    for _ in 0..MEASUREMENTS {
        let before = tsc();
        let start = (reference.start)();
        let (first, begin) = (count(), tsc());
        let Some((ticks, last)) = wait(reference, tsc, start) else { break };
        let (counted, end) = (count().wrapping_sub(first), tsc());
        let unknown = begin - before + end - last;
        if best.is_none_or(|(least, ..)| unknown < least) {
            best = Some((unknown, counted, ticks));
        }
        if unknown < (end - begin) / PRECISION {
            break;
        }
    }
    let (_, counted, ticks) = best?;
    u64::try_from(counted as u128 * reference.hz as u128 / ticks as u128).ok()
}

/// Measures the TSC.
pub fn measure_tsc(reference: &Reference, tsc: &dyn Fn() -> u64) -> Option<u64> {
    measure(reference, tsc, tsc).and_then(|hz| plausible(hz as u128))
}

/// Waits for an interval of a reference that was at `start`: its ticks, and the time of the last
/// look that saw it incomplete.
fn wait(reference: &Reference, tsc: &dyn Fn() -> u64, start: u64) -> Option<(u64, u64)> {
    let begin = tsc();
    let (mut last, mut now) = (begin, begin);
    loop {
        let ticks = (reference.read)()?.wrapping_sub(start) & reference.mask;
        if ticks >= reference.hz / INTERVALS_PER_S {
            return Some((ticks, last));
        }
        if now - begin > PATIENCE {
            return None;
        }
        (last, now) = (now, tsc());
    }
}

#[cfg(test)]
#[path = "../../../../tests/kernel/frequency.rs"]
mod tests;
