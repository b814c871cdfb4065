// SPDX-License-Identifier: GPL-2.0-only
/*
 * What an init serves while others run: requests to end the machine, and the host's new size of
 * its terminal. Such a request comes over the pipe of System V's init, as systemctl sends it
 * where systemd is not process 1, or as a signal, as BusyBox sends it.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#include "attend.h"
#include "channel.h"
#include "end.h"
#include "settings.h"

#define INITCTL "/run/initctl"
#define REQUEST_MAGIC 0x03091969
#define CHANGE_RUNLEVEL 1
#define RUNLEVEL_HALT '0'
#define RUNLEVEL_REBOOT '6'
#define WINDOW_BYTES 4
/* sd_booted(3): the folder is there where systemd is process 1. */
#define SYSTEMD_RUNS "/run/systemd/system"
/* systemd(1): SIGRTMIN+4 starts poweroff.target. */
#define SYSTEMD_POWER_OFF 4

/* As in System V's initreq.h. */
struct request {
	int32_t magic;
	int32_t command;
	int32_t runlevel;	/* a digit's character */
	int32_t sleep_time;
	uint8_t data[368];
};

static volatile sig_atomic_t signalled = END_NONE;

static void note_signal(int number)
{
	/* SIGCHLD is there only to end ppoll(). */
	if (number == SIGTERM)
		signalled = SHUTDOWN_REBOOT;
	else if (number != SIGCHLD)
		signalled = SHUTDOWN_POWER_OFF;
}

void prepare_child(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL);
}

void watch_signals(sigset_t *during)
{
	static const int to_init[] = { SIGTERM, SIGUSR1, SIGUSR2 };
	const struct sigaction noted = { .sa_handler = note_signal };
	sigset_t blocked;
	size_t i;

	sigemptyset(&blocked);
	sigaction(SIGCHLD, &noted, NULL);
	sigaddset(&blocked, SIGCHLD);
	for (i = 0; getpid() == 1 && i < sizeof(to_init) / sizeof(to_init[0]); i++) {
		sigaction(to_init[i], &noted, NULL);
		sigaddset(&blocked, to_init[i]);
	}
	sigprocmask(SIG_BLOCK, &blocked, during);
}

int requests_open(void)
{
	/* Another init has a pipe of its own. */
	if (getpid() != 1)
		return -1;
	mkfifo(INITCTL, 0600);
	/* For writing too: it has no end while nobody else has it open. */
	return open(INITCTL, O_RDWR | O_NONBLOCK | O_CLOEXEC);
}

static enum end take_request(int requests)
{
	struct request request;

	if (requests < 0 || read(requests, &request, sizeof(request)) != sizeof(request) ||
	    request.magic != REQUEST_MAGIC || request.command != CHANGE_RUNLEVEL)
		return END_NONE;
	if (request.runlevel == RUNLEVEL_REBOOT)
		return SHUTDOWN_REBOOT;
	return request.runlevel == RUNLEVEL_HALT ? SHUTDOWN_POWER_OFF : END_NONE;
}

void obey_requests(int requests)
{
	enum end end = signalled != END_NONE ? (enum end)signalled : take_request(requests);

	if (end != END_NONE)
		end_machine(end);
}

void stop_machine(void)
{
	if (getpid() == 1)
		end_machine(SHUTDOWN_POWER_OFF);
	/* Another init is asked as BusyBox asks its own. */
	kill(1, access(SYSTEMD_RUNS, F_OK) == 0 ? SIGRTMIN + SYSTEMD_POWER_OFF : SIGUSR2);
}

void host_open(struct channel *host)
{
	if (channel_open_serial(host, HOST_LINE) == 0) {
		channel_send_listens(host);
		return;
	}
	if (host->fd >= 0)
		close(host->fd);
	host->fd = -1;
}

/* The kernel sends SIGWINCH to the terminal's foreground. */
static void resize(const struct frame *frame)
{
	const uint8_t *data = frame->data;
	struct winsize size = {
		.ws_row = data[0] | data[1] << 8,
		.ws_col = data[2] | data[3] << 8,
	};
	/* Opened each time: a login hangs up every open file of its terminal. */
	int fd = open("/dev/" SERIAL_CONSOLE, O_RDWR | O_NOCTTY | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	ioctl(fd, TIOCSWINSZ, &size);
	close(fd);
}

void host_obey(struct channel *host)
{
	struct frame frame;

	if (channel_fill(host) < 0) {
		close(host->fd);
		host->fd = -1;
		return;
	}
	while (channel_next(host, &frame)) {
		if (frame.channel == FRAME_STOP) {
			stop_machine();
			continue;
		}
		if (frame.channel == FRAME_WINDOW && frame.length == WINDOW_BYTES)
			resize(&frame);
		channel_owe(host, FRAME_HEADER + frame.length);
	}
	channel_return_credit(host);
}

void start_attendant(void)
{
	struct channel host;
	struct pollfd event = { .events = POLLIN };

	if (fork() != 0)
		return;
	prctl(PR_SET_NAME, "keel-attendant");
	host_open(&host);
	while (host.fd >= 0) {
		event.fd = host.fd;
		if (poll(&event, 1, -1) > 0)
			host_obey(&host);
	}
	_exit(0);
}
