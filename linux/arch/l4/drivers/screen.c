// SPDX-License-Identifier: GPL-2.0-only
/*
 * The framebuffer that the boot loader set up, for Linux's framebuffer drivers, and the ports of
 * the keyboard, which not every server owns.
 */
#include <linux/init.h>
#include <linux/ioport.h>
#include <linux/kernel.h>
#include <linux/screen_info.h>
#include <asm/l4.h>

#define KEYBOARD_PORT 0x60
#define KEYBOARD_PORTS_LOG2 4
#define VLFB_SIZE_SHIFT 16

struct screen_info screen_info;

static struct resource l4_keyboard_ports = {
	.name = "another task's keyboard",
	.start = KEYBOARD_PORT,
	.end = KEYBOARD_PORT + (1 << KEYBOARD_PORTS_LOG2) - 1,
	.flags = IORESOURCE_IO | IORESOURCE_BUSY,
};

/* Reserves ports that the server does not own: a driver does not access ports that are reserved. */
static void __init l4_reserve_keyboard(void)
{
	if (!keel_map_ports(KEYBOARD_PORT, KEYBOARD_PORTS_LOG2))
		request_resource(&ioport_resource, &l4_keyboard_ports);
}

void __init l4_screen_init(void)
{
	const unsigned long *fb = keel_kip->framebuffer;
	u32 length = lower_32_bits(fb[1]), lines = lower_32_bits(fb[2]);

	l4_reserve_keyboard();
	if (!fb[0])
		return;
	screen_info.orig_video_isVGA = VIDEO_TYPE_VLFB;
	screen_info.capabilities = VIDEO_CAPABILITY_64BIT_BASE;
	screen_info.lfb_base = lower_32_bits(fb[0]);
	screen_info.ext_lfb_base = upper_32_bits(fb[0]);
	screen_info.lfb_linelength = length;
	screen_info.lfb_width = upper_32_bits(fb[1]);
	screen_info.lfb_height = lines;
	screen_info.lfb_depth = (u8)upper_32_bits(fb[2]);
	screen_info.lfb_size = DIV_ROUND_UP((u64)length * lines, 1 << VLFB_SIZE_SHIFT);
	screen_info.red_pos = fb[3];
	screen_info.red_size = fb[3] >> 8;
	screen_info.green_pos = fb[3] >> 16;
	screen_info.green_size = fb[3] >> 24;
	screen_info.blue_pos = fb[3] >> 32;
	screen_info.blue_size = fb[3] >> 40;
}
