/* SPDX-License-Identifier: GPL-2.0-only */
/* The trap reflectors, and what they push on a faulting thread's stack. */
#ifndef _L4_REFLECTOR_H
#define _L4_REFLECTOR_H

#include <asm/page_types.h>
#include <asm/ptrace.h>

struct l4_trap {
	struct pt_regs regs;
	unsigned long vector;
	unsigned long error_code;
	unsigned long address;
};

/* The stack of a thread that has none of Linux's any more: its trap is Linux's last. */
extern char l4_last_stack[THREAD_SIZE];

unsigned long l4_reflector_create(unsigned int cpu);
void l4_reflector_init(void);
void l4_reflector_entry(void);
void l4_kernel_trap(struct l4_trap *trap);

bool l4_map_again(unsigned long address, unsigned long right, struct keel_utcb *utcb);

/*
 * A message about a server thread that runs a program: returns true if the frame is where the
 * thread goes on, false for a fault of Linux's own code (kernel/inside.c).
 */
bool l4_inside_reflect(struct keel_frame *frame, struct keel_message *m, unsigned int cpu);

#endif
