// SPDX-License-Identifier: BSD-2-Clause
//! The attackers: random system calls, most of them almost valid, on themselves, on each other and
//! on tasks that they create.

use crate::places::*;
use crate::random::Random;
use crate::reach;
use core::mem::offset_of;
use core::sync::atomic::Ordering::Relaxed;
use keel_l4::abi::call::*;
use keel_l4::abi::fpage::*;
use keel_l4::abi::ids::*;
use keel_l4::abi::memory::*;
use keel_l4::abi::programs::*;
use keel_l4::abi::{ExRegs, Frame, Utcb};
use keel_l4::call::{invoke, Registers};
use keel_l4::kip::kip;
use keel_l4::protocol::boot::ROOT_SHUTDOWN;
use keel_l4::thread::{first_of, lthread, task_of, Main};
use keel_l4::{utcb, Fpage, Id, Tag};

/// The lthread numbers of a task that attackers use.
pub const LTHREADS: u64 = 6;
/// Address of the kernel area of some tasks.
const OTHER_AREA: u64 = 0x5000_0000_0000;
/// Bytes at the beginning of the space, which windows show.
const LOW: u64 = 1 << 28;
/// Bytes around an edge of the space.
const EDGE: u64 = 64 * PAGE_SIZE;
/// Bytes that a table of small pages covers.
const TABLE_BYTES: u64 = 1 << ARENA_LOG2;
/// Likely bases of thread-local segments: at both ends of a window and of the space.
const TLS_PLACES: [u64; 5] = [0, 1, LOW - PAGE_SIZE, LOW, 0xffff_f000];
/// The most frame pages of an attacker.
const FRAME_PAGES: u64 = 2;
/// The UTCB words that must not be overwritten: the UTCB's address and the thread's id.
const UTCB_OWN: u64 = 2;
/// Words of a UTCB.
const UTCB_WORDS: u64 = PAGE_SIZE / 8;

/// The argument of an attacker: its seed and its stack.
pub const fn argument(seed: u64, stack: u64) -> u64 {
    seed * STACKS + stack % STACKS
}

/// Attacks without end.
pub extern "C" fn run(argument: u64) -> ! {
    let mut attacker = Attacker { random: Random::new(argument / STACKS), me: utcb::my_id() };
    let calls = &own_ledger().calls[(argument % STACKS) as usize];
    loop {
        let registers = spared(attacker.next(), attacker.me);
        let number = registers.ax & CALL_MASK;
        let after = invoke(registers);
        calls.fetch_add(1, Relaxed);
        if let Some(rare) = rare(&registers).filter(|_| after.ax == 0) {
            own_ledger().rare[rare].fetch_add(1, Relaxed);
        }
        if of_server(attacker.me) {
            MADE.fetch_add(1, Relaxed);
        }
        if number == CALL_TASK_NEW && after.ax == 0 {
            let id = Id(after.di);
            own_ledger().children[(id.task() % MEMBERS) as usize].store(id.0, Relaxed);
        }
    }
}

/// Finds the place of a call in `Ledger::rare`, if it has one.
fn rare(registers: &Registers) -> Option<usize> {
    match registers.ax & CALL_MASK {
        CALL_THREAD_SCHEDULE if registers.si & SCHEDULE_SMALL != 0 && registers.words[4] > SMALL_ALL => Some(0),
        CALL_FPAGE_UNMAP if registers.si & UNMAP_MOVE != 0 => Some(1),
        _ => None,
    }
}

struct Attacker {
    random: Random,
    me: Id,
}

impl Attacker {
    /// The next call.
    fn next(&mut self) -> Registers {
        if self.random.once_in(8) {
            let index = UTCB_OWN + self.random.below(UTCB_WORDS - UTCB_OWN);
            let value = self.word();
            set_utcb(index, value);
        }
        match self.random.below(100) {
            0..=24 => self.message(),
            25..=34 => self.wait(),
            35..=39 => self.notify(),
            40..=46 => self.unmap(),
            47..=50 => self.unmap_ranges(),
            51 | 52 => self.move_table(),
            53..=60 => self.exchange(),
            61..=67 => self.lthread(),
            68..=73 => self.task(),
            74..=76 => self.schedule(),
            77..=80 => self.give_reach(),
            81 | 82 => self.call(CALL_THREAD_SWITCH),
            83..=85 => self.call(CALL_ID_NEAREST),
            86..=93 => self.object(),
            _ => self.anything(),
        }
    }

    /// A random word that is often a meaningful value.
    fn word(&mut self) -> u64 {
        let value = self.random.next();
        match self.random.below(14) {
            0 => 0,
            1 => u64::MAX,
            2 => value & 0xff,
            3 => 1 << (value % 64),
            4 => AREA_DEFAULT + (value & 0x2000_ffff),
            5 => (value & 0xffff_ffff_f000) | (PAGE_SHIFT + value % 37) << FPAGE_SIZE_SHIFT | (value >> 60 & FPAGE_RWX),
            6 | 7 => self.thread().0,
            8 => Id::thread(0, self.member(), (value & 3) as u16, 0).0,
            9 => value % SMALL_IDS,
            10 | 11 => self.fpage().0,
            12 => self.address(),
            _ => value,
        }
    }

    /// The number of a task of the own gang.
    fn member(&mut self) -> u32 {
        let first = FIRST_TASK.load(Relaxed) as u32;
        let gang = self.me.task().wrapping_sub(first) % (GANGS as u32 * MEMBERS) / MEMBERS;
        first + gang * MEMBERS + self.random.below(MEMBERS as u64) as u32
    }

    /// A task of the own gang, or the leader of another gang if its id is known.
    fn some_task(&mut self) -> Id {
        match self.random.below(4) {
            0 => task_of(self.me),
            1 => {
                let other = self.random.below(GANGS as u64) as usize;
                Id(LEADERS[other].load(Relaxed))
            }
            _ => {
                let child = self.random.below(MEMBERS as u64) as usize;
                Id(own_ledger().children[child].load(Relaxed))
            }
        }
    }

    /// A thread that may exist.
    fn thread(&mut self) -> Id {
        match self.random.below(8) {
            0 => self.me,
            1 => Id(PAGER.load(Relaxed)),
            _ => {
                let first = first_of(self.some_task());
                let version = first.version() + self.random.below(3) as u32 / 2;
                Id::thread(version, first.task(), self.random.below(LTHREADS) as u16, first.nesting())
            }
        }
    }

    /// An address of the arena or of the window, sometimes another one.
    fn address(&mut self) -> u64 {
        let offset = self.random.next();
        match self.random.below(16) {
            0 => canonical(offset),
            // At the edges of what can be mapped, and in the kernel.
            9 => {
                const EDGES: [u64; 6] = [USER_END, !0 << HALF_SHIFT, UPPER_START, UPPER_END, !0 << 31, UPPER_LAST];
                self.random.one_of(&EDGES).wrapping_add(offset % EDGE).wrapping_sub(EDGE / 2)
            }
            // In windows.
            10 | 11 => offset % LOW,
            1 => DEN + offset % (DEN_PAGES * PAGE_SIZE),
            2 => AREA_DEFAULT + offset % (FRAME_PAGES * PAGE_SIZE),
            3..=8 => ARENA + offset % (1 << ARENA_LOG2),
            _ => WINDOW + offset % (4 << ARENA_LOG2),
        }
    }

    /// A part of arena or window; sometimes ports, the whole space, or a malformed fpage.
    fn fpage(&mut self) -> Fpage {
        let log2 =
            PAGE_SHIFT + [0, 0, 0, 1, 2, 4, ARENA_LOG2 as u64 - PAGE_SHIFT, 10, 18][self.random.below(9) as usize];
        let rights = self.random.one_of(&[FPAGE_RWX, FPAGE_RWX, FPAGE_READ, FPAGE_READ | FPAGE_WRITE, 0, FPAGE_EXEC]);
        match self.random.below(16) {
            0 => Fpage::io(self.random.next() as u16, self.random.below(17) as u8),
            1 => Fpage::WHOLE,
            2 => Fpage(self.random.next()),
            _ => Fpage::memory(self.address(), log2 as u8, rights),
        }
    }

    /// Timeout kinds: mostly zero, or one that expires soon.
    fn timeouts(&mut self) -> u64 {
        let mut flags = 0;
        for (shift, field) in [
            (IPC_SEND_TIMEOUT_SHIFT, offset_of!(Utcb, send_timeout)),
            (IPC_RECEIVE_TIMEOUT_SHIFT, offset_of!(Utcb, receive_timeout)),
        ] {
            let kind = match self.random.below(64) {
                0 => TIMEOUT_NEVER,
                1..=20 => {
                    set_utcb(field as u64 / 8, self.soon());
                    TIMEOUT_UTCB
                }
                _ => TIMEOUT_ZERO,
            };
            flags |= kind << shift;
        }
        flags
    }

    /// A time of some microseconds.
    fn soon(&mut self) -> u64 {
        self.random.below(1 << 15)
    }

    fn words(&mut self) -> [u64; REGISTER_WORDS as usize] {
        core::array::from_fn(|_| self.word())
    }

    /// Stores map items and strings in the UTCB and returns a tag that roughly matches them.
    fn tag(&mut self) -> Tag {
        let mut tag = Tag::new(self.random.next() as u32 & 0xf, self.random.one_of(&[0, 2, 6, 6, 16, 38, MAX_WORDS]));
        if self.random.once_in(3) {
            let maps = 1 + self.random.below(3);
            for index in 0..maps {
                let grant = if self.random.once_in(4) { MAP_GRANT } else { 0 };
                let (base, fpage) = (self.address() & !MAP_GRANT | grant, self.fpage().0);
                set_pair(offset_of!(Utcb, maps), index, (base, fpage));
            }
            tag = tag.with_maps(maps);
        }
        if self.random.once_in(4) {
            let strings = 1 + self.random.below(3);
            self.parts(offset_of!(Utcb, strings), strings);
            tag = tag.with_strings(strings);
        }
        if self.random.once_in(64) {
            tag = Tag(self.random.next());
        }
        tag
    }

    /// Stores the items of strings or buffers.
    fn parts(&mut self, offset: usize, count: u64) {
        for index in 0..count {
            let more = if self.random.once_in(4) && index + 1 < count { STRING_CONTINUES } else { 0 };
            let length = match self.random.below(8) {
                0 => self.random.below(MAX_STRING_BYTES + 2),
                1 => self.random.below(1 << 16),
                _ => self.random.below(2 * PAGE_SIZE),
            };
            let address = self.address();
            set_pair(offset, index, (address, length | more));
        }
    }

    /// Prepares for the next received message: a window, buffers, page-fault timeouts.
    fn receiver(&mut self) {
        if self.random.once_in(4) {
            let window = if self.random.once_in(16) { Fpage::WHOLE } else { self.fpage() };
            utcb::set_receive_window(window);
        }
        if self.random.once_in(4) {
            let count = self.random.below(4);
            self.parts(offset_of!(Utcb, buffers), count);
            utcb::set_buffer_count(count);
        }
        if self.random.once_in(4) {
            let (send, receive) = (self.soon(), self.soon());
            utcb::set_fault_timeouts(send, receive);
        }
    }

    /// A send, a call, or a reply and a wait.
    fn message(&mut self) -> Registers {
        self.receiver();
        let phases = self.random.one_of(&[IPC_SEND, IPC_SEND | IPC_RECEIVE, IPC_SEND | IPC_RECEIVE | IPC_OPEN]);
        let to = self.thread();
        let from = if self.random.once_in(8) { self.thread() } else { to };
        let ax = CALL_IPC | phases | self.timeouts();
        Registers { ax, di: to.0, si: self.tag().0, dx: from.0, words: self.words() }
    }

    fn wait(&mut self) -> Registers {
        self.receiver();
        let open = self.random.one_of(&[0, IPC_OPEN, IPC_OPEN]);
        let from = if self.random.once_in(4) { Id(ID_TIMER + self.random.below(4)) } else { self.thread() };
        Registers { ax: CALL_IPC | IPC_RECEIVE | open | self.timeouts(), dx: from.0, ..Registers::default() }
    }

    fn notify(&mut self) -> Registers {
        let then = self.random.one_of(&[0, IPC_RECEIVE | IPC_OPEN]);
        let ax = CALL_IPC | IPC_SEND | IPC_NOTIFY | then | self.timeouts();
        Registers { ax, di: self.thread().0, si: 0, dx: 0, words: self.words() }
    }

    fn unmap(&mut self) -> Registers {
        let flush = if self.random.once_in(2) { UNMAP_FLUSH } else { 0 };
        let si = self.random.below(UNMAP_RIGHTS + 1) | flush;
        Registers { ax: CALL_FPAGE_UNMAP, di: self.fpage().0, si, ..Registers::default() }
    }

    fn unmap_ranges(&mut self) -> Registers {
        let count = self.random.one_of(&[0, 1, 2, 5, MAX_RANGES, MAX_RANGES + 1]);
        for index in 0..count.min(8) {
            let keep = self.random.below(FPAGE_RWX + 1);
            let range = (self.address() & !(PAGE_SIZE - 1) | keep, self.random.below(600));
            set_pair(offset_of!(Utcb, record), index, range);
        }
        let mut words = self.words();
        words[0] = count;
        Registers { ax: CALL_FPAGE_UNMAP, di: 0, si: UNMAP_TASK, dx: self.some_task().0, words }
    }

    /// Moves the small pages of a table, or less, to another table or a random address.
    fn move_table(&mut self) -> Registers {
        let place = |at: u64| number(if at % 8 > 0 { at & !(TABLE_BYTES - 1) } else { at });
        let (from, to) = (self.address(), self.address());
        let pages = self.random.one_of(&[TABLE_BYTES / PAGE_SIZE, TABLE_BYTES / PAGE_SIZE, 1, 0]);
        set_pair(offset_of!(Utcb, record), 0, (place(from), pages));
        let mut words = self.words();
        (words[0], words[1]) = (1, place(to));
        Registers { ax: CALL_FPAGE_UNMAP, di: 0, si: UNMAP_TASK | UNMAP_MOVE, dx: self.some_task().0, words }
    }

    /// lthread_ex_regs on an existing thread, with any mask that creates no thread.
    fn exchange(&mut self) -> Registers {
        let single = 1 << self.random.below(EX_ALL.trailing_ones() as u64);
        let any = self.random.next() & EX_ALL & !(EX_CREATE | EX_DELETE);
        let mask = self.random.one_of(&[single, single, any, EX_CANCEL, EX_TRIGGER, EX_START, EX_START | EX_CANCEL]);
        self.record();
        let thread = if self.random.once_in(2) {
            let number = self.random.below(LTHREADS) as u16;
            lthread(Id::thread(0, self.member(), 0, 0), number)
        } else {
            self.thread()
        };
        Registers { ax: CALL_LTHREAD_EX_REGS, di: thread.0, si: mask, ..Registers::default() }
    }

    /// Stores a record with mostly valid values.
    fn record(&mut self) {
        let number = self.random.below(STACKS);
        let mut record = ExRegs::zeroed();
        record.ip = if self.random.once_in(8) { self.word() } else { run as Main as usize as u64 };
        record.sp = if self.random.once_in(8) { self.word() } else { stack(number) };
        record.argument = argument(self.random.next() >> 16, number);
        record.pager = if self.random.once_in(4) { self.thread().0 } else { PAGER.load(Relaxed) };
        record.handler = if self.random.once_in(2) { self.me.0 } else { record.pager };
        record.preempter = self.preempter();
        record.frame = self.random.below(FRAME_PAGES * FRAMES_PER_PAGE);
        record.fpu = ARENA + self.random.below(1 << ARENA_LOG2) / 64 * 64;
        record.fpu_size = self.random.one_of(&[kip().fpu_size, PAGE_SIZE, 512, 0]);
        record.debug = core::array::from_fn(|_| if self.random.once_in(2) { 0 } else { self.address() });
        record.tls = core::array::from_fn(|_| reach::descriptor(&mut self.random, &TLS_PLACES));
        record.dispatch = if self.random.once_in(4) { self.address() } else { self.random.below(2) };
        let words = (&raw const record).cast::<u64>();
        for index in 0..size_of::<ExRegs>() / 8 {
            // SAFETY: the record consists of that many words.
            utcb::set_record_word(index, unsafe { words.add(index).read() });
        }
    }

    /// A preempter: none, a thread, or a random word; for some preemptions or for all.
    fn preempter(&mut self) -> u64 {
        let id = match self.random.below(4) {
            0 => ID_NIL,
            1 => self.word(),
            _ => self.thread().0,
        };
        id | self.random.below(2) * PREEMPTER_EVERY
    }

    /// Creates an lthread in the own task or in another of the gang, or deletes one.
    fn lthread(&mut self) -> Registers {
        let number = self.random.one_of(&[LTHREAD_TASK, LTHREAD_TASK, 0, 1, 2, 3, 4, 5, 700]) as u16;
        let task = if self.random.once_in(2) { self.me } else { Id::thread(0, self.member(), 0, 0) };
        self.record();
        let registers = EX_IP | EX_SP | EX_ARGUMENT | EX_PAGER | EX_HANDLER;
        let mask = match self.random.below(8) {
            0..=2 => EX_CREATE | EX_START | registers,
            3 | 4 => EX_CREATE | EX_START | EX_ALIEN | EX_FRAME | EX_PAGER | EX_HANDLER,
            5 => EX_CREATE | registers & self.random.next(),
            _ => EX_DELETE,
        };
        Registers { ax: CALL_LTHREAD_EX_REGS, di: lthread(task, number).0, si: mask, ..Registers::default() }
    }

    /// Creates, deletes or hands over a task of the gang.
    fn task(&mut self) -> Registers {
        let di = Id::thread(0, self.member(), 0, 0).0;
        let (pager, owner) = (PAGER.load(Relaxed), self.some_task());
        let number = self.random.below(STACKS);
        const AREAS: [u64; 9] =
            [AREA_DEFAULT, AREA_DEFAULT, 0, OTHER_AREA, AREA_UPPER, UPPER_END, WINDOW + 1, AREA_SMALL_SIZE, AREA_SIZE];
        let area = self.random.one_of(&AREAS);
        let half = self.random.one_of(&[0, 0, TASK_UPPER_HALF]);
        let quota = self.random.one_of(&[TASK_SHARED_QUOTA, 4, 12, 30, 1 << 40]);
        let start = run as Main as usize as u64;
        let argument = argument(self.random.next() >> 16, number);
        let words = [stack(number), pager, quota, area, argument, 0];
        let priority = self.random.below(PRIORITIES);
        match self.random.below(8) {
            0..=3 => Registers { ax: CALL_TASK_NEW, di, si: priority | half, dx: start, words },
            4 => Registers { ax: CALL_TASK_NEW, di, si: priority | half | TASK_NO_LTHREAD, dx: start, words },
            5 => {
                let log2 = self.random.one_of(&[0, 0, 0, 1, 2, 3, 16, 20, 0xff]);
                Registers { ax: CALL_TASK_NEW, di, si: TASK_INACTIVE | log2 << TASK_RANGE_SHIFT, dx: owner.0, words }
            }
            _ => Registers { ax: CALL_TASK_NEW, di, si: TASK_INACTIVE, dx: task_of(self.me).0, words },
        }
    }

    fn schedule(&mut self) -> Registers {
        let mask = self.random.next() & (SCHEDULE_PRIORITY | SCHEDULE_SLICE | SCHEDULE_PREEMPTER | SCHEDULE_PROCESSOR);
        let priority = self.random.below(PRIORITIES + 2);
        let slice = self.random.one_of(&[0, 1, 50_000, 1_000_000, u64::MAX]);
        let processor = self.random.below(kip().processors + 1);
        let mask = mask | if self.random.once_in(4) { SCHEDULE_SMALL } else { 0 };
        let host = if self.random.once_in(2) { Id::NIL } else { self.some_task() };
        let words = [slice, self.preempter(), processor, host.0, reach::reach(&mut self.random), 0];
        Registers { ax: CALL_THREAD_SCHEDULE, di: self.thread().0, si: mask, dx: priority, words }
    }

    /// Gives a thread of a child a window, or another reach.
    fn give_reach(&mut self) -> Registers {
        let children = own_ledger().children.iter().map(|id| Id(id.load(Relaxed))).filter(|id| *id != Id::NIL);
        let skipped = self.random.below(MEMBERS as u64) as usize;
        let first = first_of(children.cycle().nth(skipped).unwrap_or(Id::NIL));
        let host = if self.random.once_in(4) { self.some_task() } else { Id::NIL };
        let words = [0, 0, 0, host.0, reach::reach(&mut self.random), 0];
        let thread = Id::thread(first.version(), first.task(), self.random.below(2) as u16, first.nesting());
        Registers { ax: CALL_THREAD_SCHEDULE, di: thread.0, si: SCHEDULE_SMALL, dx: 0, words }
    }

    /// An operation on a timer, a GSI or a quota account; or words for a frame.
    fn object(&mut self) -> Registers {
        let timer = ID_TIMER + self.random.below(4);
        let mut words = self.words();
        let (id, label) = match self.random.below(8) {
            0 | 1 => (ID_TIMER, OBJECT_BIND),
            2 => {
                words[0] = keel_l4::kip::now() + self.soon();
                (timer, TIMER_SET)
            }
            3 => (timer, OBJECT_UNBIND),
            4 => {
                words[0] = self.some_task().0;
                words[1] = self.random.one_of(&[0, 1, 3, 1 << 40, u64::MAX]);
                (ID_QUOTA, self.random.one_of(&[QUOTA_READ, QUOTA_ENLARGE, QUOTA_SHRINK]))
            }
            5 => {
                (words[0], words[1]) = (self.random.below(FRAME_PAGES + 1), self.random.below(FRAME_PAGES + 1));
                (ID_QUOTA, self.random.one_of(&[QUOTA_BUY_FRAMES, QUOTA_BUY_FRAMES, QUOTA_SELL_FRAMES]))
            }
            6 => {
                self.scribble();
                (ID_QUOTA, QUOTA_BUY_FRAMES)
            }
            _ => (self.random.below(SMALL_IDS), self.random.below(8)),
        };
        let dx = if self.random.once_in(4) { Id::NIL.0 } else { id };
        let ax = CALL_IPC | IPC_SEND | IPC_RECEIVE | IPC_RECEIVE_ZERO;
        Registers { ax, di: id, si: Tag::new(label as u32, 2).0, dx, words }
    }

    /// Writes into a frame, if there is one. Its thread may be running with it.
    fn scribble(&mut self) {
        let bought = keel_l4::kernel_object::buy_frames(0, FRAME_PAGES).is_ok();
        if !bought {
            return;
        }
        let frame = AREA_DEFAULT + AREA_FRAMES + self.random.below(FRAME_PAGES * FRAMES_PER_PAGE) * FRAME_SIZE;
        for index in 0..size_of::<Frame>() as u64 / 8 {
            let value = match index as usize * 8 {
                at if at == offset_of!(Frame, ip) => run as Main as usize as u64 + self.random.below(1 << 12),
                at if at == offset_of!(Frame, cs) => self.random.one_of(&[0x33, 0x23, 0x10, u64::MAX]),
                _ => self.word(),
            };
            // SAFETY: the frame page was just bought. If another thread sold it, this thread faults
            // and starts again.
            unsafe { (frame as *mut u64).add(index as usize).write_volatile(value) };
        }
    }

    /// A call with random words for arguments.
    fn call(&mut self, number: u64) -> Registers {
        Registers { ax: number, di: self.word(), si: self.word(), dx: self.word(), words: self.words() }
    }

    /// Any call at all.
    fn anything(&mut self) -> Registers {
        let number = self.random.below(CALL_MASK + 1);
        let mut registers = self.call(number);
        if number == CALL_IPC {
            let timeouts = self.timeouts();
            let mask = IPC_TIMEOUT_MASK << IPC_SEND_TIMEOUT_SHIFT | IPC_TIMEOUT_MASK << IPC_RECEIVE_TIMEOUT_SHIFT;
            registers.ax = number | (self.random.next() & 0x1ff0 & !mask) | timeouts;
        } else if self.random.once_in(16) {
            registers.ax |= self.random.next() << 4;
        }
        registers
    }
}

/// Whether the thread belongs to a server that is its own pager.
fn of_server(thread: Id) -> bool {
    Id(PAGER.load(Relaxed)).task() == thread.task()
}

/// The call, unless it is a shutdown, to which a server has the right, or one that a restrained
/// server must not make: on its first thread's registers and schedule, or with that thread's
/// priority for the caller.
fn spared(mut registers: Registers, me: Id) -> Registers {
    let (target, number, highest) = (Id(registers.di), registers.ax & CALL_MASK, HIGHEST.load(Relaxed));
    let first = target.task() == me.task() && target.lthread() == 0;
    match number {
        CALL_LTHREAD_EX_REGS | CALL_THREAD_SCHEDULE if first && highest < UNBRIDLED => registers.ax = CALL_ID_NEAREST,
        CALL_THREAD_SCHEDULE => registers.dx = registers.dx.min(highest),
        CALL_IPC if target.task() == Id::ROOT.task() && Tag(registers.si).label() as u64 == ROOT_SHUTDOWN => {
            registers.si = 0
        }
        _ => {}
    }
    registers
}

/// Writes a word of the own UTCB.
fn set_utcb(index: u64, value: u64) {
    // SAFETY: callers pass the index of a word of the own UTCB.
    unsafe { utcb::address().cast::<u64>().add((index % UTCB_WORDS) as usize).write_volatile(value) };
}

/// Writes pair `index` of a list in the own UTCB.
fn set_pair(offset: usize, index: u64, pair: (u64, u64)) {
    let at = offset as u64 / 8 + 2 * index;
    set_utcb(at, pair.0);
    set_utcb(at + 1, pair.1);
}
