// SPDX-License-Identifier: GPL-2.0-only
/*
 * FPU state. The micro-kernel keeps it with the lthread. Linux fetches it into
 * a buffer only for signal frames, fork, ptrace and core files. A buffer that is marked stale is
 * newer than the lthread's state, and is stored before the thread is resumed. The buffer has the
 * standard XSAVE layout, which is what x86's signal frames contain. All of this is for the current
 * task, or for one that is stopped or new; it runs in process context, on a server thread, whose
 * record it uses.
 *
 * Server threads borrow (KEEL_EX_FPU_BORROW): while one handles a message of an lthread, the state
 * is still in the processor's registers, where XSAVE and XRSTOR reach it. If it is not, because
 * another thread needed the registers, they raise #NM, and the micro-kernel is asked.
 *
 * A server thread that runs a program in the server itself (kernel/inside.c) has a state of its
 * own, which is that program's while `loaded` is set, and borrows none until l4_fpu_disown().
 */
#include <linux/init.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <asm/fpu/signal.h>
#include <asm/fpu/xstate.h>
#include <asm/l4.h>
#include <asm/tlbflush.h>

#define XSAVE_ALIGNMENT 64
#define INITIAL_CWD 0x37f

static struct kmem_cache *l4_fpu_cache;

/* The size of a state in a signal frame, including FP_XSTATE_MAGIC2 at its end. */
static unsigned int l4_fpu_frame_size(void)
{
	return keel_kip->fpu_size + FP_XSTATE_MAGIC2_SIZE;
}

/* The lthread whose message was received last on this processor, 0: not served. It alone lends. */
DEFINE_PER_CPU(unsigned long, l4_served);

/* This processor's server thread has a state of its own. */
static DEFINE_PER_CPU(bool, l4_fpu_own);

/* The initial state: no component is read from it but MXCSR. */
static struct xregs_state l4_fpu_initial __aligned(XSAVE_ALIGNMENT) = {
	.i387.mxcsr = MXCSR_DEFAULT,
};

/* Makes this processor's server thread, which calls it, borrow FPU states. */
void l4_fpu_borrow(void)
{
	unsigned long self = keel_self(keel_server());

	if (keel_ex_regs(&self, KEEL_EX_FPU_BORROW))
		panic("the micro-kernel lends no FPU states");
}

/*
 * The alignment keeps a buffer in one page: the micro-kernel then stores registers directly to it.
 */
static int __init l4_fpu_init(void)
{
	l4_fpu_borrow();
	l4_fpu_cache = kmem_cache_create_usercopy("keel_fpu", l4_fpu_frame_size(),
						  roundup_pow_of_two(l4_fpu_frame_size()),
						  SLAB_PANIC | SLAB_ACCOUNT, 0,
						  l4_fpu_frame_size(), NULL);
	update_regset_xstate_info(keel_kip->fpu_size, keel_kip->fpu_mask);
	return 0;
}
early_initcall(l4_fpu_init);

/* Makes the initial state in a buffer. */
static void l4_fpu_reset(union fpregs_state *regs)
{
	memset(regs, 0, keel_kip->fpu_size);
	regs->fxsave.cwd = INITIAL_CWD;
	regs->fxsave.mxcsr = MXCSR_DEFAULT;
}

/* Returns the buffer, allocating it if need be: programs that the kernel started have none. */
static union fpregs_state *l4_fpu_alloc(struct fpu *fpu)
{
	if (!fpu->regs)
		fpu->regs = kmem_cache_zalloc(l4_fpu_cache, GFP_KERNEL | __GFP_NOFAIL);
	return fpu->regs;
}

/* Puts a buffer into the record, for keel_ex_regs(). */
static void l4_fpu_set_buffer(const void *regs)
{
	struct keel_ex_regs *record = keel_record();

	record->fpu = (unsigned long)regs;
	record->fpu_size = keel_kip->fpu_size;
}

/* Copies between a buffer and an lthread, as KEEL_EX_FPU_* says. Returns L4's status. */
static unsigned long l4_fpu_transfer(unsigned long thread, union fpregs_state *regs,
				     unsigned long direction)
{
	l4_fpu_set_buffer(regs);
	return l4_ex_regs(&thread, direction);
}

/* The lthread that has a task's state, 0: none. */
static unsigned long l4_fpu_thread(const struct task_struct *task)
{
	return task->thread.loaded ? keel_self(keel_server()) : task->thread.keel_thread;
}

/* Returns true if the registers are the current thread's, unless its state was put away. */
static bool l4_fpu_is_borrowed(void)
{
	unsigned long thread = current->thread.keel_thread;

	if (this_cpu_read(l4_fpu_own))
		return current->thread.loaded;
	return thread && this_cpu_read(l4_served) == thread && boot_cpu_has(X86_FEATURE_XSAVE);
}

/*
 * Executes XSAVE or XRSTOR. False if it raised an exception: then it did nothing. QEMU's raise no
 * #NM, so that an instruction goes before them that does.
 */
#define l4_fpu_execute(instruction, state)					\
({										\
	bool fe_done = false;							\
										\
	asm volatile("1:	fnstsw %%ax\n"					\
		     "	movl $-1, %%eax\n"					\
		     "2:	" instruction " %[area]\n"			\
		     "	movb $1, %[done]\n"					\
		     "3:\n"							\
		     _ASM_EXTABLE(1b, 3b)					\
		     _ASM_EXTABLE(2b, 3b)					\
		     : [done] "+r" (fe_done)					\
		     : [area] "m" (*(state)), "d" (-1) : "eax", "memory");	\
	fe_done;								\
})

/*
 * Saves the current lthread's state from the registers to an aligned buffer. Returns false if it is
 * not there, or the buffer is newer. Works in a walk section.
 */
static bool l4_fpu_save_registers(struct xregs_state *state)
{
	if (!l4_fpu_is_borrowed() || current->thread.fpu.stale)
		return false;
	memset(&state->header, 0, sizeof(state->header));	/* of which XSAVE writes a part */
	return l4_fpu_execute("xsave64", state);
}

/*
 * Loads the registers, which are the current lthread's, from an aligned buffer. Returns false if
 * they are not, or the processor refuses the state: it may be a program's. Works in a walk section.
 */
static bool l4_fpu_load_registers(const struct xregs_state *state)
{
	if (!l4_fpu_is_borrowed() || !l4_fpu_execute("xrstor64", state))
		return false;
	current->thread.fpu.stale = false;
	return true;
}

/*
 * Gives an lthread its first FPU state, after an exception that says that it used the FPU and the
 * micro-kernel had no memory for the state. Returns 0 or -ENOMEM. May sleep.
 */
int l4_fpu_begin(unsigned long thread)
{
	union fpregs_state *regs = kmem_cache_alloc(l4_fpu_cache, GFP_KERNEL);
	unsigned long status;

	if (!regs)
		return -ENOMEM;
	l4_fpu_reset(regs);
	status = l4_fpu_transfer(thread, regs, KEEL_EX_FPU_SET);
	kmem_cache_free(l4_fpu_cache, regs);
	return status ? -ENOMEM : 0;
}

/* Copies the state of a task's lthread; the initial one if there is no lthread or no state. */
static void l4_fpu_get(struct task_struct *task, union fpregs_state *regs)
{
	if (task == current && l4_fpu_save_registers(&regs->xsave))
		return;
	if (!l4_fpu_thread(task) || l4_fpu_transfer(l4_fpu_thread(task), regs, KEEL_EX_FPU_GET))
		l4_fpu_reset(regs);
}

/* Makes the task's buffer current, and returns it. */
union fpregs_state *l4_fpu_fetch(struct task_struct *task)
{
	union fpregs_state *regs = l4_fpu_alloc(&task->thread.fpu);

	if (!task->thread.fpu.stale)
		l4_fpu_get(task, regs);
	return regs;
}

/*
 * Stores the task's buffer into its lthread, or the server thread if it is that one's program.
 * Returns -EINVAL if the micro-kernel refuses it.
 */
int l4_fpu_store(struct task_struct *task)
{
	task->thread.fpu.stale = false;
	if (task->mm->context.inside)
		l4_inside_take();
	if (l4_fpu_transfer(l4_fpu_thread(task), task->thread.fpu.regs, KEEL_EX_FPU_SET))
		return -EINVAL;
	if (task->mm->context.inside)
		this_cpu_write(l4_fpu_own, true);
	return 0;
}

/*
 * Makes the current thread's state the server thread's, which then has one of its own: with one
 * that it borrows the program would change another's. Returns 0 or -EINVAL. Interrupts are off.
 */
int l4_fpu_load(void)
{
	struct fpu *fpu = &current->thread.fpu;

	if (!fpu->stale)
		l4_fpu_reset(fpu->regs);
	return l4_fpu_load_registers(&fpu->regs->xsave) ? 0 : l4_fpu_store(current);
}

/* Saves the current thread's state, which is the server thread's, before another thread runs. */
void l4_fpu_put_away(void)
{
	struct fpu *fpu = &current->thread.fpu;

	fpu->stale = fpu->stale || l4_fpu_save_registers(&fpu->regs->xsave);
}

/* No program is in the server any more: all server threads borrow states again. */
void l4_fpu_disown(void)
{
	unsigned long server;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		server = keel_self(KEEL_SERVER + cpu);
		if (per_cpu(l4_fpu_own, cpu) && !keel_ex_regs(&server, KEEL_EX_FPU_RESET))
			per_cpu(l4_fpu_own, cpu) = false;
	}
}

/* Marks the buffer as newer than the lthread's state, which delays the lthread's resumption. */
static void l4_fpu_mark_stale(struct task_struct *task)
{
	task->thread.fpu.stale = true;
	task->thread.ready_cpu = L4_NO_CPU;
}

/* Fetches the state; the caller changes the buffer, which is stored later. */
void l4_fpu_change(struct task_struct *task)
{
	l4_fpu_fetch(task);
	l4_fpu_mark_stale(task);
}

/* Gives a child a copy of the current task's state. Returns 0 or -ENOMEM. */
int l4_fpu_fork(struct task_struct *child)
{
	struct fpu *fpu = &child->thread.fpu;

	/* XSAVE does not write reserved bytes, and programs see them. */
	fpu->regs = kmem_cache_zalloc(l4_fpu_cache, GFP_KERNEL);
	if (!fpu->regs)
		return -ENOMEM;
	if (current->thread.fpu.stale)
		memcpy(fpu->regs, current->thread.fpu.regs, keel_kip->fpu_size);
	else
		l4_fpu_get(current, fpu->regs);
	fpu->stale = true;
	return 0;
}

void l4_fpu_free(struct task_struct *task)
{
	if (task->thread.fpu.regs)
		kmem_cache_free(l4_fpu_cache, task->thread.fpu.regs);
}

/* The largest size in a signal frame: that of a 32-bit program. */
unsigned long fpu__get_fpstate_size(void)
{
	return sizeof(struct fregs_state) + l4_fpu_frame_size();
}

unsigned long fpu__alloc_mathframe(unsigned long sp, int ia32_frame,
				   unsigned long *buf_fx, unsigned long *size)
{
	unsigned long before = ia32_frame ? sizeof(struct fregs_state) : 0;

	*size = l4_fpu_frame_size();
	*buf_fx = round_down(sp - *size, XSAVE_ALIGNMENT);
	*size += before;
	return *buf_fx - before;
}

/* Writes what a 32-bit frame has before the FXSAVE state. Returns false for a fault. */
static bool l4_fpu_put_i387(struct _fpstate_32 __user *frame)
{
	struct user_i387_ia32_struct env;

	convert_from_fxsr(&env, current);
	return !copy_to_user(frame, &env, sizeof(env)) && !put_user(env.swd, &frame->status) &&
	       !put_user(X86_FXSR_MAGIC, &frame->magic);
}

/* The word after a state: FP_XSTATE_MAGIC2. */
static u32 *l4_fpu_magic2(const struct xregs_state *state, unsigned int size)
{
	return (u32 *)((void *)state + size);
}

/* Initialises the components that the header does not name: programs read them. */
static void l4_fpu_fill_in(struct xregs_state *state)
{
	struct fxregs_state *legacy = &state->i387;

	if (!(state->header.xfeatures & XFEATURE_MASK_FP)) {
		memset(legacy, 0, offsetof(struct fxregs_state, mxcsr));
		memset(legacy->st_space, 0, sizeof(legacy->st_space));
		legacy->cwd = INITIAL_CWD;
	}
	if (!(state->header.xfeatures & XFEATURE_MASK_SSE))
		memset(legacy->xmm_space, 0, sizeof(legacy->xmm_space));
}

/*
 * Adds the words by which programs recognise a state. size is that of the whole state in a frame.
 */
static void l4_fpu_finish(struct xregs_state *state, int size)
{
	const struct _fpx_sw_bytes sw = {
		.magic1 = FP_XSTATE_MAGIC1,
		.extended_size = size,
		.xfeatures = keel_kip->fpu_mask,
		.xstate_size = keel_kip->fpu_size,
	};

	memcpy(state->i387.sw_reserved, &sw, sizeof(sw));
	l4_fpu_fill_in(state);
	state->header.xfeatures |= XFEATURE_MASK_FPSSE;
	*l4_fpu_magic2(state, keel_kip->fpu_size) = FP_XSTATE_MAGIC2;
}

/*
 * The fast path of a signal frame: saves the state from the registers to the frame. Returns false
 * if that is not possible.
 */
static bool l4_fpu_save_to_frame(void __user *frame, int size)
{
	struct xregs_state *state = l4_user_place(frame, l4_fpu_frame_size(), KEEL_FPAGE_WRITE);
	bool saved;

	if (!state)
		return false;
	saved = l4_fpu_save_registers(state);
	if (saved)
		l4_fpu_finish(state, size);
	l4_walk_end();
	return saved;
}

/*
 * Writes the current thread's state to a signal frame. buf differs from fp for a 32-bit program
 * only. Returns false for a fault.
 */
bool copy_fpstate_to_sigframe(void __user *buf, void __user *fp, int size)
{
	struct xregs_state *state;

	if (buf == fp && l4_fpu_save_to_frame(fp, size))
		return true;
	state = &l4_fpu_fetch(current)->xsave;
	current->thread.fpu.stale |= current->thread.loaded;	/* copying may sleep */
	/* Before the x87 part is converted: it may be initial by the header alone. */
	l4_fpu_finish(state, size);
	if (buf != fp && !l4_fpu_put_i387(buf))
		return false;
	return !copy_to_user(fp, state, l4_fpu_frame_size());
}

/* Gives the current thread the initial state, with which a signal handler starts. */
void fpu__clear_user_states(struct fpu *fpu)
{
	unsigned long thread = current->thread.keel_thread;

	if (l4_fpu_load_registers(&l4_fpu_initial))
		return;
	fpu->stale = false;
	if (thread && !l4_ex_regs(&thread, KEEL_EX_FPU_RESET))
		return;
	l4_fpu_reset(l4_fpu_alloc(fpu));
	l4_fpu_mark_stale(current);
}

/* Returns true if a frame claims to have extended state, of a valid size. */
static bool l4_fpu_names_xstate(const struct _fpx_sw_bytes *sw)
{
	return sw->magic1 == FP_XSTATE_MAGIC1 &&
	       sw->xstate_size >= sizeof(struct xregs_state) &&
	       sw->xstate_size <= keel_kip->fpu_size &&
	       sw->xstate_size <= sw->extended_size;
}

/* Returns true if a frame has extended state in the form that l4_fpu_finish() writes. */
static bool l4_fpu_has_xstate(const struct _fpx_sw_bytes *sw, const void __user *buf)
{
	u32 magic2;

	return l4_fpu_names_xstate(sw) &&
	       !get_user(magic2, (u32 __user *)(buf + sw->xstate_size)) &&
	       magic2 == FP_XSTATE_MAGIC2;
}

/*
 * The fast path of a return from a signal: the frame is as it was written, and the registers are
 * loaded from it. Returns false if that is not possible.
 */
static bool l4_fpu_load_from_frame(const void __user *frame)
{
	const struct xregs_state *state;
	struct _fpx_sw_bytes sw;
	bool loaded;

	if (!IS_ALIGNED((unsigned long)frame, XSAVE_ALIGNMENT))
		return false;
	state = l4_user_place(frame, l4_fpu_frame_size(), KEEL_FPAGE_READ);
	if (!state)
		return false;
	memcpy(&sw, state->i387.sw_reserved, sizeof(sw));
	loaded = l4_fpu_names_xstate(&sw) && sw.xstate_size == keel_kip->fpu_size &&
		 sw.xfeatures == keel_kip->fpu_mask &&
		 *l4_fpu_magic2(state, keel_kip->fpu_size) == FP_XSTATE_MAGIC2 &&
		 l4_fpu_load_registers(state);
	l4_walk_end();
	return loaded;
}

/*
 * Copies the state of a frame to the buffer `state`, all of which it writes. Returns false for a
 * bad frame.
 */
static bool l4_fpu_restore(struct xregs_state *state, const void __user *buf)
{
	unsigned long wanted = XFEATURE_MASK_FPSSE;
	struct _fpx_sw_bytes sw;
	bool extended;

	if (copy_from_user(&state->i387, buf, sizeof(state->i387)))
		return false;
	memcpy(&sw, state->i387.sw_reserved, sizeof(sw));
	extended = l4_fpu_has_xstate(&sw, buf);
	if (!extended || sw.xstate_size < keel_kip->fpu_size)
		memset(&state->header, 0, keel_kip->fpu_size - sizeof(state->i387));
	if (extended) {
		if (copy_from_user(&state->header, buf + sizeof(state->i387),
				   sw.xstate_size - sizeof(state->i387)))
			return false;
		if (state->header.xfeatures & ~keel_kip->fpu_mask)
			return false;
		wanted = state->header.xfeatures & sw.xfeatures;
	}
	state->header.xfeatures = wanted;
	return true;
}

/* Likewise for a 32-bit frame, in which the x87's part has FSAVE's format. */
static bool l4_fpu_restore_32(struct xregs_state *state, const void __user *buf)
{
	struct user_i387_ia32_struct env;

	if (!l4_fpu_restore(state, buf + sizeof(struct fregs_state)) ||
	    copy_from_user(&env, buf, sizeof(env)))
		return false;
	convert_to_fxsr(&state->i387, &env);
	return true;
}

/*
 * Restores the state of a signal frame (NULL: the initial state). Returns false for a bad frame:
 * also if the micro-kernel refuses the state because reserved bits are set.
 */
static bool l4_fpu_restore_frame(void __user *buf, bool ia32_frame)
{
	struct fpu *fpu = &current->thread.fpu;
	struct xregs_state *state;

	if (!buf) {
		fpu__clear_user_states(fpu);
		return true;
	}
	if (!ia32_frame && l4_fpu_load_from_frame(buf))
		return true;
	state = &l4_fpu_alloc(fpu)->xsave;
	fpu->stale = true;	/* copying may sleep, and then nothing is saved to the buffer */
	if ((ia32_frame ? l4_fpu_restore_32(state, buf) : l4_fpu_restore(state, buf)) &&
	    (l4_fpu_load_registers(state) || !l4_fpu_store(current)))
		return true;
	fpu__clear_user_states(fpu);
	return false;
}

/* The rest of the frame, including the selectors, is in the registers already. */
bool fpu__restore_sig(void __user *buf, int ia32_frame)
{
	if (!l4_fpu_restore_frame(buf, ia32_frame))
		return false;
	l4_check_selectors(current_pt_regs());
	return true;
}

/* For ptrace: the FXSAVE and the XSAVE set are prefixes of the standard layout. */
void l4_put_xstate(struct membuf to, struct task_struct *task, int format)
{
	u32 *words = task->thread.fpu.regs->fxsave.sw_reserved;

	l4_fpu_fill_in(&task->thread.fpu.regs->xsave);
	memset(words, 0, sizeof(task->thread.fpu.regs->fxsave.sw_reserved));
	if (format == XSTATE_COPY_XSAVE)
		*(u64 *)words = keel_kip->fpu_mask;
	membuf_write(&to, task->thread.fpu.regs, min_t(size_t, to.left, keel_kip->fpu_size));
}

/*
 * For ptrace: sets the buffer, or returns -EINVAL for a state that the micro-kernel would refuse.
 */
int l4_get_xstate(struct fpu *fpu, const struct xregs_state *from)
{
	const struct xstate_header *header = &from->header;

	if (header->xfeatures & ~keel_kip->fpu_mask || header->xcomp_bv ||
	    memchr_inv(header->reserved, 0, sizeof(header->reserved)) ||
	    from->i387.mxcsr & ~mxcsr_feature_mask)
		return -EINVAL;
	memcpy(fpu->regs, from, keel_kip->fpu_size);
	return 0;
}
