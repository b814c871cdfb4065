// SPDX-License-Identifier: GPL-2.0-only
/*
 * FPU state. It lives with the lthread; Linux fetches it into a buffer only for
 * signal frames, fork, ptrace and core files. A buffer marked stale is newer than
 * the lthread and is stored before the thread runs again. The buffer has the
 * standard XSAVE layout, and x86's signal frames hold exactly that.
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/fpu/signal.h>
#include <asm/fpu/xstate.h>
#include <asm/l4.h>
#include <asm/sigframe.h>

#define XSAVE_ALIGNMENT 64
#define INITIAL_CWD 0x37f

static struct kmem_cache *cache;

static int __init fpu_init(void)
{
	cache = kmem_cache_create_usercopy("keel_fpu", host_info->fpu_size, XSAVE_ALIGNMENT,
					   SLAB_PANIC | SLAB_ACCOUNT, 0,
					   host_info->fpu_size, NULL);
	update_regset_xstate_info(host_info->fpu_size, host_info->fpu_mask);
	return 0;
}
early_initcall(fpu_init);

static void reset(union fpregs_state *regs)
{
	memset(regs, 0, host_info->fpu_size);
	regs->fxsave.cwd = INITIAL_CWD;
	regs->fxsave.mxcsr = MXCSR_DEFAULT;
}

/* Only programs that the kernel started have no buffer from fork; they are few. */
static union fpregs_state *allocate(struct fpu *fpu)
{
	if (!fpu->regs)
		fpu->regs = kmem_cache_zalloc(cache, GFP_KERNEL | __GFP_NOFAIL);
	return fpu->regs;
}

/* Between a buffer and an lthread. */
static unsigned long transfer(unsigned long thread, union fpregs_state *regs,
			      unsigned long direction)
{
	struct keel_ex_regs *record = host_record();

	record->fpu = (unsigned long)regs;
	record->fpu_size = host_info->fpu_size;
	return l4_ex_regs(&thread, direction);
}

/*
 * Gives an lthread its first FPU state: it used the FPU, and the micro-kernel had no memory for
 * the state then.
 */
int l4_fpu_begin(unsigned long thread)
{
	union fpregs_state *regs = kmem_cache_alloc(cache, GFP_KERNEL);
	unsigned long status;

	if (!regs)
		return -ENOMEM;
	reset(regs);
	status = transfer(thread, regs, KEEL_EX_FPU_SET);
	kmem_cache_free(cache, regs);
	return status ? -ENOMEM : 0;
}

union fpregs_state *l4_fpu_fetch(struct task_struct *task)
{
	union fpregs_state *regs = allocate(&task->thread.fpu);

	if (task->thread.fpu.stale)
		return regs;
	if (!task->thread.host_thread ||
	    transfer(task->thread.host_thread, regs, KEEL_EX_FPU_GET))
		reset(regs);
	return regs;
}

int l4_fpu_store(struct task_struct *task)
{
	task->thread.fpu.stale = false;
	return transfer(task->thread.host_thread, task->thread.fpu.regs, KEEL_EX_FPU_SET) ?
	       -EINVAL : 0;
}

static void mark_stale(struct task_struct *task)
{
	task->thread.fpu.stale = true;
	task->thread.ready_cpu = L4_NO_CPU;
}

void l4_fpu_change(struct task_struct *task)
{
	l4_fpu_fetch(task);
	mark_stale(task);
}

int l4_fpu_fork(struct task_struct *child)
{
	struct fpu *fpu = &child->thread.fpu;

	fpu->regs = kmem_cache_alloc(cache, GFP_KERNEL);
	if (!fpu->regs)
		return -ENOMEM;
	memcpy(fpu->regs, l4_fpu_fetch(current), host_info->fpu_size);
	fpu->stale = true;
	return 0;
}

void l4_fpu_free(struct task_struct *task)
{
	if (task->thread.fpu.regs)
		kmem_cache_free(cache, task->thread.fpu.regs);
}

/* The most that a frame has of it: in one of a 32-bit program. */
unsigned long fpu__get_fpstate_size(void)
{
	return sizeof(struct fregs_state) + host_info->fpu_size + FP_XSTATE_MAGIC2_SIZE;
}

unsigned long fpu__alloc_mathframe(unsigned long sp, int ia32_frame,
				   unsigned long *buf_fx, unsigned long *size)
{
	unsigned long before = ia32_frame ? sizeof(struct fregs_state) : 0;

	*size = host_info->fpu_size + FP_XSTATE_MAGIC2_SIZE;
	*buf_fx = round_down(sp - *size, XSAVE_ALIGNMENT);
	*size += before;
	return *buf_fx - before;
}

/* What a 32-bit frame has before the state that FXSAVE knows. */
static bool put_i387(struct _fpstate_32 __user *frame)
{
	struct user_i387_ia32_struct env;

	convert_from_fxsr(&env, current);
	return !copy_to_user(frame, &env, sizeof(env)) && !put_user(env.swd, &frame->status) &&
	       !put_user(X86_FXSR_MAGIC, &frame->magic);
}

/* The state goes to the frame with the words that make it known to programs. */
bool copy_fpstate_to_sigframe(void __user *buf, void __user *fp, int size)
{
	struct xregs_state *state = &l4_fpu_fetch(current)->xsave;
	const struct _fpx_sw_bytes sw = {
		.magic1 = FP_XSTATE_MAGIC1,
		.extended_size = size,
		.xfeatures = host_info->fpu_mask,
		.xstate_size = host_info->fpu_size,
	};
	u32 magic2 = FP_XSTATE_MAGIC2;

	if (buf != fp && !put_i387(buf))
		return false;
	memcpy(state->i387.sw_reserved, &sw, sizeof(sw));
	state->header.xfeatures |= XFEATURE_MASK_FPSSE;
	return !copy_to_user(fp, state, host_info->fpu_size) &&
	       !copy_to_user(fp + host_info->fpu_size, &magic2, sizeof(magic2));
}

/* Whether the frame holds extended state in the form that we wrote. */
static bool has_xstate(const struct _fpx_sw_bytes *sw, const void __user *buf)
{
	u32 magic2;

	return sw->magic1 == FP_XSTATE_MAGIC1 &&
	       sw->xstate_size >= sizeof(struct xregs_state) &&
	       sw->xstate_size <= host_info->fpu_size &&
	       sw->xstate_size <= sw->extended_size &&
	       !get_user(magic2, (u32 __user *)(buf + sw->xstate_size)) &&
	       magic2 == FP_XSTATE_MAGIC2;
}

void fpu__clear_user_states(struct fpu *fpu)
{
	reset(allocate(fpu));
	mark_stale(current);
}

static bool restore(struct xregs_state *state, const void __user *buf)
{
	unsigned long wanted = XFEATURE_MASK_FPSSE;
	struct _fpx_sw_bytes sw;

	if (copy_from_user(&state->i387, buf, sizeof(state->i387)))
		return false;
	memcpy(&sw, state->i387.sw_reserved, sizeof(sw));
	if (has_xstate(&sw, buf)) {
		if (copy_from_user(state, buf, sw.xstate_size))
			return false;
		if (state->header.xfeatures & ~host_info->fpu_mask)
			return false;
		wanted = state->header.xfeatures & sw.xfeatures;
	}
	state->header.xfeatures = wanted;
	return true;
}

/* Of a 32-bit frame the x87's part is what FSAVE would have stored. */
static bool restore_32(struct xregs_state *state, const void __user *buf)
{
	struct user_i387_ia32_struct env;

	if (!restore(state, buf + sizeof(struct fregs_state)) ||
	    copy_from_user(&env, buf, sizeof(env)))
		return false;
	convert_to_fxsr(&state->i387, &env);
	return true;
}

/* The kernel below refuses state with reserved bits: that is a bad frame. */
bool fpu__restore_sig(void __user *buf, int ia32_frame)
{
	struct fpu *fpu = &current->thread.fpu;
	struct xregs_state *state;

	if (!buf) {
		fpu__clear_user_states(fpu);
		return true;
	}
	state = &allocate(fpu)->xsave;
	reset(fpu->regs);
	if ((ia32_frame ? restore_32(state, buf) : restore(state, buf)) && !l4_fpu_store(current))
		return true;
	fpu__clear_user_states(fpu);
	return false;
}

/* The sets of FXSAVE and of XSAVE are prefixes of the state's standard layout. */
void l4_put_xstate(struct membuf to, struct task_struct *task, int format)
{
	u32 *words = task->thread.fpu.regs->fxsave.sw_reserved;

	memset(words, 0, sizeof(task->thread.fpu.regs->fxsave.sw_reserved));
	if (format == XSTATE_COPY_XSAVE)
		*(u64 *)words = host_info->fpu_mask;
	membuf_write(&to, task->thread.fpu.regs, min_t(size_t, to.left, host_info->fpu_size));
}

/* A new state, if it is one that the kernel below takes. */
int l4_get_xstate(struct fpu *fpu, const struct xregs_state *from)
{
	const struct xstate_header *header = &from->header;

	if (header->xfeatures & ~host_info->fpu_mask || header->xcomp_bv ||
	    memchr_inv(header->reserved, 0, sizeof(header->reserved)) ||
	    from->i387.mxcsr & ~mxcsr_feature_mask)
		return -EINVAL;
	memcpy(fpu->regs, from, host_info->fpu_size);
	return 0;
}
