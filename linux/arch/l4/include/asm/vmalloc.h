/* SPDX-License-Identifier: GPL-2.0-only */
/* No huge mappings in the vmalloc area. */
