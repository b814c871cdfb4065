// SPDX-License-Identifier: BSD-2-Clause
//! Creates a task from its share: copies image and initial RAM disk, writes the start record,
//! creates the task, and hands over task numbers and interrupts. The task runs when the root task,
//! its pager, answers its first page fault.

use crate::iommu::Iommu;
use crate::machine::{bytes, bytes_mut, refuse, Claimed};
use core::cell::UnsafeCell;
use keel_l4::abi::fpage::{FPAGE_READ, FPAGE_RWX, PAGE_SIZE, USER_END};
use keel_l4::abi::ids::{GSI_COUNT, MSI_SOURCES};
use keel_l4::abi::memory::{AREA_DEFAULT, REGION_FREE};
use keel_l4::abi::programs::AREA_UPPER;
use keel_l4::call::Failure;
use keel_l4::elf::Image;
use keel_l4::kip::{kip, regions};
use keel_l4::protocol::boot::{Start, DIRECT_MAP, START_COMMAND_LINE, START_IRQS, START_MAGIC};
use keel_l4::ranges::Range;
use keel_l4::task::{create, hand_over, NewTask};
use keel_l4::{kernel_object, sigma0, thread, utcb, Error, Id};
use keel_root::config::{Config, Kind, Place, Quoted, Task, MAX_TASKS};
use keel_root::grants::{Grants, Gsis};
use keel_root::hardware::Hardware;
use keel_root::pages::{Mapping, Pages};
use keel_root::plan::{image_pages, module, Module, Share};

/// Bytes that are copied between two calls of `pause`, which serves waiting clients.
const CHUNK: usize = 256 << 10;
/// Priorities above its own that a task may use.
pub const PRIORITIES_ABOVE: u64 = 2;

/// The page of a start record.
#[repr(C, align(4096))]
struct Record(UnsafeCell<Start>);

// SAFETY: each record is written once, before its task runs, and read only by that task.
unsafe impl Sync for Record {}

static RECORDS: [Record; MAX_TASKS] = [const { Record(UnsafeCell::new(Start::zeroed())) }; MAX_TASKS];

/// A task that was started.
#[derive(Clone, Copy, Default)]
pub struct Running<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its number.
    pub number: u32,
    /// The first of the task numbers that were handed to it.
    pub first_number: u32,
    /// Its priority.
    pub priority: u64,
    /// Whether it may shut the machine down, which makes its failure a panic.
    pub may_shut_down: bool,
    /// Whether it can be restarted.
    pub may_restart: bool,
    /// Whether it failed and will be restarted.
    pub failed: bool,
    /// The mappings that answer its faults.
    pub pages: Pages,
    /// What it may get from sigma0.
    pub grants: Grants,
}

/// Copies `from` to the beginning of `to`. Calls `pause` between pieces.
fn copy(to: &mut [u8], from: &[u8], pause: &mut dyn FnMut()) {
    for (to, from) in to[..from.len()].chunks_mut(CHUNK).zip(from.chunks(CHUNK)) {
        to.copy_from_slice(from);
        pause();
    }
}

/// Copies the image's segments into the task's share of memory.
pub fn load(
    image: &Image,
    file: Module<'_>,
    kind: Kind,
    share: &Share,
    claimed: &mut Claimed,
    pause: &mut dyn FnMut(),
) {
    claimed.claim(share.image);
    // SAFETY: both are claimed, the task does not run, and the plan keeps image and module apart.
    let (from, to) = unsafe { (bytes(file.bytes), bytes_mut(share.image)) };
    let base = image_pages(image, kind).start;
    for chunk in to.chunks_mut(CHUNK) {
        chunk.fill(0);
        pause();
    }
    for segment in image.segments.iter() {
        let at = (segment.virt.start - base) as usize;
        copy(&mut to[at..], &from[segment.file.start as usize..segment.file.end as usize], pause);
    }
}

/// Copies the modules of the initial RAM disk one after another, each to the beginning of a page.
pub fn copy_initrd(task: &Task<'_>, modules: &[Module<'_>], to: Range, claimed: &mut Claimed, pause: &mut dyn FnMut()) {
    claimed.claim(to);
    // SAFETY: claimed, and the task does not run.
    let place = unsafe { bytes_mut(to) };
    let mut at = 0;
    for name in task.initrd.iter() {
        let file = module(modules, *name).unwrap_or_else(|error| refuse(error));
        claimed.claim(file.pages());
        // SAFETY: as above.
        let data = unsafe { bytes(file.bytes) };
        copy(&mut place[at..], data, pause);
        let end = (at + data.len()).next_multiple_of(PAGE_SIZE as usize).min(place.len());
        place[at + data.len()..end].fill(0);
        at = end;
    }
}

/// Reports an error that belongs to `task`, and shuts the machine down.
fn fail(task: &Task<'_>, what: core::fmt::Arguments<'_>) -> ! {
    refuse(format_args!("boot.conf:{}: task '{}' {what}", task.name.line, Quoted(task.name.value)))
}

/// All mappings of the task's address space.
fn pages(task: &Task<'_>, share: &Share, image: &Image, record: u64) -> Pages {
    let mut pages = Pages::new();
    let whole = image_pages(image, task.kind);
    let mut add = |virt: Range, phys, rights| {
        if pages.add(Mapping { virt, phys, rights }).is_err() {
            fail(task, format_args!("has its memory in too many pieces"));
        }
    };
    if task.kind == Kind::Server {
        add(whole, share.image.start, FPAGE_RWX);
    } else {
        // Segments that share a page have the same rights, so the page goes to the first of them.
        let mut last = whole.start;
        for segment in image.segments.iter() {
            let virt = segment.virt.grow_to(PAGE_SIZE);
            let virt = Range::new(virt.start.max(last), virt.end);
            add(virt, share.image.start + (virt.start - whole.start), segment.rights);
            last = virt.end.max(last);
        }
    }
    for range in share.memory.iter() {
        // Executable too, because a server maps the text of its user tasks from there.
        add(direct(range), range.start, FPAGE_RWX);
    }
    add(direct(Range::new(record, record + PAGE_SIZE)), record, FPAGE_READ);
    pages
}

fn direct(range: Range) -> Range {
    Range::new(DIRECT_MAP + range.start, DIRECT_MAP + range.end)
}

/// Base of the kernel area of a task, in the half that its image is in.
fn area(image: &Image) -> u64 {
    if image.entry < USER_END {
        AREA_DEFAULT
    } else {
        AREA_UPPER
    }
}

fn fill_record(record: &mut Start, task: &Task<'_>, share: &Share, image: &Image, gsis: &Gsis, first_number: u32) {
    let whole = image_pages(image, task.kind);
    record.magic = START_MAGIC;
    record.root = utcb::my_id().0;
    record.area = area(image);
    record.image_phys = share.image.start;
    record.image_virt = whole.start;
    record.image_size = image.span().end - whole.start;
    if let Some(initrd) = share.initrd {
        record.initrd_phys = initrd.bytes.start;
        record.initrd_size = initrd.bytes.size();
    }
    if task.tasks > 0 {
        record.task_first = first_number as u64;
        record.task_log2 = task.tasks.ilog2() as u64;
    }
    record.priority = task.priority;
    record.processors = task.processors.min(kip().processors);
    for (entry, range) in record.regions.chunks_exact_mut(3).zip(share.memory.iter()) {
        entry.copy_from_slice(&[range.start, range.end, REGION_FREE]);
        record.region_count += 1;
    }
    for (entry, irq) in record.irqs.iter_mut().zip(gsis.iter()) {
        *entry = *irq as u64;
        record.irq_count += 1;
    }
    // The last byte stays zero.
    for (index, byte) in task.args.bytes().enumerate().take(START_COMMAND_LINE as usize - 1) {
        record.command_line[index / 8] |= (byte as u64) << (8 * (index % 8));
    }
}

/// Starts the task with the number `number`. `first_number` is the first of the numbers that are
/// handed to it. No task gets the registers of the `iommu`.
pub fn start<'a>(
    config: &Config<'a>,
    index: usize,
    share: &Share,
    image: &Image,
    iommu: Option<&Iommu>,
    [number, first_number]: [u32; 2],
) -> Running<'a> {
    let task = &config.tasks[index];
    if task.args.len() >= START_COMMAND_LINE as usize {
        refuse(format_args!(
            "task '{}': its args are longer than {} bytes",
            Quoted(task.name.value),
            START_COMMAND_LINE - 1
        ));
    }
    let gsis = gsis(config, index);
    let record = RECORDS[index].0.get();
    // SAFETY: the record belongs to this task, which does not run yet.
    let record_now = unsafe { &mut *record };
    *record_now = Start::zeroed();
    fill_record(record_now, task, share, image, &gsis, first_number);
    // The root task's image is mapped one-to-one.
    let phys = record as u64;
    let new = NewTask {
        number,
        max_priority: task.priority + PRIORITIES_ABOVE,
        ip: image.entry,
        sp: 0,
        pager: utcb::my_id().0,
        quota: task.quota.pages(kip().pool_pages),
        area: area(image),
        argument: DIRECT_MAP + phys,
        upper_half: true,
        supervisor: task.place.value == Place::Kernel,
        resident: task.place.value == Place::Resident,
    };
    let pages = pages(task, share, image, phys);
    if let Err((what, failure)) = create_all(&new, task, &gsis, first_number) {
        let denied = what == CREATION && failure.error == Error::Denied;
        if new.resident && denied {
            fail(
                task,
                format_args!(
                    "cannot be resident: the µ-kernel's command line lacks the word 'supervisor', \
                     or its image is in the lower half"
                ),
            );
        }
        if new.supervisor && denied {
            fail(
                task,
                format_args!(
                    "cannot be placed in the kernel: the µ-kernel's command line lacks the word 'supervisor', \
                     or the processor lacks SMEP or SMAP"
                ),
            );
        }
        fail(task, format_args!("cannot be started: {what}: {failure}"));
    }
    let kept = regions(kip()).chain(iommu.into_iter().flat_map(Iommu::registers));
    let grants = Hardware::new(config, index, kept)
        .and_then(|hardware| Grants::new(share, hardware, gsis))
        .unwrap_or_else(|_| fail(task, format_args!("has its memory in too many pieces")));
    Running {
        name: task.name.value,
        number,
        first_number,
        priority: task.priority,
        may_shut_down: task.has_shutdown_right(),
        may_restart: config.may_restart(task),
        failed: false,
        pages,
        grants,
    }
}

/// Gets the rights to a task's GSIs from sigma0: those that the configuration names, or all that
/// are left.
fn gsis(config: &Config<'_>, index: usize) -> Gsis {
    let task = &config.tasks[index];
    let mut gsis = Gsis::default();
    for irq in task.irqs.iter() {
        if let Err(failure) = sigma0::interrupt(irq.value) {
            fail(task, format_args!("cannot be started: a GSI: {failure}"));
        }
        // The record has room for as many GSIs as the configuration can name.
        let _ = gsis.push(irq.value);
    }
    let named = |gsi: &u32| config.tasks.iter().any(|t| t.irqs.iter().any(|irq| irq.value == *gsi));
    for gsi in (0..START_IRQS as u32).filter(|gsi| task.hardware && !named(gsi)) {
        // sigma0 refuses a GSI that the machine does not have.
        if sigma0::interrupt(gsi).is_ok() {
            let _ = gsis.push(gsi);
        }
    }
    gsis
}

/// Gives all MSIs to the task. sigma0 refuses those of processors that do not exist.
fn give_msis(to: Id) {
    for number in GSI_COUNT as u32..(GSI_COUNT + MSI_SOURCES) as u32 {
        if sigma0::interrupt(number).and_then(|()| kernel_object::give(Id::irq(number), to)).is_err() {
            return;
        }
    }
}

/// The first of what can fail at a task's start.
const CREATION: &str = "its creation";

fn create_all(new: &NewTask, task: &Task<'_>, gsis: &Gsis, first_number: u32) -> Result<(), (&'static str, Failure)> {
    let id = create(new).map_err(|f| (CREATION, f))?;
    thread::set_priority(thread::first_of(id), task.priority).map_err(|f| ("its priority", f))?;
    if task.tasks > 0 {
        hand_over(first_number, task.tasks.ilog2() as u64, id).map_err(|f| ("its task numbers", f))?;
    }
    for gsi in gsis.iter() {
        kernel_object::give(Id::irq(*gsi), id).map_err(|f| ("a GSI", f))?;
    }
    if task.hardware {
        give_msis(id);
    }
    Ok(())
}
