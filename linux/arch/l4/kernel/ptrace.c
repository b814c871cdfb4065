// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tracing and core files: registers are in the frame, the rest is fetched. What
 * debuggers see is x86-64's struct user and its register sets.
 */
#include <linux/elf.h>
#include <linux/errno.h>
#include <linux/ptrace.h>
#include <linux/regset.h>
#include <linux/sched/task_stack.h>
#include <linux/stddef.h>
#include <linux/uaccess.h>
#include <uapi/asm/debugreg.h>
#include <asm/l4.h>
#include <asm/prctl.h>
#include <asm/sighandling.h>
#include <x86/include/asm/user.h>

#define REGISTER(name) offsetof(struct user_regs_struct, name)
#define FLAGS_MASK FIX_EFLAGS
#define SELECTOR_BITS 16
#define XFEATURE_MASK_FPSSE 3UL

/* The selectors ds, es, fs, gs lie in one word of the frame. */
static int selector_shift(unsigned long offset)
{
	switch (offset) {
	case REGISTER(ds):
		return 0;
	case REGISTER(es):
		return SELECTOR_BITS;
	case REGISTER(fs):
		return 2 * SELECTOR_BITS;
	case REGISTER(gs):
		return 3 * SELECTOR_BITS;
	}
	return -1;
}

static unsigned long get_register(struct task_struct *task, unsigned long offset)
{
	struct keel_frame *frame = task->thread.frame;
	struct pt_regs *regs = task_pt_regs(task);
	int shift = selector_shift(offset);

	if (shift >= 0)
		return (frame->segments >> shift) & 0xffff;
	if (offset == REGISTER(fs_base))
		return frame->fs_base;
	if (offset == REGISTER(gs_base))
		return frame->gs_base;
	if (offset == REGISTER(flags) && test_tsk_thread_flag(task, TIF_FORCED_TF))
		return regs->flags & ~X86_EFLAGS_TF;
	return *(unsigned long *)((char *)regs + offset);
}

static void put_flags(struct task_struct *task, unsigned long value)
{
	struct pt_regs *regs = task_pt_regs(task);

	if (value & X86_EFLAGS_TF)
		clear_tsk_thread_flag(task, TIF_FORCED_TF);
	else if (test_tsk_thread_flag(task, TIF_FORCED_TF))
		value |= X86_EFLAGS_TF;
	regs->flags = (regs->flags & ~FLAGS_MASK) | (value & FLAGS_MASK);
}

static int put_register(struct task_struct *task, unsigned long offset, unsigned long value)
{
	struct keel_frame *frame = task->thread.frame;
	struct pt_regs *regs = task_pt_regs(task);
	int shift = selector_shift(offset);

	if (shift >= 0) {
		if (value && (value & 3) != 3)
			return -EIO;
		frame->segments &= ~(0xffffUL << shift);
		frame->segments |= (value & 0xffff) << shift;
	} else if (offset == REGISTER(fs_base) || offset == REGISTER(gs_base)) {
		if (value >= TASK_SIZE_MAX)
			return -EIO;
		*(offset == REGISTER(fs_base) ? &frame->fs_base : &frame->gs_base) = value;
	} else if (offset == REGISTER(flags)) {
		put_flags(task, value);
	} else if (offset == REGISTER(cs) || offset == REGISTER(ss)) {
		if ((value & 3) != 3)
			return -EIO;
		*(unsigned long *)((char *)regs + offset) = value & 0xffff;
	} else {
		*(unsigned long *)((char *)regs + offset) = value;
	}
	return 0;
}

static int general_get(struct task_struct *task, const struct user_regset *regset,
		       struct membuf to)
{
	unsigned long offset;

	for (offset = 0; to.left; offset += sizeof(long))
		membuf_store(&to, get_register(task, offset));
	return 0;
}

static int general_set(struct task_struct *task, const struct user_regset *regset,
		       unsigned int pos, unsigned int count, const void *kbuf,
		       const void __user *ubuf)
{
	unsigned long value;
	int error = 0;

	while (!error && count >= sizeof(value)) {
		unsigned int start = pos;

		error = user_regset_copyin(&pos, &count, &kbuf, &ubuf, &value, start,
					   start + sizeof(value));
		if (!error)
			error = put_register(task, start, value);
	}
	return error;
}

/* Both FPU sets are prefixes of the state's standard layout. */
static int fpu_get(struct task_struct *task, const struct user_regset *regset,
		   struct membuf to)
{
	struct _xstate *state = l4_fpu_fetch(task);
	u64 *mask;

	if (!state)
		return -ENOMEM;
	memset(&state->fpstate.sw_reserved, 0, sizeof(state->fpstate.sw_reserved));
	mask = (u64 *)&state->fpstate.sw_reserved;
	*mask = regset->core_note_type == NT_X86_XSTATE ? host_info->fpu_mask : 0;
	return membuf_write(&to, state, min_t(size_t, to.left, host_info->fpu_size));
}

static int fpu_set(struct task_struct *task, const struct user_regset *regset,
		   unsigned int pos, unsigned int count, const void *kbuf,
		   const void __user *ubuf)
{
	struct _xstate *state = l4_fpu_fetch(task);
	int error;

	if (!state)
		return -ENOMEM;
	if (regset->core_note_type == NT_X86_XSTATE && (pos || count != host_info->fpu_size))
		return -EFAULT;
	error = user_regset_copyin(&pos, &count, &kbuf, &ubuf, state, 0, host_info->fpu_size);
	memset(&state->fpstate.sw_reserved, 0, sizeof(state->fpstate.sw_reserved));
	if (regset->core_note_type != NT_X86_XSTATE)
		state->xstate_hdr.xfeatures |= XFEATURE_MASK_FPSSE;
	if (!error && task->thread.host_thread)
		error = l4_fpu_store(task);
	else if (!error)
		task->thread.fpu.stale = true;
	return error;
}

static struct user_regset regsets[] = {
	{
		.core_note_type = NT_PRSTATUS,
		.n = ELF_NGREG,
		.size = sizeof(long),
		.align = sizeof(long),
		.regset_get = general_get,
		.set = general_set,
	}, {
		.core_note_type = NT_PRFPREG,
		.n = sizeof(struct _fpstate_64) / sizeof(long),
		.size = sizeof(long),
		.align = sizeof(long),
		.regset_get = fpu_get,
		.set = fpu_set,
	}, {
		.core_note_type = NT_X86_XSTATE,
		.size = sizeof(u64),
		.align = sizeof(u64),
		.regset_get = fpu_get,
		.set = fpu_set,
	},
};

enum { SET_GENERAL, SET_FP, SET_XSTATE };

static const struct user_regset_view view = {
	.name = "x86_64",
	.e_machine = EM_X86_64,
	.regsets = regsets,
	.n = ARRAY_SIZE(regsets),
};

static int __init regsets_init(void)
{
	regsets[SET_XSTATE].n = host_info->fpu_size / sizeof(u64);
	return 0;
}
early_initcall(regsets_init);

const struct user_regset_view *task_user_regset_view(struct task_struct *task)
{
	return &view;
}

void user_enable_single_step(struct task_struct *task)
{
	struct pt_regs *regs = task_pt_regs(task);

	set_tsk_thread_flag(task, TIF_SINGLESTEP);
	if (!(regs->flags & X86_EFLAGS_TF))
		set_tsk_thread_flag(task, TIF_FORCED_TF);
	regs->flags |= X86_EFLAGS_TF;
	set_task_syscall_work(task, SYSCALL_EXIT_TRAP);
}

/* Stepping from branch to branch needs a register of the kernel below: step singly. */
void user_enable_block_step(struct task_struct *task)
{
	user_enable_single_step(task);
}

void user_disable_single_step(struct task_struct *task)
{
	clear_tsk_thread_flag(task, TIF_SINGLESTEP);
	clear_task_syscall_work(task, SYSCALL_EXIT_TRAP);
	if (test_and_clear_tsk_thread_flag(task, TIF_FORCED_TF))
		task_pt_regs(task)->flags &= ~X86_EFLAGS_TF;
}

void user_single_step_report(struct pt_regs *regs)
{
	send_sig_fault(SIGTRAP, TRAP_BRKPT, (void __user *)regs->ip, current);
}

void ptrace_disable(struct task_struct *child)
{
	user_disable_single_step(child);
}

/* dr0 to dr3, dr6, dr7 lie side by side; 4 and 5 do not exist. */
static int debug_index(unsigned long offset)
{
	unsigned long number = (offset - offsetof(struct user, u_debugreg)) / sizeof(long);

	if (number < 4)
		return number;
	return number == 6 || number == 7 ? number - 2 : -1;
}

static int peek_user(struct task_struct *child, unsigned long offset, unsigned long *value)
{
	int index;

	if (offset % sizeof(long) || offset >= sizeof(struct user))
		return -EIO;
	*value = 0;
	if (offset < sizeof(struct user_regs_struct)) {
		*value = get_register(child, offset);
	} else if (offset >= offsetof(struct user, u_debugreg)) {
		index = debug_index(offset);
		if (index >= 0)
			*value = child->thread.debug[index];
	}
	return 0;
}

static int poke_user(struct task_struct *child, unsigned long offset, unsigned long value)
{
	int index;

	if (offset % sizeof(long) || offset >= sizeof(struct user))
		return -EIO;
	if (offset < sizeof(struct user_regs_struct))
		return put_register(child, offset, value);
	if (offset < offsetof(struct user, u_debugreg))
		return -EIO;
	index = debug_index(offset);
	if (index < 0 || (index < 4 && value >= TASK_SIZE_MAX))
		return -EIO;
	child->thread.debug[index] = value;
	child->thread.debug_stale = true;
	child->thread.ready_cpu = L4_NO_CPU;
	return 0;
}

static int trace_prctl(struct task_struct *child, unsigned long addr, unsigned long option)
{
	unsigned long __user *result = (unsigned long __user *)addr;

	switch (option) {
	case ARCH_GET_FS:
		return put_user(child->thread.frame->fs_base, result);
	case ARCH_GET_GS:
		return put_user(child->thread.frame->gs_base, result);
	case ARCH_SET_FS:
		return put_register(child, REGISTER(fs_base), addr);
	case ARCH_SET_GS:
		return put_register(child, REGISTER(gs_base), addr);
	}
	return -EINVAL;
}

long arch_ptrace(struct task_struct *child, long request, unsigned long addr,
		 unsigned long data)
{
	unsigned long __user *result = (unsigned long __user *)data;
	void __user *buffer = (void __user *)data;
	unsigned long value;
	int error;

	switch (request) {
	case PTRACE_PEEKUSR:
		error = peek_user(child, addr, &value);
		return error ?: put_user(value, result);
	case PTRACE_POKEUSR:
		return poke_user(child, addr, data);
	case PTRACE_GETREGS:
		return copy_regset_to_user(child, &view, SET_GENERAL, 0,
					   sizeof(struct user_regs_struct), buffer);
	case PTRACE_SETREGS:
		return copy_regset_from_user(child, &view, SET_GENERAL, 0,
					     sizeof(struct user_regs_struct), buffer);
	case PTRACE_GETFPREGS:
		return copy_regset_to_user(child, &view, SET_FP, 0,
					   sizeof(struct user_i387_struct), buffer);
	case PTRACE_SETFPREGS:
		return copy_regset_from_user(child, &view, SET_FP, 0,
					     sizeof(struct user_i387_struct), buffer);
	case PTRACE_ARCH_PRCTL:
		return trace_prctl(child, addr, data);
	}
	return ptrace_request(child, request, addr, data);
}
