// SPDX-License-Identifier: GPL-2.0-only
/*
 * A library that programs preload (LD_PRELOAD): each tells the µ-kernel's trace its name when it
 * begins, and a forked process when it runs on. The trace has the number of each system call; there
 * are none with these numbers, which have four letters each in their upper half
 * (bench/small_switches.py reads them).
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

/* The lower half: Linux takes it for a number that is too high. */
#define ANNOUNCES 0x6b656500
#define LETTERS 4
/* Bytes of a process's name, with the zero at its end. */
#define NAME 16

static char name[NAME];

static void announce(void)
{
	for (unsigned int piece = 0; piece < NAME / LETTERS; piece++) {
		uint32_t letters;

		memcpy(&letters, name + piece * LETTERS, sizeof(letters));
		syscall((long)((uint64_t)letters << 32 | ANNOUNCES | piece));
	}
}

/* The C library passes arguments. What gcc preprocesses with is its compiler, too. */
__attribute__((constructor)) static void begin(int argc, char **argv)
{
	prctl(PR_GET_NAME, name);
	if (argc > 1 && !strcmp(name, "cc1") && !strcmp(argv[1], "-E"))
		strcpy(name, "cpp");
	announce();
	pthread_atfork(NULL, NULL, announce);
}
