/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The bypass: for so many of its calls a thread leaves out what entry and exit
 * do for tracers, filters and audit, and what nobody has asked for. The count
 * lies above the flags in the thread's own word of status, which nobody else writes.
 */
#ifndef _UKL_BYPASS_H
#define _UKL_BYPASS_H

#define UKL_BYPASS_SHIFT	8
#define UKL_BYPASS_MOST		0xffffff
/* The word is this or more while calls are left. */
#define UKL_BYPASS_ONE		(1 << UKL_BYPASS_SHIFT)

/* The option of arch_prctl, which ukl.h has for applications. */
#define ARCH_UKL_BYPASS		0x554b

#ifdef __ASSEMBLY__

/* Behind SWAPGS, and nothing changed but r11: branch off where the thread has calls left. */
.macro UKL_BYPASS
#ifdef CONFIG_UKL_BYPASS
	movq	PER_CPU_VAR(current_task), %r11
	subl	$UKL_BYPASS_ONE, TASK_TI_status(%r11)
	jae	ukl_bypass
	addl	$UKL_BYPASS_ONE, TASK_TI_status(%r11)
SYM_INNER_LABEL(ukl_full, SYM_L_GLOBAL)
#endif
.endm

#else

/* What a call that bypasses is given to: the arguments in the registers of a C function. */
typedef void ukl_call_t(void);
ukl_call_t ukl_by_registers, ukl_by_full_entry;

static inline long ukl_bypass_calls(struct task_struct *task, unsigned long calls)
{
	unsigned int *status = &task_thread_info(task)->status;

	if (task != current || calls > UKL_BYPASS_MOST || !test_thread_flag(TIF_UKL))
		return -EINVAL;
	*status = (*status & (UKL_BYPASS_ONE - 1)) | calls << UKL_BYPASS_SHIFT;
	return 0;
}

#endif
#endif /* _UKL_BYPASS_H */
