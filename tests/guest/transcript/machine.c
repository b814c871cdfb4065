// SPDX-License-Identifier: GPL-2.0-only
/*
 * The processor as user code sees it: registers over system calls, flags, FPU, segment bases, int
 * 0x80, CPUID.
 */
#include "check.h"
#include <asm/hwcap2.h>
#include <asm/ldt.h>
#include <asm/prctl.h>
#include <cpuid.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/ucontext.h>

#define ARITHMETIC_FLAGS 0x8d5
#define INT80_SET_THREAD_AREA 243
#define AVX_BIT (1u << 28)
#define OSXSAVE_BIT (1u << 27)

CHECK(machine, system_call_keeps_registers)
{
	register long r8 __asm__("r8") = 8, r9 __asm__("r9") = 9, r10 __asm__("r10") = 10, r12 __asm__("r12") = 12,
		 r13 __asm__("r13") = 13, r14 __asm__("r14") = 14, r15 __asm__("r15") = 15;
	long rbx = 3, rdx = 4, rsi = 5, rdi = 6, rax = SYS_getppid;

	__asm__ volatile("syscall"
			 : "+a"(rax), "+b"(rbx), "+d"(rdx), "+S"(rsi), "+D"(rdi), "+r"(r8), "+r"(r9), "+r"(r10),
			   "+r"(r12), "+r"(r13), "+r"(r14), "+r"(r15)
			 :
			 : "rcx", "r11", "memory");
	say("rbx=%ld rdx=%ld rsi=%ld rdi=%ld r8=%ld r9=%ld r10=%ld", rbx, rdx, rsi, rdi, r8, r9, r10);
	say("r12=%ld r13=%ld r14=%ld r15=%ld", r12, r13, r14, r15);
	say_bool("result", rax == getppid());
}

CHECK(machine, system_call_sets_rcx_and_r11)
{
	unsigned long rcx, r11, after, flags, rax = SYS_getpid;

	__asm__ volatile("pushfq; popq %4; syscall; 1: movq %%r11, %2; lea 1b(%%rip), %3"
			 : "+a"(rax), "=c"(rcx), "=&r"(r11), "=&r"(after), "=&r"(flags)
			 :
			 : "r11", "memory");
	say_bool("rcx_is_rip", rcx == after);
	say_bool("r11_is_flags", r11 == flags);
}

CHECK(machine, system_call_keeps_flags)
{
	unsigned long before = 0x8d5 | 0x202, after, rax = SYS_getpid;

	__asm__ volatile("pushq %2; popfq; syscall; pushfq; popq %1"
			 : "+a"(rax), "=&r"(after) : "r"(before) : "rcx", "r11", "memory", "cc");
	say("flags=%#lx", after & ARITHMETIC_FLAGS);
}

CHECK(machine, system_call_keeps_sse)
{
	unsigned char in[16], out[16];
	long rax = SYS_getpid;

	for (int i = 0; i < 16; i++)
		in[i] = i * 3;
	__asm__ volatile("movups %1, %%xmm7; syscall; movups %%xmm7, %2"
			 : "+a"(rax) : "m"(in), "m"(out) : "rcx", "r11", "memory", "xmm7");
	say_bool("same", !memcmp(in, out, 16));
}

CHECK(machine, number_of_the_processor)
{
	unsigned int cpu = 77, node = 77;

	catch_faults();
	say_result("both", getcpu(&cpu, &node));
	say("node=%u", node);
	say_result("none", getcpu(NULL, NULL));
	SAY_FAULT_OF("bad_pointer", (void *)16, getcpu((void *)16, NULL));
}

CHECK(machine, mode_of_the_time_stamp_counter)
{
	int mode = 0;

	say_result("get", prctl(PR_GET_TSC, &mode));
	say("mode=%d", mode);
	say_result("set", prctl(PR_SET_TSC, PR_TSC_ENABLE));
	say_result("unknown", prctl(PR_SET_TSC, 77));
	say_result("bad_pointer", prctl(PR_GET_TSC, 16));
}

CHECK(machine, direction_flag_cleared_in_handler)
{
	unsigned long flags;

	catch_faults();
	if (!sigsetjmp(fault_return, 1))
		__asm__ volatile("std; ud2");
	__asm__ volatile("pushfq; popq %0; cld" : "=r"(flags));
	say_bool("saved", fault_context.uc_mcontext.gregs[REG_EFL] & 0x400);
	say_bool("set_now", flags & 0x400);
}

static void do_nothing(int signo)
{
	(void)signo;
}

CHECK(machine, red_zone_survives_signals)
{
	struct timespec often = { 0, 2 * MILLISECOND };
	struct itimerspec spec = { often, often };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	unsigned long broken = 0;
	timer_t timer;

	signal(SIGRTMIN, do_nothing);
	must("timer", timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	timer_settime(timer, 0, &spec, NULL);
	for (int64_t end = now_ns() + 60 * MILLISECOND; now_ns() < end;)
		__asm__ volatile("movq $0x1234, -8(%%rsp); movq $0x5678, -128(%%rsp); mov $20000, %%ecx;"
				 "1: dec %%ecx; jnz 1b;"
				 "cmpq $0x1234, -8(%%rsp); je 2f; incq %0;"
				 "2: cmpq $0x5678, -128(%%rsp); je 3f; incq %0; 3:"
				 : "+r"(broken) : : "rcx", "cc", "memory");
	say("broken=%lu", broken);
}

CHECK(machine, signals_keep_all_registers)
{
	struct timespec often = { 0, MILLISECOND };
	struct itimerspec spec = { often, often };
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
	unsigned long broken = 0;
	timer_t timer;

	signal(SIGRTMIN, do_nothing);
	must("timer", timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
	timer_settime(timer, 0, &spec, NULL);
	for (int64_t end = now_ns() + 100 * MILLISECOND; now_ns() < end;)
		__asm__ volatile(
			"mov $11, %%rbx; mov $12, %%rdx; mov $13, %%rsi; mov $14, %%rdi; mov $18, %%r8;"
			"mov $19, %%r9; mov $20, %%r10; mov $21, %%r11; mov $22, %%r12; mov $23, %%r13;"
			"mov $24, %%r14; mov $25, %%r15; mov $20000, %%ecx; 1: dec %%ecx; jnz 1b;"
			"add %%rdx, %%rbx; add %%rsi, %%rbx; add %%rdi, %%rbx; add %%r8, %%rbx; add %%r9, %%rbx;"
			"add %%r10, %%rbx; add %%r11, %%rbx; add %%r12, %%rbx; add %%r13, %%rbx;"
			"add %%r14, %%rbx; add %%r15, %%rbx; sub $222, %%rbx; or %%rbx, %0"
			: "+a"(broken)
			: : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
			    "cc");
	say("broken=%lu", broken);
}

static void spoil_sse(int signo)
{
	(void)signo;
	__asm__ volatile("pcmpeqd %%xmm0, %%xmm0; movaps %%xmm0, %%xmm15; fninit" : : : "xmm0", "xmm15");
}

CHECK(machine, fpu_survives_handler)
{
	double in = 1.25, out;
	long double x87;
	long rax, pid = getpid();

	signal(SIGUSR1, spoil_sse);
	__asm__ volatile("movsd %2, %%xmm15; fldpi; syscall; movsd %%xmm15, %1; fstpt %3"
			 : "=a"(rax), "=m"(out)
			 : "m"(in), "m"(x87), "a"(SYS_kill), "D"(pid), "S"(SIGUSR1)
			 : "rcx", "r11", "memory", "xmm15");
	say("kill=%ld xmm15=%g x87=%.6Lf", rax, out, x87);
}

CHECK(machine, fpu_in_fork)
{
	double in = 2.5, out;
	long pid;
	int status;

	__asm__ volatile("movsd %2, %%xmm15; syscall; movsd %%xmm15, %1"
			 : "=a"(pid), "=m"(out)
			 : "m"(in), "a"(SYS_fork)
			 : "rcx", "r11", "memory", "xmm15");
	if (!pid)
		_exit(out == 2.5 ? 5 : 6);
	waitpid(pid, &status, 0);
	say("parent=%g child=%d", out, WEXITSTATUS(status));
}

CHECK(machine, fpu_across_switches)
{
	pid_t pids[4];
	int good = 0, status;

	for (int i = 0; i < 4; i++) {
		pids[i] = spawn();
		if (!pids[i]) {
			double in = i + 0.5, out;

			for (int round = 0; round < 300; round++) {
				long rax = SYS_sched_yield;

				__asm__ volatile("movsd %2, %%xmm3; syscall; movsd %%xmm3, %1"
						 : "+a"(rax), "=m"(out) : "m"(in)
						 : "rcx", "r11", "memory", "xmm3");
				if (out != in)
					_exit(1);
			}
			_exit(0);
		}
	}
	for (int i = 0; i < 4; i++)
		good += waitpid(pids[i], &status, 0) == pids[i] && status == 0;
	say("good=%d", good);
}

CHECK(machine, avx_across_switches)
{
	unsigned a, b, c, d;
	unsigned char in[32], out[32];
	int status;
	pid_t pid;

	__cpuid(1, a, b, c, d);
	say_bool("avx", (c & AVX_BIT) && (c & OSXSAVE_BIT));
	if (!(c & AVX_BIT) || !(c & OSXSAVE_BIT))
		return;
	pid = spawn();
	memset(in, pid ? 0x5a : 0xa5, sizeof in);
	for (int i = 0; i < 300; i++) {
		long rax = SYS_sched_yield;

		__asm__ volatile("vmovups %1, %%ymm9; syscall; vmovups %%ymm9, %2"
				 : "+a"(rax) : "m"(in), "m"(out) : "rcx", "r11", "memory", "xmm9");
		if (memcmp(in, out, sizeof in))
			_exit(9);
	}
	if (!pid)
		_exit(4);
	waitpid(pid, &status, 0);
	say("child=%d", WEXITSTATUS(status));
}

CHECK(machine, signal_frame_has_fpu)
{
	double in = 6.5, seen;

	catch_faults();
	if (!sigsetjmp(fault_return, 1))
		__asm__ volatile("movsd %0, %%xmm1; ud2" : : "m"(in) : "xmm1");
	memcpy(&seen, &fault_fpu._xmm[1], sizeof seen);
	say("xmm1=%g mxcsr=%#x control=%#x", seen, fault_fpu.mxcsr, fault_fpu.cwd);
}

static void edit_fpu(int signo, siginfo_t *info, void *context)
{
	ucontext_t *user = context;
	double value = 77.0;

	(void)signo;
	(void)info;
	memcpy(&user->uc_mcontext.fpregs->_xmm[2], &value, sizeof value);
	user->uc_mcontext.gregs[REG_RIP] += 2;
}

CHECK(machine, handler_edits_fpu)
{
	struct sigaction action = { .sa_sigaction = edit_fpu, .sa_flags = SA_SIGINFO };
	double out;

	sigaction(SIGILL, &action, NULL);
	__asm__ volatile("ud2; movsd %%xmm2, %0" : "=m"(out) : : "xmm2");
	say("xmm2=%g", out);
}

CHECK(machine, signal_frame_segments)
{
	catch_faults();
	if (!sigsetjmp(fault_return, 1))
		__asm__ volatile("ud2");
	say("csgsfs=%#llx", fault_context.uc_mcontext.gregs[REG_CSGSFS]);
	say("flags=%#lx", fault_context.uc_flags);
}

CHECK(machine, selectors)
{
	unsigned short cs, ss, ds, es, fs, gs;

	__asm__("mov %%cs, %0; mov %%ss, %1; mov %%ds, %2" : "=r"(cs), "=r"(ss), "=r"(ds));
	__asm__("mov %%es, %0; mov %%fs, %1; mov %%gs, %2" : "=r"(es), "=r"(fs), "=r"(gs));
	say("cs=%#x ss=%#x ds=%#x es=%#x fs=%#x gs=%#x", cs, ss, ds, es, fs, gs);
}

CHECK(machine, segment_bases)
{
	static long word = 515;
	unsigned long base = 0;
	long seen;

	say_result("set_gs", syscall(SYS_arch_prctl, ARCH_SET_GS, &word));
	__asm__("movq %%gs:0, %0" : "=r"(seen));
	say("seen=%ld", seen);
	say_result("get_gs", syscall(SYS_arch_prctl, ARCH_GET_GS, &base));
	say_bool("same", base == (unsigned long)&word);
	say_result("get_fs", syscall(SYS_arch_prctl, ARCH_GET_FS, &base));
	say_bool("fs_is_thread", *(unsigned long *)base == base);
	say_result("kernel_base", syscall(SYS_arch_prctl, ARCH_SET_GS, 0xffff800000000000UL));
	say_result("bad_pointer", syscall(SYS_arch_prctl, ARCH_GET_GS, 8UL));
	say_result("bad_code", syscall(SYS_arch_prctl, 0x9999, 0UL));
}

/* By the instruction a program can choose any base. */
CHECK(machine, segment_base_of_the_upper_half)
{
	unsigned long base = 0;

	say_bool("instructions", getauxval(AT_HWCAP2) & HWCAP2_FSGSBASE);
	for (int i = 0; i < 2; i++) {
		__asm__ volatile("wrgsbase %0" : : "r"(i ? ~0UL : 0xffff800000000000UL));
		usleep(1000);
		__asm__ volatile("rdgsbase %0" : "=r"(base));
		say("base=%#lx", base);
	}
}

CHECK(machine, segment_base_over_fork_and_switch)
{
	static long words[2] = { 100, 200 };
	long seen;
	pid_t pid;

	syscall(SYS_arch_prctl, ARCH_SET_GS, &words[0]);
	pid = spawn();
	if (!pid) {
		__asm__("movq %%gs:0, %0" : "=r"(seen));
		if (seen != 100)
			_exit(1);
		syscall(SYS_arch_prctl, ARCH_SET_GS, &words[1]);
		for (int i = 0; i < 50; i++) {
			sched_yield();
			__asm__ volatile("movq %%gs:0, %0" : "=r"(seen));
			if (seen != 200)
				_exit(2);
		}
		_exit(0);
	}
	for (int i = 0; i < 50; i++) {
		sched_yield();
		__asm__ volatile("movq %%gs:0, %0" : "=r"(seen));
		must("keep gs", seen == 100);
	}
	say_child("child", pid);
}

/* Returns whether 32-bit system calls are supported; states it if not. */
static bool have_int80(void)
{
	int status = 0;
	pid_t pid = spawn();

	if (!pid) {
		long result;

		__asm__ volatile("int $0x80" : "=a"(result) : "0"(20L) : "memory", "r8", "r9", "r10", "r11");
		_exit(result == getpid() ? 0 : 1);
	}
	waitpid(pid, &status, 0);
	if (status)
		say("no 32-bit system calls");
	return status == 0;
}

CHECK(machine, set_thread_area)
{
	struct user_desc *area = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
	int result, seen;

	must("map low memory", area != MAP_FAILED);
	say_result("in_64_bit", syscall(SYS_set_thread_area, area));
	if (!have_int80())
		return;
	*area = (struct user_desc){ .entry_number = -1, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1 };
	area->base_addr = (unsigned)(uintptr_t)area;
	__asm__ volatile("int $0x80"
			 : "=a"(result)
			 : "0"(INT80_SET_THREAD_AREA), "b"(area)
			 : "memory", "r8", "r9", "r10", "r11");
	say("int80=%d entry=%d", result, (int)area->entry_number);
	if (result)
		return;
	__asm__ volatile("mov %1, %%gs; movl %%gs:4, %0" : "=r"(seen) : "r"((int)area->entry_number * 8 + 3));
	say_bool("through_gs", seen == (int)(uintptr_t)area);
}

CHECK(machine, modify_ldt)
{
	struct user_desc area = { .entry_number = 0, .limit = 0xfffff, .seg_32bit = 1, .limit_in_pages = 1, .useable = 1 };

	say("write=%d", (int)syscall(SYS_modify_ldt, 1, &area, sizeof area));
	say("bad_function=%d", (int)syscall(SYS_modify_ldt, 99, &area, sizeof area));
}

CHECK(machine, int80)
{
	long result;

	catch_faults();
	SAY_FAULT_OF("getpid", NULL, __asm__ volatile("int $0x80" : "=a"(result) : "a"(20) : "memory");
		     say_bool("is_getpid", result == getpid()));
	SAY_FAULT_OF("unknown", NULL, __asm__ volatile("int $0x80" : "=a"(result) : "a"(5000) : "memory");
		     say("result=%ld", result));
}

CHECK(machine, int80_registers)
{
	register long r8 __asm__("r8"), r12 __asm__("r12");
	long result, seen, rbx = 0x5555555500000000;

	if (!have_int80())
		return;
	r8 = 0x1111111122222222;
	r12 = 0x3333333344444444;
	__asm__ volatile("int $0x80" : "=a"(result), "+b"(rbx), "+r"(r8), "+r"(r12) : "0"(20L) : "memory", "cc");
	seen = r8;
	say("rbx=%#lx r8=%#lx r12=%#lx", rbx, seen, r12);
}

CHECK(machine, time_stamp_counter)
{
	unsigned long first = __builtin_ia32_rdtsc(), second = __builtin_ia32_rdtsc();

	say_bool("advances", second > first);
}

CHECK(machine, cpuid)
{
	unsigned a, b, c, d;

	__cpuid(1, a, b, c, d);
	say_bool("sse2", d & (1 << 26));
	say_bool("fxsr", d & (1 << 24));
	say_bool("tsc", d & (1 << 4));
}

CHECK(machine, io_privileges)
{
	say_result("iopl_0", syscall(SYS_iopl, 0));
	say_result("iopl_9", syscall(SYS_iopl, 9));
	say_result("ioperm_huge", syscall(SYS_ioperm, 65530, 100, 1));
}
