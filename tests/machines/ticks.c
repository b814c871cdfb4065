// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints the frequency of this machine's TSC in kHz. Emulated guests have the same TSC, and on a
 * busy host their Linux measures a wrong frequency.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>
#include <x86intrin.h>

#define LOOKS 1000
#define INTERVAL_US 300000
#define NS_PER_S 1000000000ll

struct moment {
	int64_t ticks, ns;
};

/* Reads both clocks at the same time: the best of many readings. */
static struct moment now(void)
{
	struct moment best = { 0 };
	int64_t least = INT64_MAX;

	for (int i = 0; i < LOOKS; i++) {
		int64_t before = __rdtsc(), after;
		struct timespec time;

		clock_gettime(CLOCK_MONOTONIC_RAW, &time);
		after = __rdtsc();
		if (after - before < least) {
			least = after - before;
			best.ticks = before;
			best.ns = time.tv_sec * NS_PER_S + time.tv_nsec;
		}
	}
	return best;
}

int main(void)
{
	struct moment first = now(), last;

	usleep(INTERVAL_US);
	last = now();
	printf("%lld\n", (long long)((last.ticks - first.ticks) * (NS_PER_S / 1000) / (last.ns - first.ns)));
}
