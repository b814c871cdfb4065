# SPDX-License-Identifier: GPL-2.0-only
"""The emulated machine's facts, as data: the same for Keel and for the native baseline."""

from dataclasses import dataclass

EMULATOR = "qemu-system-x86_64"
# `max` without what the emulator does badly or Keel and the baseline do not use;
# with ERMS it would copy byte by byte.
CPU = "max,-erms,-la57,-pku,-mpx,-svm"
DEFAULT_MEMORY_MB = 2048
LEAST_MEMORY_MB = 64

# A write of v to this port ends QEMU with the status (v << 1) | 1.
EXIT_PORT = 0xF4
EXIT_POWER_OFF = 0x10
EXIT_REBOOT = 0x11
EXIT_LINUX_PANIC = 0x12
EXIT_KERNEL_PANIC = 0x13
EXIT_BOOT_CONFIGURATION = 0x14
EXIT_TESTS_PASSED = 0x20
EXIT_TESTS_FAILED = 0x21
EXIT_PROBE = 0x30


def emulator_status(value: int) -> int:
    """QEMU's exit status when the guest writes this value to the exit port."""
    return (value << 1) | 1


@dataclass(frozen=True)
class SerialPort:
    """One serial line of the machine."""

    name: str
    port: int
    interrupt: int
    use: str


# COM3 shares its interrupt with COM1 on a PC; it is written by polling only.
CONSOLE = SerialPort("console", 0x3F8, 4, "Linux's console")
EXEC = SerialPort("exec", 0x2F8, 3, "the framed channel to the guest's init")
LOG = SerialPort("log", 0x3E8, 4, "the log of the µ-kernel and the native tasks")
SERIAL_PORTS = (CONSOLE, EXEC, LOG)
