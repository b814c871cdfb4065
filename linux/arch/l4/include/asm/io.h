/* SPDX-License-Identifier: GPL-2.0-only */
/* I/O ports that sigma0 granted are used directly; device memory is mapped by ioremap(). */
#ifndef _ASM_L4_IO_H
#define _ASM_L4_IO_H

#include <linux/types.h>
#include <asm/page.h>

#define L4_PORT_WIDTH(suffix, operand, type)					\
static inline void out##suffix(type value, unsigned long port)			\
{										\
	asm volatile("out" #suffix " %" operand "0, %w1"			\
		     : : "a" (value), "Nd" ((u16)port));			\
}										\
static inline type in##suffix(unsigned long port)				\
{										\
	type value;								\
	asm volatile("in" #suffix " %w1, %" operand "0"				\
		     : "=a" (value) : "Nd" ((u16)port));			\
	return value;								\
}										\
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
L4_PORT_WIDTH(b, "b", u8)
L4_PORT_WIDTH(w, "w", u16)
L4_PORT_WIDTH(l, "", u32)
#undef L4_PORT_WIDTH

#define inb inb
#define inw inw
#define inl inl
#define outb outb
#define outw outw
#define outl outl
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
