/* SPDX-License-Identifier: GPL-2.0-only */
/* x86's vDSO code asks for this name; descriptors are the micro-kernel's. */
