// SPDX-License-Identifier: BSD-2-Clause
//! The program that the pager loads page by page. It is an ordinary program that reads a small part
//! of a large table. It knows nothing about its pager.

#![no_std]
#![no_main]

use keel_l4::call::Failure;
use keel_l4::println;
use keel_l4::program::Program;

keel_l4::program!(main);

/// A page of the table.
#[repr(C, align(4096))]
struct Page([u64; 512]);

/// Constants of 64 pages: page n contains only n.
static TABLE: [Page; 64] = {
    let mut table = [const { Page([0; 512]) }; 64];
    let mut page = 0;
    while page < table.len() {
        table[page] = Page([page as u64; 512]);
        page += 1;
    }
    table
};

fn main(program: Program) -> Result<(), Failure> {
    let words = program.option("words").unwrap_or("");
    println!("guest: I was given the words '{words}'");
    for page in [3, 60, 3] {
        // The compiler does not know this index, so the table is really read.
        let index = core::hint::black_box(page);
        println!("guest: page {page} of my table holds {}", TABLE[index].0[page]);
    }
    Ok(())
}
