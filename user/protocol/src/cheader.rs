// SPDX-License-Identifier: BSD-2-Clause
//! The generator of the C header, from the same tables as the Rust constants.

use core::fmt::{self, Write};
use keel_abi::describe::{Constant, Layout};
use keel_abi::{call, fpage, ids, memory, panic, programs, trace};

/// All constants, by module.
pub const CONSTANTS: &[&[Constant]] = &[
    ids::CONSTANTS,
    fpage::CONSTANTS,
    call::CONSTANTS,
    memory::CONSTANTS,
    programs::CONSTANTS,
    panic::CONSTANTS,
    trace::CONSTANTS,
    crate::boot::CONSTANTS,
    crate::sigma0::CONSTANTS,
    crate::linux::CONSTANTS,
    crate::small::CONSTANTS,
    crate::status::CONSTANTS,
];

/// All structures, each after the structures that it needs.
pub const LAYOUTS: &[Layout] = &[
    memory::MapItem::LAYOUT,
    memory::StringItem::LAYOUT,
    programs::UnmapRange::LAYOUT,
    crate::linux::LinuxNative::LAYOUT,
    memory::ExRegs::LAYOUT,
    memory::Utcb::LAYOUT,
    memory::Frame::LAYOUT,
    programs::Region::LAYOUT,
    memory::Info::LAYOUT,
    crate::boot::Start::LAYOUT,
    trace::TraceRecord::LAYOUT,
];

/// Writes the header. Assembly files may include it: the structures are hidden from them.
pub fn write(out: &mut impl Write) -> fmt::Result {
    // REUSE-IgnoreStart (the licence of the header, not of this file)
    out.write_str("/* SPDX-License-Identifier: BSD-2-Clause */\n")?;
    // REUSE-IgnoreEnd
    out.write_str("/* Made from Keel's crates abi and user/protocol; change those, not this. */\n")?;
    out.write_str("#ifndef KEEL_ABI_H\n#define KEEL_ABI_H\n\n")?;
    for constant in CONSTANTS.iter().copied().flatten() {
        writeln!(out, "/*{} */", constant.doc)?;
        writeln!(out, "#define KEEL_{} {:#x}", constant.name, constant.value)?;
    }
    // On x86-64 the type is the one of Linux's own words, which printf's formats of Linux expect.
    out.write_str("\n#ifndef __ASSEMBLY__\n\n#ifdef __i386__\ntypedef unsigned long long keel_word;\n")?;
    out.write_str("#else\ntypedef unsigned long keel_word;\n#endif\n")?;
    for layout in LAYOUTS {
        write_layout(out, layout)?;
    }
    out.write_str("#endif /* __ASSEMBLY__ */\n\n#endif /* KEEL_ABI_H */\n")
}

fn write_layout(out: &mut impl Write, layout: &Layout) -> fmt::Result {
    write!(out, "\n/*{} */\nstruct keel_", layout.doc)?;
    write_snake(out, layout.name)?;
    out.write_str(" {\n")?;
    for field in layout.fields {
        write!(out, "\tkeel_word {}", field.name)?;
        if field.words != 1 {
            write!(out, "[{}]", field.words)?;
        }
        writeln!(out, ";\t/*{}; offset {:#x} */", field.doc, field.offset)?;
    }
    out.write_str("};\n")
}

fn write_snake(out: &mut impl Write, camel: &str) -> fmt::Result {
    for (place, letter) in camel.chars().enumerate() {
        if letter.is_ascii_uppercase() && place > 0 {
            out.write_char('_')?;
        }
        out.write_char(letter.to_ascii_lowercase())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::string::String;

    #[test]
    fn header_defines_constants_and_structures() {
        let mut header = String::new();
        super::write(&mut header).unwrap();
        assert!(header.contains("#define KEEL_CALL_TASK_NEW 0x6\n"));
        assert!(header.contains("struct keel_map_item {\n"));
        assert!(header.contains("\tkeel_word words[128];"));
    }

    #[test]
    fn constant_names_are_unique() {
        let mut names: std::vec::Vec<_> = super::CONSTANTS.iter().copied().flatten().map(|c| c.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
