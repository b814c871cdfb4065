/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's sums, without those of user memory (linux/replacements/checksum_64.toml). */
#include <asm/checksum_64.h>
