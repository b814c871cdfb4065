// SPDX-License-Identifier: GPL-2.0-only
//! What the definitions of the kernel's objects have in common.

/// A structure whose fields stand beside the values that `new` gives them: `struct Name const
/// (arguments of new) { field: Type = value, ... }`, without `const` if some of them are only known
/// later.
macro_rules! object {
    ($(#[$about:meta])* $vis:vis struct $name:ident $(<$param:ident: $bound:ident>)? $($const:ident)? ($($argument:ident: $of:ty),*) {
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
