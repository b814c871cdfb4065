// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `tsc`: prints the time stamp counter in hexadecimal as soon as it runs. It has no
 * library: no code runs before it, and it is small enough to fit in the guest's command line.
 */
#define SYS_WRITE 1
#define SYS_EXIT 60
#define DIGITS 16

static long call(long number, long first, const void *second, long third)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(first), "S"(second), "d"(third)
			 : "rcx", "r11", "memory");
	return result;
}

void _start(void)
{
	unsigned low, high;
	unsigned long value;
	char text[DIGITS + 1];

	__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
	value = (unsigned long)high << 32 | low;
	for (int i = DIGITS - 1; i >= 0; i--, value >>= 4)
		text[i] = "0123456789abcdef"[value & 15];
	text[DIGITS] = '\n';
	call(SYS_WRITE, 1, text, sizeof text);
	call(SYS_EXIT, 0, text, 0);
}
