# SPDX-License-Identifier: BSD-2-Clause
# A program's first instructions, and the system call, for Rust and for C. In Intel's syntax, which
# C's build tells the assembler.

# The first instruction. esi:edi is the parent's id, and the data selectors are null.
.section .text.start, "ax"
.global _start
_start:
    mov eax, ss
    mov ds, eax
    mov es, eax
    # The arguments end at a multiple of 16, as the C calling convention wants it.
    lea esp, [keel32_stack_end - 8]
    xor ebp, ebp
    push esi
    push edi
    call keel32_main
    ud2

# void keel32_int80(struct keel32_registers *): calls the kernel with these registers, and stores
# those afterwards.
.text
.global keel32_int80
keel32_int80:
    push ebx
    push esi
    push edi
    push ebp
    mov eax, [esp + 20]
    mov ebx, [eax + 4]
    mov ecx, [eax + 8]
    mov edx, [eax + 12]
    mov esi, [eax + 16]
    mov edi, [eax + 20]
    mov ebp, [eax + 24]
    mov eax, [eax]
    int 0x80
    push eax
    mov eax, [esp + 24]
    pop dword ptr [eax]
    mov [eax + 4], ebx
    mov [eax + 8], ecx
    mov [eax + 12], edx
    mov [eax + 16], esi
    mov [eax + 20], edi
    mov [eax + 24], ebp
    pop ebp
    pop edi
    pop esi
    pop ebx
    ret

# The stack, of which only the pages that are used exist.
.section .bss.keel32_stack, "aw", @nobits
.balign 4096
    .skip 16384
keel32_stack_end:
.text
