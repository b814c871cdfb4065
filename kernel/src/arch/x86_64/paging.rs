// SPDX-License-Identifier: GPL-2.0-only
//! Page-table entries and the kernel's own tables (Intel SDM volume 3, chapter 4).

use super::{cpu, cpu::cpu, cpu::Cpu, cpuid, cpuid::Feature, direct, regs::*, DIRECT, OFFSET};
use crate::object::{task::Window, Kind, Task, Thread, POOL};
use crate::{base::abi::*, base::facts::Word, base::facts::BOOT_MAPPED, base::facts::FACTS, base::*, percpu::lock};

/// Entry: present.
pub const PRESENT: u64 = 1;
/// Entry: writable.
pub const WRITE: u64 = 1 << 1;
/// Entry: user mode may use it.
pub const USER: u64 = 1 << 2;
/// Entry: PAT index bit 0.
pub const PWT: u64 = 1 << 3;
/// Entry: PAT index bit 1.
pub const PCD: u64 = 1 << 4;
/// Entry: it was used.
pub const ACCESSED: u64 = 1 << 5;
/// Entry: it was written through.
pub const DIRTY: u64 = 1 << 6;
/// Entry above the lowest level: it maps a large page.
pub const LARGE: u64 = 1 << 7;
/// Entry: the translation is every space's, and stays when CR3 is written.
const GLOBAL: u64 = 1 << 8;
/// Entry, for software: a kernel object that the user sees (UTCB, frames, KIP).
pub const KERNEL_OBJECT: u64 = 1 << 9;
/// Entry, for software: it is a task's, which walks see. The kernel's own entries lack it, and
/// those of a supervisor task's upper half in another task's top table (space.rs: show).
pub const MAPPED: u64 = 1 << 10;
/// Entry of a top table, for software: other top tables lead to the same table below.
pub const SHOWN: u64 = 1 << 11;
/// Entry of a table of a task's. Its pages have `USER` or not (`Task::page_bits`).
pub const TASK_TABLE: u64 = PRESENT | WRITE | USER | MAPPED;
/// Entry bits of a page of a task that runs in user mode, beside its rights,
pub const USER_PAGE: u64 = PRESENT | USER | MAPPED;
/// of a task that runs in supervisor mode in a space of its own,
pub const SUPERVISOR_PAGE: u64 = PRESENT | MAPPED;
/// and of one whose upper half other spaces show, where each of them has the same translations.
pub const SHOWN_PAGE: u64 = SUPERVISOR_PAGE | GLOBAL;
/// The bits in which these differ.
pub const PAGE_KIND: u64 = USER | GLOBAL;
/// Entry: no execution.
pub const NO_EXECUTE: u64 = 1 << 63;
/// Entry: the physical address.
pub const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
/// Entries in a table.
pub const ENTRIES: usize = 512;
/// Levels of tables: 0 for 4 KB entries to 3, the top.
pub const TOP_LEVEL: u8 = 3;
/// Slots of the top table in the upper half. The kernel's entries there lack `MAPPED`: the first
/// ones up to `UPPER_START`, and the last one, whose last slot users may have (`share_last_slot`).
pub const UPPER_SLOTS: core::ops::Range<usize> = 256..ENTRIES;
/// Slot of the kernel's image in the table below the last slot.
pub const IMAGE_SLOT: usize = slot(VirtAddr::new(OFFSET), TOP_LEVEL - 1);
/// PAT: write-back, write-combining, uncached minus, uncached; twice.
pub const PAT: u64 = 0x0007_0106_0007_0106;

/// Log2 of the bytes that an entry of a level covers.
pub const fn span_shift(level: u8) -> u8 {
    12 + 9 * level
}

/// Bytes that an entry of a level covers.
pub const fn span(level: u8) -> u64 {
    1 << span_shift(level)
}

/// Bytes that a table of small pages covers.
pub const TABLE_SPAN: u64 = span(1);

/// Slot of an address in a table of a level.
pub const fn slot(address: VirtAddr, level: u8) -> usize {
    (address.raw() >> span_shift(level)) as usize % ENTRIES
}

/// The page or table that an entry leads to.
pub const fn leads_to(entry: u64) -> PhysAddr {
    PhysAddr::new(entry & ADDRESS)
}

/// Entry bits of fpage rights.
pub const fn rights_bits(rights: u64) -> u64 {
    let write = if rights & FPAGE_WRITE != 0 { WRITE } else { 0 };
    let no_execute = if rights & FPAGE_EXEC != 0 { 0 } else { NO_EXECUTE };
    write | no_execute
}

/// Fpage rights of an entry.
pub const fn bits_rights(entry: u64) -> u64 {
    let write = if entry & WRITE != 0 { FPAGE_WRITE } else { 0 };
    let execute = if entry & NO_EXECUTE == 0 { FPAGE_EXEC } else { 0 };
    FPAGE_READ | write | execute
}

/// Entry bit of a page of a level.
pub const fn large_bit(level: u8) -> u64 {
    (level > 0) as u64 * LARGE
}

/// Entry bits of a cache type.
pub const fn cache_bits(cache: u64) -> u64 {
    match cache {
        CACHE_WRITE_COMBINING => PWT,
        CACHE_UNCACHED => PWT | PCD,
        _ => 0,
    }
}

/// Tags translations on this processor where CPUID offers it and the command line does not object.
/// CR3's low bits are 0. The entries that clear no registers, which are for measuring alone, know
/// no tags.
pub fn use_pcids(cpu: &Cpu) {
    if cpuid::has(Feature::Pcid) && !facts::has_word(Word::NoPcid) && !facts::has_word(Word::NoClear) {
        // SAFETY: CPUID offers it, and the tag is 0.
        unsafe { write_cr4(read_cr4() | CR4_PCIDE) };
        cpu.pcids.on.set(true);
    }
}

/// Before an entry of the space with top table `root` is changed: no other processor uses the
/// space.
#[inline]
pub fn shoot_down(root: PhysAddr) {
    if cpu::count() > 1 {
        shoot_down_others(root);
    }
}

fn shoot_down_others(root: PhysAddr) {
    if let Some((task, window)) = window_of(root) {
        shoot_down_others(POOL.physical(task.root_table));
        return shoot_down_others(POOL.physical(window.host.root_table));
    }
    let own = cpu().index;
    for cpu in cpu::all().filter(|cpu| cpu.index != own) {
        let shown = cpu.half_held.get() == root;
        if root_loaded(cpu) == root || shown {
            lock::write_back(cpu);
        }
        if shown {
            // It drops all when it enters a space with an upper half again, of whatever kind.
            cpu.half_held.set(HALF_DROPPED);
        }
        cpu.pcids.forget(root);
    }
}

/// Which translations of a space this processor may hold.
#[derive(Clone, Copy)]
pub enum Held {
    /// None.
    Nothing,
    /// Those of the present space.
    Present,
    /// Those with a tag.
    Tagged(u64),
    /// Some in any space: they can only be dropped with all others.
    Everywhere,
}

/// In `Task::space`: the task has a window, and translations of its pages may be those of its own
/// space and of its host's. `held` knows nothing of either.
pub const WINDOWED: u64 = 2;

/// The task with this in `Task::space`, and its window, if it has one.
fn window_of(root: PhysAddr) -> Option<(Ref<Task>, Window)> {
    let task = if root.raw() & WINDOWED != 0 { POOL.page(POOL.index_of(root)).task.get() } else { None };
    task.and_then(|task| Some((task, task.window.get()?)))
}

/// Drops what this processor holds of an entry of a task with a window, in both spaces, after it
/// was changed; the address is a number. Interrupts are let in where it is an entry above those of
/// 2 MB.
#[cold]
pub fn flush_windowed(root: PhysAddr, level: u8, address: VirtAddr) {
    let Some((task, window)) = window_of(root) else { return };
    // INVPCID faults at an address that is not canonical. A kernel area can be in the upper half.
    held(POOL.physical(task.root_table), level).flush(VirtAddr::new(canonical(address.raw())));
    hide(window, level, address);
}

/// Drops all translations of a task with a window that this processor holds, in both spaces, after
/// small pages were changed: for a row that takes less than an INVLPG for each page in each space.
#[cold]
pub fn drop_windowed(root: PhysAddr) {
    if let Some((task, window)) = window_of(root) {
        drop_space(POOL.physical(task.root_table));
        drop_space(POOL.physical(window.host.root_table));
    }
}

/// Drops all translations of the space with top table `root` that this processor holds, which is of
/// no task that others show. If it can wait, whoever runs there next does it.
fn drop_space(root: PhysAddr) {
    let cpu = cpu();
    cpu.pcids.forget(root);
    if cpu.space.get() == root {
        cpu.space.set(PhysAddr::new(root.raw() | STALE));
        if !cpu.loaded.get().is_some_and(|thread| is_absent(thread, root)) {
            switch(cpu, root, cpu.half.get());
        }
    }
}

/// Entries of a window that are hidden between two looks for interrupts.
const HIDDEN_AT_ONCE: u64 = 64;

/// Hides what a window shows by an entry of the task's own tables, at an address of its own: the
/// processor holds nothing of it, and finds it again by a page fault (`windows::show`). Interrupts
/// are let in where it is an entry above those of 2 MB.
pub fn hide(window: Window, level: u8, address: VirtAddr) {
    let (root, shown) = (POOL.physical(window.host.root_table), address + window.reach.base());
    if level == 0 && address.raw() < window.reach.size() {
        return held(root, 0).flush(shown);
    }
    let size = window.reach.size().min(address.raw() + span(level));
    for at in (address.raw()..size).step_by(TABLE_SPAN as usize).map(VirtAddr::new) {
        if level > 1 && at.offset_in(HIDDEN_AT_ONCE * TABLE_SPAN) == 0 {
            super::switch::poll();
        }
        if window.cell(at).take() != 0 {
            held(root, 1).flush(at + window.reach.base());
        }
    }
}

/// Which translations this processor may hold of entries of `level` in the space with top table
/// `root`, as long as it enters no other space; where they can only be dropped all at once, they
/// are dropped.
///
/// INVLPG drops all that a processor keeps of a large page, and of tables. INVPCID with an address
/// promises that only for what translates this very address: not for other parts of a large page,
/// nor for what a table that goes has led to.
#[inline(always)]
pub fn held(root: PhysAddr, level: u8) -> Held {
    let cpu = cpu();
    if cpu.half_held.get() == root {
        // INVLPG drops a page's global translation, but what the processor keeps of tables, and of
        // a page in user mode, for the present PCID alone (Intel SDM volume 3, 4.10.4.1).
        let tagged =
            || cpu.pcids.on.get() && !POOL.page(POOL.index_of(root)).task.get().is_some_and(|task| task.supervisor);
        return if level == 0 && !tagged() { Held::Present } else { Held::Everywhere };
    }
    if cpu.space.get() == root {
        return Held::Present;
    }
    match cpu.pcids.of(root) {
        Some(tag) if level == 0 && cpuid::has(Feature::InvPcid) => return Held::Tagged(tag),
        Some(_) => cpu.pcids.forget(root),
        // Stale. What the processor keeps of tables cannot wait: it reads their memory by that.
        None if level > 0 && root_loaded(cpu) == root => switch(cpu, cpu.half.get(), cpu.half.get()),
        None => {}
    }
    Held::Nothing
}

/// In `Cpu::space`: the TLB has entries of pages that went. The thread that runs is in any space,
/// in supervisor mode, and uses no memory of this one. Who runs there next enters it again, without
/// TLB entries, because this is another word than its top table's address.
pub const STALE: u64 = 1;

/// Pages from which on one flush of a space takes the place of an INVLPG for each, where it can
/// wait until something runs there. Its price besides is that the space's other pages are walked
/// again.
const MANY: usize = 8;

/// Tells whether a thread that runs with the space of top table `root` uses no memory of it. A
/// resident thread in user mode could: it is not trusted.
fn is_absent(thread: Ref<Thread>, root: PhysAddr) -> bool {
    thread.supervisor && thread.any_space && thread.space.get() != root
}

/// As `held` for at most so many small pages.
#[inline(always)]
pub fn held_of_pages(root: PhysAddr, pages: usize) -> Held {
    let cpu = cpu();
    let absent = |thread| is_absent(thread, root);
    if pages >= MANY && cpu.space.get() == root && cpu.loaded.get().is_some_and(absent) {
        cpu.space.set(PhysAddr::new(root.raw() | STALE));
        cpu.pcids.forget(root);
    }
    held(root, 0)
}

/// Top table of the space that is loaded.
pub fn root_loaded(cpu: &Cpu) -> PhysAddr {
    PhysAddr::new(cpu.space.get().raw() & !STALE)
}

impl Held {
    /// Drops the translation of an address, in the processor's form, after its entry was changed.
    #[inline(always)]
    pub fn flush(self, address: VirtAddr) {
        match self {
            Held::Nothing => {}
            Held::Present => invlpg(address),
            // SAFETY: CPUID offers it.
            Held::Tagged(tag) => unsafe { invpcid(tag, address) },
            Held::Everywhere => flush_everywhere(),
        }
    }
}

/// Drops all translations on this processor, the global ones too, and what it keeps of tables, of
/// all PCIDs (Intel SDM volume 3, 4.10.4.1: a change of CR4.PGE).
fn flush_everywhere() {
    let cr4 = read_cr4();
    // SAFETY: the bit is set again at once.
    unsafe {
        write_cr4(cr4 & !CR4_PGE);
        write_cr4(cr4);
    }
}

/// No processor uses the space with top table `root`, or one that shows its upper half, or knows
/// anything of it. A supervisor task in the upper half of the space goes on in its own.
#[inline]
pub fn leave_table(root: PhysAddr) {
    shoot_down(root);
    let (cpu, half) = (cpu(), cpu().half.get());
    let elsewhere = half != root && half != PhysAddr::NONE && half != OWN_HALF;
    match root_loaded(cpu) == root || half == root {
        true if elsewhere => switch(cpu, half, half),
        true => leave(cpu),
        false => {}
    }
    if cpu.half_held.get() == root {
        cpu.half_held.set(HALF_DROPPED);
    }
    cpu.pcids.forget(root);
}

/// Drops all translations of the space with top table `root`, on all processors, and then changes
/// it while no processor is there, which takes no INVLPG.
pub fn flush_all(root: PhysAddr, change: impl FnOnce()) {
    let (space, half) = (root_loaded(cpu()), cpu().half.get());
    leave_table(root);
    change();
    switch(cpu(), space, half);
}

/// In place of the supervisor task's top table: the space has memory of its own in the upper half,
/// in user mode, where global translations of such a task must not be.
pub const OWN_HALF: PhysAddr = PhysAddr::new(1);

/// In `Cpu::half_held`: translations of a half that the processor may not use any more. It is none
/// of what `switch` compares it with.
const HALF_DROPPED: PhysAddr = PhysAddr::new(2);

/// Makes the space with top table `root` the present one. `half`: top table of the supervisor task
/// whose upper half it shows, `OWN_HALF`, or none.
#[inline]
pub fn switch(cpu: &Cpu, root: PhysAddr, half: PhysAddr) {
    if cpu.space.get() != root {
        cpu.space.set(root);
        cpu.half.set(half);
        let value = if cpu.pcids.on.get() { cpu.pcids.enter(root) } else { root.raw() };
        // SAFETY: every top table has the kernel's half; translations are kept only if they are
        // this space's.
        unsafe { write_cr3(value) };
        if half != PhysAddr::NONE && cpu.half_held.get() != half {
            hold_half(cpu, half);
        }
    }
}

#[cold]
fn hold_half(cpu: &Cpu, half: PhysAddr) {
    let held = if half == OWN_HALF { PhysAddr::NONE } else { half };
    if cpu.half_held.replace(held) != held {
        flush_everywhere();
    }
}

/// Goes to the kernel's own space.
pub fn leave(cpu: &Cpu) {
    switch(cpu, image_physical(&raw const boot_pml4), PhysAddr::NONE);
}

unsafe extern "C" {
    /// The boot tables' top table, which is the kernel's own.
    pub(crate) static mut boot_pml4: [u64; ENTRIES];
    static _text: u8;
    static _constants: u8;
    static _data: u8;
    static _bss_end: u8;
}

/// Entry of a table of the kernel's; what the pages may be used for is said below.
const TABLE: u64 = PRESENT | WRITE;
/// Entry of a page of the kernel's that is only read.
const CONSTANT: u64 = PRESENT | ACCESSED | DIRTY | GLOBAL | NO_EXECUTE;

/// The kernel's text and constants in physical memory.
fn fixed_image() -> core::ops::Range<u64> {
    image_physical(&raw const _text).raw()..image_physical(&raw const _data).raw()
}

/// Entry of the kernel's own map, at its link address, for a physical page.
fn image_entry(page: u64) -> u64 {
    let (fixed, constants) = (fixed_image(), image_physical(&raw const _constants).raw());
    match page {
        _ if (fixed.start..constants).contains(&page) => page | CONSTANT & !NO_EXECUTE,
        _ if fixed.contains(&page) => page | CONSTANT,
        _ if (fixed.end..&raw const _bss_end as u64).contains(&page) => page | CONSTANT | WRITE,
        _ => 0,
    }
}

/// The entry of a level for an address, below the top table `root`; tables on the way are made.
///
/// # Safety
/// `root` is a table of the kernel's own, and what is not there yet may be.
unsafe fn entry_at(root: *mut u64, address: u64, level: u8) -> *mut u64 {
    let mut at = root;
    // SAFETY: the caller's contract; entries of tables lead to tables.
    unsafe {
        for above in (level + 1..=TOP_LEVEL).rev() {
            let entry = at.add(slot(VirtAddr::new(address), above));
            if *entry & PRESENT == 0 {
                *entry = new_page() | TABLE;
            }
            at = direct(leads_to(*entry)).cast();
        }
        at.add(slot(VirtAddr::new(address), level))
    }
}

/// A page of the pool, zero, forever: its physical address.
fn new_page() -> u64 {
    let page = POOL.take_zeroed(Ref::to(&POOL.root), Kind::Table);
    POOL.physical(page.expect("the pool is larger than the boot needs")).raw()
}

/// A top table with the kernel's half and the first 2 MB one-to-one, below 4 GB, for processors
/// that start.
pub static STARTING_TABLE: Global<Cell<PhysAddr>> = Global::new(Cell::new(PhysAddr::NONE));

/// Extends the direct map from the first 4 GB to `end`, drops the one-to-one map, and gives every
/// page the least rights.
///
/// # Safety
/// Called once, on the boot tables, with the pool in place.
pub unsafe fn finish_kernel_map(end: u64) {
    STARTING_TABLE.set(PhysAddr::new(new_page()));
    let (top, new) = ((&raw mut boot_pml4).cast(), direct(STARTING_TABLE.get()).cast());
    let largest = if cpuid::has(Feature::LargePages) { 2 } else { 1 };
    let pages = |pages: core::ops::Range<u64>, level| pages.step_by(span(level) as usize).map(move |at| (at, level));
    // SAFETY: the new table is ours alone; addresses stay below `end`. The kernel, which lies in
    // the first 2 MB (link.ld), is mapped to where it was.
    unsafe {
        for (at, _) in pages(0..span(1), 0) {
            *entry_at(new, OFFSET + at, 0) = image_entry(at);
            let write = if fixed_image().contains(&at) { 0 } else { WRITE };
            *entry_at(new, DIRECT + at, 0) = at | CONSTANT | write;
        }
        // `make_uncached` wants pages of 2 MB.
        for (at, level) in pages(span(1)..BOOT_MAPPED, 1).chain(pages(BOOT_MAPPED..end, largest)) {
            *entry_at(new, DIRECT + at, level) = at | CONSTANT | WRITE | LARGE;
        }
        // For the maps that follow, the tables below both top tables are the same.
        entry_at(new, PROCESSORS, TOP_LEVEL - 1);
        core::ptr::copy_nonoverlapping(new, top, ENTRIES);
        write_cr3(read_cr3());
        *entry_at(new, 0, 1) = TABLE | LARGE;
    }
}

/// Makes the 2 MB around a device's registers uncached in the direct map (below 4 GB).
///
/// # Safety
/// The address is a device's, not RAM's.
pub unsafe fn make_uncached(physical: PhysAddr) {
    let address = DIRECT + physical.raw();
    // SAFETY: the first 4 GB are mapped by 2 MB pages.
    unsafe { *entry_at((&raw mut boot_pml4).cast(), address, 1) |= PCD | PWT | NO_EXECUTE };
    invlpg(VirtAddr::new(address));
}

/// Maps a framebuffer above 4 GB in the direct map, where no RAM is. False if it cannot be there,
/// or before `finish_kernel_map`.
pub fn map_screen(range: Range) -> bool {
    let largest = if cpuid::has(Feature::LargePages) { 2 } else { 1 };
    let first = facts::MAPPED_END.get().next_multiple_of(span(largest));
    if STARTING_TABLE.get() == PhysAddr::NONE || range.start < first || range.end > PROCESSORS - DIRECT {
        return false;
    }
    let pages = range.grow_to(span(1));
    for at in (pages.start..pages.end).step_by(span(1) as usize) {
        // SAFETY: above all that `finish_kernel_map` has mapped.
        unsafe { *entry_at((&raw mut boot_pml4).cast(), DIRECT + at, 1) = at | CONSTANT | WRITE | LARGE | PWT };
    }
    true
}

/// Where the processors' own memory lies (`cpu::Processor`).
pub const PROCESSORS: u64 = 0xffff_c000_0000_0000;

/// Maps fresh pages for processor `index`, with nothing below them: the address.
///
/// # Safety
/// Called at boot, once for each index, the first time before a task is made.
pub unsafe fn map_processor(index: u8, bytes: usize) -> *mut u8 {
    let base = PROCESSORS + index as u64 * span(1) + PAGE_SIZE;
    for page in 0..bytes.div_ceil(PAGE_SIZE as usize) as u64 {
        // SAFETY: the caller's contract; the address is used for this alone.
        unsafe {
            *entry_at((&raw mut boot_pml4).cast(), base + page * PAGE_SIZE, 0) = new_page() | CONSTANT | WRITE;
        }
    }
    base as *mut u8
}

/// Copies the kernel's half into a fresh top table.
///
/// # Safety
/// `root` is a zeroed page of the pool that is in nobody's use.
pub unsafe fn copy_kernel_half(root: *mut u64) {
    for slot in UPPER_SLOTS {
        // SAFETY: both tables have 512 entries; the caller's contract.
        unsafe { *root.add(slot) = *(&raw const boot_pml4).cast::<u64>().add(slot) };
    }
}

/// Physical address of something in the kernel's image.
pub fn image_physical<T>(pointer: *const T) -> PhysAddr {
    PhysAddr::new(pointer as u64 - OFFSET)
}

/// The level of the largest page of at most 2^log2 bytes at a physical address that nobody is
/// forbidden to have.
pub fn physical_page(address: PhysAddr, log2: u8) -> Option<u8> {
    let top = if cpuid::has(Feature::LargePages) { 2 } else { 1 };
    (0..=top).rev().find(|level| {
        let base = address.align_down(span(*level)).raw();
        let page = Range::new(base, base + span(*level));
        span_shift(*level) <= log2.max(12)
            && page.end <= 1 << cpuid::physical_bits()
            && FACTS.get().is_some_and(|facts| !facts.forbidden.overlaps(page))
    })
}

/// Whether the processor can form a physical address.
pub fn is_physical(address: PhysAddr) -> bool {
    address.raw() >> cpuid::physical_bits() == 0
}
