// SPDX-License-Identifier: GPL-2.0-only
/*
 * Init's end of the framed channel: frames in and out of a raw serial line,
 * with credit. What the frames mean is exec.c's business.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "channel.h"

int channel_open(struct channel *channel, const char *path)
{
	struct termios line;

	memset(channel, 0, sizeof(*channel));
	channel->credit = CREDIT_MAX;
	channel->fd = open(path, O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK);
	if (channel->fd < 0)
		return -1;
	if (tcgetattr(channel->fd, &line) < 0)
		return -1;
	cfmakeraw(&line);
	line.c_cflag |= CLOCAL | CREAD;
	cfsetspeed(&line, B115200);
	return tcsetattr(channel->fd, TCSANOW, &line);
}

int channel_fill(struct channel *channel)
{
	size_t room = sizeof(channel->in) - channel->in_length;
	ssize_t got;

	if (room == 0)
		return -1;	/* more than the credit allows: not our host */
	got = read(channel->fd, channel->in + channel->in_length, room);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	if (got == 0)
		return -1;
	channel->in_length += got;
	return 0;
}

static uint32_t get_le32(const uint8_t *p)
{
	return p[0] | p[1] << 8 | p[2] << 16 | (uint32_t)p[3] << 24;
}

int channel_next(struct channel *channel, struct frame *frame)
{
	for (;;) {
		size_t length, whole;

		if (channel->in_length < FRAME_HEADER)
			return 0;
		length = channel->in[2] | channel->in[3] << 8;
		if (length > FRAME_DATA_MAX)
			length = FRAME_DATA_MAX;
		whole = FRAME_HEADER + length;
		if (channel->in_length < whole)
			return 0;
		frame->channel = channel->in[0];
		frame->length = length;
		memcpy(frame->data, channel->in + FRAME_HEADER, length);
		channel->in_length -= whole;
		memmove(channel->in, channel->in + whole, channel->in_length);
		if (frame->channel != FRAME_CREDIT)
			return 1;
		channel->credit += get_le32(frame->data);
	}
}

size_t channel_room(const struct channel *channel)
{
	if (channel->credit <= FRAME_HEADER)
		return 0;
	if (channel->credit - FRAME_HEADER < FRAME_DATA_MAX)
		return channel->credit - FRAME_HEADER;
	return FRAME_DATA_MAX;
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

static void send_frame(const struct channel *channel, enum frame_channel number,
		       const void *data, size_t length)
{
	uint8_t frame[FRAME_HEADER + FRAME_DATA_MAX] = {
		number, 0, length & 0xff, length >> 8
	};

	if (length > 0)
		memcpy(frame + FRAME_HEADER, data, length);
	write_all(channel->fd, frame, FRAME_HEADER + length);
}

static void send_first(const struct channel *channel, enum frame_channel number)
{
	static const uint8_t rest_of_frame[FRAME_HEADER + FRAME_DATA_MAX];

	write_all(channel->fd, rest_of_frame, sizeof(rest_of_frame));
	send_frame(channel, number, NULL, 0);
}

void channel_send_ready(const struct channel *channel)
{
	send_first(channel, FRAME_READY);
}

void channel_send_listens(const struct channel *channel)
{
	send_first(channel, FRAME_LISTENS);
}

void channel_send(struct channel *channel, enum frame_channel number,
		  const void *data, size_t length)
{
	channel->credit -= FRAME_HEADER + length;
	send_frame(channel, number, data, length);
}

void channel_return_credit(struct channel *channel, size_t bytes)
{
	uint8_t data[4] = { bytes & 0xff, bytes >> 8 };

	if (bytes > 0)
		send_frame(channel, FRAME_CREDIT, data, sizeof(data));
}

void channel_drain(const struct channel *channel)
{
	tcdrain(channel->fd);
}
