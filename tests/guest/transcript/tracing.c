// SPDX-License-Identifier: GPL-2.0-only
/*
 * ptrace: attaching, registers, memory, single steps, system call stops, events, debug registers,
 * core sizes.
 */
#include "check.h"
#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>

static volatile long traced_word = 111;

/*
 * A child that is traced by this check and stopped; it continues with the body and exits with its
 * result.
 */
static pid_t start_traced(int (*body)(void))
{
	int status;
	pid_t pid = spawn();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(body());
	}
	must("stop", waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	return pid;
}

static void say_stop(const char *what, pid_t pid)
{
	int status;

	if (waitpid(pid, &status, __WALL) != pid)
		say("%s=%s", what, errno_name(errno));
	else if (WIFSTOPPED(status))
		say("%s=stop:%d,event:%d", what, WSTOPSIG(status), status >> 16);
	else
		say("%s=%s:%d", what, WIFEXITED(status) ? "exit" : "signal",
		    WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
}

static int return_word(void)
{
	return traced_word;
}

/* The caller replaces or suppresses the result of this call. */
static int call_getppid(void)
{
	return syscall(SYS_getppid) == 55 ? 2 : 3;
}

static int spin(void)
{
	for (volatile long i = 0; i >= 0;)
		i++;
	return 0;
}

CHECK(tracing, memory)
{
	pid_t pid = start_traced(return_word);

	errno = 0;
	say("peek=%ld", ptrace(PTRACE_PEEKDATA, pid, &traced_word, NULL));
	say_result("poke", ptrace(PTRACE_POKEDATA, pid, &traced_word, 42L));
	say_result("bad_address", ptrace(PTRACE_PEEKDATA, pid, (void *)16, NULL));
	say_result("continue", ptrace(PTRACE_CONT, pid, NULL, NULL));
	say_stop("end", pid);
	say("own=%ld", traced_word);
}

CHECK(tracing, registers)
{
	struct user_regs_struct registers, again;
	pid_t pid = start_traced(return_word);

	say_result("get", ptrace(PTRACE_GETREGS, pid, NULL, &registers));
	say("cs=%#llx ss=%#llx orig_rax_is_tgkill=%d rax=%lld", registers.cs, registers.ss,
	    registers.orig_rax == SYS_tgkill, registers.rax);
	registers.r12 = 0x1234567890abcdef;
	say_result("set", ptrace(PTRACE_SETREGS, pid, NULL, &registers));
	ptrace(PTRACE_GETREGS, pid, NULL, &again);
	say("r12=%#llx", again.r12);
	say_bool("same", !memcmp(&registers, &again, sizeof again));
	registers.cs = 0;
	say_result("bad_cs", ptrace(PTRACE_SETREGS, pid, NULL, &registers));
	say_bool("user_area", ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user_regs_struct, rip), NULL) == (long)again.rip);
	kill(pid, SIGKILL);
	say_stop("end", pid);
}

CHECK(tracing, register_sets)
{
	struct user_regs_struct registers;
	struct iovec part = { &registers, sizeof registers };
	struct user_fpregs_struct fpu;
	pid_t pid = start_traced(return_word);

	say_result("getregset", ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &part));
	say("length=%zu", part.iov_len);
	say_result("getfpregs", ptrace(PTRACE_GETFPREGS, pid, NULL, &fpu));
	say("control=%#x mxcsr=%#x", fpu.cwd, fpu.mxcsr);
	fpu.xmm_space[0] = 99;
	say_result("setfpregs", ptrace(PTRACE_SETFPREGS, pid, NULL, &fpu));
	fpu.xmm_space[0] = 0;
	ptrace(PTRACE_GETFPREGS, pid, NULL, &fpu);
	say("xmm0=%u", fpu.xmm_space[0]);
	kill(pid, SIGKILL);
}

CHECK(tracing, system_call_stops)
{
	struct user_regs_struct registers;
	pid_t pid = start_traced(call_getppid);

	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACESYSGOOD);
	for (int i = 0; i < 2; i++) {
		ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
		say_stop("stop", pid);
		ptrace(PTRACE_GETREGS, pid, NULL, &registers);
		say("call=%lld enosys=%d", registers.orig_rax, registers.rax == (unsigned long long)-ENOSYS);
	}
	registers.rax = 55;
	ptrace(PTRACE_SETREGS, pid, NULL, &registers);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("end", pid);
}

CHECK(tracing, skip_system_call)
{
	struct user_regs_struct registers;
	pid_t pid = start_traced(call_getppid);

	ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
	say_stop("entry", pid);
	ptrace(PTRACE_GETREGS, pid, NULL, &registers);
	registers.orig_rax = -1;
	ptrace(PTRACE_SETREGS, pid, NULL, &registers);
	ptrace(PTRACE_SYSCALL, pid, NULL, NULL);
	say_stop("exit", pid);
	ptrace(PTRACE_GETREGS, pid, NULL, &registers);
	say("result=%lld", registers.rax);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("end", pid);
}

CHECK(tracing, single_steps)
{
	struct user_regs_struct before, after;
	int moved = 0, status;
	siginfo_t info;
	pid_t pid = start_traced(spin);

	for (int i = 0; i < 50; i++) {
		ptrace(PTRACE_GETREGS, pid, NULL, &before);
		ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL);
		waitpid(pid, &status, 0);
		ptrace(PTRACE_GETREGS, pid, NULL, &after);
		moved += WIFSTOPPED(status) && WSTOPSIG(status) == SIGTRAP && before.rip != after.rip;
	}
	ptrace(PTRACE_GETSIGINFO, pid, NULL, &info);
	say("moved=%d", moved);
	say("code=%d trap_flag=%llu", info.si_code, after.eflags >> 8 & 1);
	kill(pid, SIGKILL);
}

static int hit_breakpoint(void)
{
	__asm__ volatile("int3");
	return 5;
}

CHECK(tracing, breakpoint)
{
	siginfo_t info;
	pid_t pid = start_traced(hit_breakpoint);

	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("stop", pid);
	ptrace(PTRACE_GETSIGINFO, pid, NULL, &info);
	say("code=%d", info.si_code);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("end", pid);
}

CHECK(tracing, planted_breakpoint)
{
	struct user_regs_struct registers;
	long code;
	pid_t pid = start_traced(return_word);

	code = ptrace(PTRACE_PEEKTEXT, pid, return_word, NULL);
	say_result("plant", ptrace(PTRACE_POKETEXT, pid, return_word, (code & ~0xffL) | 0xcc));
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("stop", pid);
	ptrace(PTRACE_GETREGS, pid, NULL, &registers);
	say_bool("there", registers.rip == (uintptr_t)return_word + 1);
	ptrace(PTRACE_POKETEXT, pid, return_word, code);
	registers.rip--;
	ptrace(PTRACE_SETREGS, pid, NULL, &registers);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("end", pid);
	say("own_code=%d", return_word());
}

CHECK(tracing, signals_are_reported)
{
	pid_t pid = start_traced(spin);

	ptrace(PTRACE_CONT, pid, NULL, NULL);
	kill(pid, SIGUSR1);
	say_stop("first", pid);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	kill(pid, SIGUSR2);
	say_stop("second", pid);
	ptrace(PTRACE_CONT, pid, NULL, SIGUSR2);
	say_stop("end", pid);
}

CHECK(tracing, attach_to_spinning)
{
	pid_t pid = spawn();

	if (!pid)
		spin();
	sleep_ms(10);
	say_result("attach", ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	say_stop("stop", pid);
	say_result("detach", ptrace(PTRACE_DETACH, pid, NULL, NULL));
	kill(pid, SIGTERM);
	say_stop("end", pid);
}

CHECK(tracing, seize_and_interrupt)
{
	pid_t pid = spawn();

	if (!pid)
		spin();
	say_result("seize", ptrace(PTRACE_SEIZE, pid, NULL, NULL));
	say_result("interrupt", ptrace(PTRACE_INTERRUPT, pid, NULL, NULL));
	say_stop("stop", pid);
	kill(pid, SIGKILL);
	say_stop("end", pid);
}

static int fork_and_wait(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(7);
	waitpid(pid, &status, 0);
	return WEXITSTATUS(status);
}

CHECK(tracing, fork_events)
{
	unsigned long child = 0;
	pid_t pid = start_traced(fork_and_wait);

	say_result("options", ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEFORK | PTRACE_O_EXITKILL));
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("fork", pid);
	say_result("message", ptrace(PTRACE_GETEVENTMSG, pid, NULL, &child));
	say_stop("child", child);
	ptrace(PTRACE_CONT, child, NULL, NULL);
	say_stop("child_end", child);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("sigchld", pid);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("end", pid);
}

static int execute_self(void)
{
	execl(self_path, "transcript", "--as", "exit", "14", NULL);
	return 1;
}

CHECK(tracing, exec_event)
{
	pid_t pid = start_traced(execute_self);

	ptrace(PTRACE_SETOPTIONS, pid, NULL, PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("exec", pid);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("exiting", pid);
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("end", pid);
}

static int write_word(void)
{
	traced_word = 9;
	return 6;
}

CHECK(tracing, hardware_watchpoint)
{
	siginfo_t info;
	pid_t pid = start_traced(write_word);
	long enable_write_8_bytes = 1 | 0x9L << 16;

	say_result("address", ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[0]), &traced_word));
	say_result("control", ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[7]), enable_write_8_bytes));
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_stop("stop", pid);
	ptrace(PTRACE_GETSIGINFO, pid, NULL, &info);
	say("code=%d", info.si_code);
	kill(pid, SIGKILL);
}

/* One for execution has no length: each byte up to the end of the program's half can have one. */
CHECK(tracing, breakpoints_at_the_end)
{
	static const unsigned long ends[] = { 0x7fffffffeff8UL, 0x7fffffffeff9UL, 0x7fffffffefffUL,
					      0x7ffffffff000UL, 0x800000000000UL, 0xffff888000000000UL };
	/* For execution, and to write 1, 2, 4 and 8 bytes. */
	static const long controls[] = { 0, 1, 0x10001, 0x50001, 0xd0001, 0x90001, 0 };

	for (size_t i = 0; i < ARRAY_SIZE(ends); i++) {
		pid_t pid = start_traced(write_word);

		say_result("address", ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[0]), ends[i]));
		for (size_t j = 0; j < ARRAY_SIZE(controls); j++)
			say_result("control", ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[7]),
						     controls[j]));
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

/* Selectors that the return to user mode refuses: data as code, code as the stack, none. */
CHECK(tracing, bad_selectors)
{
	static const struct {
		const char *name;
		size_t offset;
		unsigned long selector;
	} tries[] = {
		{ "code", offsetof(struct user_regs_struct, cs), 0x2b },
		{ "no_code", offsetof(struct user_regs_struct, cs), 0x1233 },
		{ "stack", offsetof(struct user_regs_struct, ss), 0x33 },
		{ "kernel_code", offsetof(struct user_regs_struct, cs), 0x10 },
	};

	for (size_t i = 0; i < ARRAY_SIZE(tries); i++) {
		pid_t pid = start_traced(return_word);

		say_result(tries[i].name, ptrace(PTRACE_POKEUSER, pid, tries[i].offset, tries[i].selector));
		ptrace(PTRACE_CONT, pid, NULL, NULL);
		say_stop("then", pid);
		ptrace(PTRACE_CONT, pid, NULL, (void *)SIGSEGV);
		say_stop("end", pid);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
}

CHECK(tracing, errors)
{
	pid_t pid = spawn();

	if (!pid)
		for (;;)
			pause();
	say_result("not_traced", ptrace(PTRACE_CONT, pid, NULL, NULL));
	say_result("nobody", ptrace(PTRACE_ATTACH, 999999, NULL, NULL));
	say_result("itself", ptrace(PTRACE_ATTACH, getpid(), NULL, NULL));
	say_result("attach", ptrace(PTRACE_ATTACH, pid, NULL, NULL));
	say_stop("stop", pid);
	say_result("unknown", ptrace(9999, pid, NULL, NULL));
	kill(pid, SIGKILL);
	say_stop("end", pid);
}

CHECK(tracing, tracer_death_ends_tracee)
{
	int ends[2];
	char byte;
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	pid = spawn();
	if (!pid) {
		pid_t traced;

		close(ends[0]);
		traced = start_traced(spin);
		ptrace(PTRACE_SETOPTIONS, traced, NULL, PTRACE_O_EXITKILL);
		ptrace(PTRACE_CONT, traced, NULL, NULL);
		_exit(0);
	}
	close(ends[1]);
	say_child("tracer", pid);
	say_value("end_of_file", read(ends[0], &byte, 1));
}

CHECK(tracing, core_dump)
{
	uint64_t unlimited[2] = { ~0UL, ~0UL };
	int status;
	pid_t pid = spawn();

	if (!pid) {
		syscall(SYS_prlimit64, 0, 4, unlimited, NULL);
		raise(SIGQUIT);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	say("signal=%d", WTERMSIG(status));
	say_bool("dump_flag", WCOREDUMP(status));
}
