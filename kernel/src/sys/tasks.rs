// SPDX-License-Identifier: GPL-2.0-only
//! Creation and deletion of tasks: their spaces, their accounts, and what goes with them.

use crate::{arch::cpuid::Feature, arch::*, base::abi::*, base::*, ipc::kernel_object, mm::*, percpu::preempt};
use crate::{object::task::*, object::*, sys::small};

/// Makes a task without lthreads at a number where none is.
pub fn create(plan: &Plan) -> Result<Ref<Task>, Error> {
    let entry = entry(plan.number).ok_or(Error::Invalid)?;
    let user = plan.area < USER_END || (UPPER_START..UPPER_END).contains(&plan.area);
    let small = plan.area % AREA_SMALL_SIZE == 0 && plan.area < 1 << SMALL_ALL;
    Error::Invalid.when(plan.area % AREA_SIZE != 0 && !small || !user)?;
    Error::Retired.when(entry.version.get() >= VERSION_MAX)?;
    let nesting = plan.chief.map_or(0, |chief| chief.nesting) + 1;
    Error::Denied.when(nesting > MAX_NESTING || plan.chief.is_some_and(|chief| !may_give(chief, plan)))?;
    let account = open_account(account_of(plan.chief), plan.quota)?;
    build(plan, entry, account, nesting).inspect_err(|_| close_account(account, plan.chief))
}

/// Whether a chief may give a task the upper half and supervisor mode as it is planned. A task
/// whose upper half is shown has all its memory there, and those that show it have none.
fn may_give(chief: Ref<Task>, plan: &Plan) -> bool {
    let protects = cpuid::has(Feature::Smep) && cpuid::has(Feature::Smap);
    let lower = plan.area != 0 && plan.area < USER_END;
    let roots = chief.number == TaskNumber::ROOT && facts::has_word(facts::Word::Supervisor) && !lower;
    match (plan.supervisor, plan.resident, plan.upper) {
        (_, _, upper) if chief.is_shown() && (upper || plan.area > USER_END) => false,
        (true, true, _) => false,
        (true, _, false) => chief.is_shown() && chief.supervisor,
        (true, _, true) => roots && protects,
        (_, true, false) => chief.is_shown() && !chief.supervisor,
        (_, true, true) => roots,
        (_, _, upper) => !upper || chief.upper,
    }
}

fn build(plan: &Plan, entry: &Entry, account: Ref<Account>, nesting: u8) -> Result<Ref<Task>, Error> {
    let root_table = space::new_root(account, task::half_for(plan.chief, plan.resident))?;
    let task = Task::new(plan, entry.version.get() + 1, nesting, account, root_table);
    let task = POOL.make(account, Kind::Task, task);
    // SAFETY: nobody has seen it.
    let task = task.inspect_err(|_| unsafe { POOL.free_page(root_table, Kind::Table) })?;
    POOL.page(root_table).task.set(Some(task));
    let filled = if plan.upper { space::share_last_slot(task) } else { Ok(()) };
    let filled = filled.and_then(|_| match task.area {
        VirtAddr::NONE => Ok(()),
        area => space::map_object(task, area + AREA_KIP, paging::image_physical(&raw const kip::INFO.0), false),
    });
    // SAFETY: nobody has seen it.
    filled.inspect_err(|_| unsafe { free_memory(task) })?;
    if let Some(chief) = plan.chief {
        chief.clan.push_back(task);
    }
    entry.task.set(Some(task));
    Ok(task)
}

fn open_account(payer: Ref<Account>, quota: u64) -> Result<Ref<Account>, Error> {
    if quota == TASK_SHARED_QUOTA {
        return Ok(payer);
    }
    let account = POOL.make(payer, Kind::Part, Account::new())?;
    // SAFETY: nobody has it yet.
    payer.pass(quota, &account).inspect_err(|_| unsafe { POOL.delete(account, Kind::Part) })?;
    Ok(account)
}

/// Gives back an account that a task has not got from its chief.
fn close_account(account: Ref<Account>, chief: Option<Ref<Task>>) {
    let payer = account_of(chief);
    if account != payer {
        debug_assert!(account.used.get() == 0);
        // Nothing of it is in use, so all of it passes.
        let _ = account.pass(account.limit.get(), &payer);
        // SAFETY: the last task that used it is gone.
        unsafe { POOL.delete(account, Kind::Part) };
    }
}

/// Deletes all lthreads of a task and its clan.
///
/// # Safety
/// The caller uses none of their `Ref`s any more.
///
/// Not inlined: a system call then saves fewer registers.
#[inline(never)]
pub unsafe fn delete_lthreads(top: Ref<Task>) {
    for task in with_clan(top) {
        for thread in task.each_lthread() {
            // SAFETY: the caller's contract; the loop finds the next one by its number.
            unsafe { super::lthreads::delete(thread) };
            preempt::poll();
        }
    }
}

/// Deletes a task that has no lthreads and no clan any more.
///
/// # Safety
/// The caller uses no `Ref` to it any more.
pub unsafe fn delete(task: Ref<Task>) {
    if let Some(entry) = entry(task.number) {
        entry.task.set(None);
        entry.version.set(task.max_version.get());
    }
    if let Some(chief) = task.chief {
        chief.clan.remove(task);
        pass_numbers(task, task.held.get().0..task.held.get().1, chief);
    }
    small::forget_host(task);
    kernel_object::task_deleted(task);
    preempt::poll();
    let (account, chief) = (task.account, task.chief);
    // SAFETY: it has left the table and the list of its clan; the caller's contract.
    unsafe { free_memory(task) };
    close_account(account, chief);
}

/// Gives back all memory of a task that has no lthreads and no clan.
///
/// # Safety
/// No table, list or field leads to it any more.
unsafe fn free_memory(task: Ref<Task>) {
    io::drop_space(task);
    space::free_all(task);
    preempt::poll();
    let directory = task.directory.get();
    if directory != PoolPage::NONE {
        let pages = (0..DIRECTORY_PAGES).map(|index| POOL.word(directory, index).get() as u32).map(PoolPage::new);
        for page in pages.chain([directory]).filter(|page| *page != PoolPage::NONE) {
            // SAFETY: the task goes, and no lthread has a slot in it.
            unsafe { POOL.free_page(page, Kind::Part) };
            preempt::poll();
        }
    }
    // SAFETY: nothing refers to it any more: table, clan list, lthreads and page tables are gone.
    unsafe { POOL.delete(task, Kind::Task) };
}
