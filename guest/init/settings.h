/* SPDX-License-Identifier: GPL-2.0-only */
/* What ./keel tells this init on the kernel command line. */
#ifndef KEEL_SETTINGS_H
#define KEEL_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>

/* Room for a value with its terminating zero; a longer value is cut. */
#define SETTING_MAX 64
/* Where the shell is if keel.console does not say so. */
#define SERIAL_CONSOLE "ttyS0"

/* Room for all of Linux's command line, and the shares in it; tools/keel/machine.py has as many. */
#define SETTINGS_MAX 4096
#define SHARES_MAX 8

struct share {
	char *place;
	bool writable;
};

struct settings {
	char mode[SETTING_MAX];		/* keel.mode: shell or exec */
	char port[SETTING_MAX];		/* keel.port: the name of the virtio port for exec, if there is one */
	char init[SETTING_MAX];		/* keel.init: systemd, or nothing for this one */
	char root[SETTING_MAX];		/* keel.root: the disk or the file of the root, if it is in one */
	char console[SETTING_MAX];	/* keel.console: where shells are, with commas between */
	char app[SETTING_MAX];		/* keel.app: the application for ring 0 that came with this init */
	char **app_arguments;		/* its name, and what follows -- on the command line */
	char attended[SETTING_MAX];	/* keel.attended: set where ./keel is at the console */
	char term[SETTING_MAX];		/* keel.term: the host terminal's TERM */
	char rows[SETTING_MAX];		/* keel.rows, keel.cols: its size */
	char cols[SETTING_MAX];
	char line[SETTINGS_MAX];	/* the command line, which these point into: */
	struct share shares[SHARES_MAX];	/* keel.share: rw: or ro:, and a path in URL encoding */
	size_t share_count;
	char *directory;		/* keel.cwd: where the command runs, if not at home, as a path in URL encoding */
};

/* Reads them from /proc/cmdline; what is not there is empty. */
void read_settings(struct settings *settings);

#endif
