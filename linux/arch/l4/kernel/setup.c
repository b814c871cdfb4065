// SPDX-License-Identifier: GPL-2.0-only
/*
 * Boot: from the start record, which the root task passes, to start_kernel() and setup_arch().
 * Reads the server's memory, the initrd and the command line from the record. Runs on the first
 * server thread, with interrupts off and before there are other lthreads.
 */
#include <linux/delay.h>
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
#define PORTS_LEAST_LOG2 1	/* no smaller block than an index port and its data port */

DEFINE_PER_CPU(struct task_struct *, current_task) = &init_task;
EXPORT_PER_CPU_SYMBOL(current_task);

unsigned long l4_image_offset;
EXPORT_SYMBOL(l4_image_offset);

/* Reads one byte of each page, so that the root task maps it. */
static void __init l4_touch(unsigned long start, unsigned long size)
{
	unsigned long address;

	for (address = start; address < start + size; address += PAGE_SIZE)
		READ_ONCE(*(const char *)address);
}

/*
 * Gets all of Linux's memory mapped. The root task maps memory on page faults, and it is this
 * thread's pager only until the trap reflector is.
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

/* Asks sigma0 for all I/O ports that the server may have, in blocks as large as possible. */
static void __init l4_map_ports(unsigned int port, unsigned int log2)
{
	if (keel_map_ports(port, log2) || log2 == PORTS_LEAST_LOG2)
		return;
	l4_map_ports(port, log2 - 1);
	l4_map_ports(port + (1 << (log2 - 1)), log2 - 1);
}

/* The first C function, called by head.S. */
asmlinkage void __init l4_boot(struct keel_start *start)
{
	keel_init(start);
	l4_image_offset = start->image_phys - start->image_virt;
	l4_touch_memory();
	l4_reflector_init();
	keel_set_percpu_base(0);	/* the image itself, until smp_prepare_boot_cpu() */
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

/* Reserves the start record itself, if the root task put it into Linux's memory. */
static void __init l4_reserve_record(void)
{
	unsigned long address = (unsigned long)keel_start;

	if (address >= PAGE_OFFSET && memblock_is_memory(__pa(address)))
		memblock_reserve(__pa(address) & PAGE_MASK, PAGE_SIZE);
}

static void __init l4_add_initrd(void)
{
	memblock_add(keel_start->initrd_phys, PAGE_ALIGN(keel_start->initrd_size));
	if (IS_ENABLED(CONFIG_BLK_DEV_INITRD)) {
		phys_initrd_start = keel_start->initrd_phys;
		phys_initrd_size = keel_start->initrd_size;
	}
	reserve_initrd_mem();
}

/* Called by start_kernel(), with interrupts off. */
void __init setup_arch(char **cmdline)
{
	strscpy(boot_command_line, (const char *)keel_start->command_line,
		COMMAND_LINE_SIZE);
	*cmdline = boot_command_line;
	lpj_fine = keel_kip->tsc_hz / HZ;
	l4_map_ports(0, PORTS_LOG2);
	l4_console_init();
	pr_info("Linux as an L4 server%s: root task %lx, first task %lu, %lu interrupt lines\n",
		keel_entry ? " in supervisor mode" : "", keel_start->root,
		keel_start->task_first, keel_start->irq_count);

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
