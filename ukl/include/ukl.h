/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The services of the kernel for applications in ring 0. In an ordinary program,
 * or on a kernel without the option, each function fails with EINVAL.
 */
#ifndef UKL_H
#define UKL_H

#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

/* arch_prctl's; the kernel's side is arch/x86/ukl/bypass.h and run-to-completion.h. */
#define UKL_OPTION_BYPASS 0x554b
#define UKL_OPTION_RUN_TO_COMPLETION 0x554c
#define UKL_BYPASS_MOST 0xffffff
/* Calls that only a thread that bypasses has, and only on a kernel with the option `shortcuts`. */
#define UKL_SOCKET_READ 1000
#define UKL_SOCKET_WRITE 1001
#define UKL_SOCKET_WRITEV 1002

/*
 * The program's gate (ukl/libc/note.s), which is filled in before it starts. With another libc than
 * ukl/'s there is none.
 */
extern const volatile struct {
	unsigned long entry, shortcuts;
} ukl_gate __attribute__((weak));

/*
 * For its next `calls` system calls, UKL_BYPASS_MOST at most, this thread skips the
 * kernel's work on entry and exit for tracers, filters and audit; a thread that has
 * one of these does not skip it. 0 ends the bypass. Children inherit the rest of
 * the count, and exec keeps it. At a call the direction flag must be clear, as in the C ABI.
 */
static inline int ukl_bypass(unsigned int calls)
{
	return syscall(SYS_arch_prctl, UKL_OPTION_BYPASS, (unsigned long)calls);
}

/*
 * 1: from now on this thread gives up its processor only when it waits or yields, and
 * is never preempted; 0: as before. Children inherit it; other programs ignore it.
 */
static inline int ukl_run_to_completion(int on)
{
	return syscall(SYS_arch_prctl, UKL_OPTION_RUN_TO_COMPLETION, (unsigned long)on);
}

static inline long ukl_call(long number, int fd, const void *buffer, size_t count)
{
	long result;

	if (!&ukl_gate || !ukl_gate.shortcuts)
		return -ENOSYS;
	__asm__ volatile("syscall"
			 : "=a" (result)
			 : "a" (number), "D" ((long)fd), "S" (buffer), "d" (count)
			 : "rcx", "r11", "memory");
	if (result >= 0 || result == -ENOSYS)
		return result;
	errno = -result;
	return -1;
}

/*
 * read, write and writev, which go straight to TCP where this thread bypasses and `fd`
 * is a connection of TCP; security modules, accounting and notification do not see them.
 * The descriptor is looked up at each call, so that nothing is left over when it is closed.
 */
static inline ssize_t ukl_socket_read(int fd, void *buffer, size_t count)
{
	long result = ukl_call(UKL_SOCKET_READ, fd, buffer, count);

	return result == -ENOSYS ? read(fd, buffer, count) : result;
}

static inline ssize_t ukl_socket_write(int fd, const void *buffer, size_t count)
{
	long result = ukl_call(UKL_SOCKET_WRITE, fd, buffer, count);

	return result == -ENOSYS ? write(fd, buffer, count) : result;
}

static inline ssize_t ukl_socket_writev(int fd, const struct iovec *pieces, int count)
{
	long result = ukl_call(UKL_SOCKET_WRITEV, fd, pieces, (size_t)count);

	return result == -ENOSYS ? writev(fd, pieces, count) : result;
}

/*
 * Memory that is mapped from the start and stays mapped, so that neither the application nor the
 * kernel ever faults on it. Returns NULL if there is too little. ukl_free frees it.
 */
static inline void *ukl_alloc(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	if (mlock(memory, size) == 0)
		return memory;
	munmap(memory, size);
	return NULL;
}

static inline int ukl_free(void *memory, size_t size)
{
	return munmap(memory, size);
}

#endif
