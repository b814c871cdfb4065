// SPDX-License-Identifier: BSD-2-Clause
//! Creates the tasks from the boot modules: all of them at the start, and later one that failed.
//!
//! A restarted task has the number, memory, ports and interrupts of the failed one. First the
//! failed task is deleted, with all tasks that it created, and its devices lose access to memory.
//! Meanwhile the root task has the failed task's priority, so that tasks of higher priority
//! continue, and it serves the other tasks between steps. During the deletion its priority is just
//! above all that the failed task's threads can have.

use crate::iommu::Iommu;
use crate::launch::{self, Running};
use crate::machine::{refuse, Claimed};
use crate::pci;
use crate::service::Service;
use crate::MAX_MODULES;
use keel_l4::abi::call::{ACCOUNT_USED, SCHEDULE_PRIORITY};
use keel_l4::abi::fpage::FPAGE_RWX;
use keel_l4::abi::ids::TASK_FIRST_FREE;
use keel_l4::elf::Image;
use keel_l4::list::List;
use keel_l4::mapping::{blocks, unmap};
use keel_l4::server::serve_waiting;
use keel_l4::{kernel_object, println, task, thread, utcb, Fpage, Id};
use keel_root::config::{Config, MAX_TASKS};
use keel_root::plan::{module, Module, Plan};

/// Everything that is needed to create tasks.
pub struct Maker<'a> {
    /// The configuration.
    pub config: Config<'a>,
    /// The memory of each task.
    pub plan: Plan,
    /// The boot modules.
    pub modules: List<Module<'a>, MAX_MODULES>,
    /// The tasks' images.
    pub images: List<Image, MAX_TASKS>,
    /// The memory that the root task has.
    pub claimed: Claimed,
    /// The IOMMU, if it confines devices.
    pub iommu: Option<&'a Iommu>,
}

impl<'a> Maker<'a> {
    /// Claims all memory of the plan and copies images and RAM disks into it.
    pub fn fill(&mut self) {
        for index in 0..self.plan.len() {
            self.load(index, &mut || ());
        }
        for share in self.plan.iter() {
            share.memory.iter().chain([share.extra]).for_each(|range| self.claimed.claim(range));
        }
    }

    /// Copies the image and the RAM disk of a task to their places. Calls `pause` on the way.
    fn load(&mut self, index: usize, pause: &mut dyn FnMut()) {
        let (task, share) = (&self.config.tasks[index], &self.plan[index]);
        let file = module(&self.modules, task.image).unwrap_or_else(|error| refuse(error));
        launch::load(&self.images[index], file, task.kind, share, &mut self.claimed, pause);
        if let Some(initrd) = share.initrd.filter(|initrd| initrd.copy) {
            launch::copy_initrd(task, &self.modules, initrd.bytes, &mut self.claimed, pause);
        }
    }

    /// Starts the tasks. First come their own numbers, then the ranges of numbers that they may
    /// use, each aligned to its size.
    pub fn start(&self) -> List<Running<'a>, MAX_TASKS> {
        let mut running = List::default();
        let mut next_range = TASK_FIRST_FREE as u32 + self.config.tasks.len() as u32;
        for (index, (task, share)) in self.config.tasks.iter().zip(self.plan.iter()).enumerate() {
            let first = next_range.next_multiple_of((task.tasks as u32).max(1));
            next_range = first + task.tasks as u32;
            let number = TASK_FIRST_FREE as u32 + index as u32;
            println!(
                "root: task {}: number {number}, priority {}, image {} KB at {:#x}, memory {} MB",
                task.name.value,
                task.priority,
                share.image.size() >> 10,
                share.image.start,
                share.memory.total() >> 20
            );
            let _ = running.push(self.start_one(index, number, first));
        }
        running
    }

    fn start_one(&self, index: usize, number: u32, first: u32) -> Running<'a> {
        launch::start(&self.config, index, &self.plan[index], &self.images[index], self.iommu, [number, first])
    }

    /// Unmaps the memory of a deleted task from all tasks to which it granted some; the mappings
    /// that it made by map ended with it. Before the deletion its threads on other processors could
    /// map faster than this call unmaps.
    fn take_memory(&self, index: usize) {
        for range in self.plan[index].memory.iter() {
            for (at, log2) in blocks(range.start, range.start, range.end) {
                // Memory that was not mapped to the task need not be unmapped.
                let _ = unmap(Fpage::memory(at, log2, FPAGE_RWX), FPAGE_RWX);
            }
        }
    }

    /// Deletes the failed task and starts it again.
    pub fn restart(&mut self, service: &mut Service<'a>, index: usize) {
        let Running { name, number, first_number, .. } = service.tasks[index];
        let task = &self.config.tasks[index];
        // Above all of the task's threads, which may spin. Tasks of higher priority continue.
        let ours = set_priority(task.priority + launch::PRIORITIES_ABOVE + 1);
        if let Err(failure) = task::delete(number, utcb::my_id()) {
            refuse(format_args!("task {name} cannot be deleted: {failure}"));
        }
        self.take_memory(index);
        set_priority(task.priority);
        if task.hardware {
            pci::silence(&mut || serve_waiting(service));
        }
        let used = kernel_object::account(Id::NIL).map_or(0, |words| words[ACCOUNT_USED as usize]);
        self.load(index, &mut || serve_waiting(service));
        service.tasks[index] = self.start_one(index, number, first_number);
        set_priority(ours);
        println!("root: task {name}: restarted, {used} pages of kernel memory were in use without it");
    }
}

/// Sets the root task's priority and returns the old one.
pub fn set_priority(priority: u64) -> u64 {
    let done = thread::schedule(utcb::my_id(), SCHEDULE_PRIORITY, priority, 0);
    done.unwrap_or_else(|failure| refuse(format_args!("the root task's priority: {failure}"))).priority
}
