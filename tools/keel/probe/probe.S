/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A guest that enters 64-bit mode and says so by ending the emulator with the
 * value EXIT_PROBE of machine.py. Multiboot starts it in 32-bit mode, paging off.
 */
#define MULTIBOOT_MAGIC	0x1badb002
#define EXIT_PORT	0xf4
#define EXIT_PROBE	0x30
#define MSR_EFER	0xc0000080
#define EFER_LME	(1 << 8)
#define CR0_PG		(1 << 31)
#define CR4_PAE		(1 << 5)
#define PRESENT_WRITE	0x3
#define LARGE_PAGE	0x80
#define CODE64		0x08

	.text
	.balign 4
	.long MULTIBOOT_MAGIC, 0, -MULTIBOOT_MAGIC

	.globl start
start:	/* build one large page over the first 2 MB, then switch */
	movl $(pdpt + PRESENT_WRITE), pml4
	movl $(directory + PRESENT_WRITE), pdpt
	movl $(LARGE_PAGE + PRESENT_WRITE), directory
	movl $pml4, %eax
	movl %eax, %cr3
	movl %cr4, %eax
	orl $CR4_PAE, %eax
	movl %eax, %cr4
	movl $MSR_EFER, %ecx
	rdmsr
	orl $EFER_LME, %eax
	wrmsr
	movl %cr0, %eax
	orl $CR0_PG, %eax
	movl %eax, %cr0
	lgdt gdt_pointer
	ljmp $CODE64, $in_64_bit_mode

	.code64
in_64_bit_mode:	/* a 64-bit operand, so that no other mode gets this right */
	movabsq $(EXIT_PROBE << 32), %rax
	shrq $32, %rax
	outb %al, $EXIT_PORT
1:	hlt
	jmp 1b

	.balign 8
gdt:
	.quad 0
	.quad 0x00209a0000000000	/* 64-bit code, ring 0 */
gdt_pointer:
	.word . - gdt - 1
	.long gdt

	.bss
	.balign 4096
pml4:
	.skip 4096
pdpt:
	.skip 4096
directory:
	.skip 4096
