// SPDX-License-Identifier: BSD-2-Clause
//! 32-bit code for small tasks. It is in pages of its own, which their pager gives them at `CODE`.
//!
//! A thread has one page: a block at its beginning (offsets `BLOCK_*`), and its stack at its end.
//! It is told what to do by its creator: `small_monitor` calls it with what came out in words 0 and
//! 1, and its answer has the address of the next operation in word 0, and the operation's arguments
//! in words 1 and 2. They are in ecx and ebp when it begins; its results are in eax and ecx.

use core::arch::global_asm;
use core::mem::offset_of;
use keel_l4::abi::call::*;
use keel_l4::abi::Utcb;

/// Where small tasks have this code.
pub const CODE: u64 = 0x1_0000;
/// Offset in a block: the id of the creator, to which the thread reports.
pub const BLOCK_CHIEF: u64 = 0;
/// Offset in a block: scratch of the operations.
pub const BLOCK_SCRATCH: u64 = 0x10;
/// Offset in a block: eax, ebx, ecx, edx, esi, edi, ebp of `small_int80`, before and after.
pub const BLOCK_REGISTERS: u64 = 0x40;
/// Offset in a block: the address of the thread's UTCB.
pub const BLOCK_UTCB: u64 = 0x38;
/// Offset in a block: the UTCB's words 0 and 3 to 5 of `small_int80`, before and after.
pub const BLOCK_WORDS: u64 = 0x80;
/// Offset in a block: what string instructions read and write.
pub const BLOCK_BYTES: u64 = 0x200;
/// Data selector of small tasks, and their first thread-local one.
pub const DATA_SELECTOR: u64 = 0x2b;
pub const TLS_SELECTOR: u64 = 0x63;

/// Declares the operations, each of which ends by `jmp small_done`.
macro_rules! operations {
    ($($(#[doc = $doc:literal])+ $name:ident: $($line:literal),+;)*) => {
        global_asm!(
            ".pushsection .text.small, \"ax\"",
            ".p2align 12",
            ".code32",
            ".global small_code",
            "small_code:",
            ".global small_monitor",
            "small_monitor: push 0x2b",
            "pop ds",
            "push 0x2b",
            "pop es",
            "xor eax, eax",
            "small_done: mov edx, eax",
            "mov ebx, esp",
            "and ebx, -4096",
            "mov edi, [ebx + {CHIEF}]",
            "mov esi, [ebx + {CHIEF} + 4]",
            "mov ebx, 2",
            "mov eax, {CALL}",
            "int 0x80",
            // Its block is in ebx, and a second stack pointer in esi, when an operation begins.
            "mov ebx, esp",
            "mov esi, esp",
            "and ebx, -4096",
            "xor eax, eax",
            "jmp edx",
            $( concat!(".global ", stringify!($name)), concat!(stringify!($name), ":"), $($line,)+ )*
            ".code64",
            ".p2align 12",
            ".global small_code_end",
            "small_code_end:",
            ".popsection",
            CHIEF = const BLOCK_CHIEF,
            SCRATCH = const BLOCK_SCRATCH,
            REGISTERS = const BLOCK_REGISTERS,
            UTCB = const BLOCK_UTCB,
            UTCB_WORDS = const offset_of!(Utcb, words),
            WORDS = const BLOCK_WORDS,
            BYTES = const BLOCK_BYTES,
            CALL = const CALL_IPC | IPC_SEND | IPC_RECEIVE,
            WAIT = const CALL_IPC | IPC_RECEIVE | IPC_OPEN,
            REPLY = const CALL_IPC | IPC_SEND | IPC_RECEIVE | IPC_OPEN,
        );
        unsafe extern "C" {
            /// The first byte.
            pub fn small_code();
            /// The first byte after all.
            pub fn small_code_end();
            /// Reports, and does what it is told, without end.
            pub fn small_monitor();
            $( $(#[doc = $doc])+ pub fn $name(); )*
        }
    };
}

operations! {
    /// Nothing.
    small_nothing: "jmp small_done";
    /// Loads from the first argument.
    small_load: "mov eax, [ecx]", "jmp small_done";
    /// Stores the second argument there.
    small_store: "mov [ecx], ebp", "jmp small_done";
    /// Loads from there by the stack's segment.
    small_load_ss: "mov eax, ss:[ecx]", "jmp small_done";
    /// Loads from there by the code's segment.
    small_load_cs: "mov eax, cs:[ecx]", "jmp small_done";
    /// Pushes the second argument on a stack that ends there.
    small_push: "mov esp, ecx", "push ebp", "mov esp, esi", "jmp small_done";
    /// Pops a word from there.
    small_pop: "mov esp, ecx", "pop eax", "mov esp, esi", "jmp small_done";
    /// `leave`, with the frame there.
    small_leave: "mov edx, esp", "mov ebp, ecx", "leave", "mov eax, ebp", "mov esp, edx", "jmp small_done";
    /// Calls what is there.
    small_call: "call ecx", "jmp small_done";
    /// Stores sixteen bytes there.
    small_store_16: "movd xmm0, ebp", "pshufd xmm0, xmm0, 0", "movups [ecx], xmm0", "jmp small_done";
    /// Copies bytes from there, as many as the second argument says.
    small_copy_from: "mov esi, ecx", "lea edi, [ebx + {BYTES}]", "mov ecx, ebp", "rep movsb", "jmp small_done";
    /// Copies bytes to there.
    small_copy_to: "mov edi, ecx", "lea esi, [ebx + {BYTES}]", "mov ecx, ebp", "rep movsb", "jmp small_done";
    /// Fills words from there on.
    small_fill: "mov edi, ecx", "mov ecx, ebp", "mov eax, 0x5a5a5a5a", "rep stosd", "jmp small_done";
    /// Copies words from there downwards, to the block upwards.
    small_copy_down: "mov esi, ecx", "lea edi, [ebx + {BYTES}]", "2: std", "lodsd", "cld", "stosd", "dec ebp", "jnz 2b", "jmp small_done";
    /// Loads from there by the segment that the second argument selects, in es.
    small_load_es: "mov es, ebp", "mov eax, es:[ecx]", "push 0x2b", "pop es", "jmp small_done";
    /// The same in ds.
    small_load_ds: "mov ds, ebp", "mov eax, [ecx]", "push 0x2b", "pop ds", "jmp small_done";
    /// The same in ss.
    small_load_by_ss: "mov edx, 0x2b", "mov ss, ebp", "mov eax, ss:[ecx]", "mov ss, edx", "jmp small_done";
    /// The same in fs.
    small_load_fs: "mov fs, ebp", "mov eax, fs:[ecx]", "jmp small_done";
    /// The same in gs.
    small_load_gs: "mov gs, ebp", "mov eax, gs:[ecx]", "jmp small_done";
    /// Loads from there by gs, which is loaded.
    small_load_by_gs: "mov eax, gs:[ecx]", "jmp small_done";
    /// Loads from there by fs, which is loaded.
    small_load_by_fs: "mov eax, fs:[ecx]", "jmp small_done";
    /// `int 0x80` with ds and es from the halves of the first argument, fs and gs from those of the
    /// second one. What they are afterwards is the result, likewise.
    small_call_with:
        "mov fs, ebp", "shr ebp, 16", "mov gs, ebp", "mov eax, ecx", "shr eax, 16", "mov es, eax", "mov ds, ecx",
        "int 0x80", "mov eax, es", "shl eax, 16", "mov edx, ds", "or eax, edx",
        "mov ecx, gs", "shl ecx, 16", "mov edx, fs", "or ecx, edx",
        "mov edx, 0x2b", "mov ds, edx", "mov es, edx", "jmp small_done";
    /// Sets xmm3.
    small_set_xmm3: "movd xmm3, ecx", "jmp small_done";
    /// Reads xmm3.
    small_xmm3: "movd eax, xmm3", "jmp small_done";
    /// Stores the second argument by gs, which is loaded.
    small_store_gs: "mov gs:[ecx], ebp", "jmp small_done";
    /// The same by a far pointer in the block.
    small_les: "mov [ebx + {SCRATCH}], ecx", "mov [ebx + {SCRATCH} + 4], ebp", "les edx, [ebx + {SCRATCH}]", "mov eax, es:[edx]", "push 0x2b", "pop es", "jmp small_done";
    /// Loads by the first thread-local segment from its base and before it, as often as the first
    /// argument says.
    small_both_sides: "mov edx, 0x63", "mov gs, edx", "mov esi, ecx", "2: mov eax, gs:[0]", "mov ecx, gs:[0xfffffffc]", "dec esi", "jnz 2b", "jmp small_done";
    /// Loads words by it, alternately at its base and before it, by one instruction; the sum is the
    /// result.
    small_alternate: "mov edx, 0x63", "mov gs, edx", "xor edx, edx", "2: add eax, gs:[edx]", "xor edx, 0xfffffffc", "dec ecx", "jnz 2b", "jmp small_done";
    /// Loads a word by it of which one half is before its base.
    small_across: "mov edx, 0x63", "mov gs, edx", "mov eax, gs:[0xfffffffe]", "jmp small_done";
    /// Far jump to the first argument in the segment that the second one selects.
    small_far_jump: "mov [ebx + {SCRATCH}], ecx", "mov [ebx + {SCRATCH} + 4], ebp", "jmp fword ptr [ebx + {SCRATCH}]";
    /// The same as a call.
    small_far_call: "mov [ebx + {SCRATCH}], ecx", "mov [ebx + {SCRATCH} + 4], ebp", "call fword ptr [ebx + {SCRATCH}]", "jmp small_done";
    /// The same by a far return.
    small_far_return: "push ebp", "push ecx", ".byte 0xcb";
    /// The same by `iret`.
    small_iret: "pushfd", "push ebp", "push ecx", "iretd";
    /// `sysenter`.
    small_sysenter: ".byte 0x0f, 0x34", "jmp small_done";
    /// `syscall`.
    small_syscall: ".byte 0x0f, 0x05", "jmp small_done";
    /// `wrfsbase` as 64-bit code has it, with a base that is the first argument.
    small_wrfsbase: "mov eax, ecx", ".byte 0xf3, 0x48, 0x0f, 0xae, 0xd0", "jmp small_done";
    /// `wrgsbase`, likewise.
    small_wrgsbase: "mov eax, ecx", ".byte 0xf3, 0x48, 0x0f, 0xae, 0xd8", "jmp small_done";
    /// `wrgsbase` of 32 bits.
    small_wrgsbase_32: "mov eax, ecx", ".byte 0xf3, 0x0f, 0xae, 0xd8", "jmp small_done";
    /// Access rights of a selector in eax, and in ecx whether there are any.
    small_lar: "xor edx, edx", "lar eax, ecx", "setz dl", "mov ecx, edx", "jmp small_done";
    /// The same of its limit.
    small_lsl: "xor edx, edx", "lsl eax, ecx", "setz dl", "mov ecx, edx", "jmp small_done";
    /// Whether a selector can be read.
    small_verr: "verr cx", "setz al", "jmp small_done";
    /// Whether it can be written.
    small_verw: "verw cx", "setz al", "jmp small_done";
    /// Only the kernel may do this.
    small_hlt: "hlt", "jmp small_done";
    /// Nor this.
    small_cli: "cli", "jmp small_done";
    /// Nor this: an address of debug register 0.
    small_dr0: "mov eax, dr0", "jmp small_done";
    /// No gate for users.
    small_int32: "int 0x20", "jmp small_done";
    /// Raises #UD.
    small_ud2: "ud2", "jmp small_done";
    /// Divides by zero.
    small_divide: "xor edx, edx", "xor ecx, ecx", "div ecx", "jmp small_done";
    /// Reads a port.
    small_in: "mov edx, ecx", "in al, dx", "jmp small_done";
    /// Writes to a port.
    small_out: "mov edx, ecx", "mov eax, ebp", "out dx, al", "jmp small_done";
    /// `int 0x80` with the block's registers, and its words in the UTCB; those afterwards are
    /// there.
    small_int80:
        "mov edi, [ebx + {UTCB}]", "lea esi, [ebx + {WORDS}]", "add edi, {UTCB_WORDS}", "movsd", "movsd",
        "add edi, 16", "mov ecx, 6", "rep movsd",
        "mov eax, [ebx + {REGISTERS}]", "mov ecx, [ebx + {REGISTERS} + 8]", "mov edx, [ebx + {REGISTERS} + 12]",
        "mov esi, [ebx + {REGISTERS} + 16]", "mov edi, [ebx + {REGISTERS} + 20]", "mov ebp, [ebx + {REGISTERS} + 24]",
        "mov ebx, [ebx + {REGISTERS} + 4]", "int 0x80",
        "push ebx", "mov ebx, esp", "and ebx, -4096", "pop dword ptr [ebx + {REGISTERS} + 4]",
        "mov [ebx + {REGISTERS}], eax", "mov [ebx + {REGISTERS} + 8], ecx", "mov [ebx + {REGISTERS} + 12], edx",
        "mov [ebx + {REGISTERS} + 16], esi", "mov [ebx + {REGISTERS} + 20], edi", "mov [ebx + {REGISTERS} + 24], ebp",
        "mov esi, [ebx + {UTCB}]", "lea edi, [ebx + {WORDS}]", "add esi, {UTCB_WORDS}", "movsd", "movsd",
        "add esi, 16", "mov ecx, 6", "rep movsd", "jmp small_done";
    /// Answers every message with the same words, of which word 0 is one more. Without end.
    small_echo: "mov eax, {WAIT}", "int 0x80", "2: inc edx", "mov eax, {REPLY}", "and ebx, 0xff", "int 0x80", "jmp 2b";
    /// Counts in the word there, without end.
    small_count: "2: lock inc dword ptr [ecx]", "jmp 2b";
    /// Counts in the block, in the scratch's first word, how often it has loaded from there.
    /// Without end.
    small_load_count: "2: mov eax, [ecx]", "lock inc dword ptr [ebx + {SCRATCH}]", "jmp 2b";
    /// Keeps the sum of all registers of a kind that no call and no interrupt changes, as often as
    /// the first argument says.
    small_registers: "movd xmm3, ebp", "movd xmm7, ecx", "2: mov edx, 0x1234", "mov edi, 0x5678", "mov esi, 0x9abc", "pause", "lea eax, [edx + edi]", "add eax, esi", "cmp eax, 0x10368", "jne 3f", "dec ecx", "jnz 2b", "movd eax, xmm3", "movd ecx, xmm7", "3: jmp small_done";
    /// As many random accesses as the second argument says, from the random state in the first: in
    /// and beyond its window, by all segments. Those that are left are in the block's scratch. The
    /// result is 0, or the secret 0x5ec2_e75e that was read.
    small_random:
        "mov [ebx + {SCRATCH}], ebp",
        "mov eax, ecx", "shl eax, 13", "xor ecx, eax", "mov eax, ecx", "shr eax, 17", "xor ecx, eax",
        "mov eax, ecx", "shl eax, 5", "xor ecx, eax",
        // One in 32 goes to one of sixteen pages that the block names, the others to its first
        // page.
        "mov edi, ecx", "rol edi, 7", "and edi, 0xffc", "test ecx, 0x1f0000", "jnz 2f",
        "mov edx, ecx", "shr edx, 28", "add edi, [ebx + 4 * edx + {BYTES}]", "2:",
        "mov edx, ecx", "shr edx, 8", "and edx, 7",
        "dec edx", "js 10f", "dec edx", "js 11f", "dec edx", "js 12f", "dec edx", "js 13f", "dec edx", "js 14f",
        "dec edx", "js 15f", "dec edx", "js 16f",
        "mov eax, ss:[edi]", "jmp 20f",
        "10: mov eax, [edi]", "jmp 20f",
        "11: mov dword ptr [edi], 0xa5a5a5a5", "jmp 21f",
        "12: mov esp, edi", "push 0x25a5a5a5", "mov esp, esi", "jmp 21f",
        "13: mov eax, ecx", "rol eax, 12", "or eax, 3", "and eax, 0x7f", "mov es, eax", "mov eax, es:[edi]", "push 0x2b",
        "pop es", "jmp 20f",
        "14: mov eax, 0x63", "mov gs, eax", "mov eax, gs:[edi]", "jmp 20f",
        "15: push esi", "mov esi, edi", "lodsd", "lodsd", "lodsd", "pop esi", "jmp 20f",
        // Far: to the next action, or by any selector to anywhere.
        "16: mov edx, 0x23", "test ecx, 0x1f0000", "jnz 17f", "mov edx, ecx", "rol edx, 12", "and edx, 0x7f",
        "mov [ebx + {SCRATCH} + 4], edi", "jmp 18f",
        "17: call small_random_here", "small_random_here: pop eax",
        // Adds the distance.
        ".byte 0x05", ".long small_random_next - small_random_here", "mov [ebx + {SCRATCH} + 4], eax",
        "18: mov [ebx + {SCRATCH} + 8], edx", "xor eax, eax", "jmp fword ptr [ebx + {SCRATCH} + 4]",
        "20: cmp eax, 0x5ec2e75e", "je small_done",
        "small_random_next: 21: xor eax, eax", "dec ebp", "jnz small_random", "jmp small_done";
}
