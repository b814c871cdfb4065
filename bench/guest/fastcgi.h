/* SPDX-License-Identifier: GPL-2.0-only */
/* A FastCGI server on a Unix socket (fastcgi.c). */
#ifndef FASTCGI_H
#define FASTCGI_H

/* What it answers, and all that comes after the headers of a reply. */
#define HELLO "Hello world\n"

/*
 * Starts it as a child (bench.h), which reads this number of pages for each request. Requests may
 * be made from now on. Exits if there is no socket.
 */
void start_fastcgi(long pages);

#endif
