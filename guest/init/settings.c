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

void read_settings(struct settings *settings)
{
	char line[4096] = "";
	char *word, *rest = line;
	ssize_t got;
	int fd = open("/proc/cmdline", O_RDONLY | O_CLOEXEC);

	memset(settings, 0, sizeof(*settings));
	if (fd < 0)
		fatal("cannot read /proc/cmdline");
	got = read(fd, line, sizeof(line) - 1);
	close(fd);
	if (got > 0)
		line[got] = '\0';
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
	}
}
