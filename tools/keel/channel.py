# SPDX-License-Identifier: GPL-2.0-only
"""The host's end of the framed channel to the guest's init. Pure: bytes in, bytes and frames out.

guest/init/channel.h describes the frames and has the same numbers. Every frame but credit, ready, listens, prompt and
stop frames uses up credit, header included; what has been dealt with is given back.
"""

import re
import struct
from collections import deque
from dataclasses import dataclass
from enum import IntEnum

HEADER = struct.Struct("<BBH")
CREDIT = struct.Struct("<I")
# The end of a status: what follows half a frame of an init that is restarted is zero.
STATUS_WHOLE = 1


@dataclass(frozen=True)
class Capacity:
    """What a line carries: how many bytes of data a frame has at most, and how many bytes may be in flight."""

    data: int
    credit: int


SERIAL = Capacity(1020, 2048)
PORT = Capacity(32764, 262144)


class Kind(IntEnum):
    """The channel numbers."""

    COMMAND = 1
    STDIN = 2
    READY = 3
    STDOUT = 4
    STDERR = 5
    STATUS = 6
    CREDIT = 7
    LISTENS = 8
    WINDOW = 9
    PROMPT = 10
    STOP = 11


WINDOW = struct.Struct("<HH")
# What may come where no init listens, or none does any more.
UNANSWERED = (Kind.READY, Kind.LISTENS, Kind.PROMPT)
KINDS = frozenset(Kind)
# Of one frame. Only a guest that keeps to no credit could be owed more.
MOST_CREDIT = 0xFFFFFFFF
ZEROS = re.compile(rb"\0+")


class BrokenChannel(Exception):
    """The guest sent what is no frame; the text says what."""


@dataclass(frozen=True)
class Frame:
    """One frame from the guest."""

    kind: Kind
    data: bytes


def encode(kind: Kind, data: bytes) -> bytes:
    """The bytes of one frame."""
    return HEADER.pack(kind, 0, len(data)) + data


class Channel:
    """Turns received bytes into frames, and what is to be sent into bytes as credit allows."""

    def __init__(self, capacity: Capacity = SERIAL, *, firmware_speaks: bool = False) -> None:
        self.capacity = capacity
        # UEFI has its console on every serial line: what comes before the guest's first frame is text, without zero bytes.
        self._in_text = firmware_speaks
        self._received = bytearray()
        self._waiting: deque[tuple[Kind, bytes]] = deque()
        self._credit = capacity.credit
        self._out = bytearray()
        self._owed = 0

    def receive(self, data: bytes) -> list[Frame]:
        """The whole frames in what has come so far; credit is settled here."""
        self._received += data
        if self._in_text:
            self._skip_text()
        frames = []
        while not self._in_text and (frame := self._take()) is not None:
            if frame.kind is Kind.CREDIT:
                self._credit += CREDIT.unpack(frame.data)[0]
                continue
            if frame.kind not in UNANSWERED:
                self._owed += HEADER.size + len(frame.data)
            frames.append(frame)
        self._release()
        return frames

    def _skip_text(self) -> None:
        # An init sends zero bytes before its first frame. Firmware sends none, but its text may end
        # in a byte that begins a frame: a newline with such zeros after it would be a prompt frame.
        _, zero, rest = self._received.partition(b"\0")
        self._in_text = not zero
        self._received = rest

    def _take(self) -> Frame | None:
        if zeros := ZEROS.match(self._received):  # the end of a frame that an init before did not finish
            del self._received[: zeros.end()]
        if len(self._received) < HEADER.size:
            return None
        number, zero, length = HEADER.unpack_from(self._received)
        if zero != 0 or length > self.capacity.data or number not in KINDS:
            raise BrokenChannel(f"bytes that are no frame: {bytes(self._received[:16])!r}")
        if len(self._received) < HEADER.size + length:
            return None
        data = bytes(self._received[HEADER.size : HEADER.size + length])
        del self._received[: HEADER.size + length]
        if number == Kind.CREDIT and length != CREDIT.size:
            raise BrokenChannel("a credit frame of a wrong length")
        return Frame(Kind(number), data)

    def send(self, kind: Kind, data: bytes) -> None:
        """Queue data, in frames of at most the largest size; empty data make one empty frame."""
        for start in range(0, max(len(data), 1), self.capacity.data):
            self._waiting.append((kind, data[start : start + self.capacity.data]))
        self._release()

    def send_latest(self, kind: Kind, data: bytes) -> None:
        """Queue one frame in place of those of its kind that still wait, so that the queue does not grow."""
        self._waiting = deque(frame for frame in self._waiting if frame[0] is not kind)
        self.send(kind, data)

    def send_at_once(self, kind: Kind) -> None:
        """Send an empty frame that uses up no credit, before all that waits."""
        self._out += encode(kind, b"")

    def _release(self) -> None:
        while self._waiting:
            kind, data = self._waiting[0]
            cost = HEADER.size + len(data)
            if cost > self._credit:
                return
            self._credit -= cost
            self._out += encode(kind, data)
            self._waiting.popleft()

    @property
    def wants_input(self) -> bool:
        """Whether more may be queued: nothing waits for credit."""
        return not self._waiting

    @property
    def outgoing(self) -> int:
        """How many bytes may be written to the line now, beside the credit to give back."""
        return len(self._out)

    def take_outgoing(self, *, gives_credit: bool = True) -> bytes:
        """Take what may be written to the line now, once. Credit not yet given back is one frame, however much it is for.

        While none is given the guest writes what it has credit for, and no more.
        """
        owed = self._owed if gives_credit else 0
        credit = encode(Kind.CREDIT, CREDIT.pack(min(owed, MOST_CREDIT))) if owed else b""
        taken = credit + self._out
        self._owed -= owed
        self._out.clear()
        return taken
