/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Marks in a program's code that the emulator's profiler sees (tools/keel/plugins/profile.c): long
 * no-operations, whose displacement says which mark it is. They have no other effect.
 */
#ifndef KEEL_MARK_H
#define KEEL_MARK_H

/* nopl displacement(%rax) */
#define MARK_OPCODE 0x0f, 0x1f, 0x80
#define MARK_FIRST 0x6c65654b
#define MARK_COMMAND_BEGINS (MARK_FIRST + 0)	/* the guest's init starts the user's command */
#define MARK_COMMAND_ENDS (MARK_FIRST + 1)
#define MARK_PART_BEGINS (MARK_FIRST + 2)	/* a program that measures itself */
#define MARK_PART_ENDS (MARK_FIRST + 3)

#define MARK_TEXT(...) #__VA_ARGS__
#define MARK_BYTES(...) MARK_TEXT(__VA_ARGS__)
#define MARK(number) __asm__ volatile(".byte " MARK_BYTES(MARK_OPCODE) "\n\t.long %c0" : : "i"(number) : "memory")

#endif
