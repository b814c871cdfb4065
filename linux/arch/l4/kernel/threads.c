// SPDX-License-Identifier: GPL-2.0-only
/*
 * Frames and lthreads of Linux's threads. A frame is a part of a page that is shared with the
 * micro-kernel; it has a user thread's registers while Linux runs. A Linux thread has its frame
 * from creation to its last reference, and its lthread from the first return to user mode to exec
 * or exit: the lthread is in the L4 task of the mm and is created again when that changes. Frames
 * have the lowest free numbers, so that few pages are bought for them. Lthreads are changed by
 * their own thread only, in process context and on a server thread, whose record is used.
 */
#include <linux/capability.h>
#include <linux/idr.h>
#include <linux/kernel.h>
#include <linux/mutex.h>
#include <linux/threads.h>
#include <asm/l4.h>
#include <asm/mmu_context.h>

#define FRAME_COUNT (KEEL_AREA_FRAME_PAGES * KEEL_FRAMES_PER_PAGE)
/* Enough frames for every thread that may exist. */
#define FRAMES_USED min_t(unsigned int, FRAME_COUNT, PID_MAX_DEFAULT)

static DEFINE_IDA(l4_frames);
static unsigned int l4_frame_pages;	/* bought so far */
static DEFINE_MUTEX(l4_frames_mutex);	/* protects that */

/*
 * keel_ex_regs() with what is in the record. If kmem is used up, mappings are reclaimed and the
 * call is repeated. Returns the status.
 */
unsigned long l4_ex_regs(unsigned long *thread, unsigned long mask)
{
	unsigned long id = *thread, status = keel_ex_regs(thread, mask);
	bool again = true;

	while (l4_no_memory(status) && again) {
		again = l4_mm_reclaim();
		*thread = id;
		status = keel_ex_regs(thread, mask);
	}
	return status;
}

/*
 * Buys the pages up to that of a frame, unless that was done: they only become more. Returns false
 * if there is no kmem.
 */
static bool l4_frame_populate(unsigned int index)
{
	unsigned int page = index / KEEL_FRAMES_PER_PAGE;

	if (likely(page < READ_ONCE(l4_frame_pages)))
		return true;
	mutex_lock(&l4_frames_mutex);
	while (page >= l4_frame_pages && !keel_buy_frames(l4_frame_pages, 1))
		l4_frame_pages++;
	mutex_unlock(&l4_frames_mutex);
	return page < READ_ONCE(l4_frame_pages);
}

/* Allocates a frame, after a reclaim if need be; NULL if there is no number, or no kmem. */
struct keel_frame *l4_frame_alloc(void)
{
	int index = ida_alloc_max(&l4_frames, FRAMES_USED - 1, GFP_KERNEL);

	if (index < 0)
		return NULL;
	if (!l4_frame_populate(index))
		l4_mm_reclaim();
	if (l4_frame_populate(index))
		return keel_frame(index);
	ida_free(&l4_frames, index);
	return NULL;
}

static unsigned int l4_frame_index(const struct keel_frame *frame)
{
	return ((unsigned long)frame - (unsigned long)keel_frame(0)) / KEEL_FRAME_SIZE;
}

/* Frees a frame. The lthread that used it is deleted already. */
void l4_frame_free(struct keel_frame *frame)
{
	ida_free(&l4_frames, l4_frame_index(frame));
}

/* Deletes the task's lthread, if any. Ids are never used again, so a late delete is harmless. */
void l4_thread_delete(struct task_struct *task)
{
	unsigned long thread = task->thread.keel_thread;

	if (thread)
		keel_ex_regs(&thread, KEEL_EX_DELETE);
	task->thread.keel_thread = 0;
	task->thread.keel_task = 0;
	task->thread.ready_cpu = L4_NO_CPU;
	task->thread.resume_action = L4_RESUME_START;
}

/* Creates the lthread in the mm's L4 task, without starting it. Returns L4's status. */
static unsigned long l4_thread_create(struct task_struct *task, unsigned long *thread)
{
	struct keel_ex_regs *record = keel_record();

	*thread = task->mm->context.keel_task |
		  (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
	record->handler = keel_self(keel_server());
	record->pager = task->thread.pager ?: record->handler;
	record->frame = l4_frame_index(task->thread.frame);
	return l4_ex_regs(thread, KEEL_EX_CREATE | KEEL_EX_ALIEN | KEEL_EX_FRAME |
				  KEEL_EX_PAGER | KEEL_EX_HANDLER);
}

/*
 * Sets where the lthread's system calls go (KEEL_DISPATCH_*, or a trampoline's address), which the
 * micro-kernel validates. Returns 0 or -EINVAL.
 */
int l4_thread_dispatch(struct task_struct *task, unsigned long dispatch)
{
	unsigned long thread = task->thread.keel_thread;

	keel_record()->dispatch = dispatch;
	if (l4_ex_regs(&thread, KEEL_EX_DISPATCH))
		return -EINVAL;
	task->thread.dispatch = dispatch;
	return 0;
}

/*
 * Sets the pager that gets the current thread's page faults first; 0: the server. Faults that it
 * forwards are served by Linux. Returns 0, -EPERM or -EINVAL.
 */
int l4_thread_pager(unsigned long pager)
{
	unsigned long thread = current->thread.keel_thread;

	if (!capable(CAP_SYS_NICE))
		return -EPERM;
	keel_record()->pager = pager ?: keel_self(keel_server());
	if (keel_ex_regs(&thread, KEEL_EX_PAGER))
		return -EINVAL;
	current->thread.pager = pager;
	return 0;
}

/* Makes a new lthread for the task on this processor; 0 or an error. May sleep. */
static int l4_thread_make(struct task_struct *task)
{
	unsigned long thread;
	int error = l4_mm_prepare(task->mm);

	if (error)
		return error;
	if (unlikely(task->mm->context.gate))
		l4_gate_close();
	l4_thread_delete(task);
	if (l4_thread_create(task, &thread))
		return -ENOMEM;
	task->thread.keel_thread = thread;
	task->thread.keel_task = task->mm->context.keel_task;
	task->thread.keel_cpu = raw_smp_processor_id();
	if (keel_schedule(thread, l4_user_priority(), task->thread.keel_cpu))
		return -EPERM;
	/* A thread that has left its window for 64-bit code may fork, too. */
	if (unlikely(task->mm->context.window) && task_pt_regs(task)->cs == __USER32_CS)
		l4_small_thread(task->mm, thread);
	return task->thread.dispatch ? l4_thread_dispatch(task, task->thread.dispatch) : 0;
}

/*
 * Linux has migrated the task, but its lthread waits for a reply of the old processor's server,
 * which this processor's cannot send. The lthread is therefore started; a fault then occurs once
 * more.
 */
static int l4_thread_move(struct task_struct *task)
{
	struct keel_ex_regs *record = keel_record();
	unsigned long thread = task->thread.keel_thread;
	unsigned int cpu = raw_smp_processor_id();

	record->handler = keel_self(keel_server());
	record->pager = task->thread.pager ?: record->handler;
	if (keel_ex_regs(&thread, KEEL_EX_PAGER | KEEL_EX_HANDLER) ||
	    keel_schedule(thread, l4_user_priority(), cpu))
		return -EPERM;
	task->thread.keel_cpu = cpu;
	task->thread.resume_action = L4_RESUME_START;
	return 0;
}

/* Stores debug registers and TLS descriptors into the lthread. */
static int l4_store_debug_and_tls(struct task_struct *task)
{
	unsigned long thread = task->thread.keel_thread;

	task->thread.debug_stale = false;
	memcpy(keel_record()->debug, task->thread.debug, sizeof(task->thread.debug));
	if (test_tsk_thread_flag(task, TIF_NOTSC))
		keel_record()->debug[L4_DR7] |= KEEL_DEBUG_NO_TSC;
	memcpy(keel_record()->tls, task->thread.tls_array, sizeof(task->thread.tls_array));
	if (l4_ex_regs(&thread, KEEL_EX_DEBUG_SET | KEEL_EX_TLS))
		return -EINVAL;
	return 0;
}

/* Creates, migrates and updates the task's lthread as needed. Returns 0 or an error. May sleep. */
int l4_thread_prepare(struct task_struct *task)
{
	int error = 0;

	if (!task->thread.keel_thread ||
	    task->thread.keel_task != task->mm->context.keel_task)
		error = l4_thread_make(task);
	else if (task->thread.keel_cpu != raw_smp_processor_id())
		error = l4_thread_move(task);
	if (!error)
		task->thread.ready_cpu = task->thread.keel_cpu;	/* cleared when state is stale */
	if (!error && task->thread.fpu.stale)
		error = l4_fpu_store(task);
	if (!error && task->thread.debug_stale)
		error = l4_store_debug_and_tls(task);
	return error;
}
