/* SPDX-License-Identifier: GPL-2.0-only */
/* The upper half of an address space: the kernel's, or shared by it and user programs. */
#ifndef KEEL_HALF_H
#define KEEL_HALF_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Returns true for an address of the kernel. It has all of the half, or what abi/src/fpage.rs
 * leaves to it (`shared`).
 */
static inline bool is_kernels(uint64_t address, bool shared)
{
	const uint64_t upper_start = 0xffffd00000000000, upper_end = 0xffffff8000000000, upper_last = 0xffffffffc0000000;

	if (!(address >> 63))
		return false;
	return !shared || address < upper_start || (address >= upper_end && address < upper_last);
}

#endif
