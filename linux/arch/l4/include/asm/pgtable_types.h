/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The format of the guest page tables is x86's. An entry marked KEEL_MAPPED may be mapped in its L4
 * task; it is marked KEEL_MORE besides if it was given rights since, which L4 lacks then.
 */
#ifndef _ASM_L4_PGTABLE_TYPES_H
#define _ASM_L4_PGTABLE_TYPES_H

#include <asm/mem_encrypt.h>
#include <asm/coco.h>
#define phys_mem_access_prot x86_phys_mem_access_prot
#include <x86/include/asm/pgtable_types.h>
#undef phys_mem_access_prot

#define _PAGE_KEEL_MAPPED _PAGE_SOFTW3
#define _PAGE_KEEL_MORE _PAGE_SOFTW4	/* no page number and no swap offset is that large */
/* What Linux does not see. */
#define _PAGE_KEEL (_PAGE_KEEL_MAPPED | _PAGE_KEEL_MORE)

/*
 * An entry of a table has both bits, that of a page one at most: a walker that takes a table for a
 * page, in a race, sees the difference.
 */
#undef _PAGE_TABLE
#undef _KERNPG_TABLE
#define _PAGE_TABLE (_PAGE_PRESENT | _PAGE_PROTNONE)
#define _KERNPG_TABLE _PAGE_TABLE

/* No page is persistent memory, and no processor sets bits by itself: no test regards that. */
#undef _PAGE_DEVMAP
#undef _PAGE_KNL_ERRATUM_MASK
#define _PAGE_DEVMAP 0UL
#define _PAGE_KNL_ERRATUM_MASK 0UL

/* Entries have all bits, but those of the kernel's pages are not marked as global. */
#define __supported_pte_mask ~0UL
#define __default_kernel_pte_mask ~_PAGE_GLOBAL

/* Pages are cached or not: generic Linux needs nothing of its own for that. */
#undef pgprot_writecombine
#undef pgprot_writethrough
#undef __HAVE_PFNMAP_TRACKING
#undef __HAVE_PHYS_MEM_ACCESS_PROT

/* Above the direct map. */
#undef __VMALLOC_BASE_L4
#undef VMALLOC_SIZE_TB_L4
#define __VMALLOC_BASE_L4 0xffffe00000000000UL
#define VMALLOC_SIZE_TB_L4 16UL

/* vmalloc and ioremap pass the range that changed to mm/vmalloc.c, which maps it at once. */
#undef ARCH_PAGE_TABLE_SYNC_MASK
#define ARCH_PAGE_TABLE_SYNC_MASK PGTBL_PTE_MODIFIED

#endif
