// SPDX-License-Identifier: BSD-2-Clause
//! A program that the root task starts: what it finds, and how it ends. `program!` names its main
//! function, which may be plain, safe Rust.

use crate::call::Failure;
use crate::clan::Role;
use crate::memory::Memory;
use crate::{println, record, root, start, thread};
use core::ops::Range;
use keel_abi::boot::{Start, DIRECT_MAP, SHUTDOWN_PANIC, SHUTDOWN_POWER_OFF};
use keel_abi::Id;

/// What a program has.
#[derive(Debug)]
pub struct Program {
    /// All that the root task told it.
    pub record: &'static Start,
    /// Its memory.
    pub memory: Memory,
    /// The numbers of the tasks that it may create.
    pub numbers: Range<u32>,
}

impl Program {
    /// The value of `key=value` on its command line.
    pub fn option(&self, key: &str) -> Option<&'static str> {
        record::option(record::command_line(self.record), key)
    }

    /// The boot module that its configuration names as `initrd`; empty if there is none.
    pub fn module(&self) -> &'static [u8] {
        if self.record.initrd_size == 0 {
            return &[];
        }
        let (start, size) = (DIRECT_MAP + self.record.initrd_phys, self.record.initrd_size);
        // SAFETY: the root task mapped the module there, and `Memory` does not hand it out.
        unsafe { core::slice::from_raw_parts(start as *const u8, size as usize) }
    }
}

/// The first thread's main function: of a child of its clan, else `main`.
///
/// # Safety
/// `argument` must be what the task's creator put into rdi, and this its first call.
pub unsafe fn run(argument: u64, main: fn(Program) -> Result<(), Failure>) -> ! {
    if let Some(role) = Role::mine() {
        root::set_parent(role.parent);
        conclude((role.main)(role.argument));
    }
    // SAFETY: the creator is the root task or does as it does: the address of a record, or 0.
    let Some(record) = (unsafe { record::at(argument) }) else {
        println!("there is no start record");
        start::stop();
    };
    root::set_parent(Id(record.root));
    let first = record.task_first as u32;
    // SAFETY: the caller's promise; nobody else reads the record.
    let memory = unsafe { Memory::new(record) };
    let count = if record.task_first == 0 { 0 } else { 1 << record.task_log2 };
    conclude(main(Program { record, memory, numbers: first..first + count }))
}

/// Ends the program, with the machine where it may.
fn conclude(result: Result<(), Failure>) -> ! {
    let code = match result {
        Ok(()) => SHUTDOWN_POWER_OFF,
        Err(failure) => {
            println!("it failed: {failure}");
            SHUTDOWN_PANIC
        }
    };
    // Most programs may not end the machine: they stand still.
    let _ = root::end(code);
    thread::park()
}

/// Defines `_start` for the main function `$main: fn(Program) -> Result<(), Failure>`. When it
/// returns, the parent is asked to end the machine: with `SHUTDOWN_POWER_OFF`, or with `SHUTDOWN_PANIC` and a
/// line that tells the failure. `$failed: fn(u64, Failure)` learns of every call that fails.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        $crate::program!($main, $crate::call::ignore);
    };
    ($main:path, $failed:path) => {
        $crate::entry!(run_program, $failed);

        extern "C" fn run_program(argument: u64) -> ! {
            // SAFETY: `_start` comes here and nobody else, with the creator's rdi.
            unsafe { $crate::program::run(argument, $main) }
        }
    };
}
