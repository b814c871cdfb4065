// SPDX-License-Identifier: GPL-2.0-only
/* Descriptors that announce events: epoll, eventfd, signalfd, timerfd, inotify, fanotify. */
#include "check.h"
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static int watch(int epoll, int fd, uint32_t events, uint32_t mark)
{
	struct epoll_event event = { .events = events, .data.u32 = mark };

	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

CHECK(events, epoll_level_and_edge)
{
	int epoll = epoll_create1(0), level[2], edge[2];
	struct epoll_event events[4];

	must("pipe", pipe(level) == 0 && pipe(edge) == 0);
	say_result("level", watch(epoll, level[0], EPOLLIN, 1));
	say_result("edge", watch(epoll, edge[0], EPOLLIN | EPOLLET, 2));
	say_value("none", epoll_wait(epoll, events, 4, 0));
	must("write", write(level[1], "x", 1) == 1 && write(edge[1], "x", 1) == 1);
	say_value("both", epoll_wait(epoll, events, 4, 1000));
	say_value("level_again", epoll_wait(epoll, events, 4, 0));
	say("mark=%u", events[0].data.u32);
	must("write", write(edge[1], "y", 1) == 1);
	say_value("edge_again", epoll_wait(epoll, events, 4, 0));
}

CHECK(events, epoll_errors)
{
	int epoll = epoll_create1(0), fd = make_file("plain", ""), ends[2];
	struct epoll_event event = { .events = EPOLLIN };

	must("pipe", pipe(ends) == 0);
	say_result("plain_file", watch(epoll, fd, EPOLLIN, 0));
	say_result("itself", watch(epoll, epoll, EPOLLIN, 0));
	say_result("bad_fd", watch(epoll, 999, EPOLLIN, 0));
	say_result("add", watch(epoll, ends[0], EPOLLIN, 0));
	say_result("twice", watch(epoll, ends[0], EPOLLIN, 0));
	say_result("modify_absent", epoll_ctl(epoll, EPOLL_CTL_MOD, ends[1], &event));
	say_result("delete", epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL));
	say_value("zero_events", epoll_wait(epoll, &event, 0, 0));
	say_value("bad_pointer", epoll_wait(epoll, (void *)8, 1, 0));
	say_value("not_epoll", epoll_wait(fd, &event, 1, 0));
}

CHECK(events, epoll_oneshot_and_hangup)
{
	int epoll = epoll_create1(0), ends[2];
	struct epoll_event event;

	must("pipe", pipe(ends) == 0);
	watch(epoll, ends[0], EPOLLIN | EPOLLONESHOT, 7);
	must("write", write(ends[1], "x", 1) == 1);
	say_value("first", epoll_wait(epoll, &event, 1, 0));
	say_value("second", epoll_wait(epoll, &event, 1, 0));
	event.events = EPOLLIN;
	say_result("rearm", epoll_ctl(epoll, EPOLL_CTL_MOD, ends[0], &event));
	close(ends[1]);
	say_value("third", epoll_wait(epoll, &event, 1, 0));
	say("events=%#x", event.events);
}

CHECK(events, epoll_nested_and_timeout)
{
	int outer = epoll_create1(0), inner = epoll_create1(0), fd = eventfd(1, 0);
	struct epoll_event event;
	int64_t start;

	watch(inner, fd, EPOLLIN, 1);
	say_result("nest", watch(outer, inner, EPOLLIN, 2));
	say_value("ready", epoll_wait(outer, &event, 1, 0));
	say("mark=%u", event.data.u32);
	eventfd_read(fd, &(eventfd_t){ 0 });
	start = now_ns();
	say_value("timeout", epoll_wait(outer, &event, 1, 30));
	say_bool("waited", now_ns() - start >= 29 * MILLISECOND);
}

CHECK(events, epoll_wakes_sleeper)
{
	int epoll = epoll_create1(0), fd = eventfd(0, 0);
	struct epoll_event event;
	pid_t pid;

	watch(epoll, fd, EPOLLIN, 5);
	pid = spawn();
	if (!pid)
		_exit(epoll_wait(epoll, &event, 1, -1) == 1 ? event.data.u32 : 99);
	must("sleep", await_state(pid, 'S'));
	eventfd_write(fd, 1);
	say_child("child", pid);
}

CHECK(events, eventfd)
{
	int fd = eventfd(3, EFD_NONBLOCK), semaphore = eventfd(2, EFD_SEMAPHORE | EFD_NONBLOCK);
	uint64_t value = 4;

	say_value("write", write(fd, &value, 8));
	say_value("read", read(fd, &value, 8));
	say("value=%llu", (unsigned long long)value);
	say_value("empty", read(fd, &value, 8));
	say_value("short", read(fd, &value, 4));
	value = UINT64_MAX;
	say_value("maximum", write(fd, &value, 8));
	value = UINT64_MAX - 1;
	say_value("full", write(fd, &value, 8));
	value = 1;
	say_value("overflow", write(fd, &value, 8));
	say_value("one", read(semaphore, &value, 8));
	say("value=%llu", (unsigned long long)value);
	say_value("two", read(semaphore, &value, 8));
	say_value("none", read(semaphore, &value, 8));
}

CHECK(events, signalfd)
{
	struct signalfd_siginfo info;
	sigset_t set;
	int fd;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fd = signalfd(-1, &set, SFD_NONBLOCK);
	say_value("empty", read(fd, &info, sizeof info));
	raise(SIGUSR1);
	say_value("read", read(fd, &info, sizeof info));
	say("signal=%u code=%d own=%d", info.ssi_signo, info.ssi_code, info.ssi_pid == (unsigned)getpid());
	say_value("short", read(fd, &info, 8));
	say_value("bad", signalfd(0, &set, 0));
}

CHECK(events, timerfd)
{
	struct itimerspec often = { { 0, 4 * MILLISECOND }, { 0, 4 * MILLISECOND } }, left;
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	uint64_t expirations = 0;

	say_result("set", timerfd_settime(fd, 0, &often, NULL));
	sleep_ms(30);
	say_value("read", read(fd, &expirations, 8));
	say_bool("several", expirations >= 5);
	say_result("get", timerfd_gettime(fd, &left));
	say_bool("interval", left.it_interval.tv_nsec == 4 * MILLISECOND);
	say_result("bad_clock", timerfd_create(77, 0));
	often.it_value.tv_nsec = -1;
	say_result("bad_time", timerfd_settime(fd, 0, &often, NULL));
	fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
	say_value("unset", read(fd, &expirations, 8));
}

CHECK(events, timerfd_blocks_and_polls)
{
	struct itimerspec once = { { 0, 0 }, { 0, 20 * MILLISECOND } };
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct pollfd set = { fd, POLLIN, 0 };
	int64_t start = now_ns();

	timerfd_settime(fd, 0, &once, NULL);
	say_value("early", poll(&set, 1, 0));
	say_value("poll", poll(&set, 1, 5000));
	say_bool("waited", now_ns() - start >= 20 * MILLISECOND);
}

static void say_watch_events(int fd)
{
	char buffer[4096] __attribute__((aligned(8)));
	ssize_t length = read(fd, buffer, sizeof buffer);

	if (length < 0)
		say_value("read", length);
	for (char *at = buffer; at < buffer + length;) {
		struct inotify_event *event = (struct inotify_event *)at;

		say("%#x:%s", event->mask, event->len ? event->name : "-");
		at += sizeof *event + event->len;
	}
}

CHECK(events, inotify)
{
	int fd = inotify_init1(IN_NONBLOCK), mark, file;

	must("mkdir", mkdir("watched", 0755) == 0);
	mark = inotify_add_watch(fd, "watched", IN_ALL_EVENTS);
	say_bool("mark", mark >= 0);
	say_watch_events(fd);
	file = make_file("watched/f", "text");
	close(file);
	say_watch_events(fd);
	rename("watched/f", "watched/g");
	say_watch_events(fd);
	unlink("watched/g");
	rmdir("watched");
	say_watch_events(fd);
	say_result("absent", inotify_add_watch(fd, "absent", IN_OPEN));
	say_result("remove", inotify_rm_watch(fd, mark));
}

CHECK(events, fanotify)
{
	struct fanotify_event_metadata event;
	int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_NONBLOCK, O_RDONLY);

	close(make_file("noted", "x"));
	say_bool("init", fd >= 0);
	say_result("mark", fanotify_mark(fd, FAN_MARK_ADD, FAN_OPEN, AT_FDCWD, "noted"));
	close(open("noted", O_RDONLY));
	say_value("read", read(fd, &event, sizeof event));
	say("mask=%#llx own=%d", event.mask, event.pid == getpid());
	say_result("bad_flags", fanotify_init(0x80000000, O_RDONLY));
}

CHECK(events, sigio)
{
	int ends[2];
	sigset_t set;
	siginfo_t info;

	must("pipe", pipe(ends) == 0);
	sigemptyset(&set);
	sigaddset(&set, SIGIO);
	sigprocmask(SIG_BLOCK, &set, NULL);
	fcntl(ends[0], F_SETOWN, getpid());
	say_result("async", fcntl(ends[0], F_SETFL, O_ASYNC));
	must("write", write(ends[1], "x", 1) == 1);
	say_value("signal", sigtimedwait(&set, &info, &(struct timespec){ 5, 0 }));
	say("code=%d", info.si_code);
}
