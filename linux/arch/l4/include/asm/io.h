/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * I/O ports that sigma0 granted are used directly, and device memory is mapped by the general
 * ioremap(): x86's header, adapted.
 */
#ifndef _ASM_L4_IO_H
#define _ASM_L4_IO_H

#include <linux/types.h>
#include <asm/special_insns.h>

/* For /dev/mem: NULL if the memory is not Linux's. */
bool l4_is_ram(unsigned long pfn);
#define xlate_dev_mem_ptr(address) (l4_is_ram(PHYS_PFN(address)) ? __va(address) : NULL)

#define _PAGE_IOREMAP pgprot_val(pgprot_noncached(PAGE_KERNEL))

#include <l4/adapted/include/asm/io.h>

#endif
