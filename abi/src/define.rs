// SPDX-License-Identifier: BSD-2-Clause
//! The two macros from which an ABI fact gets its Rust definition and its description
//! (`describe.rs`).
//!
//! `constants!` makes `pub const`s and a table of their names and values. `layout!` makes
//! `#[repr(C)]` structures of 64-bit fields and descriptions of them.

/// Defines constants of type `u64`, and the table `$table` of them.
#[macro_export]
macro_rules! constants {
    ($(#[doc = $tdoc:literal])* $table:ident; $( $(#[doc = $doc:literal])+ $name:ident = $value:expr; )*) => {
        $( $(#[doc = $doc])+ pub const $name: u64 = $value; )*
        $crate::table! { $(#[doc = $tdoc])* $table; $( $(#[doc = $doc])+ $name; )* }
    };
}

/// Defines `#[repr(C)]` structures whose fields are `u64` or `[u64; N]`, each with its description
/// in the associated constant `LAYOUT`. With `as` it also defines the same structure of `Word`s,
/// for memory that is shared.
#[macro_export]
macro_rules! layout {
    () => {};
    ($(#[doc = $sdoc:literal])+ $name:ident as $shared:ident {
        $( $(#[doc = $doc:literal])+ $field:ident : $ty:ty, )*
    } $($more:tt)*) => {
        $crate::layout! { $(#[doc = $sdoc])+ $name { $( $(#[doc = $doc])+ $field: $ty, )* } $($more)* }

        $(#[doc = $sdoc])+
        #[repr(C)]
        pub struct $shared { $( $(#[doc = $doc])+ pub $field: <$ty as $crate::word::Field>::Shared, )* }

        impl $shared {
            /// Number of its words.
            pub const WORDS: usize = core::mem::size_of::<$shared>() / 8;

            /// Returns it as an array of words.
            pub fn words(&self) -> &[$crate::word::Word; $shared::WORDS] {
                // SAFETY: it consists of exactly these words.
                unsafe { &*(self as *const $shared).cast() }
            }
        }
    };
    ($(#[doc = $sdoc:literal])+ $name:ident {
        $( $(#[doc = $doc:literal])+ $field:ident : $ty:ty, )*
    } $($more:tt)*) => {
        $(#[doc = $sdoc])+
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $ty, )* }

        $crate::description! { $(#[doc = $sdoc])+ $name { $( $(#[doc = $doc])+ $field: $ty, )* } }

        impl $name {
            /// Returns a structure with all words zero.
            pub const fn zeroed() -> Self {
                // SAFETY: every field is a u64 or an array of u64, for which all bits zero is
                // valid.
                unsafe { core::mem::zeroed() }
            }
        }

        $crate::layout! { $($more)* }
    };
}
