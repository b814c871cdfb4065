/* SPDX-License-Identifier: GPL-2.0-only */
/* Nothing: the firmware's tables are read-only here, so there is no global lock to take. */
