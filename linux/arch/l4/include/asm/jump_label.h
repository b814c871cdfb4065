/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's labels; each is written by itself (kernel/text.c). */
#include <x86/include/asm/jump_label.h>
#undef HAVE_JUMP_LABEL_BATCH
