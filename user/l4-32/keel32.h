/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The library of native L4 programs of 32 bits, for C: the same as the crate keel-l4-32.
 *
 * One file of a program includes it, and defines keel32_program(). start.s has the first
 * instructions and the system call. A task has one thread. A program may not use the FPU or SSE
 * (-mgeneral-regs-only): messages of threads with an FPU state take the slow path.
 */
#ifndef KEEL32_H
#define KEEL32_H

#include "keel_abi.h"

/* Words of 32 bits in a message. */
#define KEEL32_WORDS 3
/* The first word of 64 bits, in the UTCB. */
#define KEEL32_FIRST_LONG KEEL32_WORDS

/* The registers of a call, in the order of start.s. */
struct keel32_registers {
	unsigned int ax, bx, cx, dx, si, di, bp;
};

/*
 * A message: to send it, its label, and tag, the number of words. Words from KEEL32_FIRST_LONG on,
 * bytes and items are in the UTCB until the next ipc.
 */
struct keel32_message {
	keel_word from; /* who sent it */
	unsigned int tag; /* without the label */
	unsigned int label;
	unsigned int words[KEEL32_WORDS];
};

/* Calls the kernel with these registers, and stores those afterwards. */
void keel32_int80(struct keel32_registers *registers);

/*
 * The program: what it is to do, as its parent says, and the thread with which it has to do. It
 * returns 0, or the status of a call that failed.
 */
int keel32_program(unsigned int role, keel_word partner);

/* The thread that serves this task. */
static keel_word keel32_parent;

/* The UTCB of the task's thread: that of lthread 0. */
static inline volatile struct keel_utcb *keel32_utcb(void)
{
	return (volatile struct keel_utcb *)(KEEL_SMALL_AREA + KEEL_AREA_UTCBS);
}

/* An ipc with the phases KEEL_IPC_*. Returns 0 or a negative status, and the message received. */
static inline int keel32_ipc(unsigned int flags, keel_word partner, struct keel32_message *message)
{
	struct keel32_registers r = {
		.ax = KEEL_CALL_IPC | flags,
		.bx = message->tag,
		.dx = message->words[0],
		.cx = message->words[1],
		.bp = message->words[2],
		.di = (unsigned int)partner,
		.si = (unsigned int)(partner >> 32),
	};

	keel32_utcb()->words[0] = message->label;
	keel32_int80(&r);
	message->from = r.di | (keel_word)r.si << 32;
	message->tag = r.bx;
	message->label = (unsigned int)keel32_utcb()->words[0];
	message->words[0] = r.dx;
	message->words[1] = r.cx;
	message->words[2] = r.bp;
	return (int)r.ax;
}

/* Sends a message and receives the answer. */
static inline int keel32_call(keel_word to, struct keel32_message *message)
{
	return keel32_ipc(KEEL_IPC_SEND | KEEL_IPC_RECEIVE, to, message);
}

/* Sends a message. */
static inline int keel32_send(keel_word to, struct keel32_message *message)
{
	return keel32_ipc(KEEL_IPC_SEND, to, message);
}

/* Receives from one thread. */
static inline int keel32_receive(keel_word from, struct keel32_message *message)
{
	return keel32_ipc(KEEL_IPC_RECEIVE, from, message);
}

/* Receives from any thread. */
static inline int keel32_wait(struct keel32_message *message)
{
	return keel32_ipc(KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, KEEL_ID_NIL, message);
}

/* Sends a message to a thread that must wait for it, then receives from any. */
static inline int keel32_reply_and_wait(keel_word to, struct keel32_message *message)
{
	return keel32_ipc(KEEL_IPC_SEND | KEEL_IPC_SEND_ZERO | KEEL_IPC_RECEIVE | KEEL_IPC_OPEN, to, message);
}

/* Prints text that ends with a zero byte. */
static inline void keel32_print(const char *text)
{
	volatile char *bytes = (volatile char *)&keel32_utcb()->words[KEEL_REGISTER_WORDS];
	struct keel32_message message;
	unsigned int count;

	while (*text) {
		for (count = 0; count < KEEL_SMALL_TEXT && text[count]; count++)
			bytes[count] = text[count];
		message = (struct keel32_message){
			.label = KEEL_SMALL_PRINT,
			.tag = KEEL_REGISTER_WORDS + (count + sizeof(keel_word) - 1) / sizeof(keel_word),
			.words = { count },
		};
		/* If even the parent fails, there is no one to report it to. */
		keel32_call(keel32_parent, &message);
		text += count;
	}
}

/* Prints a number. */
static inline void keel32_print_number(unsigned int number)
{
	char digits[] = "4294967295"; /* the largest one */
	char *first = digits + sizeof(digits) - 1;

	do {
		*--first = '0' + number % 10;
		number /= 10;
	} while (number);
	keel32_print(first);
}

/* What start.s calls: asks the parent what is to be done, does it, and says how it ended. */
void keel32_main(keel_word parent);
void keel32_main(keel_word parent)
{
	struct keel32_message message = { .label = KEEL_SMALL_START };
	int status;

	keel32_parent = parent;
	status = keel32_call(parent, &message);
	if (!status)
		status = keel32_program(message.words[0], keel32_utcb()->words[KEEL32_FIRST_LONG]);
	if (status)
		keel32_print("a call failed\n");
	message = (struct keel32_message){
		.label = KEEL_SMALL_EXIT,
		.tag = 1,
		.words = { status ? KEEL_SHUTDOWN_PANIC : KEEL_SHUTDOWN_POWER_OFF },
	};
	keel32_send(parent, &message);
	__builtin_trap();
}

#endif /* KEEL32_H */
