// SPDX-License-Identifier: GPL-2.0-only
/*
 * From the start record to start_kernel() and setup_arch(): who we are, where
 * memory is, what the command line says.
 */
#include <linux/export.h>
#include <linux/init.h>
#include <linux/initrd.h>
#include <linux/kernel.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/start_kernel.h>
#include <linux/string.h>
#include <linux/sched/task.h>
#include <asm/l4.h>
#include <asm/sections.h>
#include <asm/setup.h>
#include "../hypercall/reflector.h"

#define PORTS_LOG2 16
#define PORTS_LEAST_LOG2 1	/* nothing smaller than an index and its data */

DEFINE_PER_CPU(struct task_struct *, l4_current_task) = &init_task;
EXPORT_PER_CPU_SYMBOL(l4_current_task);

unsigned long l4_image_offset;
EXPORT_SYMBOL(l4_image_offset);

static void __init l4_touch(unsigned long start, unsigned long size)
{
	unsigned long address;

	for (address = start; address < start + size; address += PAGE_SIZE)
		READ_ONCE(*(const char *)address);
}

/*
 * The root task maps memory when it is touched, and it is our pager only until
 * the keeper is: Linux's memory must be there before Linux runs.
 */
static void __init l4_touch_memory(void)
{
	unsigned long i;

	l4_touch(keel_start->image_virt, keel_start->image_size);
	for (i = 0; i < keel_start->region_count; i++) {
		const unsigned long *region = &keel_start->regions[3 * i];

		l4_touch(PAGE_OFFSET + region[0], region[1] - region[0]);
	}
}

/* Gets all I/O ports that we may have, by the largest blocks. */
static void __init l4_map_ports(unsigned int port, unsigned int log2)
{
	if (keel_map_ports(port, log2) || log2 == PORTS_LEAST_LOG2)
		return;
	l4_map_ports(port, log2 - 1);
	l4_map_ports(port + (1 << (log2 - 1)), log2 - 1);
}

asmlinkage void __init l4_boot(struct keel_start *start)
{
	keel_init(start);
	l4_image_offset = start->image_phys - start->image_virt;
	l4_touch_memory();
	l4_reflector_init();
	keel_set_percpu_base(0);	/* the variables in the image, so far */
	start_kernel();
}

static void __init l4_add_memory(void)
{
	unsigned long i;

	for (i = 0; i < keel_start->region_count; i++) {
		const unsigned long *region = &keel_start->regions[3 * i];

		memblock_add(region[0], region[1] - region[0]);
	}
	memblock_add(keel_start->image_phys, keel_start->image_size);
	memblock_reserve(keel_start->image_phys, keel_start->image_size);
}

/* The record itself, if the root task put it into our memory. */
static void __init l4_reserve_record(void)
{
	unsigned long address = (unsigned long)keel_start;

	if (address >= PAGE_OFFSET && memblock_is_memory(__pa(address)))
		memblock_reserve(__pa(address) & PAGE_MASK, PAGE_SIZE);
}

static void __init l4_add_initrd(void)
{
	unsigned long start = keel_start->initrd_phys;
	unsigned long size = keel_start->initrd_size;

	if (!start || !size)
		return;
	memblock_add(start, size);
	memblock_reserve(start, size);
	if (IS_ENABLED(CONFIG_BLK_DEV_INITRD)) {
		initrd_start = (unsigned long)__va(start);
		initrd_end = initrd_start + size;
	}
}

void __init setup_arch(char **cmdline)
{
	strscpy(boot_command_line, (const char *)keel_start->command_line,
		COMMAND_LINE_SIZE);
	*cmdline = boot_command_line;
	l4_map_ports(0, PORTS_LOG2);
	l4_console_init();
	pr_info("Linux as an L4 server: root task %lx, first task %lu, %lu interrupt lines\n",
		keel_start->root, keel_start->task_first, keel_start->irq_count);

	setup_initial_init_mm(_stext, _etext, _edata, _end);
	if (keel_start->priority < L4_LEAST_PRIORITY)
		panic("keel: a server needs a priority of %lu or more", L4_LEAST_PRIORITY);
	l4_cpu_init();
	l4_smp_init();
	parse_early_param();

	l4_add_memory();
	l4_add_initrd();
	l4_reserve_record();
	memblock_allow_resize();
	memblock_dump_all();
	l4_paging_init();
	l4_pager_init();
	l4_acpi_init();
	l4_screen_init();
}
