# SPDX-License-Identifier: GPL-2.0-only
"""The host's end of the framed channel to the guest's init. Pure: bytes in, bytes and frames out.

guest/init/channel.h describes the frames. Every frame but credit, ready, listens, prompt and
stop frames uses up credit, header included; what has been dealt with is given back.
"""

import struct
from dataclasses import dataclass
from enum import IntEnum

HEADER = struct.Struct("<BBH")
CREDIT = struct.Struct("<I")
FRAME_DATA_MAX = 1020
CREDIT_MAX = 2048
# The end of a status: what follows half a frame of an init that is restarted is zero.
STATUS_WHOLE = 1


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

    def __init__(self, *, firmware_speaks: bool = False) -> None:
        # UEFI has its console on every serial line: what comes before the guest's first frame is text, without zero bytes.
        self._in_text = firmware_speaks
        self._received = b""
        self._waiting: list[tuple[Kind, bytes]] = []
        self._credit = CREDIT_MAX
        self._out = bytearray()

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
                self._out += encode(Kind.CREDIT, CREDIT.pack(HEADER.size + len(frame.data)))
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
        self._received = self._received.lstrip(b"\0")  # the end of a frame that an init before did not finish
        if len(self._received) < HEADER.size:
            return None
        number, zero, length = HEADER.unpack_from(self._received)
        if zero != 0 or length > FRAME_DATA_MAX or number not in set(Kind):
            raise BrokenChannel(f"bytes that are no frame: {self._received[:16]!r}")
        if len(self._received) < HEADER.size + length:
            return None
        data = self._received[HEADER.size : HEADER.size + length]
        self._received = self._received[HEADER.size + length :]
        if number == Kind.CREDIT and length != CREDIT.size:
            raise BrokenChannel("a credit frame of a wrong length")
        return Frame(Kind(number), data)

    def send(self, kind: Kind, data: bytes) -> None:
        """Queue data, in frames of at most the largest size; empty data make one empty frame."""
        for start in range(0, max(len(data), 1), FRAME_DATA_MAX):
            self._waiting.append((kind, data[start : start + FRAME_DATA_MAX]))
        self._release()

    def send_latest(self, kind: Kind, data: bytes) -> None:
        """Queue one frame in place of those of its kind that still wait, so that the queue does not grow."""
        self._waiting = [frame for frame in self._waiting if frame[0] is not kind]
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
            self._waiting.pop(0)

    @property
    def wants_input(self) -> bool:
        """Whether more may be queued: nothing waits for credit."""
        return not self._waiting

    @property
    def outgoing(self) -> bytes:
        """What may be written to the line now."""
        return bytes(self._out)

    def sent(self, count: int) -> None:
        """That many outgoing bytes have been written."""
        del self._out[:count]
