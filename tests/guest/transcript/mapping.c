// SPDX-License-Identifier: GPL-2.0-only
/* Mapped files and memory files: sharing, write-back, seals, huge and remote mappings. */
#include "check.h"
#include <sys/uio.h>

CHECK(mapping, private_file_is_cow)
{
	char text[6] = "";
	int fd = make_file("private", "hello");
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	must("map", memory != MAP_FAILED);
	memory[0] = 'J';
	must("read", pread(fd, text, 5, 0) == 5);
	say("memory=%.5s file=%s", memory, text);
}

CHECK(mapping, shared_file_writes_through)
{
	char text[6] = "";
	int fd = make_file("shared", "hello");
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	must("map", memory != MAP_FAILED);
	memory[0] = 'J';
	must("read", pread(fd, text, 5, 0) == 5);
	say("file=%s", text);
	must("write", pwrite(fd, "k", 1, 1) == 1);
	say("memory=%.5s", memory);
	say_result("msync", msync(memory, PAGE, MS_SYNC));
	say_result("msync_unaligned", msync(memory + 1, PAGE, MS_SYNC));
	say_result("msync_both", msync(memory, PAGE, MS_SYNC | MS_ASYNC));
}

CHECK(mapping, private_sees_file_until_written)
{
	int fd = make_file("late", "aaaa");
	volatile char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	say("first=%c", memory[0]);
	must("write", pwrite(fd, "b", 1, 0) == 1);
	say("after_write=%c", memory[0]);
	memory[1] = 'x';
	must("write", pwrite(fd, "c", 1, 0) == 1);
	say("after_copy=%c", memory[0]);
}

CHECK(mapping, access_modes)
{
	int fd;

	close(make_file("modes", "text"));
	fd = open("modes", O_RDONLY);
	say_result("shared_write", (long)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	say_result("private_write", (long)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
	fd = open("modes", O_WRONLY);
	say_result("write_only", (long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0));
	fd = open(".", O_RDONLY);
	say_result("directory", (long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0));
	fd = open("modes", O_RDONLY);
	say_result("offset_unaligned", (long)mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 7));
}

CHECK(mapping, offset)
{
	int fd = make_file("offset", "");
	char *memory;

	must("grow", ftruncate(fd, 8 * PAGE) == 0);
	must("write", pwrite(fd, "five", 4, 5 * PAGE) == 4);
	memory = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 5 * PAGE);
	say("text=%.4s next=%d", memory, memory[PAGE]);
}

CHECK(mapping, shared_between_processes)
{
	int fd = make_file("between", "0");
	char *memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	pid_t pid = spawn();

	if (!pid) {
		char *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, open("between", O_RDWR), 0);

		own[0] = 'C';
		_exit(0);
	}
	say_child("child", pid);
	say("seen=%c", memory[0]);
}

CHECK(mapping, twice_in_one_process)
{
	int fd = memfd_create("twice", 0);
	char *first, *second;

	must("grow", ftruncate(fd, PAGE) == 0);
	first = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	second = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	for (int i = 0; i < 100; i++) {
		first[i] = i;
		second[i + 100] = first[i];
	}
	say_bool("different", first != second);
	say("values=%d,%d", second[50], first[199]);
}

CHECK(mapping, survives_close_and_unlink)
{
	int fd = make_file("gone", "still here");
	char *memory = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, fd, 0);

	close(fd);
	say_result("unlink", unlink("gone"));
	say("text=%s", memory);
}

CHECK(mapping, memfd_seals)
{
	int fd = memfd_create("sealed", MFD_ALLOW_SEALING);

	must("grow", ftruncate(fd, PAGE) == 0);
	say_result("add", fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_WRITE));
	say_value("get", fcntl(fd, F_GET_SEALS));
	say_value("write", write(fd, "x", 1));
	say_result("grow", ftruncate(fd, 2 * PAGE));
	say_result("shrink", ftruncate(fd, 0));
	say_result("map_shared", (long)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
	say_result("unsealable", fcntl(memfd_create("plain", 0), F_ADD_SEALS, F_SEAL_GROW));
}

CHECK(mapping, remap_file_pages_order)
{
	int fd = make_file("pages", "");
	char *memory;

	must("grow", ftruncate(fd, 3 * PAGE) == 0);
	for (int i = 0; i < 3; i++)
		must("write", pwrite(fd, &"abc"[i], 1, i * PAGE) == 1);
	memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	say_result("remap", remap_file_pages(memory, PAGE, 0, 2, 0));
	say("order=%c%c%c", memory[0], memory[PAGE], memory[2 * PAGE]);
}

CHECK(mapping, process_vm_copy)
{
	static char there[64] = "original", here[64];
	struct iovec local = { here, 16 }, remote = { there, 16 }, bad = { (void *)16, 16 };
	int go[2];
	char byte = 0;
	pid_t pid;

	must("pipe", pipe(go) == 0);
	pid = spawn();
	if (!pid) {
		strcpy(there, "of the child");
		must("tell", write(go[1], &byte, 1) == 1);
		while (there[0] != 'X')
			sleep_ms(1);
		_exit(there[1]);
	}
	must("hear", read(go[0], &byte, 1) == 1);
	say_value("read", process_vm_readv(pid, &local, 1, &remote, 1, 0));
	say("text=%s", here);
	strcpy(here, "X!");
	say_value("write", process_vm_writev(pid, &local, 1, &remote, 1, 0));
	say_child("child", pid);
	say_value("gone", process_vm_readv(pid, &local, 1, &remote, 1, 0));
	say_value("bad_remote", process_vm_readv(getpid(), &local, 1, &bad, 1, 0));
}

CHECK(mapping, proc_self_mem)
{
	static char text[] = "through the file";
	char copy[20] = "";
	int fd = open("/proc/self/mem", O_RDWR);

	say_value("read", pread(fd, copy, 7, (off_t)(uintptr_t)text));
	say("copy=%s", copy);
	say_value("write", pwrite(fd, "T", 1, (off_t)(uintptr_t)text));
	say("text=%s", text);
	say_value("unmapped", pread(fd, copy, 7, 16));
}

CHECK(mapping, proc_self_mem_breaks_read_only)
{
	char *page = map_pages(1);
	int fd = open("/proc/self/mem", O_RDWR);

	page[0] = 'a';
	mprotect(page, PAGE, PROT_READ);
	say_value("write", pwrite(fd, "z", 1, (off_t)(uintptr_t)page));
	say("value=%c", page[0]);
}

CHECK(mapping, dev_zero)
{
	int fd = open("/dev/zero", O_RDWR);
	char *memory = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	say_result("map", (long)memory);
	memory[0] = 1;
	say("values=%d,%d", memory[0], memory[PAGE]);
}

CHECK(mapping, grow_under_mapping)
{
	int fd = make_file("grows", "x");
	char *memory = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fd, 0);

	catch_faults();
	SAY_FAULT_OF("before", memory + PAGE, (void)*(volatile char *)(memory + PAGE));
	must("grow", ftruncate(fd, 2 * PAGE) == 0);
	must("write", pwrite(fd, "y", 1, PAGE) == 1);
	SAY_FAULT_OF("after", memory + PAGE, (void)*(volatile char *)(memory + PAGE));
	say("value=%c", memory[PAGE]);
}

CHECK(mapping, punch_hole)
{
	int fd = make_file("hole", "");
	char *memory;

	must("grow", ftruncate(fd, 3 * PAGE) == 0);
	memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	memset(memory, 'm', 3 * PAGE);
	say_result("punch", fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, PAGE, PAGE));
	say("values=%d,%d,%d", memory[0], memory[PAGE], memory[2 * PAGE]);
}

CHECK(mapping, maps_shows_protection)
{
	char *memory = map_pages(1), wanted[40];
	const char *line;

	mprotect(memory, PAGE, PROT_READ | PROT_EXEC);
	snprintf(wanted, sizeof wanted, "%08lx-%08lx ", (unsigned long)memory, (unsigned long)memory + PAGE);
	line = strstr(slurp("/proc/self/maps"), wanted);
	say("flags=%.4s", line ? line + strlen(wanted) : "none");
}
