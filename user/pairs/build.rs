// SPDX-License-Identifier: BSD-2-Clause
//! Links the program with the common layout in the upper half of its space.

/// First address of the image: where Linux's is.
const LINK_BASE: u64 = 0xffff_ffff_c100_0000;

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../l4/program.ld");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--defsym=LINK_BASE={LINK_BASE:#x}");
}
