// SPDX-License-Identifier: GPL-2.0-only
//! Spaces against a model: map, grant, unmap and rights, with pages of all sizes, restarted
//! wherever the kernel may be interrupted, while two processors use what is mapped.
//!
//! The model consists of leaves, each with the leaf that it was mapped from, in maps. It has no
//! tables, no groups of nodes, no rows, no preemption points and no TLB.

use super::*;
use crate::arch::{cpu::cpu, delete_with_clan, each_step, switch, Machine, PROCESSORS};
use crate::base::Ref;
use crate::object::{task, thread, thread::State, TaskNumber, Thread};
use crate::random::{seed, Random};
use crate::sched;
use crate::sys::{lthreads, tasks};
use keel_abi::call::TASK_SHARED_QUOTA;
use keel_abi::Id;
use std::collections::BTreeMap;

/// Tasks that map to each other; the first is sigma0.
const TASKS: usize = 6;
/// The range of mappings in a space, in the lower or the upper half, and in physical memory. Some
/// spaces have a kernel area beside it.
const WINDOW: u64 = 0x10_0000_0000;
const UPPER_WINDOW: u64 = number(UPPER_START);
const PHYSICAL: u64 = 0x1_0000_0000;
/// Operations of a history, and between two comparisons of everything.
const OPERATIONS: u64 = 100_000;
const BETWEEN_LOOKS: u64 = 200;
/// Operations between two checks of the kernel's invariants.
const BETWEEN_CHECKS: u64 = 2_000;
/// Items of an answer, at most.
const ITEMS: u64 = 20;
/// The number of leaves above which some are unmapped.
const MANY_LEAVES: usize = 6_000;

#[derive(Clone, PartialEq, Eq, Debug)]
struct Mapped {
    task: usize,
    base: u64,
    level: u8,
    physical: u64,
    rights: u64,
    cache: u64,
    used: u64,
    /// Name of the leaf from which it was mapped, 0 for none.
    parent: usize,
}

/// Leaves by task and address, with the place of each one's source.
type Leaves = BTreeMap<(usize, u64), (Mapped, Option<(usize, u64)>)>;

#[derive(Default)]
struct Model {
    leaves: BTreeMap<usize, Mapped>,
    children: BTreeMap<usize, Vec<usize>>,
    places: [BTreeMap<u64, usize>; TASKS],
    names: usize,
}

impl Model {
    fn at(&self, task: usize, address: u64) -> Option<usize> {
        let (_, name) = self.places[task].range(..=address).next_back()?;
        let leaf = &self.leaves[name];
        (address < leaf.base + span(leaf.level)).then_some(*name)
    }

    fn first_in(&self, task: usize, start: u64, end: u64) -> Option<usize> {
        self.at(task, start).or_else(|| self.places[task].range(start..end).next().map(|(_, name)| *name))
    }

    fn add(&mut self, leaf: Mapped) -> usize {
        self.names += 1;
        self.places[leaf.task].insert(leaf.base, self.names);
        if leaf.parent != 0 {
            self.children.entry(leaf.parent).or_default().push(self.names);
        }
        self.leaves.insert(self.names, leaf);
        self.names
    }

    fn drop(&mut self, name: usize) -> u64 {
        let leaf = self.leaves.remove(&name).expect("it is there");
        self.places[leaf.task].remove(&leaf.base);
        if let Some(children) = self.children.get_mut(&leaf.parent) {
            children.retain(|child| *child != name);
        }
        leaf.used
    }

    fn came_from(&self, name: usize) -> Vec<usize> {
        self.children.get(&name).cloned().unwrap_or_default()
    }

    fn revoke(&mut self, name: usize, itself: bool) -> u64 {
        let mut used = self.came_from(name).into_iter().fold(0, |used, child| used | self.revoke(child, true));
        if itself {
            used |= self.drop(name);
            self.children.remove(&name);
        }
        used
    }

    fn reduce(&mut self, name: usize, itself: bool, keep: u64) -> u64 {
        let mut used = self.came_from(name).into_iter().fold(0, |used, child| used | self.reduce(child, true, keep));
        if itself {
            let leaf = self.leaves.get_mut(&name).expect("it is there");
            leaf.rights &= keep | FPAGE_READ;
            used |= leaf.used;
        }
        used
    }

    /// A space that has the whole page loses it; small pages of the part stay.
    fn split(&mut self, name: usize) -> u64 {
        let whole = self.leaves[&name].clone();
        let mut used = 0;
        for child in self.came_from(name) {
            if self.leaves[&child].level == whole.level {
                used |= self.revoke(child, true);
            }
        }
        let pieces = self.came_from(name);
        self.children.remove(&name);
        self.drop(name);
        let level = whole.level - 1;
        for number in 0..ENTRIES as u64 {
            let offset = number * span(level);
            let piece = Mapped { base: whole.base + offset, physical: whole.physical + offset, level, ..whole.clone() };
            let new = self.add(piece);
            for child in &pieces {
                let leaf = self.leaves.get_mut(child).expect("it stays");
                if (leaf.physical - whole.physical) / span(level) == number {
                    leaf.parent = new;
                    self.children.entry(new).or_default().push(*child);
                }
            }
        }
        used
    }

    fn unmap(&mut self, task: usize, start: u64, end: u64, keep: u64, itself: bool) -> u64 {
        let (mut at, mut used) = (start, 0);
        while let Some(name) = (at < end).then(|| self.first_in(task, at, end)).flatten() {
            let (base, after) = (self.leaves[&name].base, self.leaves[&name].base + span(self.leaves[&name].level));
            if base < at || after > end {
                used |= self.split(name);
                continue;
            }
            used |= match keep & FPAGE_READ {
                0 => self.revoke(name, itself),
                _ => self.reduce(name, itself, keep),
            };
            at = after;
        }
        used
    }

    /// The leaf at an address of the sender. sigma0 gets missing ones from physical memory.
    fn source(&mut self, task: usize, address: u64, item: Fpage) -> Option<usize> {
        if task > 0 || self.at(task, address).is_some() {
            return self.at(task, address);
        }
        let fits = |level: u8| {
            let base = address & !(span(level) - 1);
            span_shift(level) <= item.log2().max(12) && self.first_in(task, base, base + span(level)).is_none()
        };
        let level = (0..=2).rev().find(|level| fits(*level)).expect("the page itself is empty");
        let base = address & !(span(level) - 1);
        let (rights, cache) = (FPAGE_RWX, item.cache());
        Some(self.add(Mapped { task, base, level, physical: base, rights, cache, used: 0, parent: 0 }))
    }

    fn map(&mut self, from: usize, to: usize, place: Placement, item: Fpage, grant: bool) -> u64 {
        let (mut done, mut rights) = (0, 0);
        while done < 1 << place.log2 {
            let (source, target) = (place.source + done, place.target + done);
            let Some(name) = self.source(from, source, item) else {
                let next = self.places[from].range(source..).next().map_or(u64::MAX, |(base, _)| *base);
                done = next - place.source;
                continue;
            };
            let fits = |level: &u8| {
                (source | target) % span(*level) == 0
                    && done + span(*level) <= 1 << place.log2
                    && *level <= self.leaves[&name].level
            };
            let level = (0..=2).rev().find(fits).unwrap_or(0);
            rights |= self.map_one(from, (to, target), name, level, source, item, grant);
            done += span(level);
        }
        rights
    }

    #[allow(clippy::too_many_arguments)]
    fn map_one(
        &mut self,
        from: usize,
        (to, target): (usize, u64),
        name: usize,
        level: u8,
        source: u64,
        item: Fpage,
        grant: bool,
    ) -> u64 {
        let leaf = self.leaves[&name].clone();
        let (rights, physical) = (leaf.rights & item.rights(), leaf.physical + (source - leaf.base));
        if rights & FPAGE_READ == 0 {
            return 0;
        }
        let end = target + span(level);
        match self.at(to, target).filter(|there| self.leaves[there].level >= level) {
            Some(there) if there == name || self.is_below(name, there) => {
                let same = self.leaves[&there].parent == name;
                assert!(!same, "a leaf is not mapped from one that was mapped from it");
                return 0;
            }
            Some(there) => {
                let old = self.leaves.get_mut(&there).expect("it is there");
                if !grant && old.level == level && old.physical == physical && old.parent == name {
                    old.rights |= rights;
                    return rights;
                }
                self.revoke(there, true);
            }
            None => {
                self.unmap(to, target, end, 0, true);
            }
        }
        // That may have unmapped the source.
        if !self.leaves.contains_key(&name) {
            return 0;
        }
        let new = Mapped { task: to, base: target, level, physical, rights, used: 0, parent: name, ..leaf.clone() };
        if !grant {
            self.add(new);
            return rights;
        }
        if level < leaf.level {
            self.split(name);
            let piece = self.at(from, source).expect("a piece of it");
            return self.map_one(from, (to, target), piece, level, source, item, grant);
        }
        self.reduce(name, false, rights);
        let heirs = self.came_from(name);
        let used = self.drop(name);
        self.children.remove(&name);
        let new = self.add(Mapped { used, parent: leaf.parent, ..new });
        for heir in heirs {
            self.leaves.get_mut(&heir).expect("it stays").parent = new;
            self.children.entry(new).or_default().push(heir);
        }
        rights
    }

    /// The small pages of a table move to another range if it is empty; otherwise they are
    /// unmapped.
    fn move_table(&mut self, task: usize, from: u64, to: u64) {
        let names: Vec<usize> = self.places[task].range(from..from + TABLE_SPAN).map(|(_, name)| *name).collect();
        let small = names.first().is_some_and(|name| self.leaves[name].level == 0);
        if !small || self.first_in(task, to, to + TABLE_SPAN).is_some() {
            self.unmap(task, from, from + TABLE_SPAN, 0, true);
            return;
        }
        for name in names {
            let leaf = self.leaves.get_mut(&name).expect("it is there");
            self.places[task].remove(&leaf.base);
            leaf.base = leaf.base - from + to;
            self.places[task].insert(leaf.base, name);
        }
    }

    fn is_below(&self, mut name: usize, above: usize) -> bool {
        while name != 0 && name != above {
            name = self.leaves[&name].parent;
        }
        name == above
    }

    /// Every leaf, by task and address, with its parent's place.
    fn all(&self) -> Leaves {
        let place = |name: usize| self.leaves.get(&name).map(|leaf| (leaf.task, leaf.base));
        let leaf = |leaf: &Mapped| ((leaf.task, leaf.base), (Mapped { parent: 0, ..leaf.clone() }, place(leaf.parent)));
        self.leaves.values().map(leaf).collect()
    }
}

// The model's addresses are plain numbers.

fn find(task: Ref<Task>, address: u64) -> Result<Leaf, u8> {
    super::find(task, VirtAddr::new(address))
}

fn next_leaf(task: Ref<Task>, at: u64, end: u64) -> Option<Leaf> {
    super::next_leaf(task, VirtAddr::new(at), VirtAddr::new(end))
}

fn unmap(task: Ref<Task>, at: &mut u64, end: u64, keep: u64, itself: bool, work: &mut Work) -> Result<(), Stop> {
    let mut address = VirtAddr::new(*at);
    let done = super::unmap(task, &mut address, VirtAddr::new(end), keep, itself, work);
    *at = address.raw();
    done
}

/// The kernel's own view of the same.
fn found(tasks: &[Ref<Task>]) -> Leaves {
    let number = |task: Option<Ref<Task>>| tasks.iter().position(|known| Some(*known) == task).expect("one of ours");
    let mut all = BTreeMap::new();
    for (task, space) in tasks.iter().enumerate() {
        let mut at = 0;
        while let Some(leaf) = next_leaf(*space, at, 1 << SPACE_SHIFT) {
            at = leaf.address().raw() + span(leaf.level);
            if leaf.entry & KERNEL_OBJECT != 0 {
                continue;
            }
            let cache = match leaf.entry & (PWT | PCD) {
                bits if bits == cache_bits(CACHE_UNCACHED) => CACHE_UNCACHED,
                bits if bits == cache_bits(CACHE_WRITE_COMBINING) => CACHE_WRITE_COMBINING,
                _ => CACHE_WRITE_BACK,
            };
            let mapped = Mapped {
                task,
                base: leaf.address().raw(),
                level: leaf.level,
                physical: leaf.entry & ADDRESS,
                rights: bits_rights(leaf.entry),
                cache,
                used: leaf.entry & (ACCESSED | DIRTY),
                parent: 0,
            };
            let above = Some(Nodes.parent(leaf.node())).filter(|node| node.is_some()).map(Leaf::of);
            let above = above.map(|leaf| (number(POOL.page(leaf.table).task.get()), leaf.address().raw()));
            all.insert((task, leaf.address().raw()), (mapped, above));
        }
    }
    all
}

/// The kernel, the model and the state of the history.
struct History {
    machine: Machine,
    random: Random,
    tasks: Vec<Ref<Task>>,
    threads: Vec<Ref<Thread>>,
    intruder: Ref<Thread>,
    model: Model,
    /// The number of restarted operations.
    restarts: u64,
    /// Tables that were moved.
    moved: u64,
    /// Items that `map_pages` or `map_all_pages` mapped.
    answered: u64,
    /// Items that were mapped as one row.
    at_once: u64,
}

impl History {
    fn new(machine: Machine, seed: u64, quota: u64) -> History {
        let root = task::at(TaskNumber::ROOT).expect("it is there");
        let mut tasks = vec![task::at(TaskNumber::SIGMA0).expect("it is there")];
        for number in 1..TASKS as u32 {
            let plan = task::Plan {
                number: TaskNumber::new(TASK_FIRST_FREE as u32 + number),
                chief: Some(root),
                mcp: 100,
                quota,
                area: AREA_DEFAULT,
                upper: true,
                supervisor: false,
                resident: false,
            };
            tasks.push(tasks::create(&plan).expect("there is memory"));
        }
        let new = |task: &Ref<Task>, priority| {
            let plan = thread::Plan { lthread: LTHREAD_TASK as u16, frame: None, priority, pager: Id::NIL };
            lthreads::create(*task, &plan).expect("there is memory")
        };
        let threads = tasks.iter().map(|task| new(task, 10)).collect();
        let intruder = new(&tasks[1], 20);
        machine.disturb(20, Some(intruder));
        History {
            machine,
            random: Random::new(seed),
            tasks,
            threads,
            intruder,
            model: Model::default(),
            restarts: 0,
            moved: 0,
            answered: 0,
            at_once: 0,
        }
    }

    /// Makes a processor run a thread of the task.
    fn run(&self, processor: usize, task: usize) {
        let cpu = self.machine.act(processor);
        cpu.current.set(Some(self.threads[task]));
        assert!(switch::load(cpu, self.threads[task]));
    }

    /// Repeats an operation until it does not restart.
    fn finish<T>(&mut self, mut step: impl FnMut() -> Result<T, Stop>) -> T {
        loop {
            match step() {
                Ok(result) => return result,
                Err(Stop::Failed(error)) => panic!("{error:?} where there is memory for everything"),
                Err(Stop::Restart) => {
                    self.restarts += 1;
                    sched::unready(self.intruder);
                    self.intruder.change_state(State::Inactive);
                }
            }
        }
    }

    /// An address from a small set, so that mappings overlap; aligned to the size.
    fn address(&self, base: u64, log2: u8) -> u64 {
        let offset = self.random.below(3) * span(2) + self.random.below(3) * span(1) + self.random.below(4) * span(0);
        (base + offset) & !((1 << log2) - 1)
    }

    fn log2(&self) -> u8 {
        [12, 12, 12, 12, 12, 12, 12, 13, 14, 16, 18, 21, 21, 22, 30][self.random.below(15) as usize]
    }

    fn place_of(&self, task: usize) -> u64 {
        match task {
            0 => PHYSICAL,
            _ if task % 2 == 0 => UPPER_WINDOW,
            _ => WINDOW,
        }
    }

    fn rights(&self) -> u64 {
        FPAGE_READ | self.random.below(FPAGE_RWX + 1)
    }

    fn map(&mut self, from: usize, to: usize) {
        let cache = [CACHE_WRITE_BACK, CACHE_WRITE_BACK, CACHE_UNCACHED, CACHE_WRITE_COMBINING];
        let log2 = self.log2();
        let rights = if self.random.below(8) == 0 { self.random.below(FPAGE_RWX + 1) } else { self.rights() };
        let item = Fpage::memory(self.address(self.place_of(from), log2), log2, rights);
        let item = item.with_cache(cache[self.random.below(4) as usize]);
        let window_log2 = self.log2();
        let window = match self.random.below(2) {
            0 => Fpage::WHOLE,
            _ => Fpage::memory(self.address(self.place_of(to), window_log2), window_log2, 0),
        };
        let base = self.address(self.place_of(to), 12);
        let grant = self.random.below(4) == 0;
        let place = place(item, base, window).expect("both are memory");
        let (source, target) = (self.tasks[from], self.tasks[to]);
        let expected = self.model.map(from, to, place, item, grant);
        let mapping = Mapping { from: source, to: target, place, item, grant };
        // As in transfer.rs: at once, with or without new tables, or by a transfer.
        let tries = self.random.below(3);
        let mut rights = if tries > 0 { mapping.at_once(tries == 1) } else { 0 };
        self.at_once += (rights > 0) as u64;
        if rights == 0 {
            let mut progress = Progress::default();
            self.finish(|| map(&mapping, &mut progress));
            rights = progress.rights;
        }
        assert_eq!(rights, expected, "the rights that arrived");
    }

    /// A pager's answer: items of small pages near each other, and some others.
    fn answer(&mut self, from: usize, to: usize) {
        let words: Vec<Word> =
            (0..1 + self.random.below(ITEMS)).flat_map(|_| self.item(from, to)).map(Word::new).collect();
        let (source, target) = (self.tasks[from], self.tasks[to]);
        let mut items = &words[..];
        // As in fast.rs: all at once, or all of them by a transfer.
        let fast = self.random.below(2) == 0 && map_all_pages(source, target, items);
        if fast {
            self.answered += words.len() as u64 / 2;
            for pair in words.chunks(2) {
                let (base, item) = (pair[0].get(), Fpage(pair[1].get()));
                let place = place(item, base, Fpage::WHOLE).expect("it is memory");
                self.model.map(from, to, place, item, false);
            }
            items = &[];
        }
        while let Some(first) = items.first_chunk::<2>() {
            let done = map_pages(source, target, items);
            for item in items.chunks(2).take(done.max(1)) {
                let (base, item) = (item[0].get(), Fpage(item[1].get()));
                let place = place(item, base, Fpage::WHOLE).expect("it is memory");
                let expected = self.model.map(from, to, place, item, base & MAP_GRANT != 0);
                assert!(done == 0 || expected == item.rights() & expected && expected != 0, "it maps what it may not");
            }
            if done == 0 {
                let (base, item) = (first[0].get(), Fpage(first[1].get()));
                let place = place(item, base, Fpage::WHOLE).expect("it is memory");
                let mapping = Mapping { from: source, to: target, place, item, grant: base & MAP_GRANT != 0 };
                let mut progress = Progress::default();
                self.finish(|| map(&mapping, &mut progress));
            }
            self.answered += done as u64;
            items = &items[2 * done.max(1)..];
        }
    }

    /// The words of a map item, mostly of a small page.
    fn item(&self, from: usize, to: usize) -> [u64; 2] {
        let log2 = if self.random.below(20) == 0 { self.log2() } else { 12 };
        let rights = if self.random.below(20) == 0 { self.random.below(FPAGE_RWX + 1) } else { self.rights() };
        let item = Fpage::memory(self.address(self.place_of(from), log2), log2, rights);
        let grant = if self.random.below(20) == 0 { MAP_GRANT } else { 0 };
        [(self.address(self.place_of(to), 12) + self.random.below(ITEMS) * span(0)) | grant, item.0]
    }

    fn unmap(&mut self, task: usize) {
        let log2 = self.log2();
        let start = self.address(self.place_of(task), log2);
        let end = start + (1 << log2) * [1, 1, 2, 3][self.random.below(4) as usize];
        let keep = if self.random.below(2) == 0 { 0 } else { self.rights() };
        // sigma0 keeps what it has.
        self.take(task, (start, end), keep, task > 0 && self.random.below(2) == 0);
    }

    fn take(&mut self, task: usize, (start, end): (u64, u64), keep: u64, itself: bool) {
        let expected = self.model.unmap(task, start, end, keep, itself);
        let (space, mut kept) = (self.tasks[task], 0);
        let told = self.finish(|| {
            let (mut work, _, at) = Work::resume(kept);
            let mut at = at.max(start);
            let done = unmap(space, &mut at, end, keep, itself, &mut work);
            kept = work.keep(0, at);
            done.map(|()| work.state())
        });
        let (work, ..) = Work::resume(expected);
        assert_eq!(told, work.state(), "referenced and dirty");
    }

    /// Moves a table's pages within a space that both processors use.
    fn move_table(&mut self, task: usize) {
        let window = self.place_of(task);
        let (from, to) = (self.address(window, 21), self.address(window, 21));
        let page = self.random.below(4) * span(0);
        (0..PROCESSORS).for_each(|processor| self.touch_at(processor, task, from + page));
        self.model.move_table(task, from, to);
        if move_table(self.tasks[task], VirtAddr::new(from), VirtAddr::new(to)) {
            self.moved += 1;
        } else {
            let (space, mut at) = (self.tasks[task], from);
            self.finish(|| unmap(space, &mut at, from + TABLE_SPAN, 0, true, &mut Work::default()));
        }
        for place in [from, to] {
            (0..PROCESSORS).for_each(|processor| self.touch_at(processor, task, place + page));
        }
    }

    /// A user access on either processor.
    fn touch(&mut self, task: usize) {
        let processor = self.random.below(PROCESSORS as u64) as usize;
        self.touch_at(processor, task, self.address(self.place_of(task), 12));
    }

    fn touch_at(&mut self, processor: usize, task: usize, page: u64) {
        self.run(processor, task);
        let (address, write) = (page + 8, self.random.below(2) == 0);
        let leaf = self.model.at(task, address).map(|name| self.model.leaves.get_mut(&name).expect("it is there"));
        let leaf = leaf.filter(|leaf| !write || leaf.rights & FPAGE_WRITE != 0);
        assert_eq!(self.machine.touch(canonical(address), write), leaf.is_some(), "an access to {address:#x}");
        if let Some(leaf) = leaf {
            leaf.used |= if write { ACCESSED | DIRTY } else { ACCESSED };
        }
    }

    fn step(&mut self) {
        let (from, to) = (self.random.below(TASKS as u64) as usize, 1 + self.random.below(TASKS as u64 - 1) as usize);
        match self.random.below(10) {
            0..=3 => {
                self.run(self.random.below(PROCESSORS as u64) as usize, from);
                match self.random.below(3) {
                    0 => self.answer(from, to),
                    _ => self.map(from, to),
                }
            }
            4..=5 => {
                self.run(self.random.below(PROCESSORS as u64) as usize, from);
                self.unmap(from);
            }
            6 => self.move_table(to),
            _ => self.touch(from),
        }
        if self.model.leaves.len() > MANY_LEAVES {
            self.take(0, (PHYSICAL, PHYSICAL + 4 * span(2)), 0, true);
        }
    }

    fn look(&self) {
        let (model, kernel) = (self.model.all(), found(&self.tasks));
        let wrong: Vec<_> = model.iter().filter(|(place, leaf)| kernel.get(*place) != Some(*leaf)).take(3).collect();
        let there: Vec<_> = wrong.iter().map(|(place, _)| kernel.get(*place)).collect();
        assert!(wrong.is_empty(), "expected {wrong:x?}, got {there:x?}");
        assert_eq!(model.len(), kernel.len(), "leaves");
    }

    /// Frees everything except the machine's own objects.
    fn end(self) -> Machine {
        self.machine.disturb(0, None);
        for cpu in crate::arch::cpu::all() {
            cpu.current.set(None);
            // `run` loads threads of other processors, which the kernel would not look for.
            cpu.loaded.set(None);
        }
        sched::unready(self.intruder);
        for task in &self.tasks[1..] {
            unsafe { tasks::delete_lthreads(*task) };
            unsafe { tasks::delete(*task) };
        }
        unsafe { lthreads::delete(self.threads[0]) };
        while unmap(self.tasks[0], &mut 0, 1 << 40, 0, true, &mut Work::default()).is_err() {}
        self.machine.check().expect("all was given back");
        assert!(cpu().current.get().is_none());
        self.machine
    }
}

#[test]
fn spaces_agree_with_a_model_of_leaves() {
    let seed = seed(0x5ace);
    let accounts = || (POOL.free_pages.get(), POOL.root.used.get());
    let machine = Machine::take();
    let before = accounts();
    let mut history = History::new(machine, seed, TASK_SHARED_QUOTA);
    each_step("spaces", seed, OPERATIONS, |step| {
        history.step();
        if step % BETWEEN_LOOKS == 0 {
            history.look();
        }
        if step % BETWEEN_CHECKS == 0 {
            history.machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
        }
    });
    let (restarts, moved, most) = (history.restarts, history.moved, history.model.names);
    let (answered, at_once) = (history.answered, history.at_once);
    let _machine = history.end();
    assert_eq!(accounts(), before, "pages in use");
    println!(
        "spaces: {OPERATIONS} operations, {restarts} restarted, {moved} tables moved, {answered} pages of answers, {at_once} items at once, {most} leaves, seed {seed}"
    );
    assert!(answered > OPERATIONS / 10, "answers were mapped at once");
    assert!(at_once > OPERATIONS / 100, "rows were mapped at once");
    assert!(restarts > OPERATIONS / 100, "operations were restarted");
    assert!(moved > OPERATIONS / 200, "tables were moved");
}

/// A task with its own quota account.
fn limited(number: u32, quota: u64) -> Ref<Task> {
    let chief = task::at(TaskNumber::ROOT);
    let plan = task::Plan {
        number: TaskNumber::new(TASK_FIRST_FREE as u32 + number),
        chief,
        mcp: 100,
        quota,
        area: AREA_DEFAULT,
        upper: true,
        supervisor: false,
        resident: false,
    };
    tasks::create(&plan).expect("there is memory")
}

/// Maps without interruption; returns the rights that arrived.
fn give(from: Ref<Task>, to: Ref<Task>, place: Placement, rights: u64) -> Result<u64, Stop> {
    let item = Fpage::memory(place.source, place.log2, rights);
    let mut progress = Progress::default();
    map(&Mapping { from, to, place, item, grant: false }, &mut progress).map(|()| progress.rights)
}

/// What an uninterrupted unmap of pages of a space returns.
fn take(task: Ref<Task>, start: u64, pages: u64, keep: u64, itself: bool) -> u64 {
    let mut work = Work::default();
    unmap(task, &mut { start }, start + pages * span(0), keep, itself, &mut work).expect("an unmap does not fail");
    work.state()
}

#[test]
fn a_superpage_that_cannot_be_cut_loses_its_rights_as_a_whole() {
    use keel_abi::call::{UNMAP_DIRTY, UNMAP_REFERENCED, UNMAP_WHOLE};
    const DERIVED: u64 = WINDOW + span(2);
    let machine = Machine::take();
    let (sigma0, first, second) = (task::at(TaskNumber::SIGMA0).expect("it is there"), limited(1, 40), limited(2, 40));
    let place = |source, target, log2| Placement { source, target, log2 };
    let build = || {
        assert_eq!(give(sigma0, first, place(PHYSICAL, WINDOW, 21), FPAGE_RWX), Ok(FPAGE_RWX));
        assert_eq!(give(first, second, place(WINDOW, WINDOW, 21), FPAGE_RWX), Ok(FPAGE_RWX));
        assert_eq!(give(first, second, place(WINDOW + span(0), DERIVED, 12), FPAGE_RWX), Ok(FPAGE_RWX));
        access(second, VirtAddr::new(DERIVED), true).expect("it may be written");
        access(first, VirtAddr::new(WINDOW), false).expect("it may be read");
    };
    let account = first.account;
    let rights = |task, address| find(task, address).map(|leaf| bits_rights(leaf.entry)).ok();
    // The third page is cut out without memory for a split: it was not accessed, but the whole
    // superpage was, and loses the rights.
    let cut = |keep, itself| {
        build();
        let unused = account.limit.get() - account.used.get();
        assert_eq!(account.pass(unused, &POOL.root), Ok(()));
        let state = take(first, WINDOW + 3 * span(0), 1, keep, itself);
        machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
        assert_eq!(POOL.root.pass(unused, &account), Ok(()));
        let left = [(first, WINDOW), (second, WINDOW), (second, DERIVED)].map(|(task, at)| rights(task, at));
        take(first, WINDOW, 512, 0, true);
        (state, left)
    };
    const STATE: u64 = UNMAP_REFERENCED | UNMAP_DIRTY | UNMAP_WHOLE;
    const READ: Option<u64> = Some(FPAGE_READ);
    // Tasks that got the superpage lose it in any case, as by a split.
    assert_eq!(cut(0, true), (STATE, [None, None, None]), "taken away, from the space too");
    assert_eq!(cut(0, false), (STATE, [Some(FPAGE_RWX), None, None]), "taken away from the others");
    assert_eq!(cut(FPAGE_READ, true), (STATE, [READ, None, READ]), "reduced, in the space too");
    assert_eq!(cut(FPAGE_READ, false), (STATE, [Some(FPAGE_RWX), None, READ]), "reduced for the others");
    // With memory it is split.
    build();
    assert_eq!(take(first, WINDOW + 3 * span(0), 1, 0, true), UNMAP_REFERENCED, "the others were clean");
    assert_eq!(rights(first, WINDOW), Some(FPAGE_RWX));
    assert_eq!(rights(first, WINDOW + 3 * span(0)), None);
    assert_eq!(rights(second, DERIVED), Some(FPAGE_RWX));
    [second, first].into_iter().for_each(|task| unsafe { tasks::delete(task) });
    while clear(sigma0).is_err() {}
    machine.check().expect("all was given back");
}

#[test]
fn unmaps_do_not_fail_where_there_is_no_memory() {
    const QUOTA: u64 = 100;
    let seed = seed(0x71947);
    let machine = Machine::take();
    let history = History::new(machine, seed, QUOTA);
    for (number, task) in history.tasks[1..].iter().enumerate() {
        // Enough for the tables of small pages, but sooner or later too little to split a
        // superpage.
        let unused = QUOTA - task.account.used.get();
        assert_eq!(task.account.pass(unused - 4 * (number as u64 + 1), &POOL.root), Ok(()));
    }
    let (random, tasks) = (&history.random, &history.tasks);
    let (mut refused, mut whole) = (0, 0);
    each_step("tight spaces", seed, OPERATIONS, |step| {
        let (from, to) = (random.below(TASKS as u64) as usize, 1 + random.below(TASKS as u64 - 1) as usize);
        let log2 = if random.below(2) == 0 { 21 } else { 12 };
        let source = history.address(history.place_of(from), log2);
        if random.below(3) > 0 {
            let place = Placement { source, target: history.address(WINDOW, log2), log2 };
            refused += (give(tasks[from], tasks[to], place, history.rights()) == Err(Error::NoMemory.into())) as u64;
        } else {
            let (keep, itself) = (random.below(2) * history.rights(), from > 0);
            let pages = 1 << (log2 - 12);
            let state = take(tasks[from], source, pages, keep, itself);
            whole += (state & keel_abi::call::UNMAP_WHOLE != 0) as u64;
            let mut at = source;
            while let Some(leaf) = next_leaf(tasks[from], at, source + pages * span(0)).filter(|_| itself) {
                at = leaf.address().raw() + span(leaf.level);
                assert!(keep & FPAGE_READ != 0, "a page stays mapped");
                assert_eq!(bits_rights(leaf.entry) & !keep, 0, "a right stays");
            }
        }
        if step % BETWEEN_LOOKS == 0 {
            // It maps superpages again.
            while clear(tasks[0]).is_err() {}
        }
        if step % BETWEEN_CHECKS == 0 {
            history.machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
        }
    });
    println!("tight spaces: {OPERATIONS} operations, {refused} maps refused, {whole} pages not cut, seed {seed}");
    assert!(refused > OPERATIONS / 100 && whole > OPERATIONS / 2000, "memory was short");
    history.end();
}

/// A thread of low priority on the first processor that makes a long call, and one of higher
/// priority that becomes ready at each poll for interrupts.
struct Disturbed {
    machine: Machine,
    caller: Ref<Thread>,
    intruder: Ref<Thread>,
    /// Polls for interrupts in the longest of its turns.
    longest: Cell<u64>,
}

impl Disturbed {
    fn new(machine: Machine, task: Ref<Task>) -> Disturbed {
        let new = |priority| {
            let plan = thread::Plan { lthread: LTHREAD_TASK as u16, frame: None, priority, pager: Id::NIL };
            lthreads::create(task, &plan).expect("there is memory")
        };
        machine.act(0).current.set(None);
        let (caller, intruder) = (new(10), new(20));
        cpu().current.set(Some(caller));
        machine.disturb(1, Some(intruder));
        Disturbed { machine, caller, intruder, longest: Cell::new(0) }
    }

    /// The caller unmaps pages of its task. Returns the number of turns, and the polls for
    /// interrupts.
    fn unmap(&self, start: u64, pages: u64, keep: u64) -> (u64, u64) {
        use keel_abi::call::{CALL_FPAGE_UNMAP, UNMAP_TASK};
        let (frame, before) = (self.caller.frame(), self.machine.polls());
        let record = &self.caller.utcb().expect("it is native").record;
        record[0].set(start | keep);
        record[1].set(pages);
        let turns = self.call(CALL_FPAGE_UNMAP, || {
            frame.si.set(UNMAP_TASK);
            frame.dx.set(self.caller.task.id().0);
            frame.r8.set(1);
        });
        (turns, self.machine.polls() - before)
    }

    /// The caller makes a system call with the arguments that `prepare` sets. Returns the number of
    /// turns.
    fn call(&self, call: u64, prepare: impl Fn()) -> u64 {
        let frame = self.caller.frame();
        self.longest.set(0);
        for turn in 1..=2 * MANY {
            prepare();
            frame.orig_ax.set(call);
            frame.ip.set(CALL_END);
            let before = self.machine.polls();
            crate::sys::syscall::enter(self.caller);
            self.longest.set(self.longest.get().max(self.machine.polls() - before));
            sched::unready(self.intruder);
            self.intruder.change_state(State::Inactive);
            if frame.ip.get() == CALL_END {
                assert_eq!(frame.ax.get(), 0, "the status");
                return turn;
            }
        }
        panic!("it does not end")
    }

    /// Frees everything.
    fn end(self) {
        self.machine.disturb(0, None);
        cpu().current.set(None);
        let (task, sigma0) = (self.caller.task, task::at(TaskNumber::SIGMA0).expect("it is there"));
        delete_with_clan(task);
        while clear(sigma0).is_err() {}
        self.machine.check().expect("all was given back");
    }
}

/// The ip of a caller after its system call.
const CALL_END: u64 = 0x1000;

/// A page at the address and `count` more, each mapped from the previous one (a chain), or all from
/// the first.
fn pages_from_one(task: Ref<Task>, sigma0: Ref<Task>, count: u64, chain: bool) {
    let mut source = WINDOW;
    assert!(give(sigma0, task, Placement { source: PHYSICAL, target: source, log2: 12 }, FPAGE_RWX).is_ok());
    for number in 1..=count {
        let target = WINDOW + number * span(0);
        assert!(give(task, task, Placement { source, target, log2: 12 }, FPAGE_RWX).is_ok());
        source = if chain { target } else { source };
    }
}

/// Pages for long operations: enough to tell quadratic from linear cost.
const MANY: u64 = 4_000;

#[test]
fn an_unmap_keeps_its_place() {
    let machine = Machine::take();
    let (sigma0, task) = (task::at(TaskNumber::SIGMA0).expect("it is there"), limited(1, 4_000));
    let leaves = WINDOW..WINDOW + (MANY + 1) * span(0);
    pages_from_one(task, sigma0, MANY, false);
    let disturbed = Disturbed::new(machine, task);
    let linear = |(turns, polls): (u64, u64), most: u64, what: &str| {
        println!("{what}: {turns} turns, {polls} polls for interrupts");
        assert!(turns * most > MANY, "{what}: it yielded {turns} times");
        assert!(polls < 2 * MANY, "{what}: {polls} polls for interrupts at {MANY} leaves");
    };
    // The first leaf alone, because all others were mapped from it. Rights are revoked from one row
    // at a time.
    linear(disturbed.unmap(WINDOW + span(0), MANY, FPAGE_READ), 7 * ROW as u64, "rights taken");
    for address in leaves.step_by(span(0) as usize).skip(1) {
        assert_eq!(find(task, address).map(|leaf| bits_rights(leaf.entry)), Ok(FPAGE_READ), "{address:#x}");
    }
    linear(disturbed.unmap(WINDOW + span(0), MANY, FPAGE_READ), 7 * ROW as u64, "no rights left to take");
    linear(disturbed.unmap(WINDOW, 1, 0), 10, "a tree of many branches");
    disturbed.end();
}

/// A page at the address and `count` more in a tree: each inner node has `children` of them, and
/// the newest nodes get the next ones.
fn deep_tree(task: Ref<Task>, sigma0: Ref<Task>, count: u64, children: u64) {
    pages_from_one(task, sigma0, 0, true);
    for number in 1..=count {
        let source = WINDOW + (number - 1) / children * children * span(0);
        let place = Placement { source, target: WINDOW + number * span(0), log2: 12 };
        assert!(give(task, task, place, FPAGE_RWX).is_ok());
    }
}

#[test]
fn any_tree_is_taken_back_in_short_turns_and_in_time_that_grows_with_its_size() {
    /// The most polls for interrupts in a turn: one step removes a mapping, moves the mappings
    /// below another one, and descends to it.
    const TURN: u64 = 5;
    let machine = Machine::take();
    let (sigma0, task) = (task::at(TaskNumber::SIGMA0).expect("it is there"), limited(1, 4_000));
    let disturbed = Disturbed::new(machine, task);
    // Chains, trees whose mappings are removed before the mappings made from them, and trees with a
    // descent.
    for children in [1, 2, 20, FEW as u64, FEW as u64 + 1, MANY / 3, MANY] {
        deep_tree(task, sigma0, MANY, children);
        let (turns, polls) = disturbed.unmap(WINDOW, 1, 0);
        let longest = disturbed.longest.get();
        println!("a tree of {children} each: {turns} turns, {polls} polls for interrupts, at most {longest} in a turn");
        assert!(next_leaf(task, WINDOW, WINDOW + (MANY + 1) * span(0)).is_none(), "all of it is gone");
        assert!(turns > MANY / 10 && polls < 2 * MANY, "{turns} turns, {polls} polls for interrupts");
        assert!(longest <= TURN, "{longest} polls for interrupts in a turn");
        disturbed.machine.check().expect("the tree is sound");
    }
    disturbed.end();
}

#[test]
fn a_space_goes_in_time_that_grows_with_its_chains() {
    let machine = Machine::take();
    let (sigma0, task) = (task::at(TaskNumber::SIGMA0).expect("it is there"), limited(1, 4_000));
    let disturbed = Disturbed::new(machine, task);
    // A space is deleted with all its contents, and no other thread runs before the end.
    let going = limited(2, 4_000);
    pages_from_one(going, sigma0, MANY, true);
    let before = disturbed.machine.polls();
    crate::ipc::transfer::ready(disturbed.intruder);
    unsafe { tasks::delete(going) };
    let polls = disturbed.machine.polls() - before;
    println!("a space with a chain: {polls} polls for interrupts");
    assert!(polls < MANY, "{polls} polls for interrupts");
    disturbed.end();
}

#[test]
fn a_place_is_that_of_one_call_only() {
    use keel_abi::call::CALL_LTHREAD_EX_REGS;
    use keel_abi::memory::EX_IP;
    let machine = Machine::take();
    let (sigma0, task) = (task::at(TaskNumber::SIGMA0).expect("it is there"), limited(1, 4_000));
    pages_from_one(task, sigma0, MANY, false);
    let disturbed = Disturbed::new(machine, task);
    let (caller, other) = (disturbed.caller, disturbed.intruder);
    let stopped = Work::default().keep(0, WINDOW + MANY * span(0));
    // Its handler answers with a frame.
    other.found.set(stopped);
    caller.waiters.set(1);
    caller.frame().si.set(keel_abi::Tag::new(0, keel_abi::call::MAX_WORDS).0);
    crate::ipc::ipc::resume(caller, other);
    assert_eq!(other.found.get(), 0, "the place of a thread with other registers");
    // Alternatively, another thread changes its ip.
    caller.found.set(stopped);
    let frame = other.frame();
    frame.orig_ax.set(CALL_LTHREAD_EX_REGS);
    frame.di.set(caller.id.0);
    frame.si.set(EX_IP);
    crate::sys::syscall::enter(other);
    assert_eq!(frame.ax.get(), 0, "the status");
    disturbed.unmap(WINDOW, MANY + 1, 0);
    assert!(find(task, WINDOW).is_err(), "the next call began where the one before had stopped");
    disturbed.end();
}

#[test]
fn what_another_processor_writes_meanwhile_stays_known() {
    const SUPERPAGE: u8 = 21;
    const WRITTEN: u64 = WINDOW + 5 * span(0);
    /// Enough for polls for interrupts while they are unmapped or reduced.
    const DERIVED: u64 = 40;
    let machine = Machine::take();
    let sigma0 = task::at(TaskNumber::SIGMA0).expect("it is there");
    let (user, other) = (limited(1, 4_000), limited(2, 4_000));
    let plan = thread::Plan { lthread: LTHREAD_TASK as u16, frame: None, priority: 10, pager: Id::NIL };
    machine.act(1);
    let writer = lthreads::create(user, &plan).expect("there is memory");
    let build = |log2: u8| {
        let page = WRITTEN & !((1 << log2) - 1);
        let place = Placement { source: PHYSICAL + page - WINDOW, target: page, log2 };
        assert!(give(sigma0, user, place, FPAGE_RWX).is_ok());
        for number in 0..DERIVED {
            let place = Placement { source: page, target: WINDOW + number * span(1), log2 };
            assert!(give(user, other, place, FPAGE_RWX).is_ok());
        }
        let second = machine.act(1);
        second.current.set(Some(writer));
        assert!(switch::load(second, writer));
        machine.act(0);
        machine.write_beside(Some(WRITTEN));
    };
    let written = || {
        let writes = machine.writes();
        machine.write_beside(None);
        assert!(writes > 0, "the other processor wrote");
    };
    // A split, which unmaps the superpages of other tasks first.
    build(SUPERPAGE);
    take(user, WINDOW, 1, 0, true);
    written();
    assert_ne!(find(user, WRITTEN).map_or(0, |leaf| leaf.entry & DIRTY), 0, "a piece of the cut page");
    take(user, WINDOW, 512, 0, true);
    // A grant with fewer rights, which reduces those of other tasks first.
    build(12);
    let item = Fpage::memory(WRITTEN, 12, FPAGE_READ);
    let place = Placement { source: WRITTEN, target: WINDOW + span(2), log2: 12 };
    let mapping = Mapping { from: user, to: other, place, item, grant: true };
    assert_eq!(map(&mapping, &mut Progress::default()), Ok(()));
    written();
    assert_ne!(find(other, WINDOW + span(2)).map_or(0, |leaf| leaf.entry & DIRTY), 0, "the granted page");
    machine.act(1).current.set(None);
    machine.act(0);
    unsafe { lthreads::delete(writer) };
    [other, user].into_iter().for_each(|task| unsafe { tasks::delete(task) });
    while clear(sigma0).is_err() {}
    machine.check().expect("all was given back");
}

#[test]
fn the_deletion_of_a_clan_gives_way() {
    let sigma0 = || task::at(TaskNumber::SIGMA0).expect("it is there");
    let turns = deletion_of_a_clan(2, |task| pages_from_one(task, sigma0(), MANY, true));
    assert!(turns > 20, "it gave way {turns} times");
    // Tasks without a page take time too.
    const EMPTY: u32 = 200;
    let turns = deletion_of_a_clan(EMPTY, |_| ());
    assert!(turns >= EMPTY as u64, "it gave way {turns} times");
}

/// Recreates a task whose clan has this many tasks, while a thread of higher priority is ready.
/// Returns the number of calls.
fn deletion_of_a_clan(tasks: u32, fill: impl Fn(Ref<Task>)) -> u64 {
    use keel_abi::call::{CALL_TASK_NEW, TASK_NO_LTHREAD};
    let (machine, chief) = (Machine::take(), limited(1, 12_000));
    let new = |number: u32, chief| {
        let number = TASK_FIRST_FREE as u32 + number;
        let plan = task::Plan {
            number: TaskNumber::new(number),
            chief: Some(chief),
            mcp: 100,
            quota: TASK_SHARED_QUOTA,
            area: 0,
            upper: true,
            supervisor: false,
            resident: false,
        };
        tasks::create(&plan).expect("there is memory")
    };
    // The middle one is deleted, but the work is in the inner ones.
    let middle = new(2, chief);
    (0..tasks).for_each(|number| fill(new(3 + number, middle)));
    let disturbed = Disturbed::new(machine, chief);
    let (id, frame) = (middle.id(), disturbed.caller.frame());
    let turns = disturbed.call(CALL_TASK_NEW, || {
        frame.di.set(id.0);
        frame.r10.set(TASK_SHARED_QUOTA);
        frame.r12.set(0);
        frame.si.set(TASK_NO_LTHREAD);
    });
    println!("a clan of {tasks}: {turns} turns");
    assert!(
        (0..tasks).all(|number| task::at(TaskNumber::new(TASK_FIRST_FREE as u32 + 3 + number)).is_none()),
        "the clan is gone"
    );
    assert_ne!(task::at(TaskNumber::of(id)).map(|task| task.id()), Some(id), "a new task is there");
    disturbed.end();
    turns
}

/// A space with small pages from the window's first address on, which are mapped to other tasks.
fn with_pages(number: u32, pages: u64) -> Ref<Task> {
    let (sigma0, task) = (task::at(TaskNumber::SIGMA0).expect("it is there"), limited(number, 100));
    for page in 0..pages {
        let place = Placement { source: PHYSICAL + page * span(0), target: WINDOW + page * span(0), log2: 12 };
        assert_eq!(give(sigma0, task, place, FPAGE_RWX), Ok(FPAGE_RWX));
    }
    task
}

/// Deletes the tasks of a test, and unmaps the memory that sigma0 got for them.
fn end_of(machine: &Machine, tasks: &[Ref<Task>]) {
    tasks.iter().for_each(|task| unsafe { tasks::delete(*task) });
    while clear(task::at(TaskNumber::SIGMA0).expect("it is there")).is_err() {}
    machine.check().expect("all was given back");
}

/// Maps a row at once, with new tables or without; returns the rights that arrived.
fn row(from: Ref<Task>, to: Ref<Task>, place: Placement, tables: bool) -> u64 {
    let item = Fpage::memory(place.source, place.log2, FPAGE_RWX);
    Mapping { from, to, place, item, grant: false }.at_once(tables)
}

/// Leaves a task only this many unused pages.
fn leave_pages(task: Ref<Task>, pages: u64) {
    let account = task.account;
    assert_eq!(account.pass(account.limit.get() - account.used.get() - pages, &POOL.root), Ok(()));
}

/// How many of this many small pages from an address on are mapped.
fn mapped_from(task: Ref<Task>, start: u64, pages: u64) -> u64 {
    (0..pages).filter(|page| find(task, start + page * span(0)).is_ok()).count() as u64
}

#[test]
fn quota_that_ends_in_the_middle_of_a_row() {
    // Three groups of nodes are in a page with the fourth. There is no page for the next four.
    const FIRST: u64 = 5 * GROUP as u64 - 8;
    const NO_MEMORY: Result<u64, Stop> = Err(Stop::Failed(Error::NoMemory));
    let machine = Machine::take();
    let (from, to) = (with_pages(1, 512), limited(2, 100));
    let place = |source, target, log2| Placement { source, target, log2 };
    // A row ends at the end of a group, and the next group has no memory for its nodes.
    assert_eq!(give(from, to, place(WINDOW, WINDOW + FIRST * span(0), 12), FPAGE_RWX), Ok(FPAGE_RWX));
    take(to, WINDOW + FIRST * span(0), 1, 0, true);
    for group in 0..4 {
        let target = WINDOW + group * GROUP as u64 * span(0);
        assert_eq!(give(from, to, place(WINDOW, target, 12), FPAGE_RWX), Ok(FPAGE_RWX));
    }
    leave_pages(to, 0);
    let before = mapped_from(to, WINDOW, 512);
    assert_eq!(give(from, to, place(WINDOW, WINDOW, 21), FPAGE_RWX), NO_MEMORY);
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    assert_eq!((before, mapped_from(to, WINDOW, 512)), (4, 4 * GROUP as u64), "all that there was a place for");
    // With memory the same operation completes.
    assert_eq!(POOL.root.pass(1, &to.account), Ok(()));
    assert_eq!(give(from, to, place(WINDOW, WINDOW, 21), FPAGE_RWX), Ok(FPAGE_RWX));
    assert_eq!(mapped_from(to, WINDOW, 512), 512);
    end_of(&machine, &[to, from]);
}

#[test]
fn quota_that_ends_in_the_middle_of_an_answer() {
    let machine = Machine::take();
    let (from, to) = (with_pages(1, 32), limited(2, 100));
    let items = |targets: core::ops::Range<u64>| -> Vec<Word> {
        let words = |page| [WINDOW + page * span(0), Fpage::memory(WINDOW + page % 32 * span(0), 12, FPAGE_RWX).0];
        targets.flat_map(words).map(Word::new).collect()
    };
    for group in 0..4 {
        let place = Placement { source: WINDOW, target: WINDOW + group * GROUP as u64 * span(0), log2: 12 };
        assert_eq!(give(from, to, place, FPAGE_RWX), Ok(FPAGE_RWX));
    }
    leave_pages(to, 0);
    // An answer reaches from the last group with memory for its nodes into the next one.
    let middle = 4 * GROUP as u64;
    assert_eq!(map_pages(from, to, &items(middle - 8..middle + 8)), 8, "up to the end of the group");
    assert_eq!(map_pages(from, to, &items(middle..middle + 8)), 0, "no place for nodes");
    assert!(!map_all_pages(from, to, &items(middle - 12..middle + 4)), "not all of them");
    assert_eq!(mapped_from(to, WINDOW, 512), 4 + 12, "those before the end of the group");
    let place = Placement { source: WINDOW, target: WINDOW + middle * span(0), log2: 12 };
    assert_eq!(row(from, to, Placement { log2: 16, ..place }, true), 0, "a row has no place for nodes either");
    assert_eq!(give(from, to, place, FPAGE_RWX), Err(Stop::Failed(Error::NoMemory)));
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    assert_eq!(mapped_from(to, WINDOW, 512), 4 + 12);
    assert_eq!(POOL.root.pass(1, &to.account), Ok(()));
    assert_eq!(map_pages(from, to, &items(middle..middle + 16)), 16);
    assert!(map_all_pages(from, to, &items(middle + 16..middle + 32)));
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    end_of(&machine, &[to, from]);
}

#[test]
fn a_row_is_mapped_at_once_where_that_is_simple() {
    const PAGES: u64 = 16;
    let machine = Machine::take();
    let (from, to) = (with_pages(1, PAGES + 1), limited(2, 100));
    let used = || to.account.used.get();
    let place = |target, log2| Placement { source: WINDOW, target, log2 };
    let before = used();
    assert_eq!(row(from, to, place(WINDOW, 16), false), 0, "there are no tables");
    let hole = Placement { source: WINDOW + PAGES * span(0), target: WINDOW, log2: 16 };
    assert_eq!(row(from, to, hole, true), 0, "a hole in the source");
    assert_eq!(mapped_from(to, WINDOW, PAGES), 1, "what is before the hole");
    take(to, WINDOW, 1, 0, true);
    let empty = Placement { source: WINDOW + span(2), target: WINDOW, log2: 16 };
    assert_eq!(row(from, to, empty, true), 0, "nothing in the source");
    let nothing = Mapping { from, to, place: place(WINDOW, 16), item: Fpage::memory(WINDOW, 16, 0), grant: false };
    assert_eq!(nothing.at_once(true), 0, "an item without rights");
    let grant = Mapping { item: Fpage::memory(WINDOW, 16, FPAGE_RWX), grant: true, ..nothing };
    assert_eq!(grant.at_once(true), 0, "a grant");
    assert_eq!(row(from, to, place(USER_END - 15 * span(0), 16), true), 0, "the last page of the lower half");
    assert_eq!(row(from, to, place(AREA_DEFAULT + (1 << 16), 16), true), 0, "the kernel's area");
    assert_eq!(used(), before, "no table stays without a page");
    assert_eq!(row(from, to, place(WINDOW, 16), true), FPAGE_RWX);
    assert_eq!(row(from, to, place(WINDOW + (1 << 16), 12), false), FPAGE_RWX, "now there are tables");
    assert_eq!(mapped_from(to, WINDOW, 2 * PAGES), PAGES + 1);
    assert_eq!(row(from, to, place(WINDOW, 16), false), FPAGE_RWX, "the same once more");
    // A page with fewer rights ends a row: a transfer gives it more.
    take(to, WINDOW + 5 * span(0), 1, FPAGE_READ, true);
    assert_eq!(row(from, to, place(WINDOW, 16), false), 0, "fewer rights");
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    take(from, WINDOW, PAGES + 1, 0, false);
    assert_eq!(used(), before, "all of it came from there");
    end_of(&machine, &[to, from]);
}

#[test]
fn only_a_row_of_memory_is_mapped_at_once() {
    use crate::ipc::transfer::pass_row;
    const PORTS: Fpage = Fpage::io(0, 12);
    let machine = Machine::take();
    let (from, to) = (with_pages(1, 1), limited(2, 100));
    let words = |target: u64, fpage: Fpage| [Word::new(target), Word::new(fpage.0)];
    let two_rows = words(WINDOW, Fpage::memory(WINDOW, 17, FPAGE_RWX));
    assert_eq!(pass_row((from, to), &two_rows, Fpage::WHOLE, true), None, "more than a row");
    // Ports have the same numbers as the addresses of this page.
    assert_eq!(give(from, from, Placement { source: WINDOW, target: 0, log2: 12 }, FPAGE_RWX), Ok(FPAGE_RWX));
    assert_eq!(pass_row((from, to), &words(0, PORTS), Fpage::io(0, 16), true), None, "ports");
    // The kernel's own objects in a task's area have no nodes.
    assert!(find(from, AREA_DEFAULT).is_ok_and(|leaf| leaf.node() == NodeIndex::NONE));
    let object = words(WINDOW, Fpage::memory(AREA_DEFAULT, 12, FPAGE_RWX));
    assert_eq!(pass_row((from, to), &object, Fpage::WHOLE, true), None, "an object of the kernel");
    assert_eq!(
        give(from, to, Placement { source: WINDOW, target: WINDOW + span(0), log2: 12 }, FPAGE_RWX),
        Ok(FPAGE_RWX)
    );
    assert!(!map_all_pages(from, to, &object) && map_pages(from, to, &object) == 0, "the same in an answer");
    assert_eq!(mapped_from(to, WINDOW, 2), 1);
    end_of(&machine, &[to, from]);
}

#[test]
fn an_interrupt_while_tables_are_made_finds_no_waiting_receiver() {
    use crate::ipc::{ipc, kernel_object};
    use keel_abi::call::*;
    const LABEL: u32 = 7;
    let machine = Machine::take();
    let (from, to) = (with_pages(1, 1), limited(2, 100));
    let new = |task| {
        let plan = thread::Plan { lthread: LTHREAD_TASK as u16, frame: None, priority: 10, pager: Id::NIL };
        lthreads::create(task, &plan).expect("there is memory")
    };
    let (sender, receiver) = (new(from), new(to));
    machine.act(0).current.set(Some(receiver));
    sched::wake(receiver);
    assert!(kernel_object::invoke(receiver, Id(ID_TIMER), OBJECT_BIND).is_ok());
    receiver.frame().orig_ax.set(CALL_IPC | IPC_RECEIVE | IPC_OPEN);
    receiver.utcb().expect("it is native").receive_fpage.set(Fpage::WHOLE.0);
    ipc::receive(receiver);
    assert_eq!(receiver.state(), thread::State::Receiving);
    // The time of its timer is over, and the first preemption point serves the interrupt.
    receiver.frame().r8.set(machine.now());
    assert!(kernel_object::invoke(receiver, Id(ID_TIMER), TIMER_SET).is_ok());
    cpu().current.set(Some(sender));
    let (frame, utcb) = (sender.frame(), sender.utcb().expect("it is native"));
    frame.orig_ax.set(CALL_IPC | IPC_SEND);
    frame.di.set(receiver.id.0);
    frame.si.set(keel_abi::Tag::new(LABEL, 0).with_maps(1).0);
    utcb.maps[0].set(WINDOW);
    utcb.maps[1].set(Fpage::memory(WINDOW, 12, FPAGE_RWX).0);
    machine.disturb(1, None);
    crate::sys::syscall::enter(sender);
    machine.disturb(0, None);
    assert_eq!((frame.ax.get(), mapped_from(to, WINDOW, 1)), (0, 1), "the message arrived");
    let came = keel_abi::Tag(receiver.frame().si.get());
    assert_eq!((receiver.state(), came.label(), came.maps()), (State::Ready, LABEL, 1));
    assert!(!receiver.pending.is_empty(), "the timer's message comes next");
    cpu().current.set(None);
    sched::unready(receiver);
    [to, from].into_iter().for_each(|task| unsafe { tasks::delete_lthreads(task) });
    end_of(&machine, &[to, from]);
}

#[test]
fn an_answer_gives_more_rights_to_what_is_there() {
    const PAGES: u64 = 16;
    let machine = Machine::take();
    let (from, other, to) = (with_pages(1, PAGES), with_pages(2, PAGES), limited(3, 100));
    let words = |rights| -> Vec<Word> {
        let items =
            (0..PAGES).flat_map(|page| [WINDOW + page * span(0), Fpage::memory(WINDOW + page * span(0), 12, rights).0]);
        items.map(Word::new).collect()
    };
    let place = Placement { source: WINDOW, target: WINDOW, log2: 16 };
    assert_eq!(give(from, to, place, FPAGE_READ), Ok(FPAGE_READ));
    let rights = || find(to, WINDOW + 5 * span(0)).map(|leaf| bits_rights(leaf.entry)).ok();
    // As in transfer.rs: if each page gets more rights, a batch ends before the last page.
    let batches = |rights| {
        let (words, mut at, mut batches) = (words(rights), 0, 0);
        while at < PAGES as usize {
            let done = map_pages(from, to, &words[2 * at..]);
            assert!(done > 0, "page {at}");
            (at, batches) = (at + done, batches + 1);
        }
        batches
    };
    assert_eq!((batches(FPAGE_READ), rights()), (2, Some(FPAGE_READ)));
    assert_eq!((batches(FPAGE_READ | FPAGE_WRITE), rights()), (2, Some(FPAGE_READ | FPAGE_WRITE)));
    assert_eq!((batches(FPAGE_READ | FPAGE_EXEC), rights()), (2, Some(FPAGE_RWX)));
    assert_eq!(map_pages(other, to, &words(FPAGE_RWX)), 0, "the same place, from another task");
    assert_eq!(mapped_from(to, WINDOW, PAGES), PAGES);
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    end_of(&machine, &[to, other, from]);
}

#[test]
fn items_that_overlap_themselves() {
    const PAGES: u64 = 16;
    let machine = Machine::take();
    let task = with_pages(1, 1);
    // Each page is mapped from the previous one, which the same item has just mapped.
    let item = Fpage::memory(WINDOW, 16, FPAGE_RWX);
    let place = Placement { source: WINDOW, target: WINDOW + span(0), log2: 16 };
    let mapping = Mapping { from: task, to: task, place, item, grant: false };
    assert_eq!(map(&mapping, &mut Progress::default()), Ok(()));
    assert_eq!(mapped_from(task, WINDOW, PAGES + 1), PAGES + 1);
    for page in 1..=PAGES {
        let leaf = find(task, WINDOW + page * span(0)).expect("it is mapped");
        assert_eq!(Leaf::of(Nodes.parent(leaf.node())).address().raw(), WINDOW + (page - 1) * span(0), "page {page}");
    }
    // An answer whose items do the same.
    let words = (1..=PAGES).flat_map(|page| {
        let at = WINDOW + (PAGES + page) * span(0);
        [at, Fpage::memory(at - span(0), 12, FPAGE_RWX).0]
    });
    let words: Vec<Word> = words.map(Word::new).collect();
    assert_eq!(map_pages(task, task, &words), PAGES as usize);
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    // Unmapped from the middle on: everything mapped from there is removed, in whatever rows it is.
    take(task, WINDOW + 8 * span(0), 4, 0, false);
    assert_eq!(mapped_from(task, WINDOW, 3 * PAGES), 9);
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    end_of(&machine, &[task]);
}

#[test]
fn a_row_that_frees_its_own_table() {
    const PAGES: u64 = 40;
    let machine = Machine::take();
    let (from, to) = (with_pages(1, PAGES), limited(2, 100));
    let tables = to.account.word(keel_abi::call::ACCOUNT_TABLES);
    let used = to.account.used.get();
    for itself in [true, false] {
        for page in 0..PAGES {
            let place = Placement { source: WINDOW + page * span(0), target: WINDOW + page * span(0), log2: 12 };
            assert_eq!(give(from, to, place, FPAGE_RWX), Ok(FPAGE_RWX));
        }
        let (whose, what) = if itself { (to, "the space's own") } else { (from, "what came from another's") };
        take(whose, WINDOW, PAGES, 0, itself);
        machine.check().unwrap_or_else(|complaint| panic!("{what}: {complaint}"));
        assert_eq!(mapped_from(to, WINDOW, PAGES), 0, "{what}");
        assert_eq!((to.account.word(keel_abi::call::ACCOUNT_TABLES), to.account.used.get()), (tables, used), "{what}");
    }
    assert_eq!(mapped_from(from, WINDOW, PAGES), PAGES);
    end_of(&machine, &[to, from]);
}
