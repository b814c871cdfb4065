/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A thread's own descriptors, which are stored into the lthread before it runs. x86's header
 * defines their format; the processor's tables are the micro-kernel's.
 */
#ifndef _ASM_L4_DESC_H
#define _ASM_L4_DESC_H

#define _ASM_X86_FIXMAP_H
#define _ASM_X86_IRQ_VECTORS_H
#define _ASM_X86_CPU_ENTRY_AREA_H
struct cpu_entry_area { char gdt; };
struct cpu_entry_area *get_cpu_entry_area(int cpu);
void load_direct_gdt(int cpu);
void load_fixmap_gdt(int cpu);
#include <asm/special_insns.h>
#include <x86/include/asm/desc.h>
#undef load_TLS
#define load_TLS(thread, cpu) \
	((thread)->ready_cpu = L4_NO_CPU, (thread)->debug_stale = true)

#endif
