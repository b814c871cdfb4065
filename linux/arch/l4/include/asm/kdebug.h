/* SPDX-License-Identifier: GPL-2.0-only */
/* The events that x86's files tell and hear of, not the generic ones. */
#include <x86/include/asm/kdebug.h>
