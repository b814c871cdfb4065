# SPDX-License-Identifier: GPL-2.0-only
"""The verbs of the command, one module each."""
