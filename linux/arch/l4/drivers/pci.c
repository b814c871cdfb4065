// SPDX-License-Identifier: GPL-2.0-only
/*
 * PCI: configuration by ports (mechanism 1), and the root bridges that ACPI names.
 */
#include <linux/acpi.h>
#include <linux/pci.h>
#include <linux/pci-acpi.h>
#include <linux/slab.h>
#include <asm/pci_x86.h>

/* Variables that x86's direct.c shares with other access methods, which are not used here. */
DEFINE_RAW_SPINLOCK(pci_config_lock);
const struct pci_raw_ops *raw_pci_ops, *raw_pci_ext_ops;
unsigned int pci_probe;
bool port_cf9_safe;

int raw_pci_read(unsigned int domain, unsigned int bus, unsigned int devfn, int reg,
		 int len, u32 *value)
{
	if (reg >= PCI_CFG_SPACE_SIZE)
		return -EINVAL;
	return pci_direct_conf1.read(domain, bus, devfn, reg, len, value);
}

int raw_pci_write(unsigned int domain, unsigned int bus, unsigned int devfn, int reg,
		  int len, u32 value)
{
	if (reg >= PCI_CFG_SPACE_SIZE)
		return -EINVAL;
	return pci_direct_conf1.write(domain, bus, devfn, reg, len, value);
}

static int l4_pci_read_config(struct pci_bus *bus, unsigned int devfn, int reg, int len, u32 *value)
{
	return raw_pci_read(pci_domain_nr(bus), bus->number, devfn, reg, len, value);
}

static int l4_pci_write_config(struct pci_bus *bus, unsigned int devfn, int reg, int len, u32 value)
{
	return raw_pci_write(pci_domain_nr(bus), bus->number, devfn, reg, len, value);
}

static struct pci_ops l4_pci_config_ops = {
	.read = l4_pci_read_config,
	.write = l4_pci_write_config,
};

static void l4_pci_release_root(struct acpi_pci_root_info *info)
{
	kfree(info);
}

static struct acpi_pci_root_ops l4_pci_root_ops = {
	.pci_ops = &l4_pci_config_ops,
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

int pcibios_alloc_irq(struct pci_dev *dev)
{
	return pci_dev_msi_enabled(dev) ? 0 : acpi_pci_irq_enable(dev);
}

void pcibios_free_irq(struct pci_dev *dev)
{
	if (!pci_dev_msi_enabled(dev))
		acpi_pci_irq_disable(dev);
}
