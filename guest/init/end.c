// SPDX-License-Identifier: GPL-2.0-only
/* The end of the machine, asked for or because this init cannot go on. */
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include "end.h"

void end_machine(enum end end)
{
	/* Who still writes would keep a disk from being clean. */
	kill(-1, SIGKILL);
	while (wait(NULL) > 0)
		;
	sync();
	mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL);
	reboot(end == SHUTDOWN_REBOOT ? RB_AUTOBOOT : RB_POWER_OFF);
	/* Returning would panic the kernel, which says more than a hang. */
	_exit(1);
}

void fatal(const char *what)
{
	dprintf(STDERR_FILENO, "keel-init: error: %s\n", what);
	if (getpid() != 1)
		_exit(126);
	/* The kernel's last lines would come into the middle of it. */
	tcdrain(STDERR_FILENO);
	end_machine(SHUTDOWN_POWER_OFF);
}
