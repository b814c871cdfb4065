// SPDX-License-Identifier: BSD-2-Clause
/* The two programs of 32 bits of the example, in C: a number goes back and forth. */
#include <keel32.h>

/* Round trips. */
#define ROUNDS 1000

/* The label of the last message. */
#define END 1

/* The roles: one that answers, and those that begin, in windows or in spaces of their own. */
enum { PONG, PING_IN_WINDOWS, PING_IN_SPACES };

/*
 * Answers each number, one higher, and waits for the next one in the same system call. The message
 * END ends it; its answer to that is how many numbers came.
 */
static int pong(void)
{
	struct keel32_message message = { .tag = 0 };
	int status = keel32_wait(&message);
	unsigned int count = 0;

	while (!status && message.label != END) {
		count++;
		message.words[0]++;
		message.tag = 1;
		status = keel32_reply_and_wait(message.from, &message);
	}
	message.words[0] = count;
	return status ? status : keel32_send(message.from, &message);
}

/* Sends the number, one higher each time, and waits for the answer in the same system call. */
static int ping(keel_word partner, const char *where)
{
	struct keel32_message message = { .tag = 0 };
	int status;

	for (int round = 0; round < ROUNDS; round++) {
		message.words[0]++;
		message.tag = 1;
		status = keel32_call(partner, &message);
		if (status)
			return status;
	}
	keel32_print(where);
	keel32_print("the number is ");
	keel32_print_number(message.words[0]);
	message.label = END;
	status = keel32_send(partner, &message);
	if (!status)
		status = keel32_receive(partner, &message);
	if (status)
		return status;
	keel32_print(" after ");
	keel32_print_number(message.words[0]);
	keel32_print(" round trips\n");
	return 0;
}

int keel32_program(unsigned int role, keel_word partner)
{
	if (role == PONG)
		return pong();
	return ping(partner, role == PING_IN_WINDOWS ? "in two windows: " : "in two spaces: ");
}
