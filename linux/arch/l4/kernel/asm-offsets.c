// SPDX-License-Identifier: GPL-2.0-only
/* Offsets that assembly needs. */
#define COMPILE_OFFSETS
#include <linux/kbuild.h>
#include <linux/sched.h>
#include <asm/l4.h>
#include <asm/sigframe.h>

int main(void)
{
	OFFSET(TASK_KSP, task_struct, thread.ksp);
	/* From the word after rdi to the flags; rsp is the word after those. */
	DEFINE(TRAP_FLAGS_OFFSET,
	       offsetof(struct pt_regs, flags) - offsetof(struct pt_regs, orig_ax));
#define REGS(name, field) OFFSET(REGS_##name, pt_regs, field)
	REGS(R15, r15);
	REGS(R14, r14);
	REGS(R13, r13);
	REGS(R12, r12);
	REGS(BP, bp);
	REGS(BX, bx);
	REGS(R11, r11);
	REGS(R10, r10);
	REGS(R9, r9);
	REGS(R8, r8);
	REGS(AX, ax);
	REGS(CX, cx);
	REGS(DX, dx);
	REGS(SI, si);
	REGS(DI, di);
	REGS(ORIG_AX, orig_ax);
	REGS(IP, ip);
	REGS(FLAGS, flags);
	REGS(SP, sp);
	DEFINE(L4_WAITING_INSIDE, L4_WAITING_INSIDE);
	DEFINE(L4_INSIDE_CALL, L4_INSIDE_CALL);
	DEFINE(L4_INSIDE_WORK, L4_INSIDE_WORK);
	DEFINE(L4_INSIDE_MESSAGE, L4_INSIDE_MESSAGE);
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
