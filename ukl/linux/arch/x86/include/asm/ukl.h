/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Applications that run in ring 0. The rest of Linux sees of them
 * what it sees of any process: code in the user half of the address
 * space, the user's GS base, and saved registers that say user mode. Only this
 * code knows that the ring differs: entries rewrite the frame of such code
 * before anything reads it, and the last step of a return rewrites it back.
 *
 * Without CONFIG_UKL everything in this file is empty.
 */
#ifndef _ASM_X86_UKL_H
#define _ASM_X86_UKL_H

#ifdef CONFIG_UKL

/* The thread's user code runs in ring 0. A bit that thread_info.h leaves free. */
#define TIF_UKL			26

/*
 * A processor in ring 0 stays on its stack at an exception, and the
 * application's stack may be missing or in use below its pointer. So every
 * gate that names no stack of its own names this one, in the lower half of the
 * entry stack, whose upper half is that of entries from ring 3.
 */
#define IST_INDEX_UKL		5
#define UKL_STACK_DEPTH		2048
/*
 * An NMI, a machine check or a debug exception may find an entry still on that
 * stack: while it runs, further entries start so much lower. The frame, the
 * registers and sync_regs() fit; the four kinds that can nest do, too.
 */
#define UKL_STACK_STEP		384

#ifdef __ASSEMBLY__

#include <asm/ptrace-abi.h>

/* The bits of an address's upper word that are 0 in the user half. */
#define UKL_NOT_USER_HALF	0xffff8000

/* Moves an exception's frame, complete up to orig_ax, to the right stack and sets its ring. */
.macro UKL_FRAME
	call	ukl_frame
.endm

/* Likewise for an exception that has a stack of its own: it stays there. No register changes. */
.macro UKL_FRAME_LEVEL
	testb	$3, CS-ORIG_RAX(%rsp)
	jnz	.Lukl_level_\@
	testl	$UKL_NOT_USER_HALF, 4+RIP-ORIG_RAX(%rsp)
	jnz	.Lukl_level_\@
	movq	$__USER_CS, CS-ORIG_RAX(%rsp)
	movq	$__USER_DS, SS-ORIG_RAX(%rsp)
.Lukl_level_\@:
.endm

/*
 * Returns to ring 0 if the thread is an application: changes the frame that
 * IRET is about to take. RSP is at its RIP, GS is the kernel's. No register
 * changes. An address outside the user half is left to fault in ring 3.
 */
.macro UKL_RETURN_LEVEL
	testl	$UKL_NOT_USER_HALF, 4(%rsp)
	jnz	.Lukl_return_\@
	pushq	%rax
	movq	PER_CPU_VAR(current_task), %rax
	testl	$(1 << TIF_UKL), TASK_TI_flags(%rax)
	popq	%rax
	jz	.Lukl_return_\@
	movq	$__KERNEL_CS, CS-RIP(%rsp)
	movq	$__KERNEL_DS, SS-RIP(%rsp)
.Lukl_return_\@:
.endm

#else /* !__ASSEMBLY__ */

#include <linux/thread_info.h>
#include <asm/desc_defs.h>
#include <asm/percpu.h>
#include <asm/processor.h>
#include <asm/ptrace.h>
#include <asm/trap_pf.h>

struct file;

/* The system call of applications: jumped to, never called from C. */
void ukl_syscall(void);

/* What exec has found out about a file: where its gate is (asm/ukl_gate.h), or 0. */
struct arch_elf_state {
	unsigned long gate;
};

#define INIT_ARCH_ELF_STATE { .gate = 0 }

int arch_elf_pt_proc(void *ehdr, void *phdr, struct file *elf, bool is_interp,
		     struct arch_elf_state *state);
int arch_check_elf(void *ehdr, bool has_interpreter, void *interp_ehdr,
		   struct arch_elf_state *state);

#undef SET_PERSONALITY2
#define SET_PERSONALITY2(ex, state) \
	(SET_PERSONALITY(ex), update_thread_flag(TIF_UKL, (state)->gate != 0))

void ukl_setup_gates(gate_desc *table);
void ukl_setup_stack(struct tss_struct *tss);
int ukl_exec(const struct arch_elf_state *state, unsigned long bias);

/*
 * An application's call by the instruction SYSCALL, which leaves the flags in r11, where one by a
 * jump leaves 0: with other registers than SYSRET needs, the return is by IRET and so to ring 0.
 */
static __always_inline void ukl_enter(struct pt_regs *regs)
{
	if (test_thread_flag(TIF_UKL))
		regs->r11 = 0;
}

/* The processor takes an application's fault for the kernel's. */
static __always_inline unsigned long ukl_error_code(struct pt_regs *regs,
						    unsigned long error_code)
{
	if (user_mode(regs) && test_thread_flag(TIF_UKL))
		error_code |= X86_PF_USER;
	return error_code;
}

static __always_inline void ukl_nmi_enter(void)
{
	raw_cpu_sub(cpu_tss_rw.x86_tss.ist[IST_INDEX_UKL], UKL_STACK_STEP);
}

static __always_inline void ukl_nmi_exit(void)
{
	raw_cpu_add(cpu_tss_rw.x86_tss.ist[IST_INDEX_UKL], UKL_STACK_STEP);
}

#endif /* !__ASSEMBLY__ */

#else /* !CONFIG_UKL */

#ifdef __ASSEMBLY__
#define UKL_FRAME
#define UKL_FRAME_LEVEL
#define UKL_RETURN_LEVEL
#else
#define ukl_enter(regs)				do { } while (0)
#define ukl_error_code(regs, error_code)	(error_code)
#define ukl_setup_gates(table)			do { } while (0)
#define ukl_setup_stack(tss)			do { } while (0)
#endif

#endif /* !CONFIG_UKL */
#endif /* _ASM_X86_UKL_H */
