/* SPDX-License-Identifier: GPL-2.0-only */
/* Linux runs its own ACPI core on the tables that the micro-kernel found. */
#ifndef _ASM_L4_ACPI_H
#define _ASM_L4_ACPI_H

#include <asm/hypercall.h>

#ifdef CONFIG_ACPI
extern int acpi_disabled, acpi_noirq, acpi_pci_disabled, acpi_strict;

#define acpi_os_ioremap ioremap

#define ACPI_HAVE_ARCH_GET_ROOT_POINTER
static inline u64 acpi_arch_get_root_pointer(void)
{
	return keel_kip->rsdp;
}

static inline void disable_acpi(void)
{
	acpi_disabled = acpi_noirq = acpi_pci_disabled = 1;
}

/* The micro-kernel owns local APICs and their ids; here a processor's number stands for its id. */
#define cpu_physical_id(cpu) (cpu)
#define acpi_has_cpu_in_madt() true
#define arch_fix_phys_package_id(num, slot) do { } while (0)
#endif

#endif
