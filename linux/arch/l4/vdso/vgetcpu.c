// SPDX-License-Identifier: GPL-2.0-only
/* One processor: x86 would read its number from a descriptor that only Linux sets. */
#include <linux/compiler.h>
#include <linux/getcpu.h>

long __vdso_getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused);

notrace long __vdso_getcpu(unsigned int *cpu, unsigned int *node,
			   struct getcpu_cache *unused)
{
	if (cpu)
		*cpu = 0;
	if (node)
		*node = 0;
	return 0;
}

long getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused)
	__attribute__((weak, alias("__vdso_getcpu")));
