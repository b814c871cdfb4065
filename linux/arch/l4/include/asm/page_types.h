/* SPDX-License-Identifier: GPL-2.0-only */
/* The sizes of pages, stacks and spaces are x86's; the server's memory is where L4 maps it. */
#include <x86/include/asm/page_types.h>
#include <keel/abi.h>

#undef __PAGE_OFFSET
#define __PAGE_OFFSET KEEL_DIRECT_MAP
/* The page number has the same place in all entries. */
#undef PHYSICAL_PMD_PAGE_MASK
#undef PHYSICAL_PUD_PAGE_MASK
#define PHYSICAL_PMD_PAGE_MASK PHYSICAL_PAGE_MASK
#define PHYSICAL_PUD_PAGE_MASK PHYSICAL_PAGE_MASK
/* A 32-bit program may be laid out in less than 4 GB (mm/small.c). */
#ifndef __ASSEMBLY__
unsigned long l4_layout_32bit(void);
#endif
#undef STACK_TOP
#define STACK_TOP (test_thread_flag(TIF_ADDR32) ? l4_layout_32bit() : DEFAULT_MAP_WINDOW)
/* Modules come after the image: both are in the last GB, for which the code model of kernels is. */
#undef KERNEL_IMAGE_SIZE
#define KERNEL_IMAGE_SIZE 0x60000000UL
