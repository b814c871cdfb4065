/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The framed channel between the host and init, over the second serial line or a virtio port.
 *
 * A frame is: channel (1 byte), zero (1 byte), length (2 bytes, little
 * endian), data. Every frame but credit, ready, listens, prompt and stop frames uses up
 * credit, header included; each side starts with the line's credit and gets back by credit frames
 * what the other has consumed. So at most that many bytes are in flight, and
 * the receiver's tty cannot overrun. A ready frame is not answered: where Linux is
 * restarted, nothing meant for the previous init may reach the next one, whose
 * tty would echo it. The previous init may have ended within a frame: as many zero bytes
 * as a frame can have come before a ready frame to end that one. Between
 * frames they mean nothing. tools/keel/channel.py is the other end.
 */
#ifndef KEEL_CHANNEL_H
#define KEEL_CHANNEL_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define FRAME_HEADER 4
/* How many bytes of data a frame has at most, and what may be in flight: what a tty holds. */
#define SERIAL_DATA_MAX 1020
#define SERIAL_CREDIT 2048
/* With its header such a frame is one buffer of Linux's driver, which copies 32 KB at a time. */
#define PORT_DATA_MAX 32764
#define PORT_CREDIT 262144
/* The end of a status: what follows half a frame of an init that is restarted is zero. */
#define STATUS_WHOLE 1

enum frame_channel {
	FRAME_COMMAND = 1,	/* to init: a piece of the command; empty: it is whole */
	FRAME_STDIN = 2,	/* to init: standard input; empty: its end */
	FRAME_READY = 3,	/* to the host: init listens (exec), or keys belong to the guest */
	FRAME_STDOUT = 4,	/* to the host: standard output */
	FRAME_STDERR = 5,	/* to the host: error output */
	FRAME_STATUS = 6,	/* to the host: the command's exit status, a byte, and STATUS_WHOLE */
	FRAME_CREDIT = 7,	/* in both directions: 4 bytes, little endian: credit given back */
	FRAME_LISTENS = 8,	/* to the host: it may report its terminal */
	FRAME_WINDOW = 9,	/* to init: rows and columns, 2 bytes each, little endian */
	FRAME_PROMPT = 10,	/* to the host, by a shell: its profile is read, its prompt comes next */
	FRAME_STOP = 11,	/* to init: the machine is to power off */
};

/* The serial line of the channel. */
#define HOST_LINE "/dev/ttyS1"

struct channel {
	int fd;
	size_t data_max, credit_max;	/* of this line */
	size_t credit;			/* what we may still send */
	size_t owed;			/* what we have dealt with and not yet given back */
	size_t in_start, in_end;	/* the bytes in in[] that are not yet taken */
	uint8_t in[2 * (FRAME_HEADER + PORT_DATA_MAX)];
	uint8_t out[FRAME_HEADER + PORT_DATA_MAX];
};

/* The data are in the channel until it is filled again. */
struct frame {
	uint8_t channel;
	size_t length;
	const uint8_t *data;
};

/* Open the serial line raw. Returns 0, or -1 with errno. */
int channel_open_serial(struct channel *channel, const char *path);

/* Open a virtio port, and wait until the host has it open. Returns 0, or -1 with errno. */
int channel_open_port(struct channel *channel, const char *path);

/* Read what the line holds. Returns 0, or -1 at a hang-up or broken input. */
int channel_fill(struct channel *channel);

/* Take the next whole frame; credit frames are handled inside. Returns 1 if there was one. */
int channel_next(struct channel *channel, struct frame *frame);

/* How many bytes of data a frame may carry now; 0: wait for credit. */
size_t channel_room(const struct channel *channel);

/* Whether the host has dealt with all that was sent. */
int channel_settled(const struct channel *channel);

/* Tell the host that init listens. */
void channel_send_ready(struct channel *channel);

/* Tell the host that it may report its terminal. */
void channel_send_listens(struct channel *channel);

/* Send a frame; the caller has checked channel_room(). */
void channel_send(struct channel *channel, enum frame_channel number,
		  const void *data, size_t length);

/*
 * Send a frame of what read() gives, at most this many bytes; the caller has checked
 * channel_room(). Returns what read() did.
 */
ssize_t channel_carry(struct channel *channel, enum frame_channel number, int from, size_t most);

/* This many bytes from the host are dealt with. */
void channel_owe(struct channel *channel, size_t bytes);

/* Give the host credit back for what is dealt with. */
void channel_return_credit(struct channel *channel);

/* Wait until everything sent has left the serial line. */
void channel_drain(const struct channel *channel);

#endif
