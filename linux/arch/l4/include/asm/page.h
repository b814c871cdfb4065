/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The server's address space: all of its memory is mapped at KEEL_DIRECT_MAP + physical address,
 * and the image a second time at its link address. All of that is in the upper half of the space;
 * the lower half is empty.
 */
#ifndef _ASM_L4_PAGE_H
#define _ASM_L4_PAGE_H

#include <asm/page_types.h>

#define HAVE_ARCH_HUGETLB_UNMAPPED_AREA

#ifndef __ASSEMBLY__

#include <linux/pfn.h>
#include <asm/pgtable_types.h>

/* Physical minus link address of the image. */
extern unsigned long l4_image_offset;
/* First page frame that has a struct page. */
extern unsigned long l4_first_pfn;

static inline unsigned long __pa(unsigned long address)
{
	return address >= CONFIG_L4_IMAGE_BASE ? address + l4_image_offset :
						 address - PAGE_OFFSET;
}
#define __pa(x) (__pa)((unsigned long)(x))
#define __va(x) ((void *)((unsigned long)(x) + PAGE_OFFSET))

#define virt_to_pfn(v) (__pa(v) >> PAGE_SHIFT)
#define pfn_to_virt(pfn) __va((unsigned long)(pfn) << PAGE_SHIFT)
#define pfn_to_kaddr(pfn) pfn_to_virt(pfn)
#define virt_to_page(v) pfn_to_page(virt_to_pfn(v))

#define ARCH_PFN_OFFSET l4_first_pfn

bool l4_virt_addr_valid(unsigned long address);
#define virt_addr_valid(v) l4_virt_addr_valid((unsigned long)(v))

static inline void clear_page(void *page)
{
	unsigned long count = PAGE_SIZE / sizeof(long);

	asm volatile("rep stosq" : "+D" (page), "+c" (count) : "a" (0UL) : "memory");
}

static inline void copy_page(void *to, const void *from)
{
	unsigned long count = PAGE_SIZE / sizeof(long);

	asm volatile("rep movsq" : "+D" (to), "+S" (from), "+c" (count) : : "memory");
}

#define clear_user_page(page, vaddr, pg) clear_page(page)
#define copy_user_page(to, from, vaddr, pg) copy_page(to, from)

#define pfn_valid(pfn) \
	((pfn) >= ARCH_PFN_OFFSET && (pfn) - ARCH_PFN_OFFSET < max_mapnr)
extern unsigned long max_mapnr;

#include <asm-generic/memory_model.h>
#include <asm-generic/getorder.h>

#endif /* __ASSEMBLY__ */
#endif
