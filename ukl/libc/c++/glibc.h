/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Included before everything else in C++: declarations from glibc's headers that the headers of
 * GCC's library need, because Debian built it for glibc, and that musl's lack.
 */
#ifndef UKL_GLIBC_H
#define UKL_GLIBC_H

#ifdef __cplusplus

/* As the library was built: threads need no weak references, and a thread's number is known. */
#define __GLIBC_PREREQ(major, minor) 1
#include <bits/c++config.h>

/* Waiting until a time on an unusual clock uses the usual clock instead. */
#undef _GLIBCXX_USE_PTHREAD_COND_CLOCKWAIT
#undef _GLIBCXX_USE_PTHREAD_MUTEX_CLOCKLOCK
#undef _GLIBCXX_USE_PTHREAD_RWLOCK_CLOCKLOCK

typedef struct __locale_struct *__locale_t;

/* The bits of a character in the tables that both libraries have alike. */
enum {
	_ISblank = 0x0001,
	_IScntrl = 0x0002,
	_ISpunct = 0x0004,
	_ISupper = 0x0100,
	_ISlower = 0x0200,
	_ISalpha = 0x0400,
	_ISdigit = 0x0800,
	_ISxdigit = 0x1000,
	_ISspace = 0x2000,
	_ISprint = 0x4000,
};

#endif
#endif
