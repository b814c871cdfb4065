/* SPDX-License-Identifier: GPL-2.0-only */
/* Limits of the start record. */
#define COMMAND_LINE_SIZE 2048
