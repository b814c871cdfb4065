// SPDX-License-Identifier: BSD-2-Clause
//! Prints the C header of the interface on standard output.

fn main() {
    let mut header = String::new();
    keel_protocol::cheader::write(&mut header).expect("a String takes any text");
    print!("{header}");
}
