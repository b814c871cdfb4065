# SPDX-License-Identifier: GPL-2.0-only
"""Ports of the host that lead to ports of the guest: from the user's words, and held until the emulator listens on them."""

import errno
import ipaddress
import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import combinations

from .errors import KeelError, Status, system_error
from .qemu import Forward

LOOPBACK = "127.0.0.1"
ALL_ADDRESSES = "0.0.0.0"
MOST_PORTS = 65535
PORT_DIGITS = len(str(MOST_PORTS))
FORM = re.compile(r"(?:(?P<address>\[.*\]|[^:]*):)?(?P<host>[0-9]+):(?P<guest>[0-9]+)(?:/(?P<protocol>tcp|udp))?")
REMEDY = "[ADDR:]HOST:GUEST[/udp], such as 8080:80"
KINDS = {"tcp": socket.SOCK_STREAM, "udp": socket.SOCK_DGRAM}


def parse(text: str) -> Forward:
    """The forward that `[ADDR:]HOST:GUEST[/udp]` says, else KeelError says what is wrong."""
    found = FORM.fullmatch(text)
    if not found:
        raise KeelError(f"--forward {text} is none", REMEDY, Status.USAGE)
    host, guest = (_port(text, found[name]) for name in ("host", "guest"))
    return Forward(_address(text, found["address"]), host, guest, found["protocol"] or "tcp")


def _port(text: str, digits: str) -> int:
    if len(digits) > PORT_DIGITS or not 1 <= int(digits) <= MOST_PORTS:
        raise KeelError(f"--forward {text}: there is no port {digits}", f"from 1 to {MOST_PORTS}", Status.USAGE)
    return int(digits)


def _address(text: str, word: str | None) -> str:
    if word is None:
        return LOOPBACK
    try:
        address = ipaddress.ip_address(word.strip("[]"))
    except ValueError as error:
        remedy = f"an address such as {LOOPBACK} or {ALL_ADDRESSES}, which is all of this host's"
        raise KeelError(f"--forward {text}: {word!r} is no IPv4 address", remedy, Status.USAGE) from error
    if isinstance(address, ipaddress.IPv6Address):
        remedy = "give one of this host, or none for its loopback"
        raise KeelError(f"--forward {text}: QEMU forwards IPv4 addresses only", remedy, Status.USAGE)
    return str(address)


def parse_all(texts: Sequence[str]) -> tuple[Forward, ...]:
    """All of a run; no two of them may be of the same port."""
    forwards = tuple(parse(text) for text in texts)
    for one, other in combinations(forwards, 2):
        if _collide(one, other):
            raise KeelError(f"--forward gives port {one.host} of this host twice", "leave one of them out", Status.USAGE)
    return forwards


def _collide(one: Forward, other: Forward) -> bool:
    addresses = {one.address, other.address}
    return (one.host, one.protocol) == (other.host, other.protocol) and (len(addresses) == 1 or ALL_ADDRESSES in addresses)


@contextmanager
def held(forwards: Sequence[Forward]) -> Iterator[tuple[Forward, ...]]:
    """Keep the ports for the emulator; a host's port 0 becomes one that is free.

    A TCP port that is bound for reuse and does not listen is given to no other program by chance, and yet the emulator
    can listen on it. UDP has no such state: its port is only tested, and the emulator may still find it taken.
    """
    with ExitStack() as stack:
        yield tuple(_bind(stack, forward) for forward in forwards)


def _bind(stack: ExitStack, forward: Forward) -> Forward:
    holder = socket.socket(socket.AF_INET, KINDS[forward.protocol])
    if forward.protocol == "tcp":
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stack.enter_context(holder)
    try:
        holder.bind((forward.address, forward.host))
        return replace(forward, host=holder.getsockname()[1])
    except OSError as error:
        raise _refusal(forward, error) from error
    finally:
        if forward.protocol == "udp":
            holder.close()


def _refusal(forward: Forward, error: OSError) -> KeelError:
    if error.errno == errno.EADDRINUSE:
        remedy = "end what uses it, or choose another"
        return KeelError(f"port {forward.host} ({forward.protocol}) of {forward.address} is in use", remedy)
    if error.errno == errno.EACCES:
        return KeelError(f"this user may not listen on port {forward.host}", "choose one from 1024 on")
    if error.errno == errno.EADDRNOTAVAIL:
        return KeelError(f"this host has no address {forward.address}", f"{LOOPBACK} is its loopback, {ALL_ADDRESSES} all it has")
    return system_error(f"port {forward.host} of {forward.address} cannot be used", error)
