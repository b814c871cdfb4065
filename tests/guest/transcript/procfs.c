// SPDX-License-Identifier: GPL-2.0-only
/* What /proc and /sys show, and the system calls that describe the system. */
#include "check.h"
#include <dirent.h>
#include <sys/prctl.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>

/* The rest of the line of the text that begins with the key. */
static const char *field(const char *path, const char *key)
{
	static char line[256];
	const char *found = strstr(slurp(path), key);

	if (!found)
		return "absent";
	found += strlen(key);
	snprintf(line, sizeof line, "%.*s", (int)strcspn(found, "\n"), found);
	return line + strspn(line, " \t");
}

CHECK(procfs, own_status)
{
	say("threads=%s", field("/proc/self/status", "Threads:"));
	say("state=%.1s", field("/proc/self/status", "State:"));
	say("seccomp=%s", field("/proc/self/status", "\nSeccomp:"));
	say("capabilities=%s", field("/proc/self/status", "CapEff:"));
	say("blocked=%s", field("/proc/self/status", "SigBlk:"));
}

CHECK(procfs, command_line_and_environment)
{
	char text[256] = "";
	int fd = open("/proc/self/cmdline", O_RDONLY);

	say_bool("cmdline", read(fd, text, sizeof text) > 0 && strstr(text, "transcript"));
	say_bool("exe", readlink("/proc/self/exe", text, sizeof text) > 0);
	say_bool("cwd", readlink("/proc/self/cwd", text, sizeof text) > 0 && strstr(text, "transcript-work"));
	say_value("root", readlink("/proc/self/root", text, sizeof text));
	say_bool("environ", open("/proc/self/environ", O_RDONLY) >= 0);
}

CHECK(procfs, descriptors)
{
	char path[64], text[256] = "";
	int fd = make_file("named", "content"), again;

	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	say_bool("link", readlink(path, text, sizeof text) > 0 && strstr(text, "/named"));
	again = open(path, O_RDONLY);
	say_value("reopen", read(again, text, 7));
	unlink("named");
	memset(text, 0, sizeof text);
	say_bool("deleted", readlink(path, text, sizeof text) > 0 && strstr(text, "(deleted)"));
	snprintf(path, sizeof path, "/proc/self/fdinfo/%d", fd);
	say("position=%s", field(path, "pos:"));
}

CHECK(procfs, stat_of_other_process)
{
	char path[64], *end;
	pid_t pid = spawn(), parent = -1;
	char state = '?';

	if (!pid)
		for (;;)
			pause();
	say_bool("sleeps", await_state(pid, 'S'));
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	end = strrchr(slurp(path), ')');
	sscanf(end, ") %c %d", &state, &parent);
	say("state=%c own_child=%d", state, parent == getpid());
	kill(pid, SIGKILL);
	say_bool("zombie", await_state(pid, 'Z'));
	say_child("child", pid);
	say_result("gone", access(path, F_OK));
}

CHECK(procfs, wait_channel_and_syscall)
{
	char path[64];
	int ends[2];
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	pid = spawn();
	if (!pid) {
		char byte;

		read(ends[0], &byte, 1);
		_exit(0);
	}
	must("sleep", await_state(pid, 'S'));
	snprintf(path, sizeof path, "/proc/%d/syscall", pid);
	say("number=%d", atoi(slurp(path)));
	kill(pid, SIGKILL);
}

CHECK(procfs, memory_map_names)
{
	const char *maps = slurp("/proc/self/maps");

	say_bool("stack", strstr(maps, "[stack]"));
	say_bool("vdso", strstr(maps, "[vdso]"));
	say_bool("vvar", strstr(maps, "[vvar]"));
}

CHECK(procfs, system_files)
{
	static const char *const paths[] = { "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/loadavg",
					     "/proc/cpuinfo", "/proc/filesystems", "/proc/mounts", "/proc/interrupts",
					     "/proc/devices", "/proc/version", "/proc/cmdline", "/proc/vmstat",
					     "/proc/partitions", "/proc/swaps", "/proc/self/limits", "/proc/self/io",
					     "/proc/self/mountinfo", "/proc/self/cgroup", "/proc/self/oom_score",
					     "/proc/net/dev", "/proc/net/tcp", "/proc/sys/kernel/ostype",
					     "/proc/sys/vm/overcommit_memory", "/sys/kernel/mm", "/sys/class/net/lo/mtu" };

	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		say("%s=%s", paths[i], access(paths[i], R_OK) ? errno_name(errno) : "ok");
}

CHECK(procfs, processor_description)
{
	say("vendor=%s", field("/proc/cpuinfo", "vendor_id\t:"));
	say("model=%s", field("/proc/cpuinfo", "model name\t:"));
	say("address_sizes=%s", field("/proc/cpuinfo", "address sizes\t:"));
}

CHECK(procfs, kernel_settings)
{
	say("ostype=%s", slurp("/proc/sys/kernel/ostype"));
	say("pid_max=%s", slurp("/proc/sys/kernel/pid_max"));
	say("overcommit=%s", slurp("/proc/sys/vm/overcommit_memory"));
	say("core_pattern=%s", slurp("/proc/sys/kernel/core_pattern"));
	say("randomize=%s", slurp("/proc/sys/kernel/randomize_va_space"));
	say("bpf=%s", slurp("/proc/sys/kernel/unprivileged_bpf_disabled"));
}

/* Whether a text begins with one of the kernel's documented words for processor vulnerabilities. */
static bool is_well_formed(const char *text)
{
	static const char *const words[] = { "Not affected", "Vulnerable", "Mitigation: ",
					     "Unknown: ",    "KVM: ",	   "Processor vulnerable" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strncmp(text, words[i], strlen(words[i])) && strchr(text, '\n') == text + strlen(text) - 1)
			return true;
	return false;
}

CHECK(procfs, weaknesses_of_the_processor)
{
	const char *folder = "/sys/devices/system/cpu/vulnerabilities";
	struct dirent **entries;
	char path[512];
	int count = scandir(folder, &entries, NULL, alphasort);

	for (int i = 0; i < count; i++) {
		if (entries[i]->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
		say("%s=%s", entries[i]->d_name, is_well_formed(slurp(path)) ? "ok" : slurp(path));
	}
	say("store_bypass=%s", field("/proc/self/status", "Speculation_Store_Bypass:"));
	say("indirect_branch=%s", field("/proc/self/status", "SpeculationIndirectBranch:"));
}

CHECK(procfs, speculation_control)
{
	static const int kinds[] = { PR_SPEC_STORE_BYPASS, PR_SPEC_INDIRECT_BRANCH, PR_SPEC_L1D_FLUSH, 77 };

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		say("%d:", kinds[i]);
		say_value("state", prctl(PR_GET_SPECULATION_CTRL, kinds[i], 0, 0, 0));
		say_result("on", prctl(PR_SET_SPECULATION_CTRL, kinds[i], PR_SPEC_ENABLE, 0, 0));
		say_result("off", prctl(PR_SET_SPECULATION_CTRL, kinds[i], PR_SPEC_DISABLE, 0, 0));
		say_result("unknown", prctl(PR_SET_SPECULATION_CTRL, kinds[i], 77, 0, 0));
	}
}

/* Whether the log got a line with the text since fd was opened. */
static bool was_logged(int fd, const char *text)
{
	char line[1024];
	bool found = false;

	for (ssize_t length; (length = read(fd, line, sizeof line - 1)) > 0;) {
		line[length] = 0;
		found |= strstr(line, text) != NULL;
	}
	return found;
}

/* The log's line about a program that dies of an exception. */
CHECK(procfs, exception_trace)
{
	const char *setting = "/proc/sys/debug/exception-trace";
	int fd = open("/dev/kmsg", O_RDONLY | O_NONBLOCK), pid, switch_fd = open(setting, O_WRONLY);
	int rate_fd = open("/proc/sys/kernel/printk_ratelimit", O_WRONLY);

	say("setting=%s", slurp(setting));
	/* Faults of other checks are logged too. */
	must("rate", pwrite(rate_fd, "0", 1, 0) == 1);
	for (int on = 1; on >= 0; on--) {
		must("switch", pwrite(switch_fd, on ? "1" : "0", 1, 0) == 1);
		lseek(fd, 0, SEEK_END);
		pid = spawn();
		if (!pid)
			*(volatile int *)16 = 1;
		waitpid(pid, NULL, 0);
		say_bool("segfault", was_logged(fd, ": segfault at 10 ip "));
		pid = spawn();
		if (!pid)
			__builtin_trap();
		waitpid(pid, NULL, 0);
		say_bool("trap", was_logged(fd, " trap invalid opcode ip:"));
	}
	must("switch", pwrite(switch_fd, "1", 1, 0) == 1);
	must("rate", pwrite(rate_fd, "5", 1, 0) == 1);
}

CHECK(procfs, change_setting)
{
	int fd = open("/proc/sys/kernel/hostname", O_RDWR);
	struct utsname name;

	uname(&name);
	say_bool("write", write(fd, name.nodename, strlen(name.nodename)) > 0);
	fd = open("/proc/sys/kernel/pid_max", O_RDWR);
	say_value("bad_value", write(fd, "-5", 2));
	say_value("version", open("/proc/sys/kernel/osrelease", O_WRONLY) >= 0);
}

CHECK(procfs, uname)
{
	struct utsname name;

	say_result("uname", uname(&name));
	say("system=%s machine=%s", name.sysname, name.machine);
	say("release=%.4s", name.release);
}

CHECK(procfs, sysinfo)
{
	struct sysinfo info;

	say_result("sysinfo", sysinfo(&info));
	say("unit=%u", info.mem_unit);
	say_bool("memory", info.totalram > info.freeram && info.freeram > 0);
	say_bool("uptime", info.uptime > 0);
	say_bool("processes", info.procs > 0);
}

CHECK(procfs, task_directory)
{
	struct dirent *entry;
	DIR *directory = opendir("/proc/self/task");
	int count = 0;

	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	say("threads=%d", count);
}

CHECK(procfs, page_map)
{
	uint64_t entries[2] = { 0, 0 };
	volatile char *memory = map_pages(2);
	int fd = open("/proc/self/pagemap", O_RDONLY);

	memory[0] = 1;
	say_value("read", pread(fd, entries, 16, (uintptr_t)memory / PAGE * 8));
	say("present=%d,%d", (int)(entries[0] >> 63), (int)(entries[1] >> 63));
}

CHECK(procfs, idle_time_advances)
{
	double up, idle, later;

	must("uptime", sscanf(slurp("/proc/uptime"), "%lf %lf", &up, &idle) == 2);
	sleep_ms(500);
	must("uptime", sscanf(slurp("/proc/uptime"), "%lf %lf", &up, &later) == 2);
	say_bool("advances", later >= idle);
}
