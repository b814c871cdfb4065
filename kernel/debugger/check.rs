// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's invariants, looked at from outside: mapping tree against page tables, accounts
//! against what they paid for, queues against states. Only in the debug build; the caller
//! runs exclusively.

use super::{each_queued, lthreads, tasks, threads};
use crate::arch::{clock, cpu, paging::*, print::log};
use crate::base::{Global, Ref, VirtAddr};
use crate::ipc::kernel_object::{Answer, NO_WORDS};
use crate::mm::mapdb::{NodeIndex, Store, FIRST};
use crate::mm::space::{self, owner_of, Leaf, Nodes, GROUP, GROUPS, LAST_SLOT};
use crate::object::{kip, task, thread, thread::*, Account, Page, PoolPage, Task, TaskNumber, POOL};
use core::cell::Cell;
use keel_abi::call::*;
use keel_abi::fpage::{canonical, UPPER_END, UPPER_LAST, UPPER_START};
use keel_abi::ranges::Range;
use keel_abi::trace::{CHECK_ALL, CHECK_DELAY};
use keel_abi::{Error, Id};

// Where users may have memory the kernel has nothing.
const _: () = assert!(IMAGE_SLOT < slot(VirtAddr::new(UPPER_LAST), TOP_LEVEL - 1));
const _: () = assert!(slot(VirtAddr::new(UPPER_END), TOP_LEVEL) == ENTRIES - 1);
const _: () = assert!(slot(VirtAddr::new(PROCESSORS), TOP_LEVEL) < slot(VirtAddr::new(UPPER_START), TOP_LEVEL));

/// Level of the entries that lead to windows of others.
const WINDOWS: u8 = 2;
/// Violations that are printed.
const PRINTED: u64 = 32;

static VIOLATIONS: Global<Cell<u64>> = Global::new(Cell::new(0));

macro_rules! expect {
    ($holds:expr, $($what:tt)*) => {
        if !$holds && VIOLATIONS.replace(VIOLATIONS.get() + 1) < PRINTED {
            log!("check: {}", format_args!($($what)*));
        }
    };
}

/// Checks all there is and prints what is wrong, or `check: ok`. How much is wrong.
pub fn run() -> u64 {
    VIOLATIONS.set(0);
    check_memory();
    check_threads();
    check_processors();
    match VIOLATIONS.get() {
        0 => log!("check: ok"),
        violations => log!("check: {violations} violations"),
    }
    VIOLATIONS.get()
}

// Where the fast paths wait for as many TSC ticks as a test asked for (CHECK_DELAY).
// Live: rcx = the ticks, r11 = where to go on. Keeps all but rbx, rbp and r15.
#[cfg(feature = "debugger")]
core::arch::global_asm!(
    ".globl wait_for_ticks",
    "wait_for_ticks: mov r15, rax",
    "mov rbp, rdx",
    "rdtsc",
    "shl rdx, 32",
    "lea rbx, [rax + rdx]",
    "2: rdtsc",
    "shl rdx, 32",
    "or rax, rdx",
    "sub rax, rbx",
    "cmp rax, rcx",
    "jb 2b",
    "mov rax, r15",
    "mov rdx, rbp",
    "jmp r11",
);

/// The operations of `ID_CHECK`.
pub fn invoke(operation: u64, time: u64, processor: u64) -> Result<Answer, Error> {
    /// The longest delay in ns: interrupts are off meanwhile.
    const LONGEST: u64 = 1_000_000_000;
    let mut answer = NO_WORDS;
    match operation {
        CHECK_ALL => (answer.0[0], answer.1) = (run(), 1),
        CHECK_DELAY if time <= LONGEST => {
            let cpu = cpu::all().nth(processor as usize).ok_or(Error::Invalid)?;
            cpu.delay.set(time * clock::PARAMETERS.get().0 / clock::NS_PER_S);
        }
        _ => return Err(Error::Invalid),
    }
    Ok(answer)
}

/// A thread is about to change its state: panics if the table at `State` has no such change. Also
/// in the host's tests that have assertions.
pub fn change(thread: &Thread, to: State) {
    use State::*;
    let from = thread.state();
    let may = match to {
        Inactive | Ready => true,
        Receiving => matches!(from, Ready | Sending | Transferring),
        Sending => matches!(from, Ready | Sending | Transferring | Faulted),
        Faulted => matches!(from, Ready | Sending | Transferring | Faulted),
        Preempted => matches!(from, Ready | Sending),
        Transferring => !matches!(from, Inactive | Preempted),
    };
    assert!(may || !(cfg!(debug_assertions) || super::ON), "{:?}: {from:?} to {to:?}", thread.id);
}

/// What an account's tasks have: its words as they should be, and mappings got from others and
/// given to others.
#[derive(Default)]
struct Sum {
    words: [u64; ACCOUNT_POOL_FREE as usize],
    got: u64,
    given: u64,
}

/// Every account, and the pool as a whole.
fn check_memory() {
    let (mut all, mut limits, mut used) = (Sum::default(), 0, POOL.free_pages.get());
    let mut add = |account| {
        check_account(account, &mut all);
        limits += account.limit.get();
        used += account.used.get();
    };
    add(Ref::to(&POOL.root));
    tasks().filter(|task| task.owns_account()).for_each(|task| add(task.account));
    expect!(limits == used, "the limits are {limits} pages, used and free are {used}");
    expect!(POOL.free_pages.get() == free_chain(), "not {} pages are free", POOL.free_pages.get());
    expect!(all.got == all.given, "{} mappings came from others, {} went to others", all.got, all.given);
}

fn check_account(account: Ref<Account>, sum: &mut Sum) {
    sum.words = [0; ACCOUNT_POOL_FREE as usize];
    for task in tasks().filter(|task| task.account == account) {
        sum.words[ACCOUNT_TASKS as usize] += 1;
        check_table(task, task.root_table, sum);
        for thread in lthreads(task) {
            sum.words[ACCOUNT_LTHREADS as usize] += 1;
            sum.words[ACCOUNT_FPUS as usize] += thread.fpu.get().is_some() as u64 + thread.extra.get().is_some() as u64;
        }
    }
    sum.words[ACCOUNT_USED as usize] = pages_of(account);
    for (word, found) in sum.words.iter().enumerate().skip(ACCOUNT_USED as usize) {
        let told = account.word(word as u64);
        // The kernel's own tables are on the first account.
        let fits = told == *found || account == Ref::to(&POOL.root) && word as u64 == ACCOUNT_TABLES && told > *found;
        expect!(fits, "account {:p}: word {word} is {told}, found {found}", account.as_ptr());
    }
}

/// Pages in the pool's chain of free ones.
fn free_chain() -> u64 {
    let next = |page: PoolPage| Some(page).filter(|page| *page != PoolPage::NONE);
    let chain = core::iter::successors(next(POOL.free.get()), |index| next(POOL.page(*index).next.get()));
    let is_clear = |page: &Page| page.parts.get() == 0 && page.groups.iter().all(|group| group.get() == 0);
    // The one that was given back last; to look through all of them takes too long where each call
    // is checked.
    let last = POOL.free.get();
    let is_zero = last == PoolPage::NONE || (0..ENTRIES).all(|slot| POOL.word(last, slot).get() == 0);
    expect!(is_zero || !POOL.page(last).zero.get(), "free page {:#x}: it says that it is all zero", last.raw());
    let clear = chain.take(POOL.count.get() as usize).inspect(|index| {
        expect!(is_clear(POOL.page(*index)), "free page {:#x}: it says that it has nodes or parts", index.raw());
    });
    clear.count() as u64
}

/// Pages of the pool that belong to an account.
fn pages_of(account: Ref<Account>) -> u64 {
    let first = POOL.first.get().raw();
    let pages = (first..first + POOL.count.get()).map(PoolPage::new);
    pages.filter(|index| POOL.page(*index).account.get() == Some(account)).count() as u64
}

/// A table and all below it.
fn check_table(task: Ref<Task>, table: PoolPage, sum: &mut Sum) {
    let page = POOL.page(table);
    let (level, base, top) = (page.level.get(), page.base.get(), table == task.root_table);
    let shared = level == TOP_LEVEL - 1 && base == LAST_SLOT;
    // The table that others lead to, by their top tables.
    let shown = level == TOP_LEVEL - 1 && POOL.word(page.parent.get(), slot(base, TOP_LEVEL)).get() & SHOWN != 0;
    let mut used = (top || shared || shown) as u16;
    sum.words[ACCOUNT_TABLES as usize] += 1;
    for slot in 0..ENTRIES {
        let leaf = Leaf { table, slot, level, entry: POOL.word(table, slot).get() };
        let below = leads_to(leaf.entry);
        let kernels = kernels_entry(if top { Some(false) } else { shared.then_some(true) }, slot);
        if leaf.entry & MAPPED == 0 && level == WINDOWS && leaf.entry != 0 && kernels == 0 {
            used += 1;
            expect!(page.next_filled(slot) == slot, "task {} at {:#x}: looks empty", task.number, leaf.address());
            check_windows(task, leaf, sum);
            continue;
        }
        if leaf.entry & MAPPED == 0 {
            let same = (leaf.entry ^ kernels) & !ACCESSED == 0;
            expect!(
                same || top && is_shown(task, slot, leaf.entry),
                "task {} at {:#x}: not the kernel's entry",
                task.number,
                leaf.address()
            );
            continue;
        }
        let apart = kernels == 0 || top && task.upper && slot == ENTRIES - 1;
        expect!(apart, "task {} at {:#x}: in place of the kernel's entry", task.number, leaf.address());
        used += 1;
        expect!(page.next_filled(slot) == slot, "task {} at {:#x}: looks empty", task.number, leaf.address());
        if level == 0 || leaf.entry & LARGE != 0 {
            check_leaf(task, leaf, sum);
        } else if !POOL.contains(below) || !is_table(POOL.index_of(below), task, &leaf) {
            expect!(false, "task {} at {:#x}: no table of its own", task.number, leaf.address());
        } else {
            check_table(task, POOL.index_of(below), sum);
        }
    }
    for (number, group) in page.groups.iter().map(Cell::get).enumerate().filter(|(_, group)| *group != 0) {
        let owner = owner_of(group).get();
        expect!(owner == table.raw() * GROUPS + number as u32, "task {} table {base:#x}: not its nodes", task.number);
    }
    expect!(used == page.used.get(), "task {} table {base:#x}: {used} entries, not {}", task.number, page.used.get());
}

/// A table for windows: what others have, at their places and nowhere else.
fn check_windows(host: Ref<Task>, above: Leaf, sum: &mut Sum) {
    let table = POOL.index_of(leads_to(above.entry));
    sum.words[ACCOUNT_TABLES as usize] += 1;
    let expect = |holds: bool, at: VirtAddr, what: &str| expect!(holds, "task {} at {at:#x}: {what}", host.number);
    expect(is_table(table, host, &above), above.address(), "no table of windows");
    let windows = || host.members.iter().filter_map(|member| Some((member, member.window.get()?)));
    let here = windows().filter(|(_, window)| window.table == table).count();
    expect(here > 0 && here == POOL.page(table).used.get() as usize, above.address(), "another number of windows");
    for slot in (0..ENTRIES).filter(|slot| POOL.word(table, *slot).get() != 0) {
        let shown = Leaf { table, slot, level: WINDOWS - 1, entry: POOL.word(table, slot).get() };
        let owns = |window: &task::Window| shown.address() - VirtAddr::new(window.reach.base()) < window.reach.size();
        let owner = windows().find(|(_, window)| window.table == table && owns(window));
        expect(owner.is_some(), shown.address(), "shown, and in no window");
        let Some((member, window)) = owner else { continue };
        let at = shown.address() - VirtAddr::new(window.reach.base());
        let own = space::next_leaf(member, VirtAddr::new(at), VirtAddr::new(at + TABLE_SPAN));
        // The processor sets bits in the copy.
        let fits = own.is_some_and(|own| match own.level {
            0 => leads_to(shown.entry) == POOL.physical(own.table),
            _ => {
                (shown.entry ^ own.entry) & !(ADDRESS | MAPPED | ACCESSED | DIRTY) == 0
                    && leads_to(shown.entry).raw() == leads_to(own.entry).raw() + (VirtAddr::new(at) - own.address())
            }
        });
        expect(fits, shown.address(), "shown, and not what the window's task has");
    }
}

/// Whether an entry of a top table shows the upper half of another task.
fn is_shown(task: Ref<Task>, slot: usize, entry: u64) -> bool {
    task.shown_half().filter(|other| *other != task).is_some_and(|server| {
        let other = POOL.word(server.root_table, slot).get();
        other & SHOWN != 0 && leads_to(other).raw() | space::shown_bits(server) == entry & !ACCESSED
    })
}

/// What the kernel has at a slot of a top table (`Some(false)`), of the table below its last slot
/// (`Some(true)`), or of any other, 0.
fn kernels_entry(table: Option<bool>, slot: usize) -> u64 {
    // Sigma0 has nothing of its own in the upper half.
    let shown = |slot| task::at(TaskNumber::SIGMA0).map_or(0, |sigma0| POOL.word(sigma0.root_table, slot).get());
    match table {
        Some(false) if UPPER_SLOTS.contains(&slot) => shown(slot),
        Some(true) => POOL.word(POOL.index_of(leads_to(shown(ENTRIES - 1))), slot).get(),
        _ => 0,
    }
}

/// Whether a page is the table below an entry, and knows that.
fn is_table(table: PoolPage, task: Ref<Task>, above: &Leaf) -> bool {
    let page = POOL.page(table);
    let place = (page.level.get() + 1, page.base.get(), page.parent.get());
    page.task.get() == Some(task) && place == (above.level, above.address(), above.table)
}

/// A leaf entry, its node, and the node's place in the tree.
fn check_leaf(task: Ref<Task>, leaf: Leaf, sum: &mut Sum) {
    let (node, physical) = (leaf.node(), leads_to(leaf.entry));
    let expect = |holds: bool, what: &str| expect!(holds, "task {} at {:#x}: {what}", task.number, leaf.address());
    if leaf.entry & KERNEL_OBJECT != 0 {
        sum.words[ACCOUNT_FRAMES as usize] += POOL.contains(physical) as u64;
        expect(
            !node.is_some() && (POOL.contains(physical) || physical == image_physical(&raw const kip::INFO.0)),
            "no kernel object",
        );
        return;
    }
    let place = Range::new(leaf.address().raw(), (leaf.address() + span(leaf.level)).raw());
    let allowed = space::memory(task, leaf.address()).is_some_and(|memory| memory.contains(place));
    expect(allowed, "no memory may be there");
    expect((leaf.entry ^ task.page_bits) & PAGE_KIND == 0, "another privilege than its task");
    expect(physical_page(physical, span_shift(leaf.level)) == Some(leaf.level), "forbidden memory");
    sum.words[ACCOUNT_NODES as usize] += node.is_some() as u64;
    if node.raw() < GROUP as u32 || Leaf::of(node) != leaf {
        expect(false, "no node of its own");
        return;
    }
    let parent = Nodes.parent(node);
    if parent.is_some() {
        sum.got += 1;
        let from = Leaf::of(parent);
        let inside = physical - leads_to(from.entry) < span(from.level) && from.level >= leaf.level;
        expect(from.node() == parent && from.entry & PRESENT != 0 && inside, "it came from where it is not mapped");
        expect(bits_rights(leaf.entry) & !bits_rights(from.entry) == 0, "more rights than where it came from");
    }
    let (mut child, mut before, mut children) = (Nodes.first_child(node), NodeIndex::NONE, 0);
    while child.is_some() {
        if (Nodes.parent(child), previous_sibling(child), Leaf::of(child).node()) != (node, before, child) {
            // The chain may be a circle.
            expect(false, "what came from it does not say so");
            break;
        }
        children += 1;
        (before, child) = (child, Nodes.next_sibling(child));
    }
    sum.given += children as u64;
    expect(Nodes.children(node) == children, "another number of mappings came from it");
}

/// The mapping before one that came from the same one; none for the first.
fn previous_sibling(node: NodeIndex) -> NodeIndex {
    Some(Nodes.node(node).prev.get()).filter(|prev| prev & FIRST == 0).map_or(NodeIndex::NONE, NodeIndex::new)
}

/// Whether a timeout may end what a thread waits for. An answered fault of a transfer keeps its own
/// until its thread resumes the transfer.
fn may_end(thread: Ref<Thread>) -> bool {
    let flags = thread.frame().orig_ax.get();
    let never = |shift: u64| flags >> shift & IPC_TIMEOUT_MASK == TIMEOUT_NEVER;
    match thread.state() {
        _ if thread.has(Flags::TRANSFER) => true,
        State::Sending => !thread.has(Flags::KERNEL_MESSAGE) && !never(IPC_SEND_TIMEOUT_SHIFT),
        State::Receiving => !never(IPC_RECEIVE_TIMEOUT_SHIFT),
        _ => false,
    }
}

/// Every thread: where its state says that it is found, and what its flags say.
fn check_threads() {
    let (mut waiting, mut waiters) = (0, 0);
    for thread in threads() {
        let (state, home, partner) = (thread.state(), cpu::of(thread), thread::find(thread.partner.get()));
        let expect = |holds: bool, what: &str| expect!(holds, "{:?} {state:?}: {what}", thread.id);
        let (runs, next) = (home.current.get() == Some(thread), home.handoff.get() == Some(thread));
        let places = [thread.has(Flags::QUEUED), next, runs && state == State::Ready];
        let found = places.into_iter().filter(|found| *found).count();
        expect(found == (state == State::Ready) as usize, "no processor finds it just once");
        let sends = partner.is_some_and(|partner| partner.senders.iter().any(|sender| sender == thread));
        expect((state == State::Sending) == sends, "it is not among its partner's senders, or should not be");
        let answered = matches!(state, State::Faulted | State::Preempted);
        expect(!answered || partner.is_some(), "its pager, handler or preempter does not exist");
        let (due, heap) = (&thread.deadline, home.deadlines.earliest());
        expect(!due.is_armed() || may_end(thread) && due.time() >= heap, "its timeout is lost, or for nothing");
        let kernels = thread.has(Flags::KERNEL_MESSAGE);
        expect(!kernels || state == State::Sending, "the kernel sends for it, and it does not wait for that");
        // The fast paths leave to it by SYSRET.
        let fast = state == State::Receiving && !thread.has(Flags::ALIEN.union(Flags::BAD_IP));
        expect(
            !fast || thread.frame().ip.get() == canonical(thread.frame().ip.get()),
            "its ip is not canonical, and no flag says so",
        );
        let closed = state == State::Receiving && !thread.open.get() || answered;
        waiting += (closed && partner.is_some()) as u32;
        waiters += thread.waiters.get();
        let said = [Flags::ALIEN, Flags::TIMED, Flags::FPU, Flags::DEBUG_TLS, Flags::HAS_PREEMPTER]
            .map(|flag| thread.has(flag));
        let (fpu, extra) = (thread.fpu.get().is_some(), thread.extra.get().is_some());
        let watched = thread.preempter.get() != Id::NIL;
        let nothing = thread.notify.get() == 0 && thread.pending.is_empty() && thread.senders.is_empty();
        expect(nothing || thread.maybe_pending.get(), "something waits for it, and it does not expect anything");
        expect(said == [thread.utcb().is_none(), due.is_armed(), fpu, extra, watched], "its flags say what is not so");
        expect(thread::find(thread.id) == Some(thread), "its id does not lead to it");
    }
    expect!(waiting == waiters, "{waiting} threads wait for another one, {waiters} are counted");
}

/// Every processor: its queue, and whom its fast paths know.
fn check_processors() {
    let mut queued = threads().filter(|thread| thread.has(Flags::QUEUED)).count();
    for cpu in cpu::all() {
        each_queued(cpu, |thread, priority| {
            queued = queued.wrapping_sub(1);
            let place = (thread.state(), thread.cpu.get(), thread.priority.get(), thread.has(Flags::QUEUED));
            let fits = place == (State::Ready, cpu.index, priority, true) && cpu.queue.top() >= Some(priority);
            expect!(fits, "{:?} is in a queue of processor {} that is not its own", thread.id, cpu.index);
        });
        for (id, known) in
            cpu.lookup_cache.ids.iter().zip(&cpu.lookup_cache.threads).filter(|(_, known)| known.get().is_some())
        {
            let fits = thread::find(id.get()) == known.get();
            expect!(fits, "processor {} knows somebody else as {:?}", cpu.index, id.get());
        }
    }
    expect!(queued == 0, "{queued} threads are in no queue");
}
