// SPDX-License-Identifier: GPL-2.0-only
//! The routing of messages between clans against a model in which a task is the path to it.

use super::*;
use crate::object::{task, PoolPage, TaskNumber, POOL};
use crate::random::Random;

const ROUNDS: usize = 150;
const PAIRS: usize = 2_000;
const TASKS: usize = 60;
const DEEPEST: usize = 15;

/// A task without a space: only its number and its chief matter.
fn member(number: usize, chief: Option<Ref<Task>>) -> Ref<Task> {
    let number = TaskNumber::new(number as u32);
    let plan =
        task::Plan { number, chief, mcp: 0, quota: 0, area: 0, upper: false, supervisor: false, resident: false };
    Ref::to(Box::leak(Box::new(Task::new(&plan, 1, 1, Ref::to(&POOL.root), PoolPage::NONE))))
}

/// The tasks from the outermost clan down to this one.
fn path(task: Ref<Task>) -> Vec<usize> {
    let mut path = task.chief.map_or(Vec::new(), path);
    path.push(task.number.raw() as usize);
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

fn receiver(from: Ref<Task>, to: Ref<Task>) -> Ref<Task> {
    nearest(from, to).map_or(to, |(chief, _)| chief)
}

fn tree(random: &Random) -> Vec<Ref<Task>> {
    let (mut tasks, mut depths) = (vec![member(0, None), member(1, None)], vec![1, 1]);
    for number in 2..TASKS {
        // The latest task is chosen more often than others, so that the tree gets deep.
        let chosen = if random.below(2) == 0 { number - 1 } else { random.below(number as u64) as usize };
        let chief = if depths[chosen] < DEEPEST { chosen } else { 0 };
        tasks.push(member(number, Some(tasks[chief])));
        depths.push(depths[chief] + 1);
    }
    tasks
}

#[test]
fn agrees_with_paths_over_random_trees() {
    let random = Random::new(11);
    for _ in 0..ROUNDS {
        let tasks = tree(&random);
        for _ in 0..PAIRS {
            let any = || tasks[random.below(TASKS as u64) as usize];
            let (from, to) = (any(), any());
            let (from_path, to_path) = (path(from), path(to));
            let (expected, itself) = model(&from_path, &to_path);
            assert_eq!(receiver(from, to).number.raw() as usize, expected, "{from_path:?} to {to_path:?}");
            let above = |(chief, relation)| (Some(chief) == from.chief, relation == NEAREST_OUTER);
            assert!(nearest(from, to).map(above).is_none_or(|(is_own, is_outer)| is_own == is_outer));
            assert_eq!(is_same_clan(from, to), itself);
            assert_eq!(is_same_clan(from, to), is_same_clan(to, from));
            assert_eq!(is_inside(to, from), to != from && to_path.starts_with(&from_path));
        }
    }
}

#[test]
fn chiefs_that_pass_on_as_the_sender_bring_every_message_to_its_end() {
    let random = Random::new(12);
    for _ in 0..ROUNDS {
        let tasks = tree(&random);
        for _ in 0..PAIRS {
            let any = || tasks[random.below(TASKS as u64) as usize];
            let (from, to) = (any(), any());
            let (mut at, mut hops) = (receiver(from, to), 0);
            while at != to {
                assert!(is_inside(from, at) != is_inside(to, at), "{:?} may pass on as {:?}", at.id(), from.id());
                at = receiver(at, to);
                hops += 1;
                assert!(hops <= 2 * DEEPEST);
            }
        }
    }
}
