// SPDX-License-Identifier: GPL-2.0-only
/*
 * The boot console, which the root task prints. It is unregistered when a real console is, so that
 * its text does not mix with that of the serial driver. Also asks sigma0 for the serial ports,
 * without which the 8250 driver would fault.
 */
#include <linux/console.h>
#include <linux/init.h>
#include <linux/kernel.h>
#include <asm/l4.h>

#define SERIAL_PORTS_LOG2 3

static const unsigned int l4_serial_ports[] = { 0x3f8, 0x2f8 };

static void l4_console_write(struct console *console, const char *text, unsigned int length)
{
	keel_print(text, length);
}

static struct console l4_console = {
	.name = "keel",
	.write = l4_console_write,
	.flags = CON_PRINTBUFFER | CON_BOOT | CON_ANYTIME,
	.index = -1,
};

void __init l4_console_init(void)
{
	unsigned int i;

	register_console(&l4_console);
	for (i = 0; i < ARRAY_SIZE(l4_serial_ports); i++)
		if (!keel_map_ports(l4_serial_ports[i], SERIAL_PORTS_LOG2))
			panic("keel: no right over I/O port %x", l4_serial_ports[i]);
}
