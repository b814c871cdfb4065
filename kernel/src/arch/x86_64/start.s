# SPDX-License-Identifier: GPL-2.0-only
# From the boot loader (32-bit protected mode, paging off) to Rust (64-bit, upper half).
#
# Invariant: eax and ebx hold the multiboot magic and the address of its information until they
# are passed on. The first tables map the first 4 GB with 2 MB pages three times: one-to-one (left
# after the jump), at the direct map, and the first GB at -2 GB.

.section .boot, "ax"
.code32
.balign 8
multiboot1:
    .long {MB1_MAGIC}, {MB1_FLAGS}, -({MB1_MAGIC} + {MB1_FLAGS})
    .long multiboot1, _load_start, _load_end, _boot_end, start32

.globl start32
start32:
    cli
    cld
    mov ebp, eax
    mov esi, ebx
    mov esp, offset boot_stack_top_physical
    # .bss is zero: the loader clears all from _load_end to _boot_end.
    mov edi, offset boot_pml4_physical
    mov eax, offset boot_pdpt_physical + 3
    mov [edi], eax
    mov [edi + 256 * 8], eax
    mov eax, offset boot_pdpt_top_physical + 3
    mov [edi + 511 * 8], eax
    mov edi, offset boot_pdpt_physical
    mov eax, offset boot_pd_physical + 3
    mov dword ptr [boot_pdpt_top_physical + 510 * 8], eax
    mov ecx, 4
1:  mov [edi], eax
    add edi, 8
    add eax, 0x1000
    dec ecx
    jnz 1b
    mov edi, offset boot_pd_physical
    mov eax, {BIG_PAGE}
    mov ecx, 4 * 512
2:  mov [edi], eax
    add edi, 8
    add eax, 0x200000
    dec ecx
    jnz 2b
    mov eax, offset boot_pml4_physical
    mov cr3, eax
    mov eax, cr4
    or eax, {CR4}
    mov cr4, eax
    mov ecx, {MSR_EFER}
    rdmsr
    or eax, {EFER}
    wrmsr
    mov eax, cr0
    and eax, {CR0_CLEAR}
    or eax, {CR0}
    mov cr0, eax
    lgdt [boot_gdtr]
    # A far jump through memory: the assembler has no Intel syntax for a direct one.
    push 0x08
    mov eax, offset start64
    push eax
    retf
.balign 8
boot_gdt:
    .quad 0, 0x00af9b000000ffff
boot_gdtr:
    .short 15
    .long boot_gdt

.code64
start64:
    xor eax, eax
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov fs, eax
    mov gs, eax
    movabs rsp, offset boot_stack_top
    mov edi, ebp
    movabs rax, offset {boot}
    xor ebp, ebp
    call rax
    ud2

.section .bss.boot, "aw", @nobits
.balign 4096
.globl boot_pml4
boot_pml4: .skip 4096
.globl boot_pdpt, boot_pdpt_top, boot_pd
boot_pdpt: .skip 4096
boot_pdpt_top: .skip 4096
boot_pd: .skip 4 * 4096
.globl boot_stack_top
    .skip 32768
boot_stack_top:
.text
