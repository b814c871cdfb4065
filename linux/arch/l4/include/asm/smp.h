/* SPDX-License-Identifier: GPL-2.0-only */
/* One processor. */
#ifndef _ASM_L4_SMP_H
#define _ASM_L4_SMP_H

#define raw_smp_processor_id() 0

#endif
