// SPDX-License-Identifier: GPL-2.0-only
/*
 * Writing an address to /proc/keel_stack makes the kernel's own code fault with that stack pointer:
 * it pushes a word there.
 */
#include <linux/kernel.h>
#include <linux/module.h>
#include <linux/proc_fs.h>

static ssize_t push_at(struct file *file, const char __user *buffer, size_t size, loff_t *at)
{
	unsigned long address;
	int error = kstrtoul_from_user(buffer, size, 16, &address);

	if (error)
		return error;
	asm volatile("movq %0, %%rsp\n\tpushq %0\n\tud2" : : "r" (address) : "memory");
	return size;
}

static const struct proc_ops operations = { .proc_write = push_at };

static int __init keel_stack_init(void)
{
	return proc_create("keel_stack", 0200, NULL, &operations) ? 0 : -ENOMEM;
}
module_init(keel_stack_init);

static void __exit keel_stack_exit(void)
{
	remove_proc_entry("keel_stack", NULL);
}
module_exit(keel_stack_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("A fault of the kernel's own without a stack, for a test");
