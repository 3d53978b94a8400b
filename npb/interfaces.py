"""Interfaces: which addresses this host has, how it names itself, and what names mean to it."""

from __future__ import annotations

import ctypes
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple


class Interface(NamedTuple):
    """An address of this host: interface's name, address, length of the network's prefix."""

    name: str
    address: str
    prefix: int


class HostView(NamedTuple):
    """What a host says of itself. `identity` is the same for processes that share a network stack."""

    name: str
    identity: str
    interfaces: tuple[Interface, ...]


class _SockAddr(ctypes.Structure):
    _fields_ = (("family", ctypes.c_ushort), ("data", ctypes.c_ubyte * 26))


class _IfAddrs(ctypes.Structure):
    pass


_IfAddrs._fields_ = (
    ("next", ctypes.POINTER(_IfAddrs)),
    ("name", ctypes.c_char_p),
    ("flags", ctypes.c_uint),
    ("address", ctypes.POINTER(_SockAddr)),
    ("netmask", ctypes.POINTER(_SockAddr)),
    ("peer", ctypes.c_void_p),
    ("data", ctypes.c_void_p),
)


def interfaces() -> tuple[Interface, ...]:
    """IPv4 and IPv6 addresses of this host's interfaces, as getifaddrs(3) gives them."""
    libc = ctypes.CDLL(None, use_errno=True)
    first = ctypes.POINTER(_IfAddrs)()
    if libc.getifaddrs(ctypes.byref(first)) != 0:
        raise OSError(ctypes.get_errno(), "getifaddrs")
    found = []
    entry = first
    while entry:
        interface = entry.contents
        if interface.address:
            family = interface.address.contents.family
            # sockaddr_in: port 2 bytes, address 4; sockaddr_in6: port 2, flow 4, address 16.
            start, length = {socket.AF_INET: (2, 4), socket.AF_INET6: (6, 16)}.get(family, (0, 0))
            if length:
                raw = bytes(interface.address.contents.data[start : start + length])
                mask = (
                    bytes(interface.netmask.contents.data[start : start + length])
                    if interface.netmask
                    else b""
                )
                address = socket.inet_ntop(family, raw)
                found.append(
                    Interface(interface.name.decode(), address, sum(byte.bit_count() for byte in mask))
                )
        entry = interface.next
    libc.freeifaddrs(first)
    return tuple(found)


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
    found: dict[str, list[str]] = {}
    for name in names:
        try:
            answers = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            answers = []
        found[name] = list(dict.fromkeys(str(answer[4][0]) for answer in answers))
    return found


def to_json(view: HostView) -> dict[str, Any]:
    """For the wire."""
    return {
        "name": view.name,
        "identity": view.identity,
        "interfaces": [list(entry) for entry in view.interfaces],
    }


def from_json(value: Mapping[str, Any]) -> HostView:
    """From the wire."""
    return HostView(
        str(value["name"]), str(value["identity"]), tuple(Interface(*entry) for entry in value["interfaces"])
    )
