// SPDX-License-Identifier: BSD-2-Clause
//! A real-time task: prints its beat at a fixed interval and, every ten beats, how late the worst
//! of them was. It runs beside Linux and shows that Linux cannot hold it up.

#![no_std]
#![no_main]

use keel_l4::ipc::{receive, Timeout};
use keel_l4::{info, print, println, record, source, start, Id};

keel_l4::entry!(main);

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;
const NANOSECONDS_PER_MICROSECOND: u64 = 1_000;
const DEFAULT_INTERVAL: u64 = 100 * NANOSECONDS_PER_MILLISECOND;
/// Beats after which the worst lateness is told.
const REPORT_EVERY: u64 = 10;

extern "C" fn main(argument: u64) -> ! {
    // SAFETY: the root task started this program with the address of its record.
    let line = unsafe { record::at(argument) }.map_or("", record::command_line);
    let interval = match record::option(line, "interval").map(milliseconds) {
        Some(None) => {
            println!("heartbeat: 'interval' must be milliseconds such as 100ms");
            start::stop();
        }
        Some(Some(interval)) => interval,
        None => DEFAULT_INTERVAL,
    };
    match source::claim_timer() {
        Ok(timer) => beat(timer, interval),
        Err(failure) => {
            println!("heartbeat: no timer: {failure}");
            start::stop();
        }
    }
}

fn milliseconds(word: &str) -> Option<u64> {
    let number: u64 = word.strip_suffix("ms")?.parse().ok()?;
    number.checked_mul(NANOSECONDS_PER_MILLISECOND).filter(|interval| *interval > 0)
}

fn beat(timer: Id, interval: u64) -> ! {
    let mut deadline = info::now() + interval;
    let (mut beats, mut worst) = (0u64, 0u64);
    loop {
        let received = source::set_timer(timer, deadline).and_then(|()| receive(timer, Timeout::Never));
        if let Err(failure) = received {
            println!("heartbeat: the timer fails: {failure}");
            start::stop();
        }
        let now = info::now();
        worst = worst.max(now.saturating_sub(deadline));
        beats += 1;
        print!("heartbeat {beats}");
        if beats % REPORT_EVERY == 0 {
            print!(" worst {} us", worst / NANOSECONDS_PER_MICROSECOND);
        }
        println!();
        // A beat that was missed altogether is not made up for: the next multiple counts.
        deadline += (now.saturating_sub(deadline) / interval + 1) * interval;
    }
}
