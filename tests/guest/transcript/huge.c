// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pages of 2 MB: transparent ones, those of a pool, and changes to a part of one.
 */
#include "check.h"

#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <linux/userfaultfd.h>

#define HUGE (2UL << 20)
#define COLLAPSE 25 /* MADV_COLLAPSE, younger than this C library */
#define POOL "/proc/sys/vm/nr_hugepages"

/* Memory of a number of large pages at an aligned address, not yet present. */
static char *map_aligned(size_t count)
{
	char *start = mmap(NULL, (count + 1) * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *aligned = (char *)(((uintptr_t)start + HUGE - 1) & ~(HUGE - 1));

	must("map memory", start != MAP_FAILED);
	munmap(start, aligned - start);
	return aligned;
}

/* The kilobytes in a line of a mapping's smaps. */
static int kilobytes(const char *memory, const char *line)
{
	static char text[1 << 18];
	char wanted[32];
	size_t length = 0;
	ssize_t part;
	int fd = open("/proc/self/smaps", O_RDONLY);
	const char *found;

	while ((part = read(fd, text + length, sizeof text - 1 - length)) > 0)
		length += part;
	text[length] = 0;
	close(fd);
	snprintf(wanted, sizeof wanted, "%lx-", (unsigned long)memory);
	found = strstr(text, wanted);
	found = found ? strstr(found, line) : NULL;
	return found ? atoi(found + strlen(line)) : -1;
}

/* Bytes that differ from the pattern that fill() wrote. */
static int wrong_bytes(const char *memory, size_t from, size_t to)
{
	int wrong = 0;

	for (size_t at = from; at < to; at += 512)
		wrong += memory[at] != (char)(at >> 9);
	return wrong;
}

static void fill(char *memory, size_t size)
{
	for (size_t at = 0; at < size; at += 512)
		memory[at] = at >> 9;
}

CHECK(huge, transparent)
{
	char *memory = map_aligned(2);
	pid_t pid;

	say_result("advise", madvise(memory, 2 * HUGE, MADV_HUGEPAGE));
	fill(memory, 2 * HUGE);
	say("huge_kb=%d", kilobytes(memory, "AnonHugePages:"));
	pid = spawn();
	if (!pid) {
		memory[HUGE] = 77;
		_exit(wrong_bytes(memory, 0, HUGE) + wrong_bytes(memory, HUGE + 512, 2 * HUGE));
	}
	say_child("child", pid);
	say("wrong=%d", wrong_bytes(memory, 0, 2 * HUGE));
	memory[3] = 1;
	say("after_write=%d huge_kb=%d", wrong_bytes(memory, 0, 2 * HUGE), kilobytes(memory, "AnonHugePages:"));
}

CHECK(huge, parts_change)
{
	char *memory = map_aligned(2), *moved;

	catch_faults();
	madvise(memory, 2 * HUGE, MADV_HUGEPAGE);
	fill(memory, 2 * HUGE);
	say_result("protect", mprotect(memory + 5 * PAGE, PAGE, PROT_READ));
	SAY_FAULT_OF("write", memory + 5 * PAGE, *(volatile char *)(memory + 5 * PAGE) = 1);
	memory[6 * PAGE + 1] = 1;
	say_result("unmap", munmap(memory + 9 * PAGE, PAGE));
	SAY_FAULT_OF("read", memory + 9 * PAGE, (void)*(volatile char *)(memory + 9 * PAGE));
	say_result("drop", madvise(memory + HUGE + PAGE, PAGE, MADV_DONTNEED));
	say("dropped=%d", memory[HUGE + PAGE + 512]);
	say("wrong=%d,%d", wrong_bytes(memory, 0, 9 * PAGE), wrong_bytes(memory, 10 * PAGE, HUGE + PAGE));
	moved = mremap(memory + HUGE, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, map_aligned(1));
	must("move", moved != MAP_FAILED);
	say("moved=%d", wrong_bytes(moved, 2 * PAGE, HUGE));
	SAY_FAULT_OF("old_place", memory + HUGE, (void)*(volatile char *)(memory + HUGE));
}

CHECK(huge, moves_as_a_whole)
{
	char *memory = map_aligned(1), *moved;

	madvise(memory, HUGE, MADV_HUGEPAGE);
	fill(memory, HUGE);
	moved = mremap(memory, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, map_aligned(1));
	must("move", moved != MAP_FAILED);
	say("wrong=%d huge_kb=%d", wrong_bytes(moved, 0, HUGE), kilobytes(moved, "AnonHugePages:"));
}

/* Moves small pages to an address, over whatever is mapped there. */
static char *move(char *memory, size_t size, char *to)
{
	char *moved = mremap(memory, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, to);

	must("move", moved == to);
	return moved;
}

/* Whole page tables move. A child's copy-on-write mappings stay where they were. */
CHECK(huge, tables_move)
{
	char *memory = map_aligned(3), *used = map_aligned(3), *moved;
	int go[2];
	pid_t pid;

	catch_faults();
	must("pipe", !pipe(go));
	madvise(memory, 3 * HUGE, MADV_NOHUGEPAGE);
	madvise(used, 3 * HUGE, MADV_NOHUGEPAGE);
	fill(memory, 3 * HUGE);
	memset(used, 1, 3 * HUGE);
	pid = spawn();
	if (!pid)
		_exit(read(go[0], &(char){ 0 }, 1) != 1 || wrong_bytes(memory, 0, 3 * HUGE));
	moved = move(memory, 3 * HUGE, used);
	SAY_FAULT_OF("old_place", memory + PAGE, (void)*(volatile char *)(memory + PAGE));
	say("moved=%d", wrong_bytes(moved, 0, 3 * HUGE));
	for (size_t at = 0; at < 2 * HUGE; at += PAGE)
		moved[at] = 5;
	say("beside=%d,%d", wrong_bytes(moved, 2 * HUGE, 3 * HUGE), moved[HUGE]);
	must("go", write(go[1], "", 1) == 1);
	say_child("child", pid);
	fill(moved, 3 * HUGE);
	memory = move(moved, 3 * HUGE, memory);
	SAY_FAULT_OF("between", moved + HUGE, *(volatile char *)(moved + HUGE) = 1);
	say("back=%d", wrong_bytes(memory, 0, 3 * HUGE));
	say_result("protect", mprotect(memory + HUGE, HUGE, PROT_READ));
	moved = move(memory + HUGE, HUGE, used);
	SAY_FAULT_OF("write", moved, *(volatile char *)moved = 1);
	say("rest=%d,%d", wrong_bytes(memory, 0, HUGE), wrong_bytes(memory, 2 * HUGE, 3 * HUGE));
}

/* Memory that is moved between two addresses, and how often a reader saw something else there. */
struct wanderer {
	char *places[2];
	volatile bool stop;
	int wrong;
};

static void *read_along(void *argument)
{
	struct wanderer *wanderer = argument;
	int fd = memfd_create("copy", 0);
	char copy[1024];

	while (!wanderer->stop)
		for (size_t at = 0; at < 2 * HUGE; at += 37 * PAGE) {
			if (pwrite(fd, wanderer->places[at / PAGE % 2] + at, sizeof(copy), 0) != sizeof(copy))
				continue;
			must("read", pread(fd, copy, sizeof(copy), 0) == sizeof(copy));
			wanderer->wrong += copy[0] != (char)(at >> 9) || copy[512] != (char)((at + 512) >> 9);
		}
	return NULL;
}

/*
 * One thread moves memory to and fro while two others read it by system calls: they get its content
 * or an error.
 */
CHECK(huge, tables_move_under_readers)
{
	struct wanderer wanderer = { .places = { map_aligned(2), map_aligned(2) } };
	pthread_t readers[2];

	madvise(wanderer.places[0], 2 * HUGE, MADV_NOHUGEPAGE);
	fill(wanderer.places[0], 2 * HUGE);
	/* Readers may run before the first move. */
	must("protect", !mprotect(wanderer.places[1], 2 * HUGE, PROT_NONE));
	for (size_t n = 0; n < ARRAY_SIZE(readers); n++)
		must("thread", !pthread_create(&readers[n], NULL, read_along, &wanderer));
	for (int n = 0; n < 1000; n++)
		move(wanderer.places[n % 2], 2 * HUGE, wanderer.places[1 - n % 2]);
	wanderer.stop = true;
	for (size_t n = 0; n < ARRAY_SIZE(readers); n++)
		pthread_join(readers[n], NULL);
	say("wrong=%d,%d", wanderer.wrong, wrong_bytes(wanderer.places[0], 0, 2 * HUGE));
}

CHECK(huge, collapse)
{
	char *memory = map_aligned(1);

	madvise(memory, HUGE, MADV_NOHUGEPAGE);
	fill(memory, HUGE);
	say("before=%d", kilobytes(memory, "AnonHugePages:"));
	madvise(memory, HUGE, MADV_HUGEPAGE);
	say_result("collapse", madvise(memory, HUGE, COLLAPSE));
	say("wrong=%d huge_kb=%d", wrong_bytes(memory, 0, HUGE), kilobytes(memory, "AnonHugePages:"));
	memory[8 * PAGE] = memory[8 * PAGE];
	say("again=%d", wrong_bytes(memory, 0, HUGE));
}

CHECK(huge, kernel_reads_and_writes)
{
	char *memory = map_aligned(2);
	int fd = make_file("file", "");

	madvise(memory, 2 * HUGE, MADV_HUGEPAGE);
	fill(memory, HUGE);
	say_value("write", write(fd, memory + 100, HUGE - 200));
	say_value("read", pread(fd, memory + HUGE + 100, HUGE, 0));
	say("same=%d", memcmp(memory + 100, memory + HUGE + 100, HUGE - 200));
	say_value("at_end", pread(fd, memory + 2 * HUGE - 10, 100, 0));
}

CHECK(huge, shared_zero_page)
{
	char *memory = map_aligned(1);
	int sum = 0;

	madvise(memory, HUGE, MADV_HUGEPAGE);
	for (size_t at = 0; at < HUGE; at += PAGE)
		sum += ((volatile char *)memory)[at];
	memory[7 * PAGE] = 1;
	for (size_t at = 0; at < HUGE; at += PAGE)
		sum += ((volatile char *)memory)[at];
	say("sum=%d", sum);
}

/* Free pages of the pool. */
static int free_pages(void)
{
	const char *found = strstr(slurp("/proc/meminfo"), "HugePages_Free:");

	return found ? atoi(found + strlen("HugePages_Free:")) : -1;
}

static void set_pool(const char *count)
{
	int fd = open(POOL, O_WRONLY);

	must("set the pool", fd >= 0 && write(fd, count, strlen(count)) > 0);
	close(fd);
}

CHECK(huge, pool)
{
	char *memory, *none;
	pid_t pid;
	int fd;

	set_pool("3");
	say("pool=%d", atoi(slurp(POOL)));
	memory = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	must("map", memory != MAP_FAILED);
	fill(memory, 2 * HUGE);
	pid = spawn();
	if (!pid) {
		memory[HUGE] = 99;
		_exit(wrong_bytes(memory, 0, HUGE));
	}
	say_child("child", pid);
	say("seen=%d", memory[HUGE]);
	none = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	say_result("too_many", none == MAP_FAILED ? -1 : 0);
	say_result("unaligned", munmap(memory + PAGE, PAGE));
	say_result("unmap", munmap(memory, 2 * HUGE));
	fd = memfd_create("huge", MFD_HUGETLB);
	say_result("file", ftruncate(fd, HUGE));
	memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	must("map the file", memory != MAP_FAILED);
	fill(memory, HUGE);
	say("wrong=%d", wrong_bytes(memory, 0, HUGE));
	munmap(memory, HUGE);
	close(fd);
	set_pool("0");
	say("pool=%d", atoi(slurp(POOL)));
}

CHECK(huge, private_copies_on_write)
{
	char *memory;
	pid_t pid;

	set_pool("2");
	memory = mmap(NULL, HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	must("map", memory != MAP_FAILED);
	fill(memory, HUGE);
	pid = spawn();
	if (!pid) {
		memory[0] = 55;
		_exit(memory[0]);
	}
	say_child("child", pid);
	say("wrong=%d", wrong_bytes(memory, 0, HUGE));
	say_result("protect", mprotect(memory, HUGE, PROT_READ));
	catch_faults();
	SAY_FAULT_OF("write", memory + 512, *(volatile char *)(memory + 512) = 1);
	munmap(memory, HUGE);
	set_pool("0");
}

CHECK(huge, pool_gets_its_pages_back)
{
	char *memory;
	pid_t pid;

	set_pool("2");
	memory = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0);
	must("map", memory != MAP_FAILED);
	say("free=%d", free_pages());
	fill(memory, 2 * HUGE);
	say("filled=%d", free_pages());
	say_result("drop", madvise(memory, HUGE, MADV_DONTNEED));
	say("free=%d byte=%d", free_pages(), memory[512]);
	pid = spawn();
	if (!pid)
		_exit(wrong_bytes(memory, HUGE, 2 * HUGE));
	say_child("child", pid);
	munmap(memory + HUGE, HUGE);
	say("half=%d", free_pages());
	munmap(memory, HUGE);
	say("all=%d", free_pages());
	set_pool("0");
}

CHECK(huge, file_system)
{
	struct statfs info;
	char *memory, *other;
	int fd;

	set_pool("2");
	must("mkdir", mkdir("pages", 0755) == 0);
	say_result("mount", mount("none", "pages", "hugetlbfs", 0, "pagesize=2M,size=4M"));
	statfs("pages", &info);
	say("type=%#lx block=%ld blocks=%ld", (long)info.f_type, (long)info.f_bsize, (long)info.f_blocks);
	fd = open("pages/file", O_RDWR | O_CREAT, 0600);
	say_value("write", write(fd, "x", 1));
	say_result("length", ftruncate(fd, PAGE));
	say_result("extend", ftruncate(fd, 2 * HUGE));
	memory = mmap(NULL, 2 * HUGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	other = mmap(NULL, 2 * HUGE, PROT_READ, MAP_SHARED, fd, 0);
	must("map", memory != MAP_FAILED && other != MAP_FAILED);
	fill(memory, 2 * HUGE);
	say("wrong=%d read=%d", wrong_bytes(other, 0, 2 * HUGE), (int)pread(fd, memory, 4 * PAGE, HUGE));
	catch_faults();
	say_result("cut", ftruncate(fd, HUGE));
	SAY_FAULT_OF("after", other + HUGE, (void)*(volatile char *)(other + HUGE));
	say_result("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, HUGE));
	say("hole=%d", other[512]);
	munmap(memory, 2 * HUGE);
	munmap(other, 2 * HUGE);
	close(fd);
	say_result("unlink", unlink("pages/file"));
	say_result("umount", umount("pages"));
	say("free=%d", free_pages());
	set_pool("0");
}

CHECK(huge, write_protection_of_a_part)
{
	int fd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	struct uffdio_api api = { .api = UFFD_API, .features = UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_SIGBUS };
	char *memory = map_aligned(1), *page = memory + 3 * PAGE;
	struct uffdio_register range = { .range = { (uintptr_t)memory, HUGE }, .mode = UFFDIO_REGISTER_MODE_WP };
	struct uffdio_writeprotect protect = { .range = { (uintptr_t)memory, HUGE }, .mode = UFFDIO_WRITEPROTECT_MODE_WP };

	must("open", fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0);
	madvise(memory, HUGE, MADV_HUGEPAGE);
	fill(memory, HUGE);
	say_result("register", ioctl(fd, UFFDIO_REGISTER, &range));
	say_result("protect", ioctl(fd, UFFDIO_WRITEPROTECT, &protect));
	say("huge_kb=%d", kilobytes(memory, "AnonHugePages:"));
	catch_faults();
	SAY_FAULT_OF("whole", page, *(volatile char *)page = 1);
	protect.range = (struct uffdio_range){ (uintptr_t)page, PAGE };
	protect.mode = 0;
	say_result("release", ioctl(fd, UFFDIO_WRITEPROTECT, &protect));
	*(volatile char *)page = page[0];
	SAY_FAULT_OF("beside", page + PAGE, *(volatile char *)(page + PAGE) = 1);
	say("wrong=%d huge_kb=%d", wrong_bytes(memory, 0, HUGE), kilobytes(memory, "AnonHugePages:"));
}
