// SPDX-License-Identifier: GPL-2.0-only
/*
 * What only 32-bit programs use: their gate, segments, signal frames, debuggers and address range.
 */
#include "check.h"
#include <asm/ldt.h>
#include <elf.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/utsname.h>

#define FOUR_GIGABYTES_KB (4 << 20)

CHECK(ia32, gate)
{
	long result, bx = 0x11, cx = 0x22, dx = 0x33, si = 0x44, di = 0x55;

	__asm__ volatile("int $0x80" : "=a"(result), "+b"(bx), "+c"(cx), "+d"(dx), "+S"(si), "+D"(di) : "0"(SYS_getpid));
	say_bool("getpid", result == getpid());
	say("bx=%#lx cx=%#lx dx=%#lx si=%#lx di=%#lx", bx, cx, dx, si, di);
	__asm__ volatile("int $0x80" : "=a"(result) : "0"(5000));
	say("unknown=%ld", result);
	__asm__ volatile("int $0x80" : "=a"(result) : "0"(-1));
	say("minus_one=%ld", result);
}

CHECK(ia32, selectors)
{
	unsigned short cs, ss, ds, es, fs, gs;

	__asm__("mov %%cs, %0; mov %%ss, %1; mov %%ds, %2" : "=r"(cs), "=r"(ss), "=r"(ds));
	__asm__("mov %%es, %0; mov %%fs, %1; mov %%gs, %2" : "=r"(es), "=r"(fs), "=r"(gs));
	say("cs=%#x ss=%#x ds=%#x es=%#x fs=%#x gs=%#x", cs, ss, ds, es, fs, gs);
}

static void say_area(const char *what, long result, const struct user_desc *area)
{
	say_result(what, result);
	say("entry=%d limit=%#x bits=%d%d%d%d%d%d", (int)area->entry_number, area->limit, area->seg_32bit, area->contents,
	    area->read_exec_only, area->limit_in_pages, area->seg_not_present, area->useable);
}

CHECK(ia32, thread_areas)
{
	static const int word = 4711;
	struct user_desc area = { .entry_number = -1, .base_addr = (uintptr_t)&word, .limit = 3, .seg_32bit = 1, .useable = 1 };
	struct user_desc seen = { .entry_number = 0 };
	int through = 0;

	say_area("set", syscall(SYS_set_thread_area, &area), &area);
	__asm__ volatile("mov %1, %%fs; movl %%fs:0, %0" : "=r"(through) : "r"((short)(area.entry_number * 8 + 3)));
	say("through=%d", through);
	seen.entry_number = area.entry_number;
	say_area("get", syscall(SYS_get_thread_area, &seen), &seen);
	say_bool("base", seen.base_addr == area.base_addr);
	catch_faults();
	SAY_FAULT_OF("beyond_limit", NULL, __asm__ volatile("movl %%fs:4, %0" : "=r"(through)));
	area.read_exec_only = 1;
	area.limit_in_pages = 1;
	say_area("change", syscall(SYS_set_thread_area, &area), &area);
	__asm__ volatile("mov %1, %%fs; movl %%fs:0, %0" : "=r"(through) : "r"((short)(area.entry_number * 8 + 3)));
	SAY_FAULT_OF("write", NULL, __asm__ volatile("movl $1, %%fs:0" : : : "memory"));
	area.entry_number = -1;
	say_area("next", syscall(SYS_set_thread_area, &area), &area);
	area.entry_number = -1;
	say_area("none_left", syscall(SYS_set_thread_area, &area), &area);
	area.entry_number = 3;
	say_result("outside", syscall(SYS_set_thread_area, &area));
	area.entry_number = seen.entry_number;
	area.seg_32bit = 0;
	say_result("16_bit", syscall(SYS_set_thread_area, &area));
	say_result("bad_pointer", syscall(SYS_get_thread_area, 8));
	__asm__ volatile("mov %0, %%fs" : : "r"((short)0));
}

CHECK(ia32, segment_over_fork_and_switch)
{
	static int words[2] = { 100, 200 };
	struct user_desc area = { .entry_number = -1, .base_addr = (uintptr_t)words, .limit = 7, .seg_32bit = 1 };
	int seen;
	pid_t pid;

	must("set", syscall(SYS_set_thread_area, &area) == 0);
	__asm__ volatile("mov %0, %%fs" : : "r"((short)(area.entry_number * 8 + 3)));
	pid = spawn();
	for (int i = 0; i < 100; i++)
		sched_yield();
	__asm__ volatile("movl %%fs:4, %0" : "=r"(seen));
	if (!pid)
		_exit(seen);
	say_child("child", pid);
	say("parent=%d", seen);
	__asm__ volatile("mov %0, %%fs" : : "r"((short)0));
}

/* A stopped thread gets a descriptor from its debugger, and loads the selector only then. */
CHECK(ia32, segment_by_debugger)
{
	static int word = 4711;
	struct user_desc area = { .entry_number = 12, .base_addr = (uintptr_t)&word, .limit = 3, .seg_32bit = 1, .useable = 1 };
	int status, seen = 0;
	pid_t pid = spawn();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		__asm__ volatile("mov %1, %%fs; movl %%fs:0, %0" : "=r"(seen) : "r"((short)(12 * 8 + 3)));
		_exit(seen == 4711 ? 1 : 2);
	}
	must("stop", waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	say_result("set", ptrace(PTRACE_SET_THREAD_AREA, pid, (void *)12, &area));
	ptrace(PTRACE_CONT, pid, NULL, NULL);
	say_child("child", pid);
}

CHECK(ia32, wrong_selectors)
{
	catch_faults();
	SAY_FAULT_OF("kernel", NULL, __asm__ volatile("mov %0, %%fs" : : "r"((short)0x18)));
	SAY_FAULT_OF("empty", NULL, __asm__ volatile("mov %0, %%fs" : : "r"((short)0x73)));
	SAY_FAULT_OF("local", NULL, __asm__ volatile("mov %0, %%fs" : : "r"((short)0x7)));
}

static void edit_frame(int signo, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)signo;
	(void)info;
	user->uc_mcontext.gregs[REG_EAX] = 1234;
	user->uc_mcontext.gregs[REG_EIP] += 2;
	user->uc_mcontext.fpregs->_st[0].significand[3] = 0xc000;
	user->uc_mcontext.fpregs->_st[0].exponent = 0x4000;
}

CHECK(ia32, handler_edits_frame)
{
	struct sigaction action = { .sa_sigaction = edit_frame, .sa_flags = SA_SIGINFO };
	double top;
	int ax;

	sigaction(SIGILL, &action, NULL);
	__asm__ volatile("fld1; xorl %%eax, %%eax; ud2; fstpl %1" : "=&a"(ax), "=m"(top));
	say("ax=%d top=%g", ax, top);
}

static volatile int old_style;

static void note_signal(int signo)
{
	old_style = signo;
	__asm__ volatile("fninit; pxor %%xmm0, %%xmm0" : : : "xmm0");
}

CHECK(ia32, signal_frame)
{
	double in = 2.25, out, top;

	catch_faults();
	if (!sigsetjmp(fault_return, 1))
		__asm__ volatile("fldpi; ud2");
	say("segments=%#x,%#x,%#x,%#x", fault_context.uc_mcontext.gregs[REG_CS], fault_context.uc_mcontext.gregs[REG_SS],
	    fault_context.uc_mcontext.gregs[REG_DS], fault_context.uc_mcontext.gregs[REG_ES]);
	say("trap=%d error=%d", fault_context.uc_mcontext.gregs[REG_TRAPNO], fault_context.uc_mcontext.gregs[REG_ERR]);
	say("control=%#lx tag=%#lx status=%#lx", fault_fpu.cw, fault_fpu.tag, fault_fpu.sw & 0xffff);
	__asm__ volatile("fninit");
	/* Without SA_SIGINFO the frame is the older one. */
	signal(SIGUSR1, note_signal);
	__asm__ volatile("movsd %2, %%xmm0; fldpi; int $0x80; movsd %%xmm0, %0; fstpl %1"
			 : "=m"(out), "=m"(top)
			 : "m"(in), "a"(SYS_kill), "b"(getpid()), "c"(SIGUSR1)
			 : "memory", "xmm0");
	say("signal=%d xmm0=%g top=%g", old_style, out, top);
}

#define VALUES 5

/* A value of each kind that the tag word distinguishes, and three empty registers. */
CHECK(ia32, fpu_registers)
{
	static const long double in[VALUES] = { 0, 1, -2.5L, __builtin_infl(), 3.6e-4951L };
	long double out[VALUES];
	int same;

	catch_faults();
	if (!sigsetjmp(fault_return, 1))
		__asm__ volatile("fninit; fldt %0; fldt %1; fldt %2; fldt %3; fldt %4; ud2"
				 : : "m"(in[0]), "m"(in[1]), "m"(in[2]), "m"(in[3]), "m"(in[4]));
	say("tag=%#lx status=%#lx", fault_fpu.tag, fault_fpu.sw);
	for (size_t i = 0; i < VALUES; i++)
		say("top%zu=%#x,%#x", i, fault_fpu._st[i].exponent, fault_fpu._st[i].significand[3]);
	signal(SIGUSR1, note_signal);
	__asm__ volatile("fninit; fldt %5; fldt %6; fldt %7; fldt %8; fldt %9; mov %10, %%eax; int $0x80;"
			 "fstpt %4; fstpt %3; fstpt %2; fstpt %1; fstpt %0"
			 : "=m"(out[0]), "=m"(out[1]), "=m"(out[2]), "=m"(out[3]), "=m"(out[4])
			 : "m"(in[0]), "m"(in[1]), "m"(in[2]), "m"(in[3]), "m"(in[4]),
			   "i"(SYS_kill), "b"(getpid()), "c"(SIGUSR1)
			 : "memory", "eax", "xmm0");
	same = 0;
	for (size_t i = 0; i < VALUES; i++)
		same += !memcmp(&in[i], &out[i], 10);
	say("same=%d", same);
}

/* After FSAVE's state: the FXSAVE state, and then the XSAVE header. */
#define FXSAVE_BYTES 512
#define HEADER_X87 1

static volatile unsigned long second_control, second_status, second_tag;

static void drop_x87(int signo, siginfo_t *info, void *context)
{
	char *state = (char *)((ucontext_t *)context)->uc_mcontext.fpregs;

	(void)signo;
	(void)info;
	*(uint64_t *)(state + sizeof(struct _libc_fpstate) + FXSAVE_BYTES) &= ~(uint64_t)HEADER_X87;
	raise(SIGUSR2);
}

static void look_at_x87(int signo, siginfo_t *info, void *context)
{
	const struct _libc_fpstate *state = ((ucontext_t *)context)->uc_mcontext.fpregs;

	(void)signo;
	(void)info;
	second_control = state->cw & 0xffff;
	second_status = state->sw & 0xffff;
	second_tag = state->tag & 0xffff;
}

/* The second signal comes between the return to the program and its next instruction. */
CHECK(ia32, x87_dropped_before_another)
{
	struct sigaction action = { .sa_sigaction = drop_x87, .sa_flags = SA_SIGINFO };
	unsigned short in = 0x27f, out = 0;

	sigaddset(&action.sa_mask, SIGUSR2);
	sigaction(SIGUSR1, &action, NULL);
	action.sa_sigaction = look_at_x87;
	sigaction(SIGUSR2, &action, NULL);
	__asm__ volatile("fninit; fldcw %1; fldpi; int $0x80; fnstcw %0; fninit"
			 : "=m"(out)
			 : "m"(in), "a"(SYS_kill), "b"(getpid()), "c"(SIGUSR1)
			 : "memory");
	say("control=%#lx status=%#lx tag=%#lx after=%#x", second_control, second_status, second_tag, out);
}

CHECK(ia32, faults)
{
	volatile int zero = 0, *nowhere = (int *)16;
	static unsigned char data[1] = { 0xc3 };
	char *page;

	catch_faults();
	SAY_FAULT_OF("read", (void *)16, (void)*nowhere);
	SAY_FAULT_OF("write", (void *)16, *nowhere = 1);
	SAY_FAULT_OF("execute", data, ((void (*)(void))data)());
	say("error=%#x", fault_context.uc_mcontext.gregs[REG_ERR]);
	page = map_pages(1);
	SAY_FAULT_OF("execute_untouched", page, ((void (*)(void))page)());
	say("error=%#x", fault_context.uc_mcontext.gregs[REG_ERR]);
	SAY_FAULT_OF("divide", NULL, say("quotient=%d", 1 / zero));
	SAY_FAULT_OF("privileged", NULL, __asm__ volatile("hlt"));
	SAY_FAULT_OF("bound", NULL, __asm__ volatile("int $5"));
	SAY_FAULT_OF("breakpoint", NULL, __asm__ volatile("int3"));
	SAY_FAULT_OF("overflow", NULL, __asm__ volatile("movb $0x7f, %%al; addb $1, %%al; into" : : : "eax"));
	SAY_FAULT_OF("kernel", (void *)0xfffff000, (void)*(volatile int *)0xfffff000);
}

CHECK(ia32, place_in_memory)
{
	int on_stack;
	char *memory = map_pages(1), *top;

	say_bool("stack_at_end", (uintptr_t)&on_stack > 0xff000000);
	say_bool("mapped_high", (uintptr_t)memory > 0xe0000000);
	say_bool("heap_low", (uintptr_t)sbrk(0) < 0xe0000000);
	say_result("last_page", (long)mmap((void *)0xffffd000, PAGE, PROT_READ,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0));
	say_result("beyond", (long)mmap((void *)0xffffe000, PAGE, PROT_READ,
					MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	top = mmap(NULL, 3U << 30, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	say_bool("three_gigabytes", top != MAP_FAILED);
}

CHECK(ia32, names)
{
	struct utsname name;

	uname(&name);
	say("machine=%s", name.machine);
	personality(PER_LINUX32);
	uname(&name);
	say("as_linux32=%s", name.machine);
}

CHECK(ia32, large_files)
{
	int fd = make_file("large", "");
	struct stat info;

	say_result("truncate", ftruncate(fd, 5LL << 30));
	say_bool("seek", lseek(fd, 3LL << 30, SEEK_SET) == 3LL << 30);
	say_value("write", write(fd, "x", 1));
	fstat(fd, &info);
	say("size=%lld", (long long)info.st_size);
	say_value("at", pread(fd, &info, 1, 3LL << 30));
}

/* A traced child that stops itself, then counts. */
static pid_t traced_child(void)
{
	int status;
	pid_t pid = spawn();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		__asm__ volatile("fldpi; int $0x80; 1: incl %%esi; jmp 1b"
				 :
				 : "a"(SYS_kill), "b"(getpid()), "c"(SIGSTOP), "S"(0), "D"(0x1234));
	}
	must("wait", waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	return pid;
}

CHECK(ia32, traced_registers)
{
	struct user_regs_struct regs = { 0 };
	struct user_fpregs_struct fpu;
	struct user_fpxregs_struct fpx;
	pid_t pid = traced_child();
	int status;

	say_result("get", ptrace(PTRACE_GETREGS, pid, 0, &regs));
	say("orig_ax=%ld ax=%ld di=%#lx cs=%#lx ds=%#lx", regs.orig_eax, regs.eax, regs.edi, regs.xcs, regs.xds);
	say("peek=%#lx", ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.edi), 0));
	say_result("poke", ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.edi), 0x5678));
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	say("di=%#lx", regs.edi);
	say_result("fpu", ptrace(PTRACE_GETFPREGS, pid, 0, &fpu));
	say("control=%#lx tag=%#lx", fpu.cwd, fpu.twd);
	say_result("fpx", ptrace(PTRACE_GETFPXREGS, pid, 0, &fpx));
	say("control=%#x mxcsr=%#lx", fpx.cwd, fpx.mxcsr);
	fpu.twd = 0xffffffff;
	say_result("set_fpu", ptrace(PTRACE_SETFPREGS, pid, 0, &fpu));
	ptrace(PTRACE_GETFPREGS, pid, 0, &fpu);
	say("tag=%#lx", fpu.twd);
	say_result("step", ptrace(PTRACE_SINGLESTEP, pid, 0, 0));
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETREGS, pid, 0, &regs);
	say("status=%#x si=%ld", status, regs.esi);
	say_result("misaligned", ptrace(PTRACE_PEEKUSER, pid, 3, 0));
	ptrace(PTRACE_KILL, pid, 0, 0);
	say_child("child", pid);
}

CHECK(ia32, traced_watchpoint)
{
	static volatile int watched;
	int status;
	pid_t pid = spawn();

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, 0, 0);
		raise(SIGSTOP);
		watched = 1;
		_exit(watched);
	}
	must("wait", waitpid(pid, &status, 0) == pid);
	say_result("address", ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[0]), &watched));
	say_result("control", ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, u_debugreg[7]), 0xd0101));
	ptrace(PTRACE_CONT, pid, 0, 0);
	waitpid(pid, &status, 0);
	say("status=%#x", status);
	say_bool("hit", ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, u_debugreg[6]), 0) & 1);
	ptrace(PTRACE_CONT, pid, 0, 0);
	say_child("child", pid);
}

CHECK(ia32, core_dump)
{
	struct rlimit all = { RLIM_INFINITY, RLIM_INFINITY };
	Elf32_Ehdr header = { 0 };
	char pattern[256];
	pid_t pid;
	int fd;

	snprintf(pattern, sizeof pattern, "%s", slurp("/proc/sys/kernel/core_pattern"));
	fd = open("/proc/sys/kernel/core_pattern", O_WRONLY);
	must("set the pattern", fd >= 0 && write(fd, "core", 4) == 4);
	setrlimit(RLIMIT_CORE, &all);
	pid = spawn();
	if (!pid)
		abort();
	say_child("child", pid);
	must("restore the pattern", pwrite(fd, pattern, strlen(pattern), 0) > 0);
	fd = open("core", O_RDONLY);
	must("read the core", fd >= 0 && read(fd, &header, sizeof header) == sizeof header);
	say("class=%d type=%d machine=%d", header.e_ident[EI_CLASS], header.e_type, header.e_machine);
}
