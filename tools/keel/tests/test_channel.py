# SPDX-License-Identifier: GPL-2.0-only
"""Framing and credit of the exec channel."""

import pytest

from keel.channel import (
    CREDIT,
    CREDIT_MAX,
    FRAME_DATA_MAX,
    HEADER,
    WINDOW,
    BrokenChannel,
    Channel,
    Frame,
    Kind,
    encode,
)


def credit(count: int) -> bytes:
    return encode(Kind.CREDIT, CREDIT.pack(count))


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
    assert channel.outgoing == credit(HEADER.size + 5)


def test_never_more_under_way_than_the_credit() -> None:
    channel = Channel()
    channel.send(Kind.STDIN, bytes(10 * FRAME_DATA_MAX))
    first = channel.outgoing
    assert len(first) <= CREDIT_MAX
    assert not channel.wants_input
    channel.sent(len(first))
    channel.receive(credit(HEADER.size + FRAME_DATA_MAX))
    assert len(channel.outgoing) == HEADER.size + FRAME_DATA_MAX


@pytest.mark.parametrize("kind", [Kind.READY, Kind.LISTENS, Kind.PROMPT])
def test_frames_without_an_answer(kind: Kind) -> None:
    """The sender may be gone, and the answer would reach the init of a restarted Linux."""
    channel = Channel()
    assert channel.receive(encode(kind, b"")) == [Frame(kind, b"")]
    assert channel.outgoing == b""


def test_a_size_is_rows_and_columns_from_the_lower_byte() -> None:
    channel = Channel()
    channel.send(Kind.WINDOW, WINDOW.pack(50, 300))
    assert channel.outgoing == bytes([9, 0, 4, 0, 50, 0, 300 - 256, 1])


def test_credit_frames_pass_without_credit() -> None:
    channel = Channel()
    channel.send(Kind.STDIN, bytes(10 * FRAME_DATA_MAX))
    channel.sent(len(channel.outgoing))
    channel.receive(encode(Kind.STDOUT, b"x"))
    assert channel.outgoing == credit(HEADER.size + 1)


def test_all_data_arrive_in_order() -> None:
    data = bytes(range(256)) * 40
    channel, guest = Channel(), Channel()
    channel.send(Kind.STDIN, data)
    channel.send(Kind.STDIN, b"")
    arrived = []
    while outgoing := channel.outgoing:
        channel.sent(len(outgoing))
        arrived += guest.receive(outgoing)
        back = guest.outgoing
        guest.sent(len(back))
        channel.receive(back)
    assert b"".join(frame.data for frame in arrived) == data
    assert arrived[-1] == Frame(Kind.STDIN, b"")


@pytest.mark.parametrize(
    "data",
    [
        b"\x63\x00\x00\x00",
        b"\x04\x01\x00\x00",
        HEADER.pack(Kind.STDOUT, 0, FRAME_DATA_MAX + 1),
        encode(Kind.CREDIT, b"\x01"),
        b"Kernel panic",
    ],
)
def test_what_is_no_frame_is_refused(data: bytes) -> None:
    with pytest.raises(BrokenChannel):
        Channel().receive(data)


# An init's first frame, with the zero bytes before it.
def first_frame(kind: Kind) -> bytes:
    return bytes(HEADER.size + FRAME_DATA_MAX) + encode(kind, b"")


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
    channel.send(Kind.STDIN, bytes(CREDIT_MAX))
    for rows in range(1000):
        channel.send_latest(Kind.WINDOW, WINDOW.pack(rows, 80))
    channel.sent(len(channel.outgoing))
    channel.receive(credit(1 << 20))
    assert channel.outgoing.endswith(encode(Kind.WINDOW, WINDOW.pack(999, 80)))
    assert len(channel.outgoing) < HEADER.size + FRAME_DATA_MAX + 3 * HEADER.size + WINDOW.size
