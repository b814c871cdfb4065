// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tables 4 and 5 of SOSP 1997 between Linux processes on Keel. Native lthreads of two processes
 * send each other messages and map each other pages; one is the pager of the other process's Linux
 * thread. user/bench/src/paper measures the same between native tasks, with the pages in the same
 * order; appel.c measures Linux's own means. The receiver of bytes answers with the last byte plus
 * 1.
 */
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"
#include "keel_native.h"

#define CHUNK_LOG2 16
#define CHUNK (1ul << CHUNK_LOG2)
#define PAGE_LOG2 12
/* The receive window for mapped pages: the range of one page table. Its last page stays mapped. */
#define WINDOW_LOG2 21
#define WINDOW (1ul << WINDOW_LOG2)
#define STACK 16384
#define CLOSED_PAGES 100
#define STEP 37
#define ROUNDS 5

/* Labels of requests to the pager. */
enum request { CLOSE_ALL = 1 };

/* What the pager does at a fault. */
enum answer { OPEN, OPEN_TO_READ, END_PART, OPEN_AND_CLOSE };

/* Memory through which the two processes communicate. */
static struct {
	volatile unsigned long server;	/* the server's id */
	volatile enum answer answer;
} *shared;
static int started[2];	/* a pipe: the server has started */

static char bytes[CHUNK] __attribute__((aligned(CHUNK)));
static char stack[STACK] __attribute__((aligned(PAGE)));
/* The pager's pages. The last one stays mapped, so that the page table is not freed in between. */
static char pages[(CLOSED_PAGES + 1) * PAGE] __attribute__((aligned(PAGE)));
static struct keel_linux_native native;
static void (*server_main)(unsigned long);
static char *window, *open_page;

/*
 * Reports that it is ready, receives the number of operations, and reports the number of failures.
 */
KEEL_LTHREAD static long next_order(long wrong)
{
	struct keel_message m = { .tag = KEEL_TAG(0, 1), .words = { wrong } };

	keel_tell(&native, &m);
	return m.words[0];
}

/* Maps all pages of the process, and its own, in advance. */
KEEL_LTHREAD static void touch_bytes(void)
{
	for (unsigned long i = 0; i < CHUNK; i += PAGE)
		*(volatile char *)&bytes[i] = i / PAGE + 1;
}

static void begin(void (*main)(unsigned long))
{
	if (keel_area() < 0 || keel_native_begin(&native, main, stack + STACK, 0))
		fail("native lthread");
}

static void serve(void)
{
	begin(server_main);
	shared->server = native.thread;
	write(started[1], "", 1);
	keel_native(&native);
}

static void prepare(void (*server)(unsigned long), void (*client)(unsigned long))
{
	char *place, byte;

	if (!shared)
		shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	place = mmap(NULL, 2 * WINDOW, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED || place == MAP_FAILED)
		fail("mmap");
	window = (char *)(((unsigned long)place + WINDOW - 1) & -WINDOW);
	if (pipe(started))
		fail("pipe");
	server_main = server;
	start_child(serve);
	close(started[1]);
	if (read(started[0], &byte, 1) != 1)
		fail("server");
	close(started[0]);
	begin(client);
}

/* One repetition of the lthread's work. */
static void run(long count)
{
	native.words[0] = count;
	if (keel_native(&native) || native.words[0])
		fail("what came back");
}

/* Answers each message with 1 plus the byte that `last` finds in it. */
#define ANSWER_FOR_EVER(last)						\
	do {								\
		struct keel_message m = { 0 };				\
									\
		touch_bytes();						\
		next_order(0);						\
		for (keel_wait(&m);; keel_answer_and_wait(&m)) {	\
			m.words[0] = (unsigned char)((last) + 1);	\
			m.tag = KEEL_TAG(0, 1);				\
		}							\
	} while (0)

/* Sends numbers by `send` and counts the wrong answers. */
#define ASK_FOR_EVER(send)						\
	do {								\
		long count = (touch_bytes(), next_order(0));		\
									\
		for (;;) {						\
			long wrong = 0;					\
									\
			part_begins();					\
			for (long i = 0; i < count; i++) {		\
				struct keel_message m = { 0 };		\
									\
				send;					\
				wrong += m.words[0] != (unsigned char)(i + 1);	\
			}						\
			part_ends();					\
			count = next_order(wrong);			\
		}							\
	} while (0)

KEEL_LTHREAD static void byte_server(unsigned long unused)
{
	(void)unused;
	ANSWER_FOR_EVER(m.words[0]);
}

KEEL_LTHREAD static void send_byte(long number, struct keel_message *m)
{
	m->tag = KEEL_TAG(0, 1);
	m->words[0] = (unsigned char)number;
	keel_call_thread(shared->server, m);
}

KEEL_LTHREAD static void byte_client(unsigned long unused)
{
	(void)unused;
	ASK_FOR_EVER(send_byte(i, &m));
}

KEEL_LTHREAD static void string_server(unsigned long unused)
{
	(void)unused;
	keel_utcb()->buffers[0] = (unsigned long)bytes;
	keel_utcb()->buffers[1] = CHUNK;
	keel_utcb()->buffer_count = 1;
	ANSWER_FOR_EVER(*(volatile char *)&bytes[CHUNK - 1]);
}

KEEL_LTHREAD static void send_string(long number, struct keel_message *m)
{
	*(volatile char *)&bytes[CHUNK - 1] = number;
	keel_utcb()->strings[0] = (unsigned long)bytes;
	keel_utcb()->strings[1] = CHUNK;
	m->tag = 1 << KEEL_TAG_STRINGS_SHIFT;
	keel_call_thread(shared->server, m);
}

KEEL_LTHREAD static void string_client(unsigned long unused)
{
	(void)unused;
	ASK_FOR_EVER(send_string(i, &m));
}

/* The first word is the number of bytes mapped, whose last one is read; 0: the page that stays. */
KEEL_LTHREAD static void mapping_server(unsigned long unused)
{
	(void)unused;
	keel_utcb()->receive_fpage = keel_fpage(window, WINDOW_LOG2, KEEL_FPAGE_RWX);
	ANSWER_FOR_EVER(((volatile char *)window)[(m.words[0] ? m.words[0] : WINDOW) - 1]);
}

KEEL_LTHREAD static void lend(unsigned long fpage, unsigned long place, unsigned long size, struct keel_message *m)
{
	keel_put_map(0, place, fpage);
	m->tag = KEEL_TAG(0, 1) | 1 << KEEL_TAG_MAPS_SHIFT;
	m->words[0] = size;
	keel_call_thread(shared->server, m);
}

KEEL_LTHREAD static void send_mapping(unsigned long log2, long number, struct keel_message *m)
{
	*(volatile char *)&bytes[(1 << log2) - 1] = number;
	lend(keel_fpage(bytes, log2, KEEL_FPAGE_READ | KEEL_FPAGE_WRITE), 0, 1 << log2, m);
	keel_unmap(keel_fpage(bytes, log2, 0));
}

/* A page that stays keeps the page table there. */
KEEL_LTHREAD static void lend_what_stays(void)
{
	struct keel_message m;

	*(volatile char *)pages = 1;
	lend(keel_fpage(pages, PAGE_LOG2, KEEL_FPAGE_READ), WINDOW - PAGE, 0, &m);
}

KEEL_LTHREAD static void page_client(unsigned long unused)
{
	(void)unused;
	lend_what_stays();
	ASK_FOR_EVER(send_mapping(PAGE_LOG2, i, &m));
}

KEEL_LTHREAD static void chunk_client(unsigned long unused)
{
	(void)unused;
	lend_what_stays();
	ASK_FOR_EVER(send_mapping(CHUNK_LOG2, i, &m));
}

static void prepare_rpc(void)
{
	prepare(byte_server, byte_client);
}

static void prepare_string(void)
{
	prepare(string_server, string_client);
}

static void prepare_page(void)
{
	prepare(mapping_server, page_client);
}

static void prepare_chunk(void)
{
	prepare(mapping_server, chunk_client);
}

KEEL_LTHREAD static void close_pages(void)
{
	for (int i = 0; i < CLOSED_PAGES; i++)
		keel_unmap(keel_fpage(pages + i * PAGE, PAGE_LOG2, 0));
}

/* Maps its own pages to faults in the window, and forwards other faults. */
KEEL_LTHREAD static void pager(unsigned long unused)
{
	struct keel_message m = { 0 };

	(void)unused;
	for (int i = 0; i <= CLOSED_PAGES; i++)
		*(volatile char *)&pages[i * PAGE] = 1;
	next_order(0);
	for (keel_wait(&m);; keel_answer_and_wait(&m)) {
		unsigned long offset = (m.words[0] & -(unsigned long)PAGE) - (unsigned long)window, rights = KEEL_FPAGE_READ;
		enum answer answer = shared->answer;

		if (keel_kind(&m) != KEEL_KIND_PAGE_FAULT) {
			if (keel_label(&m) == CLOSE_ALL)
				close_pages();
			m.tag = KEEL_TAG(0, 1);
			m.words[0] = 1;
			continue;
		}
		if (offset >= sizeof(pages)) {
			m.tag = KEEL_TAG_FORWARD;
			continue;
		}
		if (answer == END_PART)
			part_ends();
		if (answer == OPEN_AND_CLOSE) {
			if (open_page)
				keel_unmap(keel_fpage(open_page, PAGE_LOG2, 0));
			open_page = pages + offset;
		}
		if (answer != OPEN_TO_READ)
			rights |= KEEL_FPAGE_WRITE;
		keel_put_map(0, m.words[0] & -(unsigned long)PAGE, keel_fpage(pages + offset, PAGE_LOG2, rights));
		m.tag = 1 << KEEL_TAG_MAPS_SHIFT;
	}
}

/* Forwards the program's requests to the pager. */
KEEL_LTHREAD static void messenger(unsigned long unused)
{
	(void)unused;
	for (;;) {
		struct keel_message m = { .tag = KEEL_TAG(next_order(0), 0) };

		keel_call_thread(shared->server, &m);
	}
}

static void close_all(void)
{
	run(CLOSE_ALL);
}

static void prepare_pager(void)
{
	prepare(pager, messenger);
	/* No thread has this pager yet. */
	shared->answer = OPEN;
	if (keel_pager(shared->server))
		fail("keel_pager");
	if (!((volatile char *)window)[CLOSED_PAGES * PAGE])
		fail("the page that stays");
	close_all();
}

static void finish_pager(void)
{
	keel_pager(0);
	end_children();
}

static volatile char *page_of(long access)
{
	return window + access * STEP % CLOSED_PAGES * PAGE;
}

static void read_all(long count)
{
	for (long i = 1; i <= count; i++)
		if (!*page_of(i))
			fail("what the pager mapped");
}

static void prepare_to_read(void)
{
	shared->answer = OPEN_TO_READ;
	close_all();
	read_all(CLOSED_PAGES);
	shared->answer = END_PART;
}

static void run_trap(long count)
{
	for (long i = 1; i <= count; i++) {
		part_begins();
		*page_of(i) = 1;
	}
}

static void write_all(long count)
{
	for (long i = 1; i <= count; i++)
		*page_of(i) = 1;
}

static void prepare_appel1(void)
{
	prepare_pager();
	shared->answer = OPEN_AND_CLOSE;
}

static void run_appel2(long count)
{
	for (long i = 0; i < count; i++) {
		if (i % CLOSED_PAGES == 0)
			close_all();
		*page_of(i) = 1;
	}
}

static const struct row rows[] = {
	{ "hybrid-rpc-round-trip", 500, prepare_rpc, NULL, run, end_children, .marks_itself = 1, .outside = 1 },
	{ "hybrid-rpc-64k", 20, prepare_string, NULL, run, end_children, .marks_itself = 1, .outside = 1 },
	{ "hybrid-mapping-rpc-page", 500, prepare_page, NULL, run, end_children, .marks_itself = 1, .outside = 1 },
	{ "hybrid-mapping-rpc-64k", 20, prepare_chunk, NULL, run, end_children, .marks_itself = 1, .outside = 1 },
	{ "hybrid-fault", CLOSED_PAGES, prepare_pager, close_all, read_all, finish_pager },
	{ "hybrid-trap", CLOSED_PAGES, prepare_pager, prepare_to_read, run_trap, finish_pager, .marks_itself = 1 },
	{ "hybrid-appel1", ROUNDS * CLOSED_PAGES, prepare_appel1, NULL, write_all, finish_pager },
	{ "hybrid-appel2", ROUNDS * CLOSED_PAGES, prepare_pager, NULL, run_appel2, finish_pager },
};
const struct rows hybrid_rows = { rows, COUNT(rows) };
