// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signals that processes send: delivery, masks, queues, restarts, stacks. Faults are in faults.c.
 */
#include "check.h"
#include <sys/time.h>
#include <ucontext.h>

#define STACK_BYTES 65536

static volatile sig_atomic_t count, last_signal, last_code, last_value, order;
static volatile pid_t last_pid;

static void note(int signo, siginfo_t *info, void *context)
{
	(void)context;
	count++;
	last_signal = signo;
	last_code = info->si_code;
	last_value = info->si_value.sival_int;
	last_pid = info->si_pid;
	order = order * 10 + signo % 10;
}

static void handle(int signo, int flags)
{
	struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | flags };

	must("sigaction", sigaction(signo, &action, NULL) == 0);
}

static void block(int how, int signo)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	sigprocmask(how, &set, NULL);
}

/* A child that sends the signal to its parent again and again until it is killed. */
static pid_t nag(int signo)
{
	pid_t pid = spawn();

	if (!pid)
		for (;;) {
			sleep_ms(10);
			kill(getppid(), signo);
		}
	return pid;
}

static void end_nag(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

CHECK(signals, raise_calls_handler)
{
	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	say("count=%d signal=%d code=%d", count, last_signal, last_code);
	say_bool("own_pid", last_pid == getpid());
}

CHECK(signals, kill_code)
{
	handle(SIGUSR1, 0);
	kill(getpid(), SIGUSR1);
	say("count=%d code=%d", count, last_code);
}

CHECK(signals, queued_value)
{
	union sigval value = { .sival_int = 4711 };

	handle(SIGUSR1, 0);
	say_result("sigqueue", sigqueue(getpid(), SIGUSR1, value));
	say("value=%d code=%d", last_value, last_code);
}

CHECK(signals, child_code)
{
	pid_t pid;

	handle(SIGCHLD, 0);
	pid = spawn();
	if (!pid)
		_exit(3);
	while (!count)
		sleep_ms(1);
	say("signal=%d code=%d", last_signal, last_code);
	say_bool("pid", last_pid == pid);
}

CHECK(signals, standard_coalesce_realtime_queue)
{
	handle(SIGUSR1, 0);
	handle(SIGRTMIN, 0);
	block(SIG_BLOCK, SIGUSR1);
	block(SIG_BLOCK, SIGRTMIN);
	for (int i = 0; i < 3; i++) {
		raise(SIGUSR1);
		raise(SIGRTMIN);
	}
	block(SIG_UNBLOCK, SIGUSR1);
	say("standard=%d", count);
	block(SIG_UNBLOCK, SIGRTMIN);
	say("with_realtime=%d", count);
}

CHECK(signals, order_of_pending)
{
	sigset_t set;

	sigfillset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	handle(SIGUSR1, 0);
	handle(SIGUSR2, 0);
	handle(SIGHUP, 0);
	raise(SIGUSR2);
	raise(SIGUSR1);
	raise(SIGHUP);
	sigemptyset(&set);
	sigprocmask(SIG_SETMASK, &set, NULL);
	say("count=%d order=%d", count, order);
}

CHECK(signals, pending_set)
{
	sigset_t set;

	block(SIG_BLOCK, SIGTERM);
	raise(SIGTERM);
	sigpending(&set);
	say_bool("pending", sigismember(&set, SIGTERM) == 1);
	signal(SIGTERM, SIG_IGN);
	sigpending(&set);
	say_bool("after_ignore", sigismember(&set, SIGTERM) == 1);
}

CHECK(signals, mask_in_handler_and_after)
{
	sigset_t set;

	handle(SIGUSR1, 0);
	raise(SIGUSR1);
	sigprocmask(SIG_SETMASK, NULL, &set);
	say_bool("blocked_after", sigismember(&set, SIGUSR1) == 1);
	say("count=%d", count);
}

static volatile sig_atomic_t depth, deepest;

static void nest(int signo)
{
	depth++;
	deepest = depth > deepest ? depth : deepest;
	if (count++ < 3)
		raise(signo);
	depth--;
}

CHECK(signals, nodefer_nests)
{
	struct sigaction action = { .sa_handler = nest, .sa_flags = SA_NODEFER };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	say("deepest=%d", deepest);
	count = deepest = 0;
	action.sa_flags = 0;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	say("without=%d count=%d", deepest, count);
}

CHECK(signals, resethand)
{
	struct sigaction now;

	handle(SIGUSR1, SA_RESETHAND);
	raise(SIGUSR1);
	sigaction(SIGUSR1, NULL, &now);
	say("count=%d", count);
	say_bool("default", now.sa_handler == SIG_DFL);
}

CHECK(signals, default_actions)
{
	static const int numbers[] = { SIGHUP, SIGQUIT, SIGABRT, SIGPIPE, SIGALRM, SIGUSR1, SIGXCPU, SIGSYS,
				       SIGCHLD, SIGWINCH, SIGURG, SIGCONT, 34, 64 };

	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		pid_t pid = spawn();

		if (!pid) {
			kill(getpid(), numbers[i]);
			_exit(0);
		}
		say("%d", numbers[i]);
		say_child("is", pid);
	}
}

CHECK(signals, cannot_catch_kill)
{
	struct sigaction action = { .sa_handler = SIG_IGN };

	say_result("kill", sigaction(SIGKILL, &action, NULL));
	say_result("stop", sigaction(SIGSTOP, &action, NULL));
	say_result("number_65", syscall(SYS_rt_sigaction, 65, NULL, NULL, 8));
	say_result("bad_size", syscall(SYS_rt_sigaction, SIGUSR1, NULL, NULL, 4));
}

CHECK(signals, kill_ignores_mask)
{
	sigset_t set;
	pid_t pid = spawn();

	if (!pid) {
		sigfillset(&set);
		sigprocmask(SIG_SETMASK, &set, NULL);
		for (;;)
			pause();
	}
	sleep_ms(10);
	kill(pid, SIGKILL);
	say_child("child", pid);
}

CHECK(signals, read_interrupted)
{
	int ends[2];
	char byte;
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	handle(SIGUSR1, 0);
	pid = nag(SIGUSR1);
	say_value("read", read(ends[0], &byte, 1));
	end_nag(pid);
	say_bool("handled", count > 0);
}

CHECK(signals, read_restarted)
{
	int ends[2];
	char byte = 0;
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	handle(SIGUSR1, SA_RESTART);
	pid = spawn();
	if (!pid) {
		for (int i = 0; i < 5; i++) {
			sleep_ms(10);
			kill(getppid(), SIGUSR1);
		}
		_exit(write(ends[1], "z", 1) == 1 ? 0 : 1);
	}
	say_value("read", read(ends[0], &byte, 1));
	say("byte=%c", byte);
	say_child("child", pid);
	say_bool("handled", count > 0);
}

CHECK(signals, nanosleep_interrupted)
{
	struct timespec rest = { 0, 0 }, ask = { 15, 0 };
	pid_t pid;

	handle(SIGUSR1, SA_RESTART);
	pid = nag(SIGUSR1);
	say_result("nanosleep", nanosleep(&ask, &rest));
	end_nag(pid);
	say_bool("rest_given", rest.tv_sec > 5 && rest.tv_sec < 15);
}

CHECK(signals, sleep_restarted_after_stop)
{
	struct timespec ask = { 0, 300 * MILLISECOND };
	int status;
	int64_t start;
	pid_t pid = spawn();

	if (!pid) {
		start = now_ns();
		if (nanosleep(&ask, NULL))
			_exit(1);
		_exit(now_ns() - start >= 300 * MILLISECOND ? 0 : 2);
	}
	must("sleep", await_state(pid, 'S'));
	kill(pid, SIGSTOP);
	waitpid(pid, &status, WUNTRACED);
	kill(pid, SIGCONT);
	say_child("child", pid);
}

CHECK(signals, wait_restarted)
{
	int status;
	pid_t sleeper = spawn(), pid;

	if (!sleeper) {
		sleep_ms(150);
		_exit(6);
	}
	handle(SIGUSR1, SA_RESTART);
	pid = nag(SIGUSR1);
	say_bool("waited", waitpid(sleeper, &status, 0) == sleeper);
	say("status=%d", WEXITSTATUS(status));
	end_nag(pid);
	say_bool("handled", count > 0);
}

CHECK(signals, sigsuspend)
{
	sigset_t none, now;

	handle(SIGUSR1, 0);
	block(SIG_BLOCK, SIGUSR1);
	raise(SIGUSR1);
	sigemptyset(&none);
	say_result("sigsuspend", sigsuspend(&none));
	sigprocmask(SIG_SETMASK, NULL, &now);
	say("count=%d", count);
	say_bool("blocked_again", sigismember(&now, SIGUSR1) == 1);
}

CHECK(signals, sigwaitinfo)
{
	union sigval value = { .sival_int = 99 };
	struct timespec short_time = { 0, 5 * MILLISECOND };
	siginfo_t info;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN + 1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigqueue(getpid(), SIGRTMIN + 1, value);
	say_value("signal", sigwaitinfo(&set, &info));
	say("value=%d code=%d", info.si_value.sival_int, info.si_code);
	say_value("empty", sigtimedwait(&set, &info, &short_time));
}

CHECK(signals, interval_timer)
{
	struct itimerval often = { { 0, 10000 }, { 0, 10000 } }, left;

	handle(SIGALRM, 0);
	say_result("set", setitimer(ITIMER_REAL, &often, NULL));
	while (count < 5)
		pause();
	say_result("get", getitimer(ITIMER_REAL, &left));
	say_bool("interval", left.it_interval.tv_usec == 10000);
	say("code=%d", last_code);
}

CHECK(signals, virtual_and_profile_timers)
{
	struct itimerval often = { { 0, 4000 }, { 0, 4000 } }, off = { { 0, 0 }, { 0, 0 } };

	handle(SIGVTALRM, 0);
	handle(SIGPROF, 0);
	say_result("virtual", setitimer(ITIMER_VIRTUAL, &often, NULL));
	while (count < 2)
		;
	say("signal=%d", last_signal);
	setitimer(ITIMER_VIRTUAL, &off, NULL);
	count = 0;
	say_result("profile", setitimer(ITIMER_PROF, &often, NULL));
	while (count < 2)
		;
	say("signal=%d", last_signal);
}

CHECK(signals, alarm_interrupts_spin)
{
	handle(SIGALRM, 0);
	ualarm(20000, 0);
	while (!count)
		;
	say("count=%d signal=%d", count, last_signal);
	say_value("alarm_left", alarm(0));
}

static char *alternate;
static volatile sig_atomic_t on_alternate, flags_inside;

static void where(int signo)
{
	char here;
	stack_t now;

	(void)signo;
	on_alternate = &here >= alternate && &here < alternate + STACK_BYTES;
	sigaltstack(NULL, &now);
	flags_inside = now.ss_flags;
}

CHECK(signals, alternate_stack)
{
	struct sigaction action = { .sa_handler = where, .sa_flags = SA_ONSTACK };
	stack_t stack = { .ss_size = STACK_BYTES }, now;

	stack.ss_sp = alternate = malloc(STACK_BYTES);
	say_result("set", sigaltstack(&stack, NULL));
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	say_bool("on_alternate", on_alternate);
	say("flags_inside=%d", flags_inside);
	sigaltstack(NULL, &now);
	say("flags_outside=%d", now.ss_flags);
	stack.ss_size = 100;
	say_result("too_small", sigaltstack(&stack, NULL));
	action.sa_flags = 0;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	say_bool("without_flag", on_alternate);
}

static void overflow_handler(int signo, siginfo_t *info, void *context)
{
	(void)context;
	say("signo=%d code=%d", signo, info->si_code);
	_exit(0);
}

/* Grows the stack far beyond its limit, a little at each level. */
static int recurse(volatile char *above, long levels)
{
	volatile char room[1024];

	room[0] = above[0];
	return levels ? recurse(room, levels - 1) + room[0] : 0;
}

CHECK(signals, stack_overflow_on_alternate_stack)
{
	struct sigaction action = { .sa_sigaction = overflow_handler, .sa_flags = SA_ONSTACK | SA_SIGINFO };
	stack_t stack = { .ss_size = STACK_BYTES, .ss_sp = malloc(STACK_BYTES) };
	char start = 0;

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	say("result=%d", recurse(&start, 1L << 20));
}

CHECK(signals, no_room_for_frame)
{
	stack_t stack = { .ss_size = STACK_BYTES };
	pid_t pid;

	stack.ss_sp = mmap(NULL, STACK_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid = spawn();
	if (!pid) {
		struct sigaction action = { .sa_handler = where, .sa_flags = SA_ONSTACK };

		sigaltstack(&stack, NULL);
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	say_child("child", pid);
}

static void bad_return(int signo, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)signo;
	(void)info;
	user->uc_mcontext.gregs[REG_PLACE] = 0x10;
}

CHECK(signals, handler_sets_bad_rip)
{
	struct sigaction action = { .sa_sigaction = bad_return, .sa_flags = SA_SIGINFO };
	pid_t pid = spawn();

	if (!pid) {
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	say_child("child", pid);
}

#ifdef __x86_64__
static void noncanonical_return(int signo, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)signo;
	(void)info;
	user->uc_mcontext.gregs[REG_RIP] = 0x8000000000000000LL;
}

CHECK(signals, handler_sets_noncanonical_rip)
{
	struct sigaction action = { .sa_sigaction = noncanonical_return, .sa_flags = SA_SIGINFO };
	pid_t pid = spawn();

	if (!pid) {
		sigaction(SIGUSR1, &action, NULL);
		raise(SIGUSR1);
		_exit(0);
	}
	say_child("child", pid);
}
#endif

CHECK(signals, sigreturn_with_no_frame)
{
	pid_t pid = spawn();

	if (!pid) {
		syscall(SYS_rt_sigreturn);
		_exit(0);
	}
	say_child("child", pid);
}

CHECK(signals, long_jump_out_of_handler)
{
	sigset_t now;

	catch_faults();
	for (int i = 0; i < 5; i++)
		if (!sigsetjmp(fault_return, 1))
			raise(SIGSEGV);
	sigprocmask(SIG_SETMASK, NULL, &now);
	say("signo=%d code=%d", fault_info.si_signo, fault_info.si_code);
	say_bool("blocked", sigismember(&now, SIGSEGV) == 1);
}

CHECK(signals, blocked_fault_kills)
{
	pid_t pid = spawn();

	if (!pid) {
		catch_faults();
		block(SIG_BLOCK, SIGSEGV);
		*(volatile int *)8 = 1;
		_exit(0);
	}
	say_child("child", pid);
}

CHECK(signals, thousand_to_a_child)
{
	int ready[2];
	char byte = 0;
	pid_t pid;

	must("pipe", pipe(ready) == 0);
	pid = spawn();
	if (!pid) {
		handle(SIGRTMIN, 0);
		must("write", write(ready[1], &byte, 1) == 1);
		while (count < 1000)
			;
		_exit(7);
	}
	must("read", read(ready[0], &byte, 1) == 1);
	for (int i = 0; i < 1000; i++)
		while (sigqueue(pid, SIGRTMIN, (union sigval){ .sival_int = i }))
			sleep_ms(1);
	say_child("child", pid);
}
