// SPDX-License-Identifier: GPL-2.0-only
/*
 * Reading /proc/keel_again has the µ-kernel unmap pages of the vmalloc area that Linux has mapped,
 * as if there had been no room for them, and says how many had their contents when they were used.
 */
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/proc_fs.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>
#include <asm/hypercall.h>

#define PAGES 64

/* keel_unmap() of the first processor's server thread, which Linux does not export. */
static unsigned long unmap(unsigned long address)
{
	struct keel_utcb *utcb = (void *)(KEEL_AREA_UPPER + KEEL_AREA_UTCBS +
					  KEEL_SERVER * KEEL_PAGE_SIZE);
	struct keel_unmap_range range = { .address = keel_number(address), .pages = PAGES };
	unsigned long task = utcb->id | (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
	unsigned long call = KEEL_CALL_FPAGE_UNMAP, unused = 0, flags = KEEL_UNMAP_TASK;
	register unsigned long count asm("r8") = 1;

	memcpy((void *)utcb->record, &range, sizeof(range));
	asm volatile("syscall" : "+a" (call), "+D" (unused), "+S" (flags), "+d" (task), "+r" (count)
		     : : "rcx", "r9", "r10", "r11", "r12", "r13", "memory");
	return call;
}

static int show(struct seq_file *m, void *v)
{
	unsigned int *numbers = vmalloc(PAGES * PAGE_SIZE), i, good = 0;
	const unsigned int step = PAGE_SIZE / sizeof(*numbers);

	if (!numbers)
		return -ENOMEM;
	for (i = 0; i < PAGES; i++)
		numbers[i * step] = i;
	seq_printf(m, "status %ld\n", (long)unmap((unsigned long)numbers));
	for (i = 0; i < PAGES; i++)
		good += numbers[i * step]++ == i;
	seq_printf(m, "%u of %u pages\n", good, PAGES);
	vfree(numbers);
	return 0;
}

static int __init keel_again_init(void)
{
	return proc_create_single("keel_again", 0444, NULL, show) ? 0 : -ENOMEM;
}
module_init(keel_again_init);

static void __exit keel_again_exit(void)
{
	remove_proc_entry("keel_again", NULL);
}
module_exit(keel_again_exit);

MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Pages of the vmalloc area that the µ-kernel does not map, for a test");
