// SPDX-License-Identifier: GPL-2.0-only
//! Tasks: the table of task numbers, who may use them, and a task's table of lthreads.
//!
//! A task number is inactive (somebody may create a task there) or has a `Task`. Owns the table and
//! the tree of clans; spaces are space.rs's, creation and deletion tasks.rs's.

use crate::arch::paging::{slot, OWN_HALF, SHOWN_PAGE, SUPERVISOR_PAGE, USER_PAGE};
use crate::{base::abi::*, base::*, object::io_space::IoSpace, object::*, percpu::preempt};
use core::{array, ops::Range};

/// List tag: the tasks of one clan.
pub struct Clan;
/// List tag: the tasks with windows in the tables of one.
pub struct Members;

/// Lthread numbers whose slots lie in the task itself; most tasks have one lthread.
const INLINE_LTHREADS: usize = 4;
/// More lthread numbers come into use while less than one in so many of those in use is free.
const FREE_SHARE: u16 = 5;
/// Slots in a page of a thread directory.
const DIRECTORY_SLOTS: usize = 512;
/// Pages that a full thread directory has.
pub(crate) const DIRECTORY_PAGES: usize = (1 << ID_LTHREAD_BITS) / DIRECTORY_SLOTS;
/// Deepest nesting of clans that an id can tell.
pub(crate) const MAX_NESTING: u8 = (1 << ID_NESTING_BITS) - 1;

/// Task numbers for which there is an entry; the rest of the 2^20 would need more table pages.
pub const TASK_NUMBERS: usize = 1 << 16;

newtype! {
    /// The number of a task, or none: its place in the table. Users choose it, among those that
    /// they hold: an id may have any number of `ID_TASK_BITS` bits (`of`), and those below
    /// `TASK_NUMBERS` have an entry. fast.s compares it with sigma0's.
    pub struct TaskNumber(u32);
}

impl TaskNumber {
    /// sigma0's.
    pub const SIGMA0: TaskNumber = TaskNumber(TASK_SIGMA0 as u32);
    /// The root task's.
    pub const ROOT: TaskNumber = TaskNumber(TASK_ROOT as u32);
    /// The first that the root task may create a task at.
    pub const FIRST_FREE: TaskNumber = TaskNumber(TASK_FIRST_FREE as u32);
    /// Behind all numbers that have an entry.
    const END: TaskNumber = TaskNumber(TASK_NUMBERS as u32);

    /// The number of the task that an id names, or whose lthread it names.
    pub const fn of(id: Id) -> TaskNumber {
        TaskNumber(id.task())
    }
}

object! {
    /// A task: an address space and its lthreads.
    pub struct Task(plan: &Plan, version: u32, nesting: u8, account: Ref<Account>, root_table: PoolPage) {
        /// Its number.
        pub number: TaskNumber = plan.number,
        /// The version with which its id and its first lthreads start.
        pub version: u32 = version,
        /// Its creator; `None` for sigma0 and the root task.
        pub chief: Option<Ref<Task>> = plan.chief,
        /// Depth in the tree of clans.
        pub nesting: u8 = nesting,
        /// The highest priority that it may give.
        pub mcp: Cell<u8> = Cell::new(plan.mcp),
        /// Who pays for its objects.
        pub account: Ref<Account> = account,
        /// Pool page of the top page table.
        pub root_table: PoolPage = root_table,
        /// The page tables of small pages (0) and of pages of 2 MB (1) where the last walks ended;
        /// the pool's first page, which covers no address, if they are gone.
        pub last_tables: [Cell<PoolPage>; 2] = array::from_fn(|_| Cell::new(POOL.first.get())),
        /// What entries of its tables are flushed from: its top table's address, with
        /// `paging::WINDOWED` while it has a window.
        pub space: Cell<PhysAddr> = Cell::new(POOL.physical(root_table)),
        /// Where another task's tables show it.
        pub window: Cell<Option<Window>> = Cell::new(None),
        /// Threads of it that were put there.
        pub window_users: Cell<u32> = Cell::new(0),
        /// The tasks that its tables show.
        pub members: List<Task, Members> = List::new(),
        member_links: Links<Task> = Links::new(),
        /// Base of the kernel area, a multiple of its size, or none.
        pub area: VirtAddr = VirtAddr::new(number(plan.area)),
        /// Bytes of the kernel area, 0 if it has none.
        pub area_size: u64 = plan.area_size(),
        /// Whether it may have memory in the upper half.
        pub upper: bool = plan.upper,
        /// Whether it runs in supervisor mode.
        pub supervisor: bool = plan.supervisor,
        /// With an upper half: tasks of its clan that run 32-bit code only may show it. Without: it
        /// is such a task.
        pub resident: bool = plan.resident,
        /// Bits of the entries of its pages, beside their rights.
        pub page_bits: u64 = match (plan.supervisor, plan.upper) {
            (false, _) => USER_PAGE,
            (true, false) => SUPERVISOR_PAGE,
            (true, true) => SHOWN_PAGE,
        },
        /// Its I/O ports, if it has any.
        pub io: Cell<Option<Ref<IoSpace>>> = Cell::new(None),
        /// Pool page of its timers, 0 if it has none.
        pub timers: Cell<PoolPage> = Cell::new(PoolPage::NONE),
        /// The tasks that it created.
        pub clan: List<Task, Clan> = List::new(),
        siblings: Links<Task> = Links::new(),
        /// Inactive numbers that it holds lie in here.
        pub(crate) held: Cell<(TaskNumber, TaskNumber)> = Cell::new((TaskNumber::END, TaskNumber::NONE)),
        pub(crate) max_version: Cell<u32> = Cell::new(version),
        /// The first lthread numbers' slots (`thread_in`).
        inline: [Cell<u64>; INLINE_LTHREADS] = [const { Cell::new(0) }; INLINE_LTHREADS],
        /// Pool page that leads to the others' slots, 0 if there is none.
        pub(crate) directory: Cell<PoolPage> = Cell::new(PoolPage::NONE),
        /// Lthreads that exist.
        pub lthreads: Cell<u32> = Cell::new(0),
        /// Lthread numbers below this are in use: a new lthread with any number gets one of them.
        end: Cell<u16> = Cell::new(0),
        /// Where the search for such a number begins.
        cursor: Cell<u16> = Cell::new(0),
    }
}

linked!(Task, Clan, siblings);
linked!(Task, Members, member_links);

/// Where a task with 32-bit threads is in the tables of another one, its host.
#[derive(Clone, Copy)]
pub struct Window {
    /// The task whose tables show it.
    pub host: Ref<Task>,
    /// Where its address 0 lies there, and how much of it is shown.
    pub reach: Reach,
    /// The table there whose entries lead to its tables of small pages.
    pub table: PoolPage,
}

impl Window {
    /// The entry that shows 2 MB of the task, at an address of its own.
    pub fn cell(&self, address: VirtAddr) -> &'static Cell<u64> {
        POOL.word(self.table, slot(address + self.reach.base(), 1))
    }
}

/// The thread at an lthread number, by the word in its slot: the thread's address, which is even.
/// If there is none, the word is twice the version of the last one, plus one; 0 at first.
fn thread_in(slot: u64) -> Option<Ref<Thread>> {
    // SAFETY: `install` stored a thread's address, which `vacate` takes out before it is deleted.
    (slot != 0 && slot & 1 == 0).then(|| unsafe { Ref::new(slot as *mut Thread) })
}

impl Ref<Task> {
    /// The id that names the task itself.
    pub fn id(self) -> Id {
        Id::thread(self.version, self.number.0, LTHREAD_TASK as u16, self.nesting)
    }

    fn slot(self, lthread: u16) -> Option<&'static Cell<u64>> {
        if (lthread as usize) < INLINE_LTHREADS {
            // SAFETY: a task outlives every use of its slots; the index is below their number.
            return Some(unsafe { (*self.as_ptr()).inline.get_unchecked(nospec::<INLINE_LTHREADS>(lthread as usize)) });
        }
        let directory = Some(self.directory.get()).filter(|page| *page != PoolPage::NONE)?;
        let page = PoolPage::new(POOL.word(directory, lthread as usize / DIRECTORY_SLOTS).get() as u32);
        (page != PoolPage::NONE).then(|| POOL.word(page, lthread as usize % DIRECTORY_SLOTS))
    }

    fn slot_or_new(self, lthread: u16) -> Result<&'static Cell<u64>, Error> {
        if lthread as usize >= INLINE_LTHREADS {
            if self.directory.get() == PoolPage::NONE {
                self.directory.set(POOL.take_zeroed(self.account, Kind::Part)?);
            }
            let page = POOL.word(self.directory.get(), lthread as usize / DIRECTORY_SLOTS);
            if page.get() == 0 {
                page.set(POOL.take_zeroed(self.account, Kind::Part)?.raw() as u64);
            }
        }
        self.slot(lthread).ok_or(Error::NoMemory)
    }

    /// The lthread of this number, whatever its version.
    pub fn lthread(self, lthread: u16) -> Option<Ref<Thread>> {
        thread_in(self.slot(lthread)?.get())
    }

    /// Whether a new lthread can have this number: it has no thread and its versions are not used
    /// up.
    fn is_free(self, lthread: u16) -> bool {
        let slot = self.slot(lthread).map_or(0, Cell::get);
        thread_in(slot).is_none() && ((slot >> 1) as u32) < VERSION_MAX
    }

    /// A free lthread number. The numbers in use are taken in turn: their versions are used evenly,
    /// and since enough of them are free, the search takes constant time on average. Where versions
    /// are used up, or all numbers are in use, it is a walk.
    fn free_number(self) -> Result<u16, Error> {
        let (from, end) = (self.cursor.get(), self.end.get());
        let free = |number: &u16| {
            pause(*number as u32);
            self.is_free(*number)
        };
        let enough = end as usize >= INLINE_LTHREADS && self.lthreads.get() < (end - end / FREE_SHARE) as u32;
        let known = if enough || end == LTHREAD_TASK as u16 { (from..end).chain(0..from).find(free) } else { None };
        let number = known.or_else(|| (end..LTHREAD_TASK as u16).find(free)).ok_or(Error::NoMemory)?;
        preempt::poll();
        self.cursor.set(number + 1);
        self.end.set(end.max(number + 1));
        Ok(number)
    }

    /// Finds a number and a version for a new lthread (`LTHREAD_TASK`: any number).
    pub fn reserve_lthread(self, wanted: u16) -> Result<Id, Error> {
        let lthread = if wanted == LTHREAD_TASK as u16 { self.free_number()? } else { wanted };
        let slot = self.slot_or_new(lthread)?;
        Error::Busy.when(thread_in(slot.get()).is_some())?;
        let version = self.version.max((slot.get() >> 1) as u32 + 1);
        Error::Retired.when(version > VERSION_MAX)?;
        self.max_version.set(self.max_version.get().max(version));
        Ok(Id::thread(version, self.number.0, lthread, self.nesting))
    }

    /// Enters a new thread under the id that `reserve_lthread` gave.
    pub fn install(self, thread: Ref<Thread>) {
        if let Some(slot) = self.slot(thread.id.lthread()) {
            slot.set(thread.as_ptr() as u64);
            self.lthreads.set(self.lthreads.get() + 1);
        }
    }

    /// Takes a thread out of the table; its version stays used.
    pub fn vacate(self, thread: Ref<Thread>) {
        if let Some(slot) = self.slot(thread.id.lthread()) {
            slot.set((thread.id.version() as u64) << 1 | 1);
            self.lthreads.set(self.lthreads.get() - 1);
        }
    }

    /// Its lthreads by their numbers. Interrupts are served on the way, and one that was given out
    /// may be deleted.
    pub fn each_lthread(self) -> impl Iterator<Item = Ref<Thread>> {
        let next = move |number: &u16| {
            let left = DIRECTORY_SLOTS as u16 - number % DIRECTORY_SLOTS as u16;
            number.checked_add(if self.slot(*number).is_some() { 1 } else { left })
        };
        let numbers = core::iter::successors(Some(0), next).inspect(|number| pause(*number as u32));
        numbers.filter_map(move |number| self.lthread(number)).take(self.lthreads.get() as usize)
    }

    /// Lists the tasks with windows in its tables. Interrupts are let in on the way; none of the
    /// tasks goes, and none comes, meanwhile.
    pub fn each_member(&self) -> impl Iterator<Item = Ref<Task>> + '_ {
        self.members.iter().zip(0..).map(|(member, number)| {
            pause(number);
            member
        })
    }

    /// `task`, if it is this one or of its clan.
    pub fn controls(self, task: Ref<Task>) -> Result<Ref<Task>, Error> {
        Some(task).filter(|task| *task == self || self.is_chief_of(*task)).ok_or(Error::Denied)
    }

    /// Whether it has an account for itself and its clan.
    pub fn owns_account(self) -> bool {
        self.account != account_of(self.chief)
    }

    /// Whether its upper half is shown by spaces of its clan: it runs in any of them.
    pub fn is_shown(self) -> bool {
        self.upper && (self.supervisor || self.resident)
    }

    /// The task whose upper half its space shows: itself, or its chief.
    pub fn shown_half(self) -> Option<Ref<Task>> {
        Some(self).filter(|task| task.is_shown()).or(half_for(self.chief, self.resident))
    }

    /// Says what `paging::switch` has to know of its upper half: nothing where no task can run in
    /// supervisor mode. A kernel area can be there although no other memory can.
    pub fn half(self) -> PhysAddr {
        let uses = self.upper || self.area.raw() >= number(UPPER_START);
        match self.shown_half() {
            Some(task) => POOL.physical(task.root_table),
            None if uses && facts::has_word(facts::Word::Supervisor) => OWN_HALF,
            None => PhysAddr::NONE,
        }
    }

    /// Whether this task is `task`'s creator.
    pub fn is_chief_of(self, task: Ref<Task>) -> bool {
        task.chief == Some(self)
    }
}

/// The task whose upper half the tasks of a chief show: of one in user mode those alone that run
/// 32-bit code, which cannot name it.
pub fn half_for(chief: Option<Ref<Task>>, resident: bool) -> Option<Ref<Task>> {
    chief.filter(|chief| chief.is_shown() && (chief.supervisor || resident))
}

/// What stands at a task number.
pub(crate) struct Entry {
    pub(crate) task: Cell<Option<Ref<Task>>>,
    pub(crate) version: Cell<u32>,
    /// The task that may use the number while it is inactive, or none.
    holder: Cell<TaskNumber>,
}

static TABLE: Global<Cell<*const Entry>> = Global::new(Cell::new(core::ptr::null()));

/// Bytes that the table of task numbers takes; boot.rs sets them aside.
pub const TABLE_BYTES: usize = TASK_NUMBERS * size_of::<Entry>();

/// Sets up the table in `memory`, which is zero, and gives all numbers to the root task.
///
/// # Safety
/// `memory` has `TABLE_BYTES` bytes, zero, and stays allocated.
pub unsafe fn init(memory: *mut u8) {
    TABLE.set(memory.cast());
    let free = (TASK_FIRST_FREE as u32..TASK_NUMBERS as u32).map(TaskNumber).filter_map(entry);
    free.for_each(|entry| entry.holder.set(TaskNumber::ROOT));
}

pub(crate) fn entry(number: TaskNumber) -> Option<&'static Entry> {
    if number.0 as usize >= TASK_NUMBERS {
        return None;
    }
    // SAFETY: `init` made TASK_NUMBERS entries; all bits zero is an empty one.
    Some(unsafe { &*TABLE.get().add(nospec::<TASK_NUMBERS>(number.0 as usize)) })
}

/// Numbers between two looks for interrupts in a walk over many.
const POLL_INTERVAL: u32 = 32;

/// Whether `holds` for all of these numbers, up to the first for which it does not. Interrupts are
/// let in on the way.
fn all_numbers(numbers: Range<TaskNumber>, mut holds: impl FnMut(&Entry) -> bool) -> bool {
    (numbers.start.0..numbers.end.0).all(|number| {
        pause(number);
        entry(TaskNumber(number)).is_some_and(&mut holds)
    })
}

/// Lets interrupts in at some of the numbers of a walk.
fn pause(number: u32) {
    if number % POLL_INTERVAL == 0 {
        preempt::poll();
    }
}

/// Every task that is active, from clan to clan: most numbers are not.
pub fn all() -> impl Iterator<Item = Ref<Task>> {
    [TaskNumber::SIGMA0, TaskNumber::ROOT].into_iter().filter_map(at).flat_map(with_clan)
}

/// A task and those in its clan, at any depth. None of them goes, and none comes, meanwhile.
pub fn with_clan(top: Ref<Task>) -> impl Iterator<Item = Ref<Task>> {
    core::iter::successors(Some(top), move |task| task.clan.first().or_else(|| behind(*task, top)))
}

/// The task behind another one and its clan, in the same clan or an outer one within `top`.
fn behind(task: Ref<Task>, top: Ref<Task>) -> Option<Ref<Task>> {
    let mut outwards = core::iter::successors(Some(task), |task| task.chief).take_while(|task| *task != top);
    outwards.find_map(|task| task.chief?.clan.next(task))
}

/// The task at a number.
pub fn at(number: TaskNumber) -> Option<Ref<Task>> {
    entry(number)?.task.get()
}

/// The task that an id names: its own id, or that of any of its lthreads.
pub fn find(id: Id) -> Option<Ref<Task>> {
    if id.lthread() == LTHREAD_TASK as u16 {
        return at(TaskNumber::of(id)).filter(|task| task.version == id.version());
    }
    thread::find(id).map(|thread| thread.task)
}

/// Whether a task is sigma0.
pub fn is_sigma0(task: Ref<Task>) -> bool {
    task.number == TaskNumber::SIGMA0
}

/// What `create` needs to know.
pub struct Plan {
    /// Task number.
    pub number: TaskNumber,
    /// Creator.
    pub chief: Option<Ref<Task>>,
    /// Maximum controlled priority.
    pub mcp: u8,
    /// Pages of an account of its own; `TASK_SHARED_QUOTA`: the chief's.
    pub quota: u64,
    /// Base of the kernel area, 0: none.
    pub area: u64,
    /// Whether it may have memory in the upper half.
    pub upper: bool,
    /// Whether it runs in supervisor mode.
    pub supervisor: bool,
    /// Whether 32-bit tasks of its clan may show its upper half, or it is such a task.
    pub resident: bool,
}

impl Plan {
    /// Bytes of the kernel area: AREA_SIZE, AREA_SMALL_SIZE, or 0 for none.
    pub fn area_size(&self) -> u64 {
        match self.area {
            0 => 0,
            area if area % AREA_SIZE == 0 => AREA_SIZE,
            _ => AREA_SMALL_SIZE,
        }
    }
}

/// The account that pays for what a chief's tasks have none of their own for.
pub fn account_of(chief: Option<Ref<Task>>) -> Ref<Account> {
    chief.map_or(Ref::to(&POOL.root), |chief| chief.account)
}

/// A task in the clan of `top`, at any depth, that has no clan itself; `top` if it has none.
pub fn innermost(top: Ref<Task>) -> Ref<Task> {
    core::iter::successors(Some(top), |task| task.clan.first()).last().unwrap_or(top)
}

/// Whether `task` may create a task at the inactive number.
pub fn may_create(task: Ref<Task>, number: TaskNumber) -> bool {
    entry(number).is_some_and(|entry| entry.holder.get() == task.number)
}

/// What `giver` holds of these numbers goes to `taker`.
pub(crate) fn pass_numbers(giver: Ref<Task>, numbers: Range<TaskNumber>, taker: Ref<Task>) {
    let (first, end) = taker.held.get();
    taker.held.set((first.min(numbers.start), end.max(numbers.end)));
    all_numbers(numbers, |entry| {
        if entry.holder.get() == giver.number {
            entry.holder.set(taker.number);
        }
        true
    });
}

/// Hands `count` inactive numbers from `first` on from `giver` to `taker`.
pub fn hand_over(giver: Ref<Task>, first: TaskNumber, count: u32, taker: Ref<Task>) -> Result<(), Error> {
    let end = first.0.checked_add(count).map(TaskNumber).filter(|end| *end <= TaskNumber::END).ok_or(Error::Invalid)?;
    let free = |entry: &Entry| entry.holder.get() == giver.number && entry.task.get().is_none();
    Error::Denied.when(first < TaskNumber::FIRST_FREE || !all_numbers(first..end, free))?;
    pass_numbers(giver, first..end, taker);
    Ok(())
}

#[cfg(test)]
#[path = "../../../tests/kernel/task.rs"]
mod tests;
