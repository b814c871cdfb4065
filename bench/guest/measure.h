/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Clocks and error exit of the measuring programs. Inline, because a call would add to each figure.
 */
#ifndef MEASURE_H
#define MEASURE_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* Prints what failed with errno's text and exits. */
static inline void __attribute__((noreturn)) fail(const char *what)
{
	perror(what);
	exit(1);
}

/* The time stamp counter, read after all earlier instructions. */
static inline uint64_t stamp(void)
{
	uint32_t low, high;

	__asm__ volatile("lfence; rdtsc" : "=a"(low), "=d"(high) : : "memory");
	return (uint64_t)high << 32 | low;
}

/* Linux's clock ticks without work since it started, -1 if it does not report them. */
static inline long idle_ticks(void)
{
	char text[256] = "";
	long user, nice, system, idle = -1;
	int fd = open("/proc/stat", O_RDONLY);

	if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
		sscanf(text, "cpu %ld %ld %ld %ld", &user, &nice, &system, &idle);
	close(fd);
	return idle;
}

#endif
