// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hybrid processes; test_hybrid.py has the expected output. What native lthreads see of their
 * process and the process of them, messages and mappings between processes, pagers of Linux's
 * threads, and what none of them may do.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "keel_native.h"

#define PAGE 4096ul
#define PAGE_LOG2 12
#define STACK 65536
#define PAGES 64
#define ROUNDS 1000
#define SPIN_ROUNDS 20

static char stack[STACK] __attribute__((aligned(PAGE)));
static struct keel_linux_native native;
static volatile char *window, *granted;

/* Memory that lthreads and processes share across fork. */
static struct shared {
	volatile unsigned long counter;
	volatile long results[32];
} *shared;

/* A pipe by which a process passes its lthread's id to another. */
static int told[2];

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static char *pages(size_t count, int rights)
{
	char *found = mmap(NULL, count * PAGE, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (found == MAP_FAILED)
		fail("mmap");
	return found;
}

static void begin(void (*main)(unsigned long), unsigned long argument)
{
	if (keel_native_begin(&native, main, stack + STACK, argument))
		fail("keel_native");
}

/* Runs `work` in a child and returns how it ended. */
static void child(const char *what, void (*work)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		work();
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		printf("%s: signal %d\n", what, WTERMSIG(status));
	else
		printf("%s: status %d\n", what, WEXITSTATUS(status));
}

static void area(void)
{
	if (keel_area() < 0)
		fail("keel_area");
}

/* Answers the argument first, then each word plus one. */
KEEL_LTHREAD static void clerk(unsigned long argument)
{
	struct keel_message m = { .tag = KEEL_TAG(argument, KEEL_REGISTER_WORDS) };

	for (;;) {
		keel_tell(&native, &m);
		for (int i = 0; i < KEEL_REGISTER_WORDS; i++)
			m.words[i]++;
		m.tag = KEEL_TAG(keel_label(&m) + 1, KEEL_REGISTER_WORDS);
	}
}

static inline long ex_regs_of(unsigned long *thread, unsigned long mask)
{
	long status = KEEL_CALL_LTHREAD_EX_REGS;

	__asm__ volatile("syscall" : "+a"(status), "+D"(*thread), "+S"(mask) : : "rcx", "rdx", "r8", "r9", "r10", "r11", "memory");
	return status;
}

static inline long ex_regs(unsigned long thread, unsigned long mask)
{
	return ex_regs_of(&thread, mask);
}

/* Sets a time slice and processor 0 as the mask says. Stores the processor, if asked. */
static inline long schedule(unsigned long thread, unsigned long mask, unsigned long priority, unsigned long *processor)
{
	long status = KEEL_CALL_THREAD_SCHEDULE;
	register unsigned long r8 __asm__("r8") = 0;
	register unsigned long r9 __asm__("r9") = 0;
	register unsigned long r10 __asm__("r10") = 0;

	__asm__ volatile("syscall"
			 : "+a"(status), "+D"(thread), "+S"(mask), "+d"(priority), "+r"(r8), "+r"(r9), "+r"(r10)
			 :
			 : "rcx", "r11", "r12", "memory");
	if (processor)
		*processor = r10;
	return status;
}

/* The caller's task, as the place of a new lthread with any free number. */
static inline unsigned long any_lthread(void)
{
	return (keel_utcb()->id & ~(~0ul << KEEL_ID_VERSION_SHIFT)) | (unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT;
}

/* The id of an lthread, received from another process. */
static unsigned long told_id(void)
{
	unsigned long id;

	if (read(told[0], &id, sizeof(id)) != sizeof(id))
		fail("read");
	return id;
}

/*
 * For another process: starts the lthread, passes on its id, and serves it until its next message.
 */
static void begin_and_tell(void (*main)(unsigned long), unsigned long argument)
{
	area();
	begin(main, argument);
	if (write(told[1], &native.thread, sizeof(native.thread)) != sizeof(native.thread))
		fail("write");
	keel_native(&native);
}

static void conversation(void)
{
	begin(clerk, 77);
	printf("it begins: label %lu, word %lu\n", native.label, native.words[5]);
	for (int i = 0; i < 6; i++)
		native.words[i] = 10 * i;
	native.label = 5;
	if (keel_native(&native))
		fail("keel_native");
	printf("it answers: label %lu, words %lu to %lu\n", native.label, native.words[0], native.words[5]);
}

/* Adds up the words in pages, and writes to each. */
KEEL_LTHREAD static void toucher(unsigned long argument)
{
	volatile char *page = (char *)argument;
	struct keel_message m;

	for (;;) {
		m = (struct keel_message){ .tag = KEEL_TAG(0, 1) };
		for (int i = 0; i < PAGES; i++) {
			m.words[0] += page[i * PAGE];
			page[i * PAGE] = i;
		}
		keel_tell(&native, &m);
	}
}

static void memory(void)
{
	char *page = pages(PAGES, PROT_READ | PROT_WRITE);
	int wrong = 0;

	fflush(stdout);
	memset(page, 1, PAGES / 2 * PAGE);
	begin(toucher, (unsigned long)page);
	for (int i = 0; i < PAGES; i++)
		wrong += page[i * PAGE] != i;
	printf("pages of which half were there: sum %lu, %d wrong\n", native.words[0], wrong);
	madvise(page, PAGES * PAGE, MADV_DONTNEED);
	if (keel_native(&native))
		fail("keel_native");
	printf("pages that Linux took away: sum %lu, last %d\n", native.words[0], page[(PAGES - 1) * PAGE]);
	if (!fork()) {
		page[PAGE] = 99;
		_exit(0);
	}
	wait(NULL);
	if (keel_native(&native))
		fail("keel_native");
	printf("pages that a child had as well: sum %lu\n", native.words[0]);
}

static char *missing;
static volatile int signals;

static void open_page(int signo, siginfo_t *info, void *context)
{
	(void)signo;
	(void)context;
	signals++;
	if ((char *)info->si_addr != missing)
		_exit(3);
	mprotect(missing, PAGE, PROT_READ | PROT_WRITE);
}

KEEL_LTHREAD static void writer(unsigned long argument)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 1) };

	*(volatile char *)argument = 42;
	m.words[0] = *(volatile char *)argument;
	keel_tell(&native, &m);
	__builtin_trap();
}

static void opened_page(void)
{
	struct sigaction action = { .sa_sigaction = open_page, .sa_flags = SA_SIGINFO };

	area();
	missing = pages(1, PROT_NONE);
	sigaction(SIGSEGV, &action, NULL);
	begin(writer, (unsigned long)missing);
	printf("a page that a signal's handler opened: %lu, signals %d\n", native.words[0], signals);
	fflush(stdout);
	keel_native(&native);
	puts("not reached");
}

static void no_page(void)
{
	area();
	begin(writer, 0x10);
}

static void count_alarm(int signo)
{
	(void)signo;
	signals++;
	shared->counter = 1;
}

/* Sends a message when a signal has come. */
KEEL_LTHREAD static void patient(unsigned long argument)
{
	struct keel_message m = { .tag = KEEL_TAG(1, 1) };

	(void)argument;
	while (!shared->counter)
		;
	keel_tell(&native, &m);
}

static void interrupted(void)
{
	struct sigaction action = { .sa_handler = count_alarm };

	signals = shared->counter = 0;
	sigaction(SIGALRM, &action, NULL);
	ualarm(20000, 0);
	begin(patient, 0);
	printf("a signal while it ran: handled %d, label %lu\n", signals, native.label);
}

static void count_trap(int signo)
{
	(void)signo;
	signals++;
}

/* Resumes after breakpoints like a Linux thread. */
KEEL_LTHREAD static void trapper(unsigned long argument)
{
	struct keel_message m = { .tag = KEEL_TAG(1, 1) };

	__asm__ volatile("int3");
	__asm__ volatile("int3");
	m.words[0] = argument;
	keel_tell(&native, &m);
}

static void traps(void)
{
	struct sigaction action = { .sa_handler = count_trap };

	signals = 0;
	sigaction(SIGTRAP, &action, NULL);
	begin(trapper, 12);
	printf("two breakpoints: handled %d, word %lu\n", signals, native.words[0]);
}

/* It also tries to get a time slice that does not end. */
KEEL_LTHREAD static void spinner(unsigned long argument)
{
	schedule(keel_utcb()->id, KEEL_SCHEDULE_SLICE, 0, NULL);
	for (;;)
		++*(volatile unsigned long *)argument;
}

static void *attend_to_spinner(void *unused)
{
	(void)unused;
	begin(spinner, (unsigned long)&shared->counter);
	return NULL;
}

/*
 * An lthread that never yields: Linux continues beside it, and it ends with its process.
 */
static void spin(void)
{
	unsigned long before;
	pthread_t thread;
	int moved = 0;

	area();
	shared->counter = 0;
	pthread_create(&thread, NULL, attend_to_spinner, NULL);
	for (int i = 0; i < SPIN_ROUNDS; i++) {
		before = shared->counter;
		/* Sleeps, and computes as well. */
		while (shared->counter == before)
			if (i % 2)
				poll(NULL, 0, 1);
		moved++;
	}
	printf("beside one that spins: %d\n", moved);
	fflush(stdout);
	raise(SIGKILL);
}

/* Reports the processor on which it runs. */
KEEL_LTHREAD static void dweller(unsigned long unused)
{
	struct keel_message m = { 0 };

	(void)unused;
	for (;;) {
		m.tag = KEEL_TAG(0, 1);
		schedule(keel_utcb()->id, 0, 0, &m.words[0]);
		keel_tell(&native, &m);
	}
}

static void run_on(int processor)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(processor, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void move(void)
{
	int last = sysconf(_SC_NPROCESSORS_ONLN) - 1, wrong;

	area();
	run_on(0);
	begin(dweller, 0);
	wrong = native.words[0] != 0;
	run_on(last);
	keel_native(&native);
	wrong += (int)native.words[0] != last;
	run_on(0);
	keel_native(&native);
	wrong += native.words[0] != 0;
	printf("on another processor than its service thread: %d\n", wrong);
}

static char second_stack[PAGE] __attribute__((aligned(PAGE)));

KEEL_LTHREAD static void counting(void)
{
	for (;;)
		shared->counter++;
}

/* Creates an lthread itself, whose pages are all mapped, and reports how far it got. */
KEEL_LTHREAD static void mother(unsigned long unused)
{
	struct keel_ex_regs *record = (void *)keel_utcb()->record;
	unsigned long child = any_lthread();
	struct keel_message m = { .tag = KEEL_TAG(0, 1) };

	(void)unused;
	second_stack[0] = *(volatile char *)counting;
	shared->counter = 0;
	record->ip = (unsigned long)counting;
	record->sp = (unsigned long)second_stack + PAGE;
	m.words[0] = ex_regs_of(&child, KEEL_EX_CREATE | KEEL_EX_START | KEEL_EX_IP | KEEL_EX_SP);
	keel_tell(&native, &m);
	m.tag = KEEL_TAG(0, 1);
	m.words[0] = schedule(child, KEEL_SCHEDULE_SLICE, 0, NULL);
	keel_tell(&native, &m);
}

/*
 * An lthread that an lthread created gets only the time that Linux's programs leave, whatever its
 * time slice.
 */
static void made_by_an_lthread(void)
{
	area();
	begin(mother, 0);
	printf("an lthread's own: %ld,", (long)native.words[0]);
	keel_native(&native);
	printf(" its slice: %ld,", (long)native.words[0]);
	while (!shared->counter)
		poll(NULL, 0, 1);
	puts(" it runs");
	fflush(stdout);
	raise(SIGKILL);
}

#define LARGE (2ul << 20)
#define LARGE_LOG2 21
/* More than Linux has unmapped by one call: ranges of one page, with holes. */
#define STALE 40
/* The address at which pages are mapped until kernel memory is used up. */
#define SINK (256ul << 20)
static volatile char *large, *over, *sink;
static sigjmp_buf faulted;

static void note_fault(int signo)
{
	(void)signo;
	siglongjmp(faulted, 1);
}

static struct keel_linux_native other;

/* Accepts pages at any address. */
KEEL_LTHREAD static void receiver(unsigned long unused)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 0) };

	(void)unused;
	keel_utcb()->receive_fpage = KEEL_FPAGE_WHOLE;
	keel_tell(&other, &m);
	keel_wait(&m);
	for (;;) {
		m.tag = KEEL_TAG(0, 0);
		keel_answer_and_wait(&m);
	}
}

static volatile unsigned long receiver_id;

/* Maps an fpage of its own a second time. */
KEEL_LTHREAD static long lay(volatile char *page, unsigned long log2, volatile char *place)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 0) | 1 << KEEL_TAG_MAPS_SHIFT };

	keel_put_map(0, (unsigned long)place, keel_fpage((char *)page, log2, KEEL_FPAGE_READ | KEEL_FPAGE_WRITE));
	keel_call_thread(receiver_id, &m);
	return m.status;
}

/*
 * Maps a large page over small ones and uses up Linux's quota of kernel memory: whole pages by
 * lthreads, the free parts of others by mappings. Linux is not involved.
 */
KEEL_LTHREAD static void filler(unsigned long unused)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 2) };
	unsigned long made;

	(void)unused;
	*over = *large = 1;
	m.words[0] = lay(large, LARGE_LOG2, over);
	/*
	 * Maps the page tables of the last step in advance, so that it ends only when no further
	 * page can be mapped.
	 */
	for (unsigned long at = 0; at < SINK; at += LARGE)
		lay(large, PAGE_LOG2, sink + at);
	do
		made = any_lthread();
	while (!ex_regs_of(&made, KEEL_EX_CREATE));
	for (unsigned long at = 0; at < SINK && !m.words[1]; at += PAGE)
		m.words[1] = lay(large + at % LARGE, PAGE_LOG2, sink + at);
	keel_tell(&native, &m);
}

static void *attend_to_receiver(void *stack_end)
{
	if (keel_native_begin(&other, receiver, stack_end, 0))
		fail("keel_native");
	receiver_id = other.thread;
	keel_native(&other);
	return NULL;
}

static char *aligned(size_t bytes)
{
	unsigned long start = (unsigned long)pages((bytes + LARGE) / PAGE, PROT_READ | PROT_WRITE);

	return (char *)((start + LARGE - 1) & -LARGE);
}

/*
 * Leaves the µ-kernel no memory for Linux. Small pages from `over` + LARGE on are replaced by a
 * large one.
 */
static void use_up_memory(void)
{
	volatile char *small;
	pthread_t thread;

	area();
	large = aligned(LARGE);
	madvise((void *)large, LARGE, MADV_HUGEPAGE);
	over = aligned(2 * LARGE);
	madvise((void *)over, 2 * LARGE, MADV_NOHUGEPAGE);
	small = over + LARGE;
	sink = pages(SINK / PAGE, PROT_NONE);
	for (int i = 0; i < STALE; i++)
		small[2 * i * PAGE] = 1;
	signal(SIGSEGV, note_fault);
	if (pthread_create(&thread, NULL, attend_to_receiver, pages(1, PROT_READ | PROT_WRITE) + PAGE))
		fail("pthread_create");
	while (!receiver_id)
		poll(NULL, 0, 1);
	begin(filler, 0);
}

/*
 * An unmap while the µ-kernel has no memory to split a large page: no mapping may remain.
 */
static void unmapped_without_memory(void)
{
	volatile char *small;
	volatile int stale = 0;

	use_up_memory();
	small = over + LARGE;
	munmap((void *)over, 2 * LARGE);
	for (volatile int i = 0; i < STALE; i++)
		if (!sigsetjmp(faulted, 1))
			{ (void)small[2 * i * PAGE]; stale++; }
	printf("laid over it: %ld, then %ld, and after munmap there are %d pages\n", (long)native.words[0],
	       (long)native.words[1], stale);
}

/* Writes while the µ-kernel has no memory left for Linux; 0 if all was written. */
static int write_without_memory(const char *path, const char *text)
{
	int file = open(path, O_WRONLY);
	ssize_t length = strlen(text);

	write(file, text, 0);	/* maps its code: a page fault later would reclaim memory */
	use_up_memory();
	return write(file, text, length) != length;
}

/* An lthread number that is not given out automatically. */
#define SPENT_LTHREAD 1000ul

/* Uses up the versions of an lthread number, and with them those of its task's number. */
KEEL_LTHREAD static void spendthrift(unsigned long unused)
{
	const unsigned long task = any_lthread() & ~((unsigned long)KEEL_LTHREAD_TASK << KEEL_ID_LTHREAD_SHIFT);
	unsigned long made;
	struct keel_message m = { .tag = KEEL_TAG(0, 1) };

	(void)unused;
	for (;;) {
		made = task | SPENT_LTHREAD << KEEL_ID_LTHREAD_SHIFT;
		if (ex_regs_of(&made, KEEL_EX_CREATE))
			break;
		m.words[0]++;
		ex_regs(made, KEEL_EX_DELETE);
	}
	keel_tell(&native, &m);
}

static int retire(void)
{
	area();
	begin(spendthrift, 0);
	printf("versions of a number: %lu\n", native.words[0]);
	return 0;
}

/*
 * Answers calls with the first word plus one, and reports their number when a call asks for it.
 */
KEEL_LTHREAD static void adder(unsigned long argument)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 0) };
	unsigned long count = 0;

	(void)argument;
	keel_tell(&native, &m);
	keel_wait(&m);
	for (;;) {
		if (m.status >= 0 && keel_label(&m) == 1) {
			struct keel_message end = { .tag = KEEL_TAG(1, 1), .words = { count } };

			keel_tell(&native, &end);
		}
		count++;
		m.words[0]++;
		m.tag = KEEL_TAG(0, 1);
		keel_answer_and_wait(&m);
	}
}

KEEL_LTHREAD static void caller(unsigned long argument)
{
	struct keel_message m = { 0 };
	unsigned long wrong = 0;

	for (unsigned long i = 0; i < ROUNDS; i++) {
		m.tag = KEEL_TAG(0, 1);
		m.words[0] = i;
		keel_call_thread(argument, &m);
		wrong += m.status || m.words[0] != i + 1;
	}
	m.tag = KEEL_TAG(1, 1);
	keel_ipc(KEEL_IPC_SEND, argument, 0, &m);
	m = (struct keel_message){ .tag = KEEL_TAG(0, 1), .words = { wrong } };
	keel_tell(&native, &m);
}

static void between_processes(void)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		begin_and_tell(adder, 0);
		printf("the server received %lu calls\n", native.words[0]);
		fflush(stdout);
		_exit(0);
	}
	begin(caller, told_id());
	waitpid(pid, NULL, 0);
	printf("calls from process to process: %lu wrong\n", native.words[0]);
}

/*
 * Answers page faults below `window` with its own pages, and forwards all others. Other messages
 * are requests.
 */
static volatile char *lent, *elsewhere;

KEEL_LTHREAD static void lender(unsigned long pages)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 0) };

	keel_tell(&native, &m);
	keel_wait(&m);
	for (;;) {
		unsigned long page = m.words[0] & -PAGE, offset = page - (unsigned long)window;
		int is_ours = keel_kind(&m) == KEEL_KIND_PAGE_FAULT && offset < pages * PAGE;

		m.tag = KEEL_TAG_FORWARD;
		if (is_ours) {
			/* Only a page that is mapped here can be mapped on. */
			lent[offset] = lent[offset];
			keel_put_map(0, page, keel_fpage((char *)lent + offset, PAGE_LOG2, KEEL_FPAGE_READ | KEEL_FPAGE_WRITE));
			m.tag = 1 << KEEL_TAG_MAPS_SHIFT;
		}
		keel_answer_and_wait(&m);
	}
}

static unsigned long pager;

/* A process whose lthread is the pager. It runs until it is killed. */
static pid_t start_lender(void)
{
	pid_t pid;

	window = pages(PAGES, PROT_NONE);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		lent = pages(PAGES, PROT_READ | PROT_WRITE);
		for (int i = 0; i < PAGES; i++)
			lent[i * PAGE] = i + 1;
		begin_and_tell(lender, PAGES);
		_exit(0);
	}
	pager = told_id();
	return pid;
}

static void client_of_pager(void)
{
	char *other = pages(PAGES, PROT_READ | PROT_WRITE);
	unsigned long sum = 0;

	if (keel_pager(pager))
		fail("keel_pager");
	for (int i = 0; i < PAGES; i++) {
		other[i * PAGE] = 1;
		window[i * PAGE] += other[i * PAGE];
		sum += window[i * PAGE];
	}
	printf("pages of a pager: sum %lu\n", sum);
	fflush(stdout);
	write(1, "Linux knows nothing of them: ", 29);
	printf("%zd\n", write(1, (char *)window, 1));
	fflush(stdout);
	*elsewhere = 1;
}

static void client_without_pager(void)
{
	char *other = pages(1, PROT_READ | PROT_WRITE);

	if (keel_pager(pager))
		fail("keel_pager");
	other[0] = 1;
	printf("a pager that is gone: %d\n", other[0]);
	fflush(stdout);
	window[0] = 1;
}

static void pagers(void)
{
	pid_t pid = start_lender();
	int status;

	elsewhere = pages(1, PROT_NONE);
	child("outside of them", client_of_pager);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	child("its window", client_without_pager);
}

/*
 * Counts the faults that it receives. Forwards them if its argument says so; otherwise never
 * answers.
 */
KEEL_LTHREAD static void counter(unsigned long passes_on)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 0) };

	keel_tell(&native, &m);
	keel_wait(&m);
	for (;;) {
		shared->counter++;
		m.tag = KEEL_TAG_FORWARD;
		if (passes_on)
			keel_answer_and_wait(&m);
		else
			keel_wait(&m);
	}
}

static pid_t start_counter(unsigned long passes_on)
{
	pid_t pid;

	shared->counter = 0;
	fflush(stdout);
	pid = fork();
	if (!pid) {
		begin_and_tell(counter, passes_on);
		_exit(0);
	}
	pager = told_id();
	return pid;
}

static void exec_with_pager(void)
{
	char *arguments[] = { "sh", "-c", "exit 5", NULL };

	if (keel_pager(pager))
		fail("keel_pager");
	/* The first execve, which fails, touches all pages that the second one needs. */
	for (int i = 0; i < 2; i++) {
		shared->results[0] = shared->counter;
		execve(i ? "/bin/sh" : "/nowhere", arguments, environ);
	}
}

static void programs_end_with_pager(void)
{
	pid_t pid = start_counter(1);

	child("a new program", exec_with_pager);
	printf("faults before exec: %d, after it: %lu\n", shared->results[0] > 0,
	       shared->counter - shared->results[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A process that waits for a pager that does not answer can be killed; others continue. */
static void deaf_pager(void)
{
	pid_t pid = start_counter(0), client;
	int status;

	client = fork();
	if (!client) {
		keel_pager(pager);
		*pages(1, PROT_READ | PROT_WRITE) = 1;
		_exit(0);
	}
	while (!shared->counter)
		poll(NULL, 0, 1);
	kill(client, SIGKILL);
	waitpid(client, &status, 0);
	printf("it waited, and was killed: signal %d\n", WTERMSIG(status));
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static inline long task_new(unsigned long number)
{
	long status = KEEL_CALL_TASK_NEW;
	unsigned long flags = 0, ip = 0;
	register unsigned long r8 __asm__("r8") = 0;
	register unsigned long r9 __asm__("r9") = 0;
	register unsigned long r10 __asm__("r10") = 0;
	register unsigned long r12 __asm__("r12") = 0;
	register unsigned long r13 __asm__("r13") = 0;

	__asm__ volatile("syscall"
			 : "+a"(status), "+D"(number), "+S"(flags), "+d"(ip), "+r"(r8), "+r"(r9), "+r"(r10), "+r"(r12), "+r"(r13)
			 :
			 : "rcx", "r11", "memory");
	return status;
}

/*
 * Attacks its own process's Linux threads (the lthreads of its task from 0 on) and Linux, and tries
 * to get more rights.
 */
KEEL_LTHREAD static void robber(unsigned long argument)
{
	unsigned long own = keel_utcb()->id, number = ~(0xfffful << KEEL_ID_LTHREAD_SHIFT);
	unsigned long linux_thread = own & number & ~(~0ul << KEEL_ID_VERSION_SHIFT);
	struct keel_ex_regs *record = (void *)keel_utcb()->record;
	struct keel_message m = { .tag = KEEL_TAG(0, 1) };
	int at = 0;

	(void)argument;
	record->ip = record->sp = 0x1000;
	shared->results[at++] = ex_regs(linux_thread, KEEL_EX_IP | KEEL_EX_SP);
	shared->results[at++] = ex_regs(linux_thread, KEEL_EX_START);
	shared->results[at++] = ex_regs(linux_thread, KEEL_EX_DELETE);
	shared->results[at++] = schedule(own, KEEL_SCHEDULE_PRIORITY, 255, NULL);
	shared->results[at++] = schedule(own, KEEL_SCHEDULE_SLICE, 0, NULL);
	shared->results[at++] = ex_regs(native.server, KEEL_EX_DELETE);
	shared->results[at++] = schedule(native.server, KEEL_SCHEDULE_PRIORITY, 1, NULL);
	shared->results[at++] = task_new(native.server);
	shared->results[at++] = task_new(own + (1ul << KEEL_ID_TASK_SHIFT));
	keel_ipc(KEEL_IPC_SEND | KEEL_IPC_NOTIFY, native.server, 0, &m);
	shared->results[at++] = m.status;
	/* Sends to each of the server's own lthreads; only the last one receives it. */
	for (unsigned long other = 0; other < 32; other++) {
		m = (struct keel_message){ .tag = KEEL_TAG(other, 6) };
		keel_ipc(KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO, (native.server & number) | other << KEEL_ID_LTHREAD_SHIFT, 0, &m);
	}
	m = (struct keel_message){ .tag = KEEL_TAG(at, 1) };
	keel_tell(&native, &m);
}

static void robbery(void)
{
	/*
	 * It receives the messages to Linux's lthread that are not for the program's service
	 * thread, and the last message.
	 */
	begin(robber, 0);
	while (native.label != 10)
		keel_native(&native);
	printf("refused:");
	for (unsigned long i = 0; i < native.label; i++)
		printf(" %ld", shared->results[i]);
	printf("\nLinux continues: %d\n", getpid() == (int)syscall(SYS_getpid));
}

static void *nothing(void *unused)
{
	pause();
	return unused;
}

static void too_late(void)
{
	pthread_t thread;

	pthread_create(&thread, NULL, nothing, NULL);
	printf("with two threads: %ld", keel_area());
	printf(" %s\n", strerrorname_np(errno));
}

static void unprivileged(void)
{
	if (setresuid(1000, 1000, 1000))
		fail("setresuid");
	printf("without privilege: %ld", keel_area());
	printf(" %s\n", strerrorname_np(errno));
}

static void no_longer_privileged(void)
{
	area();
	if (setresuid(1000, 1000, 1000))
		fail("setresuid");
	printf("no longer privileged: %d", keel_native_begin(&native, clerk, stack + STACK, 0));
	printf(" %s,", strerrorname_np(errno));
	printf(" %d", keel_pager(1));
	printf(" %s\n", strerrorname_np(errno));
}

/*
 * Makes Linux's own pager its own, and raises an exception with an invalid stack pointer.
 */
KEEL_LTHREAD static void usurper(unsigned long keeper)
{
	struct keel_ex_regs *record = (void *)keel_utcb()->record;

	record->pager = record->handler = keeper;
	ex_regs(keel_utcb()->id, KEEL_EX_PAGER | KEEL_EX_HANDLER);
	__asm__ volatile("mov $0x1000000, %rsp; ud2");
	__builtin_unreachable();
}

static void usurp(void)
{
	area();
	begin(clerk, 0);
	signal(SIGALRM, SIG_DFL);
	alarm(1);
	/* The lthreads of Linux's task have consecutive numbers. */
	begin(usurper, native.server + (1ul << KEEL_ID_LTHREAD_SHIFT));
}

/* Grants a page to another process. */
KEEL_LTHREAD static void grantor(unsigned long to)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 0) | 1 << KEEL_TAG_MAPS_SHIFT };

	*granted = 55;
	keel_put_map(0, KEEL_MAP_GRANT, keel_fpage((char *)granted, PAGE_LOG2, KEEL_FPAGE_READ | KEEL_FPAGE_WRITE));
	keel_call_thread(to, &m);
	m.tag = KEEL_TAG(1, 1);
	keel_tell(&native, &m);
}

/* Accepts a page, reports its content, and reads it until it is taken away. */
KEEL_LTHREAD static void grantee(unsigned long unused)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 0) };

	(void)unused;
	keel_utcb()->receive_fpage = keel_fpage((char *)window, PAGE_LOG2, KEEL_FPAGE_RWX);
	keel_tell(&native, &m);
	keel_wait(&m);
	m.words[0] = *window;
	m.tag = KEEL_TAG(2, 1);
	keel_ipc(KEEL_IPC_SEND, m.partner, 0, &m);
	for (;;)
		(void)*window;
}

static void grant(void)
{
	int status;
	pid_t pid;

	window = pages(1, PROT_NONE);
	granted = pages(1, PROT_READ | PROT_WRITE);
	pid = fork();
	if (!pid) {
		begin_and_tell(grantee, 0);
		_exit(0);
	}
	area();
	begin(grantor, told_id());
	/* The grant became a map, and the mapping ends with its source. */
	munmap((void *)granted, PAGE);
	waitpid(pid, &status, 0);
	printf("granted: %lu, and taken away: signal %d\n", native.words[0], WTERMSIG(status));
}

static void without_area(void)
{
	printf("without an area: %d", keel_native_begin(&native, clerk, stack + STACK, 0));
	printf(" %s\n", strerrorname_np(errno));
	native.ip = 0;
	printf("nobody to answer: %d", keel_native(&native));
	printf(" %s\n", strerrorname_np(errno));
	printf("no record: %ld", syscall(SYS_arch_prctl, KEEL_LINUX_PRCTL_NATIVE, 8));
	printf(" %s\n", strerrorname_np(errno));
}

static void bad_start(void)
{
	area();
	native = (struct keel_linux_native){ .ip = 1ul << 62, .sp = -1ul };
	keel_native(&native);
}

static void again(void)
{
	area();
	for (int i = 0; i < 200; i++)
		begin(clerk, i);
	printf("one after the other: %lu\n", native.label);
}

/* Starts one more hybrid process, passes on its errno, and stays. */
static void *another(void *stack_end)
{
	struct keel_linux_native own;
	int error = keel_native_begin(&own, clerk, stack_end, 0) ? errno : 0;

	if (write(told[1], &error, sizeof(error)) != sizeof(error))
		fail("write");
	pause();
	return NULL;
}

/* The program's first process is hybrid as well. */
static void many(void)
{
	int count = 2, error;
	pthread_t thread;

	area();
	begin(clerk, 0);
	for (;;) {
		if (pthread_create(&thread, NULL, another, pages(1, PROT_READ | PROT_WRITE) + PAGE))
			fail("pthread_create");
		if (read(told[0], &error, sizeof(error)) != sizeof(error))
			fail("read");
		if (error)
			break;
		count++;
	}
	printf("at once: %d, then %s\n", count, strerrorname_np(error));
	fflush(stdout);
	_exit(0);
}

static void registers(void)
{
	double before = 1.5 + signals, after;
	long address;

	__asm__ volatile("movsd %0, %%xmm7" : : "m"(before) : "xmm7");
	address = keel_area();
	__asm__ volatile("movsd %%xmm7, %0" : "=m"(after));
	printf("floating point stays: %g, the area again: %d\n", after, address == keel_area());
}

static void exec_of_hybrid(void)
{
	area();
	begin(clerk, 0);
	execlp("sh", "sh", "-c", "exit 7", NULL);
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "retire"))
		return retire();
	if (argc == 4 && !strcmp(argv[1], "write"))
		return write_without_memory(argv[2], argv[3]);
	shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail("mmap");
	if (pipe(told))
		fail("pipe");
	child("no area", without_area);
	child("threads before it", too_late);
	child("a user", unprivileged);
	child("no longer root", no_longer_privileged);
	child("a start at no address", bad_start);
	registers();
	conversation();
	memory();
	child("the end of one", opened_page);
	child("no page", no_page);
	interrupted();
	traps();
	child("one after the other", again);
	child("as many as there can be", many);
	child("exec", exec_of_hybrid);
	between_processes();
	pagers();
	programs_end_with_pager();
	deaf_pager();
	child("grants", grant);
	child("exceptions for Linux's own pager", usurp);
	robbery();
	fflush(stdout);
	child("a spinning one", spin);
	child("on the move", move);
	child("one that an lthread made", made_by_an_lthread);
	child("no memory below", unmapped_without_memory);
	return 0;
}
