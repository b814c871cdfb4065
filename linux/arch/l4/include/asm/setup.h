/* SPDX-License-Identifier: GPL-2.0-only */
/* Limits of the start record. */
#ifndef _ASM_L4_SETUP_H
#define _ASM_L4_SETUP_H

#define COMMAND_LINE_SIZE 2048

#endif
