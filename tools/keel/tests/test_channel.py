# SPDX-License-Identifier: GPL-2.0-only
"""Framing and credit of the exec channel."""

import re

import pytest

from keel.channel import (
    CREDIT,
    HEADER,
    PORT,
    SERIAL,
    STATUS_WHOLE,
    WINDOW,
    BrokenChannel,
    Capacity,
    Channel,
    Frame,
    Kind,
    encode,
)
from keel.config import REPOSITORY

CAPACITIES = pytest.mark.parametrize("capacity", [SERIAL, PORT], ids=["serial", "port"])


def credit(count: int) -> bytes:
    return encode(Kind.CREDIT, CREDIT.pack(count))


def test_both_ends_have_the_same_numbers() -> None:
    header = (REPOSITORY / "guest" / "init" / "channel.h").read_text()
    numbers = {name: int(value) for name, value in re.findall(r"^#define (\w+) (\d+)$", header, re.MULTILINE)}
    kinds = {name: int(value) for name, value in re.findall(r"^\tFRAME_(\w+) = (\d+),", header, re.MULTILINE)}
    assert kinds == {kind.name: kind for kind in Kind}
    assert numbers == {
        "FRAME_HEADER": HEADER.size,
        "SERIAL_DATA_MAX": SERIAL.data,
        "SERIAL_CREDIT": SERIAL.credit,
        "PORT_DATA_MAX": PORT.data,
        "PORT_CREDIT": PORT.credit,
        "STATUS_WHOLE": STATUS_WHOLE,
    }


@CAPACITIES
def test_a_frame_fits_into_its_header_and_more_than_one_into_the_credit(capacity: Capacity) -> None:
    assert capacity.data < 1 << 16
    assert capacity.credit >= 2 * (HEADER.size + capacity.data)


def test_credit_is_given_when_what_came_has_been_taken() -> None:
    channel = Channel()
    channel.receive(encode(Kind.STDOUT, b"hello"))
    channel.send_at_once(Kind.STOP)
    assert channel.take_outgoing(gives_credit=False) == encode(Kind.STOP, b"")
    channel.receive(encode(Kind.STDOUT, b"on"))
    assert channel.take_outgoing() == credit(2 * HEADER.size + 7)
    assert channel.take_outgoing() == b""


def test_frames_come_out_whole_however_they_are_cut() -> None:
    stream = encode(Kind.STDOUT, b"hello") + encode(Kind.STDERR, b"") + encode(Kind.STATUS, b"\x03")
    channel = Channel()
    frames = [frame for byte in stream for frame in channel.receive(bytes([byte]))]
    assert frames == [
        Frame(Kind.STDOUT, b"hello"),
        Frame(Kind.STDERR, b""),
        Frame(Kind.STATUS, b"\x03"),
    ]


def test_each_frame_is_paid_back_with_its_header() -> None:
    channel = Channel()
    channel.receive(encode(Kind.STDOUT, b"12345"))
    assert channel.take_outgoing() == credit(HEADER.size + 5)


def test_credit_that_is_not_taken_is_one_frame() -> None:
    """A guest that sends and reads nothing does not fill our memory, nor the line."""
    channel = Channel()
    channel.receive(encode(Kind.STDOUT, b"12345") + encode(Kind.STDERR, b"678"))
    channel.receive(encode(Kind.STDOUT, b""))
    assert channel.outgoing == 0
    assert channel.take_outgoing() == credit(3 * HEADER.size + 8)
    assert channel.take_outgoing() == b""


@CAPACITIES
def test_never_more_under_way_than_the_credit(capacity: Capacity) -> None:
    channel = Channel(capacity)
    channel.send(Kind.STDIN, bytes(10 * capacity.data))
    first = channel.take_outgoing()
    assert capacity.credit - HEADER.size - capacity.data < len(first) <= capacity.credit
    assert not channel.wants_input
    channel.receive(credit(HEADER.size + capacity.data))
    assert len(channel.take_outgoing()) == HEADER.size + capacity.data


@pytest.mark.parametrize("kind", [Kind.READY, Kind.LISTENS, Kind.PROMPT])
def test_frames_without_an_answer(kind: Kind) -> None:
    """The sender may be gone, and the answer would reach the init of a restarted Linux."""
    channel = Channel()
    assert channel.receive(encode(kind, b"")) == [Frame(kind, b"")]
    assert channel.take_outgoing() == b""


def test_a_size_is_rows_and_columns_from_the_lower_byte() -> None:
    channel = Channel()
    channel.send(Kind.WINDOW, WINDOW.pack(50, 300))
    assert channel.take_outgoing() == bytes([9, 0, 4, 0, 50, 0, 300 - 256, 1])


def test_credit_frames_pass_without_credit() -> None:
    channel = Channel()
    channel.send(Kind.STDIN, bytes(10 * SERIAL.data))
    channel.take_outgoing()
    channel.receive(encode(Kind.STDOUT, b"x"))
    assert channel.take_outgoing() == credit(HEADER.size + 1)


@CAPACITIES
def test_all_data_arrive_in_order(capacity: Capacity) -> None:
    data = bytes(range(256)) * 4000
    channel, guest = Channel(capacity), Channel(capacity)
    channel.send(Kind.STDIN, data)
    channel.send(Kind.STDIN, b"")
    arrived = []
    while outgoing := channel.take_outgoing():
        arrived += guest.receive(outgoing)
        channel.receive(guest.take_outgoing())
    assert b"".join(frame.data for frame in arrived) == data
    assert arrived[-1] == Frame(Kind.STDIN, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"\x63\x00\x00\x00",
        b"\x04\x01\x00\x00",
        HEADER.pack(Kind.STDOUT, 0, SERIAL.data + 1),
        encode(Kind.CREDIT, b"\x01"),
        b"Kernel panic",
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenChannel):
        Channel().receive(data)


# An init's first frame, with the zero bytes before it.
def first_frame(kind: Kind) -> bytes:
    return bytes(HEADER.size + SERIAL.data) + encode(kind, b"")


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("end", [b"\x03", b"\n", b"\r\n", b"\b", b"\n\n\b"])
@pytest.mark.parametrize(("first", "second"), [(Kind.READY, Kind.LISTENS), (Kind.LISTENS, Kind.READY)])
def test_what_firmware_writes_before_the_first_frame_is_passed_over(first: Kind, second: Kind, end: bytes, step: int) -> None:
    """Whatever byte its text ends in: with the zero bytes that follow it would be a frame."""
    stream = b"\x1b[2JBdsDxe: starting" + end + first_frame(first) + first_frame(second)
    channel = Channel(firmware_speaks=True)
    frames = [frame for at in range(0, len(stream), step) for frame in channel.receive(stream[at : at + step])]
    assert frames == [Frame(first, b""), Frame(second, b"")]
    with pytest.raises(BrokenChannel):
        Channel().receive(stream)


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\b"])
def test_firmwares_text_may_be_cut_anywhere(end: bytes) -> None:
    stream = b"starting" + end + first_frame(Kind.LISTENS)
    for cut in range(20):
        channel = Channel(firmware_speaks=True)
        assert channel.receive(stream[:cut]) + channel.receive(stream[cut:]) == [Frame(Kind.LISTENS, b"")]


def test_of_what_waits_for_credit_only_the_latest_size_is_kept() -> None:
    channel = Channel()
    channel.send(Kind.STDIN, bytes(SERIAL.credit))
    for rows in range(1000):
        channel.send_latest(Kind.WINDOW, WINDOW.pack(rows, 80))
    channel.take_outgoing()
    channel.receive(credit(1 << 20))
    outgoing = channel.take_outgoing()
    assert outgoing.endswith(encode(Kind.WINDOW, WINDOW.pack(999, 80)))
    assert len(outgoing) < HEADER.size + SERIAL.data + 3 * HEADER.size + WINDOW.size
