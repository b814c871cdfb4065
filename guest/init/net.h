/* SPDX-License-Identifier: GPL-2.0-only */
/* The loopback interface. */
#ifndef KEEL_NET_H
#define KEEL_NET_H

/* Brings the loopback interface up. */
void loopback_up(void);

#endif
