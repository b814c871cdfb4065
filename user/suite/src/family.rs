// SPDX-License-Identifier: BSD-2-Clause
//! Clans for cases: a tree of tasks that share the suite's memory, each the chief of the tasks
//! below it. Every task has a slot, in which all tasks find its id.

use crate::pool::{cell, stack, task_number};
use crate::threads::{base_priority, child_plan, make_child, own, pager, park, Child, Main, Spawn, PAGER};
use core::sync::atomic::Ordering::SeqCst;
use keel_l4::abi::memory::AREA_DEFAULT;
use keel_l4::call::Failure;
use keel_l4::ipc::{receive, send, wait, Message, Timeout};
use keel_l4::task::{create, hand_over, NewTask};
use keel_l4::{thread, utcb, Id};

/// A task of a family: its slot, the main function of its first lthread, and the tasks that it
/// creates before.
pub struct Member {
    /// From 1 on.
    pub slot: usize,
    /// Runs after its clan was created.
    pub main: Main,
    /// Its clan.
    pub clan: &'static [Member],
}

/// The first cell with an id. There are as many as slots.
const IDS: usize = 20;
/// The slot of the thread that created the family.
pub const WORKER: usize = 0;
/// Lthread number of the pager that every chief has for its clan.
pub const CLAN_PAGER: u16 = 1;
/// Quota of a family.
const QUOTA: u64 = 800;

impl Member {
    /// Tasks below it.
    fn below(&self) -> u32 {
        self.clan.iter().map(|member| 1 + member.below()).sum()
    }
}

/// The id of the thread at `slot`.
pub fn at(slot: usize) -> Id {
    Id(cell(IDS + slot).load(SeqCst))
}

/// Stores the id of the thread at a slot.
pub fn place(slot: usize, id: Id) {
    cell(IDS + slot).store(id.0, SeqCst);
}

/// Creates a family whose first task is a child of the suite, and stores the caller's id for its
/// tasks.
pub fn found(member: &'static Member) -> Result<Child, Failure> {
    place(WORKER, utcb::my_id());
    let plan = NewTask { quota: QUOTA, ..child_plan(start, member as *const Member as u64) };
    let numbers = plan.number + 1..plan.number + 1 + member.below();
    numbers.clone().for_each(|number| assert!(task_number() == number, "task numbers follow one another"));
    let child = make_child(&plan)?;
    introduce(member, child.thread, numbers.start, own(PAGER))?;
    Ok(child)
}

/// Gives a new task its numbers, sends it the first of them and its pager's id, and waits until its
/// clan was created.
fn introduce(member: &Member, id: Id, first: u32, pager: Id) -> Result<(), Failure> {
    place(member.slot, id);
    for number in first..first + member.below() {
        hand_over(number, 0, thread::task_of(id))?;
    }
    send(id, Message::new(0, &[first as u64, pager.0]), Timeout::Never)?;
    receive(id, Timeout::Never).map(|_| ())
}

extern "C" fn start(member: u64) -> ! {
    // SAFETY: the creator passed the address of a static of the suite's image, which this task
    // shares.
    let member = unsafe { &*(member as *const Member) };
    let founded = wait(Timeout::Never).and_then(|go| {
        create_clan(member, go.words[0] as u32, Id(go.words[1]))?;
        send(go.from, Message::label(0), Timeout::Never)
    });
    match founded {
        Ok(()) => (member.main)(0),
        // The creator waits without success, and the case fails.
        Err(_) => park(),
    }
}

fn create_clan(member: &Member, mut number: u32, pages_from: Id) -> Result<(), Failure> {
    if member.clan.is_empty() {
        return Ok(());
    }
    let pager = Spawn { number: CLAN_PAGER, pager: pages_from, ..Spawn::new(pager, 0) }.start()?;
    for inner in member.clan {
        let plan = NewTask {
            number,
            max_priority: base_priority(),
            ip: start as Main as usize as u64,
            sp: stack(),
            pager: pager.0,
            quota: 0,
            area: AREA_DEFAULT,
            argument: inner as *const Member as u64,
            upper_half: false,
            supervisor: false,
            resident: false,
        };
        let task = create(&plan)?;
        introduce(inner, thread::first_of(task), number + 1, pager)?;
        number += 1 + inner.below();
    }
    Ok(())
}
