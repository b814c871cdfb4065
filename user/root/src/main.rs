// SPDX-License-Identifier: BSD-2-Clause
//! The root task: reads the boot configuration, starts the tasks, then serves them.

#![no_std]
#![no_main]

mod launch;
mod log;
mod machine;
mod service;

use keel_l4::abi::ids::TASK_FIRST_FREE;
use keel_l4::abi::memory::REGION_FREE;
use keel_l4::elf::{self, Image};
use keel_l4::info::{info, modules, regions};
use keel_l4::list::List;
use keel_l4::ranges::Range;
use keel_l4::{print, println};
use keel_root::config::{parse, Config, MAX_TASKS};
use keel_root::plan::{module, plan, Free, Module, Plan, PlanError, Problem};
use launch::Running;
use machine::{refuse, Claimed};
use service::Service;

keel_l4::entry!(main);

/// The module that holds the configuration.
const CONFIGURATION: &[u8] = b"boot.conf";
/// The log until the configuration was read.
const FIRST_LOG_PORT: u16 = 0x3e8;
/// Memory below stays with sigma0: firmware and the start of further processors need it.
const LOW_MEMORY: u64 = 1 << 20;
/// Boot modules.
const MAX_MODULES: usize = keel_l4::abi::memory::INFO_MODULES as usize;

extern "C" fn main(_: u64) -> ! {
    print::set_sink(log::write);
    machine::claim_exit();
    let mut claimed = Claimed::default();
    let modules = boot_modules();
    let config = configuration(&modules, &mut claimed);
    let images = images(&config, &modules, &mut claimed);
    let keep: List<Module<'_>, 1> = only(&modules);
    let plan = plan(&config, &modules, &images, &keep, free_memory()).unwrap_or_else(|error| refuse(error));
    fill(&config, &plan, &modules, &images, &mut claimed);
    let mut tasks = start(&config, &plan, &images);
    Service::new(&mut tasks, config.stop_on_panic).run()
}

fn boot_modules() -> List<Module<'static>, MAX_MODULES> {
    let mut list = List::new();
    for module in modules(info()) {
        // The page holds no more modules than the list.
        let _ = list.push(Module { name: module.name(), bytes: Range::new(module.start, module.end) });
    }
    list
}

/// The configuration's module, if there is one.
fn only<'a>(modules: &[Module<'a>]) -> List<Module<'a>, 1> {
    let mut list = List::new();
    if let Some(module) = modules.iter().find(|m| m.name == CONFIGURATION) {
        let _ = list.push(*module);
    }
    list
}

fn free_memory() -> Free {
    let mut free = Free::new();
    for region in regions(info()).filter(|r| r.kind == REGION_FREE) {
        let range = Range::new(region.start.max(LOW_MEMORY), region.end);
        // The page holds fewer regions than the set.
        let _ = free.insert(range.shrink_to(keel_l4::abi::fpage::PAGE_SIZE));
    }
    free
}

/// Opens the log and reads the configuration. Errors go to the line that the file names, if it
/// could be read that far, else to the first choice.
fn configuration(modules: &[Module<'_>], claimed: &mut Claimed) -> Config<'static> {
    let Some(file) = modules.iter().find(|m| m.name == CONFIGURATION) else {
        machine::open_log(FIRST_LOG_PORT);
        refuse("there is no boot module 'boot.conf'");
    };
    claimed.claim(file.pages());
    // SAFETY: claimed above; the plan keeps this module, so nobody ever writes there.
    match parse(unsafe { machine::bytes(file.bytes) }) {
        Ok(config) => {
            machine::open_log(config.log_port);
            config
        }
        Err(error) => {
            machine::open_log(FIRST_LOG_PORT);
            refuse(error)
        }
    }
}

fn images(config: &Config<'_>, modules: &[Module<'_>], claimed: &mut Claimed) -> List<Image, MAX_TASKS> {
    let mut images = List::new();
    for task in config.tasks.iter() {
        let file = module(modules, task.image).unwrap_or_else(|error| refuse(error));
        claimed.claim(file.pages());
        // SAFETY: claimed above; nothing is written before all images are loaded.
        let image = elf::parse(unsafe { machine::bytes(file.bytes) }).unwrap_or_else(|error| {
            refuse(PlanError { line: task.image.line, problem: Problem::BadImage(error), name: task.image.value })
        });
        // As many images as tasks.
        let _ = images.push(image);
    }
    images
}

/// Gets all memory of the plan and copies images and RAM disks into it.
fn fill(config: &Config<'_>, plan: &Plan, modules: &[Module<'_>], images: &[Image], claimed: &mut Claimed) {
    for ((task, share), image) in config.tasks.iter().zip(plan.iter()).zip(images) {
        let file = module(modules, task.image).unwrap_or_else(|error| refuse(error));
        launch::load(image, file, task.kind, share, claimed);
        if let Some(initrd) = share.initrd.filter(|i| i.copy) {
            launch::copy_initrd(task, modules, initrd.bytes, claimed);
        }
    }
    for share in plan.iter() {
        share.memory.iter().chain([share.extra]).for_each(|range| claimed.claim(range));
    }
}

/// Starts the tasks: numbers for themselves first, then the ranges they may use, each aligned to its size.
fn start<'a>(config: &Config<'a>, plan: &Plan, images: &[Image]) -> List<Running<'a>, MAX_TASKS> {
    let mut running = List::new();
    let mut next_range = TASK_FIRST_FREE as u32 + config.tasks.len() as u32;
    for (index, ((task, share), image)) in config.tasks.iter().zip(plan.iter()).zip(images).enumerate() {
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
        let _ = running.push(launch::start(config, index, share, image, number, first));
    }
    running
}
