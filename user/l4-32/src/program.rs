// SPDX-License-Identifier: BSD-2-Clause
//! A program that `keel_l4::small` starts: what it has at its start, and how it exits.

use crate::call::Failure;
use crate::{parent, println};
use keel_abi::Id;
use keel_protocol::boot::{SHUTDOWN_PANIC, SHUTDOWN_POWER_OFF};

/// What a program has at its start.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What it is to do: its parent says which of the image's programs it is.
    pub role: u32,
    /// The thread with which it has to do, or nil.
    pub partner: Id,
}

/// Calls the main function, and exits.
pub fn run(parent: u64, main: fn(Program) -> Result<(), Failure>) -> ! {
    parent::set_parent(Id(parent));
    let result = parent::start().and_then(|(role, partner)| main(Program { role, partner }));
    let code = match result {
        Ok(()) => SHUTDOWN_POWER_OFF,
        Err(failure) => {
            println!("it failed: {failure}");
            SHUTDOWN_PANIC
        }
    };
    parent::exit(code as u32);
    stop()
}

/// Raises an exception that no handler resolves, so that the thread stops.
fn stop() -> ! {
    loop {
        // SAFETY: ud2 only raises #UD.
        unsafe { core::arch::asm!("ud2", options(nomem, nostack)) };
    }
}

/// Prints the reason and stops the thread.
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("panic: {info}");
    stop()
}

/// Defines the main function `$main: fn(Program) -> Result<(), Failure>`, which the first
/// instructions reach.
#[macro_export]
macro_rules! program {
    ($main:path) => {
        #[no_mangle]
        extern "C" fn keel32_main(parent: u64) -> ! {
            $crate::program::run(parent, $main)
        }
    };
}
