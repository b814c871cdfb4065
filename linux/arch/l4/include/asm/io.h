/* SPDX-License-Identifier: GPL-2.0-only */
/* I/O ports that sigma0 granted are used directly; device memory is mapped by ioremap(). */
#ifndef _ASM_L4_IO_H
#define _ASM_L4_IO_H

#include <asm/page.h>
#include <asm/shared/io.h>

#define L4_PORT_STRINGS(suffix)							\
static inline void outs##suffix(unsigned long port, const void *from,		\
				unsigned long count)				\
{										\
	asm volatile("rep; outs" #suffix					\
		     : "+S" (from), "+c" (count) : "d" ((u16)port) : "memory");	\
}										\
static inline void ins##suffix(unsigned long port, void *to, unsigned long count) \
{										\
	asm volatile("rep; ins" #suffix						\
		     : "+D" (to), "+c" (count) : "d" ((u16)port) : "memory");	\
}
L4_PORT_STRINGS(b)
L4_PORT_STRINGS(w)
L4_PORT_STRINGS(l)
#undef L4_PORT_STRINGS

#define insb insb
#define insw insw
#define insl insl
#define outsb outsb
#define outsw outsw
#define outsl outsl

/* For /dev/mem: NULL if the memory is not Linux's. */
bool l4_is_ram(unsigned long pfn);
#define xlate_dev_mem_ptr(address) (l4_is_ram(PHYS_PFN(address)) ? __va(address) : NULL)

#define _PAGE_IOREMAP pgprot_val(pgprot_noncached(PAGE_KERNEL))

#include <asm-generic/iomap.h>
#include <asm-generic/io.h>
/* Ports are not memory-mapped. */
#undef PCI_IOBASE

#endif
