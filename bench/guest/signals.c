// SPDX-License-Identifier: GPL-2.0-only
/* Signals: installing a handler, and running it. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "bench.h"

static void do_nothing(int signo)
{
	(void)signo;
}

static void run_signal_install(long count)
{
	struct sigaction action = { .sa_handler = do_nothing };

	while (count--)
		sigaction(SIGUSR1, &action, NULL);
}

static void run_signal_deliver(long count)
{
	pid_t pid = getpid();

	signal(SIGUSR1, do_nothing);
	while (count--)
		kill(pid, SIGUSR1);
}

static const struct row rows[] = {
	{ "signal-install", 1000, NULL, NULL, run_signal_install, NULL },
	{ "signal-deliver", 1000, NULL, NULL, run_signal_deliver, NULL },
};
const struct rows signal_rows = { rows, COUNT(rows) };
