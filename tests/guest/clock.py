# SPDX-License-Identifier: GPL-2.0-only
"""Runs in the guest: reads and sets the CMOS clock, and waits for its alarm and its updates, which are interrupts."""

import fcntl
import os
import struct
import time
from pathlib import Path

# struct rtc_time: seconds, minutes, hours, day, month from 0, year from 1900, and three that are not used.
DATE = struct.Struct("9i")
ALARM = struct.Struct("BB2x9i")
READ_DATE, SET_DATE, SET_ALARM, UPDATES_ON, UPDATES_OFF = 0x80247009, 0x4024700A, 0x4028700F, 0x7003, 0x7004
# The lowest byte of a read of the clock's device: an interrupt, of an update or of the alarm.
KIND = 0xFF
# How far two readings may be apart, because one clock counts whole seconds.
NEAR_S = 2
CHOSEN = 1_900_000_000
DISTANCE_S = 3
UPDATES = 3


def date_of(seconds: float) -> tuple[int, ...]:
    """A time as the clock counts it."""
    t = time.gmtime(seconds)
    return (t.tm_sec, t.tm_min, t.tm_hour, t.tm_mday, t.tm_mon - 1, t.tm_year - 1900, 0, 0, 0)


def seconds_of(clock: int) -> int:
    """The clock's time."""
    second, minute, hour, day, month, year, *_ = DATE.unpack(fcntl.ioctl(clock, READ_DATE, bytes(DATE.size)))
    stamp = time.strptime(f"{year + 1900} {month + 1} {day} {hour} {minute} {second}", "%Y %m %d %H %M %S")
    return int(time.mktime(stamp)) - time.timezone


def interrupts() -> int:
    """The number of the clock's interrupts."""
    line = next(line for line in Path("/proc/interrupts").read_text().splitlines() if line.endswith("rtc0"))
    return int(line.split()[1])


os.environ["TZ"] = "UTC"
time.tzset()
clock = os.open("/dev/rtc0", os.O_RDONLY)
print(Path("/sys/class/rtc/rtc0/name").read_text().split()[0], abs(seconds_of(clock) - time.time()) <= NEAR_S)
fcntl.ioctl(clock, SET_DATE, DATE.pack(*date_of(CHOSEN)))
print("set", 0 <= seconds_of(clock) - CHOSEN <= NEAR_S)
before = interrupts()
began = seconds_of(clock)
fcntl.ioctl(clock, SET_ALARM, ALARM.pack(1, 0, *date_of(began + DISTANCE_S)))
kind = int.from_bytes(os.read(clock, 8), "little") & KIND
print("alarm", hex(kind), seconds_of(clock) - began >= DISTANCE_S)
fcntl.ioctl(clock, UPDATES_ON)
print("updates", *(hex(int.from_bytes(os.read(clock, 8), "little") & KIND) for _ in range(UPDATES)))
fcntl.ioctl(clock, UPDATES_OFF)
print("interrupts", interrupts() - before > UPDATES)
