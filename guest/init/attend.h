/* SPDX-License-Identifier: GPL-2.0-only */
/* Requests to this init: from the host, by signals, and by a pipe. */
#ifndef KEEL_ATTEND_H
#define KEEL_ATTEND_H

#include <signal.h>

struct channel;

/*
 * Blocks what ends a wait for events, a child's end and, for process 1, requests by signal;
 * `during` is the mask to wait with.
 */
void watch_signals(sigset_t *during);

/* Undoes what this init changed for itself: signals are as usual. In a child, before exec. */
void prepare_child(void);

/* Opens the pipe for shutdown requests; -1 if there can be none. */
int requests_open(void);

/* Shuts down if a signal, or a request from this pipe, asks for it. */
void obey_requests(int requests);

/* Tells the host that we listen to reports about its terminal; fd is -1 if that is not possible. */
void host_open(struct channel *host);

/* Executes the host's requests; fd is -1 once it is gone. */
void host_obey(struct channel *host);

/* Powers the machine off, by ourselves or by the init that is process 1. */
void stop_machine(void);

/* Starts a process that listens to the host, beside another init. */
void start_attendant(void);

#endif
