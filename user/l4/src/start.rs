// SPDX-License-Identifier: BSD-2-Clause
//! A program's first and last instructions: the stack, the call of its main function, and what a
//! panic does.

/// Bytes of the first lthread's stack.
pub const STACK_BYTES: usize = 256 << 10;

/// The stack on which the first lthread starts.
#[repr(C, align(4096))]
pub struct Stack(pub core::cell::UnsafeCell<[u8; STACK_BYTES]>);

// SAFETY: only the one thread that starts on it touches it.
unsafe impl Sync for Stack {}

impl Stack {
    /// A stack.
    pub const fn new() -> Stack {
        Stack(core::cell::UnsafeCell::new([0; STACK_BYTES]))
    }
}

impl Default for Stack {
    fn default() -> Stack {
        Stack::new()
    }
}

/// Defines `_start`, which calls `$main: extern "C" fn(u64) -> !` with what the creator gave in rdi.
#[macro_export]
macro_rules! entry {
    ($main:path) => {
        static FIRST_STACK: $crate::start::Stack = $crate::start::Stack::new();

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

/// Raises an exception that nobody mends: the thread's handler stops it.
pub fn stop() -> ! {
    loop {
        // SAFETY: ud2 only raises #UD.
        unsafe { core::arch::asm!("ud2", options(nomem, nostack)) };
    }
}

/// Says what happened and stops the thread.
#[cfg(all(not(test), target_os = "none"))]
#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    crate::println!("panic: {info}");
    stop()
}
