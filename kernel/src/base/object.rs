// SPDX-License-Identifier: GPL-2.0-only
//! What the definitions of the kernel's objects and numbers have in common.

/// A number of one kind, for which no other kind can stand: 0 means none of them. `new` and `raw`
/// are for where it comes from and goes to as a bare number: users' words, tables, assembly.
macro_rules! newtype {
    ($(#[$about:meta])* $vis:vis struct $name:ident($raw:ty);) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
        #[repr(transparent)]
        $vis struct $name($raw);

        impl $name {
            /// None.
            pub const NONE: $name = $name(0);

            /// The one of this number.
            pub const fn new(raw: $raw) -> $name {
                $name(raw)
            }

            /// Its number.
            pub const fn raw(self) -> $raw {
                self.0
            }
        }
    };
}

/// A structure whose fields stand beside the values that `new` gives them: `struct Name const
/// (arguments of new) { field: Type = value, ... }`, without `const` if some of them are only known
/// later.
macro_rules! object {
    ($(#[$about:meta])* $vis:vis struct $name:ident $(<$param:ident: $bound:path>)? $($const:ident)? ($($argument:ident: $of:ty),*) {
        $($(#[$doc:meta])* $fvis:vis $field:ident: $type:ty = $value:expr,)*
    }) => {
        $(#[$about])*
        $vis struct $name $(<$param: $bound>)? { $($(#[$doc])* $fvis $field: $type,)* }

        impl $(<$param: $bound>)? $name $(<$param>)? {
            /// With the values that stand at the fields.
            pub $($const)? fn new($($argument: $of),*) -> Self {
                $name { $($field: $value,)* }
            }
        }
    };
}

/// Which of an object's links the lists with a tag use.
macro_rules! linked {
    ($type:ty, $tag:ty, $links:ident) => {
        impl crate::base::list::Linked<$tag> for $type {
            fn links(&self) -> &crate::base::list::Links<$type> {
                &self.$links
            }
        }
    };
}
