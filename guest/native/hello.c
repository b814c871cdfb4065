// SPDX-License-Identifier: BSD-2-Clause
/*
 * A Linux program with a native lthread: it computes beside Linux, and reports its progress to
 * Linux now and then. See docs/native.md. Built by:
 *   gcc -static -Iguest/native -Ibuild/linux/l4 guest/native/hello.c -o hello
 */
#include <stdio.h>

#include "keel_native.h"

enum { FOUND, DONE };

static struct keel_linux_native native;
static char stack[16384];

/* The lthread: no system calls of Linux's, only the µ-kernel's. Its memory is the program's. */
KEEL_LTHREAD static void find_primes(unsigned long limit)
{
	struct keel_message m;

	for (unsigned long number = 2; number < limit; number++) {
		unsigned long divisor = 2;

		while (number % divisor)
			divisor++;
		if (divisor < number)
			continue;
		m = (struct keel_message){ .tag = KEEL_TAG(FOUND, 1), .words = { number } };
		keel_tell(&native, &m);
	}
	m = (struct keel_message){ .tag = KEEL_TAG(DONE, 0) };
	keel_tell(&native, &m);
}

int main(void)
{
	if (keel_area() < 0 || keel_native_begin(&native, find_primes, stack + sizeof stack, 30)) {
		perror("a native lthread");
		return 1;
	}
	while (native.label == FOUND) {
		printf("%lu ", native.words[0]);
		keel_native(&native);	/* answers it, and waits for the next */
	}
	puts("are primes");
	return 0;
}
