// SPDX-License-Identifier: GPL-2.0-only
/*
 * Every number of an interface, with harmless arguments: its result, and the numbers that do not
 * exist.
 */
#include "check.h"
#include <linux/keyctl.h>
#include <sys/prctl.h>

#define CALLS_A_LINE 64
#define LAST_CALL 451
#define BLOCKED_SECONDS 2

/*
 * Calls that end or block the caller, create a process, change the machine for others, or depend on
 * earlier calls.
 */
static const long left_out[] = {
#ifdef SYS_sigreturn
	SYS_sigreturn, SYS_sigsuspend, SYS__newselect, SYS_waitpid, SYS_time, SYS_rt_sigtimedwait_time64,
#endif
#ifdef SYS_time
	SYS_time,
#endif
	SYS_rt_sigreturn, SYS_pause, SYS_fork, SYS_vfork, SYS_clone, SYS_exit, SYS_exit_group, SYS_reboot, SYS_vhangup,
	SYS_select, SYS_poll, SYS_ppoll, SYS_pselect6, SYS_rt_sigsuspend, SYS_rt_sigtimedwait, SYS_restart_syscall,
	SYS_kill, SYS_alarm, SYS_sync, SYS_close, SYS_close_range, SYS_dup2, SYS_dup3, SYS_userfaultfd, SYS_read,
	SYS_write, SYS_vmsplice, SYS_brk, SYS_setsid, SYS_sethostname, SYS_setdomainname, SYS_acct,
};

/* Speculation is a setting of the processor, which Linux does not own on every system. */
static const long processor_options[] = { PR_GET_SPECULATION_CTRL, PR_SET_SPECULATION_CTRL };

static bool is_processors(long option)
{
	for (size_t i = 0; i < ARRAY_SIZE(processor_options); i++)
		if (processor_options[i] == option)
			return true;
	return false;
}

static bool is_left_out(long number)
{
	for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
		if (left_out[i] == number)
			return true;
	return false;
}

/*
 * Makes each call in a child with this value for all arguments, and states the result: 0 for
 * success, otherwise the error.
 */
static void sweep(long first, long argument)
{
	for (long number = first; number < first + CALLS_A_LINE && number < LAST_CALL; number++) {
		int status;
		pid_t pid;

		if (is_left_out(number))
			continue;
		pid = spawn();
		if (!pid) {
			alarm(BLOCKED_SECONDS);
			_exit(syscall(number, argument, argument, argument, argument, argument, argument) == -1 ? errno : 0);
		}
		waitpid(pid, &status, 0);
		if (WIFSIGNALED(status))
			say("%ld:signal%d", number, WTERMSIG(status));
		else
			say("%ld:%d", number, WEXITSTATUS(status));
	}
}

#define SWEEP(title, block, argument)                    \
	CHECK(sweeps, title)                             \
	{                                                \
		sweep((block) * CALLS_A_LINE, argument); \
	}
SWEEP(calls_with_ones_0, 0, -1)
SWEEP(calls_with_ones_1, 1, -1)
SWEEP(calls_with_ones_2, 2, -1)
SWEEP(calls_with_ones_3, 3, -1)
SWEEP(calls_with_ones_4, 4, -1)
SWEEP(calls_with_ones_5, 5, -1)
SWEEP(calls_with_ones_6, 6, -1)
SWEEP(calls_with_ones_7, 7, -1)
SWEEP(calls_with_zeros_0, 0, 0)
SWEEP(calls_with_zeros_1, 1, 0)
SWEEP(calls_with_zeros_2, 2, 0)
SWEEP(calls_with_zeros_3, 3, 0)
SWEEP(calls_with_zeros_4, 4, 0)
SWEEP(calls_with_zeros_5, 5, 0)
SWEEP(calls_with_zeros_6, 6, 0)
SWEEP(calls_with_zeros_7, 7, 0)

/* Like say_value(), but short, with success as 0 or 1, because many are in one line. */
static void say_answer(long number, long result)
{
	if (result == -1)
		say("%ld:%s", number, errno_name(errno));
	else
		say("%ld:%d", number, result > 0);
}

CHECK(sweeps, prctl_options)
{
	for (long option = 0; option < 72; option++)
		if (option != PR_GET_TID_ADDRESS && !is_processors(option))
			say_answer(option, prctl(option, 0, 0, 0, 0));
}

CHECK(sweeps, prctl_options_with_one)
{
	for (long option = 0; option < 72; option++) {
		pid_t pid = is_processors(option) ? 0 : spawn();
		int status;

		if (is_processors(option))
			continue;
		if (!pid)
			_exit(prctl(option, 1, 0, 0, 0) == -1 ? errno : 0);
		waitpid(pid, &status, 0);
		say("%ld:%#x", option, status);
	}
}

CHECK(sweeps, madvise_advice)
{
	char *memory = map_pages(4);

	memset(memory, 1, 4 * PAGE);
	for (long advice = 0; advice < 30; advice++)
		say_answer(advice, madvise(memory, 2 * PAGE, advice));
	say("last=%d", memory[3 * PAGE]);
}

CHECK(sweeps, arch_prctl_codes)
{
	unsigned long value = 0;

	for (long code = 0x1001; code < 0x1030; code++)
		if (code != 0x1001 && code != 0x1002)
			say_answer(code, syscall(SYS_arch_prctl, code, &value));
}

CHECK(sweeps, keyctl_operations)
{
	for (long operation = 0; operation < 34; operation++)
		say_answer(operation, syscall(SYS_keyctl, operation, -99, -99, -99, -99));
}

CHECK(sweeps, fcntl_commands)
{
	int fd = make_file("file", "text");

	for (long command = 0; command < 20; command++)
		if (command != F_DUPFD && command != F_GETOWN)
			say_answer(command, fcntl(fd, command, 0));
	for (long command = 1024; command < 1042; command++)
		if (command != F_DUPFD_CLOEXEC)
			say_answer(command, fcntl(fd, command, 0));
}

CHECK(sweeps, bpf_commands)
{
	char attributes[128] = { 0 };

	for (long command = 0; command < 40; command++)
		say_answer(command, syscall(SYS_bpf, command, attributes, sizeof attributes));
}

CHECK(sweeps, membarrier_commands)
{
	for (long bit = 0; bit < 12; bit++)
		say_answer(1 << bit, syscall(SYS_membarrier, 1 << bit, 0, 0));
}

CHECK(sweeps, sysconf_names)
{
	static const int by_machine[] = { _SC_NPROCESSORS_CONF, _SC_NPROCESSORS_ONLN, _SC_PHYS_PAGES, _SC_AVPHYS_PAGES,
					  _SC_CHILD_MAX, _SC_SIGQUEUE_MAX };

	for (int name = 0; name < 200; name++) {
		bool varies = false;

		for (size_t i = 0; i < ARRAY_SIZE(by_machine); i++)
			varies |= name == by_machine[i];
		if (!varies)
			say("%ld", sysconf(name));
	}
}
