// SPDX-License-Identifier: GPL-2.0-only
/*
 * The command keel-place: asks Linux on Keel where this thread's next exec runs its program, and
 * executes that. It is this init under another name. What cannot be is refused by the request or by
 * exec, so that the command says why in one line; its exit statuses are those of env.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "place.h"

/* Names of arch_prctl's option and its words as in user/protocol/src/linux.rs. */
#define LINUX_PRCTL_PLACE 0x4b454c05
#define LINUX_PLACE_PROCESS 1

#define STATUS_REFUSED 125
#define STATUS_CANNOT_EXECUTE 126
#define STATUS_NOT_FOUND 127

/* Where the command is; it is also linked where PATH finds it. */
#define FILE_PATH "/run/" PLACE_COMMAND
#define LINK_PATH "/usr/local/bin/" PLACE_COMMAND
/* This init, where the archive that it came in is the root. */
#define INIT_PATH "/keel/init"

/* In the order of their numbers, from LINUX_PLACE_PROCESS on. */
static const char *const places[] = { "process", "kernel", "server" };
#define PLACES (sizeof(places) / sizeof(places[0]))

/* Copies this init to FILE_PATH, or leaves nothing there. */
static void copy_init(void)
{
	int in = open("/proc/self/exe", O_RDONLY | O_CLOEXEC), out;
	ssize_t put = 1;

	if (in < 0)
		return;
	out = open(FILE_PATH, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0755);
	while (out >= 0 && put > 0)
		put = sendfile(out, in, NULL, INT_MAX);
	if (put < 0)
		unlink(FILE_PATH);
	close(out);
	close(in);
}

void install_place(void)
{
	if (access(INIT_PATH, X_OK) == 0)
		(void)!symlink(INIT_PATH, FILE_PATH);
	else
		copy_init();
	(void)!symlink(FILE_PATH, LINK_PATH);
}

static int fail(int status, const char *what, const char *why)
{
	fprintf(stderr, PLACE_COMMAND ": %s: %s\n", what, why);
	return status;
}

static const char *reason(const char *place)
{
	if (errno == EPERM)
		return "you lack CAP_SYS_RAWIO";
	if (errno == EBUSY)
		return "another program is in the server";
	if (errno != EOPNOTSUPP)
		return "this Linux is not Keel's, or an older one";
	return strcmp(place, "kernel") == 0 ? "Linux itself is not in supervisor mode" :
					      "the processor lacks FSGSBASE or XSAVE";
}

/* What execvp searches without PATH. */
#define USUAL_PATH "/bin:/usr/bin"

/*
 * As execvp, which however makes a script of what Linux refuses. Returns with errno: of the files
 * that are there and cannot be executed EACCES.
 */
static void execute(char **words)
{
	const char *piece = getenv("PATH") ?: USUAL_PATH, *end;
	char path[PATH_MAX];
	int error = ENOENT;

	if (!*words[0] || strchr(words[0], '/')) {
		execv(words[0], words);
		return;
	}
	for (; piece; piece = *end ? end + 1 : NULL) {
		int length;

		end = strchrnul(piece, ':');
		/* An empty piece is the working directory. */
		length = snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - piece), piece,
				  end == piece ? "" : "/", words[0]);
		if (length < 0 || length >= (int)sizeof(path))
			continue;
		execv(path, words);
		if (errno == EACCES)
			error = EACCES;
		else if (errno != ENOENT && errno != ENOTDIR)
			return;
	}
	errno = error;
}

int run_place(int argc, char **argv)
{
	size_t place = 0;

	while (argc > 2 && place < PLACES && strcmp(argv[1], places[place]) != 0)
		place++;
	if (argc <= 2 || place == PLACES) {
		fprintf(stderr, "usage: " PLACE_COMMAND " process|kernel|server COMMAND [ARGUMENT]...\n");
		return STATUS_REFUSED;
	}
	if (syscall(SYS_arch_prctl, LINUX_PRCTL_PLACE, LINUX_PLACE_PROCESS + place) < 0)
		return fail(STATUS_REFUSED, argv[1], reason(argv[1]));
	execute(argv + 2);
	if (errno == ENOENT)
		return fail(STATUS_NOT_FOUND, argv[2], strerror(errno));
	return fail(STATUS_CANNOT_EXECUTE, argv[2],
		    errno == ENOEXEC ? "it is not a 64-bit program" : strerror(errno));
}
