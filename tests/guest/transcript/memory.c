// SPDX-License-Identifier: GPL-2.0-only
/*
 * Address spaces: mmap and related calls on anonymous memory, brk, the stack. Files are in
 * mapping.c.
 */
#include "check.h"
#include <sys/resource.h>

#define MEGABYTE (1UL << 20)

CHECK(memory, anonymous_is_zero)
{
	char *memory = map_pages(64);
	int sum = 0;

	for (size_t i = 0; i < 64 * PAGE; i += 64)
		sum |= memory[i];
	say("or=%d", sum);
}

CHECK(memory, read_then_write_zero_page)
{
	volatile char *memory = map_pages(2);
	int first = memory[0] + memory[PAGE];

	memory[0] = 5;
	say("first=%d written=%d other=%d", first, memory[0], memory[PAGE]);
}

CHECK(memory, unmap_and_touch)
{
	char *memory = map_pages(3);

	catch_faults();
	memset(memory, 1, 3 * PAGE);
	say_result("munmap_middle", munmap(memory + PAGE, PAGE));
	say("first=%d last=%d", memory[0], memory[2 * PAGE]);
	SAY_FAULT_OF("middle", memory + PAGE, (void)*(volatile char *)(memory + PAGE));
	say_result("again", munmap(memory + PAGE, PAGE));
	say_result("unaligned", munmap(memory + 1, PAGE));
	say_result("length_zero", munmap(memory, 0));
}

CHECK(memory, remap_after_unmap_is_zero)
{
	char *memory = map_pages(1), *again;

	memory[0] = 77;
	munmap(memory, PAGE);
	again = mmap(memory, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	say_bool("same_place", again == memory);
	say("value=%d", again[0]);
}

CHECK(memory, fixed_replaces)
{
	char *memory = map_pages(3);

	memset(memory, 4, 3 * PAGE);
	mmap(memory + PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	say("values=%d,%d,%d", memory[0], memory[PAGE], memory[2 * PAGE]);
	say_result("noreplace", (long)mmap(memory, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE,
					   -1, 0));
	say_result("unaligned", (long)mmap(memory + 8, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

CHECK(memory, map_errors)
{
	say_result("length_zero", (long)mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	say_result("no_kind", (long)mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0));
	say_result("bad_fd", (long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, 99, 0));
	say_result("huge", (long)mmap(NULL, SIZE_MAX / 2 + 1, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
	say_result("fixed_in_kernel", (long)mmap((void *)0xffff800000000000UL, PAGE, PROT_READ,
						 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	say_result("fixed_at_end", (long)mmap((void *)0x7ffffffff000UL, PAGE, PROT_READ,
					      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
	say_result("last_page", (long)mmap((void *)0x7fffffffe000UL, PAGE, PROT_READ,
					   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0));
}

CHECK(memory, map_32bit)
{
	uintptr_t memory = (uintptr_t)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT,
					   -1, 0);

	say_bool("below_2g", memory < (1UL << 31));
	*(char *)memory = 1;
}

CHECK(memory, protect_changes)
{
	char *memory = map_pages(4);

	catch_faults();
	memset(memory, 3, 4 * PAGE);
	say_result("read_only", mprotect(memory, 2 * PAGE, PROT_READ));
	SAY_FAULT_OF("write", memory, *(volatile char *)memory = 1);
	say_result("writable", mprotect(memory, 2 * PAGE, PROT_READ | PROT_WRITE));
	SAY_FAULT_OF("write", memory, *(volatile char *)memory = 1);
	say("kept=%d", memory[PAGE]);
	munmap(memory + 3 * PAGE, PAGE);
	say_result("hole", mprotect(memory, 4 * PAGE, PROT_READ));
	say_result("unaligned", mprotect(memory + 3, PAGE, PROT_READ));
}

CHECK(memory, execute_after_protect)
{
	unsigned char *memory = (unsigned char *)map_pages(1);
	static const unsigned char code[] = { 0xb8, 0x2a, 0, 0, 0, 0xc3 };

	memcpy(memory, code, sizeof code);
	say_result("mprotect", mprotect(memory, PAGE, PROT_READ | PROT_EXEC));
	say("returns=%d", ((int (*)(void))memory)());
	mprotect(memory, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC);
	memory[1] = 43;
	say("changed=%d", ((int (*)(void))memory)());
}

CHECK(memory, protect_after_fork)
{
	char *memory = map_pages(1);
	pid_t pid;

	memory[0] = 1;
	pid = spawn();
	if (!pid) {
		mprotect(memory, PAGE, PROT_READ);
		mprotect(memory, PAGE, PROT_READ | PROT_WRITE);
		memory[0] = 2;
		_exit(memory[0]);
	}
	say_child("child", pid);
	say("parent=%d", memory[0]);
}

CHECK(memory, dont_need)
{
	char *memory = map_pages(4);

	memset(memory, 9, 4 * PAGE);
	say_result("madvise", madvise(memory + PAGE, 2 * PAGE, MADV_DONTNEED));
	say("values=%d,%d,%d,%d", memory[0], memory[PAGE], memory[2 * PAGE], memory[3 * PAGE]);
	say_result("free", madvise(memory, PAGE, MADV_FREE));
	memory[0] = 8;
	say("after_free=%d", memory[0]);
	say_result("bad_advice", madvise(memory, PAGE, 12345));
	say_result("unaligned", madvise(memory + 1, PAGE, MADV_DONTNEED));
	munmap(memory + PAGE, PAGE);
	say_result("hole", madvise(memory, 4 * PAGE, MADV_DONTNEED));
}

CHECK(memory, dont_fork)
{
	char *memory = map_pages(1);
	pid_t pid;

	memory[0] = 1;
	say_result("madvise", madvise(memory, PAGE, MADV_DONTFORK));
	pid = spawn();
	if (!pid)
		_exit(*(volatile char *)memory);
	say_child("child", pid);
}

CHECK(memory, wipe_on_fork)
{
	char *memory = map_pages(1);
	pid_t pid;

	memory[0] = 1;
	say_result("madvise", madvise(memory, PAGE, MADV_WIPEONFORK));
	pid = spawn();
	if (!pid)
		_exit(memory[0]);
	say_child("child", pid);
	say("parent=%d", memory[0]);
}

CHECK(memory, remap_grow_and_move)
{
	char *memory = map_pages(2), *moved, *target = map_pages(8);

	memory[0] = 11;
	memory[PAGE] = 12;
	moved = mremap(memory, 2 * PAGE, 600 * PAGE, MREMAP_MAYMOVE);
	must("grow", moved != MAP_FAILED);
	say("grown=%d,%d,%d", moved[0], moved[PAGE], moved[599 * PAGE]);
	memory = mremap(moved, 600 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
	say_bool("at_target", memory == target);
	say("moved=%d,%d", memory[0], memory[PAGE]);
	say_result("unaligned", (long)mremap(memory + 1, PAGE, PAGE, 0));
	say_result("unmapped", (long)mremap(moved, PAGE, 2 * PAGE, 0));
}

CHECK(memory, remap_shrink)
{
	char *memory = map_pages(4), *same;

	catch_faults();
	memset(memory, 1, 4 * PAGE);
	same = mremap(memory, 4 * PAGE, PAGE, 0);
	say_bool("in_place", same == memory);
	SAY_FAULT_OF("tail", memory + PAGE, (void)*(volatile char *)(memory + PAGE));
}

CHECK(memory, remap_dontunmap)
{
	char *memory = map_pages(2), *moved;

	memory[0] = 21;
	moved = (char *)syscall(SYS_mremap, memory, 2 * PAGE, 2 * PAGE, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	must("mremap", moved != MAP_FAILED);
	say("old=%d new=%d", memory[0], moved[0]);
}

CHECK(memory, brk)
{
	char *start = sbrk(0);

	say_result("grow", brk(start + 10 * PAGE));
	start[9 * PAGE] = 1;
	say("zero=%d", start[5 * PAGE]);
	say_result("shrink", brk(start));
	say_result("grow_again", brk(start + 10 * PAGE));
	say("fresh=%d", start[9 * PAGE]);
	say_result("too_far", brk((void *)(SIZE_MAX - SIZE_MAX / 8)));
}

CHECK(memory, stack_grows)
{
	volatile char room[4 * MEGABYTE];

	room[0] = 1;
	room[2 * MEGABYTE] = 2;
	say("values=%d,%d", room[0], room[2 * MEGABYTE]);
}

static int __attribute__((noinline)) use_three_megabytes(void)
{
	volatile char room[3 * MEGABYTE];

	room[0] = 1;
	return room[0];
}

CHECK(memory, stack_limit)
{
	struct rlimit limit = { MEGABYTE, MEGABYTE };
	pid_t pid = spawn();

	if (!pid) {
		setrlimit(RLIMIT_STACK, &limit);
		_exit(use_three_megabytes());
	}
	say_child("child", pid);
}

CHECK(memory, grows_down)
{
	char *memory = mmap(NULL, 1024 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), *top;

	munmap(memory, 1024 * PAGE);
	top = mmap(memory + 1023 * PAGE, PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_GROWSDOWN, -1, 0);
	must("map", top != MAP_FAILED);
	catch_faults();
	SAY_FAULT_OF("below", top - 1, *(volatile char *)(top - 1) = 1);
	SAY_FAULT_OF("further", top - 3 * PAGE, *(volatile char *)(top - 3 * PAGE) = 1);
}

CHECK(memory, shared_with_child)
{
	volatile int *word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = spawn();

	if (!pid) {
		*word = 1234;
		_exit(0);
	}
	say_child("child", pid);
	say("seen=%d", *word);
}

CHECK(memory, shared_atomic_counter)
{
	int *word = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	for (int i = 0; i < 4; i++)
		if (!spawn()) {
			for (int round = 0; round < 20000; round++)
				__atomic_fetch_add(word, 1, __ATOMIC_SEQ_CST);
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	say("count=%d", *word);
}

CHECK(memory, mincore)
{
	char *memory = map_pages(4);
	unsigned char in[4] = { 9, 9, 9, 9 };

	memory[0] = memory[2 * PAGE] = 1;
	say_result("mincore", mincore(memory, 4 * PAGE, in));
	say("in=%d%d%d%d", in[0] & 1, in[1] & 1, in[2] & 1, in[3] & 1);
	say_result("bad_vector", mincore(memory, 4 * PAGE, (unsigned char *)8));
	munmap(memory + PAGE, PAGE);
	say_result("hole", mincore(memory, 4 * PAGE, in));
}

CHECK(memory, mlock)
{
	char *memory = map_pages(4);
	unsigned char in[4];

	say_result("mlock", mlock(memory, 4 * PAGE));
	mincore(memory, 4 * PAGE, in);
	say("in=%d%d%d%d", in[0] & 1, in[1] & 1, in[2] & 1, in[3] & 1);
	say_result("dont_need", madvise(memory, PAGE, MADV_DONTNEED));
	say_result("munlock", munlock(memory, 4 * PAGE));
	say_result("unmapped", mlock((void *)PAGE, PAGE));
	say_result("all", mlockall(MCL_CURRENT));
	say_result("none", munlockall());
}

CHECK(memory, populate)
{
	char *memory = mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	unsigned char in[8];
	int sum = 0;

	must("map", memory != MAP_FAILED);
	mincore(memory, 8 * PAGE, in);
	for (int i = 0; i < 8; i++)
		sum += in[i] & 1;
	say("resident=%d", sum);
}

#ifdef __x86_64__
CHECK(memory, sparse_reservation)
{
	char *memory = mmap(NULL, 1UL << 38, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	must("map", memory != MAP_FAILED);
	for (size_t i = 0; i < 64; i++)
		memory[i << 32] = i;
	say("last=%d between=%d", memory[63UL << 32], memory[(63UL << 32) + PAGE]);
	say_result("munmap", munmap(memory, 1UL << 38));
}
#endif

CHECK(memory, many_mappings)
{
	char *memory = map_pages(2000);
	int changes = 0;

	for (int i = 0; i < 2000; i += 2)
		changes += mprotect(memory + i * PAGE, PAGE, PROT_READ) == 0;
	for (int i = 1; i < 2000; i += 2)
		memory[i * PAGE] = 1;
	say("changes=%d", changes);
	say_result("munmap", munmap(memory, 2000 * PAGE));
}

CHECK(memory, sixty_four_megabytes)
{
	size_t words = 64 * MEGABYTE / sizeof(uint64_t);
	uint64_t *memory = (uint64_t *)map_pages(64 * MEGABYTE / PAGE), sum = 0;

	for (size_t i = 0; i < words; i += PAGE / 16)
		memory[i] = i * 2654435761u;
	for (size_t i = 0; i < words; i += PAGE / 16)
		sum += memory[i];
	say("sum=%llu", (unsigned long long)sum);
}

CHECK(memory, address_space_limit)
{
	struct rlimit limit = { 256 * MEGABYTE, 256 * MEGABYTE };

	say_result("setrlimit", setrlimit(RLIMIT_AS, &limit));
	say_result("map", (long)mmap(NULL, 512 * MEGABYTE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
}

CHECK(memory, smaps_resident_size)
{
	volatile char *memory = map_pages(16);
	char wanted[32];
	const char *line;

	for (int i = 0; i < 5; i++)
		memory[i * PAGE] = 1;
	snprintf(wanted, sizeof wanted, "%lx-", (unsigned long)memory);
	line = strstr(slurp("/proc/self/smaps"), wanted);
	line = line ? strstr(line, "Rss:") : NULL;
	say("rss_kb=%d", line ? atoi(line + 4) : -1);
}
