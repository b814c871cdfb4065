// SPDX-License-Identifier: GPL-2.0-only
/* Users, groups, capabilities, namespaces and system call filters. */
#include "check.h"
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>

#define TEST_USER 1000

CHECK(credentials, become_user)
{
	uid_t real, effective, saved;

	say_result("setresuid", setresuid(TEST_USER, TEST_USER + 1, 0));
	getresuid(&real, &effective, &saved);
	say("real=%u effective=%u saved=%u", real, effective, saved);
	say_result("back_to_root", seteuid(0));
	say_result("drop", setuid(TEST_USER));
	say_result("again_root", setuid(0));
	say_result("other", setresuid(TEST_USER + 2, -1, -1));
}

CHECK(credentials, groups)
{
	gid_t list[4] = { 5, 7, 3 };

	say_result("set", setgroups(3, list));
	say_value("count", getgroups(0, NULL));
	getgroups(4, list);
	say("groups=%u,%u,%u", list[0], list[1], list[2]);
	say_value("small", getgroups(1, list));
	say_result("setgid", setgid(50));
	say_result("setuid", setuid(TEST_USER));
	say_result("setgroups", setgroups(0, NULL));
}

CHECK(credentials, file_system_user)
{
	say_value("old", setfsuid(TEST_USER));
	say_value("now", setfsuid(-1));
	say_value("write", open("by_user", O_CREAT | O_WRONLY, 0600));
}

CHECK(credentials, signal_permission)
{
	pid_t pid = spawn();

	if (!pid)
		for (;;)
			pause();
	if (!spawn()) {
		must("setuid", setuid(TEST_USER) == 0);
		say_result("to_root", kill(pid, SIGTERM));
		say_result("to_init", kill(1, 0));
		_exit(0);
	}
	waitpid(-1, NULL, 0);
	kill(pid, SIGKILL);
	say_child("child", pid);
}

CHECK(credentials, capabilities)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	struct __user_cap_data_struct data[2];

	say_result("get", syscall(SYS_capget, &header, data));
	say_bool("full", data[0].effective == 0xffffffff);
	data[0].effective = data[0].permitted = data[0].inheritable = 0;
	say_result("drop", syscall(SYS_capset, &header, data));
	say_result("chroot", chroot("."));
	data[0].permitted = 1;
	say_result("regain", syscall(SYS_capset, &header, data));
	say_value("bounding", prctl(PR_CAPBSET_READ, CAP_SYS_ADMIN));
	say_value("unknown", prctl(PR_CAPBSET_READ, 63));
}

CHECK(credentials, no_new_privileges)
{
	say_value("before", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	say_result("set", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	say_value("after", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	say_result("clear", prctl(PR_SET_NO_NEW_PRIVS, 0, 0, 0, 0));
}

CHECK(namespaces, host_name)
{
	char name[64] = "";

	say_result("unshare", unshare(CLONE_NEWUTS));
	say_result("set", sethostname("inner", 5));
	gethostname(name, sizeof name);
	say("name=%s", name);
	say_result("too_long", sethostname(name, 65));
}

CHECK(namespaces, process_ids)
{
	pid_t pid;

	say_result("unshare", unshare(CLONE_NEWPID));
	pid = spawn();
	if (!pid) {
		say("pid=%d parent=%d", getpid(), getppid());
		pid = fork();
		if (!pid)
			_exit(getpid());
		say_child("inner", pid);
		_exit(0);
	}
	say_child("first", pid);
	say_result("after_init_died", fork());
}

CHECK(namespaces, users)
{
	int fd;
	pid_t pid;

	must("setuid", setgid(TEST_USER) == 0 && setuid(TEST_USER) == 0);
	prctl(PR_SET_DUMPABLE, 1);
	pid = spawn();
	if (!pid) {
		say_result("unshare", unshare(CLONE_NEWUSER));
		say("unmapped=%u", getuid());
		fd = open("/proc/self/uid_map", O_WRONLY);
		say_value("map", write(fd, "0 1000 1", 8));
		say("mapped=%u", getuid());
		say_result("mounts", unshare(CLONE_NEWNS));
		_exit(0);
	}
	say_child("child", pid);
}

CHECK(namespaces, network)
{
	say_result("unshare", unshare(CLONE_NEWNET));
	say_bool("no_default_route", strlen(slurp("/proc/net/route")) < 200);
	say_bool("only_loopback", strstr(slurp("/proc/self/net/dev"), "lo:") != NULL);
}

CHECK(namespaces, mounts)
{
	must("unshare", unshare(CLONE_NEWNS) == 0);
	say_bool("different", access("/proc/self/ns/mnt", F_OK) == 0);
	say_value("bad_flags", unshare(0x1));
	say_value("setns_bad", setns(open("/dev/null", O_RDONLY), 0));
}

#define LOAD(offset) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset)
#define IF_EQUAL(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define RETURN(value) BPF_STMT(BPF_RET | BPF_K, value)

/* Installs a filter that gives the action for one system call and lets all others pass. */
static long filter_call(unsigned number, unsigned action)
{
	struct sock_filter program[] = { LOAD(offsetof(struct seccomp_data, nr)), IF_EQUAL(number, 0, 1), RETURN(action),
					 RETURN(SECCOMP_RET_ALLOW) };
	struct sock_fprog filter = { ARRAY_SIZE(program), program };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

CHECK(seccomp, error)
{
	say_result("filter", filter_call(SYS_getppid, SECCOMP_RET_ERRNO | 77));
	say_result("getppid", syscall(SYS_getppid));
	say_bool("getpid", syscall(SYS_getpid) > 0);
	say_value("mode", prctl(PR_GET_SECCOMP));
}

CHECK(seccomp, kill)
{
	pid_t pid = spawn();

	if (!pid) {
		filter_call(SYS_getppid, SECCOMP_RET_KILL_PROCESS);
		syscall(SYS_getppid);
		_exit(0);
	}
	say_child("child", pid);
}

CHECK(seccomp, strict)
{
	pid_t pid = spawn();

	if (!pid) {
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
		syscall(SYS_getpid);
		syscall(SYS_exit, 0);
	}
	say_child("child", pid);
}

static volatile sig_atomic_t trapped_call, trapped_errno, trapped_arch;

static void on_trap(int signo, siginfo_t *info, void *context)
{
	ucontext_t *user = context;

	(void)signo;
	trapped_call = info->si_syscall;
	trapped_errno = info->si_errno;
	trapped_arch = info->si_arch == AUDIT_ARCH_X86_64;
	user->uc_mcontext.gregs[REG_RESULT] = 321;
}

CHECK(seccomp, trap)
{
	struct sigaction action = { .sa_sigaction = on_trap, .sa_flags = SA_SIGINFO };

	sigaction(SIGSYS, &action, NULL);
	say_result("filter", filter_call(SYS_getppid, SECCOMP_RET_TRAP | 5));
	say_value("getppid", syscall(SYS_getppid));
	say("call=%d errno=%d arch=%d", trapped_call, trapped_errno, trapped_arch);
}

CHECK(seccomp, inherited_over_exec)
{
	pid_t pid = spawn();

	if (!pid) {
		filter_call(SYS_exit_group, SECCOMP_RET_KILL_PROCESS);
		execl(self_path, "transcript", "--as", "exit", "0", NULL);
	}
	say_child("child", pid);
}

CHECK(seccomp, bad_program)
{
	struct sock_filter program[] = { BPF_STMT(0xffff, 0) };
	struct sock_fprog filter = { 1, program };

	prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
	say_result("bad", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
	filter.len = 0;
	say_result("empty", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter));
	say_result("bad_pointer", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, 8));
	say_result("bad_mode", prctl(PR_SET_SECCOMP, 9, NULL));
}
