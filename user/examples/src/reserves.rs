// SPDX-License-Identifier: BSD-2-Clause
//! Reservations of processor time: a budget in each period. The shorter the period, the higher the
//! priority (Liu and Layland, "Scheduling algorithms for multiprogramming in a hard-real-time
//! environment", 1973).

use keel_l4::list::List;
use keel_l4::{Error, Id};

/// The whole processor time, in thousandths.
const WHOLE: u64 = 1000;
/// The thousandths that may be reserved: ln 2. Up to this limit every thread gets its budget in
/// every period, whatever the periods are.
const RESERVED: u64 = 693;

/// One thread's reservation. Times are in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Reserve {
    thread: Id,
    budget: u64,
    period: u64,
    /// When its next period begins.
    next: u64,
    /// Its budget is used up: it waits for the next period.
    waits: bool,
}

impl Reserve {
    fn share(&self) -> u64 {
        (self.budget * WHOLE).div_ceil(self.period)
    }
}

/// A thread whose period begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Turn {
    /// The thread.
    pub thread: Id,
    /// Its budget in nanoseconds.
    pub budget: u64,
    /// Whether it waits for the answer of its preempter.
    pub waits: bool,
}

/// At most `N` reservations, those with the longest periods first.
#[derive(Debug)]
pub struct Reserves<const N: usize> {
    list: List<Reserve, N>,
}

impl<const N: usize> Reserves<N> {
    /// Nothing is reserved.
    pub const fn new() -> Reserves<N> {
        Reserves { list: List::empty(Reserve { thread: Id::NIL, budget: 0, period: 1, next: 0, waits: false }) }
    }

    /// Reserves `budget` of each `period`; the first period begins at `now`. `Denied` if too much
    /// would be reserved.
    pub fn add(&mut self, thread: Id, budget: u64, period: u64, now: u64) -> Result<(), Error> {
        if budget == 0 || budget > period || period > u64::MAX / WHOLE {
            return Err(Error::Invalid);
        }
        if self.list.iter().any(|other| other.thread == thread) {
            return Err(Error::Busy);
        }
        let new = Reserve { thread, budget, period, next: now.saturating_add(period), waits: false };
        if self.list.iter().chain([&new]).map(Reserve::share).sum::<u64>() > RESERVED {
            return Err(Error::Denied);
        }
        let place = self.list.partition_point(|other| other.period >= period);
        self.list.replace(place..place, &[new]).map_err(|_| Error::NoMemory)
    }

    /// The threads, lowest priority first.
    pub fn threads(&self) -> impl Iterator<Item = Id> + '_ {
        self.list.iter().map(|reserve| reserve.thread)
    }

    /// Records that a thread used up its budget at `time`. Returns whether it waits for its next
    /// period, which has not begun since.
    pub fn spend(&mut self, thread: Id, time: u64) -> bool {
        let spender = self.list.iter_mut().find(|reserve| reserve.thread == thread);
        spender.is_some_and(|reserve| {
            reserve.waits = time >= reserve.next - reserve.period;
            reserve.waits
        })
    }

    /// A thread whose next period has begun at `now`, and which has its whole budget again.
    pub fn begin(&mut self, now: u64) -> Option<Turn> {
        let reserve = self.list.iter_mut().find(|reserve| reserve.next <= now)?;
        reserve.next = reserve.next.saturating_add(reserve.period);
        let waits = core::mem::take(&mut reserve.waits);
        Some(Turn { thread: reserve.thread, budget: reserve.budget, waits })
    }

    /// When the next period begins.
    pub fn next(&self) -> Option<u64> {
        self.list.iter().map(|reserve| reserve.next).min()
    }
}

impl<const N: usize> Default for Reserves<N> {
    fn default() -> Reserves<N> {
        Reserves::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Id = Id(0x10);
    const B: Id = Id(0x20);
    const C: Id = Id(0x30);

    #[test]
    fn no_more_is_reserved_than_is_there_for_all() {
        let mut reserves: Reserves<2> = Reserves::new();
        for (budget, period) in [(0, 10), (11, 10), (1, 0), (1, u64::MAX)] {
            assert_eq!(reserves.add(A, budget, period, 0), Err(Error::Invalid));
        }
        assert_eq!(reserves.add(A, 3, 10, 0), Ok(()));
        assert_eq!((reserves.add(A, 1, 10, 0), reserves.add(B, 4, 10, 0)), (Err(Error::Busy), Err(Error::Denied)));
        assert_eq!(reserves.add(B, 39, 100, 0), Ok(()));
        assert_eq!(reserves.add(C, 1, 1000, 0), Err(Error::NoMemory));
    }

    #[test]
    fn the_shortest_period_is_the_most_important() {
        let mut reserves: Reserves<3> = Reserves::new();
        for (thread, period) in [(A, 20), (B, 10), (C, 30)] {
            reserves.add(thread, 1, period, 0).unwrap();
        }
        assert_eq!(reserves.threads().collect::<Vec<_>>(), [C, A, B]);
    }

    #[test]
    fn each_period_brings_the_budget_back_once() {
        let mut reserves: Reserves<2> = Reserves::new();
        reserves.add(A, 1, 10, 100).unwrap();
        assert_eq!((reserves.begin(109), reserves.next()), (None, Some(110)));
        assert!(reserves.spend(A, 105) && !reserves.spend(B, 105));
        assert_eq!(reserves.begin(112), Some(Turn { thread: A, budget: 1, waits: true }));
        assert_eq!((reserves.begin(112), reserves.next()), (None, Some(120)));
        assert_eq!(reserves.begin(120), Some(Turn { thread: A, budget: 1, waits: false }));
    }

    #[test]
    fn what_was_spent_before_the_period_counts_for_the_one_before() {
        let mut reserves: Reserves<1> = Reserves::new();
        reserves.add(A, 1, 10, 100).unwrap();
        reserves.begin(110);
        assert!(!reserves.spend(A, 109));
        assert!(reserves.spend(A, 110));
    }
}
