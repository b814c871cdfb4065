# SPDX-License-Identifier: GPL-2.0-only
"""Keel's command: builds the µ-kernel, its tasks and Linux, and runs and tests them."""
