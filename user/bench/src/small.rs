// SPDX-License-Identifier: BSD-2-Clause
//! Figure 4 of "Performance of Address-Space Multiplexing on the Pentium" (Uhlig, Dannowski,
//! Skoglund, Haeberlen, Heiser) between native tasks, with `args small ROW/SIZE...`: round trips by
//! `int 0x80` between two tasks that run 32-bit code, of which the client uses some of the TLBs or
//! of the trace cache before each message. Each row is measured twice: the tasks are in windows of
//! this task's tables (`small-`), and in spaces of their own (`large-`).
//!
//! The work is that of its section 4.1: reads of 4 bytes, 4,160 bytes from each other; jumps of 5
//! bytes, as far from each other; and NOPs. With that distance, which is no number of pages, lines
//! spread over all sets of the caches. The server only answers; in the rows `both-` it does the
//! same as the client. Each of the two has frames of its own. The server's addresses begin where
//! the client's end, an odd number of pages further, so that the same place of both is in different
//! sets of a TLB.

use crate::groups::Groups;
use crate::paper::part::{MARK_PART_BEGINS, MARK_PART_ENDS};
use crate::partner::{first_byte, large_memory, Partner, Space, CALL, LARGE_LOG2, REPLY_AND_WAIT, WAIT};
use crate::rows::small::{end_both, start, WINDOWS};
use crate::sample::{idled_between, spoil};
use core::arch::global_asm;
use core::ptr::copy_nonoverlapping;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use keel_l4::abi::call::SMALL_ALL;
use keel_l4::abi::fpage::{FPAGE_RWX, PAGE_SIZE};
use keel_l4::call::Failure;
use keel_l4::ipc::{call, Message};
use keel_l4::pager::{Fault, Pager};
use keel_l4::protocol::boot::Start;
use keel_l4::{println, Error, Id};

/// Rounds that count, as in the paper, and those of the part before them.
const ROUNDS: u64 = 100;
const WARM_UP: u64 = 16;
/// Bytes from one access or jump to the next.
const STRIDE: u64 = 4160;
/// The most accesses, jumps and NOPs.
const MOST_DATA: u64 = 128;
const MOST_CODE: u64 = 192;
const MOST_NOPS: u64 = 20 << 10;
/// Offsets in a task's memory: its program, its NOPs, its jumps and its data.
const PROGRAM: u64 = 0;
const NOPS: u64 = PAGE_SIZE;
const JUMPS: u64 = (NOPS + MOST_NOPS + JUMP as u64).next_multiple_of(PAGE_SIZE);
const DATA: u64 = (JUMPS + MOST_CODE * STRIDE).next_multiple_of(PAGE_SIZE);
/// Bytes of a task's memory: an odd number of pages.
const MEMORY: u64 = ((DATA + MOST_DATA * STRIDE).div_ceil(PAGE_SIZE) | 1) * PAGE_SIZE;
/// Where the tasks have it: the client's, and the server's after it.
const BASE: u64 = 4 << 20;
/// Bytes of a jump with a displacement of 32 bits.
const JUMP: usize = 5;
const OPCODE_JUMP: u8 = 0xe9;
const OPCODE_NOP: u8 = 0x90;

/// This task's address of the tasks' memory.
static OWN: AtomicU64 = AtomicU64::new(0);

global_asm!(
    ".code32",
    // Both are copied; what they do besides IPC comes after them, and jumps to what follows it.
    // Gets the server's id in two words and the number of rounds, and answers with the instructions
    // of the last ones; those before are a part, too, so that a model's caches are filled. While it
    // calls the server, its creator's id is in edx:ecx, which are words that come back, and the
    // first reading in esp.
    ".p2align 6",
    ".global figure_client",
    "figure_client:",
    "mov eax, 0x2b",
    "mov ds, eax",
    "mov es, eax",
    "mov eax, {wait}",
    "2: int 0x80",
    "xchg esi, edx",
    "xchg edi, ecx",
    ".byte 0x0f, 0x1f, 0x80",
    ".long {begins}",
    "3: cmp ebp, {rounds}",
    "jne figure_client_work",
    ".byte 0x0f, 0x1f, 0x80",
    ".long {ends}",
    ".byte 0x0f, 0x1f, 0x80",
    ".long {begins}",
    "mov ebx, edx",
    "rdtsc",
    "mov edx, ebx",
    "mov esp, eax",
    "jmp figure_client_work",
    ".p2align 6",
    ".global figure_client_done",
    "figure_client_done:",
    "mov ebx, 3",
    "mov eax, {call}",
    "int 0x80",
    "dec ebp",
    "jnz 3b",
    "mov ebx, edx",
    "rdtsc",
    ".byte 0x0f, 0x1f, 0x80",
    ".long {ends}",
    "sub eax, esp",
    "mov esi, ebx",
    "mov edi, ecx",
    "mov edx, eax",
    "mov ebx, 1",
    "mov eax, {reply_and_wait}",
    "jmp 2b",
    ".p2align 6",
    ".global figure_client_work",
    "figure_client_work:",
    // Answers every message with its three words.
    ".global figure_server",
    "figure_server:",
    "mov eax, 0x2b",
    "mov ds, eax",
    "mov es, eax",
    "mov eax, {wait}",
    "4: int 0x80",
    "jmp figure_server_work",
    ".p2align 6",
    ".global figure_server_done",
    "figure_server_done:",
    "mov ebx, 3",
    "mov eax, {reply_and_wait}",
    "jmp 4b",
    ".p2align 6",
    ".global figure_server_work",
    "figure_server_work:",
    ".code64",
    rounds = const ROUNDS,
    begins = const MARK_PART_BEGINS,
    ends = const MARK_PART_ENDS,
    call = const CALL,
    wait = const WAIT,
    reply_and_wait = const REPLY_AND_WAIT,
);

unsafe extern "C" {
    static figure_client: u8;
    static figure_client_done: u8;
    static figure_client_work: u8;
    static figure_server: u8;
    static figure_server_done: u8;
    static figure_server_work: u8;
}

/// What a task does besides IPC, this many times a round.
#[derive(Clone, Copy)]
enum Work {
    Read(u64),
    Jump(u64),
    Nops(u64),
}

/// A task's memory: the address where this task has it, and where it has it itself.
struct Memory {
    own: u64,
    base: u64,
}

impl Memory {
    /// Of the client (0) or the server (1).
    fn of(number: u64) -> Memory {
        Memory { own: OWN.load(Relaxed) + number * MEMORY, base: BASE + number * MEMORY }
    }

    fn put(&self, offset: u64, bytes: &[u8]) -> u64 {
        // SAFETY: `large_memory` that nothing else uses; callers stay in it, since sizes are
        // limited.
        unsafe { copy_nonoverlapping(bytes.as_ptr(), (self.own + offset) as *mut u8, bytes.len()) };
        offset + bytes.len() as u64
    }

    /// A jump at one offset to another one.
    fn put_jump(&self, at: u64, to: u64) {
        let next = self.put(at, &[OPCODE_JUMP]) + size_of::<u32>() as u64;
        self.put(at + 1, &(to as u32).wrapping_sub(next as u32).to_le_bytes());
    }

    /// A program whose parts are at these addresses, and its work, which is copied after it.
    fn put_program(&self, [start, done, end]: [u64; 3], work: Work) {
        // SAFETY: these are labels of the assembly above, in this order.
        let program = unsafe { core::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
        let (at, done) = (self.put(PROGRAM, program), PROGRAM + done - start);
        match work {
            Work::Read(0) | Work::Jump(0) | Work::Nops(0) => self.put_jump(at, done),
            Work::Read(count) => self.put_jump(self.put_reads(at, count), done),
            Work::Jump(count) => {
                self.put_jump(at, JUMPS);
                (1..count).for_each(|number| self.put_jump(JUMPS + (number - 1) * STRIDE, JUMPS + number * STRIDE));
                self.put_jump(JUMPS + (count - 1) * STRIDE, done);
            }
            Work::Nops(count) => {
                self.put_jump(at, NOPS);
                (0..count).for_each(|number| _ = self.put(NOPS + number, &[OPCODE_NOP]));
                self.put_jump(NOPS + count, done);
            }
        }
    }

    /// A loop that reads; returns the offset after it.
    fn put_reads(&self, at: u64, count: u64) -> u64 {
        let first = (self.base + DATA) as u32;
        let immediate = |value: u32| value.to_le_bytes();
        // mov ebx, first
        let head = self.put(self.put(at, &[0xbb]), &immediate(first));
        // mov eax, [ebx]; add ebx, stride
        let next = self.put(self.put(head, &[0x8b, 0x03, 0x81, 0xc3]), &immediate(STRIDE as u32));
        // cmp ebx, end
        let next = self.put(self.put(next, &[0x81, 0xfb]), &immediate(first + (count * STRIDE) as u32));
        // jne head
        self.put(next, &[0x75, (head.wrapping_sub(next + 2)) as u8])
    }
}

/// Gives the tasks their memory.
struct Pages;

impl Pager for Pages {
    fn page(&mut self, fault: &Fault) -> Option<Message> {
        let offset = fault.page().wrapping_sub(BASE);
        (offset < 2 * MEMORY).then(|| fault.map(OWN.load(Relaxed) + offset, FPAGE_RWX))
    }
}

extern "C" fn pager(_: u64) -> ! {
    keel_l4::pager::run(&mut Pages)
}

/// What a word `ROW/SIZE` asks for: the client's work and the server's.
fn parse(word: &str) -> Option<[Work; 2]> {
    let (row, size) = word.split_once('/')?;
    let count = size.parse().ok()?;
    let (work, most) = match row.strip_prefix("both-").unwrap_or(row) {
        "data" => (Work::Read(count), MOST_DATA),
        "code" => (Work::Jump(count), MOST_CODE),
        "nops" => (Work::Nops(count), MOST_NOPS),
        _ => return None,
    };
    let servers = if row.starts_with("both-") { work } else { Work::Nops(0) };
    (count <= most).then_some([work, servers])
}

/// Measures the rows and sizes in `line` after the word `small`, which may be those of groups.rs.
pub fn measure(line: &str, record: &Start) -> Result<(), Failure> {
    const { assert!(2 * MEMORY <= 1 << LARGE_LOG2) };
    let mut groups = Groups::new(record)?;
    OWN.store(first_byte(large_memory(record)?), Relaxed);
    let pager = Partner::start(Space::Same, pager, 0)?.id;
    let mut wanted = line.split_whitespace().skip_while(|word| *word != "small").skip(1);
    wanted.try_for_each(|word| {
        if let Some(measured) = groups.measure(word) {
            return measured;
        }
        let Some(work) = parse(word) else {
            println!("bench: there is no {word}");
            spoil();
            return Ok(());
        };
        row("small", word, work, WINDOWS, pager)?;
        row("large", word, work, [SMALL_ALL; 2], pager)
    })
}

fn row(place: &str, word: &str, [clients, servers]: [Work; 2], reaches: [u64; 2], pager: Id) -> Result<(), Failure> {
    let (client, server) = (Memory::of(0), Memory::of(1));
    let labels = [&raw const figure_client, &raw const figure_client_done, &raw const figure_client_work];
    client.put_program(labels.map(|label| label as u64), clients);
    let labels = [&raw const figure_server, &raw const figure_server_done, &raw const figure_server_work];
    server.put_program(labels.map(|label| label as u64), servers);
    let asked = start(0, server.base + PROGRAM, reaches[0], pager, 0)?;
    let asking = start(1, client.base + PROGRAM, reaches[1], pager, 0)?;
    let mut taken = 0;
    let idled = idled_between(|| {
        let told = [asked.0 >> u32::BITS, asked.0 & u32::MAX as u64, WARM_UP + ROUNDS];
        taken = call(asking, Message::new(0, &told))?.words[0];
        if taken == 0 {
            Err(Failure::call(Error::Invalid))
        } else {
            Ok(())
        }
    })?;
    println!(
        "{{\"name\":\"{place}-{word}\",\"iterations\":{ROUNDS},\"parts\":1,\"idle_ticks\":{idled},\"tsc\":[{taken}]}}"
    );
    end_both()
}
