// SPDX-License-Identifier: GPL-2.0-only
/* Prints where this position-independent 32-bit program and its heap are. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	printf("%p\n%p\n", (void *)main, sbrk(0));
	return 0;
}
