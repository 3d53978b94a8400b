"""Counters of errors, losses and congestion that links, devices and the kernel keep.

A counter is called by its owner and by the name that the owner gives it: ``mlx5_0/1 symbol_error``,
``eth0 rx_crc_errors``, ``tcp RetransSegs``. All count from the moment at which a driver was loaded, for all
processes of the node. A network namespace has counters of its own; inside one, only these can be read.

========================  ===========================================================================
owner                     where, and what the names mean
========================  ===========================================================================
RDMA port, ``mlx5_0/1``   ``/sys/class/infiniband/DEV/ports/N/counters`` (InfiniBand Architecture
                          Specification vol. 1, 16.1.3.5 PortCounters) and ``hw_counters`` of the driver
network interface         ``/sys/class/net/DEV/statistics``, ``carrier_down_count`` (kernel,
                          Documentation/networking/statistics.rst), and what ``ethtool -S`` shows
tcp, udp, ip, and 6       ``/proc/self/net/snmp``, ``netstat``, ``snmp6`` (RFC 4022, 4113, 4293; kernel,
                          Documentation/networking/snmp_counter.rst)
memory, ``mc0/dimm3``     ``/sys/devices/system/edac/mc`` (kernel, Documentation/admin-guide/ras.rst)
cpu                       ``/proc/interrupts``: MCE, machine checks (not MCP, which counts the times that
                          the kernel looked for some); ``thermal_throttle``
device, ``nvme0``         ``aer_dev_*`` of PCI Express (kernel, Documentation/PCI/pcieaer-howto.rst)
========================  ===========================================================================
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import re
import socket
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal

from npc.machine import sysfs
from npc.machine.pcie import device_name

#: What it means that a counter rises. down: a link or a device was gone, or data is lost for good. error:
#: bits were wrong, which load alone never causes. loss: packets were dropped or sent again, which a full
#: buffer causes as well. congestion: packets had to wait. throttling: the processor was slowed down. traffic:
#: no fault; losses are compared with it.
Meaning = Literal["down", "error", "loss", "congestion", "throttling", "traffic"]

#: Width in bits of the fields of PortCounters. A field that has reached its largest value stays there.
PORT_BITS: Final[Mapping[str, int]] = {
    "symbol_error": 16, "link_error_recovery": 8, "link_downed": 8, "port_rcv_errors": 16,
    "port_rcv_remote_physical_errors": 16, "port_rcv_switch_relay_errors": 16, "port_xmit_discards": 16,
    "port_xmit_constraint_errors": 8, "port_rcv_constraint_errors": 8, "local_link_integrity_errors": 4,
    "excessive_buffer_overrun_errors": 4, "port_xmit_wait": 32,
}  # fmt: skip

#: Section of /proc/net → the owner of its counters, and the names of those that are read.
_PROTOCOLS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "Tcp": ("tcp", ("InSegs", "OutSegs", "RetransSegs", "InErrs", "InCsumErrors")),
    "TcpExt": ("tcp", ("TCPLostRetransmit", "TCPTimeouts", "ListenDrops", "TCPOFOQueue", "TCPBacklogDrop",
                       "TCPRcvQDrop")),
    "Udp": ("udp", ("InDatagrams", "InErrors", "RcvbufErrors", "SndbufErrors", "InCsumErrors")),
    "Ip": ("ip", ("InReceives", "InHdrErrors", "InDiscards", "OutDiscards", "ReasmFails", "FragFails")),
    "IpExt": ("ip", ("InCsumErrors", "InCEPkts")),
    "Udp6": ("udp6", ("InDatagrams", "InErrors", "RcvbufErrors", "SndbufErrors", "InCsumErrors")),
    "Ip6": ("ip6", ("InReceives", "InHdrErrors", "InDiscards", "OutDiscards", "ReasmFails", "FragFails",
                    "InCEPkts")),
}  # fmt: skip

#: Meaning (None: it does not matter), and what a counter's name contains that has it; the first that fits
#: counts. The words are those of the sources above, of the kernel's mlx5/counters.rst for ``ethtool -S``, and
#: of the drivers of Intel, Broadcom and Amazon.
_MEANINGS: Final[Sequence[tuple[Meaning | None, str]]] = (
    ("traffic", "(In|Out)Segs|InDatagrams|InReceives|[rt]x_packets|port_(rcv|xmit)_packets|port_xmit_data"),
    # No faults: bits that forward error correction corrects all the time, queues that are flushed after a
    # program has left them, a program's own wrong requests, multicast for nobody, words that look alike.
    (None, "corrected_bits|err_lane|fec_cor|flush|^(req|resp)_|nohandler|interrupt|default|deferred"),
    ("throttling", "throttle|thermal"),
    ("down", "link_down|carrier_down|(^|_)ue_|^aer_dev_fatal|^MCE$|uncorrect"),
    ("congestion", "pause|xo(n|ff)_|cnp|ecn|CEPkts|xmit_wait|congest|slow_restart|allowance_exceeded"),
    ("loss", "drop|discard|miss|out_of_|out.of.buf|retrans|OFOQueue|timeout|rnr|nak|duplicate|retry|relay"
             "|overrun|over_err|fifo|seq_err|no_?buf|alloc|Reasm|Frag|RcvbufErr|SndbufErr"),
    ("error", "err|crc|fcs|symbol|fault|jabber|align|recovery|(^|_)ce_|correctable|nonfatal|illegal"),
)  # fmt: skip


@lru_cache(maxsize=2**14)
def meaning(name: str) -> Meaning | None:
    """What it means that a counter rises; None if that does not matter. name: with or without its owner."""
    own = name.rpartition(" ")[2]
    if own in ("InErrors", "InErrs") and name.startswith("udp"):
        return "loss"  # it counts full buffers too
    return next((means for means, word in _MEANINGS if re.search(word, own, re.IGNORECASE)), None)


def read(root: Path = Path("/")) -> dict[str, int]:
    """All counters of this node with their values."""
    values: dict[str, int] = {}
    for owner, counters in (
        *_rdma_ports(root), *_interfaces(root), *_protocols(root), *_memory(root), *_processor(root),
        *_devices(root),
    ):  # fmt: skip
        for name, value in counters.items():
            if meaning(name) is not None:
                values[f"{owner} {name}"] = value
    return values


def raised(counters: Mapping[str, int]) -> dict[str, int]:
    """Counters that are not 0, without those of traffic."""
    return {name: value for name, value in counters.items() if value and meaning(name) != "traffic"}


def is_full(name: str, value: int) -> bool:
    """Whether a counter has reached the largest value of its field, and counts no more."""
    owner, _, own = name.partition(" ")
    return "/" in owner and value == 2 ** PORT_BITS.get(own, 64) - 1


def rise(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """By how much counters rose between two readings: those that rose, and the traffic of their owners.

    A counter that is lower than before was reset meanwhile: it rose at least by its new value, which is
    taken. A counter that was not there before belongs to a new device, and is left out.
    """
    by = {
        name: value - before[name] if value >= before[name] else value
        for name, value in after.items()
        if name in before and value != before[name]
    }
    owners = {name.partition(" ")[0] for name in by if meaning(name) != "traffic"}
    return {name: more for name, more in by.items() if more and name.partition(" ")[0] in owners}


class CounterIncreases:
    """What this node's counters rise by during one launch (a `npc.machine.around.StartedObservation`)."""

    def __init__(self) -> None:
        self._before = read()

    def result(self, own: Collection[int] = ()) -> dict[str, int]:
        """By how much each rose since this was made, as `rise` has it."""
        return rise(self._before, read())


def by_host(nodes: Sequence[tuple[str, dict[str, int] | None]]) -> dict[str, dict[str, int]] | None:
    """The field `npc.records.launch.Launch.moved` from (host, what rose there); None where nobody could look.
    Of two looks on one host the first is taken: it began before the other and ended after it."""
    counters: dict[str, dict[str, int]] = {}
    for host, moved in nodes:
        if moved is not None:
            counters.setdefault(host, moved)
    return counters if any(moved is not None for _, moved in nodes) else None


Owned = Iterator[tuple[str, dict[str, int]]]


def _rdma_ports(root: Path) -> Owned:
    names = (*PORT_BITS, "port_rcv_packets", "port_xmit_packets", "port_xmit_data")
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        owner = f"{port.parent.parent.name}/{port.name}"
        yield owner, _numbers(port / "counters", names)
        yield owner, _numbers(port / "hw_counters")


def _interfaces(root: Path) -> Owned:
    for path in sorted((root / "sys/class/net").glob("*")):
        if path.name == "lo" or not _is_own(path, root):
            continue
        # Bridges, bonds and VLANs pass on what others count; a bridge may have hundreds of containers.
        of_container = (path / "brport").exists() and not (path / "device").exists()
        if of_container or (path / "bridge").exists() or any(path.glob("lower_*")):
            continue
        yield path.name, _numbers(path, ("carrier_down_count",))
        if sysfs.text(path / "operstate") == "down":
            continue  # it may have been up before
        yield path.name, _numbers(path / "statistics")
        if root == Path("/"):
            yield path.name, driver_statistics(path.name)


def _is_own(path: Path, root: Path) -> bool:
    """Whether an interface is of this process's network namespace: /sys may be another's."""
    if root != Path("/"):
        return True
    try:
        return sysfs.number(path / "ifindex") == socket.if_nametoindex(path.name)
    except OSError:
        return False


def _protocols(root: Path) -> Owned:
    net = root / "proc/self/net"
    for file in ("snmp", "netstat"):
        lines = (sysfs.text(net / file) or "").splitlines()
        for names, values in zip(lines[::2], lines[1::2], strict=False):
            section, _, columns = names.partition(":")
            if section in _PROTOCOLS:
                owner, wanted = _PROTOCOLS[section]
                values_by_name = dict(zip(columns.split(), values.partition(":")[2].split(), strict=False))
                yield owner, {name: int(values_by_name[name]) for name in wanted if name in values_by_name}
    values_by_name = dict(line.split()[:2] for line in (sysfs.text(net / "snmp6") or "").splitlines())
    for section in ("Udp6", "Ip6"):
        owner, wanted = _PROTOCOLS[section]
        yield (
            owner,
            {
                name: int(values_by_name[section + name])
                for name in wanted
                if section + name in values_by_name
            },
        )


def _memory(root: Path) -> Owned:
    for controller in sorted((root / "sys/devices/system/edac/mc").glob("mc[0-9]*")):
        modules = sorted(controller.glob("dimm[0-9]*"))
        for module in modules:
            errors = _numbers(module, ("dimm_ce_count", "dimm_ue_count"))
            yield f"{controller.name}/{module.name}", errors
        # Errors that belong to no known module; all errors where no module is known.
        names = ("ce_noinfo_count", "ue_noinfo_count") if modules else ("ce_count", "ue_count")
        yield controller.name, _numbers(controller, names)


def _processor(root: Path) -> Owned:
    interrupts = sysfs.text(root / "proc/interrupts") or ""
    if checks := re.search(r"^ *MCE:((?: +\d+)+)", interrupts, re.MULTILINE):
        yield "cpu", {"MCE": sum(map(int, checks[1].split()))}
    cores: dict[str, int] = {}
    for folder in (root / "sys/devices/system/cpu").glob("cpu[0-9]*/thermal_throttle"):
        for name, value in _numbers(folder, ("core_throttle_count", "package_throttle_count")).items():
            # each CPU of a package counts all of the package's
            known = cores.get(name, 0)
            cores[name] = known + value if name.startswith("core") else max(known, value)
    yield "cpu", cores


def _devices(root: Path) -> Owned:
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        counters = {}
        for kind in ("correctable", "nonfatal", "fatal"):
            # "RxErr 0\nBadTLP 0\n…\nTOTAL_ERR_COR 0"
            last = (sysfs.text(device / f"aer_dev_{kind}") or "").rpartition("\n")[2].split()
            if len(last) == 2 and last[0].startswith("TOTAL_ERR_"):
                counters[f"aer_dev_{kind}"] = int(last[1])
        if counters:
            yield device_name(device), counters


def _numbers(folder: Path, names: Sequence[str] | None = None) -> dict[str, int]:
    """File → the number in it, of a folder; names: the files to read, by default all."""
    with contextlib.suppress(OSError):
        chosen = names if names is not None else sorted(path.name for path in folder.iterdir())
        return {name: value for name in chosen if (value := sysfs.number(folder / name)) is not None}
    return {}


#: include/uapi/linux/sockios.h and ethtool.h
_SIOCETHTOOL: Final = 0x8946
_GET_STRINGS: Final = 0x1B
_GET_STATISTICS: Final = 0x1D
_GET_STRING_COUNTS: Final = 0x37
_OF_STATISTICS: Final = 1
_NAME_BYTES: Final = 32
#: Counters of one queue or channel: ``rx0_drops``, ``tx_queue_3_missed``, ``[7] rx_discards``.
_QUEUE: Final = re.compile(r"^[rt]x-?\d|queue_?\d|\[\d+\]|^ch\d|^q\d")


def driver_statistics(interface: str) -> dict[str, int]:
    """What ``ethtool -S`` shows of an interface, without counters of single queues; empty where the driver
    has none. It makes ethtool's system calls itself: a process for each launch would take too long."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:

        def ask(request: bytes) -> bytes:
            buffer = array.array("B", request)
            address, _ = buffer.buffer_info()
            fcntl.ioctl(any_socket, _SIOCETHTOOL, struct.pack("16sP16x", interface.encode()[:15], address))
            return buffer.tobytes()

        # struct ethtool_sset_info: command, reserved, mask of the sets, their sizes
        counts = ask(struct.pack("=IIQI", _GET_STRING_COUNTS, 0, 1 << _OF_STATISTICS, 0))
        (count,) = struct.unpack_from("=I", counts, 16)
        head = struct.pack("=III", _GET_STRINGS, _OF_STATISTICS, count)
        names = ask(head + bytes(count * _NAME_BYTES))[len(head) :]
        values = ask(struct.pack("=II", _GET_STATISTICS, count) + bytes(count * 8))[8:]
        texts = (
            names[at : at + _NAME_BYTES].partition(b"\0")[0].decode(errors="replace").strip()
            for at in range(0, len(names), _NAME_BYTES)
        )
        statistics = zip(texts, struct.unpack_from(f"={count}Q", values), strict=True)
        return {name: value for name, value in statistics if not _QUEUE.search(name)}
    return {}
