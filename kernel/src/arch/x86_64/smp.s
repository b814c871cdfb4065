# SPDX-License-Identifier: GPL-2.0-only
# Where a further processor starts, in real mode: straight to long mode (Intel SDM volume 3, 9.8.5), then to Rust.
#
# Invariant: smp.rs copies [ap_start, ap_end) to the start of a page below 1 MB, whose number is in cs, and fills in the
# words behind the jump. Interrupts are off. The tables in ap_tables map this page one-to-one and the kernel's half.

.section .rodata
.code16
.balign 16
.globl ap_start
ap_start:
    jmp 1f
.balign 8
ap_gdt:
    .quad 0, 0x00af9b000000ffff
ap_gdtr:
    .short 15
.globl ap_gdt_address
ap_gdt_address:
    .long ap_gdt - ap_start
.globl ap_target
ap_target:
    .long ap_long - ap_start
    .short 8
.globl ap_tables
ap_tables:
    .long 0
.balign 8
.globl ap_stack
ap_stack:
    .quad 0
.globl ap_cpu
ap_cpu:
    .quad 0
.set TABLES, ap_tables - ap_start
.set GDTR, ap_gdtr - ap_start
.set TARGET, ap_target - ap_start
1:  cli
    cld
    mov ax, cs
    mov ds, ax
    mov eax, {CR4}
    mov cr4, eax
    mov eax, dword ptr ds:[TABLES]
    mov cr3, eax
    mov ecx, {MSR_EFER}
    rdmsr
    or eax, {EFER}
    wrmsr
    mov eax, cr0
    and eax, {CR0_CLEAR}
    or eax, {CR0}
    mov cr0, eax
    lgdt ds:[GDTR]
    jmp fword ptr ds:[TARGET]

.code64
ap_long:
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov fs, eax
    mov gs, eax
    mov rsp, [rip + ap_stack]
    mov rdi, [rip + ap_cpu]
    xor ebp, ebp
    movabs rax, offset {enter}
    call rax
    ud2

.globl ap_end
ap_end:
.text
