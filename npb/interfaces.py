"""Interfaces: which addresses this host has, how it names itself, and what names mean to it."""

from __future__ import annotations

import contextlib
import ipaddress
import os
import socket
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_PORTS: Final = range(10240, 32766)
_TRIES: Final = 50


class Address(NamedTuple):
    """An address of this host."""

    #: Of the interface.
    name: str
    #: As numbers.
    address: str
    #: Length of the network's prefix, in bits.
    prefix: int


class HostView(NamedTuple):
    """What a host says of itself."""

    #: Host name.
    name: str
    #: The same for all processes that share a network stack.
    identity: str
    #: Addresses of its network interfaces.
    interfaces: tuple[Address, ...]


def interfaces() -> tuple[Address, ...]:
    """IPv4 and IPv6 addresses of this host's interfaces."""
    import psutil  # not at the start of each process of a launch: once a node is enough

    return tuple(
        Address(name, address.address.partition("%")[0], _bits(address.netmask))
        for name, addresses in psutil.net_if_addrs().items()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    )


def free_port() -> int:
    """A port that nobody listens at here, by TCP or UDP, nor at the one after it: jobs that share a node do
    not meet. Below those that clients get (ip_local_port_range)."""
    for _ in range(_TRIES):
        port = _PORTS.start + int.from_bytes(os.urandom(4), "big") % len(_PORTS)
        with contextlib.suppress(OSError), contextlib.ExitStack() as bound:
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                for number in (port, port + 1):
                    bound.enter_context(socket.socket(socket.AF_INET, kind)).bind(("", number))
            break
    return port


def _bits(netmask: str | None) -> int:
    return int(ipaddress.ip_address(netmask)).bit_count() if netmask else 0


def own_view() -> HostView:
    """This host as it sees itself."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        identity = f"{boot} {Path('/proc/self/ns/net').readlink()}"
    except OSError:
        identity = socket.gethostname()
    return HostView(socket.gethostname(), identity, interfaces())


def look_up(names: Iterable[str]) -> dict[str, list[str]]:
    """Addresses of names as this host resolves them, in the resolver's order; none if it knows none."""
    by_name: dict[str, list[str]] = {}
    for name in names:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            answers = []
        by_name[name] = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    return by_name


def from_json(value: Sequence[Any]) -> HostView:
    """From the wire, where a named tuple is a list."""
    name, identity, entries = value
    return HostView(name, identity, tuple(Address(*entry) for entry in entries))
