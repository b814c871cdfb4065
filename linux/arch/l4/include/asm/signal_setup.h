/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's kernel/signal.c is compiled with this (x86/Makefile). */
#ifndef _ASM_L4_SIGNAL_SETUP_H
#define _ASM_L4_SIGNAL_SETUP_H

#include <linux/sched/signal.h>

/* The FPU state of a frame that cannot be completed is the thread's again. */
void l4_signal_setup_done(int failed, struct ksignal *ksig, int stepping);
#define signal_setup_done(failed, ksig, stepping)				\
	l4_signal_setup_done(failed, ksig, stepping)

#endif
