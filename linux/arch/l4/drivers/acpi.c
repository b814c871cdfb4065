// SPDX-License-Identifier: GPL-2.0-only
/*
 * What Linux's ACPI core asks of an architecture: the memory of the tables, which sigma0 grants
 * read-only, and interrupts, whose numbers in Linux are the GSIs.
 */
#include <linux/acpi.h>
#include <linux/export.h>
#include <linux/init.h>
#include <asm/l4.h>
#include <asm/page.h>

int acpi_disabled;
EXPORT_SYMBOL(acpi_disabled);
int acpi_pci_disabled;
EXPORT_SYMBOL(acpi_pci_disabled);
int acpi_noirq;
int acpi_strict;
enum acpi_irq_model_id acpi_irq_model = ACPI_IRQ_MODEL_IOAPIC;

/* Before there is a vmalloc area, tables are mapped in the direct map, where no RAM of Linux is. */
void __init __iomem *__acpi_map_table(unsigned long phys, unsigned long size)
{
	unsigned long page;

	for (page = phys & PAGE_MASK; page < phys + size; page += PAGE_SIZE)
		if (!keel_map_device(page, (unsigned long)__va(page)))
			return NULL;
	return (void __iomem *)__va(phys);
}

void __init __acpi_unmap_table(void __iomem *map, unsigned long size)
{
}

int acpi_gsi_to_irq(u32 gsi, unsigned int *irq)
{
	*irq = gsi;
	return 0;
}

int acpi_isa_irq_to_gsi(unsigned int irq, u32 *gsi)
{
	*gsi = irq;
	return 0;
}

/* The micro-kernel has read the trigger mode of a GSI from the same tables. */
int acpi_register_gsi(struct device *dev, u32 gsi, int trigger, int polarity)
{
	return gsi;
}

void acpi_unregister_gsi(u32 gsi)
{
}

/* A server that has no right over the tables runs without ACPI. */
void __init l4_acpi_init(void)
{
	if (!keel_kip->rsdp || acpi_table_init())
		disable_acpi();
}
