// SPDX-License-Identifier: GPL-2.0-only
//! The routing of messages between clans against a model in which a task is the path to it.

use super::*;
use crate::random::Random;

const ROUNDS: usize = 150;
const PAIRS: usize = 2_000;
const TASKS: usize = 60;
const DEEPEST: usize = 15;

/// A task: its number, and the chief of every task.
#[derive(Clone, Copy, Debug)]
struct Node<'a>(usize, &'a [Option<usize>]);

impl PartialEq for Node<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Member for Node<'_> {
    fn chief(self) -> Option<Self> {
        self.1[self.0].map(|chief| Node(chief, self.1))
    }
}

/// The tasks from the outermost clan down to this one.
fn path(node: Node<'_>) -> Vec<usize> {
    let mut path = node.chief().map_or(Vec::new(), path);
    path.push(node.0);
    path
}

/// The receiver, and whether it is the destination: computed from the common part of the two paths.
fn model(from: &[usize], to: &[usize]) -> (usize, bool) {
    let common = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let receiver = match common {
        // The same task, or one below it: a member of its own clan.
        n if n == from.len() => to[n.min(to.len() - 1)],
        // A neighbour, or one below a neighbour.
        n if n + 1 == from.len() && n < to.len() => to[n],
        _ => from[from.len() - 2],
    };
    (receiver, receiver == to[to.len() - 1])
}

fn receiver<'a>(from: Node<'a>, to: Node<'a>) -> Node<'a> {
    match nearest(from, to) {
        Nearest::Itself => to,
        Nearest::Outer(node) | Nearest::Inner(node) => node,
    }
}

fn tree(random: &Random) -> Vec<Option<usize>> {
    let (mut chiefs, mut depths) = (vec![None, None], vec![1, 1]);
    for number in 2..TASKS {
        // The latest task is chosen more often than others, so that the tree gets deep.
        let chosen = if random.below(2) == 0 { number - 1 } else { random.below(number as u64) as usize };
        let chief = if depths[chosen] < DEEPEST { chosen } else { 0 };
        chiefs.push(Some(chief));
        depths.push(depths[chief] + 1);
    }
    chiefs
}

#[test]
fn agrees_with_paths_over_random_trees() {
    let random = Random::new(11);
    for _ in 0..ROUNDS {
        let chiefs = tree(&random);
        for _ in 0..PAIRS {
            let node = || Node(random.below(TASKS as u64) as usize, &chiefs);
            let (from, to) = (node(), node());
            let (expected, itself) = model(&path(from), &path(to));
            assert_eq!(receiver(from, to).0, expected, "{} to {} in {chiefs:?}", from.0, to.0);
            assert_eq!(is_same_clan(from, to), itself);
            assert_eq!(is_same_clan(from, to), is_same_clan(to, from));
            assert_eq!(is_inside(to, from), to != from && path(to).starts_with(&path(from)));
        }
    }
}

#[test]
fn chiefs_that_pass_on_as_the_sender_bring_every_message_to_its_end() {
    let random = Random::new(12);
    for _ in 0..ROUNDS {
        let chiefs = tree(&random);
        for _ in 0..PAIRS {
            let node = || Node(random.below(TASKS as u64) as usize, &chiefs);
            let (from, to) = (node(), node());
            let (mut at, mut hops) = (receiver(from, to), 0);
            while at != to {
                assert!(is_inside(from, at) != is_inside(to, at), "{} may pass on as {}", at.0, from.0);
                at = receiver(at, to);
                hops += 1;
                assert!(hops <= 2 * DEEPEST);
            }
        }
    }
}
