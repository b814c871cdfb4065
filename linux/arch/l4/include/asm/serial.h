/* SPDX-License-Identifier: GPL-2.0-only */
/* The two ports that Keel's virtual and real PCs have, at their usual places. */
#define BASE_BAUD (1843200 / 16)

#define SERIAL_PORT_DFNS							\
	{ .uart = 0, BASE_BAUD, 0x3F8, 4, UPF_BOOT_AUTOCONF | UPF_SKIP_TEST },	\
	{ .uart = 0, BASE_BAUD, 0x2F8, 3, UPF_BOOT_AUTOCONF | UPF_SKIP_TEST },
