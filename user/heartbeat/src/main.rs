// SPDX-License-Identifier: BSD-2-Clause
//! A real-time task: prints its beat at a fixed interval, and after every ten beats how late the
//! latest of them was. It runs beside Linux and shows that Linux cannot delay it.

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::program::Program;
use keel_l4::timer::Timer;
use keel_l4::{kip, print, println, Error};

keel_l4::program!(main);

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;
const DEFAULT_INTERVAL: u64 = 100 * NANOSECONDS_PER_MILLISECOND;
/// Beats after which the worst lateness is printed.
const REPORT_EVERY: u64 = 10;

fn main(program: Program) -> Result<(), Failure> {
    let interval = match program.option("interval").map(milliseconds) {
        Some(None) => {
            println!("heartbeat: 'interval' must be milliseconds such as 100ms");
            return Err(Failure::call(Error::Invalid));
        }
        Some(Some(interval)) => interval,
        None => DEFAULT_INTERVAL,
    };
    beat(Timer::claim()?, interval)
}

fn milliseconds(word: &str) -> Option<u64> {
    let number: u64 = word.strip_suffix("ms")?.parse().ok()?;
    number.checked_mul(NANOSECONDS_PER_MILLISECOND).filter(|interval| *interval > 0)
}

fn beat(timer: Timer, interval: u64) -> Result<(), Failure> {
    let mut deadline = kip::now() + interval;
    let (mut beats, mut worst) = (0u64, 0u64);
    loop {
        timer.wait_until(deadline)?;
        let now = kip::now();
        worst = worst.max(now.saturating_sub(deadline));
        beats += 1;
        print!("heartbeat {beats}");
        if beats % REPORT_EVERY == 0 {
            print!(" worst {} us", worst / NANOSECONDS_PER_MICROSECOND);
        }
        println!();
        // A missed beat is not made up for: the next multiple of the interval counts.
        deadline += (now.saturating_sub(deadline) / interval + 1) * interval;
    }
}
