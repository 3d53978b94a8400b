"""Addresses: under which one the client reaches the server, and how a wrong one is not used.

A host name is not an address: Debian's ``127.0.1.1`` line makes a host's own name its loopback, bridges
such as ``docker0`` have the same address on every node, and a name may lead to another host altogether. So
an address is taken only if it is one of the server's own and, where client and server are two hosts, not
one of the client's as well.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from npc.npb.interfaces import Address, HostView

#: HOSTNAME, PORT and PORT+1 as words of their own, and not a shell's ``$HOSTNAME``.
_PLACE: Final = re.compile(r"(?<![A-Za-z0-9_${])(?:HOSTNAME|PORT(\+1)?)(?![A-Za-z0-9_])")


class NoAddress(LookupError):
    """No address under which the client would surely reach the server; the message says why."""


def usable(server: HostView, client: HostView) -> list[Address]:
    """The server's addresses that lead the client to the server and nowhere else."""
    if server.identity == client.identity:
        return list(server.interfaces)
    clients = {interface.address for interface in client.interfaces}
    return [
        interface
        for interface in server.interfaces
        if interface.address not in clients and not ipaddress.ip_address(interface.address).is_loopback
    ]


def reached_at(own: HostView, others: Iterable[HostView]) -> list[str]:
    """The own addresses at which others may come here, and nobody from elsewhere if that can be: a loopback
    where all are on this host, else those in a network that another host shares, and all where one shares
    none, because routers are between."""
    away = {other.identity: other for other in others if other.identity != own.identity}
    if not away:
        loopbacks = [entry for entry in own.interfaces if ipaddress.ip_address(entry.address).is_loopback]
        return [entry.address for entry in sorted(loopbacks or own.interfaces, key=_preference)][:1]
    reachable: dict[str, None] = {}
    for other in away.values():
        good = [entry for entry in usable(own, other) if not entry.address.startswith("fe80:")]
        networks = _networks(other)
        shared = [entry for entry in good if _network(entry) in networks]
        reachable |= dict.fromkeys(entry.address for entry in shared or good)
    return list(reachable)


def names_to_try(server: HostView, replace: Sequence[str] | None) -> list[str]:
    """Names of the server that the client should look up. Raises `NoAddress` if `replace` changes nothing."""
    if replace is None:
        return [server.name]
    old, new = replace
    if old not in server.name:
        raise NoAddress(
            f"--replace-host {old} {new}: {old!r} does not occur in the host name {server.name!r}"
        )
    return [server.name.replace(old, new)]


def choose(
    server: HostView,
    client: HostView,
    looked_up: Mapping[str, Sequence[str]],
    *,
    interface: str | None = None,
    replace: Sequence[str] | None = None,
    table: Mapping[str, str] | None = None,
) -> str:
    """What stands for HOSTNAME. `looked_up` is what the client resolved of `names_to_try`.

    In this order: the host file's address, the interface's address, what the client resolves the (replaced)
    name to if that is the server, else the address that both sides share a network with. It is a number,
    not the name: sockperf 3.7 takes no names, and no tool looks one up while it measures. Raises `NoAddress`.
    """
    if table is not None:
        return _from_table(server, table)
    good = usable(server, client)
    if interface is not None:
        return _on_interface(server, good, interface)
    name = names_to_try(server, replace)[0]
    answers = list(looked_up.get(name, ()))
    resolved = [candidate for answer in answers for candidate in good if candidate.address == answer]
    if resolved:
        return min(resolved, key=_preference).address
    if replace is not None:
        raise NoAddress(_replaced_badly(server, client, name, answers))
    return _shared_network(server, client, good)


def interface_of(server: HostView, client: HostView, address: str) -> str:
    """The name of the server's interface with this address; empty where both are one host, whose traffic
    never leaves it, and for an address that none of its interfaces has."""
    if server.identity == client.identity:
        return ""
    bare = address.partition("%")[0]
    return next((own.name for own in server.interfaces if own.address == bare), "")


def fill(argv: Sequence[str], address: str, port: int) -> tuple[str, ...]:
    """The command with HOSTNAME, PORT and PORT+1 replaced; ``$HOSTNAME`` and longer words are left alone."""

    def value(match: re.Match[str]) -> str:
        return address if match[0] == "HOSTNAME" else str(port + bool(match[1]))

    return tuple(_PLACE.sub(value, argument) for argument in argv)


def read_table(path: Path) -> dict[str, str]:
    """A host file: lines ``host address``, ``#`` starts a comment. Raises ValueError, OSError."""
    from npc.files import read_text  # not loaded by every node before MPI

    table: dict[str, str] = {}
    for number, line in enumerate(read_text(path).splitlines(), 1):
        cells = line.partition("#")[0].split()
        if not cells:
            continue
        if len(cells) != 2:
            raise ValueError(f"{path}:{number}: not `host address`: {line.strip()!r}")
        table[cells[0]] = cells[1]
    return table


def _from_table(server: HostView, table: Mapping[str, str]) -> str:
    for name in (server.name, server.name.partition(".")[0]):
        if name in table:
            return table[name]
    raise NoAddress(
        f"the host file has no address for {server.name}; it has: {', '.join(table) or 'nothing'}"
    )


def _on_interface(server: HostView, good: Sequence[Address], name: str) -> str:
    there = [candidate for candidate in server.interfaces if candidate.name == name]
    if not there:
        names = ", ".join(dict.fromkeys(candidate.name for candidate in server.interfaces))
        raise NoAddress(
            f"--interface {name}: {server.name} has no such interface with an address; it has: {names}"
        )
    # A link-local address only where the interface has nothing else: bridges with the same address
    # everywhere have a link-local one of their own, and it leads nowhere.
    proper = [candidate for candidate in there if not ipaddress.ip_address(candidate.address).is_link_local]
    choices = [candidate for candidate in proper or there if candidate in good]
    if not choices:
        raise NoAddress(f"--interface {name}: {there[0].address} of {server.name} is also the client's own")
    best = min(choices, key=_preference)
    if ipaddress.ip_address(best.address).is_link_local and ":" in best.address:
        return f"{best.address}%{name}"
    return best.address


def _preference(candidate: Address) -> tuple[bool, bool]:
    """IPv4 before IPv6, link-local last: not every tool speaks IPv6, few take a scope."""
    address = ipaddress.ip_address(candidate.address)
    return (address.is_link_local, address.version == 6)


def _shared_network(server: HostView, client: HostView, good: Sequence[Address]) -> str:
    networks = _networks(client)
    choices = [candidate for candidate in good if not ipaddress.ip_address(candidate.address).is_link_local]
    if not choices:
        raise NoAddress(f"{server.name} has no address that {client.name} could use: {_listed(server)}")

    def rank(candidate: Address) -> tuple[bool, bool, tuple[bool, bool]]:
        address = ipaddress.ip_address(candidate.address)
        return (_network(candidate) not in networks, address.is_loopback, _preference(candidate))

    return min(choices, key=rank).address


def _network(entry: Address) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
    return ipaddress.ip_interface(f"{entry.address}/{entry.prefix}").network


def _networks(host: HostView) -> set[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    return {_network(entry) for entry in host.interfaces}


def _replaced_badly(server: HostView, client: HostView, name: str, answers: Sequence[str]) -> str:
    if not answers:
        return f"{client.name} cannot resolve {name!r} (made by --replace-host); see: getent ahosts {name}"
    return (
        f"on {client.name} the name {name!r} (made by --replace-host) is {', '.join(answers)}, "
        f"which is not an address of {server.name} alone: {_listed(server)}"
    )


def _listed(server: HostView) -> str:
    return ", ".join(f"{entry.address} ({entry.name})" for entry in server.interfaces) or "it has none"
