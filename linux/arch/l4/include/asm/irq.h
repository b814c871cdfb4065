/* SPDX-License-Identifier: GPL-2.0-only */
/* Linux's interrupt n is GSI n of the I/O APIC; MSIs have the numbers from L4_FIRST_MSI on. */
#define L4_FIRST_MSI 128
#define NR_IRQS (L4_FIRST_MSI + 64)
#define irq_canonicalize(irq) ((irq) == 2 ? 9 : (irq))
