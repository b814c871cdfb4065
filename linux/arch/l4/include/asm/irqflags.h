/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Interrupts are soft-masked: "interrupts off" is a per-processor flag that the IRQ thread
 * respects. kernel/irq.c explains the protocol. Interrupts that arrive while the flag is set are
 * replayed when it is cleared. Each access is one instruction, so the IRQ thread cannot split it.
 */
#ifndef _ASM_L4_IRQFLAGS_H
#define _ASM_L4_IRQFLAGS_H

#define ARCH_IRQ_DISABLED 1
#define ARCH_IRQ_ENABLED 0

#ifndef __ASSEMBLY__
#include <linux/compiler.h>
#include <asm/asm.h>
#include <asm/percpu.h>

DECLARE_PER_CPU(unsigned long, l4_irq_off);
DECLARE_PER_CPU(unsigned long, l4_irq_pending);
void l4_irq_replay(void);

static __always_inline unsigned long arch_local_save_flags(void)
{
	return raw_cpu_read(l4_irq_off);
}
#define arch_local_save_flags arch_local_save_flags

/* Compares in one instruction. */
static __always_inline bool l4_irq_is_pending(void)
{
	bool pending;

	asm volatile("cmpq $0, " __percpu_arg([word])
		     CC_SET(nz)
		     : CC_OUT(nz) (pending)
		     : [word] "m" (l4_irq_pending));
	return pending;
}

static __always_inline void arch_local_irq_restore(unsigned long flags)
{
	barrier();
	this_cpu_write(l4_irq_off, flags);
	barrier();
	if (!flags && unlikely(l4_irq_is_pending()))
		l4_irq_replay();
}
#define arch_local_irq_restore arch_local_irq_restore

#include <asm-generic/irqflags.h>
#endif
#endif
