// SPDX-License-Identifier: GPL-2.0-only
//! Address spaces: page tables, and map, grant and unmap through the mapping database.
//!
//! Each page table knows its task, its base address and the table above it (pool::Page), and where
//! the mapping nodes of its entries lie: in groups of 64, each made when the first of its entries
//! is mapped and given back with the table. What lies where the node of an absent entry would be
//! means nothing. Entries marked KERNEL_OBJECT (KIP, UTCBs, frames) have no node and
//! no user operation touches them. Empty tables are given back at once.
//!
//! Addresses are numbers here (`fpage::number`). In the upper half lies the kernel too. Whatever a
//! user asks for, none of its entries is followed, changed, freed or reported, by two rules: they
//! lack the bit USER, without which the walks here take an entry for empty; and nothing is mapped
//! where none of the ranges `MEMORY` is.

use crate::arch::{cpu, direct, direct_physical, paging::*};
use crate::{base::abi::*, base::*, mm::mapdb::*, object::*, percpu::preempt::poll};

/// Why an operation on a space did not end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// It failed.
    Failed(Error),
    /// A thread of higher priority is ready: restart the system call. Long ones go on where they
    /// were.
    Restart,
}

/// How an operation that may have to restart ends.
pub type Done = Result<(), Stop>;

impl Stop {
    /// Stops if a condition is true, as `Error::when` does.
    pub fn when(self, condition: bool) -> Done {
        if condition {
            return Err(self);
        }
        Ok(())
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Stop::Failed(error)
    }
}

/// What a page takes at most, in tens of instructions.
pub const PAGE_COST: u32 = 40;
/// Costs of a step in a tree of mappings: a look at a mapping, and hanging it under another one.
const LEVEL_COST: u32 = 3;
const LOOK_COST: u32 = 6;
const HOIST_COST: u32 = 5;
/// Cost of a range in which nothing is.
const RANGE_COST: u32 = 10;
/// What may be spent between two looks for interrupts: bounds how long they stay off.
const PREEMPTION_POINT_COST: u32 = 6 * PAGE_COST;
/// Mappings that are hung under another one in one piece.
const FEW: u32 = 128;
/// Empty slots that are looked at before another look for interrupts.
const SCAN: usize = 32;

/// Entries whose nodes lie together, and groups of them in a table, and in a page of nodes.
pub(crate) const GROUP: usize = 64;
pub(crate) const GROUPS: u32 = (ENTRIES / GROUP) as u32;
const GROUPS_IN_PAGE: u32 = (pool::PAGE / (GROUP * size_of::<Node>())) as u32;
/// Where a space ends.
const SPACE_END: VirtAddr = VirtAddr::new(1 << SPACE_SHIFT);
/// Where memory can be mapped: in the lower half, and in the upper one of tasks with
/// TASK_UPPER_HALF.
const MEMORY: [Range; 3] = [
    Range::new(0, USER_END),
    Range::new(number(UPPER_START), number(UPPER_END)),
    Range::new(number(UPPER_LAST), (1 << SPACE_SHIFT) - PAGE_SIZE),
];
/// Nodes are named by their physical address in units of their size, groups of them in units of
/// theirs.
const NODE_SIZE: u64 = size_of::<Node>() as u64;

/// Mapping nodes lie in the pool.
pub(crate) struct Nodes;

impl Store for Nodes {
    #[inline(always)]
    fn node(&self, index: NodeIndex) -> &Node {
        // SAFETY: indices come from `node_of`, and leave all trees before the group is given back.
        unsafe { &*direct(PhysAddr::new(index.raw() as u64 * NODE_SIZE)).cast::<Node>() }
    }
}

/// A leaf entry and where it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Leaf {
    pub(crate) table: PoolPage,
    pub(crate) slot: usize,
    pub(crate) level: u8,
    pub(crate) entry: u64,
}

impl Leaf {
    pub(crate) fn cell(&self) -> &'static Cell<u64> {
        POOL.word(self.table, self.slot)
    }

    /// None for an object of the kernel's.
    pub(crate) fn node(&self) -> NodeIndex {
        if self.entry & KERNEL_OBJECT != 0 {
            return NodeIndex::NONE;
        }
        node_of(self.table, self.slot)
    }

    pub(crate) fn address(&self) -> VirtAddr {
        POOL.page(self.table).base.get() + self.slot as u64 * span(self.level)
    }

    /// Where a byte that it maps lies.
    pub(crate) fn physical(&self, address: VirtAddr) -> PhysAddr {
        leads_to(self.entry) + address.offset_in(span(self.level))
    }

    /// The entry that a node stands for.
    pub(crate) fn of(node: NodeIndex) -> Leaf {
        let (group, place) = in_group(node);
        let owner = owner_of(group).get();
        let (table, slot) = (PoolPage::new(owner / GROUPS), (owner % GROUPS) as usize * GROUP + place);
        Leaf { table, slot, level: POOL.page(table).level.get(), entry: POOL.word(table, slot).get() }
    }

    /// Top table of its space, as in `Task::space`.
    fn root(&self) -> PhysAddr {
        POOL.page(self.table).task.get().map_or(PhysAddr::NONE, |task| task.space.get())
    }

    /// The leaf as it stays until the locks are given back: no other processor uses the space, and
    /// sets bits.
    fn settled(self) -> Leaf {
        shoot_down(self.root());
        Leaf { entry: self.cell().get(), ..self }
    }

    /// Changes the entry while no other processor uses the space, and drops what this one holds of
    /// it; the entry before.
    fn change(&self, to: impl Fn(u64) -> u64) -> u64 {
        let root = self.root();
        shoot_down(root);
        let old = self.cell().get();
        self.cell().set(to(old));
        match held(root, self.level) {
            Held::Nothing if root.raw() & WINDOWED != 0 => flush_windowed(root, self.level, self.address()),
            held => held.flush(VirtAddr::new(canonical(self.address().raw()))),
        }
        old
    }
}

/// The group of a node, and its place there.
fn in_group(node: NodeIndex) -> (u32, usize) {
    (node.raw() / GROUP as u32, node.raw() as usize % GROUP)
}

/// The node of an entry in a group that has nodes.
pub(crate) fn node_of(table: PoolPage, slot: usize) -> NodeIndex {
    NodeIndex::new(POOL.page(table).groups[slot / GROUP].get() * GROUP as u32).behind(slot % GROUP)
}

/// Whose nodes a group in the pool has: the table's number times `GROUPS`, and the group's number
/// in it.
pub(crate) fn owner_of(group: u32) -> &'static Cell<u32> {
    &POOL.page(PoolPage::new(group / GROUPS_IN_PAGE)).groups[(group % GROUPS_IN_PAGE) as usize]
}

/// Sees to it that there is a place for the node of an entry.
fn with_nodes(table: PoolPage, slot: usize) -> Result<(), Error> {
    match POOL.page(table).groups[slot / GROUP].get() {
        0 => new_nodes(table, slot / GROUP),
        _ => Ok(()),
    }
}

#[cold]
fn new_nodes(table: PoolPage, number: usize) -> Result<(), Error> {
    let account = POOL.page(table).account.get().ok_or(Error::Invalid)?;
    let memory = POOL.take(account, GROUP * size_of::<Node>(), Kind::Part)?;
    let group = (direct_physical(memory).raw() / (GROUP as u64 * NODE_SIZE)) as u32;
    POOL.page(table).groups[number].set(group);
    owner_of(group).set(table.raw() * GROUPS + number as u32);
    Ok(())
}

/// A table for entries of `level` from address `base` on, below another one (or none).
pub(super) fn new_table(account: Ref<Account>, level: u8, base: VirtAddr, above: PoolPage) -> Result<PoolPage, Error> {
    let table = POOL.take_zeroed(account, Kind::Table)?;
    let page = POOL.page(table);
    page.task.set(POOL.page(above).task.get());
    page.level.set(level);
    page.base.set(base);
    page.parent.set(above);
    Ok(table)
}

/// A top table with the kernel's entries, the upper half of a supervisor task that the space is to
/// show, and nothing else.
pub fn new_root(account: Ref<Account>, half: Option<Ref<Task>>) -> Result<PoolPage, Error> {
    let table = new_table(account, TOP_LEVEL, VirtAddr::new(0), POOL.first.get())?;
    // SAFETY: fresh and zero.
    unsafe { copy_kernel_half(POOL.address(table).cast()) };
    if let Some(server) = half {
        let mut slot = POOL.page(server.root_table).next_filled(UPPER_SLOTS.start);
        while slot < ENTRIES - 1 {
            show(server, table, slot);
            slot = POOL.page(server.root_table).next_filled(slot + 1);
        }
        // Every task with memory in the upper half has a table there.
        show(server, table, ENTRIES - 1);
    }
    // The top table is never given back as empty.
    POOL.page(table).used.set(1);
    Ok(table)
}

/// The first address below the last slot of a top table.
pub const LAST_SLOT: VirtAddr = VirtAddr::new((ENTRIES as u64 - 1) * span(TOP_LEVEL));

/// Gives a task a table of its own below the last slot of its top table, as long as the task lives:
/// with the entry of the kernel's image, and room for the task's memory.
pub fn share_last_slot(task: Ref<Task>) -> Result<(), Error> {
    let (root, last) = (POOL.page(task.root_table), POOL.word(task.root_table, ENTRIES - 1));
    poll();
    let table = new_table(task.account, TOP_LEVEL - 1, LAST_SLOT, task.root_table)?;
    POOL.word(table, IMAGE_SLOT).set(POOL.word(POOL.index_of(leads_to(last.get())), IMAGE_SLOT).get());
    // As the top table it is never given back as empty.
    POOL.page(table).used.set(1);
    last.set(POOL.physical(table).raw() | TASK_TABLE | SHOWN);
    root.count_entries(1);
    root.fill(ENTRIES - 1, 1);
    Ok(())
}

/// Shows a slot of a task's upper half in the top table `root` of a task of its clan, if it has a
/// table there. No walk reaches it, and user mode only a task's that runs in user mode itself. That
/// table now stays as long as the task. False if it was shown already, or there is nothing to show.
fn show(server: Ref<Task>, root: PoolPage, slot: usize) -> bool {
    let (cell, shown) = (POOL.word(server.root_table, slot), POOL.word(root, slot));
    let entry = cell.get();
    if entry & MAPPED == 0 || leads_to(entry) == leads_to(shown.get()) {
        return false;
    }
    if entry & SHOWN == 0 {
        POOL.page(POOL.index_of(leads_to(entry))).count_entries(1);
        cell.set(entry | SHOWN);
    }
    debug_assert!(shown.get() & MAPPED == 0);
    shown.set(leads_to(entry).raw() | shown_bits(server));
    true
}

/// The bits of such an entry.
pub fn shown_bits(server: Ref<Task>) -> u64 {
    PRESENT | WRITE | if server.supervisor { 0 } else { USER }
}

/// The tables of a supervisor task's upper half go with it, but the last slot's.
#[cold]
fn end_showing(server: Ref<Task>) {
    let entries = (UPPER_SLOTS.start..ENTRIES - 1).map(|slot| POOL.word(server.root_table, slot).get());
    for table in entries.filter(|entry| entry & SHOWN != 0).map(|entry| POOL.index_of(leads_to(entry))) {
        POOL.page(table).count_entries(-1);
        drop_if_empty(table);
    }
}

/// A thread of a supervisor task met a hole at an address of its upper half. False if its own space
/// has the same one; otherwise the present space has what it lacked.
pub fn show_in_present(server: Ref<Task>, address: VirtAddr) -> bool {
    let (slot, root) = (slot(address, TOP_LEVEL), root_loaded(cpu::cpu()));
    UPPER_SLOTS.contains(&slot) && show(server, POOL.index_of(root), slot)
}

/// The first range from an address on in which a task may have memory. One whose upper half other
/// spaces show has none in the lower half, which they do not.
pub fn memory(task: Ref<Task>, address: VirtAddr) -> Option<&'static Range> {
    let (first, end) = (task.is_shown() as usize, if task.upper { MEMORY.len() } else { 1 });
    MEMORY[first..end].iter().find(|memory| address.raw() < memory.end)
}

/// Where the walk for an address ended: the lowest table, and the level of its entries.
pub(super) type Hole = (PoolPage, u8);

/// Walks the tables for an address, down to level `stop`. Most walks begin where the last one
/// ended.
#[inline(always)]
pub(super) fn walk(task: Ref<Task>, address: VirtAddr, stop: u8) -> Hole {
    let last = task.last_tables[0].get();
    if stop == 0 && POOL.page(last).base.get() == address.align_down(span(1)) {
        return (last, 0);
    }
    walk_down(task, address, stop)
}

#[inline(never)]
fn walk_down(task: Ref<Task>, address: VirtAddr, stop: u8) -> Hole {
    let (mut table, mut level) = (task.root_table, TOP_LEVEL);
    let upper = task.last_tables[1].get();
    if stop <= 1 && POOL.page(upper).base.get() == address.align_down(span(2)) {
        if POOL.word(upper, slot(address, 1)).get() & (PRESENT | LARGE) != PRESENT {
            return (upper, 1);
        }
        (table, level) = (upper, 1);
    }
    for below in (stop..level).rev() {
        let entry = POOL.word(table, slot(address, below + 1)).get();
        if entry & (MAPPED | LARGE) != MAPPED {
            break;
        }
        (table, level) = (POOL.index_of(leads_to(entry)), below);
    }
    if let Some(last) = task.last_tables.get(level as usize) {
        last.set(table);
    }
    (table, level)
}

/// The leaf entry at an address, or the level of the entry that is empty there.
pub(crate) fn find(task: Ref<Task>, address: VirtAddr) -> Result<Leaf, u8> {
    let (table, level) = walk(task, address, 0);
    let slot = slot(address, level);
    let leaf = Leaf { table, slot, level, entry: POOL.word(table, slot).get() };
    Some(leaf).filter(|leaf| leaf.entry & MAPPED != 0).ok_or(level)
}

/// The first leaf entry that reaches beyond `at`, if one begins before `end`. Interrupts are let in
/// on the way.
pub fn next_leaf(task: Ref<Task>, mut at: VirtAddr, end: VirtAddr) -> Option<Leaf> {
    while at < end {
        let (table, level) = walk(task, at, 0);
        let mut number = slot(at, level);
        let entry = POOL.word(table, number).get();
        if entry & MAPPED != 0 {
            return Some(Leaf { table, slot: number, level, entry });
        }
        poll();
        number = POOL.page(table).next_filled(number);
        let slots = ENTRIES.min(number + SCAN);
        while number < slots && POOL.word(table, number).get() & MAPPED == 0 {
            number += 1;
        }
        at = at.align_down(span(level + 1)) + number as u64 * span(level);
    }
    None
}

/// Where a user's byte lies, at an address in the processor's form, that the kernel reads or writes
/// in the user's name; the entry shows that as if the user had. `Err`: it may not, and whether
/// something is mapped there.
pub fn access(task: Ref<Task>, address: VirtAddr, write: bool) -> Result<PhysAddr, bool> {
    let leaf = find(task, VirtAddr::new(number(address.raw()))).map_err(|_| false)?;
    if write && leaf.entry & WRITE == 0 {
        return Err(true);
    }
    let used = if write { ACCESSED | DIRTY } else { ACCESSED };
    if leaf.entry & used != used {
        // Nothing of it need be dropped: a processor sets the bits again if it does not know them.
        let leaf = leaf.settled();
        leaf.cell().set(leaf.entry | used);
    }
    Ok(leaf.physical(address))
}

/// The table for entries of `level` at an address, made if need be. Fails with Busy where a larger
/// page is mapped.
pub(super) fn table_for(task: Ref<Task>, hole: Hole, address: VirtAddr, level: u8) -> Result<PoolPage, Error> {
    let (mut table, mut at) = hole;
    while at > level {
        let cell = POOL.word(table, slot(address, at));
        Error::Busy.when(cell.get() & PRESENT != 0)?;
        poll();
        let below = new_table(task.account, at - 1, address.align_down(span(at)), table);
        let below = below.inspect_err(|_| drop_if_empty(table))?;
        POOL.page(table).count_entries(1);
        POOL.page(table).fill(slot(address, at), 1);
        cell.set(POOL.physical(below).raw() | TASK_TABLE);
        (table, at) = (below, at - 1);
    }
    Ok(table)
}

/// Gives back a table without entries, and those above it that became empty by that.
pub(super) fn drop_if_empty(mut table: PoolPage) {
    while POOL.page(table).used.get() == 0 {
        poll();
        let page = POOL.page(table);
        let (above, level) = (page.parent.get(), page.level.get() + 1);
        // The processor may cache the entry above: invlpg drops that as well.
        Leaf { table: above, slot: slot(page.base.get(), level), level, entry: 0 }.change(|_| 0);
        free_table(table);
        POOL.page(above).count_entries(-1);
        table = above;
    }
}

fn free_table(table: PoolPage) {
    if let Some(task) = POOL.page(table).task.get() {
        task.last_tables.iter().for_each(|last| last.set(POOL.first.get()));
    }
    POOL.page(table).parts.set(0);
    for group in POOL.page(table).groups.iter().filter(|group| group.get() != 0).map(Cell::take) {
        owner_of(group).set(0);
        // SAFETY: the table is going, and its nodes are in no tree.
        unsafe { POOL.give(direct(PhysAddr::new(group as u64 * GROUP as u64 * NODE_SIZE)), Kind::Part) };
    }
    // A table goes when its last entry has gone; the top table keeps the kernel's half.
    POOL.page(table).zero.set(POOL.page(table).level.get() < TOP_LEVEL);
    // SAFETY: no table leads to it any more, and no processor.
    unsafe { POOL.free_page(table, Kind::Table) };
}

/// Writes a leaf whose node has a place, under `parent` (none: a root).
fn put(leaf: Leaf, parent: NodeIndex) {
    Nodes.plant(node_of(leaf.table, leaf.slot), parent);
    POOL.page(leaf.table).fill(leaf.slot, 1);
    leaf.cell().set(leaf.entry);
}

/// Enters a leaf whose slot is empty, with a node under `parent` (none: a root). `hole` is where a
/// walk for it ends.
fn enter(task: Ref<Task>, hole: Hole, at: VirtAddr, level: u8, entry: u64, parent: NodeIndex) -> Result<Leaf, Error> {
    let table = table_for(task, hole, at, level)?;
    let leaf = Leaf { table, slot: slot(at, level), level, entry };
    with_nodes(table, leaf.slot).inspect_err(|_| drop_if_empty(table))?;
    put(leaf, parent);
    POOL.page(table).count_mappings(1);
    Ok(leaf)
}

/// Takes one leaf away from whose node nothing comes: the state that it had.
fn remove(leaf: Leaf) -> u64 {
    let state = leaf.change(|_| 0) & (ACCESSED | DIRTY);
    Nodes.detach(node_of(leaf.table, leaf.slot));
    POOL.page(leaf.table).count_mappings(-1);
    drop_if_empty(leaf.table);
    state
}

/// Takes away all that came from `node`, and with `itself` the mapping too. A mapping from which
/// few others came goes before them: they hang under the one above it from then on. So the way down
/// from `node`, which is gone again after `Restart`, is short in any tree.
fn revoke(node: NodeIndex, itself: bool, work: &mut Work) -> Done {
    let mut above = node;
    while Nodes.children(node) > 0 {
        let at = Nodes.first_child(above);
        if at == NodeIndex::NONE {
            above = Nodes.parent(above);
        } else if Nodes.children(at) > FEW {
            above = at;
            work.climb_step();
        } else {
            Nodes.hoist(at, || work.charge_budget(HOIST_COST));
            work.found(remove(Leaf::of(at)));
            work.step(PAGE_COST)?;
        }
    }
    if itself {
        work.found(remove(Leaf::of(node)));
    }
    Ok(())
}

/// What no more rights than these leave of an entry's bits, and what they add.
fn limits(rights: u64) -> (u64, u64) {
    let bits = rights_bits(rights);
    (!WRITE | bits, bits & NO_EXECUTE)
}

/// An entry with no more rights than `keep`.
fn reduced(entry: u64, keep: u64) -> u64 {
    let (left, added) = limits(keep);
    entry & left | added
}

/// What a mapping has of the entry that it comes from; `bits` are those of the task's pages.
fn mapped(entry: u64, (left, added): (u64, u64), bits: u64) -> u64 {
    entry & !(ACCESSED | DIRTY | LARGE | PAGE_KIND) & left | added | bits
}

/// Small pages that are mapped, taken away or reduced in one step; what it takes beyond a step to
/// take them away, and to reduce them; beyond that where those that go lie in another group than
/// the one before, and where the task has a window.
const ROW: usize = 1 << (ROW_LOG2 - PAGE_SHIFT as u8);
/// Log2 of their size.
pub const ROW_LOG2: u8 = 16;
const ROW_COST: u32 = 4 * PAGE_COST;
const REDUCE_COST: u32 = PAGE_COST;
const GROUP_COST: u32 = 12;
const WINDOW_COST: u32 = 16;

/// Reduces the rights of small pages that lie one after the other in a table, from `leaf` on, and
/// that nobody got from there: where they end, at most a row further and not beyond `end`. Without
/// the row a fork() takes three times as long.
fn reduce_row(leaf: Leaf, end: VirtAddr, keep: u64, work: &mut Work) -> VirtAddr {
    let (root, mut at) = (leaf.root(), VirtAddr::new(canonical(leaf.address().raw())));
    // The entries stay as they are: nobody else uses the space until the locks are given back.
    shoot_down(root);
    let (cells, nodes) = row(leaf.table, leaf.slot, (end - leaf.address()) / PAGE_SIZE);
    let held = held_of_pages(root, cells.len());
    for (cell, node) in cells.iter().zip(nodes) {
        let entry = cell.get();
        if entry & PRESENT == 0 || Nodes.first_child(node).is_some() {
            break;
        }
        work.state |= entry & (ACCESSED | DIRTY);
        if reduced(entry, keep) != entry {
            cell.set(reduced(entry, keep));
            held.flush(at);
        }
        at = at + PAGE_SIZE;
    }
    work.charge_budget(REDUCE_COST);
    drop_if_windowed(root, work);
    VirtAddr::new(number(at.raw()))
}

/// Drops all translations of a task with a window, after small pages of it have changed, for which
/// `held_of_pages` says nothing.
fn drop_if_windowed(root: PhysAddr, work: &mut Work) {
    if root.raw() & WINDOWED != 0 {
        drop_windowed(root);
        work.charge_budget(WINDOW_COST);
    }
}

/// Entries of small pages that lie one after the other in a table, from a slot on, at most so many,
/// and their nodes. A table that has one user mapping has no kernel objects.
#[inline(always)]
fn row(table: PoolPage, slot: usize, most: u64) -> (&'static [Cell<u64>], impl Iterator<Item = NodeIndex>) {
    let count = (most as usize).min(ROW).min(GROUP - slot % GROUP);
    let first = node_of(table, slot);
    let nodes = (0..count).map(move |number| first.behind(number));
    // SAFETY: they are in one group of a table.
    (unsafe { core::slice::from_raw_parts(POOL.word(table, slot), count) }, nodes)
}

/// Small pages of one group that go, all at once.
struct Leaving {
    table: PoolPage,
    /// Top table of the space, as in `Task::space`.
    root: PhysAddr,
    /// The group's first node, its entries, and the first one's address in the processor's form.
    first: NodeIndex,
    cells: &'static [Cell<u64>; GROUP],
    base: VirtAddr,
    held: Held,
}

impl Leaving {
    /// Those of a node's group. Nobody else uses the space until the locks are given back.
    #[inline(never)]
    fn with(node: NodeIndex, pages: usize) -> Leaving {
        let first = NodeIndex::new(in_group(node).0 * GROUP as u32);
        let leaf = Leaf::of(first);
        let (root, base) = (leaf.root(), VirtAddr::new(canonical(leaf.address().raw())));
        shoot_down(root);
        // SAFETY: a group's entries lie one after the other in their table.
        let cells = unsafe { &*core::ptr::from_ref(leaf.cell()).cast() };
        Leaving { table: leaf.table, root, first, cells, base, held: held_of_pages(root, pages) }
    }

    /// The place of a node in the group, if it is there.
    #[inline(always)]
    fn place(&self, node: NodeIndex) -> Option<usize> {
        Some((node.raw() ^ self.first.raw()) as usize).filter(|place| *place < GROUP)
    }

    /// Takes a page of the group away whose node is in no tree any more; its state.
    #[inline(always)]
    fn take(&self, place: usize) -> u64 {
        let entry = self.cells[place].replace(0);
        self.held.flush(self.base + place as u64 * PAGE_SIZE);
        entry
    }

    /// That is all: so many have gone.
    #[inline(never)]
    fn end(&self, gone: i16, work: &mut Work) {
        drop_if_windowed(self.root, work);
        POOL.page(self.table).count_mappings(-gone);
        drop_if_empty(self.table);
    }
}

/// Takes away what came from small pages that lie one after the other in a table, from `leaf` on,
/// or with `ITSELF` those pages; as long as nobody got a page any further, and only one each. Where
/// it ends: at most a row further, and not beyond `end`.
#[inline(never)]
fn take_row<const ITSELF: bool>(leaf: Leaf, end: VirtAddr, work: &mut Work) -> VirtAddr {
    let (start, mut pages, mut state) = (leaf.address(), 0, 0);
    let (mut all, mut gone) = (None::<Leaving>, 0);
    let (cells, nodes) = row(leaf.table, leaf.slot, (end - start) / PAGE_SIZE);
    for (cell, node) in cells.iter().zip(nodes) {
        let child = if cell.get() & PRESENT != 0 { Nodes.first_child(node) } else { NodeIndex::NONE };
        if child.is_some() && (ITSELF || Nodes.children(node) > 1 || Nodes.first_child(child).is_some()) {
            break;
        }
        let goes = if ITSELF { node } else { child };
        if goes.is_some() && cell.get() & PRESENT != 0 {
            let (leaving, place) = match all.as_ref().and_then(|leaving| Some((leaving.place(goes)?, leaving))) {
                Some((place, leaving)) => (leaving, place),
                None => {
                    // Not `if let`, with which the compiler's code for each page is longer.
                    all.iter().for_each(|leaving| leaving.end(gone, work));
                    gone = 0;
                    work.charge_budget(GROUP_COST + cpu::count());
                    (&*all.insert(Leaving::with(goes, cells.len())), in_group(goes).1)
                }
            };
            state |= leaving.take(place);
            gone += 1;
            match ITSELF {
                true => Nodes.detach(node),
                false => Nodes.drop_only(node),
            }
        }
        pages += 1;
    }
    if let Some(leaving) = all {
        leaving.end(gone, work);
        work.found(state & (ACCESSED | DIRTY));
        work.charge_budget(ROW_COST);
    }
    start + pages * PAGE_SIZE
}

/// Reduces the rights of all that came from `node`, and with `itself` of the mapping too.
fn reduce(node: NodeIndex, itself: bool, keep: u64, work: &mut Work) -> Done {
    let mut at = if itself { node } else { Nodes.next_in_subtree(node, node, || ()) };
    while at.is_some() {
        let leaf = Leaf::of(at);
        let mut cost = LOOK_COST;
        if reduced(leaf.entry, keep) != leaf.entry {
            work.found(leaf.change(|entry| reduced(entry, keep)) & (ACCESSED | DIRTY));
            cost = PAGE_COST;
        }
        work.state |= leaf.entry & (ACCESSED | DIRTY);
        work.step(cost)?;
        at = Nodes.next_in_subtree(at, node, || work.climb_step());
    }
    Ok(())
}

/// Progress of a long operation: what it found, and when it last looked for interrupts.
///
/// The operation has places: `arrive` tells that it is at the next one. After `Restart` it resumes
/// at the place where it was, and repeats what it did there that leaves no trace. So that all
/// repetitions take no more time than the work itself, `step` says `Restart` only if at least half
/// of what was done at the place is done for good.
#[derive(Default)]
pub struct Work {
    /// ACCESSED and DIRTY of entries; LARGE: one that should have been cut was changed as a whole.
    state: u64,
    /// Since the last look for interrupts.
    spent: u32,
    /// Such a look found that somebody waits for us.
    wanted: bool,
    /// What this place has cost, as far as it was counted at such looks, less twice what is done
    /// for good.
    owed: i64,
}

/// The state in what `Work::keep` makes; above it are the place's page number and the number of its
/// range.
const STATE: u64 = ACCESSED | DIRTY | LARGE;

impl Work {
    /// Notes that an entry with these bits changed.
    pub(crate) fn found(&mut self, bits: u64) {
        self.state |= bits;
        self.owed -= 2 * PAGE_COST as i64;
    }

    /// What was found, and the place (the range's number and a page's address), to be kept when the
    /// operation has to restart.
    pub fn keep(&self, range: usize, page: u64) -> u64 {
        (range as u64) << SPACE_SHIFT | page & !(PAGE_SIZE - 1) | self.state
    }

    /// Takes up what `keep` has kept: the work, the range's number and the address. All of it is 0
    /// where that was nothing.
    pub fn resume(kept: u64) -> (Work, usize, u64) {
        let page = kept & ((1 << SPACE_SHIFT) - 1) & !(PAGE_SIZE - 1);
        (Work { state: kept & STATE, ..Work::default() }, (kept >> SPACE_SHIFT) as usize, page)
    }

    /// The UNMAP_* state found.
    pub fn state(&self) -> u64 {
        let told = |bit, state| if self.state & bit != 0 { state } else { 0 };
        told(ACCESSED, UNMAP_REFERENCED) | told(DIRTY, UNMAP_DIRTY) | told(LARGE, UNMAP_WHOLE)
    }

    /// Begins with the next range; now and then lets interrupts in.
    pub(crate) fn begin_range(&mut self) {
        self.charge_budget(RANGE_COST);
    }

    /// Goes to the next place; now and then lets interrupts in.
    pub(crate) fn arrive(&mut self) -> Done {
        self.charge_budget(PAGE_COST);
        self.owed = 0;
        Stop::Restart.when(self.wanted)
    }

    /// Counts a step at a place; now and then lets interrupts in.
    pub(crate) fn step(&mut self, cost: u32) -> Done {
        self.charge_budget(cost);
        Stop::Restart.when(self.wanted && self.owed <= 0)
    }

    /// Goes a step in a tree.
    pub(crate) fn climb_step(&mut self) {
        self.charge_budget(LEVEL_COST);
    }

    /// Counts work that goes to its end; now and then lets interrupts in.
    fn charge_budget(&mut self, cost: u32) {
        self.spent += cost;
        if self.spent >= PREEMPTION_POINT_COST {
            self.look();
        }
    }

    #[inline(never)]
    fn look(&mut self) {
        self.owed += PREEMPTION_POINT_COST as i64;
        self.wanted |= poll();
        self.spent = 0;
    }
}

/// Cuts a node's large leaf into 512 of the next level. Smaller pages that came from it now come
/// from the pieces; those who got the large page as a whole lose it (they fault, and may ask
/// again).
fn split(node: NodeIndex, work: &mut Work) -> Done {
    let leaf = Leaf::of(node);
    for child in Nodes.each_child(node) {
        if Leaf::of(child).level == leaf.level {
            revoke(child, true, work)?;
        }
        work.charge_budget(PAGE_COST);
    }
    let Some(task) = POOL.page(leaf.table).task.get() else { return Err(Error::Invalid.into()) };
    let pieces = new_small_pages(task, leaf, Nodes.parent(node), work)?;
    for child in Nodes.each_child(node) {
        let piece = (leads_to(Leaf::of(child).entry) - leads_to(leaf.entry)) / span(leaf.level - 1);
        Nodes.detach(child);
        Nodes.attach(child, node_of(pieces, piece as usize));
        work.charge_budget(PAGE_COST);
    }
    Nodes.detach(node);
    POOL.page(leaf.table).count_mappings(-1);
    POOL.page(leaf.table).count_entries(1);
    leaf.change(|_| POOL.physical(pieces).raw() | TASK_TABLE);
    Ok(())
}

/// A table of the 512 pieces of a large leaf, with nodes under `parent`; not yet entered.
fn new_small_pages(task: Ref<Task>, leaf: Leaf, parent: NodeIndex, work: &mut Work) -> Result<PoolPage, Error> {
    let level = leaf.level - 1;
    let table = new_table(task.account, level, leaf.address(), leaf.table)?;
    let places = (0..ENTRIES).step_by(GROUP).try_for_each(|slot| with_nodes(table, slot));
    places.inspect_err(|_| free_table(table))?;
    let first = leaf.settled().entry & !LARGE | large_bit(level);
    for slot in 0..ENTRIES {
        work.charge_budget(PAGE_COST);
        put(Leaf { table, slot, level, entry: first + slot as u64 * span(level) }, parent);
    }
    POOL.page(table).count_mappings(ENTRIES as i16);
    Ok(table)
}

/// Takes rights from the mappings of a range of one space: only `keep` stays (nothing: the mapping
/// goes). With `itself` from that space too, always from all that was derived from it. It does not
/// fail: a large page that cannot be cut for want of memory loses the rights as a whole. The range
/// begins at `at`, where it goes on after `Restart`.
pub fn unmap(task: Ref<Task>, at: &mut VirtAddr, end: VirtAddr, keep: u64, itself: bool, work: &mut Work) -> Done {
    while *at < end {
        work.arrive()?;
        let Some(leaf) = next_leaf(task, *at, end) else { break };
        let (address, size) = (leaf.address(), span(leaf.level));
        *at = address.max(*at);
        let node = leaf.node();
        if node == NodeIndex::NONE {
            // An object of the kernel's: nothing that is mapped lies in its area.
            *at = task.area + task.area_size;
            continue;
        }
        if *at > address || end < address + size {
            match split(node, work) {
                Err(Stop::Failed(_)) => work.found(LARGE),
                cut => {
                    cut?;
                    continue;
                }
            }
        }
        if keep & FPAGE_READ == 0 {
            if leaf.level == 0 && end - address > PAGE_SIZE {
                *at = if itself { take_row::<true>(leaf, end, work) } else { take_row::<false>(leaf, end, work) };
                if *at > address {
                    continue;
                }
            }
            revoke(node, itself, work)?;
        } else if itself && leaf.level == 0 && Nodes.first_child(node) == NodeIndex::NONE {
            *at = reduce_row(leaf, end, keep, work);
            continue;
        } else {
            reduce(node, itself, keep, work)?;
        }
        *at = address + size;
    }
    Ok(())
}

/// Moves all small pages of a table to where nothing is mapped yet, by the entry of the table
/// alone: rights, state and what was derived from them stay. Both addresses are multiples of
/// `TABLE_SPAN`. False: they cannot be moved so, and stay.
pub fn move_table(task: Ref<Task>, from: VirtAddr, to: VirtAddr) -> bool {
    let (table, level) = walk(task, from, 0);
    let target = Range::new(to.raw(), to.raw() + TABLE_SPAN);
    let room = memory(task, to).is_some_and(|memory| memory.contains(target));
    if level > 0 || in_area(task, from) || in_area(task, to) || !room {
        return false;
    }
    let Ok(above) = table_for(task, walk(task, to, 1), to, 1) else { return false };
    let (page, cell) = (POOL.page(table), POOL.word(above, slot(to, 1)));
    if cell.get() & PRESENT != 0 {
        return false;
    }
    let old = page.parent.replace(above);
    let entry = POOL.word(old, slot(from, 1));
    // Nobody walks the tables while the table is in neither place.
    shoot_down(task.space.get());
    cell.set(entry.take());
    POOL.page(above).fill(slot(to, 1), 1);
    page.base.set(to);
    flush_all(POOL.physical(task.root_table), || ());
    if let Some(window) = task.window.get() {
        hide(window, 1, from);
        flush_all(POOL.physical(window.host.root_table), || ());
    }
    POOL.page(above).count_entries(1);
    POOL.page(old).count_entries(-1);
    drop_if_empty(old);
    true
}

/// Where a map item goes: which part of the source, and where in the destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// First address in the sender's space, or its first port.
    pub source: u64,
    /// First address in the receiver's space, or its first port.
    pub target: u64,
    /// Log2 of the size.
    pub log2: u8,
}

/// The hot-spot rule: the smaller of item and window is placed inside the larger.
pub fn place(item: Fpage, send_base: u64, window: Fpage) -> Option<Placement> {
    if window == Fpage::NIL || !window.is_valid() || !item.is_valid() || window.is_io() != item.is_io() {
        return None;
    }
    let (from, to) = (item.log2(), window.log2());
    let inside = |size: u8, unit: u8| send_base & ((1 << size) - 1) & !((1u64 << unit) - 1);
    let (source, target) =
        if item.is_io() { (item.port() as u64, window.port() as u64) } else { (item.base(), window.base()) };
    Some(match from <= to {
        true => Placement { source, target: target + inside(to, from), log2: from },
        false => Placement { source: source + inside(from, to), target, log2: to },
    })
}

/// How far the mapping of an item has come.
#[derive(Clone, Copy, Default)]
pub struct Progress {
    /// Bytes (or ports) that are done.
    pub done: u64,
    /// Rights that arrived, 0 if nothing did (ports: 1 if one did).
    pub rights: u64,
}

/// Memory that goes from one space to another; with `grant` the sender loses it.
pub struct Mapping {
    /// Whose it is.
    pub from: Ref<Task>,
    /// Who gets it.
    pub to: Ref<Task>,
    /// Which part, and to where.
    pub place: Placement,
    /// The item: its rights and cache type.
    pub item: Fpage,
    /// Whether it is granted.
    pub grant: bool,
}

/// Maps all of it that is in `MEMORY`. That leaves out the last page of the lower half: SYSCALL at
/// its end would leave an ip that is not canonical, and SYSRET to that faults in the kernel, with
/// the user's stack, on Intel's processors. The fast paths rely on it: they do not look at an ip
/// that SYSCALL saved. (A kernel area may be there, but its pages cannot be executed; physical
/// addresses, where sigma0's pages are, end below: `cpuid::physical_bits`.) After `Restart` it
/// resumes where `progress` says.
pub fn map(mapping: &Mapping, progress: &mut Progress) -> Done {
    loop {
        let (rights, done) = mapping.next(progress.done, &mut Work::default())?;
        progress.rights |= rights;
        progress.done = done;
        if done >= 1 << mapping.place.log2 {
            return Ok(());
        }
        Stop::Restart.when(poll())?;
    }
}

/// Where a page lies, in a map item's words, and where those begin whose nodes lie together.
const PAGE_ADDRESS: u64 = (1 << SPACE_SHIFT) - PAGE_SIZE;
const GROUP_ADDRESS: u64 = (1 << SPACE_SHIFT) - GROUP as u64 * PAGE_SIZE;

/// Maps what pagers mostly answer with: small pages, to where nothing is but the tables, or the
/// same with fewer rights. How many of the items it was, from the first on; all went to one group.
#[inline(never)]
pub fn map_pages(from: Ref<Task>, to: Ref<Task>, items: &[Word]) -> usize {
    map_small_pages::<true>(from, to, items[0].get(), pairs(items))
}

/// Likewise all pages of a short answer, to where nothing is but the tables. Whether all were
/// mapped: they are not if that costs more than a batch.
#[inline(never)]
pub fn map_all_pages(from: Ref<Task>, to: Ref<Task>, items: &[Word]) -> bool {
    map_small_pages::<false>(from, to, items[0].get(), pairs(items)) == items.len() / 2
}

/// The send bases and fpages of map items.
fn pairs(items: &[Word]) -> impl Iterator<Item = (u64, Fpage)> + '_ {
    items.chunks_exact(2).map(|pair| (pair[0].get(), Fpage(pair[1].get())))
}

/// What a batch of pages may cost before the caller reaches a preemption point, in units of some 70
/// instructions: a page is one, a source in another table than the last one `FIND_COST` more, and
/// more rights for a page that is mapped more still: they keep the other processors out of the
/// space, each of which takes a quarter of a page's instructions. With a window there are two
/// spaces.
const BATCH_COST: usize = 24;
const FIND_COST: usize = 2;

/// Says what more rights for a page that is mapped cost beyond a new page.
#[cold]
fn raise_cost(to: Ref<Task>) -> usize {
    let one_space = 1 + cpu::count() as usize / 4;
    if to.window.get().is_some() {
        3 * one_space
    } else {
        one_space
    }
}

/// Maps small pages, by their targets and fpages, into the group of the first one: how many, from
/// the first on. With `RAISES` one that is mapped there already gets more rights.
#[inline(always)]
pub fn map_small_pages<const RAISES: bool>(
    from: Ref<Task>,
    to: Ref<Task>,
    first: u64,
    items: impl Iterator<Item = (u64, Fpage)>,
) -> usize {
    const GROUP_BYTES: u64 = GROUP as u64 * PAGE_SIZE;
    let group = VirtAddr::new(first & GROUP_ADDRESS);
    // `map` knows the last page of a half.
    let last = (group.raw() + GROUP_BYTES) << (64 - HALF_SHIFT) == 0;
    let (table, level) = walk(to, group, 0);
    let start = slot(group, 0);
    if level > 0 || in_area(to, group) || last || with_nodes(table, start).is_err() {
        return 0;
    }
    let (first, mut done, mut old, mut blocks) = (node_of(table, start), 0, 0, 0);
    // The table in which the sources are, or the large page, what of them it covers, and its entry.
    let (mut walked, mut level, mut base, mut size) = (PoolPage::NONE, 0, VirtAddr::new(0), 0);
    let (mut cost, mut large, bits) = (0, (0, NodeIndex::NONE), to.page_bits);
    for (target, item) in items {
        if cost >= BATCH_COST {
            break;
        }
        let source = VirtAddr::new(item.0 & PAGE_ADDRESS);
        if !item.is_page() || target & (GROUP_ADDRESS | MAP_GRANT) != group.raw() {
            break;
        }
        let place = |table, level| (POOL.word(table, slot(source, level)).get(), node_of(table, slot(source, level)));
        if source - base >= size {
            let before = walked;
            (walked, level) = walk(from, source, 0);
            size = span(level.max(1));
            base = source.align_down(size);
            if level > 0 {
                large = place(walked, level);
            }
            cost += if walked == before { 0 } else { FIND_COST };
        }
        let (entry, parent) = if level == 0 { place(walked, 0) } else { (large.0 + (source - base), large.1) };
        if entry & (MAPPED | KERNEL_OBJECT) != MAPPED {
            break;
        }
        let number = (target / PAGE_SIZE) as usize % GROUP;
        let cell = POOL.word(table, start + number);
        let wanted = || mapped(entry, limits(item.rights()), bits);
        if cell.get() == 0 {
            Nodes.plant(first.behind(number), parent);
            cell.set(wanted());
            blocks |= 1 << (number / pool::BLOCK);
        } else if RAISES && raise(table, start + number, wanted(), parent) {
            old += 1;
            cost += raise_cost(to);
        } else {
            break;
        }
        done += 1;
        cost += 1;
    }
    let page = POOL.page(table);
    page.parts.set(page.parts.get() | blocks << (start / pool::BLOCK));
    page.count_mappings((done - old) as i16);
    done
}

/// Gives a small page that is mapped the rights of a new mapping. False: it is another page, or
/// came from somewhere else.
#[cold]
#[inline(never)]
fn raise(table: PoolPage, slot: usize, wanted: u64, parent: NodeIndex) -> bool {
    let leaf = Leaf { table, slot, level: 0, entry: POOL.word(table, slot).get() };
    let same = (leaf.entry ^ wanted) & ADDRESS == 0 && Nodes.parent(leaf.node()) == parent;
    if same && raised(leaf.entry, wanted) != leaf.entry {
        leaf.change(|old| raised(old, wanted));
    }
    same
}

/// An entry with the rights of another one as well.
fn raised(entry: u64, other: u64) -> u64 {
    (entry | other & WRITE) & (other | !NO_EXECUTE)
}

/// Maps small pages, from `source` in a leaf on, to where nothing is but the tables, or the same
/// already, in one group: the rights that arrived, and how many pages. `rest` is how much there is
/// to map, and no user's leaf lies where kernel objects lie.
#[inline(never)]
fn map_row(leaf: &Leaf, source: VirtAddr, to: Ref<Task>, target: VirtAddr, item: Fpage, rest: u64) -> (u64, u64) {
    let (table, level) = walk(to, target, 0);
    let start = slot(target, 0);
    if level > 0 || item.rights() & FPAGE_READ == 0 || with_nodes(table, start).is_err() {
        return (0, 0);
    }
    let offset = source.offset_in(span(leaf.level));
    let (small, entry, parent) = (leaf.level == 0, leaf.entry + offset, leaf.node());
    let room = if small { (GROUP - leaf.slot % GROUP) as u64 } else { (span(leaf.level) - offset) / PAGE_SIZE };
    let (cells, nodes) = row(table, start, room.min(rest / PAGE_SIZE));
    // What there is to map at a place of the row, and its node.
    let source = |number: usize| match small {
        true => (POOL.word(leaf.table, leaf.slot + number).get(), parent.behind(number)),
        false => (entry + number as u64 * PAGE_SIZE, parent),
    };
    let (limits, bits, mut rights, mut count) = (limits(item.rights()), to.page_bits, 0, 0);
    let empty = cells[0].get() == 0;
    for (cell, node) in cells.iter().zip(nodes) {
        let (entry, parent) = source(count);
        let (old, new) = (cell.get(), mapped(entry, limits, bits));
        if entry & PRESENT == 0 || empty != (old == 0) {
            break;
        }
        if empty {
            Nodes.plant(node, parent);
            cell.set(new);
        } else if (old ^ new) & !(ACCESSED | DIRTY) != 0 || Nodes.parent(node) != parent {
            break;
        }
        rights |= new ^ NO_EXECUTE;
        count += 1;
    }
    if empty && count > 0 {
        POOL.page(table).fill(start, count);
        POOL.page(table).count_mappings(count as i16);
    }
    (bits_rights(rights ^ NO_EXECUTE), count as u64)
}

impl Mapping {
    /// Maps all of it if that is one row of small pages to where nothing is, or the same. With
    /// `tables` the tables are made for them, and there are preemption points. The rights that
    /// arrived; 0 if it is not that simple: then `map` is to do it, what is mapped by now once
    /// more.
    pub fn at_once(&self, tables: bool) -> u64 {
        let (source, target) = self.at(0);
        let size = 1 << self.place.log2;
        let wanted = Range::new(target.raw(), target.raw() + size);
        let room = memory(self.to, target).is_some_and(|memory| memory.contains(wanted));
        if self.grant || !room || in_area(self.to, target) {
            return 0;
        }
        let leaf = find(self.from, source).ok().filter(|leaf| leaf.node().is_some());
        let Some(leaf) = leaf else { return 0 };
        let (hole, level) = walk(self.to, target, 0);
        if level > 0 && !(tables && table_for(self.to, (hole, level), target, 0).is_ok()) {
            return 0;
        }
        let (rights, pages) = map_row(&leaf, source, self.to, target, self.item, size);
        if pages * PAGE_SIZE == size {
            return rights;
        }
        if tables {
            // Perhaps there is no memory for nodes, or nothing may be read.
            drop_if_empty(walk(self.to, target, 0).0);
        }
        0
    }

    /// The addresses of what comes next, in either space.
    fn at(&self, done: u64) -> (VirtAddr, VirtAddr) {
        (VirtAddr::new(self.place.source + done), VirtAddr::new(self.place.target + done))
    }

    /// Maps the next page, or passes over a hole: the rights that arrived, and how much of the item
    /// is done by then.
    fn next(&self, done: u64, work: &mut Work) -> Result<(u64, u64), Stop> {
        let (source, target) = self.at(done);
        // How much is done behind the piece of that size that an address lies in.
        let behind = |address: VirtAddr, size| Ok((0, done + size - address.offset_in(size)));
        if in_area(self.to, target) {
            return behind(target, self.to.area_size);
        }
        let leaf = match find_source(self.from, source, self.item)? {
            Ok(leaf) if leaf.node().is_some() => leaf,
            Ok(Leaf { level, .. }) | Err(level) => return behind(source, span(level)),
        };
        let Some(memory) = memory(self.to, target) else { return Ok((0, 1 << self.place.log2)) };
        if target.raw() < memory.start {
            return Ok((0, done + (memory.start - target.raw())));
        }
        let rest = ((1 << self.place.log2) - done).min(memory.end - target.raw());
        // A small area may lie in the middle of a large page.
        let rest = if self.to.area_size > 0 { rest.min(self.to.area - target) } else { rest };
        // The largest level at which a piece of the leaf can be entered there.
        let fits = |level: &u8| (source.raw() | target.raw()) & (span(*level) - 1) == 0 && rest >= span(*level);
        let level = (1..=leaf.level).rev().find(fits).unwrap_or(0);
        if level == 0 && rest > PAGE_SIZE && !self.grant {
            let (rights, pages) = map_row(&leaf, source, self.to, target, self.item, rest);
            if pages > 0 {
                return Ok((rights, done + pages * PAGE_SIZE));
            }
        }
        let rights = self.page(leaf, level, done, work)?;
        Ok((rights, done + span(level)))
    }

    /// Maps one page; the leaf covers it.
    fn page(&self, leaf: Leaf, level: u8, done: u64, work: &mut Work) -> Result<u64, Stop> {
        let (source, target) = self.at(done);
        let rights = bits_rights(leaf.entry) & self.item.rights();
        if rights & FPAGE_READ == 0 {
            return Ok(0);
        }
        let physical = leaf.physical(source).raw();
        let kept = leaf.entry & (PWT | PCD);
        let entry = physical | self.to.page_bits | large_bit(level) | kept | rights_bits(rights);
        if let Some(arrived) = self.make_room(target, level, &leaf, entry, work)? {
            return Ok(arrived);
        }
        // That may have taken the source away, if it had come from the target.
        let Ok(leaf) = find(self.from, source) else { return Ok(0) };
        let (node, hole) = (leaf.node(), walk(self.to, target, level));
        if node == NodeIndex::NONE {
            return Ok(0);
        }
        if !self.grant {
            enter(self.to, hole, target, level, entry, node)?;
            return Ok(rights);
        }
        if level < leaf.level {
            split(node, work)?;
            let piece = find(self.from, source).map_err(|_| Error::Invalid)?;
            return self.page(piece, level, done, work);
        }
        if rights != bits_rights(leaf.entry) {
            // Nobody has more rights than whom it got them from.
            reduce(node, false, rights, work)?;
        }
        let used = leaf.settled().entry & (ACCESSED | DIRTY);
        let new = enter(self.to, hole, target, level, entry | used, NodeIndex::NONE)?;
        Nodes.replace(node, new.node(), || work.climb_step());
        remove(leaf);
        Ok(rights)
    }

    /// Makes the target slot empty. `Some`: it is not; the rights that arrived, because the same
    /// page is there already, or 0, because what is there must stay.
    fn make_room(&self, at: VirtAddr, level: u8, from: &Leaf, new: u64, work: &mut Work) -> Result<Option<u64>, Stop> {
        let (table, found) = walk(self.to, at, level);
        let leaf = Leaf { table, slot: slot(at, found), level: found, entry: POOL.word(table, slot(at, found)).get() };
        let old = leaf.entry;
        if old & PRESENT == 0 {
            return Ok(None);
        }
        if old & MAPPED == 0 {
            // Windows of others.
            return Ok(Some(0));
        }
        if found > 0 && old & LARGE == 0 {
            // Smaller pages lie where a large one is to go.
            unmap(self.to, &mut { at }, at + span(level), 0, true, work)?;
            return Ok(None);
        }
        let node = leaf.node();
        if node == NodeIndex::NONE || node == from.node() {
            return Ok(Some(0));
        }
        let same = found == level && old & ADDRESS == new & ADDRESS && Nodes.parent(node) == from.node();
        if same && !self.grant {
            leaf.change(|old| raised(old, new));
            return Ok(Some(bits_rights(new)));
        }
        if is_below(from.node(), node, work) {
            return Ok(Some(0));
        }
        revoke(node, true, work)?;
        Ok(None)
    }
}

/// The leaf to map from; sigma0's space is filled from physical memory on demand.
fn find_source(from: Ref<Task>, address: VirtAddr, item: Fpage) -> Result<Result<Leaf, u8>, Stop> {
    let hole = match find(from, address) {
        Err(hole) if task::is_sigma0(from) => hole,
        found => return Ok(found),
    };
    let physical = PhysAddr::new(address.raw());
    let Some(largest) = physical_page(physical, item.log2()) else {
        return Ok(Err(if is_physical(physical) { 0 } else { hole }));
    };
    // Not larger than what is empty: smaller pages may have been entered beside it.
    let mut level = largest.min(hole);
    loop {
        let (base, page) = (address.align_down(span(level)), physical.align_down(span(level)));
        let entry = page.raw() | USER_PAGE | WRITE | large_bit(level) | cache_bits(item.cache());
        match enter(from, walk(from, base, level), base, level, entry, NodeIndex::NONE) {
            Ok(leaf) => return Ok(Ok(leaf)),
            Err(Error::Busy) => return Ok(Err(0)),
            Err(error) if error == Error::NoMemory || level == 0 => return Err(error.into()),
            Err(_) => level -= 1,
        }
    }
}

/// Whether `node` came from `ancestor`.
fn is_below(node: NodeIndex, ancestor: NodeIndex, work: &mut Work) -> bool {
    let parent = |node: &NodeIndex| Some(Nodes.parent(*node)).filter(|parent| parent.is_some());
    core::iter::successors(parent(&node), parent).inspect(|_| work.climb_step()).any(|above| above == ancestor)
}

/// Whether an address lies in a task's kernel area.
fn in_area(task: Ref<Task>, address: VirtAddr) -> bool {
    address - task.area < task.area_size
}

/// Enters a page of the pool that user and kernel share, at an address in the kernel area.
pub fn map_object(task: Ref<Task>, address: VirtAddr, physical: PhysAddr, write: bool) -> Result<(), Error> {
    let table = table_for(task, walk(task, address, 0), address, 0)?;
    let rights = if write { WRITE | NO_EXECUTE } else { NO_EXECUTE };
    let cell = POOL.word(table, slot(address, 0));
    debug_assert!(cell.get() & PRESENT == 0);
    cell.set(physical.raw() | task.page_bits | KERNEL_OBJECT | rights);
    POOL.page(table).count_entries(1);
    POOL.page(table).fill(slot(address, 0), 1);
    Ok(())
}

/// Gives a task a zeroed page in its kernel area: kernel address of it.
pub fn add_object(task: Ref<Task>, offset: u64) -> Result<*mut u8, Error> {
    poll();
    let page = POOL.take_zeroed(task.account, Kind::Frame)?;
    let mapped = map_object(task, task.area + offset, POOL.physical(page), true);
    // SAFETY: it is not mapped.
    mapped.inspect_err(|_| unsafe { POOL.free_page(page, Kind::Frame) })?;
    Ok(POOL.address(page))
}

/// Entry of an object in a task's kernel area, if there is one; none is marked in a space without
/// that area.
fn object(task: Ref<Task>, offset: u64) -> Option<Leaf> {
    find(task, task.area + offset).ok().filter(|leaf| leaf.entry & KERNEL_OBJECT != 0)
}

/// Pool page of an object in a task's kernel area, if there is one.
pub fn object_at(task: Ref<Task>, offset: u64) -> Option<PoolPage> {
    let physical = leads_to(object(task, offset)?.entry);
    POOL.contains(physical).then(|| POOL.index_of(physical))
}

/// Takes a page of `add_object` back, if there is one.
pub fn remove_object(task: Ref<Task>, offset: u64) {
    if let Some(leaf) = object(task, offset) {
        drop_object(leaf);
    }
}

fn drop_object(leaf: Leaf) {
    let physical = leads_to(leaf.change(|_| 0));
    if POOL.contains(physical) {
        // SAFETY: it is not mapped any more. A thread whose frame or UTCB it was goes first.
        unsafe { POOL.free_page(POOL.index_of(physical), Kind::Frame) };
    }
    POOL.page(leaf.table).count_entries(-1);
    drop_if_empty(leaf.table);
}

/// Takes all user mappings of a task away, with what was derived from them. Interrupts are let in;
/// the operation has to be restarted after `Restart`.
pub fn clear(task: Ref<Task>) -> Done {
    unmap(task, &mut VirtAddr::new(0), SPACE_END, 0, true, &mut Work::default())
}

/// Gives back all of a space: mappings, kernel objects, tables. The task has no lthreads any more.
pub fn free_all(task: Ref<Task>) {
    leave_table(POOL.physical(task.root_table));
    let (mut work, mut at) = (Work::default(), VirtAddr::new(0));
    while let Some(leaf) = next_leaf(task, at, SPACE_END) {
        at = leaf.address() + span(leaf.level);
        match leaf.node() {
            NodeIndex::NONE => drop_object(leaf),
            // Interrupts are let in, but who asks for the processor waits for the end.
            node => while revoke(node, true, &mut work).is_err() {},
        }
        work.charge_budget(PAGE_COST);
    }
    if task.is_shown() {
        end_showing(task);
    }
    let (table, level) = walk(task, LAST_SLOT, TOP_LEVEL - 1);
    if level < TOP_LEVEL {
        POOL.word(table, IMAGE_SLOT).set(0);
        free_table(table);
    }
    free_table(task.root_table);
}

/// Serves a page fault of sigma0: its space is physical memory. False if that is not to be had.
pub fn fill_from_physical(sigma0: Ref<Task>, address: VirtAddr) -> bool {
    let page = Fpage::memory(address.raw(), PAGE_SHIFT as u8, FPAGE_RWX);
    is_physical(PhysAddr::new(address.raw())) && matches!(find_source(sigma0, address, page), Ok(Ok(_)))
}

#[cfg(test)]
#[path = "../../../tests/kernel/space.rs"]
mod tests;
