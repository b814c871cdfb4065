// SPDX-License-Identifier: GPL-2.0-only
/*
 * Files and directories: opening, reading, names, links, times, locks, attributes. Mapped files are
 * in mapping.c.
 */
#include "check.h"
#include <dirent.h>
#include <limits.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statfs.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

CHECK(files, open_flags)
{
	say_value("absent", open("absent", O_RDONLY));
	close(make_file("there", "text"));
	say_value("exclusive", open("there", O_CREAT | O_EXCL, 0600));
	say_value("directory_flag", open("there", O_RDONLY | O_DIRECTORY));
	say_value("write_directory", open(".", O_WRONLY));
	say_value("trailing_slash", open("there/", O_RDONLY));
	must("link", symlink("there", "link") == 0);
	say_value("nofollow", open("link", O_RDONLY | O_NOFOLLOW));
	say_bool("path", open("link", O_PATH | O_NOFOLLOW) >= 0);
	say_bool("temporary", open(".", O_TMPFILE | O_RDWR, 0600) >= 0);
}

CHECK(files, lowest_descriptor)
{
	int first = open("/dev/null", O_RDONLY), second = open("/dev/null", O_RDONLY);

	close(first);
	say_bool("reused", open("/dev/null", O_RDONLY) == first);
	say_bool("above", fcntl(second, F_DUPFD, 50) == 50);
	say_value("dup2", dup2(second, 77));
	say_value("dup2_same", dup2(77, 77));
	say_value("dup3_same", dup3(77, 77, 0));
	say_value("bad", dup(500));
	say_value("close_bad", close(500));
	say_value("close_range", close_range(50, 100, 0));
	say_value("closed", fcntl(77, F_GETFD));
}

CHECK(files, append)
{
	char text[16] = "";
	int fd, plain;

	close(make_file("log", "one"));
	fd = open("log", O_WRONLY | O_APPEND);
	plain = open("log", O_RDWR);
	must("write", write(plain, "ONE", 3) == 3 && write(fd, "two", 3) == 3 && write(plain, "x", 1) == 1);
	must("read", pread(plain, text, 15, 0) > 0);
	say("text=%s", text);
	say_value("offset", lseek(fd, 0, SEEK_CUR));
}

CHECK(files, seek)
{
	int fd = make_file("seek", "0123456789");

	say_value("end", lseek(fd, 0, SEEK_END));
	say_value("back", lseek(fd, -3, SEEK_CUR));
	say_value("negative", lseek(fd, -30, SEEK_CUR));
	say_value("beyond", lseek(fd, 1000, SEEK_SET));
	say_value("read", read(fd, (char[8]){ 0 }, 8));
	say_value("bad_whence", lseek(fd, 0, 99));
	must("grow", ftruncate(fd, 10 * PAGE) == 0);
	say_value("data", lseek(fd, 0, SEEK_DATA));
	say_value("hole", lseek(fd, 0, SEEK_HOLE));
	say_value("no_data", lseek(fd, 5 * PAGE, SEEK_DATA));
}

CHECK(files, sparse_and_truncate)
{
	struct stat info;
	char byte = 1;
	int fd = make_file("sparse", "");

	say_value("pwrite", pwrite(fd, "x", 1, 1L << 30));
	fstat(fd, &info);
	say("size=%ld blocks_small=%d", (long)info.st_size, info.st_blocks < 100);
	say_value("read_hole", pread(fd, &byte, 1, 12345));
	say("byte=%d", byte);
	say_result("shrink", ftruncate(fd, 5));
	say_value("after", pread(fd, &byte, 1, 5));
	say_result("negative", ftruncate(fd, -1));
	say_result("truncate_directory", truncate(".", 0));
}

CHECK(files, stat_fields)
{
	struct stat info;

	close(make_file("five", "12345"));
	say_result("stat", stat("five", &info));
	say("mode=%o size=%ld links=%lu uid=%u", info.st_mode, (long)info.st_size, (long)info.st_nlink, info.st_uid);
	say_result("link", link("five", "six"));
	stat("six", &info);
	say("links=%lu", (long)info.st_nlink);
	say_result("unlink", unlink("five"));
	stat("six", &info);
	say("links=%lu", (long)info.st_nlink);
	must("link", symlink("somewhere", "soft") == 0);
	lstat("soft", &info);
	say("soft_mode=%o size=%ld", info.st_mode, (long)info.st_size);
	say_result("dangling", stat("soft", &info));
}

CHECK(files, statx)
{
	struct statx info;

	close(make_file("x", "123"));
	say_result("statx", statx(AT_FDCWD, "x", 0, STATX_BASIC_STATS, &info));
	say("size=%llu mode=%o", info.stx_size, info.stx_mode);
	say_bool("mask", (info.stx_mask & STATX_BASIC_STATS) == STATX_BASIC_STATS);
	say_result("empty", statx(make_file("y", "1"), "", AT_EMPTY_PATH, STATX_SIZE, &info));
	say("size=%llu", info.stx_size);
	say_result("bad_flags", statx(AT_FDCWD, "x", 0x40000000, STATX_SIZE, &info));
}

CHECK(files, modes_and_umask)
{
	struct stat info;

	umask(027);
	close(open("masked", O_CREAT | O_WRONLY, 0666));
	stat("masked", &info);
	say("mode=%o umask=%o", info.st_mode & 07777, umask(0));
	say_result("chmod", chmod("masked", 04711));
	stat("masked", &info);
	say("mode=%o", info.st_mode & 07777);
	say_result("chown", chown("masked", 12, 34));
	stat("masked", &info);
	say("owner=%u:%u mode=%o", info.st_uid, info.st_gid, info.st_mode & 07777);
}

CHECK(files, permission_of_other_user)
{
	close(make_file("private", "secret"));
	chmod("private", 0600);
	close(make_file("public", "open"));
	must("setuid", setgid(1000) == 0 && setuid(1000) == 0);
	say_value("private", open("private", O_RDONLY));
	say_bool("public", open("public", O_RDONLY) >= 0);
	say_value("public_write", open("public", O_WRONLY));
	say_result("chmod", chmod("public", 0777));
	say_result("unlink_ok", unlink("public"));
}

CHECK(files, rename)
{
	must("directories", mkdir("a", 0755) == 0 && mkdir("b", 0755) == 0);
	close(make_file("a/f", "1"));
	close(make_file("b/f", "22"));
	say_result("over_file", rename("a/f", "b/f"));
	say("text=%s", slurp("b/f"));
	say_result("over_full_directory", rename("a", "b"));
	say_result("into_itself", rename("b", "b/c"));
	say_result("file_over_directory", rename("b/f", "a"));
	say_result("absent", rename("zz", "a/zz"));
	say_result("noreplace", renameat2(AT_FDCWD, "b/f", AT_FDCWD, "a", RENAME_NOREPLACE));
	say_result("exchange", renameat2(AT_FDCWD, "a", AT_FDCWD, "b/f", RENAME_EXCHANGE));
	say_result("now_directory", access("b/f/.", F_OK));
}

static int compare_names(const void *left, const void *right)
{
	return strcmp(*(char *const *)left, *(char *const *)right);
}

CHECK(files, directory_listing)
{
	char name[16], *names[64];
	size_t count = 0;
	struct dirent *entry;
	DIR *directory;

	for (int i = 0; i < 40; i++) {
		snprintf(name, sizeof name, "file%02d", i);
		close(make_file(name, ""));
	}
	must("mkdir", mkdir("sub", 0755) == 0);
	directory = opendir(".");
	while ((entry = readdir(directory)) && count < ARRAY_SIZE(names)) {
		names[count++] = strdup(entry->d_name);
		if (!strcmp(entry->d_name, "sub"))
			say("sub_type=%d", entry->d_type);
	}
	qsort(names, count, sizeof *names, compare_names);
	say("count=%zu first=%s last=%s", count, names[0], names[count - 1]);
	say_result("not_directory", syscall(SYS_getdents64, open("/dev/null", O_RDONLY), name, sizeof name));
	say_result("small_buffer", syscall(SYS_getdents64, open(".", O_RDONLY), name, 4));
}

CHECK(files, make_and_remove_directories)
{
	say_result("mkdir", mkdir("d", 0755));
	say_result("again", mkdir("d", 0755));
	say_result("deep", mkdir("x/y/z", 0755));
	close(make_file("d/f", ""));
	say_result("rmdir_full", rmdir("d"));
	say_result("rmdir_file", rmdir("d/f"));
	say_result("unlink_directory", unlink("d"));
	say_result("rmdir_dot", rmdir("."));
	say_result("unlinkat", unlinkat(AT_FDCWD, "d/f", 0));
	say_result("removedir", unlinkat(AT_FDCWD, "d", AT_REMOVEDIR));
}

CHECK(files, working_directory)
{
	char path[PATH_MAX];

	must("mkdir", mkdir("inner", 0755) == 0);
	say_result("chdir", chdir("inner"));
	say("name=%s", strrchr(getcwd(path, sizeof path), '/'));
	say_result("rmdir", rmdir("../inner"));
	say_result("gone", getcwd(path, sizeof path) ? 0 : -1);
	say_result("create_in_gone", open("x", O_CREAT | O_WRONLY, 0600));
	say_result("too_small", syscall(SYS_getcwd, path, 1));
	say_result("fchdir", fchdir(open("/", O_RDONLY)));
	say("now=%s", getcwd(path, sizeof path));
}

CHECK(files, change_root)
{
	must("mkdir", mkdir("jail", 0755) == 0);
	close(make_file("jail/inside", "x"));
	say_result("chroot", chroot("jail"));
	say_result("inside", access("/inside", F_OK));
	say_result("chdir", chdir("/"));
	say_result("dotdot", access("/../inside", F_OK));
	say_result("proc", access("/proc/self", F_OK));
}

CHECK(files, symbolic_links)
{
	char text[16] = "";

	must("link", symlink("target", "l") == 0 && symlink("l2", "l1") == 0 && symlink("l1", "l2") == 0);
	say_value("readlink", readlink("l", text, sizeof text));
	say("text=%.6s", text);
	say_value("short", readlink("l", text, 3));
	say_value("not_link", readlink(".", text, 3));
	say_value("loop", open("l1", O_RDONLY));
	say_value("create_through", open("l", O_CREAT | O_WRONLY, 0600) >= 0);
	say_result("exists", access("target", F_OK));
	say_result("exclusive_through", open("l", O_CREAT | O_EXCL | O_WRONLY, 0600));
}

CHECK(files, times)
{
	struct timespec when[2] = { { 1000, 500 }, { 2000, 0 } };
	struct stat info;

	close(make_file("t", ""));
	say_result("utimensat", utimensat(AT_FDCWD, "t", when, 0));
	stat("t", &info);
	say("access=%ld.%ld modify=%ld", (long)info.st_atim.tv_sec, info.st_atim.tv_nsec, (long)info.st_mtim.tv_sec);
	when[0].tv_nsec = UTIME_OMIT;
	when[1].tv_sec = 3000;
	utimensat(AT_FDCWD, "t", when, 0);
	stat("t", &info);
	say("access=%ld modify=%ld", (long)info.st_atim.tv_sec, (long)info.st_mtim.tv_sec);
	when[1].tv_nsec = -5;
	say_result("bad", utimensat(AT_FDCWD, "t", when, 0));
}

CHECK(files, record_locks)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 10, .l_len = 10 };
	int fd = make_file("locked", "some text that is long enough");
	pid_t pid, parent = getpid();

	say_result("lock", fcntl(fd, F_SETLK, &lock));
	pid = spawn();
	if (!pid) {
		say_result("child_lock", fcntl(fd, F_SETLK, &lock));
		fcntl(fd, F_GETLK, &lock);
		say("type=%d start=%ld owner=%d", lock.l_type, (long)lock.l_start, lock.l_pid == parent);
		lock = (struct flock){ .l_type = F_WRLCK, .l_start = 20, .l_len = 5 };
		say_result("other_range", fcntl(fd, F_SETLK, &lock));
		_exit(0);
	}
	say_child("child", pid);
	lock.l_type = F_UNLCK;
	say_result("unlock", fcntl(fd, F_SETLK, &lock));
}

CHECK(files, record_lock_deadlock)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1 };
	int fd = make_file("deadlock", "ab"), go[2];
	char byte;
	pid_t pid;

	must("pipe", pipe(go) == 0);
	fcntl(fd, F_SETLK, &lock);
	pid = spawn();
	if (!pid) {
		lock.l_start = 1;
		fcntl(fd, F_SETLK, &lock);
		must("tell", write(go[1], "x", 1) == 1);
		lock.l_start = 0;
		_exit(fcntl(fd, F_SETLKW, &lock) ? errno == EDEADLK ? 2 : 3 : 0);
	}
	must("hear", read(go[0], &byte, 1) == 1);
	must("block", await_state(pid, 'S'));
	lock.l_start = 1;
	say_result("deadlock", fcntl(fd, F_SETLKW, &lock));
	lock.l_start = 0;
	lock.l_type = F_UNLCK;
	fcntl(fd, F_SETLK, &lock);
	say_child("child", pid);
}

CHECK(files, whole_file_locks)
{
	int first = make_file("flock", ""), second = open("flock", O_RDWR);

	say_result("exclusive", flock(first, LOCK_EX));
	say_result("second", flock(second, LOCK_EX | LOCK_NB));
	say_result("shared", flock(first, LOCK_SH));
	say_result("second_shared", flock(second, LOCK_SH | LOCK_NB));
	close(first);
	say_result("second_exclusive", flock(second, LOCK_EX | LOCK_NB));
	say_result("bad", flock(second, 99));
}

CHECK(files, extended_attributes)
{
	char value[16] = "";

	close(make_file("x", ""));
	say_result("set", setxattr("x", "trusted.keel", "value", 5, 0));
	say_value("get", getxattr("x", "trusted.keel", value, sizeof value));
	say("value=%s", value);
	say_result("create_again", setxattr("x", "trusted.keel", "v", 1, XATTR_CREATE));
	say_value("small", getxattr("x", "trusted.keel", value, 2));
	say_result("remove", removexattr("x", "trusted.keel"));
	say_value("absent", getxattr("x", "trusted.keel", value, sizeof value));
}

CHECK(files, special_devices)
{
	char bytes[64];
	int null = open("/dev/null", O_RDWR), full = open("/dev/full", O_RDWR), random = open("/dev/urandom", O_RDONLY);

	say_value("null_read", read(null, bytes, 64));
	say_value("null_write", write(null, bytes, 64));
	say_value("full_write", write(full, bytes, 64));
	say_value("full_read", read(full, bytes, 64));
	say_value("random", read(random, bytes, 64));
	say_value("getrandom", syscall(SYS_getrandom, bytes, 16, 0));
	say_result("ioctl", ioctl(null, TIOCGWINSZ, bytes));
	say_value("tty_without_one", open("/dev/tty", O_RDWR) < 0 ? 0 : 1);
}

CHECK(files, make_nodes)
{
	struct stat info;

	say_result("fifo", mknod("fifo", S_IFIFO | 0600, 0));
	say_result("device", mknod("null", S_IFCHR | 0666, makedev(1, 3)));
	stat("null", &info);
	say("device=%u:%u", major(info.st_rdev), minor(info.st_rdev));
	say_value("write", write(open("null", O_WRONLY), "x", 1));
	say_result("no_driver", mknod("odd", S_IFCHR | 0666, makedev(233, 77)));
	say_value("open", open("odd", O_RDWR));
	say_value("fifo_nonblocking", open("fifo", O_WRONLY | O_NONBLOCK));
}

CHECK(files, mount_tmpfs)
{
	struct statfs info;

	must("mkdir", mkdir("m", 0755) == 0);
	say_result("mount", mount("none", "m", "tmpfs", 0, "size=64k"));
	say_result("statfs", statfs("m", &info));
	say("type=%#lx blocks=%ld", (long)info.f_type, (long)info.f_blocks);
	say_value("fill", write(make_file("m/f", ""), map_pages(32), 32 * PAGE));
	say_value("more", write(make_file("m/g", ""), "x", 1));
	say_result("busy", chdir("m"));
	say_result("umount", umount("../m"));
	say_result("chdir", chdir(".."));
	say_result("lazy", umount2("m", MNT_DETACH));
	say_result("unknown_type", mount("none", "m", "nosuchfs", 0, NULL));
}

CHECK(files, access_and_faccessat)
{
	close(make_file("x", ""));
	say_result("read", access("x", R_OK));
	say_result("execute", access("x", X_OK));
	say_result("bad_mode", access("x", 64));
	say_result("bad_directory", faccessat(99, "x", F_OK, 0));
	say_result("absolute", faccessat(99, "/", F_OK, 0));
}

CHECK(files, status_flags)
{
	int fd = make_file("flags", "");

	say("flags=%#x", fcntl(fd, F_GETFL) & ~O_LARGEFILE & 0777777);
	say_result("set", fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK));
	say("flags=%#x", fcntl(fd, F_GETFL) & 0777777 & ~O_LARGEFILE);
	say_value("bad_command", fcntl(fd, 9999));
	say_value("available", ioctl(fd, 0x12345678));
}

CHECK(files, sync_calls)
{
	int fd = make_file("s", "x");

	say_result("fsync", fsync(fd));
	say_result("fdatasync", fdatasync(fd));
	say_result("syncfs", syncfs(fd));
	say_result("sync_file_range", sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
	say_result("fsync_pipe", fsync(open("/dev/null", O_RDONLY)));
	say_result("readahead", readahead(fd, 0, 4096));
	say_result("advise", posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
}

CHECK(files, name_limits)
{
	char name[300];

	memset(name, 'n', sizeof name);
	name[255] = 0;
	say_bool("255", open(name, O_CREAT | O_WRONLY, 0600) >= 0);
	name[255] = 'n';
	name[256] = 0;
	say_value("256", open(name, O_CREAT | O_WRONLY, 0600));
	say_value("empty", open("", O_RDONLY));
}

CHECK(files, handle_and_openat2)
{
	struct {
		uint64_t flags, mode, resolve;
	} how = { O_RDONLY, 0, 8 };

	close(make_file("inside", ""));
	say_value("beneath", syscall(SYS_openat2, AT_FDCWD, "inside", &how, sizeof how) >= 0);
	say_value("escape", syscall(SYS_openat2, AT_FDCWD, "../x", &how, sizeof how));
	say_value("absolute", syscall(SYS_openat2, AT_FDCWD, "/tmp", &how, sizeof how));
	say_value("small", syscall(SYS_openat2, AT_FDCWD, "inside", &how, 4));
}

CHECK(files, file_size_limit_signal)
{
	pid_t pid = spawn();

	if (!pid) {
		syscall(SYS_prlimit64, 0, 1, (uint64_t[2]){ 10, 10 }, NULL);
		pwrite(make_file("limit", ""), "0123456789ABC", 13, 0);
		pwrite(make_file("limit", ""), "x", 1, 10);
		_exit(0);
	}
	say_child("child", pid);
}
