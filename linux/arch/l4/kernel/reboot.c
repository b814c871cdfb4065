// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shutdown: tells the root task why Linux stops. The root task powers the machine off or resets it.
 */
#include <linux/console.h>
#include <linux/export.h>
#include <linux/init.h>
#include <linux/notifier.h>
#include <linux/panic_notifier.h>
#include <linux/pm.h>
#include <linux/reboot.h>
#include <asm/hypercall.h>

void machine_power_off(void)
{
	keel_shutdown(KEEL_SHUTDOWN_POWER_OFF);
}

void machine_halt(void) __alias(machine_power_off);

void machine_restart(char *command)
{
	keel_shutdown(KEEL_SHUTDOWN_REBOOT);
}

void (*pm_power_off)(void) = machine_power_off;
EXPORT_SYMBOL(pm_power_off);

static int l4_on_panic(struct notifier_block *block, unsigned long event, void *text)
{
	console_flush_on_panic(CONSOLE_FLUSH_PENDING);
	keel_shutdown(KEEL_SHUTDOWN_PANIC);
}

/* The last of all notifiers, because it does not return. */
static struct notifier_block l4_panic_block = {
	.notifier_call = l4_on_panic,
	.priority = INT_MIN,
};

static int __init l4_reboot_init(void)
{
	atomic_notifier_chain_register(&panic_notifier_list, &l4_panic_block);
	return 0;
}
pure_initcall(l4_reboot_init);
