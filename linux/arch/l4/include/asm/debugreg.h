/* SPDX-License-Identifier: GPL-2.0-only */
/* The debug registers are those of the running thread's lthread. */
#include <asm/special_insns.h>
#include <x86/include/asm/debugreg.h>

void l4_set_debugreg(unsigned int number, unsigned long value);
#undef set_debugreg
#define set_debugreg(value, number) l4_set_debugreg(number, value)
#define set_dr_addr_mask(mask, number) do { } while (0)	/* mask is always 0 */
