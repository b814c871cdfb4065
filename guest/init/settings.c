// SPDX-License-Identifier: GPL-2.0-only
/* What ./keel tells this init on the kernel command line. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "end.h"
#include "settings.h"

static void take_setting(const char *word, const char *name, char *value)
{
	size_t length = strlen(name);

	if (strncmp(word, name, length) == 0 && word[length] == '=')
		snprintf(value, SETTING_MAX, "%s", word + length + 1);
}

/* Decode %XX in place. */
static char *decode(char *text)
{
	char *from = text, *to = text;
	unsigned int byte;
	int length;

	while (*from) {
		length = 0;
		if (sscanf(from, "%%%2x%n", &byte, &length) == 1) {
			*to++ = byte;
			from += length;
		} else {
			*to++ = *from++;
		}
	}
	*to = '\0';
	return text;
}

/* The rest of a word after this prefix, or NULL. */
static char *after(char *word, const char *prefix)
{
	return strncmp(word, prefix, strlen(prefix)) == 0 ? word + strlen(prefix) : NULL;
}

static void take_paths(struct settings *settings, char *word)
{
	char *read_only = after(word, "keel.share=ro:");
	char *place = read_only ? read_only : after(word, "keel.share=rw:");
	char *directory = after(word, "keel.cwd=");

	if (directory)
		settings->directory = decode(directory);
	if (place && settings->share_count < SHARES_MAX)
		settings->shares[settings->share_count++] =
			(struct share){ .place = decode(place), .writable = !read_only };
}

void read_settings(struct settings *settings)
{
	char *word, *rest = settings->line;
	ssize_t got;
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);

	memset(settings, 0, sizeof(*settings));
	if (fd < 0)
		fatal("cannot read /proc/cmdline");
	got = read(fd, settings->line, sizeof(settings->line) - 1);
	close(fd);
	if (got > 0)
		settings->line[got] = '\0';
	while ((word = strsep(&rest, " \n")) != NULL) {
		take_setting(word, "keel.mode", settings->mode);
		take_setting(word, "keel.port", settings->port);
		take_setting(word, "keel.root", settings->root);
		take_setting(word, "keel.init", settings->init);
		take_setting(word, "keel.console", settings->console);
		take_setting(word, "keel.app", settings->app);
		take_setting(word, "keel.attended", settings->attended);
		take_setting(word, "keel.term", settings->term);
		take_setting(word, "keel.rows", settings->rows);
		take_setting(word, "keel.cols", settings->cols);
		take_paths(settings, word);
	}
}
