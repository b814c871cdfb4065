// SPDX-License-Identifier: GPL-2.0-only
/* Offsets that assembly needs. */
#define COMPILE_OFFSETS
#include <linux/kbuild.h>
#include <linux/entry-common.h>
#include <linux/mm_types.h>
#include <linux/sched.h>
#include <asm/l4.h>
#include <asm/sigframe.h>

int main(void)
{
	OFFSET(TASK_KSP, task_struct, thread.ksp);
	OFFSET(TASK_RESUME_ACTION, task_struct, thread.resume_action);
	DEFINE(L4_RESUME_MAPPINGS, L4_RESUME_MAPPINGS);
	OFFSET(TASK_LOADED, task_struct, thread.loaded);
	OFFSET(TASK_FPU_STALE, task_struct, thread.fpu.stale);
	OFFSET(TASK_TI_flags, task_struct, thread_info.flags);
	OFFSET(TASK_TI_status, task_struct, thread_info.status);
	OFFSET(TASK_TI_syscall_work, task_struct, thread_info.syscall_work);
	OFFSET(TASK_MM, task_struct, mm);
	OFFSET(MM_UNMAP_LAST, mm_struct, context.last);
	DEFINE(L4_EXIT_WORK, EXIT_TO_USER_MODE_WORK);
	DEFINE(L4_STUBS, L4_STUBS);
	DEFINE(L4_STUB_SIZE, L4_STUB_SIZE);
	DEFINE(L4_WAITING_INSIDE, L4_WAITING_INSIDE);
	DEFINE(L4_LEAF_SIZE, L4_LEAF_SIZE);
	/* For the 32-bit vDSO's unwind information about signal frames. */
	OFFSET(IA32_SIGCONTEXT_ax, sigcontext_32, ax);
	OFFSET(IA32_SIGCONTEXT_bx, sigcontext_32, bx);
	OFFSET(IA32_SIGCONTEXT_cx, sigcontext_32, cx);
	OFFSET(IA32_SIGCONTEXT_dx, sigcontext_32, dx);
	OFFSET(IA32_SIGCONTEXT_si, sigcontext_32, si);
	OFFSET(IA32_SIGCONTEXT_di, sigcontext_32, di);
	OFFSET(IA32_SIGCONTEXT_bp, sigcontext_32, bp);
	OFFSET(IA32_SIGCONTEXT_sp, sigcontext_32, sp);
	OFFSET(IA32_SIGCONTEXT_ip, sigcontext_32, ip);
	OFFSET(IA32_RT_SIGFRAME_sigcontext, rt_sigframe_ia32, uc.uc_mcontext);
	return 0;
}
