// SPDX-License-Identifier: GPL-2.0-only
/*
 * The /init of a root of its own: reports what Linux finds on a machine, reads disks into its
 * highest memory, sleeps once, and shuts the machine down as the command line says.
 *
 * machine.highest=MB	memory is taken until a page of it is above this; without it, most memory
 * machine.disks=A,B	each holds DISK_WORDS words, the one at i is i * FACTOR
 * machine.end=END	power-off, reboot or panic
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/reboot.h>
#include <sys/sysinfo.h>
#include <termios.h>
#include <unistd.h>

#define MB (1ul << 20)
#define PIECE (2 * MB)		/* of memory, and a large page */
#define SHARE(memory) ((memory) / 4 * 3)
#define DISK_WORDS (MB / sizeof(uint64_t))
#define FACTOR 0x9e3779b97f4a7c15ul
#define SLEEP_S 4
#define PAGE_BYTES 4096ul
#define PAGEMAP_FRAME ((1ul << 55) - 1)

static char command_line[4096];

static void fail(const char *what)
{
	printf("machine: error: %s: %m\n", what);
	reboot(RB_POWER_OFF);
	exit(1);
}

static void read_command_line(void)
{
	int fd = open("/proc/cmdline", O_RDONLY);

	if (fd < 0 || read(fd, command_line, sizeof(command_line) - 1) < 0)
		fail("/proc/cmdline");
	close(fd);
}

/* The value of `name=` on the command line; an empty word if it is missing. */
static const char *word(const char *name)
{
	static char value[256];
	const char *found = strstr(command_line, name);

	value[0] = '\0';
	if (found)
		sscanf(found + strlen(name), "=%255[^ \n]", value);
	return value;
}

/* The physical address of a page of this process. */
static uint64_t physical(const void *page)
{
	static int fd = -1;
	uint64_t entry;

	if (fd < 0)
		fd = open("/proc/self/pagemap", O_RDONLY);
	if (pread(fd, &entry, sizeof(entry), (uintptr_t)page / PAGE_BYTES * sizeof(entry)) != sizeof(entry))
		fail("/proc/self/pagemap");
	return (entry & PAGEMAP_FRAME) * PAGE_BYTES;
}

/*
 * Allocates memory until a piece of it is above `enough`, or three quarters of the free memory.
 * Checks all pieces and returns the highest one.
 */
static char *take_memory(uint64_t enough)
{
	struct sysinfo system;
	size_t most, taken;
	char *memory, *top;

	sysinfo(&system);
	most = SHARE(system.freeram) & -PIECE;
	memory = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		fail("mmap");
	top = memory;
	for (taken = 0; taken < most && (taken == 0 || physical(top) < enough); taken += PIECE) {
		for (size_t at = taken; at < taken + PIECE; at += PAGE_BYTES)
			*(uint64_t *)(memory + at) = at * FACTOR;
		if (physical(memory + taken) > physical(top))
			top = memory + taken;
	}
	for (size_t at = 0; at < taken; at += PAGE_BYTES)
		if (*(uint64_t *)(memory + at) != at * FACTOR)
			fail("memory does not hold what was written");
	printf("machine: %lu MB hold what was written, up to %lu MB\n", taken / MB, physical(top) / MB);
	return top;
}

/* Reads a disk without the page cache, so that the device writes to that memory. */
static void read_disk(const char *disk, char *memory)
{
	uint64_t *words = (uint64_t *)memory;
	int fd = open(disk, O_RDONLY | O_DIRECT);

	memset(memory, 0xff, DISK_WORDS * sizeof(*words));
	if (fd < 0 || read(fd, memory, DISK_WORDS * sizeof(*words)) != DISK_WORDS * sizeof(*words))
		fail(disk);
	for (size_t i = 0; i < DISK_WORDS; i++)
		if (words[i] != i * FACTOR)
			fail("a disk does not hold what was written");
	printf("machine: %s was read\n", disk);
}

static void end(const char *how)
{
	int fd;

	printf("machine: %s\n", how);
	/* A panic does not wait for the terminal's output, so drain it first. */
	tcdrain(STDOUT_FILENO);
	if (strcmp(how, "reboot") == 0)
		reboot(RB_AUTOBOOT);
	if (strcmp(how, "panic") == 0) {
		fd = open("/proc/sysrq-trigger", O_WRONLY);
		if (write(fd, "c", 1) != 1)
			fail("/proc/sysrq-trigger");
	}
	reboot(RB_POWER_OFF);
}

int main(void)
{
	struct sysinfo system;
	char *memory, *disk, *disks;
	const char *highest;

	setvbuf(stdout, NULL, _IOLBF, 0);
	read_command_line();
	sysinfo(&system);
	printf("machine: %ld processors, %lu MB\n", sysconf(_SC_NPROCESSORS_ONLN), system.totalram / MB);
	highest = word("machine.highest");
	memory = take_memory(*highest ? strtoul(highest, NULL, 10) * MB : UINT64_MAX);
	disks = strdup(word("machine.disks"));
	while ((disk = strsep(&disks, ",")) != NULL)
		if (*disk)
			read_disk(disk, memory);
	printf("machine: asleep for %d s\n", SLEEP_S);
	sleep(SLEEP_S);
	printf("machine: awake\n");
	end(word("machine.end"));
}
