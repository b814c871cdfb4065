// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints where this position-independent 32-bit program and its heap are. With an argument it then
 * waits: it answers each byte of its standard input with one, and ends with its input.
 */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	char byte;

	(void)argv;
	printf("%p\n%p\n", (void *)main, sbrk(0));
	fflush(stdout);
	while (argc > 1 && read(STDIN_FILENO, &byte, 1) == 1)
		if (write(STDOUT_FILENO, &byte, 1) != 1)
			return 1;
	return 0;
}
