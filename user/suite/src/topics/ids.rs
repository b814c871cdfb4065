// SPDX-License-Identifier: BSD-2-Clause
//! Ids, id_nearest, the KIP, the address of the UTCB.

use crate::case::{Case, Outcome};
use crate::pool;
use crate::threads::{child, helper, own, park, remove, remove_task, Spawn, PAGER, RUNNER};
use crate::{holds, refused, same};
use keel_l4::abi::call::{CALL_ID_NEAREST, KIND_PAGE_FAULT, NEAREST_OUTER, NEAREST_SAME_CLAN};
use keel_l4::abi::fpage::{FPAGE_WRITE, PAGE_SIZE};
use keel_l4::abi::ids::{LTHREAD_TASK, TASK_ROOT, VERSION_MAX};
use keel_l4::abi::memory::{AREA_DEFAULT, AREA_UTCBS, KIP_MAGIC, KIP_VERSION};
use keel_l4::call::{invoke, Registers};
use keel_l4::ipc::{call, receive, send, sleep, Message, Timeout};
use keel_l4::kip::{kip, now};
use keel_l4::thread::nearest;
use keel_l4::{utcb, Id};

pub const CASES: &[Case] = &[
    ("own-id", own_id),
    ("utcb-place", utcb_place),
    ("helper-utcb-place", helper_utcb_place),
    ("nearest-other-task", nearest_other_task),
    ("nearest-own-thread", nearest_own_thread),
    ("nearest-of-no-thread", nearest_no_thread),
    ("nearest-deleted", nearest_deleted),
    ("version-grows-with-lthread", version_grows),
    ("old-id-never-names-new-thread", old_id),
    ("task-id-shape", task_id_shape),
    ("task-version-grows", task_version_grows),
    ("constants-name-the-first-tasks", first_tasks),
    ("kip", kip_words),
    ("kip-is-read-only", kip_read_only),
    ("clock-runs", clock_runs),
    ("registers-are-kept", registers_kept),
];

extern "C" fn idle(_: u64) -> ! {
    park()
}

fn own_id() -> Outcome {
    same!("nearest of nil", nearest(Id::NIL)?.0, utcb::my_id());
    holds!("a version of at least 1", utcb::my_id().version() >= 1);
    Ok(())
}

fn utcb_place() -> Outcome {
    let expected = AREA_DEFAULT + AREA_UTCBS + utcb::my_id().lthread() as u64 * PAGE_SIZE;
    same!("address of the UTCB", utcb::address() as u64, expected);
    Ok(())
}

extern "C" fn tell_utcb(to: u64) -> ! {
    let words = [utcb::address() as u64, utcb::my_id().0];
    let _ = send(Id(to), Message::new(0, &words), Timeout::Never);
    park()
}

fn helper_utcb_place() -> Outcome {
    let id = helper(tell_utcb, utcb::my_id().0)?;
    let told = receive(id, Timeout::Never)?;
    same!("UTCB of a helper", told.words[0], AREA_DEFAULT + AREA_UTCBS + id.lthread() as u64 * PAGE_SIZE);
    same!("id in its UTCB", told.words[1], id.0);
    Ok(())
}

fn nearest_other_task() -> Outcome {
    same!("nearest of the root task", nearest(Id::ROOT)?, (Id::ROOT, NEAREST_SAME_CLAN));
    Ok(())
}

fn nearest_own_thread() -> Outcome {
    same!("nearest of the pager", nearest(own(PAGER))?, (own(PAGER), NEAREST_SAME_CLAN));
    Ok(())
}

fn nearest_no_thread() -> Outcome {
    for id in [Id::INVALID, Id::thread(1, 0xffff, 0, 1), Id::thread(VERSION_MAX, TASK_ROOT as u32, 0, 1)] {
        refused!("nearest of no thread", nearest(id), Call NoPartner);
    }
    Ok(())
}

fn nearest_deleted() -> Outcome {
    let id = helper(idle, 0)?;
    same!("nearest while it lives", nearest(id)?.0, id);
    remove(id)?;
    refused!("nearest of a deleted thread", nearest(id), Call NoPartner);
    Ok(())
}

fn version_grows() -> Outcome {
    let mut last = 0;
    for _ in 0..50 {
        let id = Spawn { number: 9, ..Spawn::light(idle, 0) }.create()?;
        same!("lthread number", id.lthread(), 9);
        holds!("a version above the last", id.version() > last);
        last = id.version();
        remove(id)?;
    }
    Ok(())
}

fn old_id() -> Outcome {
    let old = Spawn { number: 9, ..Spawn::new(idle, 0) }.start()?;
    remove(old)?;
    let new = Spawn { number: 9, ..Spawn::new(idle, 0) }.start()?;
    holds!("another id", old != new);
    refused!("a message to the old id", send(old, Message::label(0), Timeout::Zero), Send NoPartner);
    refused!("deleting the old id", remove(old), Call NoPartner);
    same!("the new thread lives", nearest(new)?.0, new);
    Ok(())
}

fn task_id_shape() -> Outcome {
    let child = child(idle, 0)?;
    same!("lthread field of a task's id", child.task.lthread() as u64, LTHREAD_TASK);
    same!("task field", child.task.task(), child.number);
    same!("nesting below the creator's", child.task.nesting(), own(RUNNER).nesting() + 1);
    Ok(())
}

fn task_version_grows() -> Outcome {
    let plan = crate::threads::child_plan(idle, 0);
    let first = crate::threads::make_child(&plan)?;
    remove_task(plan.number)?;
    let second = crate::threads::make_child(&plan)?;
    holds!("a new version", second.task.version() > first.task.version());
    refused!("a message to the first", send(first.thread, Message::label(0), Timeout::Zero), Send NoPartner);
    Ok(())
}

fn first_tasks() -> Outcome {
    same!("nearest of the root task", nearest(Id::ROOT)?, (Id::ROOT, NEAREST_SAME_CLAN));
    same!("nearest of sigma0", nearest(Id::SIGMA0)?, (Id::ROOT, NEAREST_OUTER));
    for id in [Id::SIGMA0, Id::ROOT] {
        // A server answers an unknown label with an error, which shows that it is alive.
        holds!("an answer with an error", call(id, Message::label(0x7777))?.tag.label() != 0);
    }
    Ok(())
}

fn kip_words() -> Outcome {
    same!("magic", kip().magic, KIP_MAGIC);
    same!("version", kip().version, KIP_VERSION);
    holds!("a frequency", kip().tsc_hz > 1_000_000);
    holds!("an FPU state's size", kip().fpu_size >= 512 && kip().fpu_size % 8 == 0);
    holds!("x87 and SSE in the mask", kip().fpu_mask & 3 == 3);
    holds!("a pool", kip().pool_pages > 0);
    Ok(())
}

extern "C" fn write_info(_: u64) -> ! {
    // SAFETY: this never succeeds; the case checks that.
    unsafe { pool::poke(AREA_DEFAULT, 0) };
    park()
}

fn kip_read_only() -> Outcome {
    let id = Spawn::watched(write_info, 0).start()?;
    let fault = receive(id, Timeout::Never)?;
    same!("kind", fault.tag.kind(), KIND_PAGE_FAULT);
    same!("access, address", (fault.tag.label() as u64, fault.words[0]), (FPAGE_WRITE, AREA_DEFAULT));
    same!("magic afterwards", kip().magic, KIP_MAGIC);
    Ok(())
}

fn clock_runs() -> Outcome {
    let before = now();
    sleep(2_000_000);
    let slept = now() - before;
    holds!("at least 2 ms of sleep", slept >= 2_000_000);
    holds!("less than 2 s of sleep", slept < 2_000_000_000);
    Ok(())
}

fn registers_kept() -> Outcome {
    let before = Registers { ax: CALL_ID_NEAREST, di: 0, si: 0, dx: 0x1234, words: [1, 2, 3, 4, 5, 6] };
    let after = invoke(before);
    same!("rdx and the words", (after.dx, after.words), (before.dx, before.words));
    Ok(())
}
