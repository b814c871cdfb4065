// SPDX-License-Identifier: GPL-2.0-only
/* The loopback interface, without which local servers cannot be reached. */
#include <net/if.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net.h"

void loopback_up(void)
{
	struct ifreq request;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return;
	memset(&request, 0, sizeof(request));
	strcpy(request.ifr_name, "lo");
	request.ifr_flags = IFF_UP | IFF_RUNNING;
	ioctl(fd, SIOCSIFFLAGS, &request);
	close(fd);
}
