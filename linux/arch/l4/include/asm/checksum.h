/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's sums in registers, without its sums of user memory (linux/replacements/checksum_64.toml). */
#include <asm/checksum_64.h>
