// SPDX-License-Identifier: GPL-2.0-only
/*
 * Page faults that come again and again at one instruction and address.
 *
 *   repeats iret      returns by IRET from user mode to user mode, as a processor allows it. QEMU's
 *                     before 9.1 faults instead, as often as that is executed, if it has SMAP.
 *                     Prints how many times it returned, and how many times it got SIGSEGV.
 *   repeats emptied   reads a word in a loop while Linux unmaps all pages again and again, which
 *                     each page survives. Prints how the loop ended.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES 3
#define EMPTIED 100

static sigjmp_buf faulted;

static void on_fault(int number)
{
	siglongjmp(faulted, number);
}

static void return_by_iret(void)
{
#ifdef __x86_64__
	__asm__ volatile("mov %%rsp, %%rcx; mov %%ss, %%eax; push %%rax; push %%rcx; pushf; mov %%cs, %%eax; push %%rax;"
			 "lea 1f(%%rip), %%rax; push %%rax; iretq; 1:"
			 : : : "rax", "rcx", "memory", "cc");
#else
	__asm__ volatile("pushf; push %%cs; push $1f; iret; 1:" : : : "memory", "cc");
#endif
}

static int iret(void)
{
	volatile int i, returned = 0, signals = 0;

	signal(SIGSEGV, on_fault);
	for (i = 0; i < TIMES; i++) {
		if (sigsetjmp(faulted, 1)) {
			signals++;
		} else {
			return_by_iret();
			returned++;
		}
	}
	printf("returned %d signals %d\n", returned, signals);
	return 0;
}

static int emptied(void)
{
	volatile int *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = fork();
	char text[4096];
	int status, fd;

	if (!pid) {
		while (!*word)
			;
		_exit(7);
	}
	for (int i = 0; i < EMPTIED; i++) {
		fd = open("/proc/keel/accounting", O_RDONLY);
		if (fd < 0 || read(fd, text, sizeof text) <= 0)
			return 1;
		close(fd);
		/* The child's turn. */
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
	}
	*word = 1;
	waitpid(pid, &status, 0);
	printf("exit %d signal %d\n", WEXITSTATUS(status), WTERMSIG(status));
	return 0;
}

int main(int argc, char **argv)
{
	return argc > 1 && !strcmp(argv[1], "emptied") ? emptied() : iret();
}
