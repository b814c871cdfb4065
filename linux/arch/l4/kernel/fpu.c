// SPDX-License-Identifier: GPL-2.0-only
/*
 * FPU state. It lives with the lthread; Linux fetches it into a buffer only for
 * signal frames, fork, ptrace and core files. A buffer marked stale is newer than
 * the lthread and is stored before the thread runs again. The buffer has the
 * standard XSAVE layout, and x86's signal frames hold exactly that.
 */
#include <linux/elf.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/fpu/regset.h>
#include <asm/fpu/signal.h>
#include <asm/fpu/xstate.h>
#include <asm/l4.h>
#include <asm/sigframe.h>

#define XSAVE_ALIGNMENT 64
#define XFEATURE_MASK_FPSSE 3UL
#define INITIAL_CWD 0x37f
#define INITIAL_MXCSR 0x1f80
#define I387_UPPER 0xffff0000u
#define I387_FRAME_SIZE offsetof(struct _fpstate_32, _fxsr_env)

enum { I387_VALID, I387_ZERO, I387_SPECIAL, I387_EMPTY };

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

static void reset(struct fpu *fpu)
{
	struct _xstate *state = fpu->state;

	memset(state, 0, host_info->fpu_size);
	state->fpstate.cwd = INITIAL_CWD;
	state->fpstate.mxcsr = INITIAL_MXCSR;
}

static bool allocate(struct fpu *fpu)
{
	if (!fpu->state)
		fpu->state = kmem_cache_zalloc(cache, GFP_KERNEL);
	return fpu->state;
}

/* The task's state, in its buffer; NULL if there is no memory for it. */
void *l4_fpu_fetch(struct task_struct *task)
{
	struct fpu *fpu = &task->thread.fpu;
	unsigned long thread = task->thread.host_thread;
	struct keel_ex_regs *record;

	if (!allocate(fpu))
		return NULL;
	if (fpu->stale)
		return fpu->state;
	record = host_record();
	record->fpu = (unsigned long)fpu->state;
	record->fpu_size = host_info->fpu_size;
	if (!thread || host_ex_regs(&thread, KEEL_EX_FPU_GET))
		reset(fpu);
	return fpu->state;
}

/* Gives the buffer to the lthread. */
int l4_fpu_store(struct task_struct *task)
{
	struct fpu *fpu = &task->thread.fpu;
	struct keel_ex_regs *record = host_record();
	unsigned long thread = task->thread.host_thread;

	fpu->stale = false;
	record->fpu = (unsigned long)fpu->state;
	record->fpu_size = host_info->fpu_size;
	return host_ex_regs(&thread, KEEL_EX_FPU_SET) ? -EINVAL : 0;
}

int l4_fpu_fork(struct task_struct *child)
{
	struct fpu *fpu = &child->thread.fpu;
	void *state = l4_fpu_fetch(current);

	if (!state || !allocate(fpu))
		return -ENOMEM;
	memcpy(fpu->state, state, host_info->fpu_size);
	fpu->stale = true;
	return 0;
}

void l4_fpu_free(struct task_struct *task)
{
	if (task->thread.fpu.state)
		kmem_cache_free(cache, task->thread.fpu.state);
}

unsigned long fpu__get_fpstate_size(void)
{
	return host_info->fpu_size + FP_XSTATE_MAGIC2_SIZE;
}

/* What is in a register that is in use (Intel SDM volume 1, section 8.1.7). */
static u32 tag_of(const u32 *reg, u32 exponent)
{
	if (exponent && exponent != 0x7fff && reg[1] >> 31)
		return I387_VALID;
	return exponent || reg[0] || reg[1] ? I387_SPECIAL : I387_ZERO;
}

/*
 * The x87's part as FSAVE stores it; the top, from bit 11 of swd on, comes first. A thread
 * that used its own FPU for this would have no short way through the kernel below any more.
 */
static void to_i387(struct task_struct *task, const struct _fpstate_64 *state,
		    struct user_i387_ia32_struct *env)
{
	env->cwd = state->cwd | I387_UPPER;
	env->swd = state->swd | I387_UPPER;
	env->twd = I387_UPPER;
	env->fip = state->rip;
	env->fcs = task_pt_regs(task)->cs;
	env->foo = state->rdp;
	env->fos = l4_selectors(task)->ds | I387_UPPER;
	for (int i = 0; i < 8; i++) {
		const u32 *reg = &state->st_space[4 * ((i - (state->swd >> 11)) & 7)];

		env->twd |= (state->twd >> i & 1 ? tag_of(reg, reg[2] & 0x7fff) : I387_EMPTY) << 2 * i;
		memcpy((void *)env->st_space + 10 * i, &state->st_space[4 * i], 10);
	}
}

static void from_i387(struct _fpstate_64 *state, const struct user_i387_ia32_struct *env)
{
	state->cwd = env->cwd;
	state->swd = env->swd;
	state->twd = 0;
	state->fop = env->fcs >> 16;
	state->rip = env->fip;
	state->rdp = env->foo;
	for (int i = 0; i < 8; i++) {
		state->twd |= ((env->twd >> 2 * i & 3) != I387_EMPTY) << i;
		memcpy(&state->st_space[4 * i], (const void *)env->st_space + 10 * i, 10);
	}
}

unsigned long fpu__alloc_mathframe(unsigned long sp, int ia32_frame,
				   unsigned long *buf_fx, unsigned long *size)
{
	*size = fpu__get_fpstate_size();
	*buf_fx = round_down(sp - *size, XSAVE_ALIGNMENT);
	if (!ia32_frame)
		return *buf_fx;
	*size += I387_FRAME_SIZE;
	return *buf_fx - I387_FRAME_SIZE;
}

/* What a 32-bit frame has before the state that FXSAVE knows. */
static bool put_i387(struct _fpstate_32 __user *frame, const struct _fpstate_64 *state)
{
	struct user_i387_ia32_struct env;

	to_i387(current, state, &env);
	return !copy_to_user(frame, &env, sizeof(env)) && !put_user(state->swd, &frame->status) &&
	       !put_user(X86_FXSR_MAGIC, &frame->magic);
}

/* The state goes to the frame with the words that make it known to programs. */
bool copy_fpstate_to_sigframe(void __user *buf, void __user *fp, int size)
{
	struct _xstate *state = l4_fpu_fetch(current);
	u32 magic2 = FP_XSTATE_MAGIC2;

	if (!state || (buf != fp && !put_i387(buf, &state->fpstate)))
		return false;
	state->fpstate.sw_reserved = (struct _fpx_sw_bytes){
		.magic1 = FP_XSTATE_MAGIC1,
		.extended_size = fpu__get_fpstate_size() + (fp - buf),
		.xfeatures = host_info->fpu_mask,
		.xstate_size = host_info->fpu_size,
	};
	state->xstate_hdr.xfeatures |= XFEATURE_MASK_FPSSE;
	return !copy_to_user(fp, state, host_info->fpu_size) &&
	       !copy_to_user(fp + host_info->fpu_size, &magic2, sizeof(magic2));
}

/* Whether the frame holds extended state in the form that we wrote. */
static bool has_xstate(const struct _fpx_sw_bytes *sw, const void __user *buf)
{
	u32 magic2;

	return sw->magic1 == FP_XSTATE_MAGIC1 &&
	       sw->xstate_size >= sizeof(struct _fpstate_64) + sizeof(struct _header) &&
	       sw->xstate_size <= host_info->fpu_size &&
	       sw->xstate_size <= sw->extended_size &&
	       !get_user(magic2, (u32 __user *)(buf + sw->xstate_size)) &&
	       magic2 == FP_XSTATE_MAGIC2;
}

void fpu__clear_user_states(struct fpu *fpu)
{
	if (!allocate(fpu)) {
		force_sig(SIGKILL);
		return;
	}
	reset(fpu);
	fpu->stale = true;
	current->thread.ready_cpu = L4_NO_CPU;
}

static bool restore(struct fpu *fpu, const void __user *buf)
{
	struct _xstate *state = fpu->state;
	unsigned long size = sizeof(struct _fpstate_64);
	unsigned long wanted = XFEATURE_MASK_FPSSE;
	struct _fpx_sw_bytes sw;

	reset(fpu);
	if (copy_from_user(&state->fpstate, buf, sizeof(state->fpstate)))
		return false;
	sw = state->fpstate.sw_reserved;
	if (has_xstate(&sw, buf)) {
		size = sw.xstate_size;
		if (copy_from_user(state, buf, size))
			return false;
		if (state->xstate_hdr.xfeatures & ~host_info->fpu_mask)
			return false;
		wanted = state->xstate_hdr.xfeatures & sw.xfeatures;
	}
	memset(&state->fpstate.sw_reserved, 0, sizeof(state->fpstate.sw_reserved));
	state->xstate_hdr.xfeatures = wanted;
	return true;
}

/* Of a 32-bit frame the x87's part is what FSAVE would have stored. */
static bool restore_32(struct fpu *fpu, const void __user *buf)
{
	struct _xstate *state = fpu->state;
	struct user_i387_ia32_struct env;

	if (!restore(fpu, buf + I387_FRAME_SIZE) ||
	    copy_from_user(&env, buf, sizeof(env)))
		return false;
	from_i387(&state->fpstate, &env);
	return true;
}

/* The kernel below refuses state with reserved bits: that is a bad frame. */
bool fpu__restore_sig(void __user *buf, int ia32_frame)
{
	struct fpu *fpu = &current->thread.fpu;
	bool good;

	if (!buf) {
		fpu__clear_user_states(fpu);
		return true;
	}
	if (!allocate(fpu))
		return false;
	good = ia32_frame ? restore_32(fpu, buf) : restore(fpu, buf);
	if (good && !l4_fpu_store(current))
		return true;
	fpu__clear_user_states(fpu);
	return false;
}

int regset_fpregs_active(struct task_struct *task, const struct user_regset *regset)
{
	return regset->n;
}

/* The sets of FXSAVE and of XSAVE are prefixes of the state's standard layout. */
int xfpregs_get(struct task_struct *task, const struct user_regset *regset, struct membuf to)
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

static int changed(struct task_struct *task)
{
	if (task->thread.host_thread)
		return l4_fpu_store(task);
	task->thread.fpu.stale = true;
	return 0;
}

int xfpregs_set(struct task_struct *task, const struct user_regset *regset, unsigned int pos,
		unsigned int count, const void *kbuf, const void __user *ubuf)
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
	return error ?: changed(task);
}

int fpregs_get(struct task_struct *task, const struct user_regset *regset, struct membuf to)
{
	struct user_i387_ia32_struct env;
	struct _xstate *state = l4_fpu_fetch(task);

	if (!state)
		return -ENOMEM;
	to_i387(task, &state->fpstate, &env);
	return membuf_write(&to, &env, sizeof(env));
}

int fpregs_set(struct task_struct *task, const struct user_regset *regset, unsigned int pos,
	       unsigned int count, const void *kbuf, const void __user *ubuf)
{
	struct user_i387_ia32_struct env;
	struct _xstate *state = l4_fpu_fetch(task);

	if (!state)
		return -ENOMEM;
	if (pos || count != sizeof(env) ||
	    user_regset_copyin(&pos, &count, &kbuf, &ubuf, &env, 0, sizeof(env)))
		return -EINVAL;
	from_i387(&state->fpstate, &env);
	state->xstate_hdr.xfeatures |= XFEATURE_MASK_FPSSE;
	return changed(task);
}
