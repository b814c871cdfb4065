// SPDX-License-Identifier: GPL-2.0-only
/*
 * Calls that only applications have: read, write and writev that go from a descriptor straight to
 * TCP, past the layers of files and sockets and what these ask of accounting, notification and
 * security modules. For other files they are read and write; writev is TCP's only.
 */
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/net.h>
#include <linux/syscalls.h>
#include <linux/uio.h>
#include <net/sock.h>
#include <net/tcp.h>

#include "bypass.h"

/* Returns the file's socket if it is a plain TCP socket, without a protocol on top. */
static struct sock *ukl_tcp_socket(struct file *file)
{
	struct socket *sock = file ? sock_from_file(file) : NULL;
	const struct proto *proto = sock && sock->sk ? READ_ONCE(sock->sk->sk_prot) : NULL;

	if (proto && proto->recvmsg == tcp_recvmsg && proto->sendmsg == tcp_sendmsg)
		return sock->sk;
	return NULL;
}

static int ukl_flags(const struct file *file)
{
	return file->f_flags & O_NONBLOCK ? MSG_DONTWAIT : 0;
}

static void ukl_message(struct msghdr *message, struct file *file, unsigned int direction,
			void __user *buffer, size_t count)
{
	memset(message, 0, sizeof(*message));
	iov_iter_ubuf(&message->msg_iter, direction, buffer, min_t(size_t, count, MAX_RW_COUNT));
	message->msg_flags = ukl_flags(file);
}

long ukl_socket_read(unsigned int fd, char __user *buffer, size_t count)
{
	struct fd f = fdget(fd);
	struct sock *sk = count ? ukl_tcp_socket(f.file) : NULL;
	struct msghdr message;
	int unused;
	long result;

	if (sk) {
		ukl_message(&message, f.file, ITER_DEST, buffer, count);
		result = tcp_recvmsg(sk, &message, iov_iter_count(&message.msg_iter),
				     message.msg_flags, &unused);
	}
	fdput(f);
	return sk ? result : ksys_read(fd, buffer, count);
}

long ukl_socket_write(unsigned int fd, const char __user *buffer, size_t count)
{
	struct fd f = fdget(fd);
	struct sock *sk = ukl_tcp_socket(f.file);
	struct msghdr message;
	long result;

	if (sk) {
		ukl_message(&message, f.file, ITER_SOURCE, (void __user *)buffer, count);
		result = tcp_sendmsg(sk, &message, iov_iter_count(&message.msg_iter));
	}
	fdput(f);
	return sk ? result : ksys_write(fd, buffer, count);
}

long ukl_socket_writev(unsigned int fd, const struct iovec __user *pieces, size_t count)
{
	struct iovec few[UIO_FASTIOV], *taken = few;
	struct fd f = fdget(fd);
	struct sock *sk = ukl_tcp_socket(f.file);
	struct msghdr message = {};
	long result = -ENOSYS;

	if (sk) {
		result = import_iovec(ITER_SOURCE, pieces, min_t(size_t, count, UIO_MAXIOV + 1),
				      ARRAY_SIZE(few), &taken, &message.msg_iter);
		if (result >= 0) {
			message.msg_flags = ukl_flags(f.file);
			result = tcp_sendmsg(sk, &message, result);
			kfree(taken);
		}
	}
	fdput(f);
	return result;
}
