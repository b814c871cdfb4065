// SPDX-License-Identifier: GPL-2.0-only
/*
 * The program `hostile`: root in Linux attacks the µ-kernel. Each child is process 1 of its own
 * namespace, so that it reaches no other process. The children call the µ-kernel, execute
 * privileged instructions, and try every access to memory, ports and devices that Linux offers
 * root. A child that hangs or ends is replaced.
 *
 *   hostile CALLS [SEED]
 *
 * It ends after a number of calls to the µ-kernel and prints how often each attack was tried. Its
 * status is 0 unless an attack had an effect.
 */
#include <asm/ldt.h>
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/kexec.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>
#include "keel_abi.h"

#define PAGE 4096
#define STACK (16 * PAGE)
/* Nanoseconds without progress after which a child counts as hanging. */
#define PATIENCE 50000000
/* Calls of the µ-kernel between two attacks of another kind. */
#define CALLS_EACH 16
/* Messages of a child. */
#define MESSAGES 64
/* Registers of a µ-kernel call: rax rdi rsi rdx r8 r9 r10 r12 r13 r14. */
#define REGISTERS 10
#define VECTORS 256
#define CODE_32 0x23
/* Segments and flags in a signal frame that ask for privileges. */
#define FLAGS_IOPL 0x3000

static struct {
	uint64_t calls, effects, answer, attacks[16];
} *shared;

static uint64_t state;

static uint64_t word(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state * 0x2545f4914f6cdd1d;
}

static uint64_t below(uint64_t limit)
{
	return (word() >> 16) % limit;
}

static uint8_t *code, *data;

/*
 * A random word that is often meaningful: a small number, a bit, an address (own, the kernel's, in
 * its area, Linux's), an id, an fpage.
 */
static uint64_t meaningful(void)
{
	switch (below(12)) {
	case 0:
		return 0;
	case 1:
		return -1ul;
	case 2:
		return below(4096);
	case 3:
		return 1ul << below(64);
	case 4:
		return (uint64_t)data + below(PAGE);
	case 5:
		return KEEL_AREA_UPPER + below(1 << 30);
	case 6:
		return KEEL_DIRECT_MAP + below(1ul << 32);
	case 7:
		return 0xffff800000000000 + below(1ul << 47);
	case 8: /* a thread: version, task, lthread */
		return below(4) << 44 | below(64) << 24 | below(8) << 8 | 1 << 4;
	case 9: /* an fpage: place, size, rights */
		return (word() & 0xfffffffff000) | (12 + below(37)) << 4 | below(8);
	case 10:
		return 0xffffffffc1000000 + below(1 << 24);
	default:
		return word();
	}
}

static sigjmp_buf before;

static void back(int signal)
{
	siglongjmp(before, signal);
}

static void syscall_instruction(uint64_t *registers)
{
	__asm__ volatile("mov (%%rbx), %%rax\n\tmov 8(%%rbx), %%rdi\n\tmov 16(%%rbx), %%rsi\n\tmov 24(%%rbx), %%rdx\n\t"
			 "mov 32(%%rbx), %%r8\n\tmov 40(%%rbx), %%r9\n\tmov 48(%%rbx), %%r10\n\tmov 56(%%rbx), %%r12\n\t"
			 "mov 64(%%rbx), %%r13\n\tmov 72(%%rbx), %%r14\n\tsyscall\n\t"
			 "mov %%rax, (%%rbx)\n\tmov %%rdi, 8(%%rbx)\n\tmov %%rsi, 16(%%rbx)\n\tmov %%rdx, 24(%%rbx)\n\t"
			 "mov %%r8, 32(%%rbx)\n\tmov %%r9, 40(%%rbx)\n\tmov %%r10, 48(%%rbx)\n\tmov %%r12, 56(%%rbx)\n\t"
			 "mov %%r13, 64(%%rbx)\n\tmov %%r14, 72(%%rbx)"
			 :
			 : "b"(registers)
			 : "rax", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "memory");
}

/*
 * One of the seven calls with the µ-kernel's mark: Linux must not handle it, and no other thread
 * may receive it.
 */
static void call(void)
{
	uint64_t registers[REGISTERS], after[REGISTERS];

	for (int i = 0; i < REGISTERS; i++)
		registers[i] = meaningful();
	registers[0] = word() << 32 | KEEL_CALL_HANDLER | (below(512) << 4 & 0x1ff0) | below(8);
	memcpy(after, registers, sizeof after);
	syscall_instruction(after);
	registers[0] = -ENOSYS;
	shared->calls++;
	if (memcmp(after, registers, sizeof after)) {
		shared->effects++;
		shared->answer = after[0];
	}
}

/* A call without the mark, which is some system call of Linux. */
static void linux_call(void)
{
	uint64_t registers[REGISTERS];

	for (int i = 0; i < REGISTERS; i++)
		registers[i] = meaningful();
	registers[0] = (below(512) << 4 & 0x1ff0) | below(8);
	syscall_instruction(registers);
}

/*
 * In a child: messages to the server with random labels and words, or a random entry for its system
 * calls.
 */
static void messages(void)
{
	uint64_t registers[REGISTERS];
	pid_t pid = fork();

	if (!pid) {
		for (int number = 1; number < SIGRTMIN; number++)
			signal(number, SIG_DFL);
		alarm(1);
		syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_DISPATCH, below(2) ? KEEL_DISPATCH_ON : meaningful());
		for (int i = 0; i < MESSAGES; i++) {
			for (int j = 0; j < REGISTERS; j++)
				registers[j] = meaningful();
			registers[0] = word() << 32 | KEEL_CALL_HANDLER | (below(8) ? below(512) : word() >> 33);
			syscall_instruction(registers);
		}
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static void run(const void *bytes, size_t count)
{
	memcpy(code, bytes, count);
	code[count] = 0xc3;
	__asm__ volatile("call *%0"
			 :
			 : "r"(code), "a"(meaningful()), "c"(meaningful()), "d"(meaningful())
			 : "memory", "cc", "rdi", "rsi", "r8", "r9", "r10", "r11");
}

static void gate(void)
{
	static const uint8_t gates[][2] = { { 0x0f, 0x34 }, { 0x0f, 0x05 }, { 0xcd, 0x80 } };

	if (below(4))
		run((uint8_t[]){ 0xcd, below(VECTORS) }, 2);
	else
		run(gates[below(3)], 2);
}

static void privileged(void)
{
	static const struct {
		uint8_t length, bytes[4];
	} all[] = {
		{ 1, { 0xf4 } }, { 1, { 0xfa } }, { 1, { 0xfb } }, { 1, { 0xec } }, { 1, { 0xee } }, { 1, { 0x6c } }, /* hlt cli sti in out ins */
		{ 2, { 0x0f, 0x30 } }, { 2, { 0x0f, 0x32 } }, { 2, { 0x0f, 0x33 } }, /* wrmsr rdmsr rdpmc */
		{ 2, { 0x0f, 0x06 } }, { 2, { 0x0f, 0x08 } }, { 2, { 0x0f, 0x09 } }, /* clts invd wbinvd */
		{ 3, { 0x0f, 0x22, 0xc0 } }, { 3, { 0x0f, 0x22, 0xd8 } }, { 3, { 0x0f, 0x22, 0xe0 } }, /* mov cr0 cr3 cr4 */
		{ 3, { 0x0f, 0x20, 0xd8 } }, { 3, { 0x0f, 0x23, 0xf8 } }, { 3, { 0x0f, 0x21, 0xf8 } }, /* mov from cr3, dr7 */
		{ 3, { 0x0f, 0x00, 0xd8 } }, { 3, { 0x0f, 0x00, 0xd0 } }, /* ltr lldt */
		{ 3, { 0x0f, 0x01, 0x10 } }, { 3, { 0x0f, 0x01, 0x18 } }, { 3, { 0x0f, 0x01, 0x38 } }, /* lgdt lidt invlpg [rax] */
		{ 3, { 0x0f, 0x01, 0xf0 } }, { 3, { 0x0f, 0x01, 0xf8 } }, { 3, { 0x0f, 0x01, 0xd1 } }, /* lmsw swapgs xsetbv */
		{ 2, { 0x0f, 0x07 } }, { 2, { 0x0f, 0x35 } }, { 2, { 0x48, 0xcf } }, { 2, { 0x48, 0xcb } }, /* sysret sysexit iretq retfq */
		{ 3, { 0x0f, 0x01, 0xc1 } }, { 3, { 0x0f, 0x01, 0xc8 } }, { 3, { 0x0f, 0x01, 0xca } }, /* vmcall monitor clac */
		{ 2, { 0x8e, 0xd0 } }, { 2, { 0x8e, 0xd8 } }, { 2, { 0x8e, 0xe8 } }, /* mov ss, ds, gs */
	};
	size_t chosen = below(sizeof all / sizeof all[0]);

	run(all[chosen].bytes, all[chosen].length);
}

/* A far jump to any selector and address; sometimes to 32-bit code that makes a call. */
static void far_jump(void)
{
	struct {
		uint32_t offset;
		uint16_t selector;
	} __attribute__((packed)) *target = (void *)data;

	memcpy(code + 64, (uint8_t[]){ 0x0f, below(2) ? 0x05 : 0x34, 0xcd, 0x80, 0xcb }, 5);
	target->offset = below(2) ? (uint32_t)(uintptr_t)code + 64 : (uint32_t)word();
	target->selector = below(2) ? CODE_32 : (uint16_t)word();
	memcpy(code, (uint8_t[]){ 0xff, 0x28 }, 2);
	__asm__ volatile("call *%0" : : "r"(code), "a"(target) : "memory", "cc", "rcx", "rdx", "rdi", "rsi", "r8", "r9", "r10", "r11");
}

static void ports(void)
{
	uint16_t port = below(3) ? (uint16_t)word() : (uint16_t[]){ 0x20, 0x21, 0x64, 0x70, 0xcf8, 0xcfc, 0xcf9, 0xf4, 0x3e8 }[below(9)];

	iopl(below(5));
	ioperm(port, below(65536), 1);
	if (below(2))
		outl(meaningful(), port);
	else
		inl(port);
}

static void descriptors(void)
{
	struct user_desc description;

	for (size_t i = 0; i < sizeof description / 4; i++)
		((uint32_t *)&description)[i] = meaningful();
	syscall(below(2) ? SYS_set_thread_area : SYS_modify_ldt, &description, &description, sizeof description);
	syscall(SYS_modify_ldt, below(2) ? 1 : 0x11, &description, sizeof description);
	syscall(SYS_arch_prctl, ARCH_SET_GS, meaningful());
	syscall(SYS_arch_prctl, (int)(0x1000 + below(32)), meaningful());
}

/* Returns from a signal by a frame that asks for privileges. */
static void hostile_frame(int signal, siginfo_t *info, void *frame)
{
	greg_t *registers = ((ucontext_t *)frame)->uc_mcontext.gregs;

	(void)signal, (void)info;
	for (int changes = below(4); changes >= 0; changes--)
		registers[below(NGREG)] = meaningful();
	if (below(2))
		registers[REG_EFL] |= FLAGS_IOPL | word();
	if (below(2))
		registers[REG_CSGSFS] = word();
	if (!below(4) && ((ucontext_t *)frame)->uc_mcontext.fpregs)
		for (int i = 0; i < 16; i++)
			((uint64_t *)((ucontext_t *)frame)->uc_mcontext.fpregs)[below(64)] = word();
}

static void frame(void)
{
	struct sigaction action = { .sa_sigaction = hostile_frame, .sa_flags = SA_SIGINFO | SA_ONSTACK };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

/* Sets registers of a traced child that ask for privileges. */
static void traced(void)
{
	pid_t pid = fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		for (;;)
			syscall_instruction((uint64_t[REGISTERS]){ KEEL_CALL_HANDLER });
	}
	waitpid(pid, &status, 0);
	for (int changes = 0; changes < 8; changes++)
		ptrace(PTRACE_POKEUSER, pid, below(sizeof(struct user) / 8) * 8, meaningful());
	ptrace(below(2) ? PTRACE_SINGLESTEP : PTRACE_SYSCALL, pid, 0, 0);
	waitpid(pid, &status, 0);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
}

static void file(const char *path, uint64_t offset)
{
	int fd = open(path, O_RDWR);
	void *mapped;

	if (fd < 0 && (fd = open(path, O_RDONLY)) < 0)
		return;
	pread(fd, data, 8 << below(8), offset);
	pwrite(fd, data, 1 << below(8), offset);
	mapped = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset / PAGE * PAGE);
	if (mapped != MAP_FAILED) {
		*(volatile uint64_t *)mapped = meaningful();
		munmap(mapped, PAGE);
	}
	close(fd);
}

/*
 * The files by which root reaches memory, ports and registers, if they exist. Memory that Linux
 * runs from is left out: root may break Linux.
 */
static void files(void)
{
	static const char *const paths[] = { "/dev/mem", "/dev/port", "/dev/kmem", "/dev/cpu/0/msr", "/proc/kcore",
					     "/proc/bus/pci/00/00.0", "/sys/bus/pci/devices/0000:00:00.0/config", "/dev/kvm" };

	file("/proc/self/mem", meaningful());
	file("/dev/mem", below(2) ? 0xfe000000 + below(1 << 24) : (1ul << 40) + meaningful());
	file(paths[1 + below(sizeof paths / sizeof paths[0] - 1)], meaningful());
}

static void memory(void)
{
	uint64_t at = meaningful() & -PAGE;
	struct iovec here = { data, 64 }, there = { (void *)at, 64 };

	mmap((void *)at, PAGE << below(10), below(8), MAP_PRIVATE | MAP_ANONYMOUS | (below(2) ? MAP_FIXED_NOREPLACE : 0), -1, 0);
	mprotect((void *)at, PAGE, below(8));
	madvise((void *)at, PAGE, below(24));
	process_vm_writev(getpid(), &here, 1, &there, 1, 0);
	*(volatile uint64_t *)at = word();
}

/* Other kernels, modules, programs for the kernel. */
static void kernels(void)
{
	struct kexec_segment segment = { data, PAGE, (void *)(meaningful() & -PAGE), PAGE };
	union bpf_attr attributes;

	syscall(SYS_kexec_load, meaningful(), 1, &segment, below(2) ? KEXEC_ARCH_DEFAULT : meaningful());
	syscall(SYS_kexec_file_load, 0, 0, 0, "", 0);
	memcpy(data, "\177ELF\2\1\1", 8);
	syscall(SYS_init_module, data, below(PAGE), "");
	syscall(SYS_delete_module, "keel", below(4096));
	for (size_t i = 0; i < sizeof attributes / 8; i++)
		((uint64_t *)&attributes)[i] = meaningful();
	syscall(SYS_bpf, below(40), &attributes, sizeof attributes);
	for (size_t i = 0; i < 16; i++)
		((uint64_t *)data)[i] = meaningful();
	syscall(SYS_perf_event_open, data, 0, -1, -1, 0);
}

static const struct {
	const char *name;
	void (*attack)(void);
} kinds[] = { { "system calls", linux_call }, { "gates", gate },	     { "privileged instructions", privileged },
	      { "far jumps", far_jump },      { "ports", ports },	     { "descriptors", descriptors },
	      { "signal frames", frame },     { "traced registers", traced }, { "files", files },
	      { "addresses", memory },	      { "kernels", kernels },
	      { "messages", messages } };
#define KINDS (sizeof kinds / sizeof kinds[0])

static void attack(uint64_t seed)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS };
	struct sigaction action = { .sa_handler = back, .sa_flags = SA_ONSTACK | SA_NODEFER };
	/* Code and data are where 32-bit code reaches them. */
	int where = MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT;
	stack_t stack = { .ss_sp = mmap(NULL, STACK, PROT_READ | PROT_WRITE, where, -1, 0), .ss_size = STACK };

	state = seed * 0x9e3779b97f4a7c15 | 1;
	code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, where, -1, 0);
	data = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, where, -1, 0);
	sigaltstack(&stack, NULL);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigaction(faults[i], &action, NULL);
	for (;;) {
		size_t chosen = below(KINDS);

		for (int i = 0; i < CALLS_EACH; i++)
			call();
		shared->attacks[chosen]++;
		if (!sigsetjmp(before, 0))
			kinds[chosen].attack();
	}
}

int main(int count, char **words)
{
	uint64_t calls = count > 1 ? strtoul(words[1], NULL, 0) : 1000, seed = count > 2 ? strtoul(words[2], NULL, 0) : 1, last;
	struct timespec patience = { .tv_nsec = PATIENCE }, now = { 0 };
	int null = open("/dev/null", O_RDWR);
	unsigned int children = 0;
	sigset_t child;

	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_BLOCK, &child, NULL);
	while (shared->calls < calls) {
		pid_t pid = syscall(SYS_clone, CLONE_NEWPID | CLONE_NEWNS | SIGCHLD, 0, 0, 0, 0);

		if (pid < 0) {
			perror("hostile: clone");
			return 1;
		}
		if (!pid) {
			sigprocmask(SIG_UNBLOCK, &child, NULL);
			for (int fd = 0; null >= 0 && fd < 3; fd++)
				dup2(null, fd);
			attack(seed + children);
		}
		children++;
		do
			last = shared->calls;
		while (sigtimedwait(&child, NULL, &patience) < 0 && shared->calls != last && last < calls);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		/* The exit status of this child must not be taken for the next one's. */
		sigtimedwait(&child, NULL, &now);
	}
	printf("hostile: %lu calls, %lu with an effect (%lx), %u children", shared->calls, shared->effects, shared->answer,
	       children);
	for (size_t i = 0; i < KINDS; i++)
		printf(", %lu %s", shared->attacks[i], kinds[i].name);
	putchar('\n');
	return shared->effects ? 1 : 0;
}
