/* SPDX-License-Identifier: GPL-2.0-only */
/* Interrupt n is line n of the I/O APIC. */
#ifndef _ASM_L4_IRQ_H
#define _ASM_L4_IRQ_H

#define NR_IRQS 256
#define irq_canonicalize(irq) ((irq) == 2 ? 9 : (irq))

#endif
