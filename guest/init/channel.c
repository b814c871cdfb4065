// SPDX-License-Identifier: GPL-2.0-only
/*
 * Init's end of the framed channel: frames in and out of a raw line,
 * with credit. What the frames mean is exec.c's business.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "channel.h"

static int open_line(struct channel *channel, const char *path, int flags, size_t data_max,
		     size_t credit_max)
{
	channel->data_max = data_max;
	channel->credit_max = channel->credit = credit_max;
	channel->owed = channel->in_start = channel->in_end = 0;
	channel->fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | flags);
	return channel->fd < 0 ? -1 : 0;
}

int channel_open_serial(struct channel *channel, const char *path)
{
	struct termios line;

	if (open_line(channel, path, O_NONBLOCK, SERIAL_DATA_MAX, SERIAL_CREDIT) < 0)
		return -1;
	if (tcgetattr(channel->fd, &line) < 0)
		return -1;
	cfmakeraw(&line);
	line.c_cflag |= CLOCAL | CREAD;
	cfsetspeed(&line, B115200);
	return tcsetattr(channel->fd, TCSANOW, &line);
}

int channel_open_port(struct channel *channel, const char *path)
{
	static const uint8_t nothing;

	if (open_line(channel, path, 0, PORT_DATA_MAX, PORT_CREDIT) < 0)
		return -1;
	/* The port may be there before it is connected: it would read as if the host had gone. */
	if (write(channel->fd, &nothing, sizeof(nothing)) != sizeof(nothing))
		return -1;
	return fcntl(channel->fd, F_SETFL, O_NONBLOCK);
}

int channel_fill(struct channel *channel)
{
	ssize_t got = 0;

	channel->in_end -= channel->in_start;
	memmove(channel->in, channel->in + channel->in_start, channel->in_end);
	channel->in_start = 0;
	/* A port gives no more than a page at a time. */
	while (channel->in_end < sizeof(channel->in)) {
		got = read(channel->fd, channel->in + channel->in_end,
			   sizeof(channel->in) - channel->in_end);
		if (got <= 0)
			break;
		channel->in_end += got;
	}
	return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)) ? 0 : -1;
}

static uint32_t get_le32(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

static void put_le32(uint8_t *p, uint32_t value)
{
	p[0] = value;
	p[1] = value >> 8;
	p[2] = value >> 16;
	p[3] = value >> 24;
}

static int take_frame(struct channel *channel, struct frame *frame)
{
	const uint8_t *start = channel->in + channel->in_start;
	size_t held = channel->in_end - channel->in_start;

	if (held < FRAME_HEADER)
		return 0;
	frame->channel = start[0];
	frame->data = start + FRAME_HEADER;
	frame->length = start[2] | start[3] << 8;
	if (frame->length > channel->data_max)
		frame->length = channel->data_max;
	if (held < FRAME_HEADER + frame->length)
		return 0;
	channel->in_start += FRAME_HEADER + frame->length;
	return 1;
}

int channel_next(struct channel *channel, struct frame *frame)
{
	while (take_frame(channel, frame)) {
		if (frame->channel != FRAME_CREDIT)
			return 1;
		if (frame->length == sizeof(uint32_t))
			channel->credit += get_le32(frame->data);
	}
	return 0;
}

size_t channel_room(const struct channel *channel)
{
	if (channel->credit <= FRAME_HEADER)
		return 0;
	if (channel->credit - FRAME_HEADER < channel->data_max)
		return channel->credit - FRAME_HEADER;
	return channel->data_max;
}

int channel_settled(const struct channel *channel)
{
	return channel->credit >= channel->credit_max;
}

static void write_all(int fd, const uint8_t *data, size_t length)
{
	while (length > 0) {
		struct pollfd wait = { .fd = fd, .events = POLLOUT };
		ssize_t put = write(fd, data, length);

		if (put > 0) {
			data += put;
			length -= put;
		} else if (put < 0 && errno == EAGAIN) {
			poll(&wait, 1, -1);
		} else if (put < 0 && errno != EINTR) {
			return;	/* the line is gone, and with it the listener */
		}
	}
}

/* Send a frame whose data are in out[] already. */
static void send_frame(struct channel *channel, enum frame_channel number, size_t length)
{
	channel->out[0] = number;
	channel->out[1] = 0;
	channel->out[2] = length;
	channel->out[3] = length >> 8;
	write_all(channel->fd, channel->out, FRAME_HEADER + length);
}

static void send_first(struct channel *channel, enum frame_channel number)
{
	const size_t rest_of_frame = FRAME_HEADER + channel->data_max;

	memset(channel->out, 0, rest_of_frame);
	write_all(channel->fd, channel->out, rest_of_frame);
	send_frame(channel, number, 0);
}

void channel_send_ready(struct channel *channel)
{
	send_first(channel, FRAME_READY);
}

void channel_send_listens(struct channel *channel)
{
	send_first(channel, FRAME_LISTENS);
}

void channel_send(struct channel *channel, enum frame_channel number,
		  const void *data, size_t length)
{
	memcpy(channel->out + FRAME_HEADER, data, length);
	channel->credit -= FRAME_HEADER + length;
	send_frame(channel, number, length);
}

ssize_t channel_carry(struct channel *channel, enum frame_channel number, int from, size_t most)
{
	ssize_t got = read(from, channel->out + FRAME_HEADER, most);

	if (got > 0) {
		channel->credit -= FRAME_HEADER + got;
		send_frame(channel, number, got);
	}
	return got;
}

void channel_owe(struct channel *channel, size_t bytes)
{
	channel->owed += bytes;
}

void channel_return_credit(struct channel *channel)
{
	if (channel->owed == 0)
		return;
	put_le32(channel->out + FRAME_HEADER, channel->owed);
	channel->owed = 0;
	send_frame(channel, FRAME_CREDIT, sizeof(uint32_t));
}

void channel_drain(const struct channel *channel)
{
	tcdrain(channel->fd);
}
