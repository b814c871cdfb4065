// SPDX-License-Identifier: GPL-2.0-only
/*
 * Instructions that a kernel may refuse or emulate, or whose result it decides: what they give, to
 * programs of both widths.
 */
#include "check.h"
#include <asm/ldt.h>
#include <asm/prctl.h>
#include <cpuid.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <x86intrin.h>

#define UMIP_BIT (1u << 2)
#define XSAVE_BIT (1u << 27)
#define RDTSCP_BIT (1u << 27)
#define CPUID_RDPID_BIT (1u << 22)
#define FLAGS_AC 0x40000UL
#define FLAGS_ID 0x200000UL
/* IOPL, VM, VIF and VIP; and those of arithmetic. */
#define FLAGS_OF_SYSTEM 0x1a3000UL
#define FLAGS_OF_RESULTS 0x8d5ULL
#define MODE_UNSET 77

static void say_trap(void)
{
	say("trap=%d error=%#x", (int)fault_context.uc_mcontext.gregs[REG_TRAPNO],
	    (int)fault_context.uc_mcontext.gregs[REG_ERR]);
}

/* CPUID's word for UMIP. Where it is off the values are the kernel's own, and none is stated. */
static bool have_umip(void)
{
	unsigned int a, b, c = 0, d;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(c & UMIP_BIT)) {
		say("no umip");
		return false;
	}
	return true;
}

/* A table's register as SGDT and SIDT store it, and the bytes after it. */
struct table {
	uint16_t limit;
	uintptr_t base;
	uint8_t after[6];
} __attribute__((packed));

static void say_table(const char *what, const struct table *table)
{
	say("%s=%#x,%#llx,%#x", what, table->limit, (unsigned long long)table->base, table->after[0]);
}

CHECK(instructions, tables_to_memory)
{
	static struct table tables[4];
	uintptr_t place = (uintptr_t)&tables[0], index = sizeof tables[0];

	memset(tables, 0xee, sizeof tables);
	if (!have_umip())
		return;
	__asm__ volatile("sgdt %0" : "=m"(tables[0]));
	__asm__ volatile("sidt (%0, %1)" : : "r"(place), "r"(index) : "memory");
	__asm__ volatile("sgdt %c2(%0, %1, 2)" : : "r"(place - 100), "r"(index), "i"(100) : "memory");
	__asm__ volatile(".byte 0x66; sidt (%0)" : : "r"(&tables[3]) : "memory");
	say_table("gdt", &tables[0]);
	say_table("idt", &tables[1]);
	say_table("by_index", &tables[2]);
	say_table("short", &tables[3]);
}

CHECK(instructions, system_words)
{
	static uint16_t words[6] = { 0x5555, 0x5555, 0x5555, 0x5555, 0x5555, 0x5555 };
	unsigned long value;

	if (!have_umip())
		return;
	__asm__ volatile("sldt %0; str %1; smsw %2" : "=m"(words[0]), "=m"(words[2]), "=m"(words[4]));
	say("memory=%#x,%#x,%#x after=%#x,%#x", words[0], words[2], words[4], words[1], words[3]);
#define SAY_REGISTER(name, instruction)                                                \
	do {                                                                           \
		value = -1UL;                                                          \
		__asm__ volatile(instruction : "+r"(value));                           \
		say("%s=%#lx", name, value);                                           \
	} while (0)
	SAY_REGISTER("sldt", "sldt %0");
	SAY_REGISTER("sldt_16", "sldt %w0");
	SAY_REGISTER("sldt_32", "sldt %k0");
	SAY_REGISTER("str", "str %0");
	SAY_REGISTER("str_16", "str %w0");
	SAY_REGISTER("str_32", "str %k0");
	SAY_REGISTER("smsw", "smsw %0");
	SAY_REGISTER("smsw_16", "smsw %w0");
	SAY_REGISTER("smsw_32", "smsw %k0");
#ifdef __x86_64__
	__asm__ volatile("mov $-1, %%r13; smsw %%r13d; mov %%r13, %0" : "=r"(value) : : "r13");
	say("smsw_r13=%#lx", value);
	__asm__ volatile("mov $-1, %%r14; str %%r14; mov %%r14, %0" : "=r"(value) : : "r14");
	say("str_r14=%#lx", value);
#endif
}

CHECK(instructions, tables_to_memory_that_is_not_there)
{
	char *page = map_pages(2);

	catch_faults();
	if (!have_umip())
		return;
	page[0] = 1;
	mprotect(page, PAGE, PROT_READ);
	munmap(page + PAGE, PAGE);
	SAY_FAULT_OF("null", NULL, __asm__ volatile("sgdt (%0)" : : "r"(0UL) : "memory"));
	say_trap();
	SAY_FAULT_OF("read_only", page + 8, __asm__ volatile("sidt (%0)" : : "r"(page + 8) : "memory"));
	say_trap();
	mprotect(page, PAGE, PROT_READ | PROT_WRITE);
	SAY_FAULT_OF("half", page + PAGE - 4, __asm__ volatile("sgdt (%0)" : : "r"(page + PAGE - 4) : "memory"));
	SAY_FAULT_OF("untouched", NULL, __asm__ volatile("smsw (%0)" : : "r"(map_pages(1)) : "memory"));
	SAY_FAULT_OF("kernel", (void *)-PAGE, __asm__ volatile("str (%0)" : : "r"(-PAGE) : "memory"));
	say_trap();
	SAY_FAULT_OF("locked", NULL, __asm__ volatile(".byte 0xf0; sldt (%0)" : : "r"(page) : "memory"));
	SAY_FAULT_OF("lldt", NULL, __asm__ volatile("lldt %w0" : : "r"(0)));
	SAY_FAULT_OF("ltr", NULL, __asm__ volatile("ltr %w0" : : "r"(0)));
	SAY_FAULT_OF("lmsw", NULL, __asm__ volatile("lmsw %w0" : : "r"(0)));
	SAY_FAULT_OF("lidt", NULL, __asm__ volatile("lidt (%0)" : : "r"(page) : "memory"));
	SAY_FAULT_OF("invlpg", NULL, __asm__ volatile("invlpg (%0)" : : "r"(page) : "memory"));
}

/* By a segment that begins elsewhere: a thread's own. */
CHECK(instructions, tables_through_a_segment)
{
	static struct table table __attribute__((aligned(16)));
#ifdef __x86_64__
	static __thread uint16_t of_thread;
#endif

	memset(&table, 0xee, sizeof table);
	catch_faults();
	if (!have_umip())
		return;
#ifdef __x86_64__
	must("set gs", syscall(SYS_arch_prctl, ARCH_SET_GS, (uintptr_t)&table - 64) == 0);
	__asm__ volatile("sgdt %%gs:64" : : : "memory");
	say_table("gs", &table);
	__asm__ volatile("smsw %0" : "=m"(of_thread));
	say("fs=%#x", of_thread);
#else
	struct user_desc area = { .entry_number = -1, .base_addr = (uintptr_t)&table - 16, .limit = 16 + 5, .seg_32bit = 1 };

	must("set", syscall(SYS_set_thread_area, &area) == 0);
	__asm__ volatile("mov %0, %%fs" : : "r"((short)(area.entry_number * 8 + 3)));
	__asm__ volatile("sgdt %%fs:16" : : : "memory");
	say_table("fs", &table);
	SAY_FAULT_OF("beyond", NULL, __asm__ volatile("sgdt %%fs:24" : : : "memory"));
	__asm__ volatile("mov %0, %%fs" : : "r"((short)0));
	SAY_FAULT_OF("null_selector", NULL, __asm__ volatile("sgdt %%fs:16" : : : "memory"));
	SAY_FAULT_OF("code", &table, __asm__ volatile("sgdt %%cs:(%0)" : : "r"(&table) : "memory"));
#endif
}

static uint64_t read_tsc(void)
{
	return __builtin_ia32_rdtsc();
}

static void read_tsc_in_handler(int signo)
{
	(void)signo;
	_exit(read_tsc() ? 3 : 4);
}

static void *read_tsc_in_thread(void *result)
{
	*(uint64_t *)result = read_tsc();
	return NULL;
}

static void say_tsc(const char *what)
{
	pid_t pid = spawn();

	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(read_tsc() ? 1 : 2);
	}
	say_child(what, pid);
}

CHECK(instructions, time_stamp_counter_refused)
{
	int mode = MODE_UNSET;
	pid_t pid;

	catch_faults();
	say_tsc("before");
	say_result("refuse", prctl(PR_SET_TSC, PR_TSC_SIGSEGV));
	say_result("get", prctl(PR_GET_TSC, &mode));
	say("mode=%d", mode);
	for (int i = 0; i < 3; i++) {
		SAY_FAULT_OF("rdtsc", NULL, (void)read_tsc());
		say_trap();
		sched_yield();
	}
	SAY_FAULT_OF("rdtscp", NULL, __asm__ volatile("rdtscp" : : : "eax", "ecx", "edx"));
	say_tsc("child");
	pid = spawn();
	if (!pid) {
		execl(self_path, "transcript", "--as", "tsc", NULL);
		_exit(127);
	}
	say_child("executed", pid);
	pid = spawn();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL);
		_exit(clock_gettime(CLOCK_MONOTONIC, &(struct timespec){ 0 }) ? 6 : 5);
	}
	say_child("vdso", pid);
	say_result("coarse", clock_gettime(CLOCK_MONOTONIC_COARSE, &(struct timespec){ 0 }));
	say_result("allow", prctl(PR_SET_TSC, PR_TSC_ENABLE));
	SAY_FAULT_OF("again", NULL, (void)read_tsc());
	say_tsc("child_again");
	say_result("unknown", prctl(PR_SET_TSC, PR_TSC_SIGSEGV + 1));
	say_result("bad_pointer", prctl(PR_GET_TSC, 16));
}

/* A thread has the mode of its creator, and changes its own only. */
CHECK(instructions, time_stamp_counter_of_threads)
{
	uint64_t read = 0;
	pthread_t thread;
	pid_t pid;

	pthread_create(&thread, NULL, read_tsc_in_thread, &read);
	pthread_join(thread, NULL);
	say_bool("free", read);
	pid = spawn();
	if (!pid) {
		signal(SIGSEGV, read_tsc_in_handler);
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
		pthread_create(&thread, NULL, read_tsc_in_thread, &read);
		pthread_join(thread, NULL);
		_exit(6);
	}
	say_child("thread", pid);
}

/* Others take turns with one that may not read the counter, and can read it. */
CHECK(instructions, time_stamp_counter_among_others)
{
	int right = 0;
	pid_t pid = spawn();

	if (!pid) {
		catch_faults();
		prctl(PR_SET_TSC, PR_TSC_SIGSEGV);
		for (volatile int i = 0; i < 100; i++) {
			sched_yield();
			if (!sigsetjmp(fault_return, 1)) {
				(void)read_tsc();
				_exit(1);
			}
		}
		_exit(0);
	}
	for (int i = 0; i < 100; i++) {
		right += read_tsc() > 0;
		sched_yield();
	}
	say_child("refused", pid);
	say("right=%d", right);
}

CHECK(instructions, time_stamp_counter_in_strict_mode)
{
	pid_t pid = spawn();

	if (!pid) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		(void)read_tsc();
		syscall(SYS_exit, 7);
	}
	say_child("strict", pid);
}

CHECK(instructions, cpuid_refused)
{
	unsigned int a, b, c, d;

	catch_faults();
	say_value("get", syscall(SYS_arch_prctl, ARCH_GET_CPUID, 0));
	say_result("set_1", syscall(SYS_arch_prctl, ARCH_SET_CPUID, 1));
	say_result("set_0", syscall(SYS_arch_prctl, ARCH_SET_CPUID, 0));
	SAY_FAULT_OF("cpuid", NULL, __cpuid(0, a, b, c, d));
}

CHECK(instructions, counters_and_controls)
{
	unsigned int a, b, c, d;
	static unsigned int low, high;

	catch_faults();
	__cpuid(1, a, b, c, d);
	SAY_FAULT_OF("rdpmc", NULL, __asm__ volatile("rdpmc" : : "c"(0) : "eax", "edx"));
	say_trap();
	say_bool("osxsave", c & XSAVE_BIT);
	if (c & XSAVE_BIT) {
		SAY_FAULT_OF("xgetbv", NULL, __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0)));
		say("xcr0=%#x,%#x", low, high);
		SAY_FAULT_OF("xgetbv_9", NULL, __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(9)));
		SAY_FAULT_OF("xsetbv", NULL, __asm__ volatile("xsetbv" : : "a"(7), "d"(0), "c"(0)));
	}
	SAY_FAULT_OF("mov_cr4", NULL, __asm__ volatile("mov %%cr4, %0" : "=r"(*(unsigned long[1]){ 0 })));
	SAY_FAULT_OF("mov_dr7", NULL, __asm__ volatile("mov %%dr7, %0" : "=r"(*(unsigned long[1]){ 0 })));
	SAY_FAULT_OF("wrmsr", NULL, __asm__ volatile("wrmsr" : : "c"(0x10), "a"(0), "d"(0)));
	SAY_FAULT_OF("invd", NULL, __asm__ volatile("invd" : : : "memory"));
	SAY_FAULT_OF("clts", NULL, __asm__ volatile("clts"));
	SAY_FAULT_OF("sti", NULL, __asm__ volatile("sti"));
#ifdef __x86_64__
	SAY_FAULT_OF("swapgs", NULL, __asm__ volatile("swapgs"));
#endif
}

/* By each of the instructions that the processor has for it, on one where the thread stays. */
CHECK(instructions, number_of_the_processor)
{
	unsigned int a, b, c = 0, d = 0, number = MODE_UNSET, kernels = MODE_UNSET;
	unsigned long own = MODE_UNSET, limit = MODE_UNSET;
	cpu_set_t here;

	syscall(SYS_getcpu, &kernels, NULL, NULL);
	CPU_ZERO(&here);
	CPU_SET(kernels, &here);
	must("pin", sched_setaffinity(0, sizeof(here), &here) == 0);
	__get_cpuid(0x80000001, &a, &b, &c, &d);
	if (d & RDTSCP_BIT)
		__asm__ volatile("rdtscp" : "=c"(number) : : "eax", "edx");
	say_bool("rdtscp", !(d & RDTSCP_BIT) || number == kernels);
	c = 0;
	__get_cpuid_count(7, 0, &a, &b, &c, &d);
	if (c & CPUID_RDPID_BIT)
		__asm__ volatile("rdpid %0" : "=r"(own));
	say_bool("rdpid", !(c & CPUID_RDPID_BIT) || own == kernels);
	__asm__ volatile("lsl %1, %0" : "+r"(limit) : "r"(0x7bUL) : "cc");
	say_bool("lsl", limit == kernels);
}

/* What the descriptors are that a program may see. */
CHECK(instructions, descriptors)
{
	for (unsigned long selector = 0; selector < 0x100; selector++) {
		unsigned long rights = 0, limit = 0;
		bool lar, lsl, reads, writes;

		if ((selector & 3) != 3 || selector == 0x7b)
			continue;
		__asm__ volatile("lar %2, %0; setz %1" : "+r"(rights), "=q"(lar) : "r"(selector));
		__asm__ volatile("lsl %2, %0; setz %1" : "+r"(limit), "=q"(lsl) : "r"(selector));
		__asm__ volatile("verr %w1; setz %0" : "=q"(reads) : "r"(selector));
		__asm__ volatile("verw %w1; setz %0" : "=q"(writes) : "r"(selector));
		/* A processor may set the accessed bit. */
		if (lar | lsl | reads | writes)
			say("%#lx=%#lx,%#lx,%d%d", selector, rights & ~0x100UL, limit, reads, writes);
	}
}

/*
 * The flags of privileges cannot be set; others keep what a program gives them over a call. With
 * AC set a misaligned access would fault, so nothing is stated meanwhile.
 */
CHECK(instructions, flags)
{
	unsigned long long set, after;

	__writeeflags(__readeflags() | FLAGS_OF_SYSTEM | FLAGS_AC | FLAGS_ID);
	set = __readeflags();
	syscall(SYS_getppid);
	after = __readeflags();
	__writeeflags(after & ~(FLAGS_AC | FLAGS_ID));
	say("set=%#llx after_call=%#llx", set & ~FLAGS_OF_RESULTS, after & ~FLAGS_OF_RESULTS);
	say("cleared=%#llx", (unsigned long long)__readeflags() & ~FLAGS_OF_RESULTS);
	say_result("iopl", syscall(SYS_iopl, 3));
	say_result("ioperm", syscall(SYS_ioperm, 0x80, 1, 1));
}
