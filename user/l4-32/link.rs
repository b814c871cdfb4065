// SPDX-License-Identifier: BSD-2-Clause
//! The build script of programs of 32 bits: links them with their common layout.

fn main() {
    let library = concat!(env!("CARGO_MANIFEST_DIR"), "/../../l4-32/small.ld");
    let included = concat!(env!("CARGO_MANIFEST_DIR"), "/../../l4");
    println!("cargo:rerun-if-changed={library}");
    println!("cargo:rerun-if-changed={included}/program.ld");
    println!("cargo:rustc-link-arg-bins=-L{included}");
    println!("cargo:rustc-link-arg-bins=-T{library}");
}
