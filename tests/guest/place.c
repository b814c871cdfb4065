// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where a program runs, and what it reaches there.
 *
 *   place level PROGRAM	prints the privilege level of the program, of a thread, a signal handler,
 *				a child, and of what the child executes (PROGRAM), and that faults, the
 *				FPU and traps work in it
 *   place inside PROGRAM ADDRESS	the same with 1 where the program reads the kernel's memory
 *				at the address, and 0 where that is refused, in place of the level
 *   place signals COUNT	computes while so many signals of a timer are handled, and prints how many
 *				results were wrong; each handler computes, too
 *   place probe ADDRESS...	reads, writes, executes, prefetches each address and hands it to the
 *				kernel; each fault, and each call that does not refuse, is counted
 *   place forbidden		tries privileged instructions in the program
 *   place narrow		goes to a 32-bit code segment by a far jump, a signal's frame, and in
 *				supervisor mode a far return, and prints which signal that raises; in a
 *				child, what ends it
 *   place ports FILE		reads the file and tries ports, again and again; each access that raises
 *				no signal is counted
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* Bits 0 and 1 of a code selector. */
#define LEVEL_MASK 3
#define BYTES 8
/* Linux's selectors of user data and of 32-bit user code. */
#define DATA 0x2b
#define CODE_32 0x23
#define SELECTOR_MASK 0xffff
#define ROUNDS 100

static sigjmp_buf back;
static volatile int level_in_handler = -1, last_signal;

/* The address that `place inside` reads; 0: `place level`. */
static uint64_t kernel_memory;
static sigjmp_buf refused;

static void was_refused(int number)
{
	(void)number;
	siglongjmp(refused, 1);
}

/* Whether the program reads that memory. It may be in a handler of SIGSEGV. */
static int is_inside(void)
{
	struct sigaction on_fault = { .sa_handler = was_refused }, before;
	volatile int inside = 0;
	sigset_t fault, mask;

	sigemptyset(&fault);
	sigaddset(&fault, SIGSEGV);
	sigaction(SIGSEGV, &on_fault, &before);
	sigprocmask(SIG_UNBLOCK, &fault, &mask);
	if (!sigsetjmp(refused, 1)) {
		(void)*(volatile uint64_t *)kernel_memory;
		inside = 1;
	}
	sigprocmask(SIG_SETMASK, &mask, NULL);
	sigaction(SIGSEGV, &before, NULL);
	return inside;
}

static int level(void)
{
	unsigned long cs;

	if (kernel_memory)
		return is_inside();
	__asm__ volatile("mov %%cs, %0" : "=r"(cs));
	return cs & LEVEL_MASK;
}

static void caught(int number)
{
	level_in_handler = level();
	last_signal = number;
	siglongjmp(back, 1);
}

static void counted(int number)
{
	level_in_handler = level();
	last_signal = number;
}

static void *in_thread(void *result)
{
	*(int *)result = level();
	return NULL;
}

/* Runs something that must raise this signal; whether it did. */
static int raises(int number, void (*what)(uint64_t), uint64_t argument)
{
	last_signal = 0;
	if (!sigsetjmp(back, 1)) {
		what(argument);
		return 0;
	}
	return last_signal == number;
}

static void read_at(uint64_t address)
{
	(void)*(volatile uint64_t *)address;
}

static void write_at(uint64_t address)
{
	*(volatile uint64_t *)address = address;
}

static void jump_to(uint64_t address)
{
	((void (*)(void))address)();
}

static void breakpoint(uint64_t unused)
{
	(void)unused;
	__asm__ volatile("int3");
}

static void undefined(uint64_t unused)
{
	(void)unused;
	__asm__ volatile("ud2");
}

static void step(uint64_t unused)
{
	(void)unused;
	__asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq\n\tnop" ::: "memory", "cc");
}

static void interrupts_off(uint64_t unused)
{
	(void)unused;
	__asm__ volatile("cli");
}

static void read_cr0(uint64_t unused)
{
	(void)unused;
	__asm__ volatile("mov %%cr0, %%rax" ::: "rax");
}

static void read_register(uint64_t number)
{
	__asm__ volatile("rdmsr" :: "c"(number) : "rax", "rdx");
}

static int levels(const char *other)
{
	double sum = 0;
	pthread_t thread;
	int in, status, number;
	char address[17];
	pid_t child;

	printf("program %d\n", level());
	pthread_create(&thread, NULL, in_thread, &in);
	pthread_join(thread, NULL);
	printf("thread %d\n", in);
	signal(SIGUSR1, counted);
	raise(SIGUSR1);
	printf("handler %d\n", level_in_handler);
	for (number = 1; number <= 1000; number++) {
		sum += 1.0 / number;
		getppid();
	}
	printf("fpu %.6f\n", sum);
	for (number = 1; number < NSIG; number++)
		signal(number, caught);
	/* The child's end comes where there is nowhere to jump back to. */
	signal(SIGCHLD, SIG_DFL);
	printf("null read %d write %d jump %d\n", raises(SIGSEGV, read_at, 0), raises(SIGSEGV, write_at, 0),
	       raises(SIGSEGV, jump_to, 0));
	printf("breakpoint %d undefined %d step %d\n", raises(SIGTRAP, breakpoint, 0), raises(SIGILL, undefined, 0),
	       raises(SIGTRAP, step, 0));
	fflush(stdout);
	child = fork();
	if (!child) {
		printf("child %d\n", level());
		fflush(stdout);
		snprintf(address, sizeof(address), "%lx", kernel_memory);
		execl(other, other, "only", address, NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	printf("ended %d\n", status);
	return 0;
}

static int probe(char **addresses)
{
	char bytes[BYTES] = { 0 };
	int pipes[2], tries = 0, held = 0;

	signal(SIGSEGV, caught);
	signal(SIGBUS, caught);
	if (pipe(pipes) || write(pipes[1], bytes, sizeof(bytes)) != sizeof(bytes))
		return 1;
	for (; *addresses; addresses++) {
		uint64_t address = strtoull(*addresses, NULL, 16);
		int results[] = {
			raises(SIGSEGV, read_at, address),
			raises(SIGSEGV, write_at, address),
			raises(SIGSEGV, jump_to, address),
			write(pipes[1], (void *)address, BYTES) < 0 && errno == EFAULT,
			read(pipes[0], (void *)address, BYTES) < 0 && errno == EFAULT,
		};

		__asm__ volatile("prefetcht0 (%0)\n\tprefetchw (%0)" :: "r"(address));
		for (unsigned int i = 0; i < sizeof(results) / sizeof(results[0]); i++) {
			tries++;
			held += results[i];
			if (!results[i])
				printf("%s: try %u was not refused\n", *addresses, i);
		}
	}
	printf("%d of %d tries refused\n", held, tries);
	return held != tries;
}

static volatile int signals_left, wrong;

/* The sum of a series, which is always the same; 1 if it is not. */
static int computes_wrong(void)
{
	volatile double sum = 0;

	for (int number = 1; number <= 1000; number++)
		sum += 1.0 / number;
	return sum < 7.4854708 || sum > 7.4854709;
}

static void compute_in_handler(int number)
{
	(void)number;
	wrong += computes_wrong();
	signals_left--;
}

static int signals(int count)
{
	struct itimerval each = { { 0, 1000 }, { 0, 1000 } }, none = { { 0, 0 }, { 0, 0 } };
	int errors = 0;

	signals_left = count;
	signal(SIGALRM, compute_in_handler);
	setitimer(ITIMER_REAL, &each, NULL);
	while (signals_left > 0) {
		errors += computes_wrong();
		getppid();
	}
	setitimer(ITIMER_REAL, &none, NULL);
	printf("wrong %d %d\n", errors, wrong);
	return 0;
}

static int forbidden(void)
{
	const uint64_t lstar = 0xc0000082;

	signal(SIGSEGV, caught);
	printf("cli %d cr0 %d msr %d\n", raises(SIGSEGV, interrupts_off, 0), raises(SIGSEGV, read_cr0, 0),
	       raises(SIGSEGV, read_register, lstar));
	return 0;
}

/* In 32-bit code it raises SIGTRAP. */
__asm__(".text\nnarrow_code:\n\tint3\n");
extern const char narrow_code[];

static void far_jump(uint64_t unused)
{
	const struct __attribute__((packed)) {
		uint32_t ip;
		uint16_t cs;
	} target = { (uint32_t)(uintptr_t)narrow_code, CODE_32 };

	(void)unused;
	__asm__ volatile("ljmpl *%0" :: "m"(target));
}

/*
 * From supervisor mode, where it pops the stack too. In user mode QEMU 7.2 reads the stack as a
 * kernel would, which SMAP refuses.
 */
static void far_return(uint64_t unused)
{
	(void)unused;
	__asm__ volatile("mov %%rsp, %%rax\n\tpushq %0\n\tpush %%rax\n\tpushq %1\n\tpush %2\n\tlretq"
			 :: "i"(DATA), "i"(CODE_32), "r"(narrow_code) : "rax", "memory");
}

static void change_frame(int number, siginfo_t *information, void *frame)
{
	greg_t *registers = ((ucontext_t *)frame)->uc_mcontext.gregs;

	(void)number;
	(void)information;
	registers[REG_CSGSFS] = (registers[REG_CSGSFS] & ~SELECTOR_MASK) | CODE_32;
	registers[REG_RIP] = (greg_t)(uintptr_t)narrow_code;
}

static void by_frame(uint64_t unused)
{
	struct sigaction action = { .sa_sigaction = change_frame, .sa_flags = SA_SIGINFO };

	(void)unused;
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static int signal_of(void (*what)(uint64_t))
{
	raises(0, what, 0);
	return last_signal;
}

static int narrow(void)
{
	static char stack[1 << 16];
	const stack_t other = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action = { .sa_handler = caught, .sa_flags = SA_ONSTACK };
	int status;

	sigaltstack(&other, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGTRAP, &action, NULL);
	printf("jump %d", signal_of(far_jump));
	printf(" frame %d", signal_of(by_frame));
	printf(" return %d level %d", level() ? 0 : signal_of(far_return), level_in_handler);
	fflush(stdout);
	if (!fork()) {
		signal(SIGSEGV, SIG_DFL);
		signal(SIGTRAP, SIG_DFL);
		by_frame(0);
	}
	wait(&status);
	printf(" ended by %d\n", WTERMSIG(status));
	return 0;
}

static void read_port(uint64_t port)
{
	__asm__ volatile("inb %w0, %%al" :: "d"(port) : "rax");
}

static int ports(const char *name)
{
	/* Of Linux's hardware: keyboard, clock, serial line, PCI. */
	static const uint64_t numbers[] = { 0x60, 0x70, 0x3f8, 0xcf8 };
	int file = open(name, O_RDONLY), open_ports = 0, i;
	char text[BYTES];

	if (file < 0)
		return 1;
	signal(SIGSEGV, caught);
	for (int round = 0; round < ROUNDS; round++)
		for (i = 0; i < (int)(sizeof(numbers) / sizeof(numbers[0])); i++) {
			if (pread(file, text, sizeof(text), 0) <= 0)
				return 1;
			open_ports += !raises(SIGSEGV, read_port, numbers[i]);
		}
	printf("%d ports open\n", open_ports);
	return 0;
}

int main(int count, char **words)
{
	if (count > 2 && !strcmp(words[1], "level"))
		return levels(words[2]);
	if (count > 3 && !strcmp(words[1], "inside")) {
		kernel_memory = strtoull(words[3], NULL, 16);
		return levels(words[2]);
	}
	if (count > 2 && !strcmp(words[1], "only"))
		kernel_memory = strtoull(words[2], NULL, 16);
	if (count > 2 && !strcmp(words[1], "signals"))
		return signals(atoi(words[2]));
	if (count > 2 && !strcmp(words[1], "probe"))
		return probe(words + 2);
	if (count > 1 && !strcmp(words[1], "forbidden"))
		return forbidden();
	if (count > 1 && !strcmp(words[1], "narrow"))
		return narrow();
	if (count > 2 && !strcmp(words[1], "ports"))
		return ports(words[2]);
	printf("other %d\n", level());
	return 0;
}
