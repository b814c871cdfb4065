/* SPDX-License-Identifier: GPL-2.0-only */
/* Linux's processor n is the micro-kernel's; kernel/smp.c. */
#ifndef _ASM_L4_SMP_H
#define _ASM_L4_SMP_H

#include <asm/percpu.h>

struct cpumask;

DECLARE_PER_CPU_READ_MOSTLY(int, cpu_number);
#define raw_smp_processor_id() this_cpu_read(cpu_number)

void arch_send_call_function_single_ipi(int cpu);
void arch_send_call_function_ipi_mask(const struct cpumask *mask);

#endif
