// SPDX-License-Identifier: BSD-2-Clause
//! The two macros from which an ABI fact gets its Rust definition and its C text.
//!
//! `constants!` makes `pub const`s and a table of their names and values. `layout!` makes a
//! `#[repr(C)]` structure of 64-bit fields and a description of it.
//! `cheader.rs` turns tables and descriptions into the header that the Linux server includes.

/// A constant in the C header.
#[derive(Clone, Copy, Debug)]
pub struct Constant {
    /// The Rust name; C prefixes it with `KEEL_`.
    pub name: &'static str,
    /// Its value.
    pub value: u64,
    /// Its documentation, one line.
    pub doc: &'static str,
}

/// One field of a structure: a 64-bit word or an array of them.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// Field name, the same in both languages.
    pub name: &'static str,
    /// Byte offset from the start of the structure.
    pub offset: usize,
    /// Number of 64-bit words.
    pub words: usize,
    /// Documentation, one line.
    pub doc: &'static str,
}

/// One structure.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The Rust name; C uses `struct keel_` and the name in lower case.
    pub name: &'static str,
    /// Its size in bytes.
    pub size: usize,
    /// Its fields in order.
    pub fields: &'static [Field],
    /// Documentation, one line.
    pub doc: &'static str,
}

/// Defines constants of type `u64`, and the table `$table` of them.
#[macro_export]
macro_rules! constants {
    ($(#[doc = $tdoc:literal])* $table:ident; $( $(#[doc = $doc:literal])+ $name:ident = $value:expr; )*) => {
        $( $(#[doc = $doc])+ pub const $name: u64 = $value; )*
        $(#[doc = $tdoc])*
        pub const $table: &[$crate::define::Constant] = &[
            $( $crate::define::Constant { name: stringify!($name), value: $name, doc: concat!($($doc),+) }, )*
        ];
    };
}

/// Defines a `#[repr(C)]` structure whose fields are `u64` or `[u64; N]`, with its description in
/// the associated constant `LAYOUT`. With `as` it also defines the same structure of `Word`s, for
/// memory that is shared.
#[macro_export]
macro_rules! layout {
    ($(#[doc = $sdoc:literal])+ $name:ident as $shared:ident {
        $( $(#[doc = $doc:literal])+ $field:ident : $ty:ty, )*
    }) => {
        $crate::layout! { $(#[doc = $sdoc])+ $name { $( $(#[doc = $doc])+ $field: $ty, )* } }

        $(#[doc = $sdoc])+
        #[repr(C)]
        pub struct $shared { $( $(#[doc = $doc])+ pub $field: <$ty as $crate::word::Field>::Shared, )* }

        impl $shared {
            /// Number of its words.
            pub const WORDS: usize = core::mem::size_of::<$shared>() / 8;

            /// Returns it as an array of words.
            #[inline]
            pub fn words(&self) -> &[$crate::word::Word; $shared::WORDS] {
                // SAFETY: it consists of exactly these words.
                unsafe { &*(self as *const $shared).cast() }
            }
        }
    };
    ($(#[doc = $sdoc:literal])+ $name:ident { $( $(#[doc = $doc:literal])+ $field:ident : $ty:ty, )* }) => {
        $(#[doc = $sdoc])+
        #[repr(C)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $ty, )* }

        impl $name {
            /// The description from which the C header is made.
            pub const LAYOUT: $crate::define::Layout = $crate::define::Layout {
                name: stringify!($name),
                size: core::mem::size_of::<$name>(),
                fields: &[ $( $crate::define::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    words: core::mem::size_of::<$ty>() / 8,
                    doc: concat!($($doc),+),
                }, )* ],
                doc: concat!($($sdoc),+),
            };

            /// Returns a structure with all words zero.
            pub const fn zeroed() -> Self {
                // SAFETY: every field is a u64 or an array of u64, for which all bits zero is
                // valid.
                unsafe { core::mem::zeroed() }
            }
        }
    };
}
