// SPDX-License-Identifier: GPL-2.0-only
/* The rows of the program `bench`. */
#include <stddef.h>

#include "bench.h"

const struct rows *const all_rows[] = {
	&call_rows, &pipe_rows, &switch_rows, &fault_rows, &signal_rows, &process_rows, &network_rows, &file_rows,
	&mix_rows, &appel_rows, &hybrid_rows, NULL,
};
