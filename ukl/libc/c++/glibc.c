// SPDX-License-Identifier: GPL-2.0-only
/*
 * Functions of glibc that GCC's C++ library needs, because Debian built it for glibc, and that musl
 * lacks or has in another form. Only that library calls them.
 */
#define _GNU_SOURCE
#include <link.h>
#include <locale.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

/* The size of glibc's locale structure. musl reads the first words, where 0 is the locale C. */
struct locale {
	const void *categories[13];
	const unsigned short *kinds;
	const int *lower, *upper;
	const char *names[13];
};

/* The result of _dl_find_object: what is known about the code at an address. */
struct dl_find_object {
	unsigned long long flags;
	void *start, *end;
	struct link_map *map;
	void *frames;
	unsigned long long reserved[7];
};

/* Never sure: counters are always atomic. */
char __libc_single_threaded;

const unsigned short **__ctype_b_loc(void);
const int **__ctype_tolower_loc(void), **__ctype_toupper_loc(void);

/* C23 adds base 2, which the settings read by it do not use. */
unsigned long __isoc23_strtoul(const char *text, char **end, int base)
{
	return strtoul(text, end, base);
}

uint32_t arc4random(void)
{
	uint32_t number;

	if (getrandom(&number, sizeof(number), 0) != sizeof(number))
		abort();
	return number;
}

static int find_frames(struct dl_phdr_info *info, size_t size, void *found)
{
	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_GNU_EH_FRAME)
			((struct dl_find_object *)found)->frames = (void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	return 0;
}

/* There is only one program; returns 0 if it can be unwound. */
int _dl_find_object(void *address, struct dl_find_object *found)
{
	(void)address;
	memset(found, 0, sizeof(*found));
	dl_iterate_phdr(find_frames, found);
	return found->frames ? 0 : -1;
}

/* The linker replaces the library's __newlocale and __duplocale by these: the only locale is C. */
locale_t __wrap___newlocale(int mask, const char *name, locale_t base)
{
	static struct locale c;

	(void)mask;
	(void)base;
	if (strcmp(name, "C") != 0 && strcmp(name, "POSIX") != 0)
		return NULL;
	c.kinds = *__ctype_b_loc();
	c.lower = *__ctype_tolower_loc();
	c.upper = *__ctype_toupper_loc();
	for (size_t i = 0; i < sizeof(c.names) / sizeof(c.names[0]); i++)
		c.names[i] = "C";
	return (locale_t)&c;
}

locale_t __wrap___duplocale(locale_t locale)
{
	return locale;
}
