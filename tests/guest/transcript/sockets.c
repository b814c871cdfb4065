// SPDX-License-Identifier: GPL-2.0-only
/* Sockets: local ones, TCP and UDP over loopback, passing descriptors, select and poll on them. */
#include "check.h"
#include <arpa/inet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/un.h>

CHECK(sockets, pair_stream)
{
	int ends[2];
	char text[8] = "";

	say_result("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
	say_value("send", send(ends[0], "hello", 5, 0));
	say_value("peek", recv(ends[1], text, 5, MSG_PEEK));
	say_value("receive", recv(ends[1], text, 8, 0));
	say_value("empty", recv(ends[1], text, 8, MSG_DONTWAIT));
	say_result("shutdown", shutdown(ends[0], SHUT_WR));
	say_value("end", recv(ends[1], text, 8, 0));
	say_value("broken", send(ends[0], "x", 1, MSG_NOSIGNAL));
}

CHECK(sockets, pair_datagram_and_seqpacket)
{
	int ends[2];
	char text[8];

	must("pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	send(ends[0], "one", 3, 0);
	send(ends[0], "three", 5, 0);
	say_value("first", recv(ends[1], text, 8, 0));
	say_value("short", recv(ends[1], text, 2, MSG_TRUNC));
	must("pair", socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
	send(ends[0], "packet", 6, 0);
	say_value("packet", recv(ends[1], text, 8, 0));
	say_result("inet_pair", socketpair(AF_INET, SOCK_STREAM, 0, ends));
}

CHECK(sockets, pass_descriptor)
{
	char control[CMSG_SPACE(sizeof(int))] = "", byte = 'x', text[16] = "";
	struct iovec part = { &byte, 1 };
	struct msghdr message = { .msg_iov = &part, .msg_iovlen = 1 };
	struct cmsghdr *header;
	int ends[2], fd = make_file("passed", "through a socket");
	ssize_t sent;
	pid_t pid;

	message.msg_control = control;
	message.msg_controllen = sizeof control;
	header = CMSG_FIRSTHDR(&message);
	must("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	pid = spawn();
	if (!pid) {
		close(fd);
		must("receive", recvmsg(ends[1], &message, 0) == 1);
		header = CMSG_FIRSTHDR(&message);
		memcpy(&fd, CMSG_DATA(header), sizeof fd);
		must("read", read(fd, text, 15) == 15);
		say("text=%s", text);
		_exit(0);
	}
	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof fd);
	memcpy(CMSG_DATA(header), &fd, sizeof fd);
	sent = sendmsg(ends[0], &message, 0);
	say_child("child", pid);
	say_value("send", sent);
	say_value("offset_shared", lseek(fd, 0, SEEK_CUR));
}

CHECK(sockets, peer_credentials)
{
	struct ucred credentials;
	socklen_t length = sizeof credentials;
	int ends[2];

	must("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	say_result("get", getsockopt(ends[0], SOL_SOCKET, SO_PEERCRED, &credentials, &length));
	say("own_pid=%d uid=%u gid=%u", credentials.pid == getpid(), credentials.uid, credentials.gid);
}

CHECK(sockets, local_names)
{
	struct sockaddr_un name = { AF_UNIX, "socket" };
	int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);

	say_result("refused_absent", connect(client, (struct sockaddr *)&name, sizeof name));
	say_result("bind", bind(server, (struct sockaddr *)&name, sizeof name));
	say_result("again", bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, sizeof name));
	say_result("not_listening", connect(client, (struct sockaddr *)&name, sizeof name));
	say_result("listen", listen(server, 1));
	say_result("connect", connect(client, (struct sockaddr *)&name, sizeof name));
	say_bool("accept", accept(server, NULL, NULL) >= 0);
	name.sun_path[0] = 0;
	say_result("abstract", bind(socket(AF_UNIX, SOCK_DGRAM, 0), (struct sockaddr *)&name, sizeof name));
}

/* A listening TCP socket on loopback; gives its address. */
static int listen_tcp(struct sockaddr_in *address)
{
	socklen_t length = sizeof *address;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	must("bind", bind(fd, (struct sockaddr *)address, length) == 0);
	must("listen", listen(fd, 16) == 0);
	must("name", getsockname(fd, (struct sockaddr *)address, &length) == 0);
	return fd;
}

CHECK(sockets, tcp_echo)
{
	struct sockaddr_in address;
	int server = listen_tcp(&address), fd;
	char text[64] = "";
	pid_t pid = spawn();

	if (!pid) {
		ssize_t length;

		fd = accept(server, NULL, NULL);
		while ((length = read(fd, text, sizeof text)) > 0)
			must("write", write(fd, text, length) == length);
		_exit(0);
	}
	fd = socket(AF_INET, SOCK_STREAM, 0);
	say_result("connect", connect(fd, (struct sockaddr *)&address, sizeof address));
	say_value("write", write(fd, "over loopback", 13));
	say_value("read", recv(fd, text, 13, MSG_WAITALL));
	say("text=%s", text);
	close(fd);
	say_child("child", pid);
}

CHECK(sockets, tcp_bulk)
{
	struct sockaddr_in address;
	int server = listen_tcp(&address), fd;
	unsigned char *data = (unsigned char *)map_pages(512);
	unsigned sum = 0, expected = 0;
	ssize_t part;
	pid_t pid = spawn();

	for (size_t i = 0; i < 512 * PAGE; i++)
		data[i] = i * 13 + (i >> 12);
	if (!pid) {
		fd = accept(server, NULL, NULL);
		for (size_t done = 0; done < 512 * PAGE; done += part)
			must("write", (part = write(fd, data + done, 512 * PAGE - done)) > 0);
		_exit(0);
	}
	for (size_t i = 0; i < 512 * PAGE; i++)
		expected = expected * 31 + data[i];
	fd = socket(AF_INET, SOCK_STREAM, 0);
	must("connect", connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
	while ((part = read(fd, data, 512 * PAGE)) > 0)
		for (ssize_t i = 0; i < part; i++)
			sum = sum * 31 + data[i];
	say_bool("same", sum == expected);
	say_child("child", pid);
}

CHECK(sockets, tcp_refused_and_options)
{
	struct sockaddr_in address;
	int server = listen_tcp(&address), fd = socket(AF_INET, SOCK_STREAM, 0), on = 1, value = 0;
	socklen_t length = sizeof value;

	close(server);
	say_result("refused", connect(fd, (struct sockaddr *)&address, sizeof address));
	say_result("nodelay", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on));
	getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &value, &length);
	say("nodelay=%d", value);
	say_result("bad_option", setsockopt(fd, SOL_SOCKET, 9999, &on, sizeof on));
	say_result("bad_pointer", setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, (void *)8, sizeof on));
	say_result("unconnected", getpeername(fd, (struct sockaddr *)&address, &length));
	say_value("send", send(fd, "x", 1, MSG_NOSIGNAL));
	getsockopt(fd, SOL_SOCKET, SO_TYPE, &value, &length);
	say("type=%d", value);
}

CHECK(sockets, tcp_nonblocking_connect)
{
	struct sockaddr_in address;
	int server = listen_tcp(&address), fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), error = -1;
	struct pollfd ready = { fd, POLLOUT, 0 };
	socklen_t length = sizeof error;
	char byte;

	connect(fd, (struct sockaddr *)&address, sizeof address);
	say_value("poll", poll(&ready, 1, 5000));
	getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length);
	say("error=%d events=%#x", error, ready.revents);
	say_value("read", read(fd, &byte, 1));
	say_bool("accept", accept4(server, NULL, NULL, SOCK_CLOEXEC) >= 0);
}

CHECK(sockets, udp)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) }, from;
	socklen_t length = sizeof address;
	int server = socket(AF_INET, SOCK_DGRAM, 0), client = socket(AF_INET, SOCK_DGRAM, 0);
	struct timeval short_time = { 0, 20000 };
	char text[8] = "";

	must("bind", bind(server, (struct sockaddr *)&address, length) == 0);
	getsockname(server, (struct sockaddr *)&address, &length);
	say_value("send", sendto(client, "packet", 6, 0, (struct sockaddr *)&address, length));
	say_value("receive", recvfrom(server, text, 8, 0, (struct sockaddr *)&from, &length));
	say("text=%s from=%s", text, inet_ntoa(from.sin_addr));
	setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &short_time, sizeof short_time);
	say_value("timeout", recv(server, text, 8, 0));
	say_value("too_long", sendto(client, map_pages(20), 20 * PAGE, 0, (struct sockaddr *)&address, length));
}

CHECK(sockets, udp_many_messages)
{
	struct mmsghdr messages[4] = { 0 };
	struct iovec parts[4];
	char texts[4][4] = { "aaa", "bbb", "ccc", "ddd" };
	int ends[2];

	must("pair", socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);
	for (int i = 0; i < 4; i++) {
		parts[i] = (struct iovec){ texts[i], 3 };
		messages[i].msg_hdr = (struct msghdr){ .msg_iov = &parts[i], .msg_iovlen = 1 };
	}
	say_value("send", sendmmsg(ends[0], messages, 4, 0));
	say_value("receive", recvmmsg(ends[1], messages, 4, MSG_DONTWAIT, NULL));
	say("last=%s length=%u", texts[3], messages[3].msg_len);
}

CHECK(sockets, ipv6_loopback)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	socklen_t length = sizeof address;
	int server = socket(AF_INET6, SOCK_STREAM, 0), client = socket(AF_INET6, SOCK_STREAM, 0);

	say_bool("socket", server >= 0);
	say_result("bind", bind(server, (struct sockaddr *)&address, length));
	listen(server, 1);
	getsockname(server, (struct sockaddr *)&address, &length);
	say_result("connect", connect(client, (struct sockaddr *)&address, length));
}

CHECK(sockets, unknown_kinds)
{
	say_value("family", socket(77, SOCK_STREAM, 0));
	say_value("type", socket(AF_INET, 99, 0));
	say_value("protocol", socket(AF_INET, SOCK_STREAM, 999));
	say_value("not_socket", send(open("/dev/null", O_WRONLY), "x", 1, 0));
	say_value("listen_datagram", listen(socket(AF_INET, SOCK_DGRAM, 0), 1));
}

CHECK(sockets, loopback_interface)
{
	struct ifreq request = { .ifr_name = "lo" };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	say_result("flags", ioctl(fd, SIOCGIFFLAGS, &request));
	say("up=%d loopback=%d", !!(request.ifr_flags & IFF_UP), !!(request.ifr_flags & IFF_LOOPBACK));
	say_result("mtu", ioctl(fd, SIOCGIFMTU, &request));
	say("mtu=%d", request.ifr_mtu);
	strcpy(request.ifr_name, "none0");
	say_result("absent", ioctl(fd, SIOCGIFFLAGS, &request));
}

CHECK(sockets, select_sets)
{
	int ends[2];
	fd_set in;
	struct timeval short_time = { 0, 10000 };

	must("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	FD_ZERO(&in);
	FD_SET(ends[0], &in);
	say_value("timeout", select(ends[0] + 1, &in, NULL, NULL, &short_time));
	must("send", send(ends[1], "x", 1, 0) == 1);
	FD_SET(ends[0], &in);
	say_value("ready", select(ends[0] + 1, &in, NULL, NULL, NULL));
	FD_ZERO(&in);
	FD_SET(500, &in);
	say_value("bad", select(501, &in, NULL, NULL, &short_time));
	say_value("negative", select(-1, NULL, NULL, NULL, &short_time));
}

CHECK(sockets, poll_interrupted)
{
	int ends[2];
	struct pollfd set;

	must("pair", socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	set = (struct pollfd){ ends[0], POLLIN, 0 };
	catch_faults();
	signal(SIGALRM, SIG_IGN);
	say_value("timeout", poll(&set, 1, 15));
	say_value("ppoll", ppoll(&set, 1, &(struct timespec){ 0, 5 * MILLISECOND }, NULL));
	say_value("bad_time", ppoll(&set, 1, &(struct timespec){ 0, -5 }, NULL));
}

CHECK(sockets, netlink_lists_loopback)
{
	struct {
		struct {
			uint32_t length;
			uint16_t type, flags;
			uint32_t sequence, pid;
		} header;
		char body[16];
	} request = { { 32, 18 /* RTM_GETLINK */, 0x301 /* request, dump */, 1, 0 }, "" };
	char answer[8192];
	int fd = socket(AF_NETLINK, SOCK_RAW, 0);
	ssize_t length;

	say_value("send", send(fd, &request, 32, 0));
	length = recv(fd, answer, sizeof answer, 0);
	say_bool("answer", length > 32);
	say_bool("names_lo", length > 0 && memmem(answer, length, "lo", 3));
}
