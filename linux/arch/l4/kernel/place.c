// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where programs run that the command line names, or for which a thread asks before it executes
 * them (KEEL_LINUX_PRCTL_PLACE). A named program is that of the file at its path when it is
 * executed. CAP_SYS_RAWIO decides, because such a program can do more than others:
 *   - keel.place=/usr/bin/APP=kernel, or =server, where Linux itself is in supervisor mode: there
 *     too, each in a space of its own. Its children are in supervisor mode until they execute
 *     another program.
 *   - keel.place=/usr/bin/APP=server, where Linux is in user mode: in the server's own task
 *     (kernel/inside.c), one process at a time. Its children are ordinary processes.
 *   - keel.place=i386=small, where Linux is in user mode: 32-bit programs in windows of the
 *     server's tables (mm/small.c); then no program is in the server's task;
 *   - keel.place=i386=resident, likewise: the server in the tables of each 32-bit program.
 * A named program that cannot be there is an ordinary process; for others exec, or the call before
 * it, fails; what changes in between kills the new program.
 *
 * A placed program may give up its capability, but what it can reach stays. Therefore nobody else
 * traces it, reads or writes its memory, or takes its files, without CAP_SYS_PTRACE in the first
 * user namespace: a security module asks for that at each such access, whatever the program's
 * credentials and its user's namespace are, and whether it may be dumped.
 */
#include <linux/capability.h>
#include <linux/elf.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/lsm_hooks.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/prctl.h>
#include <linux/ptrace.h>
#include <linux/sched/coredump.h>
#include <linux/sched/signal.h>
#include <asm/l4.h>
#include <asm/ukl_gate.h>

#define L4_PLACED_MAX 8
#define L4_PLACED_PATH 256

static char l4_placed[L4_PLACED_MAX][L4_PLACED_PATH] __ro_after_init;
static unsigned int l4_placed_count __ro_after_init;

/* One program: its absolute path and its place. Beside Linux in supervisor mode both are one. */
static int __init l4_place(char *word)
{
	char *place = strrchr(word, '=');
	size_t length = place ? place - word : 0;

	if (l4_small_begin(word))
		return 1;
	if (!length || word[0] != '/' || length >= L4_PLACED_PATH ||
	    (strcmp(place, "=server") && !(keel_entry && !strcmp(place, "=kernel"))) ||
	    l4_placed_count == L4_PLACED_MAX) {
		pr_err("keel: keel.place=%s is ignored: it is i386=small, i386=resident or PATH=server, of %d at most, or beside Linux in supervisor mode PATH=kernel\n",
		       word, L4_PLACED_MAX);
		return 1;
	}
	memcpy(l4_placed[l4_placed_count++], word, length);
	return 1;
}
__setup("keel.place=", l4_place);

/* Whether a path leads to this file. */
static bool l4_leads_to(const char *name, const struct inode *file)
{
	struct path path;
	bool same;

	if (kern_path(name, LOOKUP_FOLLOW, &path))
		return false;
	same = d_backing_inode(path.dentry) == file;
	path_put(&path);
	return same;
}

/* Returns the address of a 64-bit program's gate (asm/ukl_gate.h), or 0. May sleep. */
static unsigned long l4_gate_of(struct file *file)
{
	struct elf64_phdr segment;
	unsigned long gate = 0;
	struct elf64_hdr header;
	loff_t at = 0;
	unsigned int i;

	if (kernel_read(file, &header, sizeof(header), &at) != sizeof(header) ||
	    header.e_type != ET_EXEC)
		return 0;
	at = header.e_phoff;
	for (i = 0; i < header.e_phnum && !gate; i++) {
		if (kernel_read(file, &segment, sizeof(segment), &at) != sizeof(segment))
			return 0;
		gate = ukl_gate_of(file, &segment);
	}
	return gate;
}

/*
 * The current process executes a placed program, which is mapped: opens its gate, or makes stubs if
 * it has none in the server. If the gate is where the program has no memory, it is killed.
 */
static void l4_gate_open(struct file *file)
{
	unsigned long gate = l4_gate_of(file);

	if (gate && ukl_gate_open(gate, keel_entry ? l4_supervisor_gate : l4_bypass_gate,
				  !keel_entry && UKL_HAS_SHORTCUTS))
		force_fatal_sig(SIGSEGV);
	if (keel_entry)
		return;
	current->mm->context.gate = gate;
	if (!gate)
		l4_stubs_begin();
}

/*
 * arch_prctl: where the calling thread's next exec runs its program, one of KEEL_LINUX_PLACE_*.
 * Returns 0; -EPERM without CAP_SYS_RAWIO, -EBUSY if another program is in the server, -EOPNOTSUPP
 * if no program can be there, or -EINVAL.
 */
long l4_place_next(unsigned long place)
{
	int error = place > KEEL_LINUX_PLACE_SERVER ? -EINVAL : 0;

	if (place > KEEL_LINUX_PLACE_PROCESS && !error)
		error = !capable(CAP_SYS_RAWIO) ? -EPERM : keel_entry ? 0 :
			place == KEEL_LINUX_PLACE_SERVER ? l4_inside_refuses() : -EOPNOTSUPP;
	if (!error)
		current->thread.place = (current->thread.place & ~L4_PLACE_NEXT) | place;
	return error;
}

/* Whether the command line names a program. */
static bool l4_is_named(struct file *file)
{
	unsigned int i;

	for (i = 0; i < l4_placed_count; i++)
		if (l4_leads_to(l4_placed[i], file_inode(file)))
			return true;
	return false;
}

/*
 * exec, with the new program's mm and credentials: where it runs. `wide`: it is a 64-bit program;
 * others can be nowhere else. May sleep.
 */
void l4_place_program(bool wide)
{
	unsigned long place = current->thread.place & L4_PLACE_NEXT;
	struct mm_struct *mm = current->mm;
	const char *refusal;
	struct file *file;

	current->thread.place = KEEL_LINUX_PLACE_NAMED;
	if (likely(!(place | l4_placed_count)) || place == KEEL_LINUX_PLACE_PROCESS)
		return;
	file = get_mm_exe_file(mm);
	if (!file)
		return;
	if (!place && !l4_is_named(file))
		goto out;
	refusal = !capable(CAP_SYS_RAWIO) ? "it lacks CAP_SYS_RAWIO" :
		  !wide ? "it is a 32-bit program" :
		  !ptracer_capable(current, &init_user_ns) ? "its tracer lacks CAP_SYS_PTRACE" :
		  keel_entry ? NULL : l4_inside_begin(mm);
	mm->context.supervisor = keel_entry && !refusal;
	if (!refusal) {
		current->thread.place = L4_PLACED;
		set_dumpable(mm, SUID_DUMP_DISABLE);
		l4_gate_open(file);
	} else {
		pr_notice_ratelimited("keel: %s[%d] is %s: %s\n", current->comm,
				      task_pid_nr(current),
				      place ? "killed" : "an ordinary process", refusal);
		/* It was asked for by who could have been told before: that has changed since. */
		if (place)
			force_fatal_sig(SIGKILL);
	}
out:
	fput(file);
}

/* An access to another process, which is not in the caller's thread group: 0 or -EPERM. */
static int l4_access_check(struct task_struct *task, unsigned int mode)
{
	if (!l4_is_placed(task))
		return 0;
	if (mode & PTRACE_MODE_NOAUDIT)
		return ns_capable_noaudit(&init_user_ns, CAP_SYS_PTRACE) ? 0 : -EPERM;
	return capable(CAP_SYS_PTRACE) ? 0 : -EPERM;
}

/* The current process asks its parent to trace it: 0 or -EPERM. */
static int l4_access_traceme(struct task_struct *parent)
{
	return !l4_is_placed(current) || has_capability(parent, CAP_SYS_PTRACE) ? 0 : -EPERM;
}

/* prctl: a placed program stays without core dumps, and root's in /proc. -EPERM, or -ENOSYS. */
static int l4_access_prctl(int option, unsigned long value, unsigned long unused3,
			   unsigned long unused4, unsigned long unused5)
{
	return option == PR_SET_DUMPABLE && value == SUID_DUMP_USER && l4_is_placed(current) &&
	       !capable(CAP_SYS_PTRACE) ? -EPERM : -ENOSYS;
}

static struct security_hook_list l4_access_hooks[] __lsm_ro_after_init = {
	LSM_HOOK_INIT(ptrace_access_check, l4_access_check),
	LSM_HOOK_INIT(ptrace_traceme, l4_access_traceme),
	LSM_HOOK_INIT(task_prctl, l4_access_prctl),
};

static int __init l4_access_init(void)
{
	security_add_hooks(l4_access_hooks, ARRAY_SIZE(l4_access_hooks), "keel");
	return 0;
}

/* The order makes it one that lsm= cannot leave out. */
DEFINE_LSM(keel) = {
	.name = "keel",
	.order = LSM_ORDER_FIRST,
	.init = l4_access_init,
};
