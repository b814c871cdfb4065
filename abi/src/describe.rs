// SPDX-License-Identifier: BSD-2-Clause
//! Descriptions of the ABI's facts: names, values and texts, from which `user/protocol` makes the C
//! header that the Linux server includes, and which the kernel's debugger and the tests show.
//!
//! They are constants: a program that does not use them has nothing of them.

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

/// Makes the table of constants that are defined.
#[macro_export]
macro_rules! table {
    ($(#[doc = $about:literal])* $table:ident; $( $(#[doc = $doc:literal])+ $name:ident; )*) => {
        $(#[doc = $about])*
        pub const $table: &[$crate::describe::Constant] = &[
            $( $crate::describe::Constant { name: stringify!($name), value: $name, doc: concat!($($doc),+) }, )*
        ];
    };
}

/// Makes the description of a structure that is defined, as its constant `LAYOUT`.
#[macro_export]
macro_rules! description {
    ($(#[doc = $about:literal])+ $name:ident { $( $(#[doc = $doc:literal])+ $field:ident : $ty:ty, )* }) => {
        impl $name {
            /// The description from which the C header is made.
            pub const LAYOUT: $crate::describe::Layout = $crate::describe::Layout {
                name: stringify!($name),
                size: core::mem::size_of::<$name>(),
                fields: &[ $( $crate::describe::Field {
                    name: stringify!($field),
                    offset: core::mem::offset_of!($name, $field),
                    words: core::mem::size_of::<$ty>() / 8,
                    doc: concat!($($doc),+),
                }, )* ],
                doc: concat!($($about),+),
            };
        }
    };
}
