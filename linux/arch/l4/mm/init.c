// SPDX-License-Identifier: GPL-2.0-only
/* Linux's view of physical memory: real page frame numbers, and one flat memory map. */
#include <linux/init.h>
#include <linux/memblock.h>
#include <linux/mm.h>
#include <linux/pgtable.h>
#include <linux/sizes.h>
#include <linux/swiotlb.h>
#include <linux/export.h>
#include <asm/l4.h>
#include <asm/sections.h>

unsigned long l4_first_pfn;
EXPORT_SYMBOL(l4_first_pfn);
unsigned long empty_zero_page[PAGE_SIZE / sizeof(long)] __page_aligned_bss;
EXPORT_SYMBOL(empty_zero_page);
pgd_t swapper_pg_dir[PTRS_PER_PGD] __page_aligned_bss;

/* The memory map begins at a multiple of the buddy allocator's largest block. */
void __init l4_paging_init(void)
{
	unsigned long max_zone_pfns[MAX_NR_ZONES] = { };

	min_low_pfn = PFN_UP(memblock_start_of_DRAM());
	max_low_pfn = PFN_DOWN(memblock_end_of_DRAM());
	max_pfn = max_low_pfn;
	l4_first_pfn = round_down(min_low_pfn, MAX_ORDER_NR_PAGES);
	max_mapnr = max_pfn - l4_first_pfn;
	high_memory = __va(PFN_PHYS(max_pfn));
	max_zone_pfns[ZONE_DMA32] = min(max_pfn, PFN_DOWN(SZ_4G));
	max_zone_pfns[ZONE_NORMAL] = max_pfn;
	free_area_init(max_zone_pfns);
}

void __init mem_init(void)
{
	swiotlb_init(max_pfn > PFN_DOWN(SZ_4G), SWIOTLB_VERBOSE);
	memblock_free_all();
}

/*
 * Returns true if a page frame is the server's RAM: the memory map also spans holes with devices.
 */
bool l4_is_ram(unsigned long pfn)
{
	const unsigned long *region = keel_start->regions;
	unsigned long i, address = PFN_PHYS(pfn);

	for (i = 0; i < keel_start->region_count; i++, region += 3)
		if (address >= region[0] && address < region[1])
			return true;
	return false;
}

/* Drivers may map RAM only to programs: pages are mapped from the direct map, without devices. */
bool pfn_modify_allowed(unsigned long pfn, pgprot_t prot)
{
	return l4_is_ram(pfn);
}

/* Returns true for kernel addresses of memory that has a struct page. */
bool l4_virt_addr_valid(unsigned long address)
{
	if (address >= CONFIG_L4_IMAGE_BASE)
		return address < (unsigned long)_end;
	return address >= PAGE_OFFSET && pfn_valid((address - PAGE_OFFSET) >> PAGE_SHIFT);
}
EXPORT_SYMBOL(l4_virt_addr_valid);
