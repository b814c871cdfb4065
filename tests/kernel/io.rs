// SPDX-License-Identifier: GPL-2.0-only
//! Ports against a model: for each pair of tasks which ports one got from the other, for each task which it has.

use super::*;
use crate::arch::Machine;
use crate::random::seed;
use crate::random::Random;
use crate::task;
use keel_abi::call::TASK_SHARED_QUOTA;
use keel_abi::ids::*;
use std::collections::{BTreeMap, BTreeSet};

/// Tasks; the first is sigma0.
const TASKS: usize = 7;
const OPERATIONS: u64 = 100_000;
const BETWEEN_LOOKS: u64 = 100;
/// Ports that operations name; the last ones of all are among them.
const REGIONS: [u16; 3] = [0, 0x3f0, 0xfff0];
const REGION: u64 = 16;

#[derive(Default)]
struct Model {
    has: [BTreeSet<u16>; TASKS],
    got: BTreeMap<(usize, usize), BTreeSet<u16>>,
    /// How far from sigma0 it got its first ports.
    depth: [Option<u8>; TASKS],
}

impl Model {
    fn map(&mut self, from: usize, to: usize, ports: &BTreeSet<u16>, grant: bool) -> Result<bool, Error> {
        let Some(depth) = self.depth[from] else { return Ok(false) };
        if from == to || self.has[from].is_disjoint(ports) {
            return Ok(false);
        }
        if depth >= MAX_DEPTH || self.depth[to].is_some_and(|other| other <= depth) {
            return Err(Error::Denied);
        }
        self.depth[to].get_or_insert(depth + 1);
        let new: BTreeSet<u16> =
            ports.iter().filter(|p| self.has[from].contains(p) && !self.has[to].contains(p)).copied().collect();
        self.has[to].extend(&new);
        self.got.entry((from, to)).or_default().extend(&new);
        if grant {
            self.has[from].retain(|port| !ports.contains(port));
        }
        Ok(true)
    }

    fn take_back(&mut self, task: usize, ports: &BTreeSet<u16>) {
        for to in 0..TASKS {
            let Some(given) = self.got.get_mut(&(task, to)) else { continue };
            let gone: BTreeSet<u16> = given.intersection(ports).copied().collect();
            given.retain(|port| !gone.contains(port));
            self.has[to].retain(|port| !gone.contains(port));
            if !gone.is_empty() {
                self.take_back(to, &gone);
            }
        }
    }

    fn delete(&mut self, task: usize) {
        self.take_back(task, &(0..=u16::MAX).collect());
        self.got.retain(|(from, to), _| *from != task && *to != task);
        self.has[task].clear();
        self.depth[task] = None;
    }
}

fn create(number: u32) -> Ref<Task> {
    let (chief, quota) = (task::at(TASK_ROOT as u32), TASK_SHARED_QUOTA);
    task::create(&task::Plan { number, chief, mcp: 0, quota, area: 0 }).expect("there is memory")
}

/// Whether a task has each port of the regions, as the processor would be told.
fn look(tasks: &[Ref<Task>], model: &Model) {
    for (number, task) in tasks.iter().enumerate() {
        let has = |port: u16| {
            task.io.get().is_some_and(|io| word(&io.bitmap, port as usize / 64).get() >> (port % 64) & 1 == 0)
        };
        for port in REGIONS.iter().flat_map(|first| (0..REGION as u16).map(move |n| first + n)) {
            assert_eq!(has(port), model.has[number].contains(&port), "task {number}, port {port:#x}");
        }
        assert_eq!(task.io.get().map(|io| io.depth), model.depth[number], "task {number}");
    }
}

#[test]
fn ports_agree_with_a_model_of_each() {
    let (seed, machine) = (seed(0x10), Machine::take());
    println!("ports: seed {seed}");
    machine.disturb(50, None);
    let random = Random::new(seed);
    let before = POOL.free_pages.get();
    let number = |task: usize| TASK_FIRST_FREE as u32 + task as u32;
    let mut tasks = vec![task::at(TASK_SIGMA0 as u32).expect("it is there")];
    tasks.extend((1..TASKS).map(|task| create(number(task))));
    let mut model = Model::default();
    model.has[0] = (0..=u16::MAX).collect();
    model.depth[0] = Some(0);
    // sigma0 gets its ports when it first gives some.
    assert_eq!(map(tasks[0], tasks[1], 0, 0, false), model.map(0, 1, &BTreeSet::from([0]), false));
    for step in 0..OPERATIONS {
        let pick = |from: usize| from + random.below((TASKS - from) as u64) as usize;
        let log2 = random.below(5) as u8;
        let first = (REGIONS[random.below(3) as usize] + random.below(REGION) as u16) >> log2 << log2;
        let ports: BTreeSet<u16> = (0..1 << log2).map(|n| first + n).collect();
        match random.below(20) {
            0..=10 => {
                let (from, to, grant) = (pick(0), pick(1), random.below(4) == 0);
                let grant = grant && from > 0;
                let told = map(tasks[from], tasks[to], first, log2, grant);
                assert_eq!(told, model.map(from, to, &ports, grant), "step {step}, seed {seed}");
            }
            11..=18 => {
                let (task, itself) = (pick(0), random.below(2) == 0);
                unmap(tasks[task], first, log2, itself);
                model.take_back(task, &ports);
                if itself && task > 0 {
                    model.has[task].retain(|port| !ports.contains(port));
                }
            }
            _ => {
                let gone = pick(1);
                task::delete(tasks[gone]);
                model.delete(gone);
                tasks[gone] = create(number(gone));
            }
        }
        if step % BETWEEN_LOOKS == 0 {
            look(&tasks, &model);
        }
    }
    tasks[1..].iter().for_each(|task| task::delete(*task));
    drop_space(tasks[0]);
    machine.check().expect("the kernel is sound");
    assert_eq!(POOL.free_pages.get(), before, "pages in use, seed {seed}");
    println!("ports: {OPERATIONS} operations, seed {seed}");
}
