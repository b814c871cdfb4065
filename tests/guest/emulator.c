// SPDX-License-Identifier: GPL-2.0-only
/*
 * Instructions with which a program ends a guest of QEMU's translator (docs/machines.md), and the
 * name of the signal that they raise on a processor.
 *   emulator cs     MOV to CS, then a fault
 *   emulator fault  IRET of 32 bits with VM in the flags that it pops, then a fault
 *   emulator spin   the same to a loop, with interrupts off
 */

#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define SIZE 65536
/* What virtual-8086 mode can address, as it shifts a segment. */
#define LOW ((char *)0x10000)
#define SEGMENT ((uint32_t)(uintptr_t)LOW >> 4)
#define VM_FLAG 0x20000
#define IF_FLAG 0x200

/* What IRET pops there: the last four are the data segments'. */
struct frame {
	uint32_t ip, cs, flags, sp, ss, segments[4];
};

static void say(const char *text)
{
	write(1, text, strlen(text));
}

static void on_signal(int number)
{
	say(number == SIGSEGV ? "SIGSEGV\n" : number == SIGILL ? "SIGILL\n" : "another signal\n");
	_exit(0);
}

int main(int count, char **words)
{
	static char stack[SIZE];
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_ONSTACK };
	int spins = count > 1 && !strcmp(words[1], "spin");
	uint32_t flags = VM_FLAG | 2 | (spins ? 0 : IF_FLAG), segment = spins ? SEGMENT : 0;
	struct frame frame = { 0, segment, flags, 0x1000, segment, { segment, segment, segment, segment } };
	char *low = mmap(LOW, SIZE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);

	if (low == MAP_FAILED || sigaltstack(&(stack_t){ .ss_sp = stack, .ss_size = SIZE }, NULL))
		return 2;
	for (int number = SIGHUP; number < SIGRTMIN; number++)
		sigaction(number, &action, NULL);
	memcpy(low, (uint8_t[]){ 0xeb, 0xfe }, 2);
	memcpy(low + SIZE / 2, &frame, sizeof(frame));
	say("before\n");
	if (count > 1 && !strcmp(words[1], "cs"))
		__asm__ volatile(".byte 0x8e, 0xc8\n\tmov 0, %%eax" : : "a"(0));
	__asm__ volatile("mov %0, %%rsp\n\tiretl" : : "r"(low + SIZE / 2) : "memory");
	return 1;
}
