// SPDX-License-Identifier: GPL-2.0-only
/* Threads: pthreads, raw clone, futexes of all kinds, thread-local storage, rseq, membarrier. */
#include "check.h"
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/prctl.h>

#define STACK_BYTES 65536
#define ROUNDS 5000

static long futex(void *word, int operation, unsigned value, const struct timespec *limit)
{
	return syscall(SYS_futex, word, operation, value, limit, NULL, 0);
}

static void *return_argument(void *argument)
{
	return argument;
}

CHECK(threads, create_and_join)
{
	pthread_t threads[40];
	long sum = 0;

	for (long i = 0; i < 40; i++)
		must("create", pthread_create(&threads[i], NULL, return_argument, (void *)i) == 0);
	for (int i = 0; i < 40; i++) {
		void *result;

		pthread_join(threads[i], &result);
		sum += (long)result;
	}
	say("sum=%ld", sum);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static long counter;

static void *count_under_mutex(void *argument)
{
	for (int i = 0; i < ROUNDS; i++) {
		pthread_mutex_lock(&mutex);
		counter++;
		pthread_mutex_unlock(&mutex);
	}
	return argument;
}

static void run_threads(int count, void *(*body)(void *))
{
	pthread_t threads[32];

	for (long i = 0; i < count; i++)
		must("create", pthread_create(&threads[i], NULL, body, (void *)i) == 0);
	for (int i = 0; i < count; i++)
		pthread_join(threads[i], NULL);
}

CHECK(threads, mutex)
{
	run_threads(8, count_under_mutex);
	say("counter=%ld", counter);
}

static void *take_turns(void *argument)
{
	long self = (long)argument;

	pthread_mutex_lock(&mutex);
	while (counter < 300) {
		if (counter % 3 == self) {
			counter++;
			pthread_cond_broadcast(&condition);
		} else {
			pthread_cond_wait(&condition, &mutex);
		}
	}
	pthread_mutex_unlock(&mutex);
	return NULL;
}

CHECK(threads, condition_variable)
{
	run_threads(3, take_turns);
	say("counter=%ld", counter);
}

static pthread_barrier_t barrier;

static void *meet(void *argument)
{
	for (int i = 0; i < 20; i++)
		if (pthread_barrier_wait(&barrier) == PTHREAD_BARRIER_SERIAL_THREAD)
			counter++;
	return argument;
}

CHECK(threads, barrier)
{
	pthread_barrier_init(&barrier, NULL, 6);
	run_threads(6, meet);
	say("serial=%ld", counter);
}

static __thread long own = 5;
static long *own_addresses[4];

static void *use_local_storage(void *argument)
{
	long self = (long)argument;

	own_addresses[self] = &own;
	own += self;
	for (int i = 0; i < 100; i++)
		sched_yield();
	__atomic_fetch_add(&counter, own, __ATOMIC_SEQ_CST);
	return NULL;
}

CHECK(threads, local_storage)
{
	run_threads(4, use_local_storage);
	say("sum=%ld main=%ld", counter, own);
}

static void *exit_group(void *argument)
{
	(void)argument;
	_exit(21);
}

CHECK(threads, exit_of_one_ends_all)
{
	pthread_t thread;
	pid_t pid = spawn();

	if (!pid) {
		pthread_create(&thread, NULL, exit_group, NULL);
		for (;;)
			__asm__ volatile("");
	}
	say_child("child", pid);
}

static void *exec_from_thread(void *argument)
{
	(void)argument;
	execl(self_path, "transcript", "--as", "exit", "31", NULL);
	return NULL;
}

CHECK(threads, exec_from_thread)
{
	pthread_t thread;
	pid_t pid = spawn();

	if (!pid) {
		pthread_create(&thread, NULL, exec_from_thread, NULL);
		for (;;)
			pause();
	}
	say_child("child", pid);
}

static void *wait_forever(void *argument)
{
	for (;;)
		pause();
	return argument;
}

CHECK(threads, kill_process_with_threads)
{
	int ends[2];
	char byte;
	pthread_t thread;
	pid_t pid;

	must("pipe", pipe(ends) == 0);
	pid = spawn();
	if (!pid) {
		for (int i = 0; i < 10; i++)
			pthread_create(&thread, NULL, wait_forever, NULL);
		must("tell", write(ends[1], "x", 1) == 1);
		for (;;)
			__asm__ volatile("");
	}
	must("hear", read(ends[0], &byte, 1) == 1);
	kill(pid, SIGKILL);
	say_child("child", pid);
}

static volatile sig_atomic_t handled_by;

static void note_thread(int signo)
{
	(void)signo;
	handled_by = syscall(SYS_gettid);
}

static void *thread_id(void *argument)
{
	*(volatile pid_t *)argument = syscall(SYS_gettid);
	while (!handled_by)
		sched_yield();
	return NULL;
}

CHECK(threads, signal_one_thread)
{
	volatile pid_t tid = 0;
	pthread_t thread;

	signal(SIGUSR1, note_thread);
	pthread_create(&thread, NULL, thread_id, (void *)&tid);
	while (!tid)
		sched_yield();
	say_result("tgkill", tgkill(getpid(), tid, SIGUSR1));
	pthread_join(thread, NULL);
	say_bool("right_thread", handled_by == tid);
	/* A thread can be joined shortly before its id is free. */
	for (int i = 0; i < 1000 && tgkill(getpid(), tid, 0) == 0; i++)
		sleep_ms(1);
	say_result("gone", tgkill(getpid(), tid, 0));
	say_result("bad_group", tgkill(1, gettid(), 0));
}

CHECK(threads, fault_in_thread_kills_all)
{
	pthread_t thread;
	pid_t pid = spawn();

	if (!pid) {
		pthread_create(&thread, NULL, (void *(*)(void *))0x10, NULL);
		for (;;)
			pause();
	}
	say_child("child", pid);
}

static sem_t semaphore;

static void *post_all(void *argument)
{
	for (int i = 0; i < 100; i++)
		sem_post(&semaphore);
	return argument;
}

CHECK(threads, semaphore)
{
	pthread_t thread;
	int value;

	sem_init(&semaphore, 0, 0);
	pthread_create(&thread, NULL, post_all, NULL);
	for (int i = 0; i < 100; i++)
		sem_wait(&semaphore);
	pthread_join(thread, NULL);
	sem_getvalue(&semaphore, &value);
	say("value=%d", value);
	say_value("try", sem_trywait(&semaphore));
}

CHECK(threads, futex_results)
{
	static unsigned word = 7;
	struct timespec short_time = { 0, 5 * MILLISECOND };

	say_value("changed", futex(&word, FUTEX_WAIT, 8, NULL));
	say_value("timeout", futex(&word, FUTEX_WAIT, 7, &short_time));
	say_value("wake_none", futex(&word, FUTEX_WAKE, 1, NULL));
	say_value("unaligned", futex((char *)&word + 1, FUTEX_WAIT, 7, NULL));
	say_value("bad_pointer", futex((void *)16, FUTEX_WAIT, 7, NULL));
	say_value("bad_time", futex(&word, FUTEX_WAIT, 7, &(struct timespec){ 0, -1 }));
	say_value("bad_operation", futex(&word, 99, 7, NULL));
	say_value("wake_bitset_zero", syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 0));
}

CHECK(threads, futex_between_processes)
{
	unsigned *word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = spawn();

	if (!pid) {
		while (__atomic_load_n(word, __ATOMIC_SEQ_CST) == 0)
			futex(word, FUTEX_WAIT, 0, NULL);
		_exit(*word);
	}
	must("sleep", await_state(pid, 'S'));
	__atomic_store_n(word, 3, __ATOMIC_SEQ_CST);
	say_value("wake", futex(word, FUTEX_WAKE, 10, NULL));
	say_child("child", pid);
}

CHECK(threads, futex_requeue)
{
	unsigned *words = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pids[3];

	for (int i = 0; i < 3; i++) {
		pids[i] = spawn();
		if (!pids[i])
			_exit(futex(&words[0], FUTEX_WAIT, 0, NULL) ? 1 : 0);
	}
	for (int i = 0; i < 3; i++)
		must("sleep", await_state(pids[i], 'S'));
	say_value("requeue", syscall(SYS_futex, &words[0], FUTEX_CMP_REQUEUE, 1, 10, &words[1], 0));
	say_value("first", futex(&words[0], FUTEX_WAKE, 10, NULL));
	say_value("second", futex(&words[1], FUTEX_WAKE, 10, NULL));
	for (int i = 0; i < 3; i++)
		say_child("child", pids[i]);
}

CHECK(threads, futex_wake_operation)
{
	unsigned words[2] = { 0, 5 };
	int operation = FUTEX_OP(FUTEX_OP_ADD, 3, FUTEX_OP_CMP_EQ, 5);

	say_value("wake", syscall(SYS_futex, &words[0], FUTEX_WAKE_OP, 1, 1L, &words[1], operation));
	say("word=%u", words[1]);
	say_value("read_only", syscall(SYS_futex, &words[0], FUTEX_WAKE_OP, 1, 1L, (void *)16, operation));
}

CHECK(threads, futex_on_untouched_and_cow_pages)
{
	unsigned *fresh = (unsigned *)map_pages(1);
	struct timespec short_time = { 0, 2 * MILLISECOND };
	pid_t pid;

	say_value("fresh", futex(fresh, FUTEX_WAIT, 0, &short_time));
	*fresh = 1;
	pid = spawn();
	if (!pid)
		_exit(syscall(SYS_futex, fresh, FUTEX_WAKE_OP, 1, 1L, fresh, FUTEX_OP(FUTEX_OP_SET, 9, 0, 0)) == 0 ? *fresh : 99);
	say_child("child", pid);
	say("parent=%u", *fresh);
}

CHECK(threads, robust_mutex)
{
	pthread_mutex_t *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_t attributes;
	pid_t pid;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
	pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(shared, &attributes);
	pid = spawn();
	if (!pid) {
		pthread_mutex_lock(shared);
		_exit(0);
	}
	say_child("owner", pid);
	say("lock=%s", errno_name(pthread_mutex_lock(shared)));
	say("consistent=%d", pthread_mutex_consistent(shared));
	say("unlock=%d", pthread_mutex_unlock(shared));
	say("again=%d", pthread_mutex_lock(shared));
}

CHECK(threads, priority_inheritance_mutex)
{
	pthread_mutexattr_t attributes;
	pthread_mutex_t inheriting;
	unsigned word = 0;

	pthread_mutexattr_init(&attributes);
	pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
	say("init=%d", pthread_mutex_init(&inheriting, &attributes));
	say("lock=%d", pthread_mutex_lock(&inheriting));
	say("unlock=%d", pthread_mutex_unlock(&inheriting));
	say_value("lock_pi", futex(&word, FUTEX_LOCK_PI, 0, NULL));
	say_bool("owner", word == (unsigned)gettid());
	say_value("again", futex(&word, FUTEX_LOCK_PI, 0, NULL));
	say_value("unlock_pi", futex(&word, FUTEX_UNLOCK_PI, 0, NULL));
	say("word=%u", word);
}

static int clone_body(void *argument)
{
	*(volatile int *)argument += 1;
	return 12;
}

CHECK(threads, clone_flag_combinations)
{
	static const struct {
		const char *name;
		int flags;
	} cases[] = { { "none", SIGCHLD }, { "vm", CLONE_VM | SIGCHLD }, { "vm_vfork", CLONE_VM | CLONE_VFORK | SIGCHLD },
		      { "files", CLONE_FILES | SIGCHLD }, { "fs", CLONE_FS | SIGCHLD },
		      { "sighand_without_vm", CLONE_SIGHAND | SIGCHLD },
		      { "thread_without_sighand", CLONE_THREAD | CLONE_VM } };
	char *stack = map_pages(STACK_BYTES / PAGE);

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		volatile int word = 0;
		pid_t pid = clone(clone_body, stack + STACK_BYTES, cases[i].flags, (void *)&word);

		say("%s", cases[i].name);
		if (pid < 0) {
			say_result("clone", -1);
			continue;
		}
		say_child("child", pid);
		say("word=%d", word);
	}
}

#ifdef __x86_64__
CHECK(threads, clone_with_a_base_beyond_programs)
{
	static const unsigned long bases[] = { 0x7ffffffff000UL, 0x800000000000UL, 0xffff800000000000UL, -1UL };

	for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
		pid_t pid = syscall(SYS_clone, CLONE_SETTLS | SIGCHLD, NULL, NULL, NULL, bases[i]);

		if (!pid)
			syscall(SYS_exit, 0);
		say_result("clone", pid < 0 ? -1 : 0);
		if (pid > 0)
			say_child("child", pid);
	}
}
#endif

static int change_directory_and_close(void *argument)
{
	(void)argument;
	chdir("/");
	close(70);
	return 0;
}

CHECK(threads, clone_shares_files_and_directory)
{
	char *stack = map_pages(STACK_BYTES / PAGE), path[256];

	dup2(STDIN_FILENO, 70);
	say_child("child", clone(change_directory_and_close, stack + STACK_BYTES, CLONE_FS | CLONE_FILES | SIGCHLD, NULL));
	say("directory=%s", getcwd(path, sizeof path));
	say_value("descriptor", fcntl(70, F_GETFD));
}

/*
 * Unmaps its own stack and exits, like musl's detached threads: nothing may touch the stack
 * afterwards.
 */
static int leave_without_stack(void *stack)
{
#ifdef __x86_64__
	__asm__ volatile("syscall\n\txor %%edi, %%edi\n\tmov %3, %%eax\n\tsyscall"
			 : : "a"(SYS_munmap), "D"(stack), "S"(STACK_BYTES), "i"(SYS_exit) : "rcx", "r11", "memory");
#else
	__asm__ volatile("int $0x80\n\txor %%ebx, %%ebx\n\tmov %3, %%eax\n\tint $0x80"
			 : : "a"(SYS_munmap), "b"(stack), "c"(STACK_BYTES), "i"(SYS_exit) : "memory");
#endif
	__builtin_unreachable();
}

CHECK(threads, end_without_a_stack)
{
	static pid_t child_tid = 1;
	char *stack = map_pages(STACK_BYTES / PAGE);
	sigset_t all, before;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	must("clone", clone(leave_without_stack, stack + STACK_BYTES,
			    CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
				    CLONE_CHILD_CLEARTID,
			    stack, NULL, NULL, &child_tid) > 0);
	while (__atomic_load_n(&child_tid, __ATOMIC_SEQ_CST))
		futex(&child_tid, FUTEX_WAIT, 1, NULL);
	sigprocmask(SIG_SETMASK, &before, NULL);
	say_result("its stack", msync(stack, STACK_BYTES, MS_ASYNC));
}

CHECK(threads, clone_thread_ids)
{
	char *stack = map_pages(STACK_BYTES / PAGE);
	static volatile int word;
	static pid_t parent_tid, child_tid = 1;
	pid_t pid = clone(clone_body, stack + STACK_BYTES,
			  CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |
				  CLONE_PARENT_SETTID | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID,
			  (void *)&word, &parent_tid, NULL, &child_tid);

	must("clone", pid > 0);
	while (__atomic_load_n(&child_tid, __ATOMIC_SEQ_CST))
		futex(&child_tid, FUTEX_WAIT, pid, &(struct timespec){ 0, MILLISECOND });
	say_bool("parent_tid", parent_tid == pid);
	say("word=%d child_tid=%d", word, child_tid);
}

CHECK(threads, clone3)
{
	struct clone_args arguments = { .exit_signal = SIGCHLD };
	int pidfd = -1;
	pid_t pid;

	arguments.flags = CLONE_PIDFD;
	arguments.pidfd = (uintptr_t)&pidfd;
	pid = syscall(SYS_clone3, &arguments, sizeof arguments);
	if (!pid)
		_exit(8);
	say_bool("pidfd", pidfd >= 0);
	say_child("child", pid);
	say_value("small", syscall(SYS_clone3, &arguments, 8));
	say_value("bad_pointer", syscall(SYS_clone3, (void *)8, sizeof arguments));
	arguments.flags = 0xffUL;
	say_value("signal_in_flags", syscall(SYS_clone3, &arguments, sizeof arguments));
}

CHECK(threads, restartable_sequences)
{
	static char area[64] __attribute__((aligned(32)));

	say_value("registered_twice", syscall(SYS_rseq, area, 32, 0, 0x53053053));
	say_value("bad_flags", syscall(SYS_rseq, area, 32, 8, 0x53053053));
	extern const ptrdiff_t __rseq_offset;
	say_bool("processor", *(int *)((char *)__builtin_thread_pointer() + __rseq_offset + 4) == sched_getcpu() ||
				      sysconf(_SC_NPROCESSORS_ONLN) > 1);
}

CHECK(threads, membarrier)
{
	say_bool("query", syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0, 0) > 0);
	say_value("global", syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0));
	say_value("unregistered", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
	say_value("register", syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0));
	say_value("private", syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0));
	say_value("bad", syscall(SYS_membarrier, 1 << 30, 0, 0));
}

static void *grow_and_fork(void *argument)
{
	int status;
	pid_t pid;
	char *memory = map_pages(4);

	memory[0] = (long)argument;
	pid = fork();
	if (!pid)
		_exit(memory[0]);
	waitpid(pid, &status, 0);
	__atomic_fetch_add(&counter, WEXITSTATUS(status), __ATOMIC_SEQ_CST);
	return NULL;
}

CHECK(threads, fork_from_threads)
{
	run_threads(8, grow_and_fork);
	say("sum=%ld", counter);
}

static void *fault_pages(void *argument)
{
	char *memory = argument;

	for (size_t i = 0; i < 256; i++)
		memory[i * PAGE]++;
	return NULL;
}

CHECK(threads, faults_on_same_pages)
{
	char *memory = map_pages(256);
	pthread_t threads[4];
	int wrong = 0;

	for (int i = 0; i < 4; i++)
		pthread_create(&threads[i], NULL, fault_pages, memory);
	for (int i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < 256; i++)
		wrong += memory[i * PAGE] < 1 || memory[i * PAGE] > 4;
	say("wrong=%d", wrong);
}

CHECK(threads, credentials_change_in_all)
{
	pthread_t thread;
	volatile pid_t tid = 0;
	char path[64];
	const char *line;

	pthread_create(&thread, NULL, thread_id, (void *)&tid);
	while (!tid)
		sched_yield();
	must("setuid", setuid(1000) == 0);
	snprintf(path, sizeof path, "/proc/self/task/%d/status", tid);
	line = strstr(slurp(path), "Uid:");
	say("%.9s", line ? line : "none");
	handled_by = 1;
	pthread_join(thread, NULL);
}
