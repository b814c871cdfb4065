// SPDX-License-Identifier: BSD-2-Clause
//! Sleeping clients and their wake-up times, sorted by time.

use keel_l4::list::{Full, List};
use keel_l4::Id;

/// At most `N` sleepers.
#[derive(Debug)]
pub struct Deadlines<const N: usize> {
    list: List<(u64, Id), N>,
}

impl<const N: usize> Deadlines<N> {
    /// No sleepers.
    pub const fn new() -> Deadlines<N> {
        Deadlines { list: List::empty((0, Id::NIL)) }
    }

    /// Adds a sleeper. Of two with the same time, the first added is woken first.
    pub fn add(&mut self, time: u64, sleeper: Id) -> Result<(), Full> {
        let place = self.list.partition_point(|(other, _)| *other <= time);
        self.list.replace(place..place, &[(time, sleeper)])
    }

    /// Removes and returns a sleeper whose time has come at `now`.
    pub fn due(&mut self, now: u64) -> Option<Id> {
        let (_, sleeper) = *self.list.first().filter(|(time, _)| *time <= now)?;
        self.list.remove(0, 1);
        Some(sleeper)
    }

    /// The earliest time.
    pub fn next(&self) -> Option<u64> {
        self.list.first().map(|(time, _)| *time)
    }
}

impl<const N: usize> Default for Deadlines<N> {
    fn default() -> Deadlines<N> {
        Deadlines::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_goes_first_and_nobody_before_time() {
        let mut deadlines: Deadlines<4> = Deadlines::new();
        for (time, sleeper) in [(30, 1), (10, 2), (20, 3), (10, 4)] {
            deadlines.add(time, Id(sleeper)).unwrap();
        }
        assert_eq!((deadlines.add(5, Id(5)), deadlines.next()), (Err(Full), Some(10)));
        assert_eq!(deadlines.due(9), None);
        let order: Vec<u64> = core::iter::from_fn(|| deadlines.due(25)).map(|id| id.0).collect();
        assert_eq!((order, deadlines.next()), (vec![2, 4, 3], Some(30)));
    }
}
