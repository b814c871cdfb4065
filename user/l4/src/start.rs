// SPDX-License-Identifier: BSD-2-Clause
//! A program's first and last instructions: the stack, the call of the main function, and the panic
//! handler.

use crate::call::Failure;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering};
use keel_abi::Error;

/// Bytes of the first lthread's stack.
pub const STACK_BYTES: usize = 256 << 10;

/// A stack of `BYTES` bytes, for one thread at a time.
#[repr(C, align(4096))]
pub struct Stack<const BYTES: usize> {
    bytes: UnsafeCell<[u8; BYTES]>,
    taken: AtomicBool,
}

// SAFETY: only the thread that runs on the stack accesses the bytes, and `taken` ensures that it is
// one.
unsafe impl<const BYTES: usize> Sync for Stack<BYTES> {}

impl<const BYTES: usize> Stack<BYTES> {
    /// A free stack.
    pub const fn new() -> Stack<BYTES> {
        Stack { bytes: UnsafeCell::new([0; BYTES]), taken: AtomicBool::new(false) }
    }

    /// Takes the stack for a thread. Returns its top, aligned as at a function's first instruction.
    /// `Busy` if it is taken.
    pub fn take(&'static self) -> Result<u64, Failure> {
        if self.taken.swap(true, Ordering::Relaxed) {
            return Err(Failure::call(Error::Busy));
        }
        Ok(self.bytes.get() as u64 + (BYTES - size_of::<u64>()) as u64)
    }

    /// Returns the stack.
    ///
    /// # Safety
    /// The thread that ran on it must no longer exist.
    pub unsafe fn give_back(&self) {
        self.taken.store(false, Ordering::Relaxed);
    }
}

impl<const BYTES: usize> Default for Stack<BYTES> {
    fn default() -> Stack<BYTES> {
        Stack::new()
    }
}

/// Defines `_start`, which calls `$main: extern "C" fn(u64) -> !` with the creator's rdi. Every
/// call that fails is reported to `$failed: fn(u64, Failure)`, with its number.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        $crate::entry!($main, $crate::call::ignore);
    };
    ($main:path, $failed:path) => {
        #[no_mangle]
        fn keel_call_failed(call: u64, failure: $crate::call::Failure) {
            $failed(call, failure);
        }

        static FIRST_STACK: $crate::start::Stack<{ $crate::start::STACK_BYTES }> = $crate::start::Stack::new();

        core::arch::global_asm!(
            ".section .text.start, \"ax\"",
            ".global _start",
            "_start:",
            "lea rsp, [rip + {stack} + {size}]",
            "xor ebp, ebp",
            "call {main}",
            "ud2",
            ".text",
            stack = sym FIRST_STACK,
            size = const $crate::start::STACK_BYTES,
            main = sym $main,
        );
    };
}

/// Raises an exception that no handler resolves, so that the thread stops.
pub fn stop() -> ! {
    loop {
        // SAFETY: ud2 only raises #UD.
        unsafe { core::arch::asm!("ud2", options(nomem, nostack)) };
    }
}

/// Prints the reason and stops the thread.
#[cfg(all(not(test), target_os = "none"))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    crate::println!("panic: {info}");
    stop()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_for_one_thread_at_a_time() {
        static STACK: Stack<4096> = Stack::new();
        let top = STACK.take().unwrap();
        assert_eq!((top % 16, STACK.take()), (8, Err(Failure::call(Error::Busy))));
        // SAFETY: no thread ever ran on it.
        unsafe { STACK.give_back() };
        assert_eq!(STACK.take(), Ok(top));
    }
}
