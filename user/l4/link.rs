// SPDX-License-Identifier: BSD-2-Clause
//! The build script of native programs: links them with the common layout at the common address.

/// First address of the image.
const LINK_BASE: u64 = 0x1000000;

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../l4/program.ld");
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--defsym=LINK_BASE={LINK_BASE:#x}");
}
