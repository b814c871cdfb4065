// SPDX-License-Identifier: BSD-2-Clause
//! Samples of one figure, and the line that reports them.

use core::sync::atomic::{AtomicU64, Ordering};
use keel_l4::call::Failure;
use keel_l4::println;

/// Rounds before the samples: the kernel's caches are filled, pages are mapped.
pub const WARM_UP: usize = 16;
/// Samples of a figure; odd, so that the median is one of them.
pub const SAMPLES: usize = 101;

/// Iterations of the watcher, a thread of the lowest priority. It runs only when the processor
/// would be idle otherwise.
static WATCHED: AtomicU64 = AtomicU64::new(0);
/// Number of figures that are not reliable or were not measured.
static SPOILT: AtomicU64 = AtomicU64::new(0);

/// The watcher's main function.
pub extern "C" fn watch(_: u64) -> ! {
    loop {
        WATCHED.fetch_add(1, Ordering::Relaxed);
    }
}

/// Records that a figure was not measured.
pub fn spoil() {
    SPOILT.fetch_add(1, Ordering::Relaxed);
}

/// Whether every row was measured, and without idling.
pub fn all_good() -> bool {
    SPOILT.load(Ordering::Relaxed) == 0
}

/// How often the watcher ran during `piece`.
pub fn idled_between(piece: impl FnOnce() -> Result<(), Failure>) -> Result<u64, Failure> {
    let before = WATCHED.load(Ordering::Relaxed);
    piece()?;
    let idled = WATCHED.load(Ordering::Relaxed) - before;
    if idled > 0 {
        spoil();
    }
    Ok(idled)
}

/// Measures one figure.
pub fn row(name: &str, mut one: impl FnMut() -> Result<u32, Failure>) -> Result<(), Failure> {
    rows([name], || one().map(|sample| [sample]))
}

/// Measures figures that come from the same rounds, and prints a line of JSON for each.
pub fn rows<const N: usize>(
    names: [&str; N],
    mut one: impl FnMut() -> Result<[u32; N], Failure>,
) -> Result<(), Failure> {
    let mut samples = [[0; SAMPLES]; N];
    for _ in 0..WARM_UP {
        one()?;
    }
    let idled = idled_between(|| {
        (0..SAMPLES).try_for_each(|round| {
            for (samples, sample) in samples.iter_mut().zip(one()?) {
                samples[round] = sample;
            }
            Ok(())
        })
    })? > 0;
    for (name, samples) in names.into_iter().zip(&mut samples) {
        samples.sort_unstable();
        let (least, median, most) = (samples[0], samples[SAMPLES / 2], samples[SAMPLES - 1]);
        println!("{{\"name\":\"{name}\",\"median\":{median},\"least\":{least},\"most\":{most},\"idled\":{idled}}}");
    }
    Ok(())
}
