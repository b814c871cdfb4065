// SPDX-License-Identifier: GPL-2.0-only
//! Windows against the tables of the tasks that have them: random histories of maps, unmaps,
//! grants, large pages, tables that move, windows that open and close, promotions, and deletions,
//! restarted wherever the kernel may be interrupted, while two processors use what is mapped.
//!
//! A window shows what its task's own tables have, on which spaces.rs's model already agrees, and
//! nothing else, whatever the TLBs hold. The processor walks the tables that are loaded.

use super::*;
use crate::arch::{cpu::all, delete_with_clan, each_step, switch, Machine, PROCESSORS};
use crate::base::facts::{Word, WORDS_GIVEN};
use crate::mm::space::{find, map, move_table, unmap, Leaf, Mapping, Placement, Progress, Stop, Work};
use crate::object::{task, thread, thread::State, TaskNumber, Thread};
use crate::random::{seed, Random};
use crate::sched;
use crate::sys::{lthreads, small, tasks};
use keel_abi::memory::{AREA_DEFAULT, AREA_SMALL_SIZE};
use keel_abi::{Error, Fpage, Id};
use std::ops::Range;

/// Tasks with windows, and their threads.
const MEMBERS: usize = 4;
const THREADS: usize = 2;
/// Where sigma0 has what it maps.
const PHYSICAL: u64 = 0x1_0000_0000;
const OPERATIONS: u64 = 100_000;
/// Operations between two checks of the kernel's invariants.
const BETWEEN_CHECKS: u64 = 200;
/// The most faults that one access takes: a table, and a large page in its place, or the contrary.
const MOST_FAULTS: usize = 4;
/// Pages of a member's quota.
const QUOTA: u64 = 300;

/// How often each kind of thing came about.
#[derive(Default, Debug)]
struct Counts {
    opened: u64,
    busy: u64,
    closed: u64,
    shown: u64,
    seen: u64,
    seen_by_host: u64,
    refused: u64,
    promoted: u64,
    moved: u64,
    restarts: u64,
    homes: u64,
    deleted: u64,
}

struct History {
    machine: Machine,
    random: Random,
    root: Ref<Task>,
    sigma0: Ref<Task>,
    home: Ref<Task>,
    /// Of the root task, which is the chief of the others, and a host.
    chief: Ref<Thread>,
    intruder: Ref<Thread>,
    members: Vec<Ref<Task>>,
    threads: Vec<[Ref<Thread>; THREADS]>,
    counts: Counts,
}

fn new_task(number: u32, area: u64, quota: u64) -> Ref<Task> {
    let plan = task::Plan {
        number: TaskNumber::new(TASK_FIRST_FREE as u32 + number),
        chief: task::at(TaskNumber::ROOT),
        mcp: 100,
        quota,
        area,
        upper: false,
        supervisor: false,
        resident: false,
    };
    tasks::create(&plan).expect("there is memory")
}

fn new_thread(task: Ref<Task>, priority: u8) -> Ref<Thread> {
    let plan = thread::Plan { lthread: LTHREAD_TASK as u16, frame: None, priority, pager: Id::NIL };
    lthreads::create(task, &plan).expect("there is memory")
}

/// Every second one has its kernel area elsewhere, and so room for a page of 1 GB in its window.
fn new_member(number: usize) -> (Ref<Task>, [Ref<Thread>; THREADS]) {
    let area = if number % 2 == 0 { AREA_SMALL_SIZE } else { AREA_DEFAULT };
    let task = new_task(number as u32, area, QUOTA);
    (task, std::array::from_fn(|_| new_thread(task, 10)))
}

/// The number of a home.
const HOME: u32 = MEMBERS as u32;

impl History {
    fn new(machine: Machine, seed: u64) -> History {
        WORDS_GIVEN.set(WORDS_GIVEN.get() | 1 << Word::SmallUnsafe as u32);
        let root = task::at(TaskNumber::ROOT).expect("it is there");
        let (members, threads) = (0..MEMBERS).map(new_member).unzip();
        let intruder = new_thread(root, 20);
        machine.disturb(20, Some(intruder));
        History {
            machine,
            random: Random::new(seed),
            root,
            sigma0: task::at(TaskNumber::SIGMA0).expect("it is there"),
            home: new_task(HOME, 0, QUOTA),
            chief: new_thread(root, 10),
            intruder,
            members,
            threads,
            counts: Counts::default(),
        }
    }

    fn one_of(&self, count: usize) -> usize {
        self.random.below(count as u64) as usize
    }

    /// Makes a processor run a thread, which comes from another one if need be.
    fn run(&self, processor: usize, thread: Ref<Thread>) {
        let cpu = self.machine.act(thread.cpu.get() as usize);
        if thread.cpu.get() as usize != processor && cpu.loaded.get() == Some(thread) {
            cpu.loaded_changed();
        }
        if cpu.current.get() == Some(thread) {
            cpu.current.set(None);
        }
        thread.cpu.set(processor as u8);
        let cpu = self.machine.act(processor);
        cpu.current.set(Some(thread));
        assert!(switch::load(cpu, thread));
    }

    /// Makes a processor run anything.
    fn run_any(&self) {
        let (member, thread) = (self.one_of(MEMBERS), self.one_of(THREADS));
        let thread = if self.random.below(3) == 0 { self.chief } else { self.threads[member][thread] };
        self.run(self.one_of(PROCESSORS), thread);
    }

    /// Repeats an operation until it does not restart. Meanwhile both processors use what there is.
    fn finish<T>(&mut self, mut step: impl FnMut() -> Result<T, Stop>) -> T {
        loop {
            match step() {
                Ok(result) => return result,
                Err(Stop::Failed(error)) => panic!("{error:?} where there is memory for everything"),
                Err(Stop::Restart) => {
                    self.counts.restarts += 1;
                    sched::unready(self.intruder);
                    self.intruder.change_state(State::Inactive);
                    (0..4).for_each(|_| self.touch());
                    self.run_any();
                }
            }
        }
    }

    /// An address of a member's, from a small set: in windows of every size, at the end of some,
    /// and beyond. Aligned to a size.
    fn address(&self, log2: u8) -> u64 {
        let base =
            [0x40_0000, (1 << SMALL_MIN_LOG2) - TABLE_SPAN, 1 << SMALL_MIN_LOG2, 1 << 27, 1 << 30][self.one_of(5)];
        (base + self.random.below(2) * span(1) + self.random.below(3) * span(0)) & !((1 << log2) - 1)
    }

    fn source(&self, log2: u8) -> u64 {
        (PHYSICAL + self.random.below(3) * span(1) + self.random.below(3) * span(0)) & !((1 << log2) - 1)
    }

    fn log2(&self) -> u8 {
        [12, 12, 12, 12, 12, 13, 14, 21, 21, 21, 22, 30][self.one_of(12)]
    }

    fn map(&mut self) {
        let (to, log2) = (self.members[self.one_of(MEMBERS)], self.log2());
        let (from, source) = match self.random.below(3) {
            0 => (self.members[self.one_of(MEMBERS)], self.address(log2)),
            _ => (self.sigma0, self.source(log2)),
        };
        let rights = FPAGE_READ | self.random.below(FPAGE_RWX + 1);
        let item = Fpage::memory(source, log2, rights);
        let place = Placement { source, target: self.address(log2), log2 };
        let mapping = Mapping { from, to, place, item, grant: self.random.below(5) == 0 };
        self.run_any();
        let tries = self.random.below(3);
        if tries > 0 && mapping.at_once(tries == 1) > 0 {
            return;
        }
        let mut progress = Progress::default();
        self.finish(|| map(&mapping, &mut progress));
    }

    fn take(&mut self, task: Ref<Task>, range: Range<u64>, keep: u64, itself: bool) {
        self.run_any();
        let mut kept = 0;
        let end = VirtAddr::new(range.end);
        self.finish(|| {
            let (mut work, _, at) = Work::resume(kept);
            let mut at = VirtAddr::new(at.max(range.start));
            let done = unmap(task, &mut at, end, keep, itself, &mut work);
            kept = work.keep(0, at.raw());
            done
        });
    }

    fn unmap(&mut self) {
        let log2 = self.log2();
        let keep = if self.random.below(2) == 0 { 0 } else { FPAGE_READ | self.random.below(FPAGE_RWX + 1) };
        if self.random.below(3) == 0 {
            let start = self.source(log2);
            return self.take(self.sigma0, start..start + (1 << log2), keep, false);
        }
        let start = self.address(log2);
        let (task, itself) = (self.members[self.one_of(MEMBERS)], self.random.below(2) == 0);
        self.take(task, start..start + (1 << log2), keep, itself);
    }

    fn move_table(&mut self) {
        let task = self.members[self.one_of(MEMBERS)];
        let (from, to) = (self.address(21), self.address(21));
        self.run_any();
        if move_table(task, VirtAddr::new(from), VirtAddr::new(to)) {
            self.counts.moved += 1;
        } else {
            self.take(task, from..from + TABLE_SPAN, 0, true);
        }
    }

    /// The chief gives a thread a reach, by the kernel's own call.
    fn set_reach(&mut self) {
        let member = self.one_of(MEMBERS);
        let thread = self.threads[member][self.one_of(THREADS)];
        let log2 = SMALL_MIN_LOG2 + self.random.below(SMALL_MAX_LOG2 - SMALL_MIN_LOG2 + 1);
        let base = match self.random.below(4) {
            0 => (1 + self.random.below(3)) << 30,
            number => 0x8000_0000 + ((number - 1) << 24),
        };
        let word = match self.random.below(6) {
            0 => SMALL_ALL,
            1 => SMALL_NONE,
            // Most often its task's window, which another of its threads may be in.
            2 | 3 => self.members[member].window.get().map_or(base | SMALL_MIN_LOG2, |window| window.reach.raw()),
            _ => base & !((1 << log2) - 1) | log2,
        };
        let host = match self.members[member].window.get().filter(|_| self.random.below(4) > 0) {
            Some(window) => window.host.id(),
            None => [self.root, self.home][self.one_of(2)].id(),
        };
        self.run_any();
        let had = self.members[member].window.get().is_some();
        match small::set_reach(self.chief, thread, word, host) {
            Ok(()) => {}
            Err(Error::Busy) => self.counts.busy += 1,
            Err(error) => panic!("{word:#x} in {host:?}: {error:?}"),
        }
        let has = self.members[member].window.get().is_some();
        self.counts.opened += (has && !had) as u64;
        self.counts.closed += (had && !has) as u64;
    }

    /// A thread reaches beyond its window.
    fn promote(&mut self) {
        let thread = self.threads[self.one_of(MEMBERS)][self.one_of(THREADS)];
        let reach = thread.reach.get();
        if !reach.is_window() {
            return;
        }
        self.run(self.one_of(PROCESSORS), thread);
        small::page_fault(thread, reach.base() + reach.size() + span(0), 0);
        assert_eq!(thread.reach.get(), Reach::ALL);
        self.counts.promoted += 1;
    }

    /// No processor runs a thread of a task, or has anything of one.
    fn stop(&self, task: Ref<Task>) {
        for number in 0..PROCESSORS {
            let cpu = self.machine.act(number);
            if cpu.current.get().is_some_and(|thread| thread.task == task) {
                self.run(number, self.chief);
            }
        }
    }

    /// A member dies, and another task has its number.
    fn replace_member(&mut self) {
        let member = self.one_of(MEMBERS);
        let task = self.members[member];
        self.stop(task);
        self.counts.closed += task.window.get().is_some() as u64;
        unsafe { tasks::delete_lthreads(task) };
        assert!(task.window.get().is_none(), "its window closed with its last thread");
        unsafe { tasks::delete(task) };
        (self.members[member], self.threads[member]) = new_member(member);
        self.counts.deleted += 1;
    }

    /// A home dies, and its members are in spaces of their own.
    fn replace_home(&mut self) {
        let there: Vec<_> = self.home.members.iter().collect();
        unsafe { tasks::delete(self.home) };
        for task in there {
            assert!(task.window.get().is_none());
            self.counts.closed += 1;
        }
        self.home = new_task(HOME, 0, QUOTA);
        self.counts.homes += 1;
    }

    fn touch(&mut self) {
        let processor = self.one_of(PROCESSORS);
        if self.random.below(3) == 0 {
            return self.touch_by_host(processor);
        }
        let thread = self.threads[self.one_of(MEMBERS)][self.one_of(THREADS)];
        let (address, write) = (self.address(12) + 8, self.random.below(2) == 0);
        self.run(processor, thread);
        let own = |address| find(thread.task, VirtAddr::new(address)).ok();
        let expected = own(address).is_some_and(|leaf| !write || leaf.entry & WRITE != 0);
        if !thread.reach.get().is_window() {
            assert_eq!(self.machine.touch(address, write), expected, "{address:#x} in its own space");
        } else if address < thread.reach.get().size() {
            assert_eq!(self.touch_in_window(thread, address, write), expected, "{address:#x} in its window");
        }
    }

    /// An access in a window by a thread, which runs: returns whether it succeeds in the end.
    fn touch_in_window(&mut self, thread: Ref<Thread>, address: u64, write: bool) -> bool {
        for _ in 0..MOST_FAULTS {
            if let Some(got) = self.machine.access(thread.reach.get().base() + address, write) {
                let leaf = find(thread.task, VirtAddr::new(address)).ok();
                assert_shows(got, leaf, address, write);
                self.counts.seen += 1;
                return true;
            }
            if !show(thread.task, VirtAddr::new(address)) {
                self.counts.refused += 1;
                return false;
            }
            self.counts.shown += 1;
        }
        panic!("{address:#x} is shown, and not seen");
    }

    /// An access of the host's own thread to where windows are: what it finds, a task has there.
    fn touch_by_host(&mut self, processor: usize) {
        let base = 0x8000_0000 + (self.random.below(3) << 24);
        let (linear, write) = (base + self.address(12) % (1 << 30) + 8, self.random.below(2) == 0);
        self.run(processor, self.chief);
        let Some(got) = self.machine.access(linear, write) else { return };
        let offset = |window: &crate::object::task::Window| linear.wrapping_sub(window.reach.base());
        let windows = self.root.members.iter().filter_map(|member| Some((member, member.window.get()?)));
        let here = windows.into_iter().find(|(_, window)| offset(window) < window.reach.size());
        let (member, window) = here.unwrap_or_else(|| panic!("{linear:#x} is in no window, and there is a page"));
        let address = offset(&window);
        assert_shows(got, find(member, VirtAddr::new(address)).ok(), address, write);
        self.counts.seen_by_host += 1;
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=29 => self.map(),
            30..=41 => self.unmap(),
            42..=46 => self.move_table(),
            47..=61 => self.set_reach(),
            62..=66 => self.promote(),
            67 => self.replace_member(),
            68 => self.replace_home(),
            _ => self.touch(),
        }
        (0..4).for_each(|_| self.touch());
    }

    /// Frees everything except the machine's own objects.
    fn end(self) -> (Machine, Counts) {
        self.machine.disturb(0, None);
        for cpu in all() {
            cpu.current.set(None);
            cpu.loaded.set(None);
        }
        sched::unready(self.intruder);
        self.members.iter().for_each(|member| delete_with_clan(*member));
        unsafe { tasks::delete(self.home) };
        [self.chief, self.intruder].into_iter().for_each(|thread| {
            unsafe { lthreads::delete(thread) };
        });
        while unmap(self.sigma0, &mut VirtAddr::new(0), VirtAddr::new(1 << 40), 0, true, &mut Work::default()).is_err()
        {
        }
        self.machine.check().expect("all was given back");
        (self.machine, self.counts)
    }
}

/// What an access found is what the task's own tables have, with no more rights, and noted there.
fn assert_shows((physical, entry): (u64, u64), own: Option<Leaf>, address: u64, write: bool) {
    let own = own.unwrap_or_else(|| panic!("{address:#x} is used after it was taken away"));
    let there = leads_to(own.entry).raw() + address % span(own.level);
    assert_eq!(physical, there, "{address:#x} is another page now");
    assert!(entry & WRITE <= own.entry & WRITE, "{address:#x} is written after that right was taken away");
    assert!(entry & NO_EXECUTE >= own.entry & NO_EXECUTE, "{address:#x} may still be executed");
    let used = if write { ACCESSED | DIRTY } else { ACCESSED };
    assert_eq!(own.entry & used, used, "{address:#x} is used without a note of that");
}

#[test]
fn windows_show_what_their_tasks_have() {
    let seed = seed(0x317);
    let accounts = || (POOL.free_pages.get(), POOL.root.used.get());
    let machine = Machine::take();
    let before = accounts();
    let mut history = History::new(machine, seed);
    each_step("windows", seed, OPERATIONS, |step| {
        history.step();
        if step % BETWEEN_CHECKS == 0 {
            history.machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
        }
    });
    let (_machine, counts) = history.end();
    assert_eq!(accounts(), before, "pages in use");
    println!("windows: {OPERATIONS} operations, seed {seed}: {counts:?}");
    let Counts { opened, closed, shown, seen, seen_by_host, promoted, moved, restarts, homes, deleted, .. } = counts;
    let few = [opened, closed, promoted, moved, restarts, homes, deleted, seen_by_host].into_iter().min();
    assert!(few > Some(OPERATIONS / 500), "each kind of thing came about");
    assert!(shown.min(seen) > OPERATIONS / 20, "windows were used");
}

#[test]
fn a_page_is_not_larger_than_the_room_beside_a_small_kernel_area() {
    let machine = Machine::take();
    let (task, _) = new_member(0);
    let (from, log2) = (task::at(TaskNumber::SIGMA0).expect("it is there"), SMALL_MAX_LOG2 as u8);
    let place = Placement { source: PHYSICAL, target: 0, log2 };
    let item = Fpage::memory(PHYSICAL, log2, FPAGE_RWX);
    let mut progress = Progress::default();
    assert_eq!(map(&Mapping { from, to: task, place, item, grant: false }, &mut progress), Ok(()));
    machine.check().unwrap_or_else(|complaint| panic!("{complaint}"));
    let level = |at| find(task, VirtAddr::new(at)).map(|leaf| leaf.level).ok();
    assert_eq!([0, 2 * AREA_SMALL_SIZE, 1 << 29].map(level), [Some(1); 3], "beside it");
    assert!(find(task, VirtAddr::new(AREA_SMALL_SIZE)).is_ok_and(|leaf| leaf.entry & KERNEL_OBJECT != 0));
    unsafe { tasks::delete_lthreads(task) };
    unsafe { tasks::delete(task) };
    while unmap(from, &mut VirtAddr::new(0), VirtAddr::new(1 << 40), 0, true, &mut Work::default()).is_err() {}
    machine.check().expect("all was given back");
}
