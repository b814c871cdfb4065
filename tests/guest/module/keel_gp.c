// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading /proc/keel_gp raises a general protection fault in the kernel's own code, which is fixed
 * up, and says whether it did.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <asm/asm.h>

/* No descriptor table is so long. */
#define NO_SELECTOR 0xfff8

static int show(struct seq_file *m, void *v)
{
	bool raised = true;

	asm volatile("1: movl %[selector], %%es\n\t"
		     "movb $0, %[raised]\n"
		     "2:"
		     _ASM_EXTABLE(1b, 2b)
		     : [raised] "+m" (raised)
		     : [selector] "r" (NO_SELECTOR));
	seq_printf(m, "raised %d\n", raised);
	return 0;
}

static int __init keel_gp_init(void)
{
	return proc_create_single("keel_gp", 0444, NULL, show) ? 0 : -ENOMEM;
}
module_init(keel_gp_init);

static void __exit keel_gp_exit(void)
{
	remove_proc_entry("keel_gp", NULL);
}
module_exit(keel_gp_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A general protection fault of the kernel's own, for a test");
