"""Bandwidth above what the link can carry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from npc import catalogue
from npc.machine.platform import Interface
from npc.records.record import Record
from npc.records.series import INTERFACE
from npc.records.units import format_quantity
from npc.validity.rule import Circumstances, rule
from npc.validity.traffic import between_nodes
from npc.validity.unit_errors import likely_slip

#: A short test may count so many times too much: data still in the sender's and the switch's buffers when the
#: clock stops. Seen on shaped links with tests of 4 s and more: below 1 %. Slips of units are 2.4 % at
#: least.
_TOLERANCE: Final = 1.01
#: Share of the nominal rate; less is reported. The kernel tells the rate of the wire (56 Gb/s of FDR), the
#: nominal rate is that of the data.
_LEAST: Final = 0.9
#: Of an Ethernet frame of MTU + 14 bytes, TCP's segment has MTU − 52: IPv4 header 20, TCP header 20,
#: timestamps 12 (RFC 7323).
_FRAME: Final = 14
_HEADERS: Final = 52
_USUAL_MTU: Final = 1500


@rule(
    "link",
    "bandwidth above the data rate of the link",
    "InfiniBand Architecture Specification vol. 2 (symbol rate × encoding × lanes); IEEE 802.3; "
    "TCP goodput = rate × (MTU − 52)/(MTU + 14), RFC 9293, RFC 7323",
)
def above_link(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """Every bandwidth between nodes, against the interface that the record names, or else all of a node's.

    Each of several pairs of nodes has its own link; in tests of both directions every node sends over its
    own. Nodes without a process have none.
    """
    if record.metric != "bandwidth" or record.value is None or not between_nodes(record):
        return
    link, mtu = _link(record, circumstances)
    if link is None or _within_a_node_too(record):
        return
    over_tcp = catalogue.row_of(record).layer == "tcp"
    ceiling, words = _goodput(link, mtu) if over_tcp else (link.data_rate, "")
    taking_part = min(record.nodes, _processes(record) or record.nodes)
    links = taking_part if _both_ways(record) else max(1, taking_part // 2)
    if record.value > ceiling * links * _TOLERANCE:
        yield (
            f"{format_quantity(record.value, 'B/s')} is above the "
            f"{format_quantity(ceiling * links, 'B/s')} that {link.name} ({link.link or 'data_rate'}"
            f"{words}{f', × {links}' if links > 1 else ''}) can carry"
            + likely_slip(record.value, ceiling * links, "B/s")
        )


@rule(
    "below_nominal",
    "a link that ran below its nominal rate",
    "the rate that the kernel tells (ABI/stable/sysfs-class-infiniband; ABI/testing/sysfs-class-net: speed)",
    level="note",
)
def below_nominal(record: Record, circumstances: Circumstances) -> Iterator[str]:
    """The interface that a record names, or the only one, against ``platform.toml``.

    A link with a bad cable or port goes on with the lanes that are left.
    """
    known = circumstances.platform.interfaces if circumstances.platform else {}
    name = record.params.get(INTERFACE) or (next(iter(known)) if len(known) == 1 else "")
    if name not in known or not between_nodes(record):
        return
    ran, words = _rate(name, circumstances, record)
    if ran and ran / 8 < _LEAST * known[name].data_rate:
        nominal = known[name].link or format_quantity(known[name].data_rate, "B/s")
        yield f"{name} ran at {words}, nominal is {nominal}"


def _rate(name: str, circumstances: Circumstances, record: Record) -> tuple[float | None, str]:
    """Bits a second that an interface ran at, and the same in words; of an adapter's port if it has any."""
    interfaces, ports = (circumstances.entries(record, kind) for kind in ("interfaces", "rdma"))
    own: Mapping[str, Any] = next(
        (interface for interface in interfaces if interface.get("name") == name), {}
    )
    devices = own.get("rdma_devices") or ()
    ports = [port for port in ports if port.get("device") in devices and port.get("rate_bit_s")]
    if ports:
        best = max(ports, key=lambda port: port["rate_bit_s"])
        return best["rate_bit_s"], str(best["rate"])
    speed = own.get("speed_bit_s")
    return speed, f"{speed / 1e9:g} Gbit/s" if speed else ""


def _link(record: Record, circumstances: Circumstances) -> tuple[Interface | None, int | None]:
    """The link of a record and its MTU. Where the record names none of several, all together, since MPI may
    use them at once."""
    known = dict(circumstances.platform.interfaces) if circumstances.platform else {}
    by_name = {entry.get("name"): entry for entry in circumstances.entries(record, "interfaces")}
    name = record.params.get("interface", "")
    if not name and len(known) == 1:
        name = next(iter(known))
    mtu = by_name.get(name, {}).get("mtu")
    if name in known:
        return known[name], mtu
    speed = by_name.get(name, {}).get("speed_bit_s")
    if speed:
        return Interface(name, f"{speed / 1e9:g} Gbit/s", speed / 8), mtu
    if name or not known:
        return None, None
    together = sum(interface.data_rate for interface in known.values())
    return Interface(" + ".join(known), "together", together), None


def _goodput(link: Interface, mtu: int | None) -> tuple[float, str]:
    """What TCP can reach of an Ethernet's rate, and words that say so. For InfiniBand the data rate is the
    limit."""
    if not link.link.endswith(("GbE", "Gbit/s")):
        return link.data_rate, ""
    mtu = mtu or _USUAL_MTU
    share = (mtu - _HEADERS) / (mtu + _FRAME)
    return link.data_rate * share, f", TCP in frames of MTU {mtu}"


def _processes(record: Record) -> int | None:
    """The processes that took part, None where nothing tells."""
    count = record.params.get("ranks", record.params.get("processes", ""))
    return int(count) if count.isdecimal() else None


def _within_a_node_too(record: Record) -> bool:
    """Whether messages within a node are part of the number. HPCC's slowest ping-pong is one over a link."""
    least = record.case == "PingPong" and record.params.get("statistic") == "min"
    all_processes = catalogue.row_of(record).all_processes
    return all_processes and not least and (_processes(record) or 0) > record.nodes


def _both_ways(record: Record) -> bool:
    return catalogue.row_of(record).both_ways or record.params.get("direction") == "bidir"
