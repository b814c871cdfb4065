// SPDX-License-Identifier: BSD-2-Clause
//! Application groups (section 5.2 of the paper that small.rs names) between native tasks, with
//! `args small WORD...`. A group's host is a home, a task without threads.
//!
//! `KIND-TRIPS/GROUPS` are round trips by `int 0x80` between tasks of 32-bit code: a driver calls
//! a member of each group in turn, each of which calls another member of its group TRIPS times
//! before it answers. With the kind `data` each task reads 8 pages of its own before each of its
//! messages, with `empty` nothing. Each word is measured with all tasks in one group (`one-`), with
//! two members in each group and the driver in one of its own (`groups-`), and with each task in a
//! space of its own (`large-`).
//!
//! `HOST-LOG2-TABLES/GROUPS` is revocation, among so many groups of two members: a window of so
//! many bytes in the tables of the host, a `home` or this task (`chief`), is taken from a task and
//! given to another one, whose first message in it follows, and one more. Each member reads a page
//! in each of so many page tables of its own, the window's two users before each of their messages.

use crate::paper::part::{self, MARK_PART_BEGINS, MARK_PART_ENDS};
use crate::partner::{
    first_byte, large_memory, own_task, plan, task_number, Partner, Space, CALL, LARGE_LOG2, REPLY_AND_WAIT, WAIT,
};
use crate::sample::idled_between;
use core::arch::global_asm;
use core::mem::offset_of;
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::{SMALL_ALL, SMALL_MAX_LOG2, SMALL_MIN_LOG2, TASK_SHARED_QUOTA};
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SIZE};
use keel_l4::abi::memory::EX_START;
use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message};
use keel_l4::pager::{Fault, Pager};
use keel_l4::protocol::boot::Start;
use keel_l4::task::{self, NewTask};
use keel_l4::thread::{self, act, NewThread};
use keel_l4::{println, Id};

/// Visits of the driver: a multiple of each number of groups.
const VISITS: u32 = 64;
/// The most groups that the driver visits, and the most at all.
const MOST_VISITED: u32 = 16;
const MOST_GROUPS: u32 = 32;
/// The most tasks with threads: two in each group, and one more.
const MOST_TASKS: u64 = 2 * MOST_GROUPS as u64 + 1;
/// Reads of a task of the kind `data`, and bytes from one to the next, as in small.rs.
const READS: u32 = 8;
const STRIDE: u32 = 4160;
/// Offsets in a task's memory: its state and its data, after its program.
const STATE: u64 = PAGE_SIZE;
const DATA: u64 = 2 * PAGE_SIZE;
/// Bytes of a task's memory: an odd number of pages, so that the same place of two tasks is in
/// different sets of a TLB.
const MEMORY: u64 = ((DATA + READS as u64 * STRIDE as u64).div_ceil(PAGE_SIZE) | 1) * PAGE_SIZE;
/// Where the first task has its memory; that of the others follows.
const BASE: u64 = 4 << 20;
/// Bytes that the entries of a page table cover.
const TABLE_SPAN: u32 = 2 << 20;
/// In each page table the page that is read in measurements of revocation.
const SPREAD: u32 = PAGE_SIZE as u32;
/// Base of a host's first window: in a GB where it has nothing.
const WINDOWS: u64 = 0x8000_0000;
/// Revocations that count, and those before them, which fill a model's caches.
const REVOCATIONS: usize = 8;
const WARM_UP: usize = 2;
/// What is measured of each: taking, giving, the first message and the second one.
const STAGES: usize = 4;

/// This task's address of the tasks' memory.
static OWN: AtomicU64 = AtomicU64::new(0);

/// What a task's program is told; its esp points here.
#[repr(C)]
#[derive(Default)]
struct State {
    /// Calls before an answer, and those that are left.
    rounds: u32,
    left: u32,
    /// What it reads before each message: from here on, up to here, at this distance.
    data: u32,
    end: u32,
    stride: u32,
    /// Bytes of the table that are used, and the offset of the next one to be called.
    length: u32,
    next: u32,
    /// The driver's first reading.
    start: u32,
    /// Who is answered.
    from: [u32; 2],
    /// Those that are called in turn.
    table: [[u32; 2]; MOST_VISITED as usize],
}

global_asm!(
    ".code32",
    ".macro group_begin",
    "mov eax, 0x2b",
    "mov ds, eax",
    "mov es, eax",
    "mov eax, {wait}",
    ".endm",
    // Calls, after reading before each call, and reads once more.
    ".macro group_rounds",
    "mov [esp + {from}], esi",
    "mov [esp + {from} + 4], edi",
    "mov eax, [esp + {rounds}]",
    "mov [esp + {left}], eax",
    "2: mov ebx, [esp + {data}]",
    "jmp 4f",
    "3: mov eax, [ebx]",
    "add ebx, [esp + {stride}]",
    "4: cmp ebx, [esp + {end}]",
    "jne 3b",
    "sub dword ptr [esp + {left}], 1",
    "jb 6f",
    "mov edx, [esp + {next}]",
    "mov esi, [esp + edx + {table}]",
    "mov edi, [esp + edx + {table} + 4]",
    "add edx, 8",
    "cmp edx, [esp + {length}]",
    "jb 5f",
    "xor edx, edx",
    "5: mov [esp + {next}], edx",
    "xor ebx, ebx",
    "mov eax, {call}",
    "int 0x80",
    "jmp 2b",
    "6: mov esi, [esp + {from}]",
    "mov edi, [esp + {from} + 4]",
    ".endm",
    // Both are copied. This one answers with an empty message.
    ".p2align 6",
    ".global group_member",
    "group_member:",
    "group_begin",
    "7: int 0x80",
    "group_rounds",
    "xor ebx, ebx",
    "mov eax, {reply_and_wait}",
    "jmp 7b",
    // Answers with the instructions that its rounds took, which are a part.
    ".p2align 6",
    ".global group_driver",
    "group_driver:",
    "group_begin",
    "8: int 0x80",
    ".byte 0x0f, 0x1f, 0x80",
    ".long {begins}",
    "rdtsc",
    "mov [esp + {start}], eax",
    "group_rounds",
    "rdtsc",
    ".byte 0x0f, 0x1f, 0x80",
    ".long {ends}",
    "sub eax, [esp + {start}]",
    "mov edx, eax",
    "mov ebx, 1",
    "mov eax, {reply_and_wait}",
    "jmp 8b",
    ".global group_end",
    "group_end:",
    ".code64",
    begins = const MARK_PART_BEGINS,
    ends = const MARK_PART_ENDS,
    call = const CALL,
    wait = const WAIT,
    reply_and_wait = const REPLY_AND_WAIT,
    rounds = const offset_of!(State, rounds),
    left = const offset_of!(State, left),
    data = const offset_of!(State, data),
    end = const offset_of!(State, end),
    stride = const offset_of!(State, stride),
    length = const offset_of!(State, length),
    next = const offset_of!(State, next),
    start = const offset_of!(State, start),
    from = const offset_of!(State, from),
    table = const offset_of!(State, table),
);

unsafe extern "C" {
    static group_member: u8;
    static group_driver: u8;
    static group_end: u8;
}

/// Where the tasks of round trips are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    One,
    Groups,
    Large,
}

/// Where a task runs: in a window of a host's tables, or with `SMALL_ALL` in its own space.
#[derive(Clone, Copy)]
struct Room {
    reach: u64,
    host: Id,
}

impl Room {
    const OWN: Room = Room { reach: SMALL_ALL, host: Id::NIL };

    /// A window of 2^`log2` bytes, the host's first one (0) or a later one.
    fn window(host: Id, number: u64, log2: u64) -> Room {
        Room { reach: WINDOWS + (number << log2) | log2, host }
    }
}

/// Gives the tasks their memory, and one page everywhere else.
struct Pages;

impl Pager for Pages {
    fn page(&mut self, fault: &Fault) -> Option<Message> {
        let offset = fault.page().wrapping_sub(BASE);
        let known = if offset < MOST_TASKS * MEMORY { offset } else { 0 };
        Some(fault.map(OWN.load(Relaxed) + known, FPAGE_RWX))
    }
}

extern "C" fn pager(_: u64) -> ! {
    keel_l4::pager::run(&mut Pages)
}

/// The tasks of a measurement.
pub struct Groups {
    pager: Id,
    /// Task numbers that are used.
    tasks: u32,
    /// Tasks that have memory.
    placed: u64,
}

impl Groups {
    /// None yet.
    pub fn new(record: &Start) -> Result<Groups, Failure> {
        const { assert!(MOST_TASKS * MEMORY <= 1 << LARGE_LOG2) };
        OWN.store(first_byte(large_memory(record)?), Relaxed);
        Ok(Groups { pager: Partner::start(Space::Same, pager, 0)?.id, tasks: 0, placed: 0 })
    }

    /// Measures a word; `None` if it is none of these.
    pub fn measure(&mut self, word: &str) -> Option<Result<(), Failure>> {
        let (row, groups) = word.split_once('/')?;
        let groups = groups.parse().ok().filter(|groups| (1..=MOST_GROUPS).contains(groups))?;
        let (kind, sizes) = row.split_once('-')?;
        match kind {
            "empty" | "data" => {
                let reads = if kind == "data" { READS } else { 0 };
                let trips = sizes.parse().ok().filter(|_| groups <= MOST_VISITED && VISITS % groups == 0)?;
                let places = [("one", Place::One), ("groups", Place::Groups), ("large", Place::Large)];
                let mut each = places.into_iter();
                Some(each.try_for_each(|(name, place)| self.visit(name, word, (place, reads, trips, groups))))
            }
            "home" | "chief" => {
                let (log2, tables) = sizes.split_once('-')?;
                let log2 = log2.parse().ok().filter(|log2| (SMALL_MIN_LOG2..=SMALL_MAX_LOG2).contains(log2))?;
                let most = 1u32 << log2 >> TABLE_SPAN.ilog2();
                let tables = tables.parse().ok().filter(|tables| (1..=most).contains(tables))?;
                Some(self.revoke(word, kind == "chief", (log2, tables), groups))
            }
            _ => None,
        }
    }

    fn number(&mut self) -> u32 {
        self.tasks += 1;
        task_number() + self.tasks - 1
    }

    /// A host that shows nothing of its own.
    fn home(&mut self) -> Result<Id, Failure> {
        let number = self.number();
        task::create_empty(&NewTask { number, upper_half: false, quota: TASK_SHARED_QUOTA, ..plan() })
    }

    /// A task that runs one of the two programs; data that begin at 0 are its own.
    fn start(&mut self, program: u64, room: Room, mut state: State, called: &[Id]) -> Result<Id, Failure> {
        let (offset, first) = (self.placed * MEMORY, &raw const group_member as u64);
        let (own, base) = (OWN.load(Relaxed) + offset, BASE + offset);
        self.placed += 1;
        if state.data == 0 {
            state.data = (base + DATA) as u32;
            state.end += state.data;
        }
        state.length = size_of_val(&state.table[..called.len()]) as u32;
        for (entry, id) in state.table.iter_mut().zip(called) {
            *entry = [(id.0 >> u32::BITS) as u32, id.0 as u32];
        }
        // SAFETY: `large_memory` that nothing else uses, of which this task's programs and states
        // have room for all tasks; the labels of the assembly above are in this order.
        unsafe {
            copy_nonoverlapping(first as *const u8, own as *mut u8, (&raw const group_end as u64 - first) as usize);
            ((own + STATE) as *mut State).write(state);
        }
        let number = self.number();
        let task = task::create_empty(&NewTask { number, upper_half: false, quota: TASK_SHARED_QUOTA, ..plan() })?;
        let (ip, sp, pager) = (base + program - first, base + STATE, self.pager);
        let thread = NewThread { task, number: 0, ip, sp, pager, handler: pager, argument: 0 }.create()?;
        thread::set_reach(thread, room.reach, room.host)?;
        act(thread, EX_START)
    }

    /// Deletes all tasks: the members first, so that none of them leaves its window before.
    fn end(&mut self) -> Result<(), Failure> {
        let used = self.tasks;
        (self.tasks, self.placed) = (0, 0);
        (0..used).rev().try_for_each(|number| task::delete(task_number() + number, own_task()))
    }

    /// Round trips, with all tasks in one group, in their groups, or in spaces of their own.
    fn visit(&mut self, name: &str, word: &str, what: (Place, u32, u32, u32)) -> Result<(), Failure> {
        let (place, reads, trips, groups) = what;
        let state = |rounds| State { rounds, end: reads * STRIDE, stride: STRIDE, ..State::default() };
        let first = self.home()?;
        let mut visited = [Id::NIL; MOST_VISITED as usize];
        for (group, visited) in visited.iter_mut().take(groups as usize).enumerate() {
            let (host, windows) = match place {
                Place::Groups => (self.home()?, 0),
                _ => (first, 1 + 2 * group as u64),
            };
            let room = |number| match place {
                Place::Large => Room::OWN,
                _ => Room::window(host, windows + number, SMALL_MIN_LOG2),
            };
            let member = &raw const group_member as u64;
            let partner = self.start(member, room(0), state(0), &[])?;
            *visited = self.start(member, room(1), state(trips), &[partner])?;
        }
        let room = if place == Place::Large { Room::OWN } else { Room::window(first, 0, SMALL_MIN_LOG2) };
        let driver = &raw const group_driver as u64;
        let driver = self.start(driver, room, state(VISITS), &visited[..groups as usize])?;
        let mut taken = 0;
        let idled = idled_between(|| {
            // The first time it fills caches.
            call(driver, Message::new(0, &[]))?;
            taken = call(driver, Message::new(0, &[]))?.words[0];
            Ok(())
        })?;
        let trips = VISITS * (trips + 1);
        println!(
            "{{\"name\":\"{name}-{word}\",\"iterations\":{trips},\"parts\":1,\"idle_ticks\":{idled},\"tsc\":[{taken}]}}"
        );
        self.end()
    }

    /// Revocations of a window of a first group's.
    fn revoke(&mut self, word: &str, chief: bool, (log2, tables): (u64, u32), groups: u32) -> Result<(), Failure> {
        let member = &raw const group_member as u64;
        let state =
            || State { data: SPREAD, end: SPREAD + tables * TABLE_SPAN, stride: TABLE_SPAN, ..State::default() };
        let mut host = Id::NIL;
        for group in 0..groups {
            host = if chief && group + 1 == groups { Id::NIL } else { self.home()? };
            // The last group's first window is the one that is taken.
            for number in (group + 1 == groups) as u64..2 {
                let member = self.start(member, Room::window(host, number, log2), state(), &[])?;
                call(member, Message::new(0, &[]))?;
            }
        }
        let room = Room::window(host, 0, log2);
        let mut users = [self.start(member, room, state(), &[])?, self.start(member, Room::OWN, state(), &[])?];
        users.into_iter().try_for_each(|user| call(user, Message::new(0, &[])).map(|_| ()))?;
        let mut taken = [0; STAGES];
        let idled = idled_between(|| {
            (0..WARM_UP).try_for_each(|_| swap(&mut users, room, &mut taken))?;
            taken = [0; STAGES];
            (0..REVOCATIONS).try_for_each(|_| swap(&mut users, room, &mut taken))
        })?;
        let parts = STAGES * (WARM_UP + REVOCATIONS);
        println!(
            "{{\"name\":\"{word}\",\"iterations\":{REVOCATIONS},\"parts\":{parts},\"idle_ticks\":{idled},\"tsc\":{taken:?}}}"
        );
        self.end()
    }
}

/// The first of two tasks loses its window to the other one, which comes first from then on. Adds
/// the instructions of each stage, which is a part.
fn swap(users: &mut [Id; 2], room: Room, taken: &mut [u64; STAGES]) -> Result<(), Failure> {
    let [from, to] = *users;
    let [take, give, first, second] = taken;
    measured(take, || thread::set_reach(from, SMALL_ALL, Id::NIL).map(|_| ()))?;
    measured(give, || thread::set_reach(to, room.reach, room.host).map(|_| ()))?;
    measured(first, || call(to, Message::new(0, &[])).map(|_| ()))?;
    measured(second, || call(to, Message::new(0, &[])).map(|_| ()))?;
    users.reverse();
    Ok(())
}

fn measured(taken: &mut u64, run: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    part::reset();
    part::begins();
    run()?;
    part::ends();
    *taken += part::sum().1;
    Ok(())
}
