// SPDX-License-Identifier: GPL-2.0-only
//! Lthreads: the thread control block, its states and flags, and how it is found.
//!
//! Owns the block; who runs is sched.rs's, who meets whom ipc.rs's, creation and deletion
//! lthreads.rs's. The registers of a thread in user mode are saved straight into its frame: its own
//! one, or for an alien thread a frame in memory that it shares with its chief, which is checked
//! whenever it is used.

use crate::arch::{cpu::cpu, fpu, segments, switch::FLAGS_FIXED, switch::FLAGS_NEED_IRET, tables::*};
use crate::percpu::{deadlines::Deadline, runqueue::Ready};
use crate::{base::abi::*, base::*, ipc::kernel_object::*, ipc::transfer::Transfer, object::*};
use core::mem::offset_of;

/// What a thread does. This is all that may happen to one that is not deleted:
///
/// | from | to | when |
/// |---|---|---|
/// | any | Inactive | it is stopped (`sched::stop`) |
/// | any | Ready | it starts, its wait is over, or ends with an error (`sched::wake`) |
/// | Ready, Sending, Transferring | Receiving | its receive phase begins (`ipc`) |
/// | Ready, Sending, Transferring, Faulted | Sending | its partner, or its pager, is not waiting |
/// | Ready, Sending, Transferring, Faulted | Faulted | its pager or handler got the message |
/// | Ready, Sending | Preempted | its preempter got the message |
/// | all but Inactive, Preempted | Transferring | its partner goes on, or learns an error |
///
/// A fault goes to the handler in place of a pager that is deleted (`fault::no_handler`): so one
/// that is Faulted or Sending is again.
///
/// `debugger::check::change` has the same table. The fast paths write the states of both partners
/// at once (fast.s): Ready to Receiving or Faulted, and Receiving or Faulted to Ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// Stopped.
    Inactive = STATE_INACTIVE as u8,
    /// Running or ready.
    Ready = STATE_READY as u8,
    /// In its partner's queue with a message of its own, or with one that the kernel sends for it.
    Sending = STATE_SENDING as u8,
    /// Waits to receive.
    Receiving = STATE_RECEIVING as u8,
    /// Its pager or handler has got a message and will answer.
    Faulted = STATE_FAULTED as u8,
    /// Its partner goes on with their transfer.
    Transferring = STATE_TRANSFERRING as u8,
    /// Its preempter has got a message and will answer.
    Preempted = STATE_PREEMPTED as u8,
}

newtype! {
    /// What is to be known of a thread beside its state: any of these.
    pub struct Flags(u32);
}

impl Flags {
    /// An alien thread: its system calls are messages to its handler.
    pub const ALIEN: Flags = Flags(1);
    /// An exception was triggered and not yet taken.
    pub const TRIGGERED: Flags = Flags(2);
    /// Its send phase is done and its receive phase finds something when it runs.
    pub const RECEIVE_DUE: Flags = Flags(4);
    /// What it is sending is a message of the kernel's (`Thread::message`).
    pub const KERNEL_MESSAGE: Flags = Flags(8);
    /// It is in a run queue.
    pub const QUEUED: Flags = Flags(16);
    /// It takes part in a transfer of map items or strings (`Thread::transfer`).
    pub const TRANSFER: Flags = Flags(64);
    /// It goes to another processor (`Thread::target`) before it runs on.
    pub const MIGRATING: Flags = Flags(32);
    /// Its timeout is running.
    pub const TIMED: Flags = Flags(128);
    /// It has an FPU state.
    pub const FPU: Flags = Flags(256);
    /// It deals with threads that are not near it: it waits for one, or a sender in its queue shows
    /// itself as one. That has no fast path.
    pub const CROSS_CLAN: Flags = Flags(2048);
    /// Its pager or its handler is not near it.
    pub const CROSS_CLAN_HANDLER: Flags = Flags(4096);
    /// It is native, and its ip was exchanged for one that no user can have: that has no fast path.
    pub const BAD_IP: Flags = Flags(65536);
    /// It runs 32-bit code, with segments that reach no further than `Thread::reach`. That has no
    /// fast path.
    pub const SMALL: Flags = Flags(1 << 17);
    /// It has debug registers or descriptors of its own.
    pub const DEBUG_TLS: Flags = Flags(512);
    /// It sends its handler messages of its own although it is alien, or its calls are the
    /// handler's although it is native.
    pub const DISPATCHED: Flags = Flags(1024);
    /// It has a preempter: its time slice always counts, and it has no fast path, where slices do
    /// not begin.
    pub const HAS_PREEMPTER: Flags = Flags(8192);
    /// Its preempter is to be told that its time slice is over.
    pub const SLICE_ENDED: Flags = Flags((PREEMPTED_SLICE as u32) << Flags::PREEMPTED_SHIFT);
    /// Its preempter is to be told that somebody more important wants the processor.
    pub const PRIORITY_PREEMPTED: Flags = Flags((PREEMPTED_PRIORITY as u32) << Flags::PREEMPTED_SHIFT);
    /// Its preempter is to be told something; shifted, the message's label.
    pub const PREEMPTED: Flags = Flags::SLICE_ENDED.union(Flags::PRIORITY_PREEMPTED);
    /// Where these begin.
    const PREEMPTED_SHIFT: u32 = 14;
    /// Flags that must be looked at before it runs in user mode.
    pub const WORK: Flags =
        Flags(Flags::TRIGGERED.0 | Flags::RECEIVE_DUE.0 | Flags::TRANSFER.0 | Flags::MIGRATING.0 | Flags::PREEMPTED.0);
    /// The same, or it leaves in a way of its own (`switch::load_small`).
    pub const LEAVES_SLOWLY: Flags = Flags::WORK.union(Flags::SMALL);

    /// These and others.
    pub const fn union(self, others: Flags) -> Flags {
        Flags::new(self.0 | others.0)
    }

    /// These, less others.
    pub const fn without(self, others: Flags) -> Flags {
        Flags::new(self.0 & !others.0)
    }

    /// What a preempter is told of PREEMPTED: the label of its message.
    pub fn preemption(self) -> u64 {
        ((self.0 & Flags::PREEMPTED.0) >> Flags::PREEMPTED_SHIFT) as u64
    }
}

/// Time slice of a new thread.
pub const DEFAULT_SLICE_NS: u64 = 10_000_000;

/// What a deadline is for.
#[derive(Clone, Copy)]
pub enum Due {
    /// A thread's timeout.
    Thread(Ref<Thread>),
    /// A timer object, which fires.
    Timer(Ref<KernelObject>),
    /// The end of a time slice.
    Slice,
}

/// A message that the kernel sends for a thread.
#[derive(Clone, Copy)]
pub struct Message {
    /// Kind, label, number of words.
    pub tag: Tag,
    /// The first words.
    pub words: [u64; 4],
}

/// Four share a page.
const _: () = assert!(size_of::<Thread>() <= crate::object::pool::PAGE / 4);

/// List tag: threads that wait in a partner's queue to send.
pub struct Senders;

object! {
    /// A thread control block.
    #[repr(C, align(16))]
    pub struct Thread(id: Id, task: Ref<Task>, utcb: *mut Utcb, plan: &Plan) {
        own_frame: Cell<Frame> = Cell::new(Frame::zeroed()),
        /// Its id.
        pub id: Id = id,
        /// Its task.
        pub task: Ref<Task> = task,
        /// Address of its task's chief, 0 if it has none.
        pub chief: u64 = task.chief.map_or(0, |chief| chief.as_ptr() as u64),
        /// Physical address of the top table that it runs on: its space's, or that of the task
        /// whose tables show its window.
        pub space: Cell<PhysAddr> = Cell::new(POOL.physical(task.root_table)),
        /// What its segments reach; changed by small.rs.
        pub reach: Cell<Reach> = Cell::new(Reach::NONE),
        /// The descriptors of 32-bit code, data and (except for it) the processor's number that say
        /// so.
        pub segments: Cell<[u64; 4]> = Cell::new(segments::descriptors(Reach::NONE)),
        /// The same as its chief set it, before the thread reached beyond.
        pub given_reach: Cell<Reach> = Cell::new(Reach::NONE),
        /// Its thread-local segments that cover all reach below their bases, and not above.
        pub down: Cell<bool> = Cell::new(false),
        /// Where that last changed, and how often it did so there.
        pub turned_at: Cell<u64> = Cell::new(0),
        pub turns: Cell<u32> = Cell::new(0),
        /// Top table of the supervisor task whose upper half that space shows, OWN_HALF, or none.
        pub half: Cell<PhysAddr> = Cell::new(task.half()),
        /// It runs in supervisor mode.
        pub supervisor: bool = task.supervisor,
        /// Its selectors at an exit to 64-bit code,
        pub exit_cs: u64 = if task.supervisor { KERNEL_CS } else { USER_CS } as u64,
        pub exit_ss: u64 = if task.supervisor { KERNEL_SS } else { USER_SS } as u64,
        /// and the flags with which SYSRET cannot resume it: in supervisor mode those that all
        /// have.
        pub flags_need_iret: u64 = if task.supervisor { FLAGS_FIXED } else { FLAGS_NEED_IRET },
        /// It runs in any space that shows that half, which is its own task's.
        pub any_space: bool = task.is_shown(),
        /// Its task's number.
        pub task_number: TaskNumber = task.number,
        /// The frame in use: its own or a shared one.
        pub(crate) frame: Cell<*mut Frame> = Cell::new(core::ptr::null_mut()),
        /// Its UTCB, null for an alien thread.
        pub(crate) utcb: *mut Utcb = utcb,
        /// What it does; `change_state` changes it.
        state: Cell<State> = Cell::new(State::Inactive),
        /// It receives from anybody.
        pub open: Cell<bool> = Cell::new(false),
        /// Number of its processor.
        pub cpu: Cell<u8> = Cell::new(cpu().index),
        /// Zero.
        aligning: u8 = 0,
        /// ALIEN and so on.
        pub flags: Cell<Flags> = Cell::new(if plan.frame.is_some() { Flags::ALIEN } else { Flags::NONE }),
        /// Index of the shared frame in the chief's window, or FRAME_NONE.
        pub frame_index: Cell<u32> = Cell::new(FRAME_NONE as u32),
        /// What becomes of its calls: DISPATCH_OFF, DISPATCH_ON, or an entry: of an alien thread
        /// the program's that takes them, of a native one that for upcalls.
        pub dispatch: Cell<u64> = Cell::new(if plan.frame.is_some() { DISPATCH_OFF } else { DISPATCH_ON }),
        /// 0 to 255, 255 first.
        pub priority: Cell<u8> = Cell::new(plan.priority),
        /// Number of the processor that it goes to when it is MIGRATING.
        pub target: Cell<u8> = Cell::new(cpu().index),
        /// It may find something when it waits for anybody: a notification, an interrupt, a sender.
        pub maybe_pending: Cell<bool> = Cell::new(false),
        /// It has no FPU state, and uses that of the alien thread that it handles.
        pub borrows_fpu: Cell<bool> = Cell::new(false),
        /// Address of the thread for which it got the last message of the kernel's; it may be gone.
        pub lender: Cell<u64> = Cell::new(0),
        /// Time slice in ns; 0: unlimited.
        pub slice: Cell<u64> = Cell::new(DEFAULT_SLICE_NS),
        /// What is left of its time slice in ns, if it did not run to the end of it; 0: all.
        pub slice_left: Cell<u64> = Cell::new(0),
        /// Processor time used, in TSC ticks; while it is loaded, less the time when that began
        /// (`switch::consumed`).
        pub consumed: Cell<u64> = Cell::new(0),
        /// Who gets its page faults.
        pub pager: Cell<Id> = Cell::new(plan.pager),
        /// Who gets its exceptions.
        pub handler: Cell<Id> = Cell::new(plan.pager),
        /// Who gets its preemptions, with PREEMPTER_EVERY or without.
        pub preempter: Cell<Id> = Cell::new(Id::NIL),
        /// Whom it sends to or waits for: a thread's or a source's id. Its partner while that goes
        /// on with their transfer.
        pub partner: Cell<Id> = Cell::new(Id::NIL),
        /// Whom its own message is for, even where a chief gets it. (The register may be given
        /// another value while it waits.)
        pub destination: Cell<Id> = Cell::new(Id::NIL),
        /// As whom it sends its own message: itself, or its virtual sender.
        pub shown: Cell<Id> = Cell::new(id),
        /// Threads that wait for just this one.
        pub waiters: Cell<u32> = Cell::new(0),
        /// Its transfer of map items or strings.
        pub transfer: Transfer = Transfer::new(),
        /// What an unmap found, and how far it came, before it was restarted (`Work::keep`).
        /// Whoever gives the thread other registers clears it: the call that comes next may be
        /// another one.
        pub found: Cell<u64> = Cell::new(0),
        /// Notification word.
        pub notify: Cell<u64> = Cell::new(0),
        /// What the kernel sends for it.
        pub message: Cell<Message> = Cell::new(Message { tag: Tag(0), words: [0; 4] }),
        /// Whom that is for: the pager or handler, even where a chief gets it.
        pub fault_target: Cell<Id> = Cell::new(Id::NIL),
        /// Who waits to send to it.
        pub senders: List<Thread, Senders> = List::new(),
        sender_links: Links<Thread> = Links::new(),
        ready_links: Links<Thread> = Links::new(),
        /// Interrupts and timers that fired and were not received.
        pub pending: List<KernelObject, Pending> = List::new(),
        /// Sources that it is attached to.
        pub sources: List<KernelObject, Attached> = List::new(),
        /// Its timeout.
        pub deadline: Deadline<Due> = Deadline::new(),
        /// Its FPU state once it has used the FPU.
        pub fpu: Cell<Option<Ref<fpu::State>>> = Cell::new(None),
        /// Its debug registers and descriptors, once set.
        pub extra: Cell<Option<Ref<fpu::DebugTls>>> = Cell::new(None),
    }
}

linked!(Thread, Ready, ready_links);
linked!(Thread, Senders, sender_links);

/// The words from `state` to `flags`, as they are read at once.
pub const fn state_word(state: State, open: bool, cpu: u8, flags: Flags) -> u64 {
    let flags = flags.0;
    u64::from_le_bytes([state as u8, open as u8, cpu, 0, flags as u8, (flags >> 8) as u8, 0, 0])
}
const _: () = assert!(offset_of!(Thread, own_frame) == 0 && Thread::STATE_WORD % 8 == 0);
const _: () =
    assert!(offset_of!(Thread, open) == Thread::STATE_WORD + 1 && offset_of!(Thread, cpu) == Thread::STATE_WORD + 2);
const _: () = assert!(offset_of!(Thread, flags) == Thread::STATE_WORD + 4);

impl Thread {
    /// Offset of what `state_word` makes.
    pub const STATE_WORD: usize = offset_of!(Thread, state);

    /// What it does.
    pub fn state(&self) -> State {
        self.state.get()
    }

    /// It does something else from now on.
    pub fn change_state(&self, to: State) {
        crate::debugger::check::change(self, to);
        self.state.set(to);
    }

    /// Whether one of these flags is set.
    pub fn has(&self, flags: Flags) -> bool {
        self.flags.get().0 & flags.0 != 0
    }

    /// It waits from now on: for anybody (`open`), or for this partner.
    pub fn block(&self, state: State, open: bool, partner: Id) {
        self.change_state(state);
        self.open.set(open);
        self.partner.set(partner);
    }

    /// Whether it has no flags except these.
    pub fn has_only(&self, flags: Flags) -> bool {
        self.flags.get().without(flags) == Flags::NONE
    }

    /// Whether it is a native thread with an entry for upcalls (EX_DISPATCH).
    pub fn has_entry(&self) -> bool {
        self.dispatch.get() > DISPATCH_ON && !self.has(Flags::ALIEN)
    }

    /// Whether its faults and calls are upcalls: it is in the lower half, and in no transfer.
    pub fn is_called_up(&self) -> bool {
        self.has_entry() && self.frame().ip.get() >> HALF_SHIFT == 0 && !self.has(Flags::TRANSFER)
    }

    /// Sets flags.
    pub fn set(&self, flags: Flags) {
        self.flags.set(self.flags.get().union(flags));
    }

    /// Clears flags.
    pub fn unset(&self, flags: Flags) {
        self.flags.set(self.flags.get().without(flags));
    }

    /// Sets flags or clears them.
    pub fn put(&self, flags: Flags, on: bool) {
        self.unset(flags);
        self.set(if on { flags } else { Flags::NONE });
    }

    /// Whether an alien thread was the last to send it a message as its handler, and waits for it.
    pub fn handles(&self, alien: Ref<Thread>) -> bool {
        let waits = alien.has(Flags::ALIEN) && alien.state() == State::Faulted && alien.partner.get() == self.id;
        waits && alien.handler.get() == self.id && alien.as_ptr() as u64 == self.lender.get()
    }

    /// As whom it sends what it is sending.
    pub fn sends_as(&self) -> Id {
        if self.has(Flags::KERNEL_MESSAGE) {
            return self.id;
        }
        self.shown.get()
    }

    /// The frame in use. An alien thread's may change under our hands: read each field once.
    pub fn frame(&self) -> &SharedFrame {
        // SAFETY: points to `own_frame` or into a frame page that is bound to this thread and thus
        // not given back; words allow the sharing.
        unsafe { &*self.frame.get().cast::<SharedFrame>() }
    }

    /// The UTCB; `None` for an alien thread.
    pub fn utcb(&self) -> Option<&SharedUtcb> {
        // SAFETY: a page of the kernel area that lives as long as the thread; words allow the
        // sharing with the user.
        unsafe { self.utcb.cast::<SharedUtcb>().as_ref() }
    }
}

/// Words of a frame.
pub const FRAME_WORDS: usize = SharedFrame::WORDS;

/// The thread of an id.
pub fn find(id: Id) -> Option<Ref<Thread>> {
    let thread = task::at(TaskNumber::of(id))?.lthread(id.lthread())?;
    (thread.id == id).then_some(thread)
}

/// `thread`, if the caller may change it: of its own task or clan, and no alien one in its task
/// whose handler is not.
pub fn controlled(caller: Ref<Thread>, thread: Ref<Thread>) -> Result<Ref<Thread>, Error> {
    caller.task.controls(thread.task)?;
    let anothers = thread.has(Flags::ALIEN) && thread.handler.get().task() != caller.id.task();
    Some(thread).filter(|thread| thread.task != caller.task || !anothers).ok_or(Error::Denied)
}

/// Sets CROSS_CLAN_HANDLER or clears it: who has it has no fast path, where nearness is not asked.
pub fn mark_cross_clan_handler(thread: Ref<Thread>) {
    let near = |id: Id| id == Id::NIL || find(id).is_some_and(|handler| clan::is_same_clan(thread.task, handler.task));
    thread.put(Flags::CROSS_CLAN_HANDLER, !near(thread.pager.get()) || !near(thread.handler.get()));
}

/// How a new thread starts.
pub struct Plan {
    /// Lthread number, or LTHREAD_TASK for any.
    pub lthread: u16,
    /// Frame page and index within it, and the index in the chief's window, for an alien thread.
    pub frame: Option<BoundFrame>,
    /// Priority.
    pub priority: u8,
    /// Pager and exception handler.
    pub pager: Id,
}

/// A frame in a chief's window: the pool page, and the index in the window.
#[derive(Clone, Copy)]
pub struct BoundFrame {
    pub(crate) page: PoolPage,
    pub(crate) index: u32,
}
