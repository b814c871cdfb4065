/* SPDX-License-Identifier: GPL-2.0-only */
/* No performance events, so no breakpoints of theirs. */
