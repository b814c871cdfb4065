// SPDX-License-Identifier: GPL-2.0-only
//! What the kernel itself answers for: interrupt lines, timers, the quota.
//!
//! A source is attached to at most one thread. When it fires and the thread does not wait for it,
//! it stays in the thread's list of pending sources, once. A line that fired is not delivered again
//! before it is acknowledged; an edge that comes meanwhile is kept. A message-signalled interrupt
//! needs no acknowledgement. Lines are the machine's; timers are names in their task, and lie in a
//! page that it pays for while it has any, so that no task can use up another's.

use crate::{arch::apic, arch::cpu, base::abi::*, base::*, ipc::ipc, mm::space, sched};
use crate::{object::thread::Due, object::*, percpu::deadlines::Deadline, percpu::preempt};

/// List tag: sources that fired and wait for their thread.
pub struct Pending;
/// List tag of the objects that a thread is attached to.
pub struct Attached;

/// Interrupt lines that there are structures for (the I/O APICs of a PC have 24 to 120).
const LINES: usize = 128;

/// Message-signalled interrupts of each processor.
const MESSAGES: u64 = apic::MSI_VECTORS;

/// Frame pages that are bought or sold at once: bounds the time that takes.
const MAX_FRAME_PAGES: u64 = 256;

object! {
    /// A line, a message-signalled interrupt, or a timer.
    pub struct KernelObject const (id: Id) {
        /// Its id, a timer's in its task.
        id: Id = id,
        attached: Cell<Option<Ref<Thread>>> = Cell::new(None),
        /// Line: fired and not acknowledged.
        in_service: Cell<bool> = Cell::new(false),
        /// Line: fired again while busy. Timer, line: in the thread's pending list.
        pending: Cell<bool> = Cell::new(false),
        queued: Cell<bool> = Cell::new(false),
        level: Cell<bool> = Cell::new(false),
        /// Line, message: the task that holds the right.
        owner: Cell<TaskNumber> = Cell::new(TaskNumber::SIGMA0),
        /// Timer: number of the processor whose deadlines it is among, if it is armed.
        pub home: Cell<u8> = Cell::new(0),
        /// Timer: when it fires.
        pub deadline: Deadline<Due> = Deadline::new(),
        pending_links: Links<KernelObject> = Links::new(),
        attached_links: Links<KernelObject> = Links::new(),
    }
}

linked!(KernelObject, Pending, pending_links);
linked!(KernelObject, Attached, attached_links);

impl KernelObject {
    fn is_timer(&self) -> bool {
        self.id.0 >= ID_TIMER
    }

    fn is_message(&self) -> bool {
        (ID_MSI_SOURCE..ID_TIMER).contains(&self.id.0)
    }

    fn line(&self) -> u32 {
        (self.id.0 - ID_IRQ) as u32
    }
}

/// Sources with ids from `first` on.
const fn sources<const COUNT: usize>(first: u64) -> [KernelObject; COUNT] {
    let mut table = [const { KernelObject::new(Id::NIL) }; COUNT];
    let mut at = 0;
    while at < COUNT {
        table[at].id = Id(first + at as u64);
        at += 1;
    }
    table
}

static GSIS: Global<[KernelObject; LINES]> = Global::new(sources(ID_IRQ));
/// The message-signalled interrupts, those of each processor together.
static MSIS: Global<[KernelObject; MSI_SOURCES as usize]> = Global::new(sources(ID_MSI_SOURCE));

const _: () = assert!(MESSAGES * cpu::MAX as u64 == MSI_SOURCES);
const _: () = assert!(TIMERS as usize * size_of::<KernelObject>() <= PAGE);

/// The timers of a task, if it has any.
fn timers(task: Ref<Task>) -> Option<&'static [KernelObject; TIMERS as usize]> {
    let page = Some(task.timers.get()).filter(|page| *page != PoolPage::NONE)?;
    // SAFETY: `claim_timer` filled the page; `detach` gives it back when the last of them is
    // nobody's.
    Some(unsafe { &*POOL.address(page).cast() })
}

fn in_table<const COUNT: usize>(table: &'static [KernelObject; COUNT], index: u64) -> Option<Ref<KernelObject>> {
    (index < COUNT as u64).then(|| Ref::to(&table[nospec::<COUNT>(index as usize)]))
}

fn line(number: u64) -> Option<Ref<KernelObject>> {
    in_table(&GSIS, number).filter(|_| apic::has_gsi(number))
}

/// The message-signalled interrupt of this number, if its processor runs.
fn message(number: u64) -> Option<Ref<KernelObject>> {
    in_table(&MSIS, number).filter(|_| number < messages())
}

fn messages() -> u64 {
    MESSAGES * cpu::count() as u64
}

/// The line, message or timer that an id means to a task.
fn lookup(id: Id, task: Ref<Task>) -> Option<Ref<KernelObject>> {
    match id.0 {
        n if (ID_IRQ..ID_IRQ + GSI_COUNT).contains(&n) => line(n - ID_IRQ),
        n if (ID_MSI_SOURCE..ID_MSI_SOURCE + MSI_SOURCES).contains(&n) => message(n - ID_MSI_SOURCE),
        n if (ID_TIMER..ID_TIMER + TIMERS).contains(&n) => in_table(timers(task)?, n - ID_TIMER),
        _ => None,
    }
}

/// Whether a source delivers to a thread.
pub fn is_attached(id: Id, thread: Ref<Thread>) -> bool {
    lookup(id, thread.task).is_some_and(|source| source.attached.get() == Some(thread))
}

/// The source of this id, if it fired for this thread.
pub fn pending_for(thread: Ref<Thread>, id: Id) -> Option<Ref<KernelObject>> {
    lookup(id, thread.task).filter(|source| source.attached.get() == Some(thread) && source.queued.get())
}

/// A line or a timer fires.
pub fn fire(source: Ref<KernelObject>) {
    let Some(thread) = source.attached.get() else { return };
    if !ipc::interrupt(thread, source.id) && !source.queued.replace(true) {
        thread.maybe_pending.set(true);
        thread.pending.push_back(source);
    }
}

/// The hardware's interrupt by message `number` of this processor.
pub fn message_interrupt(number: u64) {
    apic::end_of_interrupt();
    if let Some(source) = message(cpu::cpu().index as u64 * MESSAGES + number) {
        fire(source);
    }
}

/// The hardware's interrupt of a line, or of a device that was told to send the vector of a line
/// that there is not.
pub fn line_interrupt(number: u32) {
    let Some(source) = line(number as u64) else { return apic::end_of_interrupt() };
    if source.level.get() {
        apic::set_masked(number, true);
    }
    apic::end_of_interrupt();
    if source.in_service.replace(true) {
        source.pending.set(true);
    } else {
        fire(source);
    }
}

/// A pending source reaches its thread.
pub fn received(source: Ref<KernelObject>, thread: Ref<Thread>) {
    unqueue(source);
    ipc::write_interrupt(thread, source.id);
}

fn unqueue(source: Ref<KernelObject>) {
    if let (true, Some(thread)) = (source.queued.replace(false), source.attached.get()) {
        thread.pending.remove(source);
    }
}

/// Answer words of an operation, and how many there are.
pub type Answer = ([u64; ACCOUNT_WORDS as usize], usize);
/// None.
pub const NO_WORDS: Answer = ([0; ACCOUNT_WORDS as usize], 0);

/// Performs an operation on a source.
pub fn invoke(caller: Ref<Thread>, id: Id, operation: u64) -> Result<Answer, Error> {
    let frame = caller.frame();
    let (w0, w1) = (frame.r8.get(), frame.r9.get());
    let done = match id.0 {
        ID_QUOTA if operation == QUOTA_READ => return read_account(caller.task, Id(w0)),
        ID_QUOTA => quota(caller.task, operation, w0, w1),
        ID_MSI if operation == MSI_ALLOCATE => return allocate_msi(caller),
        ID_MSI => Err(Error::Invalid),
        ID_CHECK if crate::debugger::ON => return crate::debugger::check::invoke(operation, w0, w1),
        ID_TIMER if operation == OBJECT_BIND => return claim_timer(caller),
        _ => match lookup(id, caller.task).ok_or(Error::NoPartner)? {
            source if source.is_timer() => timer(source, operation, w0),
            source => invoke_gsi(caller, source, operation, w0),
        },
    };
    done.map(|()| NO_WORDS)
}

fn claim_timer(caller: Ref<Thread>) -> Result<Answer, Error> {
    let task = caller.task;
    if task.timers.get() == PoolPage::NONE {
        let page = POOL.take_zeroed(task.account, Kind::Part)?;
        // SAFETY: they fit into the page, which is ours alone.
        unsafe { POOL.address(page).cast::<[KernelObject; TIMERS as usize]>().write(sources(ID_TIMER)) };
        task.timers.set(page);
    }
    let free = timers(task).into_iter().flatten().find(|timer| timer.attached.get().is_none());
    let timer = Ref::to(free.ok_or(Error::NoMemory)?);
    attach(timer, caller);
    let mut answer = NO_WORDS;
    (answer.0[0], answer.1) = (timer.id.0, 1);
    Ok(answer)
}

fn attach(source: Ref<KernelObject>, thread: Ref<Thread>) {
    source.attached.set(Some(thread));
    thread.sources.push_back(source);
}

fn detach(source: Ref<KernelObject>) {
    unqueue(source);
    if source.is_timer() {
        if let Some(thread) = source.attached.get() {
            arm_timer(source, thread, u64::MAX);
        }
    } else if !source.is_message() {
        apic::set_masked(source.line(), true);
    }
    let Some(thread) = source.attached.take() else { return };
    thread.sources.remove(source);
    if source.is_timer() && timers(thread.task).into_iter().flatten().all(|timer| timer.attached.get().is_none()) {
        // SAFETY: the timers in it are nobody's, and the task leads there no more.
        unsafe { POOL.free_page(thread.task.timers.replace(PoolPage::NONE), Kind::Part) };
    }
}

/// Sets a timer object's deadline; `u64::MAX` clears it. It fires on the CPU where its thread is
/// now.
fn arm_timer(timer: Ref<KernelObject>, thread: Ref<Thread>, time: u64) {
    let deadline = timer.part(|timer| &timer.deadline);
    cpu::numbered(timer.home.replace(thread.cpu.get())).deadlines.remove(deadline);
    if time != u64::MAX {
        let cpu = cpu::of(thread);
        cpu.deadlines.insert(deadline, time, Due::Timer(timer));
        sched::program(cpu);
    }
}

fn timer(timer: Ref<KernelObject>, operation: u64, time: u64) -> Result<(), Error> {
    // A thread may program the timers of its whole task: arming can shorten another thread's wait.
    let thread = timer.attached.get().ok_or(Error::NoPartner)?;
    match operation {
        TIMER_SET => {
            unqueue(timer);
            arm_timer(timer, thread, time);
        }
        OBJECT_UNBIND => detach(timer),
        _ => return Err(Error::Invalid),
    }
    Ok(())
}

/// Attaches a free message-signalled interrupt of the caller's processor to it.
fn allocate_msi(caller: Ref<Thread>) -> Result<Answer, Error> {
    let first = caller.cpu.get() as u64 * MESSAGES;
    let is_free = |m: &Ref<KernelObject>| m.owner.get() == caller.task.number && m.attached.get().is_none();
    let message = (first..first + MESSAGES).filter_map(message).find(is_free).ok_or(Error::Denied)?;
    let place = apic::message(cpu::of(caller).apic_id, message.id.0 - ID_MSI_SOURCE - first);
    let (address, data) = place.ok_or(Error::Denied)?;
    attach(message, caller);
    let mut answer = NO_WORDS;
    answer.0[..3].copy_from_slice(&[message.id.0, address, data]);
    answer.1 = 3;
    Ok(answer)
}

fn invoke_gsi(caller: Ref<Thread>, line: Ref<KernelObject>, operation: u64, argument: u64) -> Result<(), Error> {
    Error::Denied.when(line.owner.get() != caller.task.number)?;
    match operation {
        OBJECT_BIND if line.is_message() => return Err(Error::Invalid),
        OBJECT_BIND if line.attached.get().is_some() => return Err(Error::Busy),
        OBJECT_BIND if argument > IRQ_MODE_LEVEL => return Err(Error::Invalid),
        OBJECT_BIND => {
            // It may have fired since the last thread was attached to it.
            line.in_service.set(false);
            line.pending.set(false);
            attach(line, caller);
            line.level.set(apic::configure(line.line(), argument, cpu::of(caller).apic_id));
            apic::set_masked(line.line(), false);
        }
        OBJECT_UNBIND => detach(line),
        OBJECT_ACK => acknowledge(line),
        OBJECT_GIVE => {
            let taker = task::find(Id(argument)).ok_or(Error::NoPartner)?;
            detach(line);
            line.owner.set(taker.number);
        }
        _ => return Err(Error::Invalid),
    }
    Ok(())
}

fn acknowledge(line: Ref<KernelObject>) {
    if !line.in_service.replace(false) {
        return;
    }
    if line.pending.take() {
        line.in_service.set(true);
        fire(line);
    } else if line.level.get() && line.attached.get().is_some() {
        apic::set_masked(line.line(), false);
    }
}

fn read_account(reader: Ref<Task>, id: Id) -> Result<Answer, Error> {
    let task = if id == Id::NIL { reader } else { task::find(id).ok_or(Error::NoPartner)? };
    reader.controls(task)?;
    Ok((core::array::from_fn(|word| task.account.word(word as u64)), ACCOUNT_WORDS as usize))
}

fn quota(task: Ref<Task>, operation: u64, w0: u64, w1: u64) -> Result<(), Error> {
    match operation {
        QUOTA_ENLARGE => task.account.pass(w1, &payee(task, Id(w0))?.account),
        QUOTA_SHRINK => payee(task, Id(w0))?.account.pass(w1, &task.account),
        QUOTA_BUY_FRAMES => buy_frames(task, w0, w1),
        QUOTA_SELL_FRAMES => sell_frames(task, w0, w1),
        _ => Err(Error::Invalid),
    }
}

/// The task of the chief's clan whose account gets pages from the chief's or gives them back.
fn payee(chief: Ref<Task>, id: Id) -> Result<Ref<Task>, Error> {
    let task = task::find(id).ok_or(Error::NoPartner)?;
    let task = Some(task).filter(|task| chief.is_chief_of(*task)).ok_or(Error::Denied)?;
    task.owns_account().then_some(task).ok_or(Error::Invalid)
}

/// Where frame pages [first, first + count) lie in the kernel area of a task.
fn frame_offsets(task: Ref<Task>, first: u64, count: u64) -> Result<impl Iterator<Item = u64> + Clone, Error> {
    let end = first.checked_add(count).filter(|end| *end <= AREA_FRAME_PAGES).ok_or(Error::Invalid)?;
    Error::Invalid.when(task.area_size < AREA_SIZE || count > MAX_FRAME_PAGES)?;
    Ok((first..end).map(|page| AREA_FRAMES + page * PAGE_SIZE))
}

fn sell_frames(task: Ref<Task>, first: u64, count: u64) -> Result<(), Error> {
    let offsets = frame_offsets(task, first, count)?;
    let bound = |offset| {
        preempt::poll();
        space::object_at(task, offset).is_some_and(|page| POOL.page(page).parts.get() != 0)
    };
    Error::Busy.when(offsets.clone().any(bound))?;
    for offset in offsets {
        preempt::poll();
        space::remove_object(task, offset);
    }
    Ok(())
}

fn buy_frames(task: Ref<Task>, first: u64, count: u64) -> Result<(), Error> {
    for offset in frame_offsets(task, first, count)? {
        preempt::poll();
        if space::object_at(task, offset).is_none() {
            space::add_object(task, offset)?;
        }
    }
    Ok(())
}

/// A thread goes: its sources are free again.
pub fn thread_deleted(thread: Ref<Thread>) {
    while let Some(source) = thread.sources.first() {
        preempt::poll();
        detach(source);
    }
}

/// A task goes: its lines return to its chief, or to sigma0.
pub fn task_deleted(task: Ref<Task>) {
    let heir = task.chief.map_or(TaskNumber::SIGMA0, |chief| chief.number);
    let msis = &MSIS[..messages() as usize];
    for some in GSIS.chunks(MESSAGES as usize).chain(msis.chunks(MESSAGES as usize)) {
        some.iter().filter(|line| line.owner.get() == task.number).for_each(|line| line.owner.set(heir));
        preempt::poll();
    }
}
