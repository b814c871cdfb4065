// SPDX-License-Identifier: GPL-2.0-only
//! Hands the linker script to the linker when the kernel is built without an operating system
//! below.

fn main() {
    println!("cargo:rerun-if-changed=link.ld");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("none") {
        let dir = std::env::var("CARGO_MANIFEST_DIR").expect("cargo sets it");
        println!("cargo:rustc-link-arg=-T{dir}/link.ld");
        // The multiboot header describes one contiguous piece of the file: offsets and addresses
        // must move together.
        println!("cargo:rustc-link-arg=-zmax-page-size=4096");
    }
}
