// SPDX-License-Identifier: GPL-2.0-only
/* A 32-bit program: prints the privilege level that it runs at. */
#include <stdio.h>

/* Bits 0 and 1 of a code selector. */
#define LEVEL_MASK 3

int main(void)
{
	unsigned int cs;

	__asm__("mov %%cs, %0" : "=r"(cs));
	printf("%zu bits, level %u\n", 8 * sizeof(void *), cs & LEVEL_MASK);
	return 0;
}
