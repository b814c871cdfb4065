// SPDX-License-Identifier: BSD-2-Clause
//! Assigns physical memory to every task: images, initial RAM disks, memory of its own. This module
//! computes ranges; the program claims and copies.

use crate::config::{At, Config, Kind, Memory, Quoted, Task, MAX_TASKS};
use core::fmt;
use keel_l4::abi::fpage::PAGE_SIZE;
use keel_l4::elf::{ElfError, Image};
use keel_l4::list::List;
use keel_l4::protocol::boot::START_REGIONS;
use keel_l4::ranges::{Range, Ranges};

/// Alignment of a server's image and memory, for superpages.
const SUPERPAGE: u64 = 2 << 20;
/// The least memory for which `memory rest` starts a task.
const LEAST_REST: u64 = 32 << 20;
/// Smaller pieces are not worth one of the few regions of a start record.
const LEAST_PIECE: u64 = 1 << 20;

/// Free memory: one range for each region and module, and as many for the pieces.
pub type Free = Ranges<128>;

/// A boot module.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Module<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Its bytes.
    pub bytes: Range,
}

impl Module<'_> {
    /// Its pages.
    pub fn pages(&self) -> Range {
        self.bytes.grow_to(PAGE_SIZE)
    }
}

/// An initial RAM disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Initrd {
    /// Where it is placed.
    pub bytes: Range,
    /// Whether its modules must be copied there.
    pub copy: bool,
}

/// The share of one task.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    /// Where its image is placed: whole pages around `Image::span`.
    pub image: Range,
    /// Its initial RAM disk.
    pub initrd: Option<Initrd>,
    /// Its memory; for a server it contains image and initial RAM disk.
    pub memory: Ranges<{ START_REGIONS as usize }>,
    /// Memory that it may ask for later.
    pub extra: Range,
}

/// The shares, in the order of the configuration.
pub type Plan = List<Share, MAX_TASKS>;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The module does not exist.
    NoModule,
    /// The module has no usable image.
    BadImage(ElfError),
    /// Its segments have different rights in one page.
    SharedPage,
    /// No piece of memory is that large: wanted, largest.
    TooLittle(u64, u64),
    /// The requested memory is not free RAM.
    NotFree,
    /// The memory is in too many pieces for the start record.
    Pieces,
}

/// An error: the line, the problem, and the name of the task or the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanError<'a> {
    /// Line of the configuration.
    pub line: u32,
    /// What is wrong.
    pub problem: Problem,
    /// Task or module.
    pub name: &'a str,
}

impl fmt::Display for PlanError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Quoted(self.name);
        write!(f, "boot.conf:{}: ", self.line)?;
        match self.problem {
            Problem::NoModule => write!(f, "there is no boot module '{name}'"),
            Problem::BadImage(error) => write!(f, "module '{name}' is no usable image: {error}"),
            Problem::SharedPage => write!(f, "module '{name}': segments with different rights share a page"),
            Problem::TooLittle(wanted, largest) => write!(
                f,
                "too little memory for task '{name}': it needs {} KB in one piece, the largest has {} KB",
                wanted >> 10,
                largest >> 10
            ),
            Problem::NotFree => write!(f, "the memory of task '{name}' is not free"),
            Problem::Pieces => write!(f, "the memory of task '{name}' is in too many pieces"),
        }
    }
}

/// Finds a module by name.
pub fn module<'m, 'c>(modules: &[Module<'m>], name: At<&'c str>) -> Result<Module<'m>, PlanError<'c>> {
    let found = modules.iter().find(|m| m.name == name.value.as_bytes());
    found.copied().ok_or(PlanError { line: name.line, problem: Problem::NoModule, name: name.value })
}

/// Makes the plan. `free` is the RAM without content, `images` are the tasks' images, `keep` the
/// modules that stay in place.
pub fn plan<'c>(
    config: &Config<'c>,
    modules: &[Module<'_>],
    images: &[Image],
    keep: &[Module<'_>],
    mut free: Free,
) -> Result<Plan, PlanError<'c>> {
    let mut plan = Plan::default();
    for task in config.tasks.iter() {
        let mut share = Share::default();
        if let Some(At { value: Memory::Fixed(range), .. }) = task.memory {
            take(&mut free, range, task)?;
            give(&mut share, range, task)?;
        }
        plan.push(share).map_err(|_| error(task, Problem::Pieces))?;
    }
    for ((task, share), image) in config.tasks.iter().zip(plan.iter_mut()).zip(images) {
        place_image(task, share, image, &mut free)?;
        place_initrd(task, share, modules, config.may_restart(task), &mut free)?;
    }
    release_modules(config, &plan, modules, keep, &mut free)?;
    for (task, share) in config.tasks.iter().zip(plan.iter_mut()) {
        if let Some(At { value: Memory::Size(size), .. }) = task.memory {
            let range = find(&free, size, task)?;
            take(&mut free, range, task)?;
            give(share, range, task)?;
        }
    }
    for (task, share) in config.tasks.iter().zip(plan.iter_mut()).filter(|(task, _)| task.extra > 0) {
        share.extra = find(&free, task.extra, task)?;
        take(&mut free, share.extra, task)?;
    }
    for (task, share) in config.tasks.iter().zip(plan.iter_mut()) {
        if matches!(task.memory, Some(At { value: Memory::Rest, .. })) {
            give_rest(task, share, &mut free)?;
        }
    }
    Ok(plan)
}

fn error<'c>(task: &Task<'c>, problem: Problem) -> PlanError<'c> {
    let line = match problem {
        Problem::TooLittle(..) | Problem::NotFree => task.memory.map_or(task.image.line, |m| m.line),
        _ => task.name.line,
    };
    PlanError { line, problem, name: task.name.value }
}

fn find<'c>(free: &Free, size: u64, task: &Task<'c>) -> Result<Range, PlanError<'c>> {
    let alignment = if size >= SUPERPAGE { SUPERPAGE } else { PAGE_SIZE };
    let largest = free.iter().map(|r| r.shrink_to(alignment).size()).max().unwrap_or(0);
    free.find(size, alignment).ok_or(error(task, Problem::TooLittle(size, largest)))
}

fn take<'c>(free: &mut Free, range: Range, task: &Task<'c>) -> Result<(), PlanError<'c>> {
    if !free.contains(range) {
        return Err(error(task, Problem::NotFree));
    }
    free.remove(range).map_err(|_| error(task, Problem::Pieces))
}

fn give<'c>(share: &mut Share, range: Range, task: &Task<'c>) -> Result<(), PlanError<'c>> {
    share.memory.insert(range).map_err(|_| error(task, Problem::Pieces))
}

/// Places an image. A server's image is aligned to superpages and part of its memory; another
/// task's image takes the pages that it needs.
fn place_image<'c>(task: &Task<'c>, share: &mut Share, image: &Image, free: &mut Free) -> Result<(), PlanError<'c>> {
    let server = task.kind == Kind::Server;
    if !server && image.shares_pages() {
        return Err(PlanError { line: task.image.line, problem: Problem::SharedPage, name: task.image.value });
    }
    let pages = image_pages(image, task.kind);
    share.image = if server {
        let place = find(free, pages.size(), task)?;
        give(share, place, task)?;
        place
    } else {
        let missing = error(task, Problem::TooLittle(pages.size(), free.largest().map_or(0, Range::size)));
        free.find(pages.size(), PAGE_SIZE).ok_or(missing)?
    };
    take(free, share.image, task)
}

/// The virtual pages of an image.
pub fn image_pages(image: &Image, kind: Kind) -> Range {
    image.span().grow_to(if kind == Kind::Server { SUPERPAGE } else { PAGE_SIZE })
}

/// Places the initial RAM disk: in place if possible, as a copy if it must be unchanged for a
/// restart (`again`).
fn place_initrd<'c>(
    task: &Task<'c>,
    share: &mut Share,
    modules: &[Module<'_>],
    again: bool,
    free: &mut Free,
) -> Result<(), PlanError<'c>> {
    let Some(first) = task.initrd.first() else {
        return Ok(());
    };
    let first = module(modules, *first)?;
    let mut bytes = first.bytes;
    let (mut copy, mut pages) = (again, 0);
    for (index, name) in task.initrd.iter().enumerate() {
        let next = module(modules, *name)?;
        // The padding up to the next page is zero, and unpackers skip zeros between archives.
        copy |= index > 0 && next.bytes.start != bytes.end.next_multiple_of(PAGE_SIZE);
        bytes.end = next.bytes.end;
        pages += next.pages().size();
    }
    if copy {
        let place = find(free, pages, task)?;
        take(free, place, task)?;
        bytes = place;
    }
    share.initrd = Some(Initrd { bytes, copy });
    give(share, bytes.grow_to(PAGE_SIZE), task)
}

/// Frees the modules that are not needed after the images are copied.
fn release_modules<'c>(
    config: &Config<'c>,
    plan: &Plan,
    modules: &[Module<'_>],
    keep: &[Module<'_>],
    free: &mut Free,
) -> Result<(), PlanError<'c>> {
    let Some(task) = config.tasks.first() else {
        return Ok(());
    };
    let full = |_| error(task, Problem::Pieces);
    for module in modules {
        free.insert(module.pages()).map_err(full)?;
    }
    for module in keep {
        free.remove(module.pages()).map_err(full)?;
    }
    for initrd in plan.iter().filter_map(|share| share.initrd) {
        free.remove(initrd.bytes.grow_to(PAGE_SIZE)).map_err(full)?;
    }
    Ok(())
}

fn give_rest<'c>(task: &Task<'c>, share: &mut Share, free: &mut Free) -> Result<(), PlanError<'c>> {
    let too_little = error(task, Problem::TooLittle(LEAST_REST, free.largest().map_or(0, Range::size)));
    let mut given = 0;
    while let Some(piece) = free.largest().filter(|p| p.size() >= LEAST_PIECE) {
        if share.memory.insert(piece).is_err() {
            break;
        }
        take(free, piece, task)?;
        given += piece.size();
    }
    if given < LEAST_REST {
        Err(too_little)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;
    use keel_l4::elf::Segment;

    const MB: u64 = 1 << 20;

    fn image(size: u64) -> Image {
        let mut image = Image { entry: 0x100_0000, segments: List::default() };
        let virt = Range::new(0x100_0000, 0x100_0000 + size);
        image.segments.push(Segment { virt, file: Range::new(0, 16), rights: 7 }).unwrap();
        image
    }

    fn machine() -> (Free, Vec<Module<'static>>) {
        let mut free = Free::default();
        free.insert(Range::new(MB, 2 * MB)).unwrap();
        free.insert(Range::new(200 * MB, 1024 * MB)).unwrap();
        let module = |name: &'static str, start, end| Module { name: name.as_bytes(), bytes: Range::new(start, end) };
        let modules = vec![
            module("boot.conf", 6 * MB, 6 * MB + 700),
            module("vmlinux", 7 * MB, 31 * MB + 5),
            module("root.cpio", 32 * MB, 190 * MB + 12),
            module("init.cpio", 190 * MB + 4096, 191 * MB),
        ];
        (free, modules)
    }

    fn run(text: &str, images: &[Image]) -> Result<Plan, String> {
        let (free, modules) = machine();
        let config = parse(text.as_bytes()).unwrap();
        plan(&config, &modules, images, &modules[..1], free).map_err(|e| e.to_string())
    }

    const LINUX: &str = "task linux {\n image vmlinux\n kind server\n memory rest\n initrd root.cpio init.cpio\n}\n";

    #[test]
    fn a_server_gets_image_initrd_and_rest() {
        let plan = run(LINUX, &[image(20 * MB + 1)]).unwrap();
        let share = &plan[0];
        assert_eq!(share.image, Range::new(200 * MB, 222 * MB));
        assert_eq!(share.initrd, Some(Initrd { bytes: Range::new(32 * MB, 191 * MB), copy: false }));
        assert!(share.memory.contains(share.image) && share.memory.contains(Range::new(32 * MB, 191 * MB)));
        assert!(share.memory.contains(Range::new(7 * MB, 31 * MB)), "the image's module is free again");
        assert!(!share.memory.overlaps(Range::new(6 * MB, 6 * MB + 4096)), "the configuration stays");
        assert!(share.memory.contains(Range::new(222 * MB, 1024 * MB)));
    }

    #[test]
    fn modules_apart_are_copied_together() {
        let text = LINUX.replace("root.cpio init.cpio", "init.cpio root.cpio");
        let share = run(&text, &[image(MB)]).unwrap()[0];
        let initrd = share.initrd.unwrap();
        assert!(initrd.copy && initrd.bytes.start % SUPERPAGE == 0 && initrd.bytes.size() >= 159 * MB);
        assert!(share.memory.contains(initrd.bytes));
    }

    #[test]
    fn no_byte_has_two_owners() {
        let text =
            format!("{LINUX}task a {{ image vmlinux memory 64M }}\ntask b {{ image vmlinux memory 1M at 0x20000000 }}");
        let plan = run(&text, &[image(9 * MB), image(MB), image(2 * MB)]).unwrap();
        let mut all: Vec<Range> = plan.iter().flat_map(|s| s.memory.iter().collect::<Vec<_>>()).collect();
        all.extend(plan[1..].iter().map(|s| s.image));
        for (index, a) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|b| !a.overlaps(*b)), "{a:x?}");
        }
        assert!(plan[2].memory.contains(Range::new(512 * MB, 513 * MB)));
    }

    #[test]
    fn extra_memory_is_nobody_elses() {
        let text = format!("{LINUX}task a {{ image vmlinux extra 8M }}");
        let plan = run(&text, &[image(9 * MB), image(MB)]).unwrap();
        assert_eq!(
            (plan[0].extra, plan[1].extra.size(), plan[1].extra.start % SUPERPAGE),
            (Range::default(), 8 * MB, 0)
        );
        assert!(!plan[0].memory.overlaps(plan[1].extra) && !plan[1].extra.overlaps(plan[1].image));
    }

    #[test]
    fn what_is_missing_is_named() {
        let cases = [
            ("task a {\n image vmlinux\n memory 2G }", "boot.conf:3: too little memory for task 'a': it needs 2097152 KB in one piece, the largest has 843776 KB"),
            ("task a {\n image vmlinux\n memory 1M at 0x600000 }", "boot.conf:3: the memory of task 'a' is not free"),
            ("task a {\n image vmlinux\n initrd x }", "boot.conf:3: there is no boot module 'x'"),
        ];
        for (text, message) in cases {
            assert_eq!(run(text, &[image(MB)]).map(|_| ()), Err(message.to_string()));
        }
        assert!(run(LINUX, &[image(900 * MB)]).unwrap_err().contains("too little memory for task 'linux'"));
    }

    #[test]
    fn too_small_a_machine_is_refused() {
        let mut free = Free::default();
        free.insert(Range::new(8 * MB, 36 * MB)).unwrap();
        let text = "task a { image x kind server memory rest }";
        let modules = [Module { name: b"x", bytes: Range::new(6 * MB, 6 * MB + 9) }];
        let config = parse(text.as_bytes()).unwrap();
        let refused = plan(&config, &modules, &[image(4 * MB)], &[], free).unwrap_err();
        assert!(matches!(refused.problem, Problem::TooLittle(..)));
    }
}
