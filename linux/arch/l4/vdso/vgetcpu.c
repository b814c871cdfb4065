// SPDX-License-Identifier: GPL-2.0-only
/*
 * Makes a system call: x86 would read the number from a descriptor that only Linux sets. As in x86,
 * the result is stored by the vDSO, so that a bad address is a fault and not an error.
 */
#include <linux/compiler.h>
#include <linux/getcpu.h>
#include <asm/unistd.h>

long __vdso_getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused);

notrace long __vdso_getcpu(unsigned int *cpu, unsigned int *node,
			   struct getcpu_cache *unused)
{
	unsigned int answer[2];
	long result = __NR_getcpu;

	asm volatile("syscall"
		     : "+a" (result)
		     : "D" (&answer[0]), "S" (&answer[1]), "d" (NULL)
		     : "rcx", "r11", "memory");
	if (result)
		return result;
	if (cpu)
		*cpu = answer[0];
	if (node)
		*node = answer[1];
	return result;
}

long getcpu(unsigned int *cpu, unsigned int *node, struct getcpu_cache *unused)
	__attribute__((weak, alias("__vdso_getcpu")));
