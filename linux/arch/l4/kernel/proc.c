// SPDX-License-Identifier: GPL-2.0-only
/*
 * /proc/keel/accounting: the kmem quota of the server and its processes in the micro-kernel. All
 * mappings of user pages are unmapped before it is read: they are a cache, whose size changes all
 * the time, and what remains is allocated for good.
 */
#include <linux/init.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <asm/l4.h>

static const char *const l4_account_names[KEEL_ACCOUNT_WORDS] = {
	[KEEL_ACCOUNT_LIMIT] = "limit",
	[KEEL_ACCOUNT_USED] = "used",
	[KEEL_ACCOUNT_TASKS] = "tasks",
	[KEEL_ACCOUNT_LTHREADS] = "lthreads",
	[KEEL_ACCOUNT_TABLES] = "tables",
	[KEEL_ACCOUNT_NODES] = "nodes",
	[KEEL_ACCOUNT_FRAMES] = "frames",
	[KEEL_ACCOUNT_FPUS] = "fpus",
	[KEEL_ACCOUNT_POOL_FREE] = "pool_free",
};

/* Shows the server's quota, which its processes share. */
static int l4_accounting_show(struct seq_file *m, void *v)
{
	unsigned long words[KEEL_ACCOUNT_WORDS];
	unsigned int i;
	int error;

	l4_mm_empty();
	error = keel_account(KEEL_ID_NIL, words);
	if (error)
		return error;
	for (i = 0; i < KEEL_ACCOUNT_WORDS; i++)
		seq_printf(m, "%s %lu\n", l4_account_names[i], words[i]);
	return 0;
}

static int __init l4_proc_init(void)
{
	proc_mkdir("keel", NULL);
	proc_create_single("keel/accounting", 0400, NULL, l4_accounting_show);
	return 0;
}
fs_initcall(l4_proc_init);
