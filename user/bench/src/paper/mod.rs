// SPDX-License-Identifier: BSD-2-Clause
//! Tables 4 and 5 of "The Performance of µ-Kernel-Based Systems" (SOSP 1997) between native tasks,
//! with `args paper` and the names of rows (all without one). It prints the same as the Linux
//! program bench/guest/bench.c, with whose rows these are compared: a row has fixed iterations, is
//! repeated, and marks its parts for the emulator's profiler.

mod appel;
mod channels;
pub mod part;

use crate::sample::{idled_between, spoil};
use keel_l4::call::Failure;
use keel_l4::protocol::boot::Start;
use keel_l4::{print, println};

/// Repetitions that count. One more before them warms up.
const REPEATS: usize = 5;

/// The name of a row and its function.
type Row = (&'static str, fn(&'static str, &Start) -> Result<(), Failure>);

const ROWS: &[Row] = &[
    ("l4-pipe-round-trip", channels::pipe_round_trip),
    ("l4-pipe-64k", channels::pipe_bandwidth),
    ("rpc-round-trip", channels::rpc_round_trip),
    ("rpc-64k", channels::rpc_bandwidth),
    ("mapping-rpc-page", channels::mapping_page),
    ("mapping-rpc-64k", channels::mapping_bandwidth),
    ("mapping-rpc-2m", channels::mapping_superpage),
    ("l4-fault", appel::fault),
    ("l4-trap", appel::trap),
    ("l4-appel1", appel::appel1),
    ("l4-appel2", appel::appel2),
];

/// Measures the rows in `line` after the word `paper`, or all.
pub fn measure(line: &str, record: &Start) -> Result<(), Failure> {
    let wanted = || line.split_whitespace().skip_while(|word| *word != "paper").skip(1);
    if let Some(unknown) = wanted().find(|name| ROWS.iter().all(|(known, _)| known != name)) {
        println!("bench: there is no row {unknown}");
        spoil();
        return Ok(());
    }
    let all = wanted().next().is_none();
    let mut chosen = ROWS.iter().filter(|(name, _)| all || wanted().any(|word| word == *name));
    chosen.try_for_each(|(name, measure)| measure(name, record))
}

/// Measures a row whose repetitions are one part each: `count` operations in one call of `run`.
fn row(name: &str, count: u64, mut run: impl FnMut(u64) -> Result<(), Failure>) -> Result<(), Failure> {
    row_of_parts(name, count, |count| {
        part::begins();
        run(count).inspect(|()| part::ends())
    })
}

/// Measures a row that marks its parts itself.
fn row_of_parts(name: &str, count: u64, mut run: impl FnMut(u64) -> Result<(), Failure>) -> Result<(), Failure> {
    run(count)?;
    let mut times = [0; REPEATS];
    let mut parts = 0;
    let idled = idled_between(|| {
        times.iter_mut().try_for_each(|time| {
            part::reset();
            run(count)?;
            (parts, *time) = part::sum();
            Ok(())
        })
    })?;
    print!("{{\"name\":\"{name}\",\"iterations\":{count},\"parts\":{parts},\"idle_ticks\":{idled},\"tsc\":");
    println!("{times:?}}}");
    Ok(())
}
