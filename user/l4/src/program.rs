// SPDX-License-Identifier: BSD-2-Clause
//! A program that the root task or a chief starts: what it has at its start, and how it exits.
//! `program!` names its main function, which can be plain, safe Rust.

use crate::call::Failure;
use crate::clan::Role;
use crate::memory::Memory;
use crate::{println, record, root, start, thread};
use core::ops::Range;
use keel_abi::Id;
use keel_protocol::boot::{Start, DIRECT_MAP, SHUTDOWN_PANIC, SHUTDOWN_POWER_OFF};

/// What a program has at its start.
#[derive(Debug)]
pub struct Program {
    /// The start record that the root task wrote.
    pub record: &'static Start,
    /// Its memory.
    pub memory: Memory,
    /// The numbers of the tasks that it may create.
    pub numbers: Range<u32>,
}

impl Program {
    /// The value of `key=value` on its command line, if it is there.
    pub fn option(&self, key: &str) -> Option<&'static str> {
        record::option(record::command_line(self.record), key)
    }

    /// The boot module that the configuration names as `initrd`; empty if there is none.
    pub fn module(&self) -> &'static [u8] {
        if self.record.initrd_size == 0 {
            return &[];
        }
        let (start, size) = (DIRECT_MAP + self.record.initrd_phys, self.record.initrd_size);
        // SAFETY: the root task mapped the module there, and `Memory` does not give it out.
        unsafe { core::slice::from_raw_parts(start as *const u8, size as usize) }
    }
}

/// Calls the first thread's main function: the child's, if the task is a child of a clan, otherwise
/// `main`. Then exits.
///
/// # Safety
/// `argument` must be the value that the task's creator put into rdi, and this must be its first
/// call.
pub unsafe fn run(argument: u64, main: fn(Program) -> Result<(), Failure>) -> ! {
    if let Some(role) = Role::mine() {
        root::set_parent(role.parent);
        exit((role.main)(role.argument));
    }
    // SAFETY: the creator is the root task or follows its protocol: the argument is the address of
    // a record, or 0.
    let Some(record) = (unsafe { record::at(argument) }) else {
        println!("there is no start record");
        start::stop();
    };
    root::set_parent(Id(record.root));
    let first = record.task_first as u32;
    // SAFETY: by this function's own contract; nothing else reads the record.
    let memory = unsafe { Memory::new(record) };
    let count = if record.task_first == 0 { 0 } else { 1 << record.task_log2 };
    exit(main(Program { record, memory, numbers: first..first + count }))
}

/// Exits: asks the parent to shut the machine down, then stops.
fn exit(result: Result<(), Failure>) -> ! {
    let code = match result {
        Ok(()) => SHUTDOWN_POWER_OFF,
        Err(failure) => {
            println!("it failed: {failure}");
            SHUTDOWN_PANIC
        }
    };
    // Most programs may not shut the machine down; they stop here.
    let _ = root::shut_down(code);
    thread::park()
}

/// Defines `_start` for the main function `$main: fn(Program) -> Result<(), Failure>`. When it
/// returns, the parent is asked to shut the machine down: with `SHUTDOWN_POWER_OFF`, or after a
/// failure with `SHUTDOWN_PANIC` and a line that names the failure. Every call that fails is
/// reported to `$failed: fn(u64, Failure)`.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        $crate::program!($main, $crate::call::ignore);
    };
    ($main:path, $failed:path) => {
        $crate::entry!(run_program, $failed);

        extern "C" fn run_program(argument: u64) -> ! {
            // SAFETY: only `_start` calls this, with the creator's rdi.
            unsafe { $crate::program::run(argument, $main) }
        }
    };
}
