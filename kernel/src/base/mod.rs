// SPDX-License-Identifier: GPL-2.0-only
//! Structures and small tools that know nothing of the kernel.

#[macro_use]
pub mod object;
pub mod address;
pub mod facts;
#[allow(unsafe_code, reason = "statics that several processors reach by the rules of `percpu::lock`")]
pub mod global;
pub mod list;
#[allow(unsafe_code, reason = "arithmetic that the compiler must not turn into a branch")]
pub mod nospec;
pub mod reach;
#[allow(unsafe_code, reason = "a `Ref` is valid as long as whoever deletes an object keeps to its rule")]
pub mod refs;

pub use address::{PhysAddr, VirtAddr};
/// What changes of the kernel's state is in cells, by the rules of `global` and `refs`.
pub use core::cell::Cell;
pub use global::Global;
pub use list::{Linked, Links, List};
pub use nospec::nospec;
pub use reach::Reach;
pub use refs::Ref;

/// The names of the binary interface, most of which a file that knows it uses.
pub mod abi {
    pub use keel_abi::{call::*, fpage::*, ids::*, memory::*, ranges::Range, ranges::Ranges, word, word::Word};
}
