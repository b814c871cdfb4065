/* SPDX-License-Identifier: GPL-2.0-only */
/* No processor walks the tables, so no page number is inverted against speculation. */
static inline u64 protnone_mask(u64 value)
{
	return 0;
}

static inline u64 flip_protnone_guard(u64 old, u64 value, u64 mask)
{
	return value;
}
