// SPDX-License-Identifier: GPL-2.0-only
//! Start-up, from the boot loader's information to the first user instruction. `boot` reads as the
//! list of what happens. What it finds out about the machine is in facts.rs from then on.

use crate::arch::{acpi::number, boot::*, cpuid::Feature, multiboot::*, print::log, *};
use crate::base::{abi::*, facts::Word, facts::*, *};
use crate::{object::kip::INFO, object::*, sched, sys::lthreads, sys::tasks};

/// Where sigma0 lies: its image and memory, as much as a large page.
const SIGMA0_IMAGE: Range = Range::new(0x20_0000, 0x40_0000);
/// Priority of sigma0: nobody waits long for memory.
const SIGMA0_PRIORITY: u8 = 255;
/// Priority of the root task.
const ROOT_PRIORITY: u8 = 200;
/// The pool takes this fraction of RAM unless the command line says otherwise,
const POOL_FRACTION: u64 = 16;
/// but at least this much.
const POOL_MINIMUM: u64 = 8 << 20;
/// Called by start.s with the loader's two registers.
pub extern "C" fn boot(magic: u32, address: u32) -> ! {
    let mut loader = Information::new(magic, address as u64).expect("a multiboot loader starts the kernel");
    let line = loader.command_line;
    serial::init(console(line));
    if let Some(lost) = loader.lost {
        log!("the loader tells of too many pieces of memory: {} KB of RAM are not used", lost >> 10);
    }
    cpuid::init();
    // Where segments have limits it is safe.
    WORDS_GIVEN.set(switches(line) | (has_segment_limits() as u32) << Word::SmallUnsafe as u32);
    screen::init(&loader);
    if has_word(Word::Screen) {
        screen::show(screen::Shown::Console);
    }
    // RAM that nobody has yet. The first megabyte is the firmware's and the place where processors
    // start.
    let mut free = loader.ram;
    let modules = loader.modules.iter().map(|module| module.range.grow_to(PAGE as u64));
    take(&mut free, modules.chain([Range::new(0, ROOT_IMAGE.end)]));
    let end = loader.ram.iter().last().map_or(0, |piece| piece.end);
    // `pool=NNN` is in MB.
    let wanted =
        option(line, b"pool=").map_or(loader.ram.total() / POOL_FRACTION, |megabytes| (megabytes as u64) << 20);
    let (pool, table) = choose_pool(wanted, &mut free);
    // SAFETY: `choose_pool` took both out of the free memory.
    unsafe {
        POOL.init(PhysAddr::new(pool.start), PhysAddr::new(pool.end));
        core::ptr::write_bytes(at(table.start), 0, task::TABLE_BYTES);
        task::init(at(table.start));
        paging::finish_kernel_map(end);
    }
    MAPPED_END.set(end.max(BOOT_MAPPED));
    // Now a framebuffer above 4 GB can be mapped.
    screen::init(&loader);
    let rsdp = loader.rsdp.map_or_else(acpi::find_rsdp, |from| move_rsdp(from, &mut free, &mut loader.reserved));
    apic::find(rsdp, &loader.ram);
    smp::start_boot_processor();
    let tsc = reference::find_tsc(rsdp, &loader.ram);
    clock::init(tsc.hz);
    apic::calibrate();
    // What nobody may have: this, and the interrupt controllers.
    let mut forbidden = Memory::default();
    for range in [Range::new(KERNEL_START, SIGMA0_IMAGE.start), pool, table].into_iter().chain(apic::register_pages()) {
        forbidden.insert(range).expect("there is room for these");
    }
    fill_info(&loader, rsdp, &free, &forbidden);
    let mut users = loader.ram;
    take(&mut users, forbidden.iter());
    let _ = FACTS.set(Facts { ram: loader.ram, forbidden, users });
    let sigma0 = start_task(TaskNumber::SIGMA0, SIGMA0_PRIORITY, Id::NIL, load(&loader, "sigma0", SIGMA0_IMAGE));
    let root = start_task(TaskNumber::ROOT, ROOT_PRIORITY, Id::SIGMA0, load(&loader, "root", ROOT_IMAGE));
    assert!(sigma0.id == Id::SIGMA0 && root.id == Id::ROOT);
    smp::start_others(&loader, option(line, b"processors=").unwrap_or(cpu::MAX as u32) as usize);
    // From now on it stays as it is.
    kernel_map::check();
    INFO.0.set(Info { processors: cpu::count() as u64, ..INFO.0.get() });
    let (processors, ram, pool, mhz) = (cpu::count(), loader.ram.total() >> 20, pool.size() >> 20, tsc.hz / 1_000_000);
    log!("Keel µ-kernel, {processors} processors, {ram} MB RAM, pool {pool} MB, TSC {mhz} MHz by {}", tsc.source);
    crate::debugger::begin(line);
    entry::start()
}

/// The words of the kernel's command line; those that nobody looks for are left to others.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(|byte| byte.is_ascii_whitespace())
}

/// The number that follows a name in a word of the command line; the last one counts.
pub fn option(line: &[u8], name: &[u8]) -> Option<u32> {
    words(line).filter_map(|word| core::str::from_utf8(word.strip_prefix(name)?).ok()?.parse().ok()).last()
}

/// The console's port, by `console=com1..com4|none`: com1 if nothing is said.
fn console(line: &[u8]) -> u16 {
    let port = |word: &[u8]| match word.strip_prefix(b"console=")? {
        b"none" => Some(0),
        [b'c', b'o', b'm', number @ b'1'..=b'4'] => Some(serial::COM[(number - b'1') as usize]),
        _ => None,
    };
    words(line).filter_map(port).last().unwrap_or(serial::COM[0])
}

/// The switches of the command line, a bit for each of `WORDS`.
fn switches(line: &[u8]) -> u32 {
    words(WORDS).enumerate().map(|(bit, known)| (words(line).any(|word| word == known) as u32) << bit).sum()
}

/// Takes the pool, of at least so many bytes, and the table of tasks from the end of the largest
/// free piece below 4 GB.
fn choose_pool(wanted: u64, free: &mut Memory) -> (Range, Range) {
    let mut low = *free;
    take(&mut low, [Range::new(BOOT_MAPPED, u64::MAX)]);
    let place = low.largest().unwrap_or_default().shrink_to(paging::span(1));
    let table = (task::TABLE_BYTES as u64).next_multiple_of(PAGE as u64);
    let size = (wanted.max(POOL_MINIMUM) + table).next_multiple_of(paging::span(1));
    if place.size() < size {
        panic!("too little memory: the kernel's pool needs {} MB in one piece below 4 GB", size >> 20);
    }
    let (start, end) = (place.end - size, place.end);
    take(free, [Range::new(start, end)]);
    (Range::new(start, end - table), Range::new(end - table, end))
}

/// What lies at an address of the memory map.
fn at(physical: u64) -> *mut u8 {
    direct(PhysAddr::new(physical))
}

/// Moves the loader's copy of ACPI's root pointer to a page that it has for itself, which can be
/// given to be read.
fn move_rsdp(from: u64, free: &mut Memory, reserved: &mut Memory) -> u64 {
    let page = free.find(PAGE as u64, PAGE as u64).expect("there is a free page");
    take(free, [page]);
    // SAFETY: the page is free, and what the loader left is RAM.
    unsafe { core::ptr::copy_nonoverlapping(at(from), at(page.start), keel_abi::acpi::LONG_ROOT_POINTER) };
    reserved.insert(page).expect("the memory map has fewer pieces");
    page.start
}

fn fill_info(loader: &Information, rsdp: u64, free: &Memory, forbidden: &Memory) {
    let mut info = Info::zeroed();
    info.magic = KIP_MAGIC;
    info.version = KIP_VERSION;
    (info.tsc_hz, info.tsc_base, info.tsc_mult, info.tsc_shift) = clock::PARAMETERS.get();
    info.features = if cpuid::has(Feature::FsGsBase) { FEATURE_FSGSBASE } else { 0 }
        | if cpuid::has(Feature::ConstantTsc) { FEATURE_CONSTANT_TSC } else { 0 }
        | if has_segment_limits() { FEATURE_SEGMENT_LIMITS } else { 0 }
        | if cpu::numbered(0).pcids.on.get() { FEATURE_PCID } else { 0 };
    info.fpu_size = fpu::SIZE.get() as u64;
    info.fpu_mask = fpu::MASK.get();
    info.rsdp = rsdp;
    info.pool_pages = POOL.root.limit.get();
    info.framebuffer = loader.framebuffer;
    fill_regions(&mut info, loader, free, forbidden);
    fill_modules(&mut info, loader);
    INFO.0.set(info);
}

fn fill_regions(info: &mut Info, loader: &Information, free: &Memory, forbidden: &Memory) {
    let images = Range::new(SIGMA0_IMAGE.start, ROOT_IMAGE.end);
    let kernel = forbidden.iter().chain([images]).map(|range| (range, REGION_KERNEL));
    let modules = loader.modules.iter().map(|module| (module.range, REGION_MODULE));
    let known = kernel.chain(modules);
    let count = forbidden.iter().count() + 1 + loader.modules.len();
    let (mut free, mut firmware) = (*free, loader.reserved);
    let pieces = (KIP_REGIONS as usize).saturating_sub(count);
    if let Some(lost) = limit(&loader.ram, &mut free, &mut firmware, pieces) {
        log!(
            "there are more than {KIP_REGIONS} memory regions: {} KB of RAM and gaps between the firmware's are its own",
            lost >> 10
        );
    }
    let free = free.iter().map(|range| (range, REGION_FREE));
    let firmware = firmware.iter().map(|range| (range, REGION_FIRMWARE));
    for ((range, kind), place) in free.chain(known).chain(firmware).zip(info.regions.chunks_exact_mut(3)) {
        place.copy_from_slice(&[range.start, range.end, kind]);
        info.region_count += 1;
    }
}

fn fill_modules(info: &mut Info, loader: &Information) {
    let (capacity, mut used) = (size_of_val(&info.strings), 0);
    // A text that does not fit is cut; the last byte stays zero.
    let mut place = |text: &[u8]| -> u64 {
        let begin = used;
        used = (used + text.len() + 1).min(capacity - 1);
        for (at, byte) in (begin..capacity - 1).zip(text) {
            info.strings[at / 8] |= (*byte as u64) << (at % 8 * 8);
        }
        (core::mem::offset_of!(Info, strings) + begin) as u64
    };
    info.command_line = place(loader.command_line);
    info.module_count = loader.modules.len() as u64;
    for (module, entry) in loader.modules.iter().zip(info.modules.chunks_exact_mut(3)) {
        let text = place(module.text);
        entry.copy_from_slice(&[module.range.start, module.range.end, text]);
    }
}

/// Loads the module of this name to `place`; its first instruction.
fn load(loader: &Information, name: &str, place: Range) -> u64 {
    // The base name of the first word of a module's command line.
    let base_name = |module: &Module| words(module.text).next()?.rsplit(|byte| *byte == b'/').next();
    let module = loader.modules.iter().find(|module| base_name(module) == Some(name.as_bytes()));
    let module = module.unwrap_or_else(|| panic!("no boot module is named {name}"));
    // SAFETY: the loader put the module there.
    let file = unsafe { core::slice::from_raw_parts(at(module.range.start), module.range.size() as usize) };
    load_segments(file, place)
        .unwrap_or_else(|| panic!("boot module {name} is not an ELF image that is linked at {:#x}", place.start))
}

/// Copies the segments of a 64-bit ELF image (System V ABI, chapters 4 and 5) to where they are
/// linked, inside `place`, which is kept for it; its first instruction. It is believed, but read
/// and written within bounds.
fn load_segments(file: &[u8], place: Range) -> Option<u64> {
    const IDENTIFICATION: &[u8] = b"\x7fELF\x02";
    const LOAD: u64 = 1;
    const HEADER_BYTES: usize = 56;
    if !file.starts_with(IDENTIFICATION) {
        return None;
    }
    let headers = file.get(number(file, 32, 8)? as usize..)?.chunks_exact(HEADER_BYTES);
    for header in headers.take(number(file, 56, 2)? as usize) {
        let word = |at| number(header, at, 8);
        let (offset, start, in_file, in_memory) = (word(8)?, word(16)?, word(32)?, word(40)?);
        if number(header, 0, 4)? != LOAD {
            continue;
        }
        let content = file.get(offset as usize..)?.get(..in_file as usize)?;
        if in_file > in_memory || !place.contains(Range::new(start, start.checked_add(in_memory)?)) {
            return None;
        }
        // SAFETY: the segment lies inside `place`, and has at least the file's size.
        unsafe {
            core::ptr::write_bytes(at(start), 0, in_memory as usize);
            core::ptr::copy_nonoverlapping(content.as_ptr(), at(start), content.len());
        }
    }
    number(file, 24, 8)
}

fn start_task(number: TaskNumber, priority: u8, pager: Id, entry: u64) -> Ref<Thread> {
    let (quota, area, upper) = (TASK_SHARED_QUOTA, AREA_DEFAULT, number == TaskNumber::ROOT);
    let plan = task::Plan { number, chief: None, mcp: 255, quota, area, upper, supervisor: false, resident: false };
    let first = thread::Plan { lthread: 0, frame: None, priority, pager };
    let thread = tasks::create(&plan).and_then(|task| lthreads::create(task, &first));
    let thread = thread.expect("the pool is large enough for two tasks");
    thread.frame().ip.set(entry);
    // sigma0, the root task's pager, serves no exceptions. Without a handler the console names the
    // thread that raised one.
    thread.handler.set(Id::NIL);
    sched::wake(thread);
    thread
}

#[cfg(test)]
#[path = "../../tests/kernel/boot.rs"]
mod tests;
