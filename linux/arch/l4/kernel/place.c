// SPDX-License-Identifier: GPL-2.0-only
/*
 * Programs in supervisor mode. Where Linux itself runs there, so do the programs that the command
 * line names (keel.place=/usr/bin/APP=kernel), each in a space of its own, like any other process
 * for Linux. A program is that of the file at its path when it is executed; its children are in
 * supervisor mode until they execute another one. Such a program can do anything to the machine:
 * CAP_SYS_RAWIO decides.
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
#include <asm/hypercall.h>
#include <asm/l4.h>

#define L4_PLACED_MAX 8
#define L4_PLACED_PATH 256

static char l4_placed[L4_PLACED_MAX][L4_PLACED_PATH] __ro_after_init;
static unsigned int l4_placed_count __ro_after_init;

/* One program: its absolute path and its place. */
static int __init l4_place(char *word)
{
	char *place = strrchr(word, '=');
	size_t length = place ? place - word : 0;

	if (!keel_entry || !length || word[0] != '/' || strcmp(place, "=kernel") ||
	    length >= L4_PLACED_PATH || l4_placed_count == L4_PLACED_MAX) {
		pr_err("keel: keel.place=%s is ignored: %s\n", word,
		       keel_entry ? "it is no PATH=kernel, or there are too many" :
				    "Linux itself is not in supervisor mode");
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

/*
 * exec, with the new program's mm and credentials: where it runs. `wide`: it is a 64-bit program;
 * others cannot be in supervisor mode. May sleep.
 */
void l4_place_program(bool wide)
{
	struct mm_struct *mm = current->mm;
	struct file *file;
	unsigned int i;

	if (likely(!l4_placed_count))
		return;
	file = get_mm_exe_file(mm);
	if (!file)
		return;
	for (i = 0; i < l4_placed_count && !l4_leads_to(l4_placed[i], file_inode(file)); i++)
		;
	fput(file);
	if (i == l4_placed_count)
		return;
	mm->context.supervisor = wide && capable(CAP_SYS_RAWIO);
	if (mm->context.supervisor)
		/* It may give up the capability later: who traces it needs another one. */
		set_dumpable(mm, SUID_DUMP_DISABLE);
	else
		pr_notice_ratelimited("keel: %s[%d] runs in user mode: %s\n", current->comm,
				      task_pid_nr(current),
				      wide ? "it lacks CAP_SYS_RAWIO" : "it is a 32-bit program");
}
