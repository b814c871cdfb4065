// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where programs run that the command line names. A program is that of the file at its path when it
 * is executed. CAP_SYS_RAWIO decides, because such a program can do more than others:
 *   - keel.place=/usr/bin/APP=kernel, where Linux itself is in supervisor mode: there too, each in
 *     a space of its own. Its children are in supervisor mode until they execute another program.
 *   - keel.place=/usr/bin/APP=server, where Linux is in user mode: in the server's own task
 *     (kernel/inside.c), one process at a time. Its children are ordinary processes.
 */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/namei.h>
#include <linux/ratelimit.h>
#include <linux/sched/coredump.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <asm/hypercall.h>
#include <asm/l4.h>
#include <asm/ukl_gate.h>

#define L4_PLACED_MAX 8
#define L4_PLACED_PATH 256

static char l4_placed[L4_PLACED_MAX][L4_PLACED_PATH] __ro_after_init;
static unsigned int l4_placed_count __ro_after_init;

/* One program: its absolute path and its place. There is one place beside each one of Linux. */
static int __init l4_place(char *word)
{
	const char *known = keel_entry ? "=kernel" : "=server";
	char *place = strrchr(word, '=');
	size_t length = place ? place - word : 0;

	if (!length || word[0] != '/' || strcmp(place, known) || length >= L4_PLACED_PATH ||
	    l4_placed_count == L4_PLACED_MAX) {
		pr_err("keel: keel.place=%s is ignored: beside Linux in %s mode it is PATH%s, of %d at most\n",
		       word, keel_entry ? "supervisor" : "user", known, L4_PLACED_MAX);
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
 * exec, with the new program's mm and credentials: where it runs. `wide`: it is a 64-bit program;
 * others can be nowhere else. May sleep.
 */
void l4_place_program(bool wide)
{
	struct mm_struct *mm = current->mm;
	const char *refusal;
	struct file *file;
	unsigned int i;

	if (likely(!l4_placed_count))
		return;
	file = get_mm_exe_file(mm);
	if (!file)
		return;
	for (i = 0; i < l4_placed_count && !l4_leads_to(l4_placed[i], file_inode(file)); i++)
		;
	if (i == l4_placed_count)
		goto out;
	refusal = !capable(CAP_SYS_RAWIO) ? "it lacks CAP_SYS_RAWIO" :
		  !wide ? "it is a 32-bit program" :
		  keel_entry ? NULL : l4_inside_begin(mm);
	mm->context.supervisor = keel_entry && !refusal;
	if (!refusal) {
		/* It may give up the capability later: who traces it needs another one. */
		set_dumpable(mm, SUID_DUMP_DISABLE);
		l4_gate_open(file);
	} else {
		pr_notice_ratelimited("keel: %s[%d] is an ordinary process: %s\n",
				      current->comm, task_pid_nr(current), refusal);
	}
out:
	fput(file);
}
