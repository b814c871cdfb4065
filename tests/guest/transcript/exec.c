// SPDX-License-Identifier: GPL-2.0-only
/* Executing programs: what the new program is given, what it keeps, and how execve fails. */
#include "check.h"
#include <elf.h>
#include <sys/auxv.h>
#include <sys/prctl.h>

#define HUGE_ARGUMENT (3UL << 20)

/* The parts this program plays when it is executed again; each returns its exit status. */
static int part_arguments(int argc, char **argv)
{
	extern char **environ;
	int variables = 0;

	while (environ[variables])
		variables++;
	say("argc=%d last=%s env=%d KEEL=%s", argc, argv[argc - 1], variables, getenv("KEEL") ?: "unset");
	return 0;
}

static int part_auxv(void)
{
	static const char zeros[16];

	say("pagesz=%lu clktck=%lu secure=%lu", getauxval(AT_PAGESZ), getauxval(AT_CLKTCK), getauxval(AT_SECURE));
	say("uid=%lu euid=%lu gid=%lu", getauxval(AT_UID), getauxval(AT_EUID), getauxval(AT_GID));
	say("phent=%lu base=%lu flags=%lu", getauxval(AT_PHENT), getauxval(AT_BASE), getauxval(AT_FLAGS));
	say("platform=%s execfn=%s", (char *)getauxval(AT_PLATFORM), (char *)getauxval(AT_EXECFN));
	say_bool("random", getauxval(AT_RANDOM) && memcmp((void *)getauxval(AT_RANDOM), zeros, 16));
	say_bool("vdso_is_elf", getauxval(AT_SYSINFO_EHDR) &&
				!memcmp((void *)getauxval(AT_SYSINFO_EHDR), ELFMAG, SELFMAG));
	say_bool("entry_set", getauxval(AT_ENTRY) && getauxval(AT_PHDR));
	return 0;
}

static int part_signals(void)
{
	struct sigaction usr1, usr2;
	sigset_t mask, pending;

	sigaction(SIGUSR1, NULL, &usr1);
	sigaction(SIGUSR2, NULL, &usr2);
	sigprocmask(SIG_SETMASK, NULL, &mask);
	sigpending(&pending);
	say("handled=%s ignored=%s", usr1.sa_handler == SIG_DFL ? "default" : "kept",
	    usr2.sa_handler == SIG_IGN ? "kept" : "default");
	say_bool("mask_kept", sigismember(&mask, SIGHUP) == 1);
	say_bool("pending_kept", sigismember(&pending, SIGHUP) == 1);
	return 0;
}

static int part_descriptors(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		say("fd%d=%s", i, fcntl(atoi(argv[i]), F_GETFD) == -1 ? errno_name(errno) : "open");
	return 0;
}

/*
 * The registers a new program starts with are gone by now; its flags and FPU control words are not.
 */
static int part_fpu(void)
{
	unsigned short control;
	unsigned mxcsr;

	__asm__ volatile("fnstcw %0" : "=m"(control));
	__asm__ volatile("stmxcsr %0" : "=m"(mxcsr));
	say("control=%#x mxcsr=%#x", control, mxcsr & ~0x3fU);
	return 0;
}

int play_part(int argc, char **argv)
{
	if (!strcmp(argv[0], "exit"))
		return atoi(argv[1]);
	if (!strcmp(argv[0], "arguments"))
		return part_arguments(argc, argv);
	if (!strcmp(argv[0], "auxv"))
		return part_auxv();
	if (!strcmp(argv[0], "signals"))
		return part_signals();
	if (!strcmp(argv[0], "descriptors"))
		return part_descriptors(argc, argv);
	if (!strcmp(argv[0], "fpu"))
		return part_fpu();
	if (!strcmp(argv[0], "tsc"))
		return __builtin_ia32_rdtsc() ? 1 : 2;
	if (!strcmp(argv[0], "pid"))
		return atoi(argv[1]) == getpid() ? 0 : 1;
	return 126;
}

static void no_handler(int signo)
{
	(void)signo;
}

/* Executes this program in a child that plays a part, and states how it ended. */
static void say_part(char **argv, char **environment)
{
	pid_t pid = spawn();

	if (!pid) {
		execve(self_path, argv, environment);
		say_result("execve", -1);
		_exit(127);
	}
	say_child("end", pid);
}

CHECK(exec, arguments)
{
	char *argv[] = { "transcript", "--as", "arguments", "one", "", "three words here", NULL };
	char *environment[] = { "KEEL=a b", "EMPTY=", NULL };

	say_part(argv, environment);
}

CHECK(exec, many_arguments)
{
	char *argv[2004] = { "transcript", "--as", "arguments" };
	char *environment[] = { NULL };

	for (int i = 3; i < 2003; i++)
		argv[i] = "0123456789012345678901234567890123456789";
	argv[2002] = "end";
	say_part(argv, environment);
}

CHECK(exec, empty_argv)
{
	char *argv[] = { NULL };
	char *environment[] = { NULL };
	pid_t pid = spawn();

	if (!pid) {
		execve("/nonexistent", argv, environment);
		say_result("execve", -1);
		_exit(3);
	}
	say_child("end", pid);
}

CHECK(exec, auxiliary_vector)
{
	char *argv[] = { "transcript", "--as", "auxv", NULL };
	char *environment[] = { NULL };

	say_part(argv, environment);
}

CHECK(exec, signals_reset)
{
	char *argv[] = { "transcript", "--as", "signals", NULL };
	char *environment[] = { NULL };
	sigset_t mask;

	signal(SIGUSR1, no_handler);
	signal(SIGUSR2, SIG_IGN);
	sigemptyset(&mask);
	sigaddset(&mask, SIGHUP);
	sigprocmask(SIG_BLOCK, &mask, NULL);
	raise(SIGHUP);
	execve(self_path, argv, environment);
	say_result("execve", -1);
}

CHECK(exec, close_on_exec)
{
	char plain[16], closing[16];
	char *argv[] = { "transcript", "--as", "descriptors", plain, closing, NULL };
	char *environment[] = { NULL };

	snprintf(plain, sizeof plain, "%d", open("/dev/null", O_RDONLY));
	snprintf(closing, sizeof closing, "%d", open("/dev/null", O_RDONLY | O_CLOEXEC));
	say_part(argv, environment);
}

CHECK(exec, fpu_control_reset)
{
	char *argv[] = { "transcript", "--as", "fpu", NULL };
	char *environment[] = { NULL };
	unsigned short control = 0x27f;
	unsigned mxcsr = 0x9fc0;

	__asm__ volatile("fldcw %0" : : "m"(control));
	__asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
	execve(self_path, argv, environment);
	say_result("execve", -1);
}

CHECK(exec, keeps_pid)
{
	char number[16];
	pid_t pid = spawn();

	if (!pid) {
		snprintf(number, sizeof number, "%d", getpid());
		execl(self_path, "transcript", "--as", "pid", number, NULL);
		_exit(127);
	}
	say_child("end", pid);
}

static void say_exec_error(const char *what, const char *path)
{
	char *argv[] = { "x", NULL };
	char *environment[] = { NULL };

	say_result(what, execve(path, argv, environment));
}

CHECK(exec, errors)
{
	close(make_file("plain", "text"));
	close(make_file("garbage", "\1\2\3\4garbage"));
	close(make_file("script", "#!/nonexistent/interpreter\n"));
	chmod("garbage", 0755);
	chmod("script", 0755);
	must("link", symlink("loop", "loop") == 0);
	say_exec_error("absent", "absent");
	say_exec_error("not_executable", "plain");
	say_exec_error("garbage", "garbage");
	say_exec_error("bad_interpreter", "script");
	say_exec_error("directory", ".");
	say_exec_error("below_file", "plain/x");
	say_exec_error("loop", "loop");
	say_exec_error("empty", "");
	say_exec_error("bad_pointer", (char *)1);
}

CHECK(exec, bad_vectors)
{
	char *argv[] = { "x", (char *)8, NULL };
	char *environment[] = { NULL };

	say_result("bad_string", execve(self_path, argv, environment));
	say_result("bad_vector", syscall(SYS_execve, self_path, 8, environment));
	say_result("bad_environment", syscall(SYS_execve, self_path, environment, 8));
}

CHECK(exec, argument_too_big)
{
	char *huge = malloc(HUGE_ARGUMENT);
	char *argv[] = { "x", huge, NULL };
	char *environment[] = { NULL };

	memset(huge, 'a', HUGE_ARGUMENT - 1);
	huge[HUGE_ARGUMENT - 1] = 0;
	say_result("execve", execve(self_path, argv, environment));
}

CHECK(exec, truncated_elf)
{
	char header[sizeof(Elf64_Ehdr)];
	int fd = open(self_path, O_RDONLY), out;

	must("read", read(fd, header, sizeof header) == sizeof header);
	out = open("short", O_WRONLY | O_CREAT, 0755);
	must("write", write(out, header, sizeof header) == sizeof header);
	close(out);
	say_exec_error("execve", "short");
}

CHECK(exec, text_busy)
{
	char buffer[65536];
	int in = open(self_path, O_RDONLY), out = open("copy", O_RDWR | O_CREAT, 0755);
	ssize_t part;

	while ((part = read(in, buffer, sizeof buffer)) > 0)
		must("copy", write(out, buffer, part) == part);
	say_exec_error("open_for_writing", "copy");
}

CHECK(exec, script_arguments)
{
	char target[256] = "", text[300];
	pid_t pid;

	must("readlink", readlink(self_path, target, sizeof target - 1) > 0);
	snprintf(text, sizeof text, "#!%s --as\n", target);
	close(make_file("arguments", text));
	chmod("arguments", 0755);
	pid = spawn();
	if (!pid) {
		clearenv();
		execl("arguments", "ignored", "tail", NULL);
		_exit(127);
	}
	say_child("end", pid);
}

CHECK(exec, from_memory_file)
{
	char *argv[] = { "transcript", "--as", "exit", "9", NULL };
	char *environment[] = { NULL };
	char buffer[65536];
	int in = open(self_path, O_RDONLY), out = memfd_create("program", MFD_CLOEXEC);
	ssize_t part;
	pid_t pid;

	while ((part = read(in, buffer, sizeof buffer)) > 0)
		must("copy", write(out, buffer, part) == part);
	pid = spawn();
	if (!pid) {
		fexecve(out, argv, environment);
		_exit(127);
	}
	say_child("end", pid);
}

CHECK(exec, twenty_in_a_row)
{
	int good = 0, status;

	for (int i = 0; i < 20; i++) {
		char number[16];
		pid_t pid = spawn();

		if (!pid) {
			snprintf(number, sizeof number, "%d", i);
			execl(self_path, "transcript", "--as", "exit", number, NULL);
			_exit(127);
		}
		good += waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == i;
	}
	say("good=%d", good);
}
