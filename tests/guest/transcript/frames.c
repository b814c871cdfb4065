// SPDX-License-Identifier: GPL-2.0-only
/*
 * Signal frames: their place, their FPU state, and frames that cannot be written or restored.
 */
#include "check.h"
#include <sys/ptrace.h>
#include <sys/time.h>
#include <sys/user.h>

/* What xmm6 holds before a signal, and what the handler puts into its place in the frame. */
#define BEFORE 0x1111222233334444UL
#define AFTER 0x5555666677778888UL
#define XMM6 6
/*
 * Offsets in a frame: the bytes of the FXSAVE state that programs may use, and the XSAVE header
 * after it.
 */
#define RESERVED_BYTES 416
#define SOFTWARE_BYTES 464
#define HEADER 512
#define STACK_PAGES 4
/* Bytes between the tried ends of the alternate stack: frames cross page borders at every place. */
#define STEP 64
#define CHILDREN 64
/* Methods to corrupt a state. */
#define SPOILINGS 15

static volatile int handled;
static volatile unsigned long found, own, control;

static void set_xmm6(unsigned long value)
{
	__asm__ volatile("movq %0, %%xmm6" : : "r"(value) : "xmm6");
}

static unsigned long xmm6(void)
{
	unsigned long value;

	__asm__ volatile("movq %%xmm6, %0" : "=r"(value));
	return value;
}

/* In one asm statement, because compiled code in between may use the register. */
static unsigned long raise_with(unsigned long value, int signo)
{
	unsigned long result, pid = getpid();

	__asm__ volatile("movq %2, %%xmm6\n\tsyscall\n\tmovq %%xmm6, %0"
			 : "=r"(result)
			 : "a"((unsigned long)SYS_kill), "r"(value), "D"(pid), "S"((unsigned long)signo)
			 : "rcx", "r11", "memory", "xmm6");
	return result;
}

static char *state_of(ucontext_t *context)
{
	return (char *)context->uc_mcontext.fpregs;
}

static unsigned long *place_of_xmm6(ucontext_t *context)
{
	return (unsigned long *)context->uc_mcontext.fpregs->_xmm[XMM6].element;
}

static void look(int signo, siginfo_t *info, void *context)
{
	unsigned int mxcsr;

	own = xmm6();
	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	(void)signo;
	(void)info;
	handled++;
	control = mxcsr;
	found = *place_of_xmm6(context);
	*place_of_xmm6(context) = AFTER;
	set_xmm6(~0UL);
}

static void handle(int signo, void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction action = { .sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags };

	must("sigaction", sigaction(signo, &action, NULL) == 0);
}

/* The alternate stack ends this many bytes below the end of the memory. */
static void set_stack(char *memory, unsigned long below)
{
	stack_t stack = { .ss_sp = memory, .ss_size = STACK_PAGES * PAGE - below };

	must("sigaltstack", sigaltstack(&stack, NULL) == 0);
}

/* Takes one signal with its frame there; returns whether everything is right. */
static bool is_good(void)
{
	unsigned long after;

	found = own = control = 0;
	after = raise_with(BEFORE, SIGUSR1);
	return found == BEFORE && own == 0 && control == 0x1f80 && after == AFTER;
}

CHECK(frames, at_every_place)
{
	char *memory = map_pages(STACK_PAGES);
	int good = 0;

	handle(SIGUSR1, look, SA_ONSTACK);
	for (unsigned long below = 0; below < PAGE; below += STEP) {
		set_stack(memory, below);
		good += is_good();
	}
	say("good=%d handled=%d", good, handled);
}

CHECK(frames, on_new_pages)
{
	int good = 0;
	char *memory;

	handle(SIGUSR1, look, SA_ONSTACK);
	for (unsigned long below = 0; below < PAGE; below += STEP) {
		memory = map_pages(STACK_PAGES);
		set_stack(memory, below);
		good += is_good();
		munmap(memory, STACK_PAGES * PAGE);
	}
	say("good=%d handled=%d", good, handled);
}

CHECK(frames, on_copied_pages)
{
	char *memory = map_pages(STACK_PAGES);
	pid_t pid;

	memset(memory, 'x', STACK_PAGES * PAGE);
	handle(SIGUSR1, look, SA_ONSTACK);
	set_stack(memory, PAGE + 512);
	pid = spawn();
	if (!pid)
		_exit(is_good() ? 0 : 1);
	say_child("child", pid);
	for (unsigned long at = 0; at < STACK_PAGES * PAGE; at++)
		if (memory[at] != 'x') {
			say("changed");
			break;
		}
	say_bool("good", is_good());
}

CHECK(frames, from_file)
{
	int file = make_file("stack", "");
	char *memory;

	must("ftruncate", ftruncate(file, STACK_PAGES * PAGE) == 0);
	memory = mmap(NULL, STACK_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
	must("mmap", memory != MAP_FAILED);
	handle(SIGUSR1, look, SA_ONSTACK);
	set_stack(memory, PAGE + 512);
	say_bool("good", is_good());
}

/* Ways in which the page below the border cannot be written. */
static void take_away(char *page, int way)
{
	int file;

	switch (way) {
	case 0:
		must("mprotect", mprotect(page, PAGE, PROT_NONE) == 0);
		break;
	case 1:
		must("mprotect", mprotect(page, PAGE, PROT_READ) == 0);
		break;
	case 2:
		must("munmap", munmap(page, PAGE) == 0);
		break;
	default:
		file = make_file("empty", "");
		must("mmap", mmap(page, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) == page);
	}
}

/*
 * Writing the frame of SIGUSR1 fails; the frame of the SIGSEGV that follows still has the FPU
 * state.
 */
CHECK(frames, half_written)
{
	for (int way = 0; way < 4; way++) {
		int good = 0, failed = 0;

		for (unsigned long below = 0; below < PAGE; below += STEP) {
			pid_t pid = spawn();
			int status;

			if (!pid) {
				char *memory = map_pages(STACK_PAGES);

				take_away(memory + 2 * PAGE, way);
				handle(SIGUSR1, look, SA_ONSTACK);
				handle(SIGSEGV, look, 0);
				set_stack(memory, below);
				_exit(is_good() ? 0 : 1);
			}
			waitpid(pid, &status, 0);
			good += WIFEXITED(status) && WEXITSTATUS(status) == 0;
			failed += !WIFEXITED(status);
		}
		say("good=%d killed=%d", good, failed);
	}
}

CHECK(frames, not_written)
{
	for (int way = 0; way < 4; way++) {
		pid_t pid = spawn();

		if (!pid) {
			char *memory = map_pages(STACK_PAGES);

			take_away(memory + 2 * PAGE, way);
			handle(SIGUSR1, look, SA_ONSTACK);
			set_stack(memory, PAGE - STEP);
			raise_with(BEFORE, SIGUSR1);
			_exit(0);
		}
		say_child("child", pid);
	}
}

static volatile int edit;

/*
 * Changes the description of the FPU state in a frame; not MXCSR, because an emulated processor may
 * accept any value.
 */
static void spoil(int signo, siginfo_t *info, void *frame)
{
	ucontext_t *context = frame;
	char *state = state_of(context);
	unsigned long *header = (unsigned long *)(state + HEADER);
	unsigned int *words = (unsigned int *)(state + SOFTWARE_BYTES), *end = (unsigned int *)(state + words[4]);

	(void)signo;
	(void)info;
	*place_of_xmm6(context) = AFTER;
	switch (edit) {
	case 1:
		header[0] |= 1UL << 62;
		break;
	case 2:
		header[0] |= 1UL << 20;
		break;
	case 3:
		header[1] = 1UL << 63;
		break;
	case 4:
		header[2] = 1;
		break;
	case 5:
		header[0] = 0;
		break;
	case 6:
		header[0] &= ~2UL;
		break;
	case 7:
		words[0] = 0;
		break;
	case 8:
		*end = 0;
		break;
	case 9:
		words[1] = 0;
		break;
	case 10:
		words[2] = 1;
		break;
	case 11:
		words[4] = 1 << 20;
		break;
	case 12:
		context->uc_mcontext.fpregs = NULL;
		break;
	case 13:
		context->uc_mcontext.fpregs = (void *)PAGE;
		break;
	case 14:
		context->uc_mcontext.fpregs = (void *)(1UL << 63);
		break;
	case 15:
		memmove(state - PAGE, state, words[1]);
		context->uc_mcontext.fpregs = (void *)(state - PAGE);
		break;
	}
}

/*
 * xmm6 after each: as the handler put it there (1), zero (2), as before (3), or something else (4).
 */
CHECK(frames, spoilt)
{
	for (int number = 0; number <= SPOILINGS; number++) {
		pid_t pid = spawn();

		if (!pid) {
			unsigned long after;

			edit = number;
			handle(SIGUSR1, spoil, SA_ONSTACK);
			set_stack(map_pages(STACK_PAGES), 0);
			after = raise_with(BEFORE, SIGUSR1);
			_exit(after == AFTER ? 1 : after == 0 ? 2 : after == BEFORE ? 3 : 4);
		}
		say("%d", number);
		say_child("is", pid);
	}
}

static volatile unsigned int code_selector;

static void put_selector(int signo, siginfo_t *info, void *context)
{
	greg_t *selectors = &((ucontext_t *)context)->uc_mcontext.gregs[REG_CSGSFS];

	(void)signo;
	(void)info;
	*selectors = (*selectors & ~0xffffLL) | code_selector;
}

/*
 * The return to the program faults with a selector of the kernel, of data, beyond the table, or of
 * no table, but not with the program's own.
 */
CHECK(frames, selectors)
{
	static const unsigned int codes[] = { 0x33, 0x10, 0x2b, 0xfff3, 0x7, 0 };
	struct sigaction action = { .sa_sigaction = put_selector, .sa_flags = SA_SIGINFO };

	catch_faults();
	sigaction(SIGUSR1, &action, NULL);
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		fault_context.uc_mcontext.gregs[REG_ERR] = -1;
		code_selector = codes[i];
		SAY_FAULT_OF("return", NULL, raise(SIGUSR1));
		say("%#x: error=%#llx", codes[i], fault_context.uc_mcontext.gregs[REG_ERR]);
	}
}

static void spoil_before_another(int signo, siginfo_t *info, void *context)
{
	spoil(signo, info, context);
	raise(SIGUSR2);
}

/* The second signal comes between the return to the program and its next instruction. */
CHECK(frames, spoilt_before_another)
{
	struct sigaction action = { .sa_sigaction = spoil_before_another, .sa_flags = SA_SIGINFO };
	unsigned long after;

	edit = 6;
	sigaddset(&action.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &action, NULL);
	handle(SIGUSR2, look, 0);
	after = raise_with(BEFORE, SIGUSR1);
	say("found=%#lx after=%#lx", found, after);
}

/*
 * The bytes of a state between the registers and the software's bytes, in children that inherited
 * the state by fork.
 */
CHECK(frames, reserved_bytes)
{
	int others = 0;

	for (int child = 0; child < CHILDREN; child++) {
		struct user_fpregs_struct state;
		unsigned char *bytes = (unsigned char *)&state;
		int status;
		pid_t pid;

		set_xmm6(BEFORE);
		pid = spawn();
		if (!pid) {
			ptrace(PTRACE_TRACEME, 0, NULL, NULL);
			raise(SIGSTOP);
			_exit(0);
		}
		must("stop", waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
		must("state", !ptrace(PTRACE_GETFPREGS, pid, NULL, &state));
		for (int i = RESERVED_BYTES; i < SOFTWARE_BYTES; i++)
			others += bytes[i] != 0;
		ptrace(PTRACE_CONT, pid, NULL, NULL);
		must("end", waitpid(pid, &status, 0) == pid && WIFEXITED(status));
	}
	say("not_zero=%d", others);
}

/* The calls in call_with(), whose frames are looked at. */
extern const char calls_begin[], calls_end[];
static volatile unsigned long strange;

/* Makes system calls with a value in xmm6, until it changes. Returns how many are left. */
static __attribute__((noinline)) long call_with(unsigned long value, long calls)
{
	__asm__ volatile("movq %1, %%xmm6\n"
			 "calls_begin: movl %2, %%eax\n"
			 "syscall\n"
			 "movq %%xmm6, %%rax\n"
			 "cmpq %1, %%rax\n"
			 "jne calls_end\n"
			 "decq %0\n"
			 "jnz calls_begin\n"
			 "calls_end:"
			 : "+r"(calls)
			 : "r"(value), "i"(SYS_sched_yield)
			 : "rax", "rcx", "r11", "memory", "cc", "xmm6");
	return calls;
}

static void compare(int signo, siginfo_t *info, void *frame)
{
	ucontext_t *context = frame;
	const char *place = (const char *)context->uc_mcontext.gregs[REG_PLACE];

	(void)signo;
	(void)info;
	handled++;
	if (place >= calls_begin && place < calls_end)
		strange += *place_of_xmm6(context) != control;
	set_xmm6(~0UL);
}

/* Processes with different states get signals at any time, and take turns at each call. */
CHECK(frames, beside_others)
{
	const struct itimerval often = { { 0, 1000 }, { 0, 1000 } };
	pid_t pids[3];

	for (unsigned long child = 0; child < ARRAY_SIZE(pids); child++) {
		pids[child] = spawn();
		if (pids[child])
			continue;
		control = BEFORE + child;
		handle(SIGALRM, compare, 0);
		setitimer(ITIMER_REAL, &often, NULL);
		while (handled < 50)
			if (call_with(control, 1000))
				_exit(1);
		_exit(strange ? 2 : 0);
	}
	for (unsigned long child = 0; child < ARRAY_SIZE(pids); child++)
		say_child("child", pids[child]);
}

CHECK(frames, nested)
{
	char *memory = map_pages(STACK_PAGES);

	handle(SIGUSR1, look, SA_ONSTACK);
	handle(SIGUSR2, look, SA_ONSTACK);
	set_stack(memory, 0);
	for (int round = 0; round < 10; round++) {
		sigset_t both, old;

		sigemptyset(&both);
		sigaddset(&both, SIGUSR1);
		sigaddset(&both, SIGUSR2);
		sigprocmask(SIG_BLOCK, &both, &old);
		raise(SIGUSR1);
		raise(SIGUSR2);
		sigprocmask(SIG_SETMASK, &old, NULL);
	}
	say("handled=%d", handled);
}
