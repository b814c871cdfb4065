// SPDX-License-Identifier: GPL-2.0-only
/*
 * Kernel mechanisms for special programs: BPF, Landlock, keys, counters, control groups, swap,
 * modules.
 */
#include "check.h"
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/hw_breakpoint.h>
#include <linux/keyctl.h>
#include <linux/landlock.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/swap.h>

#define MEGABYTE (1UL << 20)
#define SWAP_MAGIC "SWAPSPACE2"
#define SWAP_MAGIC_AT (PAGE - 10)
#define SWAP_HEADER_AT 1024
#define BPF_LOG_BYTES 4096

static long bpf(int command, union bpf_attr *attributes)
{
	return syscall(SYS_bpf, command, attributes, sizeof *attributes);
}

static int make_map(enum bpf_map_type type, unsigned entries)
{
	union bpf_attr attributes = { .map_type = type, .key_size = 4, .value_size = 8, .max_entries = entries };

	return bpf(BPF_MAP_CREATE, &attributes);
}

static long map_operation(int command, int map, unsigned key, uint64_t *value)
{
	union bpf_attr attributes = { .map_fd = map, .key = (uintptr_t)&key, .value = (uintptr_t)value };

	return bpf(command, &attributes);
}

CHECK(bpf, maps)
{
	int map = make_map(BPF_MAP_TYPE_HASH, 4);
	uint64_t value = 0;

	say_bool("made", map >= 0);
	for (unsigned key = 10; key < 15; key++) {
		value = key * key;
		say_result("update", map_operation(BPF_MAP_UPDATE_ELEM, map, key, &value));
	}
	say_result("lookup", map_operation(BPF_MAP_LOOKUP_ELEM, map, 12, &value));
	say("value=%lu", (unsigned long)value);
	say_result("delete", map_operation(BPF_MAP_DELETE_ELEM, map, 12, NULL));
	say_result("gone", map_operation(BPF_MAP_LOOKUP_ELEM, map, 12, &value));
	say_result("array", map_operation(BPF_MAP_DELETE_ELEM, make_map(BPF_MAP_TYPE_ARRAY, 2), 0, NULL));
	say_bool("no_entries", make_map(BPF_MAP_TYPE_HASH, 0) >= 0);
}

static int load_program(const struct bpf_insn *code, unsigned count, char *log)
{
	union bpf_attr attributes = {
		.prog_type = BPF_PROG_TYPE_SOCKET_FILTER,
		.insns = (uintptr_t)code,
		.insn_cnt = count,
		.license = (uintptr_t)"GPL",
		.log_buf = (uintptr_t)log,
		.log_size = log ? BPF_LOG_BYTES : 0,
		.log_level = log ? 1 : 0,
	};

	return bpf(BPF_PROG_LOAD, &attributes);
}

#define BPF_PUT(register, value) \
	((struct bpf_insn){ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = register, .imm = value })
#define BPF_LEAVE ((struct bpf_insn){ .code = BPF_JMP | BPF_EXIT })

/*
 * Adds up 1 to n in a loop without calls. Its result is the length to which the packet is cut.
 */
static int load_sum(int n)
{
	const struct bpf_insn code[] = {
		BPF_PUT(BPF_REG_0, 0),
		BPF_PUT(BPF_REG_1, 0),
		{ .code = BPF_ALU64 | BPF_ADD | BPF_K, .dst_reg = BPF_REG_1, .imm = 1 },
		{ .code = BPF_ALU64 | BPF_ADD | BPF_X, .dst_reg = BPF_REG_0, .src_reg = BPF_REG_1 },
		{ .code = BPF_JMP | BPF_JLT | BPF_K, .dst_reg = BPF_REG_1, .off = -3, .imm = n },
		BPF_LEAVE,
	};

	return load_program(code, ARRAY_SIZE(code), NULL);
}

CHECK(bpf, program)
{
	int program = load_sum(20), ends[2];
	char packet[64] = "", data[400] = "";
	union bpf_attr run = { .test = { .prog_fd = program, .data_in = (uintptr_t)packet, .data_size_in = sizeof packet } };

	must("load", program >= 0);
	say_result("run", bpf(BPF_PROG_TEST_RUN, &run));
	say("sum=%u", run.test.retval);
	must("pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	say_result("attach", setsockopt(ends[0], SOL_SOCKET, SO_ATTACH_BPF, &program, sizeof program));
	must("send", send(ends[1], data, sizeof data, 0) == sizeof data);
	say_value("kept", recv(ends[0], data, sizeof data, 0));
}

CHECK(bpf, verifier)
{
	static char log[BPF_LOG_BYTES];
	const struct bpf_insn unset[] = { BPF_LEAVE };
	const struct bpf_insn endless[] = { { .code = BPF_JMP | BPF_JA, .off = -1 }, BPF_LEAVE };
	const struct bpf_insn wild[] = {
		BPF_PUT(BPF_REG_1, 0), { .code = BPF_LDX | BPF_MEM | BPF_DW, .src_reg = BPF_REG_1 }, BPF_LEAVE
	};

	say_result("unset", load_program(unset, 1, log));
	say("%s", log);
	say_result("endless", load_program(endless, 2, log));
	say_result("wild", load_program(wild, 3, log));
	say_result("empty", load_program(wild, 0, NULL));
}

CHECK(bpf, classic_filter)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 0),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 'y', 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 4),
		BPF_STMT(BPF_RET | BPF_K, 0),
	};
	struct sock_fprog program = { ARRAY_SIZE(code), code };
	char data[16];
	int ends[2];

	must("pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	say_result("attach", setsockopt(ends[0], SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program));
	say_value("no", send(ends[1], "no message", 10, 0));
	say_value("yes", send(ends[1], "yes, this", 9, 0));
	say_value("kept", recv(ends[0], data, sizeof data, MSG_DONTWAIT));
	say_value("no_more", recv(ends[0], data, sizeof data, MSG_DONTWAIT));
	say_result("detach", setsockopt(ends[0], SOL_SOCKET, SO_DETACH_FILTER, &program, sizeof program));
}

CHECK(bpf, compiler_switch)
{
	say("enable=%s", slurp("/proc/sys/net/core/bpf_jit_enable"));
}

CHECK(landlock, version)
{
	say_value("version", syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION));
	say_result("bad_size", syscall(SYS_landlock_create_ruleset, &errno, 3, 0));
}

CHECK(landlock, confines)
{
	struct landlock_ruleset_attr rules = { .handled_access_fs = LANDLOCK_ACCESS_FS_READ_FILE |
								    LANDLOCK_ACCESS_FS_WRITE_FILE };
	struct landlock_path_beneath_attr allowed = { .allowed_access = LANDLOCK_ACCESS_FS_READ_FILE };
	int set = syscall(SYS_landlock_create_ruleset, &rules, sizeof rules, 0);

	must("make rules", set >= 0);
	close(make_file("outside", "x"));
	mkdir("inside", 0755);
	close(make_file("inside/file", "x"));
	allowed.parent_fd = open("inside", O_PATH | O_DIRECTORY);
	say_result("rule", syscall(SYS_landlock_add_rule, set, LANDLOCK_RULE_PATH_BENEATH, &allowed, 0));
	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	say_result("restrict", syscall(SYS_landlock_restrict_self, set, 0));
	say_result("read_inside", open("inside/file", O_RDONLY));
	say_result("write_inside", open("inside/file", O_WRONLY));
	say_result("read_outside", open("outside", O_RDONLY));
}

static long keyctl(int operation, long a, long b, long c, long d)
{
	return syscall(SYS_keyctl, operation, a, b, c, d);
}

CHECK(keys, add_and_read)
{
	char text[64] = "";
	long key = syscall(SYS_add_key, "user", "keel:one", "secret", 6, KEY_SPEC_PROCESS_KEYRING);

	say_bool("added", key > 0);
	say_value("read", keyctl(KEYCTL_READ, key, (long)text, sizeof text, 0));
	say("text=%s", text);
	say_value("describe", keyctl(KEYCTL_DESCRIBE, key, (long)text, sizeof text, 0));
	say("text=%s", text);
	say_result("update", keyctl(KEYCTL_UPDATE, key, (long)"other", 5, 0));
	say_bool("found", keyctl(KEYCTL_SEARCH, KEY_SPEC_PROCESS_KEYRING, (long)"user", (long)"keel:one", 0) == key);
	say_result("absent", keyctl(KEYCTL_SEARCH, KEY_SPEC_PROCESS_KEYRING, (long)"user", (long)"keel:two", 0));
	say_result("revoke", keyctl(KEYCTL_REVOKE, key, 0, 0, 0));
	say_result("after", keyctl(KEYCTL_READ, key, (long)text, sizeof text, 0));
}

CHECK(keys, session_is_inherited)
{
	long session = keyctl(KEYCTL_JOIN_SESSION_KEYRING, (long)"keel", 0, 0, 0);
	long key = syscall(SYS_add_key, "user", "keel:child", "x", 1, KEY_SPEC_SESSION_KEYRING);
	pid_t pid;

	say_bool("session", session > 0 && key > 0);
	pid = spawn();
	if (!pid)
		_exit(syscall(SYS_request_key, "user", "keel:child", NULL, 0) == key ? 7 : 8);
	say_child("child", pid);
	say_result("timeout", keyctl(KEYCTL_SET_TIMEOUT, key, 1000, 0, 0));
	say_result("bad_type", syscall(SYS_add_key, "no such", "x", "x", 1, KEY_SPEC_SESSION_KEYRING));
}

static int open_counter(unsigned type, unsigned long config, unsigned long period)
{
	struct perf_event_attr attributes = {
		.type = type,
		.size = sizeof attributes,
		.config = config,
		.disabled = 1,
		.sample_period = period,
		.sample_type = period ? PERF_SAMPLE_IP | PERF_SAMPLE_TID : 0,
	};

	return syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
}

static uint64_t read_counter(int fd)
{
	uint64_t count = 0;

	ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	must("read a counter", read(fd, &count, sizeof count) == sizeof count);
	return count;
}

CHECK(counters, page_faults)
{
	int faults = open_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 0);
	volatile char *memory = map_pages(8);

	must("open", faults >= 0);
	say_result("enable", ioctl(faults, PERF_EVENT_IOC_ENABLE, 0));
	for (int i = 0; i < 8; i++)
		memory[i * PAGE] = 1;
	say_bool("eight", read_counter(faults) >= 8);
	say_result("reset", ioctl(faults, PERF_EVENT_IOC_RESET, 0));
	say("after=%lu", (unsigned long)read_counter(faults));
}

CHECK(counters, clocks_and_switches)
{
	int clock = open_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_TASK_CLOCK, 0);
	int switches = open_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 0);
	uint64_t used;

	must("open", clock >= 0 && switches >= 0);
	ioctl(clock, PERF_EVENT_IOC_ENABLE, 0);
	ioctl(switches, PERF_EVENT_IOC_ENABLE, 0);
	for (int64_t end = now_ns() + 20 * MILLISECOND; now_ns() < end;)
		;
	sleep_ms(1);
	used = read_counter(clock);
	say_bool("time", used > 10 * MILLISECOND && used < 10000 * (uint64_t)MILLISECOND);
	say_bool("switched", read_counter(switches) >= 1);
}

CHECK(counters, samples)
{
	int clock = open_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK, MILLISECOND);
	struct perf_event_mmap_page *ring;
	struct perf_event_header *first;

	must("open", clock >= 0);
	ring = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, clock, 0);
	must("map", ring != MAP_FAILED);
	ioctl(clock, PERF_EVENT_IOC_ENABLE, 0);
	for (int64_t end = now_ns() + 30 * MILLISECOND; now_ns() < end;)
		;
	ioctl(clock, PERF_EVENT_IOC_DISABLE, 0);
	first = (void *)((char *)ring + PAGE);
	say_bool("some", ring->data_head > 0);
	say("type=%u size=%u", first->type, first->size);
	say_bool("own", ((unsigned *)(first + 1))[2] == (unsigned)getpid());
}

CHECK(counters, breakpoint)
{
	static volatile int watched, other;
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof attributes,
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)&watched,
		.bp_len = HW_BREAKPOINT_LEN_4,
		.disabled = 1,
		.exclude_kernel = 1,
	};
	int writes = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);

	must("open", writes >= 0);
	ioctl(writes, PERF_EVENT_IOC_ENABLE, 0);
	for (int i = 0; i < 5; i++) {
		watched = other = i;
		sched_yield();
	}
	say("writes=%lu", (unsigned long)read_counter(writes));
	watched = 0;
	say("after=%lu", (unsigned long)read_counter(writes));
	attributes.bp_addr++;
	say_result("unaligned", syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0));
}

/* Writes to these variables are counted, or trapped, in other threads. */
static volatile int watched_by_others;
static volatile bool enough;
static int caught, last_code;

static struct perf_event_attr watching_others(void)
{
	return (struct perf_event_attr){
		.type = PERF_TYPE_BREAKPOINT,
		.size = sizeof(struct perf_event_attr),
		.bp_type = HW_BREAKPOINT_W,
		.bp_addr = (uintptr_t)&watched_by_others,
		.bp_len = HW_BREAKPOINT_LEN_4,
		.disabled = 1,
		.exclude_kernel = 1,
	};
}

static void *write_and_yield(void *rounds)
{
	for (intptr_t i = 0; i < (intptr_t)rounds; i++) {
		watched_by_others = i;
		sched_yield();
	}
	return NULL;
}

static void count_trap(int signal, siginfo_t *info, void *context)
{
	__atomic_fetch_add(&caught, 1, __ATOMIC_RELAXED);
	last_code = info->si_code;
}

CHECK(counters, breakpoint_of_all_threads)
{
	struct perf_event_attr attributes = watching_others();
	struct sigaction action = { .sa_sigaction = count_trap, .sa_flags = SA_SIGINFO };
	pthread_t threads[4];
	int writes;

	attributes.inherit = attributes.inherit_thread = 1;
	attributes.sigtrap = attributes.remove_on_exec = 1;
	attributes.sample_period = 1;
	sigaction(SIGTRAP, &action, NULL);
	writes = syscall(SYS_perf_event_open, &attributes, 0, -1, -1, 0);
	must("open", writes >= 0);
	ioctl(writes, PERF_EVENT_IOC_ENABLE, 0);
	for (int i = 0; i < 4; i++)
		must("create", pthread_create(&threads[i], NULL, write_and_yield, (void *)100) == 0);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	write_and_yield((void *)10);
	say("caught=%d code=%d", caught, last_code);
	say("writes=%lu", (unsigned long)read_counter(writes));
	write_and_yield((void *)10);
	say("after=%d", caught);
}

CHECK(counters, breakpoint_of_a_processor)
{
	struct perf_event_attr attributes = watching_others();
	cpu_set_t first;
	int writes = syscall(SYS_perf_event_open, &attributes, -1, 0, -1, 0);
	pid_t pids[2];

	must("open", writes >= 0);
	CPU_ZERO(&first);
	CPU_SET(0, &first);
	sched_setaffinity(0, sizeof first, &first);
	ioctl(writes, PERF_EVENT_IOC_ENABLE, 0);
	for (int i = 0; i < 2; i++) {
		pids[i] = spawn();
		if (!pids[i]) {
			write_and_yield((void *)50);
			_exit(0);
		}
	}
	write_and_yield((void *)50);
	say_child("first", pids[0]);
	say_child("second", pids[1]);
	say("writes=%lu", (unsigned long)read_counter(writes));
}

static void *write_on(void *thread)
{
	__atomic_store_n((pid_t *)thread, gettid(), __ATOMIC_RELEASE);
	while (!enough)
		watched_by_others = 1;
	return NULL;
}

CHECK(counters, breakpoint_of_a_running_thread)
{
	struct perf_event_attr attributes = watching_others();
	uint64_t count = 0, before;
	pid_t id = 0;
	pthread_t thread;
	int writes;

	must("create", pthread_create(&thread, NULL, write_on, &id) == 0);
	while (!__atomic_load_n(&id, __ATOMIC_ACQUIRE))
		sched_yield();
	writes = syscall(SYS_perf_event_open, &attributes, id, -1, -1, 0);
	must("open", writes >= 0);
	sleep_ms(20);
	ioctl(writes, PERF_EVENT_IOC_ENABLE, 0);
	for (int i = 0; i < 5000 && !count; i++) {
		sleep_ms(1);
		must("read", read(writes, &count, sizeof count) == sizeof count);
	}
	say_bool("counted", count > 0);
	before = read_counter(writes);
	sleep_ms(20);
	say("more=%lu", (unsigned long)(read_counter(writes) - before));
	enough = true;
	pthread_join(thread, NULL);
}

CHECK(counters, others)
{
	say_result("no_type", open_counter(99, 0, 0));
	say_result("hardware", open_counter(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 0));
	say_result("dummy", open_counter(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY, 0));
	say_result("no_software", open_counter(PERF_TYPE_SOFTWARE, 999, 0));
}

static void write_file(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		say("%s=%s", path, errno_name(errno));
	close(fd);
}

/* A group of its own, in a hierarchy that only this check sees. */
static void enter_group(void)
{
	char self[16];

	must("unshare", unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
	mkdir("groups", 0755);
	must("mount", mount("none", "groups", "cgroup2", 0, NULL) == 0);
	write_file("groups/cgroup.subtree_control", "+memory +pids +cpu");
	rmdir("groups/keel");
	must("make a group", mkdir("groups/keel", 0755) == 0);
	snprintf(self, sizeof self, "%d", getpid());
	write_file("groups/keel/cgroup.procs", self);
}

/* The group can be removed when it is empty. */
static void leave_group(void)
{
	char self[16];

	snprintf(self, sizeof self, "%d", getpid());
	write_file("groups/cgroup.procs", self);
	say_result("remove", rmdir("groups/keel"));
	umount2("groups", MNT_DETACH);
}

CHECK(groups, limit_processes)
{
	pid_t pid;

	enter_group();
	write_file("groups/keel/pids.max", "2");
	pid = spawn();
	if (!pid)
		_exit(fork() == -1 ? errno : 0);
	say_child("third", pid);
	say("events=%s", slurp("groups/keel/pids.events"));
	leave_group();
}

CHECK(groups, limit_memory)
{
	pid_t pid;
	const char *events;

	enter_group();
	write_file("groups/keel/memory.max", "16M");
	pid = spawn();
	if (!pid) {
		char *memory = mmap(NULL, 64 * MEGABYTE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		write_file("/proc/self/oom_score_adj", "1000");
		memset(memory, 1, 64 * MEGABYTE);
		_exit(0);
	}
	say_child("greedy", pid);
	events = strstr(slurp("groups/keel/memory.events"), "oom_kill");
	say("%.10s", events ? events : "nothing");
	leave_group();
}

CHECK(groups, freeze_and_kill)
{
	pid_t pid;

	enter_group();
	pid = spawn();
	if (!pid)
		for (;;)
			;
	mkdir("groups/other", 0755);
	{
		char number[16];

		snprintf(number, sizeof number, "%d", pid);
		write_file("groups/other/cgroup.procs", number);
	}
	write_file("groups/other/cgroup.freeze", "1");
	for (int i = 0; i < 1000 && !strstr(slurp("groups/other/cgroup.events"), "frozen 1"); i++)
		sleep_ms(1);
	say("events=%s", slurp("groups/other/cgroup.events"));
	write_file("groups/other/cgroup.freeze", "0");
	write_file("groups/other/cgroup.kill", "1");
	say_child("child", pid);
	for (int i = 0; i < 1000 && rmdir("groups/other") && errno == EBUSY; i++)
		sleep_ms(1);
	leave_group();
}

CHECK(groups, limit_processor)
{
	const char *throttled;

	enter_group();
	write_file("groups/keel/cpu.max", "5000 50000");
	for (int64_t end = now_ns() + 200 * MILLISECOND; now_ns() < end;)
		;
	throttled = strstr(slurp("groups/keel/cpu.stat"), "nr_throttled ");
	say_bool("throttled", throttled && atoi(throttled + strlen("nr_throttled ")) > 0);
	write_file("groups/keel/cpu.max", "max 50000");
	leave_group();
}

/* A swap area in a file: the header that mkswap writes, and nothing else. */
static void make_swap(const char *name, unsigned pages)
{
	struct {
		unsigned version, last, bad;
	} header = { 1, pages - 1, 0 };
	char *zeros = calloc(pages, PAGE);
	int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);

	must("make a swap file", fd >= 0 && write(fd, zeros, pages * PAGE) == (ssize_t)(pages * PAGE));
	must("write its header", pwrite(fd, &header, sizeof header, SWAP_HEADER_AT) == sizeof header &&
				 pwrite(fd, SWAP_MAGIC, 10, SWAP_MAGIC_AT) == 10 && fsync(fd) == 0);
	close(fd);
	free(zeros);
}

CHECK(swap, pages_go_and_come)
{
	enum { PAGES = 512 };
	const char *out;
	int wrong = 0;
	char *memory = map_pages(PAGES);
	pid_t pid;

	must("go to a disk", chdir("/var/tmp") == 0);
	make_swap("area", 1024);
	say_result("on", swapon("area", 0));
	for (int i = 0; i < PAGES; i++)
		memset(memory + i * PAGE, i % 251, PAGE);
	say_result("page_out", madvise(memory, PAGES * PAGE, MADV_PAGEOUT));
	out = strstr(slurp("/proc/self/status"), "VmSwap:");
	say_bool("most_out", out && atoi(out + strlen("VmSwap:")) > (int)(PAGES / 2 * PAGE / 1024));
	pid = spawn();
	if (!pid) {
		for (int i = 0; i < PAGES; i += 3)
			memory[i * PAGE] = 1;
		_exit(memory[PAGE] == 1 ? 5 : 6);
	}
	say_child("child", pid);
	for (int i = 0; i < PAGES; i++)
		for (unsigned k = 0; k < PAGE; k += 64)
			wrong += (unsigned char)memory[i * PAGE + k] != i % 251;
	say("wrong=%d", wrong);
	madvise(memory, PAGES * PAGE, MADV_PAGEOUT);
	say_result("off", swapoff("area"));
	say("first=%d last=%d", memory[0], memory[PAGES * PAGE - 1]);
	unlink("area");
}

CHECK(swap, errors)
{
	close(make_file("text", "no swap area"));
	say_result("plain", swapon("text", 0));
	say_result("absent", swapon("none", 0));
	say_result("not_on", swapoff("text"));
	must("go to a disk", chdir("/var/tmp") == 0);
	make_swap("area", 64);
	say_result("on", swapon("area", 0));
	say_result("twice", swapon("area", 0));
	say_result("written", open("area", O_RDWR));
	say_result("off", swapoff("area"));
	unlink("area");
}

CHECK(modules, errors)
{
	static const char text[] = "no module";

	say_result("text", syscall(SYS_init_module, text, sizeof text, ""));
	say_result("bad_pointer", syscall(SYS_init_module, 8L, 100L, ""));
	say_result("bad_file", syscall(SYS_finit_module, 99, "", 0));
	say_result("absent", syscall(SYS_delete_module, "no_such_module", O_NONBLOCK));
}

CHECK(modules, another_kernel_is_refused)
{
	say_result("kexec_load", syscall(SYS_kexec_load, 0L, 0L, NULL, 0L));
}

CHECK(personality, read_implies_exec)
{
	char *memory;
	pid_t pid;

	say_value("first", personality(0xffffffff));
	say_value("set", personality(READ_IMPLIES_EXEC));
	memory = map_pages(1);
	memory[0] = '\xc3';
	catch_faults();
	SAY_FAULT_OF("execute", memory, ((void (*)(void))memory)());
	pid = spawn();
	if (!pid)
		_exit(personality(0xffffffff) == READ_IMPLIES_EXEC ? 3 : 4);
	say_child("child", pid);
}

CHECK(personality, names_and_addresses)
{
	say_value("linux32", personality(PER_LINUX32));
	say("machine=%s", strstr(slurp("/proc/sys/kernel/arch"), "86") ? "86" : "other");
	say_value("no_random", personality(ADDR_NO_RANDOMIZE));
	say_value("limit", personality(ADDR_LIMIT_3GB));
	say_value("last", personality(0xffffffff));
}
