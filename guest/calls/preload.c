/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Makes the entry (entry.S) take a program's calls from its start: linked to a program, or
 * preloaded as a library (LD_PRELOAD=libkeelcalls.so). On another Linux the program runs as ever.
 */
#include "keel_call.h"

__attribute__((constructor)) static void take_calls(void)
{
	keel_calls((unsigned long)keel_entry);
}
