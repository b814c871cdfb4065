/* SPDX-License-Identifier: GPL-2.0-only */
/* Interrupt n is line n of the I/O APIC; behind the lines come those by message. */
#define L4_FIRST_MESSAGE 128
#define NR_IRQS (L4_FIRST_MESSAGE + 64)
#define irq_canonicalize(irq) ((irq) == 2 ? 9 : (irq))
