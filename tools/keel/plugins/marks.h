/* SPDX-License-Identifier: GPL-2.0-only */
/* How plugins see the marks in a guest's code (guest/mark.h). */
#ifndef KEEL_MARKS_H
#define KEEL_MARKS_H

#include <string.h>

#include "mark.h"
#include "plugin.h"

enum {
	MARK_DISPLACEMENT = 3,
	MARK_SIZE = 7,
};

/* Which mark an instruction is; 0 if none. */
static inline uint32_t mark_of(const struct qemu_plugin_insn *insn)
{
	static const uint8_t opcode[] = { MARK_OPCODE };
	const struct code code = code_of(insn);
	uint32_t mark = 0;

	if (code.size == MARK_SIZE && !memcmp(code.bytes, opcode, sizeof(opcode)))
		memcpy(&mark, code.bytes + MARK_DISPLACEMENT, sizeof(mark));
	return mark;
}

#endif
