// SPDX-License-Identifier: GPL-2.0-only
/*
 * Ends the machine, or only itself, while programs run on every processor: they fork, exit, map,
 * fault, and write to each other.
 *   ends exit|power-off|reboot|panic
 */

#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGES 64
#define PAGE 4096
#define RUN_US 200000

static void work(int in, int out)
{
	char byte = 0;

	for (;;) {
		pid_t child = fork();
		char *memory;

		if (!child)
			_exit(0);
		memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		for (int page = 0; page < PAGES && memory != MAP_FAILED; page++)
			memory[page * PAGE] = 1;
		munmap(memory, PAGES * PAGE);
		waitpid(child, NULL, 0);
		if (write(out, &byte, 1) != 1 || read(in, &byte, 1) != 1)
			_exit(1);
	}
}

static int panic(void)
{
	int trigger;

	mkdir("/proc", 0755);
	mount("proc", "/proc", "proc", 0, NULL);
	trigger = open("/proc/sysrq-trigger", O_WRONLY);
	return write(trigger, "c", 1);
}

int main(int count, char **words)
{
	int pipes[2][2];
	const char *end = count > 1 ? words[1] : "exit";

	for (long pair = 0; pair < sysconf(_SC_NPROCESSORS_ONLN); pair++) {
		if (pipe(pipes[0]) || pipe(pipes[1]))
			return 2;
		for (int side = 0; side < 2; side++)
			if (!fork())
				work(pipes[side][0], pipes[!side][1]);
	}
	usleep(RUN_US);
	if (!strcmp(end, "power-off"))
		return reboot(RB_POWER_OFF);
	if (!strcmp(end, "reboot"))
		return reboot(RB_AUTOBOOT);
	if (!strcmp(end, "panic"))
		return panic();
	return 7;
}
