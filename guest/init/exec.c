// SPDX-License-Identifier: GPL-2.0-only
/*
 * The exec mode: take a command from the host, run it with pipes for its
 * three standard files, carry the pipes' bytes over the channel, and report
 * the exit status, when what it wrote is on the disks. The command's end is the
 * end: what it left running in the background is not waited for.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../mark.h"
#include "attend.h"
#include "channel.h"
#include "end.h"
#include "exec.h"
#include "port.h"

#define STATUS_NOT_FOUND 127
#define STATUS_SIGNAL 128
#define WORDS_MAX 1024

/* Input that the command has not yet read, as a ring: no more than the host's credit. */
struct pending_input {
	size_t start;
	size_t length;
	int ended;
	uint8_t data[PORT_CREDIT];
};

struct job {
	struct channel channel;
	struct pending_input input;
	char *command;
	size_t command_length;
	int command_whole;
	pid_t pid;
	int in, out, err;	/* our ends of the pipes, -1 when closed */
	int requests;		/* of programs that end the machine, -1 where another init takes them */
	int done;
	int status;
};

static struct job job;

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void add_to_command(const struct frame *frame)
{
	if (frame->length == 0) {
		job.command_whole = 1;
		return;
	}
	job.command = realloc(job.command, job.command_length + frame->length + 1);
	if (!job.command)
		fatal("no memory for the command");
	memcpy(job.command + job.command_length, frame->data, frame->length);
	job.command_length += frame->length;
	job.command[job.command_length] = '\0';
}

static size_t smaller(size_t one, size_t other)
{
	return one < other ? one : other;
}

static void add_to_input(const struct frame *frame)
{
	struct pending_input *input = &job.input;
	size_t end = (input->start + input->length) % sizeof(input->data);
	size_t first = smaller(frame->length, sizeof(input->data) - end);

	if (frame->length == 0)
		input->ended = 1;
	if (frame->length > sizeof(input->data) - input->length)
		fatal("the host sent more than its credit allows");
	memcpy(input->data + end, frame->data, first);
	memcpy(input->data, frame->data + first, frame->length - first);
	input->length += frame->length;
}

static void take_frames(void)
{
	struct frame frame;

	if (channel_fill(&job.channel) < 0)
		fatal("the channel to the host is broken");
	while (channel_next(&job.channel, &frame)) {
		if (frame.channel == FRAME_COMMAND) {
			add_to_command(&frame);
			channel_owe(&job.channel, FRAME_HEADER + frame.length);
		} else if (frame.channel == FRAME_STDIN) {
			add_to_input(&frame);
			/* The header is dealt with; the data once the command reads it. */
			channel_owe(&job.channel, FRAME_HEADER);
		} else if (frame.channel == FRAME_STOP) {
			stop_machine();
		} else {
			fatal("the host sent a frame of an unknown channel");
		}
	}
}

/* Hand pending input to the command and its length back to the host. */
static void feed_input(void)
{
	struct pending_input *input = &job.input;
	ssize_t put = input->length;

	if (job.in >= 0 && input->length > 0)
		put = write(job.in, input->data + input->start,
			    smaller(input->length, sizeof(input->data) - input->start));
	if (put < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (put < 0) {		/* the pipe has no reader: drop it */
		close_fd(&job.in);
		put = input->length;
	}
	input->start = (input->start + put) % sizeof(input->data);
	input->length -= put;
	channel_owe(&job.channel, put);
	if (input->ended && input->length == 0)
		close_fd(&job.in);
}

/* Move at most one frame's worth of output. */
static void carry_output(int *fd, enum frame_channel number)
{
	size_t room = channel_room(&job.channel);
	ssize_t got;

	if (*fd < 0 || room == 0)
		return;
	got = channel_carry(&job.channel, number, *fd, room);
	if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
		close_fd(fd);
}

static void reap(void)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != job.pid)
			continue;
		job.done = 1;
		job.status = WIFSIGNALED(status) ?
			STATUS_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
	}
}

static void exec_words(char *command)
{
	char *words[WORDS_MAX + 1];
	size_t count = 0;
	char *word;

	while ((word = strsep(&command, " \t\n")) != NULL) {
		if (*word != '\0' && count < WORDS_MAX)
			words[count++] = word;
	}
	words[count] = NULL;
	if (count > 0)
		execvp(words[0], words);
	dprintf(STDERR_FILENO, "keel-init: cannot start %s: %s\n",
		count > 0 ? words[0] : "an empty command", strerror(errno));
	_exit(STATUS_NOT_FOUND);
}

static void become_command(int in, int out, int err)
{
	setsid();
	dup2(in, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	prepare_child();
	if (access("/bin/sh", X_OK) == 0)
		execl("/bin/sh", "sh", "-c", job.command, (char *)NULL);
	exec_words(job.command);
}

static void start_command(void)
{
	int in[2], out[2], err[2];

	if (!job.command)
		fatal("the host sent an empty command");
	if (pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0 ||
	    pipe2(err, O_CLOEXEC) < 0)
		fatal("cannot make pipes");
	job.pid = fork();
	if (job.pid < 0)
		fatal("cannot start a process");
	if (job.pid == 0)
		become_command(in[0], out[1], err[1]);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	job.in = in[1];
	job.out = out[0];
	job.err = err[0];
	fcntl(job.in, F_SETFL, O_NONBLOCK);
	fcntl(job.out, F_SETFL, O_NONBLOCK);
	fcntl(job.err, F_SETFL, O_NONBLOCK);
}

/* Wait for the host, a request, or one of the other files, the first of which are these two's. */
static void wait_for(struct pollfd *fds, size_t count, const sigset_t *during)
{
	int ready;

	channel_return_credit(&job.channel);
	fds[0] = (struct pollfd){ .fd = job.channel.fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = job.requests, .events = POLLIN };
	ready = ppoll(fds, count, NULL, during);
	obey_requests(ready > 0 && fds[1].revents ? fds[1].fd : -1);
}

static void wait_for_host(const sigset_t *during)
{
	struct pollfd fds[2];

	wait_for(fds, sizeof(fds) / sizeof(fds[0]), during);
	take_frames();
}

/* Wait until something can be done, or until a child ends. */
static void wait_for_work(const sigset_t *during)
{
	int room = channel_room(&job.channel) > 0;
	struct pollfd fds[] = {
		[2] = { .fd = job.input.length > 0 ? job.in : -1, .events = POLLOUT },
		{ .fd = room ? job.out : -1, .events = POLLIN },
		{ .fd = room ? job.err : -1, .events = POLLIN },
	};

	wait_for(fds, sizeof(fds) / sizeof(fds[0]), during);
	take_frames();
}

static void carry_until_done(const sigset_t *during)
{
	while (!job.done) {
		/* First, since the end of the input may have come with the command. */
		feed_input();
		wait_for_work(during);
		carry_output(&job.out, FRAME_STDOUT);
		carry_output(&job.err, FRAME_STDERR);
		reap();
	}
}

/*
 * Carry what the command wrote before it ended and is still in the pipe. A
 * background process may continue to write: take only what is there now.
 */
static void drain(int *fd, enum frame_channel number, const sigset_t *during)
{
	int left = 0;

	if (*fd < 0 || ioctl(*fd, FIONREAD, &left) < 0)
		return;
	while (left > 0) {
		size_t room = channel_room(&job.channel);
		ssize_t got;

		if (room == 0) {
			wait_for_host(during);
			continue;
		}
		got = channel_carry(&job.channel, number, *fd, smaller(room, left));
		if (got <= 0)
			return;
		left -= got;
	}
}

/* Wait until the host has it: what the emulator still holds is lost where the machine ends. */
static void send_status(const sigset_t *during)
{
	const uint8_t status[] = { job.status, STATUS_WHOLE };

	while (channel_room(&job.channel) < sizeof(status))
		wait_for_host(during);
	channel_send(&job.channel, FRAME_STATUS, status, sizeof(status));
	while (!channel_settled(&job.channel))
		wait_for_host(during);
}

static void open_channel(const struct settings *settings)
{
	char path[PORT_PATH_MAX];

	if (settings->port[0] && port_find(settings->port, path) == 0) {
		if (channel_open_port(&job.channel, path) < 0)
			fatal("cannot open the port of the channel to the host");
	} else if (channel_open_serial(&job.channel, HOST_LINE) < 0) {
		fatal("cannot open the channel to the host, " HOST_LINE);
	}
}

void run_exec(const struct settings *settings)
{
	sigset_t during;

	job.in = job.out = job.err = -1;
	job.requests = requests_open();
	open_channel(settings);
	watch_signals(&during);
	channel_send_ready(&job.channel);
	while (!job.command_whole)
		wait_for_work(&during);
	MARK(MARK_COMMAND_BEGINS);
	start_command();
	carry_until_done(&during);
	MARK(MARK_COMMAND_ENDS);
	drain(&job.out, FRAME_STDOUT, &during);
	drain(&job.err, FRAME_STDERR, &during);
	/* The host may power off once it has the status: sync what the command wrote first. */
	sync();
	send_status(&during);
}
