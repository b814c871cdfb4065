// SPDX-License-Identifier: GPL-2.0-only
//! Start-up, from the boot loader's information to the first user instruction, and the facts about the
//! machine that are fixed then. `boot` reads as the list of what happens.

use crate::arch::cpuid::{self, Feature};
use crate::arch::multiboot::{Information, Module};
use crate::arch::print::log;
use crate::arch::{self, acpi, apic, clock, cpu, direct, entry, fpu, paging, reference, screen, serial, smp};
use crate::base::global::Global;
use crate::base::refs::Ref;
use crate::object::pool::{PAGE, POOL};
use crate::object::task::{self, Task};
use crate::object::thread::{self, Thread};
use crate::sched;
use core::cell::{Cell, OnceCell};
use keel_abi::call::TASK_SHARED_QUOTA;
use keel_abi::ids::*;
use keel_abi::memory::*;
use keel_abi::ranges::{Range, Ranges};
use keel_abi::{elf, Id, Info};

/// First byte of the kernel's image.
const KERNEL_START: u64 = 0x10_0000;
/// Where sigma0 lies: its image and memory, as much as a large page.
const SIGMA0_IMAGE: Range = Range::new(0x20_0000, 0x40_0000);
/// Where the root task lies.
const ROOT_IMAGE: Range = Range::new(0x40_0000, 0x80_0000);
/// Priority of sigma0: nobody waits long for memory.
const SIGMA0_PRIORITY: u8 = 255;
/// Priority of the root task.
const ROOT_PRIORITY: u8 = 200;
/// The pool takes this fraction of RAM unless the command line says otherwise,
const POOL_FRACTION: u64 = 16;
/// but at least this much.
const POOL_MINIMUM: u64 = 8 << 20;
/// What the boot tables map.
pub const BOOT_MAPPED: u64 = 4 << 30;
/// No device that the kernel uses has its registers below the end of the images.
pub const LEAST_REGISTERS: u64 = ROOT_IMAGE.end;

/// Sets of memory, with room for more pieces than a firmware tells.
pub(crate) type Memory = Ranges<128>;

/// RAM, the memory that nobody may have, and RAM without that.
pub(crate) struct Facts {
    pub(crate) ram: Memory,
    pub(crate) forbidden: Memory,
    pub(crate) users: Memory,
}

pub(crate) static FACTS: Global<OnceCell<Facts>> = Global::new(OnceCell::new());
/// How far the direct map reaches.
pub static MAPPED_END: Global<Cell<u64>> = Global::new(Cell::new(BOOT_MAPPED));
static WORDS_GIVEN: Global<Cell<u32>> = Global::new(Cell::new(0));

/// A page of its own.
#[repr(align(4096))]
struct InfoPage(Cell<Info>);

static INFO: Global<InfoPage> = Global::new(InfoPage(Cell::new(Info::zeroed())));

unsafe extern "C" {
    static _bss_end: u8;
    pub static boot_stack_top: u8;
}

/// Called by start.s with the loader's two registers.
pub extern "C" fn boot(magic: u32, address: u32) -> ! {
    let mut loader = Information::new(magic, address as u64).expect("a multiboot loader starts the kernel");
    let options = Options::parse(loader.command_line);
    serial::init(options.console);
    if let Some(lost) = loader.lost {
        log!("the loader tells of too many pieces of memory: {} KB of RAM are not used", lost >> 10);
    }
    cpuid::init();
    WORDS_GIVEN.set(options.words);
    screen::init(&loader.framebuffer, !loader.ram.overlaps(screen::TEXT));
    if has_word(Word::Screen) {
        screen::show();
    }
    let mut free = find_free(&loader);
    let end = loader.ram.iter().last().map_or(0, |piece| piece.end);
    let (pool, table) = choose_pool(options.pool.unwrap_or(loader.ram.total() / POOL_FRACTION), &mut free);
    // SAFETY: `choose_pool` took both out of the free memory.
    unsafe {
        POOL.init(pool.start, pool.end);
        core::ptr::write_bytes(direct(table.start), 0, task::TABLE_BYTES);
        task::init(direct(table.start));
        paging::finish_kernel_map(end);
    }
    MAPPED_END.set(end.max(BOOT_MAPPED));
    screen::init_cross_clan(&loader.framebuffer);
    let rsdp = loader.rsdp.map_or_else(acpi::find_rsdp, |from| move_rsdp(from, &mut free, &mut loader.reserved));
    apic::find(rsdp, &loader.ram);
    smp::start_boot_processor();
    let tsc = reference::find_tsc(rsdp, &loader.ram);
    clock::init(tsc.hz);
    apic::calibrate();
    let forbidden = forbid([Range::new(KERNEL_START, SIGMA0_IMAGE.start), pool, table]);
    fill_info(&loader, rsdp, &free, &forbidden);
    let mut users = loader.ram;
    take(&mut users, forbidden.iter());
    let _ = FACTS.set(Facts { ram: loader.ram, forbidden, users });
    start_tasks(&loader);
    smp::start_others(&loader, options.processors);
    paging::check_kernel_map();
    INFO.0.set(Info { processors: cpu::count() as u64, ..INFO.0.get() });
    log!(
        "Keel µ-kernel, {} processors, {} MB RAM, pool {} MB, TSC {} MHz by {}",
        cpu::count(),
        loader.ram.total() >> 20,
        pool.size() >> 20,
        tsc.hz / 1_000_000,
        tsc.source
    );
    crate::debugger::begin(loader.command_line);
    entry::start()
}

/// Words of the command line that switch something.
#[derive(Clone, Copy)]
pub enum Word {
    /// A panic may use the emulator's exit device.
    DebugExit,
    /// SYSCALL leaves in the registers what the user had there.
    NoClear,
    /// SYSCALL does not try the short ways through IPC.
    NoFast,
    /// Translations are not tagged with their spaces.
    NoPcid,
    /// The console is shown on the screen.
    Screen,
    /// The local APICs are switched to x2APIC mode first, as some firmware leaves them.
    X2Apic,
    /// Likewise, and as if they were locked in it.
    X2ApicLocked,
}

/// The words, in the order of `Word`.
const WORDS: [&[u8]; 7] = [b"debug-exit", b"noclear", b"nofast", b"nopcid", b"screen", b"x2apic", b"x2apic-locked"];

/// What the command line says.
struct Options {
    console: u16,
    pool: Option<u64>,
    processors: usize,
    words: u32,
}

impl Options {
    /// `console=com1..com4|none`, `pool=NNN` (MB), `processors=N` (at most so many), and `WORDS`. Other words are
    /// left to others.
    fn parse(line: &[u8]) -> Options {
        let mut options = Options { console: serial::COM[0], pool: None, processors: cpu::MAX, words: 0 };
        for word in line.split(|byte| byte.is_ascii_whitespace()) {
            let value = |name: &[u8]| core::str::from_utf8(word.strip_prefix(name)?).ok()?.parse::<u32>().ok();
            options.console = match word.strip_prefix(b"console=") {
                Some(b"none") => 0,
                Some([b'c', b'o', b'm', number @ b'1'..=b'4']) => serial::COM[(number - b'1') as usize],
                _ => options.console,
            };
            options.pool = value(b"pool=").map(|megabytes| (megabytes as u64) << 20).or(options.pool);
            options.processors = value(b"processors=").map_or(options.processors, |limit| limit as usize);
            if let Some(number) = WORDS.iter().position(|known| *known == word) {
                options.words |= 1 << number;
            }
        }
        options
    }
}

/// RAM that nobody has yet. The first megabyte is the firmware's and the place where processors start.
fn find_free(loader: &Information) -> Memory {
    let mut free = loader.ram;
    let modules = loader.modules.iter().map(|module| module.range.grow_to(PAGE as u64));
    take(&mut free, modules.chain([Range::new(0, ROOT_IMAGE.end)]));
    free
}

fn take(memory: &mut Memory, taken: impl IntoIterator<Item = Range>) {
    for range in taken {
        memory.remove(range).expect("the memory map has fewer pieces");
    }
}

/// Takes the pool, of at least so many bytes, and the table of tasks from the end of the largest free piece below 4 GB.
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

/// Moves the loader's copy of ACPI's root pointer to a page that it has for itself, which can be given to be read.
fn move_rsdp(from: u64, free: &mut Memory, reserved: &mut Memory) -> u64 {
    let page = free.find(PAGE as u64, PAGE as u64).expect("there is a free page");
    take(free, [page]);
    // SAFETY: the page is free, and what the loader left is RAM.
    unsafe { core::ptr::copy_nonoverlapping(direct(from), direct(page.start), keel_abi::acpi::LONG_ROOT_POINTER) };
    reserved.insert(page).expect("the memory map has fewer pieces");
    page.start
}

/// What nobody may have: this, and the interrupt controllers.
fn forbid(ranges: [Range; 3]) -> Memory {
    let devices = apic::register_pages();
    let mut forbidden = Memory::new();
    for range in ranges.into_iter().chain(devices) {
        forbidden.insert(range).expect("there is room for these");
    }
    forbidden
}

fn fill_info(loader: &Information, rsdp: u64, free: &Memory, forbidden: &Memory) {
    let mut info = Info::zeroed();
    let (hz, base, mult, shift) = clock::parameters();
    info.magic = KIP_MAGIC;
    info.version = KIP_VERSION;
    (info.tsc_hz, info.tsc_base, info.tsc_mult, info.tsc_shift) = (hz, base, mult, shift);
    info.features = if cpuid::has(Feature::FsGsBase) { FEATURE_FSGSBASE } else { 0 }
        | if cpuid::has(Feature::ConstantTsc) { FEATURE_CONSTANT_TSC } else { 0 }
        | if cpu::boot().pcids.are_used() { FEATURE_PCID } else { 0 };
    info.fpu_size = fpu::size() as u64;
    info.fpu_mask = fpu::mask();
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

/// Leaves so many pieces of memory and leaves nothing out, because what is in no piece is taken for a device's. First the
/// gaps between the firmware's pieces that are all RAM become the firmware's too, which costs nothing: sigma0 looks at RAM
/// first. Then the smallest pieces of free RAM beside them do, and last the gaps with devices. How much free RAM was lost,
/// if anything was done.
pub(crate) fn limit(ram: &Memory, free: &mut Memory, firmware: &mut Memory, pieces: usize) -> Option<u64> {
    let devices = |gap: Range| {
        let inside = ram.iter().map(|piece| Range::new(piece.start.max(gap.start), piece.end.min(gap.end)).size());
        gap.size() - inside.sum::<u64>()
    };
    let mut done = None;
    while free.iter().count() + firmware.iter().count() > pieces {
        let lost = done.unwrap_or(0);
        let mut joined = *firmware;
        let gap = joined.fill_gap(devices);
        let touches =
            |piece: &Range| firmware.overlaps(Range::new(piece.start.saturating_sub(1), piece.end.saturating_add(1)));
        let smallest = |all: &dyn Fn(&Range) -> bool| free.iter().filter(all).min_by_key(|piece| piece.size());
        let piece = match gap {
            Some(gap) if devices(gap) == 0 => None,
            Some(_) => smallest(&touches),
            None => smallest(&|_| true),
        };
        let piece = piece.filter(|piece| firmware.insert(*piece).is_ok());
        match piece {
            Some(piece) => take(free, [piece]),
            None if gap.is_some() => *firmware = joined,
            None => break,
        }
        done = Some(lost + piece.map_or(0, Range::size));
    }
    done
}

fn fill_modules(info: &mut Info, loader: &Information) {
    let strings = core::mem::offset_of!(Info, strings) as u64;
    let capacity = size_of_val(&info.strings);
    let mut used = 0;
    // A text that does not fit is cut; the last byte stays zero.
    let mut place = |text: &[u8], target: &mut [u64]| -> u64 {
        let length = text.len().min((capacity - 1).saturating_sub(used));
        let begin = used;
        for (number, byte) in text[..length].iter().enumerate() {
            target[(used + number) / 8] |= (*byte as u64) << ((used + number) % 8 * 8);
        }
        used = (used + length + 1).min(capacity - 1);
        strings + begin as u64
    };
    info.command_line = place(loader.command_line, &mut info.strings);
    for module in loader.modules.iter() {
        let text = place(module.text, &mut info.strings);
        let at = info.module_count as usize * 3;
        info.modules[at..at + 3].copy_from_slice(&[module.range.start, module.range.end, text]);
        info.module_count += 1;
    }
}

/// Loads sigma0 and the root task to their places and makes them ready.
fn start_tasks(loader: &Information) {
    let sigma0 = start_task(TASK_SIGMA0, SIGMA0_PRIORITY, Id::NIL, load(loader, "sigma0", SIGMA0_IMAGE));
    let root = start_task(TASK_ROOT, ROOT_PRIORITY, Id::SIGMA0, load(loader, "root", ROOT_IMAGE));
    assert!(sigma0.id == Id::SIGMA0 && root.id == Id::ROOT);
}

fn load(loader: &Information, name: &str, place: Range) -> u64 {
    let Some(module) = loader.modules.iter().find(|module| module_name(module) == name.as_bytes()) else {
        panic!("no boot module is named {name}");
    };
    // SAFETY: the loader put the module there.
    let image = unsafe { core::slice::from_raw_parts(direct(module.range.start), module.range.size() as usize) };
    let file = elf::parse(image).unwrap_or_else(|error| panic!("boot module {name}: {error}"));
    if !place.contains(file.span()) {
        panic!("boot module {name} is not linked at {:#x}", place.start);
    }
    for segment in file.segments.iter() {
        let content = &image[segment.file.start as usize..segment.file.end as usize];
        // SAFETY: the segment lies inside `place`, which is kept for this task, and has at least the file's size.
        unsafe {
            let target = direct(segment.virt.start);
            core::ptr::write_bytes(target, 0, segment.virt.size() as usize);
            core::ptr::copy_nonoverlapping(content.as_ptr(), target, content.len());
        }
    }
    file.entry
}

/// The base name of the first word of a module's command line.
fn module_name(module: &Module) -> &'static [u8] {
    let word = module.text.split(|byte| byte.is_ascii_whitespace()).next().unwrap_or(&[]);
    word.rsplit(|byte| *byte == b'/').next().unwrap_or(&[])
}

fn start_task(number: u64, priority: u8, pager: Id, entry: u64) -> Ref<Thread> {
    let plan =
        task::Plan { number: number as u32, chief: None, mcp: 255, quota: TASK_SHARED_QUOTA, area: AREA_DEFAULT };
    let first = thread::Plan { lthread: 0, frame: None, priority, pager };
    let thread = task::create(&plan).and_then(|task| thread::create(task, &first));
    let thread = thread.expect("the pool is large enough for two tasks");
    thread.frame().ip.set(entry);
    // sigma0, the root task's pager, serves no exceptions. Without a handler the console names the thread that raised one.
    thread.handler.set(Id::NIL);
    sched::wake(thread);
    thread
}

/// Whether a task is sigma0.
pub fn is_sigma0(task: Ref<Task>) -> bool {
    task.number == TASK_SIGMA0 as u32
}

/// The level of the largest page of at most 2^log2 bytes at a physical address that nobody is forbidden to have.
pub fn physical_page(address: u64, log2: u8) -> Option<u8> {
    let top = if cpuid::has(Feature::LargePages) { 2 } else { 1 };
    (0..=top).rev().find(|level| {
        let base = address & !(paging::span(*level) - 1);
        let page = Range::new(base, base + paging::span(*level));
        paging::span_shift(*level) <= log2.max(12)
            && page.end <= 1 << cpuid::physical_bits()
            && FACTS.get().is_some_and(|facts| !facts.forbidden.overlaps(page))
    })
}

/// Whether the processor can form a physical address.
pub fn is_physical(address: u64) -> bool {
    address >> cpuid::physical_bits() == 0
}

/// Whether a physical address is RAM that users may have.
pub fn is_ram(physical: u64) -> bool {
    FACTS.get().is_some_and(|facts| facts.users.contains(Range::new(physical, physical + 1)))
}

/// Physical address of the information page.
pub fn info_physical() -> u64 {
    paging::image_physical(&raw const INFO.0)
}

/// Whether the command line has a word.
pub fn has_word(word: Word) -> bool {
    WORDS_GIVEN.get() >> word as u32 & 1 == 1
}

/// The kernel's text, for backtraces.
pub fn text_range() -> core::ops::Range<u64> {
    arch::OFFSET + KERNEL_START..&raw const _bss_end as u64 + arch::OFFSET
}

#[cfg(test)]
#[path = "../../tests/kernel/boot.rs"]
mod tests;
