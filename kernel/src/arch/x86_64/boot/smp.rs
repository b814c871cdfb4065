// SPDX-License-Identifier: GPL-2.0-only
//! Starts the processors: the one that boots, and the others one by one.

use crate::arch::{boot::enable_features, cpu::Cpu, cpu::Processor, multiboot::Information, print::log, *};
use crate::{base::abi::*, base::*, percpu::lock};
use core::{hint::spin_loop, sync::atomic::AtomicBool, sync::atomic::Ordering};

unsafe extern "C" {
    static beginning: u8;
    static ap_start: u8;
    static ap_end: u8;
}

/// Pages below 1 MB that are the firmware's neither by the memory map nor by custom.
const LOW_PAGES: core::ops::Range<u64> = 0x1000..0x9_f000;
/// How long a processor may take to start, in ns.
const PATIENCE_NS: u64 = 1_000_000_000;

/// The processor that is being started has reached the kernel.
static STARTED: AtomicBool = AtomicBool::new(false);

/// Sets up the processor that boots. From here on it runs exclusively.
pub fn start_boot_processor() {
    let cpu = make(0, apic::own_id());
    prepare(cpu);
    cpu::add(cpu);
    lock::all_locks_from_idle(cpu);
}

fn make(index: u8, apic_id: u32) -> &'static Cpu {
    // SAFETY: once for each index, the first before any task; the memory is the processor's for
    // ever.
    unsafe { cpu::create(paging::map_processor(index, size_of::<Processor>()).cast(), index, apic_id) }
}

/// What every processor does for itself.
fn prepare(cpu: &Cpu) {
    enable_features();
    paging::use_pcids(cpu);
    tables::init(cpu);
    fpu::init(cpu);
    apic::init_local();
}

/// Starts the other processors, at most `limit` in all. What the loader left below 1 MB is lost.
pub fn start_others(loader: &Information, limit: usize) {
    let others = apic::processors().filter(|id| *id != cpu::numbered(0).apic_id).take(limit.clamp(1, cpu::MAX) - 1);
    let page = LOW_PAGES.step_by(PAGE_SIZE as usize).find(|page| {
        let range = Range::new(*page, page + PAGE_SIZE);
        loader.ram.contains(range) && !loader.modules.iter().any(|module| module.range.overlaps(range))
    });
    for apic_id in others {
        let Some(page) = page else {
            log!("no page below 1 MB is free: the other processors are not started");
            break;
        };
        let cpu = make(cpu::count() as u8, apic_id);
        fill(page, cpu);
        STARTED.store(false, Ordering::Relaxed);
        apic::start(apic_id, page);
        if !clock::wait_for(PATIENCE_NS, || STARTED.load(Ordering::Acquire)) {
            apic::stop(apic_id);
            log!("the processor with APIC id {apic_id} does not start");
            break;
        }
        lock::add(cpu::numbered(0), cpu);
        cpu::add(cpu);
    }
}

/// Copies the first steps to `page` and fills in what start.s begins with.
fn fill(page: u64, cpu: &Cpu) {
    let place = |low: u64| direct(PhysAddr::new(low));
    let steps = &raw const ap_start as u64;
    let (function, table) = (enter as *const () as u64, paging::STARTING_TABLE.get().raw());
    // SAFETY: a page of RAM in nobody's use, and words that only a processor that starts reads.
    unsafe {
        core::ptr::copy_nonoverlapping(place(steps), place(page), (&raw const ap_end as u64 - steps) as usize);
        let words = place(&raw const beginning as u64).cast::<[u64; 4]>();
        words.write([cpu.address.get(), function, cpu.address.get(), table]);
    }
}

/// A further processor, in long mode on its own stack.
extern "C" fn enter(cpu: &'static Cpu) -> ! {
    paging::leave(cpu);
    prepare(cpu);
    STARTED.store(true, Ordering::Release);
    while cpu::count() <= cpu.index as u32 {
        spin_loop();
    }
    lock::all_locks_from_idle(cpu);
    entry::start()
}
