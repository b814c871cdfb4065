// SPDX-License-Identifier: BSD-2-Clause
/* The two programs of 32 bits of the example, in C: a number goes back and forth. */
#include <keel32.h>

/* Round trips. */
#define ROUNDS 1000

/* The roles: one that answers, and those that begin, in windows or in spaces of their own. */
enum { PONG, PING_IN_WINDOWS, PING_IN_SPACES };

/* Answers each number, one higher, and waits for the next one in the same system call. */
static int pong(void)
{
	struct keel32_message message = { .tag = 0 };
	int status = keel32_wait(&message);

	while (!status) {
		message.words[0]++;
		message.tag = 1;
		status = keel32_reply_and_wait(message.from, &message);
	}
	return status;
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
	keel32_print_number(ROUNDS);
	keel32_print(" round trips, the number is ");
	keel32_print_number(message.words[0]);
	keel32_print("\n");
	return 0;
}

int keel32_program(unsigned int role, keel_word partner)
{
	if (role == PONG)
		return pong();
	return ping(partner, role == PING_IN_WINDOWS ? "in two windows: " : "in two spaces: ");
}
