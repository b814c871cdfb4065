// SPDX-License-Identifier: GPL-2.0-only
/*
 * The interactive mode: the root's own init where it has one, else a login
 * shell on each console, which is its controlling terminal.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/klog.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "attend.h"
#include "channel.h"
#include "end.h"
#include "shell.h"

/*
 * What the host takes for the end of the boot log, and no terminal shows: an application program
 * command.
 */
#define SHELL_BEGINS "\033_keel:shell\033\\"

static const char default_console[] = SERIAL_CONSOLE;
static const char serial_prefix[] = "ttyS";
/* What Linux's own terminal on the screen is called. */
static const char screen_terminal[] = "linux";
static const struct {
	const char *path;
	const char *name;	/* with the dash that makes it a login shell */
} shells[] = {
	{ "/bin/bash", "-bash" },
	{ "/usr/bin/bash", "-bash" },
	{ "/bin/sh", "-sh" },
	{ "/usr/bin/sh", "-sh" },
};

/*
 * What a shell does before its first prompt, when it has read its profile, and then never again: it
 * sends a prompt frame. bash finds it in PROMPT_COMMAND, which a profile may have put more into;
 * other shells read it where ENV says.
 */
#define FIRST_PROMPT_PLACE "/run/keel"
#define FIRST_PROMPT FIRST_PROMPT_PLACE "/first-prompt"

static const char prompt_command[] = ". " FIRST_PROMPT;
/*
 * bash goes through the elements of PROMPT_COMMAND while this runs: it must neither be unset nor
 * set as a whole.
 */
static const char first_prompt[] =
	"{ printf '\\012\\000\\000\\000' > " HOST_LINE "; } 2> /dev/null\n"
	"[ \"${ENV-}\" != " FIRST_PROMPT " ] || unset ENV\n"
	"if [ -z \"${BASH_VERSION-}\" ]; then unset PROMPT_COMMAND; else eval '\n"
	"keel_first_prompt() {\n"
	"	local i hook=\". " FIRST_PROMPT "\"\n"
	"	for i in \"${!PROMPT_COMMAND[@]}\"; do\n"
	"		case ${PROMPT_COMMAND[i]} in\n"
	"		\"$hook\") PROMPT_COMMAND[i]= ;;\n"
	"		*) PROMPT_COMMAND[i]=${PROMPT_COMMAND[i]/\"$hook\"/:} ;;\n"
	"		esac\n"
	"	done\n"
	"}\n"
	"keel_first_prompt\n"
	"unset -f keel_first_prompt'; fi\n";

/* syslog(2): only what is as urgent as the kernel's last words. */
#define SET_CONSOLE_LEVEL 8
#define LAST_WORDS_ONLY 1

static void tell_ready(void)
{
	struct channel channel;

	if (channel_open_serial(&channel, HOST_LINE) == 0) {
		channel_send_ready(&channel);
		channel_drain(&channel);
	}
	if (channel.fd >= 0)
		close(channel.fd);
}

/* The end of the boot log, for the host. */
static void mark_log_end(const struct settings *settings)
{
	static bool marked;

	if (settings->attended[0] && !marked)
		dprintf(STDOUT_FILENO, SHELL_BEGINS);
	marked = true;
}

/* What Linux logs would come into what is typed. */
static void quiet_console(void)
{
	klogctl(SET_CONSOLE_LEVEL, NULL, LAST_WORDS_ONLY);
}

void begin_other_init(const struct settings *settings)
{
	if (settings->attended[0])
		start_attendant();
	quiet_console();
	mark_log_end(settings);
	tell_ready();
}

static void prepare_first_prompt(void)
{
	const ssize_t length = sizeof(first_prompt) - 1;
	int fd;

	mkdir(FIRST_PROMPT_PLACE, 0755);
	fd = open(FIRST_PROMPT, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		return;
	if (write(fd, first_prompt, length) == length) {
		setenv("ENV", FIRST_PROMPT, 1);
		setenv("PROMPT_COMMAND", prompt_command, 1);
	}
	close(fd);
}

static void prepare_line(int fd, struct termios *line, const struct settings *settings)
{
	struct winsize size = {
		.ws_row = atoi(settings->rows),
		.ws_col = atoi(settings->cols),
	};

	if (size.ws_row > 0 && size.ws_col > 0)
		ioctl(fd, TIOCSWINSZ, &size);
	/* Backspace takes a character, however many bytes that has. */
	line->c_iflag |= IUTF8;
	tcsetattr(fd, TCSANOW, line);
}

static bool is_serial(const char *console)
{
	return strncmp(console, serial_prefix, strlen(serial_prefix)) == 0;
}

/* In a child: the console as terminal and standard files. */
static void take_console(const struct settings *settings, const char *console, int fd)
{
	setsid();
	ioctl(fd, TIOCSCTTY, 1);
	if (is_serial(console)) {
		if (settings->attended[0])
			prepare_first_prompt();
	} else {
		setenv("TERM", screen_terminal, 1);
	}
	dup2(fd, STDIN_FILENO);
	dup2(fd, STDOUT_FILENO);
	dup2(fd, STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	prepare_child();
}

static void become_shell(void)
{
	size_t i;

	for (i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		execl(shells[i].path, shells[i].name, (char *)NULL);
	_exit(127);
}

/* There is none where an application and its kernel are all there is. */
static bool has_shell(void)
{
	size_t i;

	for (i = 0; i < sizeof(shells) / sizeof(shells[0]); i++)
		if (access(shells[i].path, X_OK) == 0)
			return true;
	return false;
}

static void become_application(const struct settings *settings, const char *path)
{
	settings->app_arguments[0] = (char *)path;
	execv(path, settings->app_arguments);
	dprintf(STDERR_FILENO, "keel-init: cannot start %s: %s\n", path, strerror(errno));
	_exit(127);
}

/* An application, or else a shell, of a console; none where the machine has no such line. */
static pid_t start(const struct settings *settings, const char *console, const char *application)
{
	char path[SETTING_MAX + 5];
	struct termios line;
	pid_t pid;
	int fd;

	snprintf(path, sizeof(path), "/dev/%s", console);
	fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC);
	if (fd < 0 || tcgetattr(fd, &line) < 0)
		return 0;
	if (is_serial(console))
		prepare_line(fd, &line, settings);
	pid = fork();
	if (pid < 0)
		fatal("cannot start a process");
	if (pid == 0) {
		take_console(settings, console, fd);
		if (application)
			become_application(settings, application);
		become_shell();
	}
	close(fd);
	return pid;
}

static void run_application(const struct settings *settings, const char *application)
{
	pid_t ended, pid = start(settings, default_console, application);
	int status = 0;

	if (pid == 0)
		fatal("cannot open the console");
	do {
		ended = wait(&status);
	} while (ended != pid && (ended > 0 || errno == EINTR));
	if (WIFSIGNALED(status))
		dprintf(STDERR_FILENO, "keel-init: %s was ended by signal %d\n", application, WTERMSIG(status));
}

/* Start a shell on each console that can be opened; returns how many. */
static size_t start_shells(pid_t *shells, struct settings *settings)
{
	char *rest = settings->console[0] ? settings->console : strdup(default_console);
	const char *console;
	size_t count = 0;

	while ((console = strsep(&rest, ",")) != NULL) {
		shells[count] = start(settings, console, NULL);
		count += shells[count] != 0;
	}
	return count;
}

/* Reap what has ended, up to the first shell. */
static bool shell_ended(const pid_t *shells, size_t count, int *status)
{
	pid_t ended;
	size_t i;

	while ((ended = waitpid(-1, status, WNOHANG)) > 0)
		for (i = 0; i < count; i++)
			if (shells[i] == ended)
				return true;
	return false;
}

/* Run the shells until one of them is left; returns its status. */
static int serve_shells(struct settings *settings)
{
	struct channel host = { .fd = -1 };
	pid_t shells[SETTING_MAX];
	struct pollfd events[] = { { .events = POLLIN }, { .events = POLLIN } };
	sigset_t during;
	size_t count;
	int status = 0;

	watch_signals(&during);
	events[0].fd = requests_open();
	/*
	 * The line is raw before a shell sends its prompt frame. The host answers with its terminal's
	 * size of now; a shell is started with that at boot.
	 */
	if (settings->attended[0])
		host_open(&host);
	count = start_shells(shells, settings);
	if (count == 0)
		fatal("cannot open the console");
	while (!shell_ended(shells, count, &status)) {
		events[1].fd = host.fd;
		if (ppoll(events, sizeof(events) / sizeof(events[0]), NULL, &during) < 0)
			events[0].revents = events[1].revents = 0;
		obey_requests(events[0].revents ? events[0].fd : -1);
		if (events[1].revents)
			host_obey(&host);
	}
	return status;
}

void run_shell(struct settings *settings, const char *application)
{
	int status;

	if (application) {
		mark_log_end(settings);
		tell_ready();
		run_application(settings, application);
	}
	if (application && !has_shell())
		return;
	if (access("/init", X_OK) == 0) {
		begin_other_init(settings);
		prepare_child();
		execl("/init", "/init", (char *)NULL);
		fatal("cannot start the root's /init");
	}
	setenv("LANG", "C.UTF-8", 1);
	quiet_console();
	mark_log_end(settings);
	status = serve_shells(settings);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
		fatal("the root has no /bin/bash and no /bin/sh that starts");
}
