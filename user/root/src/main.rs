// SPDX-License-Identifier: BSD-2-Clause
//! The root task: parses the boot configuration, starts the tasks, then serves them. It owns all
//! memory that sigma0 gives out, and the log.

#![no_std]
#![no_main]

mod iommu;
mod launch;
mod log;
mod machine;
mod pci;
mod restart;
mod service;
mod shutdown;

use iommu::Iommu;
use keel_l4::abi::memory::REGION_FREE;
use keel_l4::elf::{self, Image};
use keel_l4::kip::{kip, modules, regions};
use keel_l4::list::List;
use keel_l4::print;
use keel_l4::ranges::Range;
use keel_root::config::{parse, Config, MAX_TASKS};
use keel_root::plan::{module, plan, Free, Module, PlanError, Problem};
use machine::{refuse, Claimed};
use restart::Maker;
use service::Service;

keel_l4::entry!(main);

/// The name of the module with the configuration.
const CONFIGURATION: &[u8] = b"boot.conf";
/// The log until the configuration is parsed.
const FIRST_LOG_PORT: u16 = 0x3e8;
/// Memory below stays with sigma0: the firmware and the start of further processors need it.
const LOW_MEMORY: u64 = 1 << 20;
/// Boot modules.
const MAX_MODULES: usize = keel_l4::abi::memory::KIP_MODULES as usize;

unsafe extern "C" {
    static __image_start: u8;
    static __image_end: u8;
}

/// Maps the whole image, so that its mappings take the same kernel memory from the start, whatever
/// happens later.
fn touch_image() {
    let image = &raw const __image_start as u64..&raw const __image_end as u64;
    for page in image.step_by(keel_l4::abi::fpage::PAGE_SIZE as usize) {
        // SAFETY: the image's bytes are readable.
        core::hint::black_box(unsafe { (page as *const u8).read_volatile() });
    }
}

extern "C" fn main(_: u64) -> ! {
    touch_image();
    print::set_sink(log::write);
    shutdown::find_exit();
    let mut claimed = Claimed::default();
    let modules = boot_modules();
    let config = configuration(&modules, &mut claimed);
    if !config.halts_at_shutdown {
        shutdown::find();
    }
    let images = images(&config, &modules, &mut claimed);
    let keep = kept(&config, &modules);
    let mut free = free_memory();
    let iommu = Iommu::find(&config, &mut free);
    let plan = plan(&config, &modules, &images, &keep, free).unwrap_or_else(|error| refuse(error));
    let mut maker = Maker { config, plan, modules, images, claimed, iommu: iommu.as_ref() };
    maker.fill();
    if let Some(iommu) = maker.iommu {
        iommu.confine(&maker.config, &maker.plan, &mut maker.claimed);
    }
    let mut tasks = maker.start();
    Service::new(&mut tasks, &maker.config, maker.iommu).run(&mut maker)
}

fn boot_modules() -> List<Module<'static>, MAX_MODULES> {
    let mut list = List::default();
    for module in modules(kip()) {
        // The KIP has no more modules than the list has room for.
        let _ = list.push(Module { name: module.name(), bytes: Range::new(module.start, module.end) });
    }
    list
}

/// The modules that stay in place: the configuration, and modules of tasks that may be restarted.
fn kept<'a>(config: &Config<'_>, modules: &[Module<'a>]) -> List<Module<'a>, MAX_MODULES> {
    let again = |name: &[u8]| {
        let mut tasks = config.tasks.iter().filter(|task| config.may_restart(task));
        tasks.any(|task| task.initrd.iter().chain([&task.image]).any(|module| module.value.as_bytes() == name))
    };
    let mut list = List::default();
    for module in modules.iter().filter(|module| module.name == CONFIGURATION || again(module.name)) {
        // The list has room for all modules.
        let _ = list.push(*module);
    }
    list
}

fn free_memory() -> Free {
    let mut free = Free::default();
    for region in regions(kip()).filter(|r| r.kind == REGION_FREE) {
        let range = Range::new(region.start.max(LOW_MEMORY), region.end);
        // The KIP has fewer regions than the set has room for.
        let _ = free.insert(range.shrink_to(keel_l4::abi::fpage::PAGE_SIZE));
    }
    free
}

/// Opens the log and parses the configuration. Errors are logged to the line that the file names,
/// if the parser got as far as that, otherwise to the default line.
fn configuration(modules: &[Module<'_>], claimed: &mut Claimed) -> Config<'static> {
    let Some(file) = modules.iter().find(|m| m.name == CONFIGURATION) else {
        machine::open_log(FIRST_LOG_PORT);
        refuse("there is no boot module 'boot.conf'");
    };
    claimed.claim(file.pages());
    // SAFETY: claimed above; the plan keeps this module, so nothing ever writes there.
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
    let mut images = List::default();
    for task in config.tasks.iter() {
        let file = module(modules, task.image).unwrap_or_else(|error| refuse(error));
        claimed.claim(file.pages());
        // SAFETY: claimed above; nothing is written before all images are loaded.
        let image = elf::parse(unsafe { machine::bytes(file.bytes) }).unwrap_or_else(|error| {
            refuse(PlanError { line: task.image.line, problem: Problem::BadImage(error), name: task.image.value })
        });
        // The list has room for as many images as tasks.
        let _ = images.push(image);
    }
    images
}
