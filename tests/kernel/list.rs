// SPDX-License-Identifier: GPL-2.0-only
//! Linked lists against a deque.

use super::*;
use std::collections::VecDeque;

struct Item {
    number: u32,
    links: Links<Item>,
}
struct All;
linked!(Item, All, links);

fn item(number: u32) -> Ref<Item> {
    let leaked = Box::leak(Box::new(Item { number, links: Links::new() }));
    // SAFETY: leaked, so it lives forever.
    unsafe { Ref::new(leaked) }
}

#[test]
fn behaves_as_a_deque_under_random_operations() {
    let list: List<Item, All> = List::new();
    let mut model = VecDeque::new();
    let random = crate::random::Random::new(7);
    for number in 0..20_000 {
        match random.below(5) {
            0 => {
                let new = item(number);
                list.push_back(new);
                model.push_back(new);
            }
            1 => {
                let new = item(number);
                list.push_front(new);
                model.push_front(new);
            }
            2 => {
                assert_eq!(list.first().map(|i| i.number), model.front().map(|i| i.number));
                if let Some(first) = model.pop_front() {
                    list.remove(first);
                }
            }
            _ if !model.is_empty() => {
                let victim = model.remove(random.below(model.len() as u64) as usize).unwrap();
                list.remove(victim);
            }
            _ => assert!(list.is_empty()),
        }
    }
    let mut walk = list.first();
    for expected in model {
        assert_eq!(walk.unwrap().number, expected.number);
        walk = list.next(expected);
    }
    assert!(walk.is_none());
}
