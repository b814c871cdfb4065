// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading /proc/keel_oops makes the kernel's own code fault in the middle of a copy to user memory,
 * within a walk section.
 */
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/uaccess.h>

/* An address that is not mapped in the kernel. */
#define NOWHERE ((const void *)16)

static ssize_t copy_from_nowhere(struct file *file, char __user *buffer, size_t size, loff_t *at)
{
	return raw_copy_to_user(buffer, NOWHERE, size);
}

static const struct proc_ops operations = { .proc_read = copy_from_nowhere };

static int __init keel_oops_init(void)
{
	return proc_create("keel_oops", 0444, NULL, &operations) ? 0 : -ENOMEM;
}
module_init(keel_oops_init);

static void __exit keel_oops_exit(void)
{
	remove_proc_entry("keel_oops", NULL);
}
module_exit(keel_oops_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("An oops within a copy to user memory, for a test");
