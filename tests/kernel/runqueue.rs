// SPDX-License-Identifier: GPL-2.0-only
//! The run queue against a list for each priority.

use super::*;
use crate::base::Links;
use crate::random::Random;

struct Thread {
    number: usize,
    links: Links<Thread>,
}
linked!(Thread, Ready, links);

#[test]
fn picks_the_highest_priority_in_order_of_arrival() {
    let queue: RunQueue<Thread> = RunQueue::new();
    let threads: Vec<Ref<Thread>> = (0..300)
        // SAFETY: leaked, so it lives forever.
        .map(|number| unsafe { Ref::new(Box::leak(Box::new(Thread { number, links: Links::new() }))) })
        .collect();
    let mut model: Vec<Vec<usize>> = vec![Vec::new(); 256];
    let mut place: Vec<Option<u8>> = vec![None; threads.len()];
    let random = Random::new(3);
    for _ in 0..200_000 {
        let which = random.below(threads.len() as u64) as usize;
        match (random.below(3), place[which]) {
            (0, _) => {
                let expected = model.iter_mut().rev().find(|l| !l.is_empty()).map(|l| l.remove(0));
                let got = queue.pop().map(|t| t.number);
                assert_eq!(got, expected);
                if let Some(number) = got {
                    place[number] = None;
                }
            }
            (_, Some(priority)) => {
                queue.remove(threads[which], priority);
                model[priority as usize].retain(|n| *n != which);
                place[which] = None;
            }
            (front, None) => {
                let priority = random.below(256) as u8;
                place[which] = Some(priority);
                if front == 1 {
                    queue.push_front(threads[which], priority);
                    model[priority as usize].insert(0, which);
                } else {
                    queue.push_back(threads[which], priority);
                    model[priority as usize].push(which);
                }
            }
        }
        assert_eq!(queue.top().map(usize::from), model.iter().rposition(|l| !l.is_empty()));
    }
}
