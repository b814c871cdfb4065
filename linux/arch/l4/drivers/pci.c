// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI: the root bridges that ACPI names. Their configuration is accessed by ports (mechanism 1), by
 * x86's pci/common.c and pci/direct.c.
 */
#include <linux/acpi.h>
#include <linux/pci.h>
#include <linux/pci-acpi.h>
#include <linux/slab.h>
#include <asm/pci_x86.h>

/* x86's direct.c sets it if it finds mechanism 1 by a probe; here that is not looked for. */
bool port_cf9_safe;

static void l4_pci_release_root(struct acpi_pci_root_info *info)
{
	kfree(info);
}

static struct acpi_pci_root_ops l4_pci_root_ops = {
	.pci_ops = &pci_root_ops,
	.release_info = l4_pci_release_root,
};

struct pci_bus *pci_acpi_scan_root(struct acpi_pci_root *root)
{
	struct acpi_pci_root_info *info = kzalloc(sizeof(*info), GFP_KERNEL);
	struct pci_bus *bus;

	if (!info)
		return NULL;
	bus = acpi_pci_root_create(root, &l4_pci_root_ops, info, root->device);
	if (!bus)
		return NULL;	/* acpi_pci_root_create() has released info */
	pci_bus_claim_resources(bus);
	pci_assign_unassigned_root_bus_resources(bus);
	return bus;
}

/* Lets interrupt routing find the bridge in ACPI's tree. */
int pcibios_root_bridge_prepare(struct pci_host_bridge *bridge)
{
	ACPI_COMPANION_SET(&bridge->dev, bridge->bus->sysdata);
	return 0;
}

int (*pcibios_enable_irq)(struct pci_dev *dev) = acpi_pci_irq_enable;
void (*pcibios_disable_irq)(struct pci_dev *dev) = acpi_pci_irq_disable;
