// SPDX-License-Identifier: GPL-2.0-only
/* Rings and requests that finish later: io_uring, Linux aio, userfaultfd. */
#include "check.h"
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sys/ioctl.h>

struct ring {
	int fd;
	char *submissions, *completions;
	struct io_uring_sqe *entries;
	struct io_uring_params params;
};

static bool open_ring(struct ring *ring)
{
	struct io_uring_params *params = &ring->params;

	memset(ring, 0, sizeof *ring);
	ring->fd = syscall(SYS_io_uring_setup, 4, params);
	say_bool("setup", ring->fd >= 0);
	if (ring->fd < 0)
		return false;
	ring->submissions = mmap(NULL, params->sq_off.array + params->sq_entries * sizeof(unsigned), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQ_RING);
	ring->completions = mmap(NULL, params->cq_off.cqes + params->cq_entries * sizeof(struct io_uring_cqe),
				 PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_CQ_RING);
	ring->entries = mmap(NULL, params->sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE,
			     MAP_SHARED | MAP_POPULATE, ring->fd, IORING_OFF_SQES);
	return true;
}

/* Submits one request, waits for it and states its result. */
static void submit(struct ring *ring, const char *what, struct io_uring_sqe request)
{
	unsigned *tail = (unsigned *)(ring->submissions + ring->params.sq_off.tail);
	unsigned *array = (unsigned *)(ring->submissions + ring->params.sq_off.array);
	unsigned *head = (unsigned *)(ring->completions + ring->params.cq_off.head);
	struct io_uring_cqe *results = (struct io_uring_cqe *)(ring->completions + ring->params.cq_off.cqes);
	unsigned slot = *tail & (ring->params.sq_entries - 1);

	ring->entries[slot] = request;
	array[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	say_value(what, syscall(SYS_io_uring_enter, ring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0));
	say("result=%d", results[*head & (ring->params.cq_entries - 1)].res);
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

CHECK(asynchronous, io_uring)
{
	struct ring ring;
	static char text[16] = "written";
	int fd = make_file("ring", "");
	struct __kernel_timespec limit = { 0, 10 * MILLISECOND };

	if (!open_ring(&ring))
		return;
	submit(&ring, "nop", (struct io_uring_sqe){ .opcode = IORING_OP_NOP });
	submit(&ring, "write",
	       (struct io_uring_sqe){ .opcode = IORING_OP_WRITE, .fd = fd, .addr = (uintptr_t)text, .len = 7 });
	memset(text, 0, sizeof text);
	submit(&ring, "read",
	       (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = fd, .addr = (uintptr_t)text, .len = 16 });
	say("text=%s", text);
	submit(&ring, "bad_pointer", (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = fd, .addr = 16, .len = 16 });
	submit(&ring, "bad_fd",
	       (struct io_uring_sqe){ .opcode = IORING_OP_READ, .fd = 999, .addr = (uintptr_t)text, .len = 1 });
	submit(&ring, "timeout", (struct io_uring_sqe){ .opcode = IORING_OP_TIMEOUT, .addr = (uintptr_t)&limit, .len = 1 });
	submit(&ring, "unknown", (struct io_uring_sqe){ .opcode = 250 });
}

CHECK(asynchronous, io_uring_errors)
{
	struct io_uring_params params = { 0 };

	say_value("zero", syscall(SYS_io_uring_setup, 0, &params));
	say_value("bad_pointer", syscall(SYS_io_uring_setup, 4, 8));
	params.flags = 0x80000000;
	say_value("bad_flags", syscall(SYS_io_uring_setup, 4, &params));
	say_value("not_ring", syscall(SYS_io_uring_enter, open("/dev/null", O_RDONLY), 0, 0, 0, NULL, 0));
}

CHECK(asynchronous, linux_aio)
{
	static char text[16];
	aio_context_t context = 0;
	struct io_event event;
	struct iocb request = { .aio_lio_opcode = IOCB_CMD_PREAD, .aio_buf = (uintptr_t)text, .aio_nbytes = 5 };
	struct iocb *requests[1] = { &request };

	request.aio_fildes = make_file("aio", "hello");
	say_result("setup", syscall(SYS_io_setup, 4, &context));
	say_value("submit", syscall(SYS_io_submit, context, 1, requests));
	say_value("events", syscall(SYS_io_getevents, context, 1, 1, &event, NULL));
	say("result=%lld text=%s", (long long)event.res, text);
	request.aio_fildes = 999;
	say_value("bad_fd", syscall(SYS_io_submit, context, 1, requests));
	say_result("destroy", syscall(SYS_io_destroy, context));
	say_result("again", syscall(SYS_io_destroy, context));
}

static int fault_fd;

/* Answers page faults: each page is filled with its ordinal number. */
static void *serve_faults(void *base)
{
	static char page[PAGE] __attribute__((aligned(4096)));
	struct uffd_msg message;

	while (read(fault_fd, &message, sizeof message) == sizeof message) {
		uintptr_t address = message.arg.pagefault.address & ~(PAGE - 1);
		struct uffdio_copy copy = { .dst = address, .src = (uintptr_t)page, .len = PAGE };

		memset(page, 1 + (address - (uintptr_t)base) / PAGE, PAGE);
		ioctl(fault_fd, UFFDIO_COPY, &copy);
	}
	return NULL;
}

CHECK(asynchronous, userfaultfd)
{
	struct uffdio_api api = { .api = UFFD_API };
	volatile char *memory = map_pages(8);
	struct uffdio_register range = { { (uintptr_t)memory, 8 * PAGE }, UFFDIO_REGISTER_MODE_MISSING, 0 };
	pthread_t server;
	int sum = 0;

	fault_fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	say_bool("open", fault_fd >= 0);
	say_result("api", ioctl(fault_fd, UFFDIO_API, &api));
	say_result("register", ioctl(fault_fd, UFFDIO_REGISTER, &range));
	pthread_create(&server, NULL, serve_faults, (void *)memory);
	for (int i = 0; i < 8; i++)
		sum = sum * 3 + memory[i * PAGE + 100];
	say("sum=%d", sum);
}

static int open_userfaultfd(uint64_t features)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = { .api = UFFD_API, .features = features };

	must("open", fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	return fd;
}

CHECK(asynchronous, userfaultfd_features)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };

	say_result("api", ioctl(fd, UFFDIO_API, &api));
	say("features=%#llx ioctls=%#llx", api.features, api.ioctls);
}

static int write_page(void *page)
{
	*(volatile char *)page = 5;
	return 0;
}

CHECK(asynchronous, userfaultfd_write_protection)
{
	int fd = open_userfaultfd(UFFD_FEATURE_PAGEFAULT_FLAG_WP);
	char *memory = map_pages(4);
	struct uffdio_register range = { .range = { (uintptr_t)memory, 4 * PAGE }, .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect protect = { .range = { (uintptr_t)memory + PAGE, PAGE }, .mode = UFFDIO_WRITEPROTECT_MODE_WP };
	struct uffd_msg message = { 0 };
	pid_t pid;

	memset(memory, 3, 4 * PAGE);
	say_result("register", ioctl(fd, UFFDIO_REGISTER, &range));
	say_result("protect", ioctl(fd, UFFDIO_WRITEPROTECT, &protect));
	memory[0] = memory[2 * PAGE] = 4;
	say("read=%d", memory[PAGE]);
	pid = clone(write_page, map_pages(16) + 16 * PAGE, CLONE_VM | SIGCHLD, memory + PAGE);
	for (int i = 0; i < 5000 && read(fd, &message, sizeof message) < 0; i++)
		sleep_ms(1);
	say("event=%#x flags=%#llx", message.event, message.arg.pagefault.flags);
	say_bool("page", (message.arg.pagefault.address & ~(PAGE - 1)) == (uintptr_t)memory + PAGE);
	protect.mode = 0;
	say_result("release", ioctl(fd, UFFDIO_WRITEPROTECT, &protect));
	say_child("writer", pid);
	say("written=%d", memory[PAGE]);
}
