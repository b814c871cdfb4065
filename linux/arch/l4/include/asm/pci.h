/* SPDX-License-Identifier: GPL-2.0-only */
/* The firmware numbered the busses and placed the devices. */
#define PCIBIOS_MIN_IO 0x1000
#define pcibios_assign_all_busses() 0

#include <asm-generic/pci.h>
