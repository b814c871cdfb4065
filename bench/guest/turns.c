// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `turns`, 32-bit code: what a turn of a thread-local segment costs. In a window the
 * segment of the C library's thread-local variables reaches one side of its base at a time
 * (docs/small-spaces.md#how-it-works), where segments have limits. Prints the clock's ticks of
 * accesses to one side, and of as many to both in turn, of which each turns the segment.
 */
#include "measure.h"

#define ACCESSES 2000
#define ABOVE "mov %%gs:0, %%eax"
#define BELOW "mov %%gs:-4, %%eax"
#define TICKS(first, second) ({ \
	uint64_t began = stamp(); \
	for (int i = 0; i < ACCESSES / 2; i++) \
		__asm__ volatile(first "\n\t" second : : : "eax", "memory"); \
	stamp() - began; \
})

int main(void)
{
	uint64_t one = TICKS(ABOVE, ABOVE);
	uint64_t both = TICKS(ABOVE, BELOW);

	printf("{\"accesses\": %d, \"one_side\": %llu, \"both_sides\": %llu}\n", ACCESSES, (unsigned long long)one,
	       (unsigned long long)both);
	return 0;
}
