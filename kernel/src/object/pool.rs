// SPDX-License-Identifier: GPL-2.0-only
//! The kernel's memory: a pool of pages fixed at boot, and accounts that pay for every page of it.
//!
//! An account takes whole pages; small objects come from pages that belong to one account, so one
//! clan's use never fragments another's. The sum of all limits never exceeds the pool, therefore a
//! page within a limit is always there. Owns the pages and what is recorded about each (`Page`);
//! does not know what the objects are. Only exclusive code, or code that has the ordering lock,
//! uses it (lock.rs).

use crate::{arch::direct, arch::direct_physical, base::abi::*, base::*, object::Task};

/// Bytes of a page.
pub const PAGE: usize = keel_abi::fpage::PAGE_SIZE as usize;
/// Log2 of the smallest size of objects, of which a page has as many as a word has bits; and how
/// many sizes there are, each twice the one before, up to half a page.
const LEAST_LOG2: u32 = (PAGE / u64::BITS as usize).ilog2();
const SIZES: usize = (PAGE.ilog2() - LEAST_LOG2) as usize;

/// What an account counts, for QUOTA_READ.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Tasks.
    Task = ACCOUNT_TASKS as isize,
    /// Lthreads.
    Lthread = ACCOUNT_LTHREADS as isize,
    /// Page tables.
    Table = ACCOUNT_TABLES as isize,
    /// Mapping nodes.
    Node = ACCOUNT_NODES as isize,
    /// Frame pages, UTCBs.
    Frame = ACCOUNT_FRAMES as isize,
    /// FPU and debug register states.
    Fpu = ACCOUNT_FPUS as isize,
    /// What belongs to one of the above: thread directories, places for mapping nodes, port grants.
    Part = ACCOUNT_POOL_FREE as isize,
}

/// Entries of a page table that `Page::parts` has a bit for.
pub(crate) const BLOCK: usize = PAGE / 8 / u64::BITS as usize;

newtype! {
    /// A page of the pool by its physical page number, so that its address is known without a look
    /// at the pool, or none. The pool lies below 4 GB (`boot::choose_pool`).
    pub struct PoolPage(u32);
}

/// What is recorded about one page of the pool.
pub struct Page {
    /// Free page, or page of objects with a free one: its neighbours in their list.
    pub(crate) next: Cell<PoolPage>,
    prev: Cell<PoolPage>,
    pub(crate) account: Cell<Option<Ref<Account>>>,
    /// Page of objects: log2 of their size.
    size_log2: Cell<u8>,
    /// A bit for each part that is in use: an object, a frame that is bound, or `BLOCK` entries of
    /// a page table one of which was in use since the table was made. 0 in any other page.
    pub(crate) parts: Cell<u64>,
    /// Page table: the task whose space it is part of.
    pub task: Cell<Option<Ref<Task>>>,
    /// Page table: the first address that it covers.
    pub base: Cell<VirtAddr>,
    /// Page table: entries in use.
    pub used: Cell<u16>,
    /// Page table: level of its entries, 0 for 4 KB.
    pub level: Cell<u8>,
    /// Page table: the table above it.
    pub parent: Cell<PoolPage>,
    /// Page table: where the nodes of each eighth of its entries lie, 0 if nowhere. Page with such
    /// nodes: whose they are. Both as space.rs numbers them; all 0 in any other page.
    pub groups: [Cell<u32>; 8],
    /// Free page: it is all zero.
    pub zero: Cell<bool>,
}

impl Page {
    /// Page table: so many entries more are in use.
    pub fn count_entries(&self, more: i16) {
        self.used.set(self.used.get().wrapping_add_signed(more));
    }

    /// Page table: so many entries from this one on are in use now, at least one.
    pub fn fill(&self, slot: usize, count: usize) {
        let (first, last) = (slot / BLOCK, (slot + count - 1) / BLOCK % u64::BITS as usize);
        self.parts.set(self.parts.get() | !0 << first & !0 >> (u64::BITS as usize - 1 - last));
    }

    /// Page table: the first entry from this one on that may be in use; the number of entries if
    /// there is none.
    pub fn next_filled(&self, slot: usize) -> usize {
        slot.max((self.parts.get() & !0 << (slot / BLOCK)).trailing_zeros() as usize * BLOCK)
    }

    /// Page table: so many more of its entries are mappings that have a node.
    pub fn count_mappings(&self, more: i16) {
        self.count_entries(more);
        if let Some(account) = self.account.get() {
            account.count(Kind::Node, more as i64);
        }
    }
}

object! {
    /// An account: how many pages may be used, and how many are.
    pub struct Account const () {
        /// Pages that may be used, less those moved to other accounts.
        pub limit: Cell<u64> = Cell::new(0),
        /// Pages in use.
        pub used: Cell<u64> = Cell::new(0),
        /// Pages of objects with a free one, by the objects' size.
        partial: [Cell<PoolPage>; SIZES] = [const { Cell::new(PoolPage::NONE) }; SIZES],
        counts: [Cell<u64>; ACCOUNT_WORDS as usize] = [const { Cell::new(0) }; ACCOUNT_WORDS as usize],
    }
}

impl Account {
    /// One of the ACCOUNT_* words.
    pub fn word(&self, word: u64) -> u64 {
        match word {
            ACCOUNT_LIMIT => self.limit.get(),
            ACCOUNT_USED => self.used.get(),
            ACCOUNT_POOL_FREE => POOL.free_pages.get(),
            _ => self.counts[word as usize].get(),
        }
    }

    /// Moves `pages` of the limit to another account, if they are unused.
    pub fn pass(&self, pages: u64, to: &Account) -> Result<(), Error> {
        Error::NoMemory.when(self.limit.get() - self.used.get() < pages)?;
        self.limit.set(self.limit.get() - pages);
        to.limit.set(to.limit.get() + pages);
        Ok(())
    }

    fn count(&self, kind: Kind, change: i64) {
        let count = &self.counts[kind as usize];
        count.set(count.get().wrapping_add_signed(change));
    }
}

object! {
    /// The pool.
    pub struct Pool const () {
        /// The first page: it holds records. Its own says that it is a table that covers no
        /// address.
        pub(crate) first: Cell<PoolPage> = Cell::new(PoolPage::NONE),
        pub(crate) count: Cell<u32> = Cell::new(0),
        /// Where the record of page 0 would be.
        records: Cell<*const Page> = Cell::new(core::ptr::null()),
        pub(crate) free: Cell<PoolPage> = Cell::new(PoolPage::NONE),
        /// Pages in nobody's use.
        pub free_pages: Cell<u64> = Cell::new(0),
        /// The account that all others come from.
        pub root: Account = Account::new(),
    }
}

/// The one pool.
pub static POOL: Global<Pool> = Global::new(Pool::new());

impl Pool {
    /// Takes the physical memory [start, end), page aligned, as the pool. Called once at boot.
    ///
    /// # Safety
    /// The range is RAM in nobody's use, mapped by the direct map.
    pub unsafe fn init(&self, start: PhysAddr, end: PhysAddr) {
        let (first, count) = (self.index_of(start).0, ((end - start) / PAGE as u64) as u32);
        let records = (count as usize * size_of::<Page>()).div_ceil(PAGE);
        self.first.set(PoolPage(first));
        self.count.set(count);
        self.records.set(direct(start).cast::<Page>().wrapping_sub(first as usize));
        // SAFETY: the first `records` pages of the range hold a `Page` for each; all bits zero is
        // valid.
        unsafe { core::ptr::write_bytes(direct(start), 0, records * PAGE) };
        for index in (first + records as u32..first + count).rev().map(PoolPage) {
            self.page(index).next.set(self.free.replace(index));
        }
        self.page(PoolPage(first)).base.set(VirtAddr::new(u64::MAX));
        self.free_pages.set(count as u64 - records as u64);
        self.root.limit.set(count as u64 - records as u64);
    }

    /// The record of a page.
    pub fn page(&self, index: PoolPage) -> &Page {
        debug_assert!(self.contains(self.physical(index)));
        // SAFETY: each page of the pool has a record; indices come from the pool itself.
        unsafe { &*self.records.get().wrapping_add(index.0 as usize) }
    }

    /// Physical address of a page.
    pub fn physical(&self, index: PoolPage) -> PhysAddr {
        PhysAddr::new(index.0 as u64 * PAGE as u64)
    }

    /// Kernel address of a page.
    pub fn address(&self, index: PoolPage) -> *mut u8 {
        direct(self.physical(index))
    }

    /// Copies a page of words to as many cells.
    pub fn copy_words(&self, page: PoolPage, to: &[Cell<u64>]) {
        assert!(to.len() == PAGE / 8);
        // SAFETY: the page, which its owner uses as words, and cells of the same size elsewhere.
        unsafe { core::ptr::copy_nonoverlapping(self.address(page), to.as_ptr() as *mut u8, PAGE) };
    }

    /// A word of a page of words: a table of any kind. The processor writes accessed and dirty bits
    /// in page tables.
    pub fn word(&self, page: PoolPage, index: usize) -> &'static Cell<u64> {
        debug_assert!(index < PAGE / 8);
        // SAFETY: inside the page, which its owner uses as words.
        unsafe { &*self.address(page).cast::<Cell<u64>>().add(index) }
    }

    /// The page that holds a physical address, which lies in the pool.
    pub fn index_of(&self, physical: PhysAddr) -> PoolPage {
        PoolPage((physical.raw() / PAGE as u64) as u32)
    }

    /// Whether a physical address lies in the pool.
    pub fn contains(&self, physical: PhysAddr) -> bool {
        (physical.raw() / PAGE as u64).wrapping_sub(self.first.get().0 as u64) < self.count.get() as u64
    }

    /// A page for `account`, filled with a byte.
    pub fn take_filled(&self, account: Ref<Account>, kind: Kind, byte: u8) -> Result<PoolPage, Error> {
        let index = self.take_raw(account)?;
        if !self.page(index).zero.take() || byte != 0 {
            // SAFETY: the page is ours alone.
            unsafe { core::ptr::write_bytes(self.address(index).cast::<u64>(), byte, PAGE / 8) };
        }
        account.count(kind, 1);
        Ok(index)
    }

    /// A page for `account`, all zero.
    pub fn take_zeroed(&self, account: Ref<Account>, kind: Kind) -> Result<PoolPage, Error> {
        self.take_filled(account, kind, 0)
    }

    /// Gives back a page that `take_filled` or `take_zeroed` gave.
    ///
    /// # Safety
    /// Nothing refers to the page any more: no table, no object in it, no processor.
    pub unsafe fn free_page(&self, index: PoolPage, kind: Kind) {
        if let Some(account) = self.page(index).account.get() {
            account.count(kind, -1);
        }
        self.give_raw(index);
    }

    fn take_raw(&self, account: Ref<Account>) -> Result<PoolPage, Error> {
        Error::NoMemory.when(account.used.get() >= account.limit.get() || self.free.get() == PoolPage::NONE)?;
        let index = self.free.get();
        let page = self.page(index);
        self.free.set(page.next.get());
        self.free_pages.set(self.free_pages.get() - 1);
        account.used.set(account.used.get() + 1);
        page.account.set(Some(account));
        page.task.set(None);
        page.used.set(0);
        page.parent.set(PoolPage::NONE);
        Ok(index)
    }

    fn give_raw(&self, index: PoolPage) {
        let page = self.page(index);
        if let Some(account) = page.account.take() {
            account.used.set(account.used.get() - 1);
        }
        page.next.set(self.free.replace(index));
        self.free_pages.set(self.free_pages.get() + 1);
    }

    /// Memory for an object of `size` bytes (at most 2048), aligned to the power of two above its
    /// size; its content is whatever it was.
    pub fn take(&self, account: Ref<Account>, size: usize, kind: Kind) -> Result<*mut u8, Error> {
        let log2 = size.next_power_of_two().ilog2().max(LEAST_LOG2);
        let partial = &account.partial[(log2 - LEAST_LOG2) as usize];
        if partial.get() == PoolPage::NONE {
            let index = self.take_raw(account)?;
            self.page(index).zero.set(false);
            self.page(index).size_log2.set(log2 as u8);
            self.page(index).parts.set(no_room(log2));
            self.link(partial, index);
        }
        let (index, page) = (partial.get(), self.page(partial.get()));
        let number = page.parts.get().trailing_ones();
        page.parts.set(page.parts.get() | 1 << number);
        if page.parts.get() == u64::MAX {
            self.unlink(partial, index);
        }
        account.count(kind, 1);
        Ok(self.address(index).wrapping_add((number as usize) << log2))
    }

    /// Memory for an object, with the object in it.
    pub fn make<T>(&self, account: Ref<Account>, kind: Kind, object: T) -> Result<Ref<T>, Error> {
        let memory = self.take(account, size_of::<T>(), kind)?.cast::<T>();
        // SAFETY: fresh memory, large enough and aligned to the power of two above its size.
        unsafe {
            memory.write(object);
            Ok(Ref::new(memory))
        }
    }

    /// Gives back an object of `make`.
    ///
    /// # Safety
    /// It was made with the same kind, and nothing refers to it any more.
    pub unsafe fn delete<T>(&self, object: Ref<T>, kind: Kind) {
        // SAFETY: the caller's contract.
        unsafe { self.give(object.as_ptr().cast(), kind) };
    }

    /// Gives back an object of `take`.
    ///
    /// # Safety
    /// `object` came from `take` with the same kind, and nothing refers to it any more.
    pub unsafe fn give(&self, object: *mut u8, kind: Kind) {
        let index = self.index_of(direct_physical(object));
        let page = self.page(index);
        let Some(account) = page.account.get() else { return };
        account.count(kind, -1);
        let (parts, log2) = (page.parts.get(), page.size_log2.get() as u32);
        let partial = &account.partial[(log2 - LEAST_LOG2) as usize];
        if parts == u64::MAX {
            self.link(partial, index);
        }
        page.parts.set(parts & !(1 << (object as usize % PAGE >> log2)));
        if page.parts.get() == no_room(log2) {
            page.parts.set(0);
            self.unlink(partial, index);
            self.give_raw(index);
        }
    }

    /// Puts a page at the front of a list.
    fn link(&self, list: &Cell<PoolPage>, index: PoolPage) {
        let first = list.replace(index);
        self.page(index).prev.set(PoolPage::NONE);
        self.page(index).next.set(first);
        if first != PoolPage::NONE {
            self.page(first).prev.set(index);
        }
    }

    /// Takes a page out of a list.
    fn unlink(&self, list: &Cell<PoolPage>, index: PoolPage) {
        let (next, prev) = (self.page(index).next.get(), self.page(index).prev.get());
        match prev {
            PoolPage::NONE => list.set(next),
            _ => self.page(prev).next.set(next),
        }
        if next != PoolPage::NONE {
            self.page(next).prev.set(prev);
        }
    }
}

/// Bits of `Page::parts` for which a page has no room, if objects have this size: they count as in
/// use.
fn no_room(size_log2: u32) -> u64 {
    (u64::MAX - 1) << ((PAGE >> size_log2) - 1)
}
