// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shutdown: tells the root task why Linux stops. The root task powers the machine off or resets it.
 */
#include <linux/export.h>
#include <linux/panic.h>
#include <linux/pm.h>
#include <linux/reboot.h>
#include <asm/hypercall.h>

void machine_power_off(void)
{
	keel_shutdown(KEEL_SHUTDOWN_POWER_OFF);
}

void machine_halt(void) __alias(machine_power_off);

/* A panic ends with this, too: at once (Kconfig), unless the command line says panic=. */
void machine_restart(char *command)
{
	bool panicked = atomic_read(&panic_cpu) != PANIC_CPU_INVALID;

	keel_shutdown(panicked ? KEEL_SHUTDOWN_PANIC : KEEL_SHUTDOWN_REBOOT);
}

void (*pm_power_off)(void) = machine_power_off;
EXPORT_SYMBOL(pm_power_off);
