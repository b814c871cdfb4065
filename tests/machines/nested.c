// SPDX-License-Identifier: GPL-2.0-only
/*
 * Runs in the guest that has KVM: loads the modules that /arguments names first, and then executes
 * the emulator. The rest of /arguments is the emulator's command line, one word per line.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ARGUMENTS "/arguments"
#define MOST_WORDS 256
#define MOST_BYTES 65536

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void load(const char *module)
{
	int fd = open(module, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || syscall(SYS_finit_module, fd, "", 0) < 0)
		fail(module);
	close(fd);
}

static int is_module(const char *word)
{
	const char *dot = strrchr(word, '.');

	return dot && strcmp(dot, ".ko") == 0;
}

int main(void)
{
	static char text[MOST_BYTES], *words[MOST_WORDS + 1];
	int fd = open(ARGUMENTS, O_RDONLY | O_CLOEXEC);
	char *rest = text;
	size_t count = 0;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0)
		fail(ARGUMENTS);
	while (count < MOST_WORDS && (words[count] = strsep(&rest, "\n")) != NULL)
		count++;
	words[count] = NULL;
	for (count = 0; words[count] && is_module(words[count]); count++)
		load(words[count]);
	execvp(words[count], words + count);
	fail(words[count]);
}
