/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the parts of Keel's init share: the settings from the kernel command
 * line and the parts' entry points.
 */
#ifndef KEEL_INIT_H
#define KEEL_INIT_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#define SETTING_MAX 64
/* The default line of the shell, and that of the channel. */
#define SERIAL_CONSOLE "ttyS0"
#define HOST_LINE "/dev/ttyS1"
/*
 * What the host takes for the end of the boot log, and no terminal shows: an application program
 * command.
 */
#define SHELL_BEGINS "\033_keel:shell\033\\"
/* The argument of the init where it runs the host's command beside another init. */
#define SERVICE "service"

struct channel;

struct settings {
	char mode[SETTING_MAX];		/* keel.mode: shell or exec */
	char init[SETTING_MAX];		/* keel.init: systemd, or nothing for this one */
	char root[SETTING_MAX];		/* keel.root: the disk or the file of the root, if it is in one */
	char console[SETTING_MAX];	/* keel.console: where shells are, with commas between */
	char app[SETTING_MAX];		/* keel.app: the application for ring 0 that came with this init */
	char **app_arguments;		/* its name, and what follows -- on the command line */
	char attended[SETTING_MAX];	/* keel.attended: set where ./keel is at the console */
	char term[SETTING_MAX];		/* keel.term: the host terminal's TERM */
	char rows[SETTING_MAX];		/* keel.rows, keel.cols: its size */
	char cols[SETTING_MAX];
};

/* How the machine shuts down. */
enum end { END_NONE, SHUTDOWN_POWER_OFF, SHUTDOWN_REBOOT };

/* init.c: end all processes and shut the machine down. */
void end_machine(enum end end) __attribute__((noreturn));

/* init.c: say what is wrong on the console and power off. */
void fatal(const char *what) __attribute__((noreturn));

/* init.c: undo what init changed for itself, in a child before exec. */
void prepare_child(void);

/* mounts.c: make the file systems and devices that programs expect. */
void mount_all(void);

/*
 * mounts.c: make the file system of a disk, or of its first partition that has one, the root; or
 * that of a file, which is never written: what changes stays in memory.
 */
void enter_root(const char *place);

/* application.c: open the application while the archive that it came in is the root. */
int open_application(const char *name);

/* application.c: put it into the root's /run/ukl; the path is good until the next call. */
const char *place_application(int fd, const char *name);

/* net.c: bring the loopback interface up. */
void loopback_up(void);

/*
 * attend.c: block what ends a wait for events, a child's end and, for process 1, requests by
 * signal; `during` is the mask to wait with.
 */
void watch_signals(sigset_t *during);

/* attend.c: the pipe for shutdown requests; -1 if there can be none. */
int requests_open(void);

/* attend.c: shut down if a signal, or a request from this pipe, asks for it. */
void obey_requests(int requests);

/*
 * attend.c: tell the host that we listen to reports about its terminal; fd is -1 if that is not
 * possible.
 */
void host_open(struct channel *host);

/* attend.c: execute the host's requests; fd is -1 once it is gone. */
void host_obey(struct channel *host);

/* attend.c: power the machine off, by ourselves or by the init that is process 1. */
void stop_machine(void);

/* attend.c: a process that listens to the host, beside another init. */
void start_attendant(void);

/* shell.c: the console and its keys are those of another init from now on. */
void begin_other_init(const struct settings *settings);

/* shell.c: the interactive mode, an application first; returns when a shell has ended. */
void run_shell(struct settings *settings, const char *application);

/* systemd.c: let the root's systemd take over, with the host's command as a service. */
void become_systemd(const struct settings *settings) __attribute__((noreturn));

/* exec.c: run the host's command over the channel; returns at its end. */
void run_exec(void);

#endif
