// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processor faults of user code: which signal, code, address, trap number and error code each
 * gives.
 */
#include "check.h"
#include <sys/ucontext.h>

#define NONCANONICAL ((void *)0x800000000000UL)
#define KERNEL_HALF ((void *)0xffff888000000000UL)

/* Trap number, error code and, for page faults, whether CR2 agrees with si_addr. */
static void say_trap(void)
{
	greg_t *registers = fault_context.uc_mcontext.gregs;

	say("trap=%lld error=%#llx", registers[REG_TRAPNO], registers[REG_ERR]);
	if (registers[REG_TRAPNO] == 14)
		say_bool("cr2", (void *)registers[REG_CR2] == fault_info.si_addr);
}

CHECK(faults, read_null)
{
	catch_faults();
	SAY_FAULT_OF("read", NULL, (void)*(volatile int *)NULL);
	say_trap();
}

CHECK(faults, write_null)
{
	catch_faults();
	SAY_FAULT_OF("write", (void *)16, *(volatile int *)16 = 1);
	say_trap();
}

CHECK(faults, write_read_only)
{
	char *page = map_pages(1);

	catch_faults();
	page[0] = 1;
	mprotect(page, PAGE, PROT_READ);
	SAY_FAULT_OF("write", page + 5, *(volatile char *)(page + 5) = 1);
	say_trap();
}

CHECK(faults, touch_prot_none)
{
	char *page = map_pages(1);

	catch_faults();
	mprotect(page, PAGE, PROT_NONE);
	SAY_FAULT_OF("read", page, (void)*(volatile char *)page);
	say_trap();
}

CHECK(faults, execute_data)
{
	char *page = map_pages(1);

	catch_faults();
	page[0] = (char)0xc3;
	SAY_FAULT_OF("execute", page, ((void (*)(void))page)());
	say_trap();
}

/* The fetch brings the page, and faults again at what is not executable. */
CHECK(faults, execute_untouched)
{
	char *page = map_pages(3), *file;
	unsigned char resident = 2;

	catch_faults();
	SAY_FAULT_OF("anonymous", page, ((void (*)(void))page)());
	say_trap();
	mincore(page, PAGE, &resident);
	say("resident=%d word=%#x", resident, *(int *)page);
	mprotect(page + PAGE, PAGE, PROT_NONE);
	SAY_FAULT_OF("no_rights", page + PAGE, ((void (*)(void))(page + PAGE))());
	say_trap();
	mprotect(page + 2 * PAGE, PAGE, PROT_WRITE);
	SAY_FAULT_OF("writable", page + 2 * PAGE, ((void (*)(void))(page + 2 * PAGE))());
	say_trap();
	file = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, make_file("code", "\xc3"), 0);
	SAY_FAULT_OF("file", file, ((void (*)(void))file)());
	say_trap();
	SAY_FAULT_OF("beyond", file + PAGE, ((void (*)(void))(file + PAGE))());
	say_trap();
	SAY_FAULT_OF("kernel", KERNEL_HALF, ((void (*)(void))KERNEL_HALF)());
	say_trap();
}

CHECK(faults, execute_unmapped)
{
	catch_faults();
	SAY_FAULT_OF("execute", (void *)0x1000, ((void (*)(void))0x1000)());
	say_trap();
	say_bool("rip", fault_context.uc_mcontext.gregs[REG_RIP] == 0x1000);
}

CHECK(faults, noncanonical_address)
{
	catch_faults();
	SAY_FAULT_OF("read", NULL, (void)*(volatile int *)NONCANONICAL);
	say_trap();
}

CHECK(faults, kernel_address)
{
	catch_faults();
	SAY_FAULT_OF("read", KERNEL_HALF, (void)*(volatile int *)KERNEL_HALF);
	say("trap=%lld", fault_context.uc_mcontext.gregs[REG_TRAPNO]);
	SAY_FAULT_OF("write", KERNEL_HALF, *(volatile int *)KERNEL_HALF = 0);
	say("trap=%lld", fault_context.uc_mcontext.gregs[REG_TRAPNO]);
}

/* Addresses that no program has: beyond its half, not canonical in the other one, the kernel's. */
static void *const elsewhere[] = {
	NONCANONICAL, (void *)0xffff700000000000UL, KERNEL_HALF, (void *)0xffffffffff600000UL,
	(void *)-PAGE, (void *)-1UL,
};

static void jump(void *to)
{
	__asm__ volatile("jmp *%0" : : "r"(to));
}

static void call(void *to)
{
	__asm__ volatile("call *%0" : : "r"(to));
}

static void ret(void *to)
{
	__asm__ volatile("push %0\n\tret" : : "r"(to));
}

/* With the flag of the direction, which the kernel's code may not have. */
static void jump_with_flag(void *to)
{
	__asm__ volatile("pushfq\n\torl $0x400, (%%rsp)\n\tpopfq\n\tjmp *%0" : : "r"(to) : "memory", "cc");
}

static void jump_without_stack(void *to)
{
	__asm__ volatile("xor %%esp, %%esp\n\tjmp *%0" : : "r"(to) : "memory");
}

/* Its stack, too, is at the address. */
static void jump_and_stack(void *to)
{
	__asm__ volatile("mov %0, %%rsp\n\tjmp *%0" : : "r"(to) : "memory");
}

/* Steps to the jump, whose trap comes before the fault. */
static void jump_in_steps(void *to)
{
	__asm__ volatile("pushfq\n\torl $0x100, (%%rsp)\n\tpopfq\n\tjmp *%0" : : "r"(to) : "memory", "cc");
}

static void push_at(void *to)
{
	__asm__ volatile("mov %0, %%rsp\n\tpush %0" : : "r"(to) : "memory");
}

static void leave_at(void *to)
{
	__asm__ volatile("mov %0, %%rbp\n\tleave\n\tret" : : "r"(to) : "memory");
}

/* Goes to each of these addresses in one way; the handler has a stack of its own. */
static void go_elsewhere(const char *how, void (*go)(void *))
{
	static char stack[1 << 16];
	const stack_t own = { .ss_sp = stack, .ss_size = sizeof(stack) };
	struct sigaction action;

	catch_faults();
	must("stack", sigaltstack(&own, NULL) == 0);
	for (int number = 1; number < NSIG; number++)
		if (!sigaction(number, NULL, &action) && action.sa_flags & SA_SIGINFO) {
			action.sa_flags |= SA_ONSTACK;
			sigaction(number, &action, NULL);
		}
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++) {
		SAY_FAULT_OF(how, elsewhere[i], go(elsewhere[i]));
		say_trap();
		say_bool("there", (void *)fault_context.uc_mcontext.gregs[REG_RIP] == elsewhere[i]);
	}
}

CHECK(faults, jump_elsewhere)
{
	go_elsewhere("jump", jump);
	go_elsewhere("call", call);
	go_elsewhere("ret", ret);
}

CHECK(faults, jump_elsewhere_in_unusual_states)
{
	go_elsewhere("flag", jump_with_flag);
	go_elsewhere("no_stack", jump_without_stack);
	go_elsewhere("stack", jump_and_stack);
	go_elsewhere("steps", jump_in_steps);
}

CHECK(faults, stack_elsewhere)
{
	go_elsewhere("push", push_at);
	go_elsewhere("leave", leave_at);
}

/* Nobody handles it: the program's end, and nothing else's. */
CHECK(faults, killed_elsewhere)
{
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++) {
		pid_t pid = spawn();

		if (!pid) {
			jump(elsewhere[i]);
			_exit(0);
		}
		say_child("child", pid);
	}
}

/* A handler would have the flag too. */
CHECK(faults, killed_by_alignment_check)
{
	static volatile char bytes[16];
	pid_t pid = spawn();

	if (!pid) {
		__asm__ volatile("pushfq\n\torl $0x40000, (%%rsp)\n\tpopfq\n\tmovl 1(%0), %%eax\n\t"
				 "pushfq\n\tandl $~0x40000, (%%rsp)\n\tpopfq"
				 : : "r"(bytes) : "rax", "memory", "cc");
		_exit(0);
	}
	say_child("child", pid);
}

CHECK(faults, vsyscall_page)
{
	catch_faults();
	SAY_FAULT_OF("read", (void *)0xffffffffff600000UL, (void)*(volatile int *)0xffffffffff600000UL);
}

CHECK(faults, divide_by_zero)
{
	volatile int zero = 0, one = 1;

	catch_faults();
	SAY_FAULT_OF("divide", (void *)fault_context.uc_mcontext.gregs[REG_RIP], one = one / zero);
	say_trap();
	say_bool("address_is_rip", fault_info.si_addr == (void *)fault_context.uc_mcontext.gregs[REG_RIP]);
}

CHECK(faults, divide_overflow)
{
	volatile int lowest = -0x7fffffff - 1, minus_one = -1;

	catch_faults();
	SAY_FAULT_OF("divide", NULL, lowest = lowest / minus_one);
	say_trap();
}

CHECK(faults, sse_divide)
{
	unsigned mxcsr = 0x1f80 & ~0x200;
	volatile double zero = 0.0, one = 1.0;

	catch_faults();
	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
	SAY_FAULT_OF("divide", NULL, one = one / zero);
	say_trap();
}

CHECK(faults, x87_divide)
{
	unsigned short control = 0x37f & ~0x4;
	volatile long double zero = 0.0, one = 1.0;

	catch_faults();
	__asm__ volatile("fldcw %0" : : "m"(control));
	SAY_FAULT_OF("divide", NULL, one = one / zero; __asm__ volatile("fwait"));
	say_trap();
}

CHECK(faults, illegal_instruction)
{
	catch_faults();
	SAY_FAULT_OF("ud2", NULL, __asm__ volatile("ud2"));
	say_trap();
	say_bool("address_is_rip", fault_info.si_addr == (void *)fault_context.uc_mcontext.gregs[REG_RIP]);
}

CHECK(faults, privileged_instructions)
{
	catch_faults();
	SAY_FAULT_OF("hlt", NULL, __asm__ volatile("hlt"));
	say_trap();
	SAY_FAULT_OF("cli", NULL, __asm__ volatile("cli"));
	SAY_FAULT_OF("in", NULL, __asm__ volatile("inb $0x70, %%al" : : : "rax"));
	SAY_FAULT_OF("rdmsr", NULL, __asm__ volatile("rdmsr" : : "c"(0x10) : "rax", "rdx"));
	SAY_FAULT_OF("mov_cr0", NULL, __asm__ volatile("mov %%cr0, %%rax" : : : "rax"));
	SAY_FAULT_OF("mov_cr3", NULL, __asm__ volatile("mov %%rax, %%cr3" : : : "memory"));
	SAY_FAULT_OF("wbinvd", NULL, __asm__ volatile("wbinvd"));
	SAY_FAULT_OF("lgdt", NULL, __asm__ volatile("lgdt (%%rsp)" : : : "memory"));
}

CHECK(faults, breakpoint)
{
	catch_faults();
	SAY_FAULT_OF("int3", NULL, __asm__ volatile("int3"));
	say_trap();
}

CHECK(faults, breakpoint_killed)
{
	pid_t pid = spawn();

	if (!pid) {
		__asm__ volatile("int3");
		_exit(0);
	}
	say_child("child", pid);
}

CHECK(faults, software_interrupts)
{
	catch_faults();
	SAY_FAULT_OF("int_0x81", NULL, __asm__ volatile("int $0x81"));
	say_trap();
	SAY_FAULT_OF("int_0x20", NULL, __asm__ volatile("int $0x20"));
	say_trap();
	SAY_FAULT_OF("int_0x0e", NULL, __asm__ volatile("int $0x0e"));
	say_trap();
	SAY_FAULT_OF("int_0xff", NULL, __asm__ volatile("int $0xff"));
	say_trap();
}

/* What each INT raises, as ranges of equal ones. That by which 32-bit programs call is left out. */
CHECK(faults, each_software_interrupt)
{
	unsigned char *code = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char is[64], was[64] = "";

	must("map", code != MAP_FAILED);
	catch_faults();
	for (int number = 0; number < 256; number++) {
		greg_t *registers = fault_context.uc_mcontext.gregs;

		memcpy(code, (unsigned char[]){ 0xcd, number, 0xc3 }, 3);
		fault_info.si_signo = 0;
		if (number != 0x80 && !sigsetjmp(fault_return, 1))
			((void (*)(void))code)();
		/* The number of the gate and its table; QEMU takes twice the number. */
		snprintf(is, sizeof(is), "signo:%d,code:%d,trap:%lld,own_error:%d", fault_info.si_signo,
			 fault_info.si_code, registers[REG_TRAPNO],
			 registers[REG_ERR] == number * 16 + 2 || registers[REG_ERR] == number * 8 + 2);
		if (number != 0x80 && strcmp(is, was))
			say("from_%#x=%s", number, strcpy(was, is));
	}
}

CHECK(faults, other_traps)
{
	catch_faults();
	SAY_FAULT_OF("icebp", NULL, __asm__ volatile(".byte 0xf1"));
	say_trap();
	SAY_FAULT_OF("no_into", NULL, __asm__ volatile(".byte 0xce"));
	say_trap();
	SAY_FAULT_OF("no_bound", NULL, __asm__ volatile(".byte 0x62, 0x00"));
	say_trap();
	SAY_FAULT_OF("stack_segment", NULL, __asm__ volatile("mov %0, %%ss" : : "r"(0x1234)));
	say_trap();
	SAY_FAULT_OF("no_stack_segment", NULL, __asm__ volatile("mov %0, %%ss" : : "r"(0)));
	say_trap();
	SAY_FAULT_OF("far_jump", NULL, __asm__ volatile("ljmpl *%0" : : "m"(*(char (*)[6])"\0\0\0\0\x34\x12")));
	say_trap();
	SAY_FAULT_OF("sysenter", NULL, __asm__ volatile("sysenter" : : : "memory", "rcx", "rdx"));
}

CHECK(faults, single_step_flag)
{
	catch_faults();
	SAY_FAULT_OF("step", NULL,
		     __asm__ volatile("pushfq; orl $0x100, (%%rsp); popfq; nop; nop" : : : "memory", "cc"));
	say("trap=%lld", fault_context.uc_mcontext.gregs[REG_TRAPNO]);
}

CHECK(faults, sse_misaligned)
{
	static char bytes[64] __attribute__((aligned(16)));

	catch_faults();
	SAY_FAULT_OF("movaps", NULL, __asm__ volatile("movaps %0, %%xmm0" : : "m"(bytes[1]) : "xmm0"));
	say_trap();
}

CHECK(faults, bad_segment)
{
	catch_faults();
	SAY_FAULT_OF("load", NULL, __asm__ volatile("mov %0, %%fs" : : "r"(0x1234)));
	say_trap();
	SAY_FAULT_OF("kernel_code", NULL, __asm__ volatile("mov %0, %%es" : : "r"(0x10)));
}

CHECK(faults, file_beyond_end)
{
	int fd = make_file("short", "text");
	char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	must("map", memory != MAP_FAILED);
	catch_faults();
	say("tail=%d", memory[100]);
	SAY_FAULT_OF("beyond", memory + PAGE, (void)*(volatile char *)(memory + PAGE));
	say_trap();
	SAY_FAULT_OF("write", memory + 2 * PAGE + 7, *(volatile char *)(memory + 2 * PAGE + 7) = 1);
}

CHECK(faults, file_truncated_under_mapping)
{
	int fd = make_file("shrinks", "text");
	char *memory;

	must("grow", ftruncate(fd, 2 * PAGE) == 0);
	memory = mmap(NULL, 2 * PAGE, PROT_READ, MAP_PRIVATE, fd, 0);
	catch_faults();
	say("before=%d", memory[PAGE]);
	must("shrink", ftruncate(fd, 10) == 0);
	SAY_FAULT_OF("after", memory + PAGE, (void)*(volatile char *)(memory + PAGE));
	say("first=%d", memory[9]);
}

static void resume(int signo, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)signo;
	(void)info;
	user->uc_mcontext.gregs[REG_RAX] = 4242;
	user->uc_mcontext.gregs[REG_RIP] += 2;
}

CHECK(faults, handler_edits_registers)
{
	struct sigaction action = { .sa_sigaction = resume, .sa_flags = SA_SIGINFO };
	long result = 1;

	sigaction(SIGILL, &action, NULL);
	__asm__ volatile("ud2" : "+a"(result));
	say("result=%ld", result);
}

static void unprotect(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	mprotect((void *)((uintptr_t)info->si_addr & ~(PAGE - 1)), PAGE, PROT_READ | PROT_WRITE);
}

CHECK(faults, handler_mends_page)
{
	struct sigaction action = { .sa_sigaction = unprotect, .sa_flags = SA_SIGINFO };
	char *memory = map_pages(16);
	int sum = 0;

	sigaction(SIGSEGV, &action, NULL);
	mprotect(memory, 16 * PAGE, PROT_NONE);
	for (int i = 0; i < 16; i++)
		memory[i * PAGE] = i;
	for (int i = 0; i < 16; i++)
		sum += memory[i * PAGE];
	say("sum=%d", sum);
}

CHECK(faults, kill_by_fault)
{
	pid_t pid = spawn();

	if (!pid) {
		*(volatile int *)0 = 1;
		_exit(0);
	}
	say_child("segv", pid);
	pid = spawn();
	if (!pid) {
		__asm__ volatile("ud2");
		_exit(0);
	}
	say_child("ill", pid);
}

static void note_context(int number, siginfo_t *info, void *context)
{
	(void)number;
	(void)info;
	fault_context = *(ucontext_t *)context;
}

/* A fault that Linux resolves leaves nothing for a later signal's frame. */
CHECK(faults, resolved_fault_is_forgotten)
{
	struct sigaction action = { .sa_sigaction = note_context, .sa_flags = SA_SIGINFO };
	greg_t *registers = fault_context.uc_mcontext.gregs;
	char *page = map_pages(1);

	sigaction(SIGUSR1, &action, NULL);
	page[0] = 1;
	raise(SIGUSR1);
	say("trap=%lld error=%#llx cr2=%#llx", registers[REG_TRAPNO], registers[REG_ERR], registers[REG_CR2]);
}
