// SPDX-License-Identifier: GPL-2.0-only
/* Linux is asked: x86 would read the number from a descriptor that only Linux sets. */
#include <linux/compiler.h>
#include <linux/getcpu.h>
#include <asm/unistd.h>

long __vdso_getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused);

notrace long __vdso_getcpu(unsigned int *cpu, unsigned int *node,
			   struct getcpu_cache *unused)
{
	long result = __NR_getcpu;

	asm volatile("syscall"
		     : "+a" (result)
		     : "D" (cpu), "S" (node), "d" (NULL)
		     : "rcx", "r11", "memory");
	return result;
}

long getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused)
	__attribute__((weak, alias("__vdso_getcpu")));
