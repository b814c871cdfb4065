/* SPDX-License-Identifier: GPL-2.0-only */
/* The interrupt is a notification (kernel/smp.c: arch_irq_work_raise()). */
#define arch_irq_work_has_interrupt() true
