// SPDX-License-Identifier: GPL-2.0-only
/*
 * A 32-bit program that goes to 64-bit code by a far jump, a signal's frame and its tracer, and
 * from there forks. One line says for each how the process, and that fork, ended: by 77 as 64-bit
 * code, by 76 if the same bytes were executed as 32-bit code, by 78 the parent of the fork.
 */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

/* Linux's selector of 64-bit user code. */
#define CODE_64 0x33
#define MOST 4

/*
 * wide_code: 48 ff c3 is INC RBX, or DEC EAX and INC EBX. The exits are by SYSCALL and INT 0x80.
 * wide_fork: FORK, and the child goes on at wide_code.
 */
__asm__(".text\n"
	"wide_fork:\n\t"
	".byte 0xb8, 57, 0, 0, 0\n\t"		/* MOV EAX, fork */
	".byte 0x0f, 0x05\n\t"
	".byte 0x85, 0xc0, 0x74, 0x0c\n\t"	/* TEST EAX, EAX; JZ wide_code */
	".byte 0xb8, 60, 0, 0, 0\n\t"		/* MOV EAX, exit */
	".byte 0xbf, 78, 0, 0, 0\n\t"		/* MOV EDI, 78 */
	".byte 0x0f, 0x05\n"
	"wide_code:\n\t"
	".byte 0x31, 0xc0\n\t"			/* XOR EAX, EAX */
	".byte 0x48, 0xff, 0xc3\n\t"
	".byte 0x85, 0xc0, 0x75, 0x0c\n\t"	/* TEST EAX, EAX; JNZ 1f */
	".byte 0xb8, 60, 0, 0, 0\n\t"
	".byte 0xbf, 77, 0, 0, 0\n\t"
	".byte 0x0f, 0x05\n\t"
	"movl $76, %ebx\n\t"
	"movl $1, %eax\n\t"
	"int $0x80\n");
extern const char wide_code[], wide_fork[];

static void change_frame(int number, siginfo_t *information, void *frame)
{
	greg_t *registers = ((ucontext_t *)frame)->uc_mcontext.gregs;

	(void)number;
	(void)information;
	registers[REG_CS] = CODE_64;
	registers[REG_EIP] = (greg_t)wide_code;
}

static void by_frame(void)
{
	struct sigaction action = { .sa_sigaction = change_frame, .sa_flags = SA_SIGINFO };

	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
}

static void far_jump(const char *to)
{
	const struct __attribute__((packed)) {
		const char *ip;
		unsigned short cs;
	} target = { to, CODE_64 };

	__asm__ volatile("ljmpl *%0" :: "m"(target));
}

static void by_jump(void)
{
	far_jump(wide_code);
}

static void by_fork(void)
{
	far_jump(wide_fork);
}

static void by_tracer(void)
{
	struct user_regs_struct registers;
	pid_t pid = fork();
	int status;

	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		_exit(1);
	}
	waitpid(pid, &status, 0);
	ptrace(PTRACE_GETREGS, pid, NULL, &registers);
	registers.xcs = CODE_64;
	registers.eip = (long)wide_code;
	ptrace(PTRACE_SETREGS, pid, NULL, &registers);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		raise(WTERMSIG(status));
	_exit(WEXITSTATUS(status));
}

static int ended(const void *one, const void *other)
{
	return *(const int *)one - *(const int *)other;
}

/* Prints how the child that does this ended, and its children, in the order of numbers. */
static void say(const char *how, void (*go)(void))
{
	int numbers[MOST], count = 0, status;

	fflush(stdout);
	if (!fork()) {
		go();
		_exit(1);
	}
	while (count < MOST && wait(&status) > 0)
		numbers[count++] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	qsort(numbers, count, sizeof(numbers[0]), ended);
	printf("%s", how);
	for (int i = 0; i < count; i++)
		printf(" %d", numbers[i]);
	printf("\n");
}

int main(void)
{
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	say("jump", by_jump);
	say("frame", by_frame);
	say("tracer", by_tracer);
	say("fork", by_fork);
	return 0;
}
