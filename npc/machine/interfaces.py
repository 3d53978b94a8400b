"""Network interfaces and RDMA devices, as /sys/class/net and /sys/class/infiniband show them."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import psutil

from npc.machine import sysfs
from npc.machine.command import run
from npc.machine.tools import VERSION_TIMEOUT_S, find

#: Linux ARPHRD numbers (include/uapi/linux/if_arp.h) of what a cluster has.
_KINDS: Final = {1: "ethernet", 32: "infiniband", 772: "loopback"}


def interfaces(root: Path = Path("/")) -> list[dict[str, Any]]:
    """The ``interfaces`` section of ``environment.json``, in the order of their names."""
    sections = []
    here = root == Path("/")
    addresses = _addresses() if here else {}
    for path in sorted((root / "sys/class/net").glob("*")):
        if not path.is_dir():
            continue  # bonding_masters is a file
        kind = sysfs.number(path / "type")
        # veth and tun say 10 Gbit/s and 10 Mbit/s, whatever they carry; bonds and VLANs have lower interfaces
        real = (path / "device").exists() or any(path.glob("lower_*"))
        megabits = sysfs.number(path / "speed") if real else None
        driver = path / "device/driver"
        sections.append({
            "name": path.name,
            "type": _KINDS.get(kind, str(kind)) if kind is not None else None,
            "state": sysfs.text(path / "operstate"),
            # -1 is the kernel's word for unknown, as virtual machines have it
            "speed_bit_s": megabits * 1_000_000 if megabits is not None and megabits > 0 else None,
            "supported_bit_s": supported_bit_s(path.name) if (path / "device").exists() and here else None,
            "mtu": sysfs.number(path / "mtu"),
            "driver": driver.resolve().name if driver.exists() else None,
            "numa_node": _numa_node(path / "device/numa_node"),
            "rdma_devices": sorted(device.name for device in (path / "device/infiniband").glob("*")),
            "addresses": addresses.get(path.name, []),
        })  # fmt: skip
    return sections


def supported_bit_s(name: str) -> int | None:
    """The highest rate that an interface's card and transceiver support, as ``ethtool`` says it; None without
    it, or where the driver does not tell."""
    answer = run([find("ethtool") or "/usr/sbin/ethtool", name], timeout_s=VERSION_TIMEOUT_S)
    return highest_link_mode(answer.stdout)


def highest_link_mode(text: str) -> int | None:
    """The highest rate (bit/s) among the supported link modes that ``ethtool DEV`` prints.

    ``40000baseCR4/Full 100000baseSR4/Full``, on as many lines as it takes.
    """
    modes = re.search(r"Supported link modes:((?:\s+\d+base\S+)+)", text)
    return max(map(int, re.findall(r"(\d+)base", modes[1]))) * 1_000_000 if modes else None


def rdma_ports(root: Path = Path("/")) -> list[dict[str, Any]]:
    """The ``rdma`` section of ``environment.json``: one entry a port of a device, empty without any."""
    ports = []
    for port in sorted((root / "sys/class/infiniband").glob("*/ports/*")):
        device = port.parent.parent
        rate = sysfs.text(port / "rate")  # "100 Gb/sec (4X EDR)"
        gigabits = re.match(r"(\d+(?:\.\d+)?) Gb/sec", rate or "")
        lanes = re.search(r"\((\d+)X\b", rate or "")
        driver = device / "device/driver"
        ports.append({
            "device": device.name,
            "port": int(port.name) if port.name.isdecimal() else None,
            "state": _after_colon(sysfs.text(port / "state")),
            "physical_state": _after_colon(sysfs.text(port / "phys_state")),
            "link_layer": sysfs.text(port / "link_layer"),
            "rate": rate,
            "rate_bit_s": round(float(gigabits[1]) * 1e9) if gigabits else None,
            "lanes": int(lanes[1]) if lanes else None,
            "driver": driver.resolve().name if driver.exists() else None,
            "firmware": sysfs.text(device / "fw_ver"),
            "numa_node": _numa_node(device / "device/numa_node"),
        })  # fmt: skip
    return ports


def with_lanes(ports: Iterable[Mapping[str, Any]], lanes: int) -> Iterator[str]:
    """In words those InfiniBand links of `rdma_ports` that run over `lanes` lanes; a port has four."""
    for port in ports:
        if port["lanes"] == lanes and port["link_layer"] == "InfiniBand" and port["state"] == "ACTIVE":
            yield f"{port['device']}/{port['port']} runs at {port['rate']}"


def _numa_node(path: Path) -> int | None:
    node = sysfs.number(path)
    return node if node is not None and node >= 0 else None


def _after_colon(value: str | None) -> str | None:
    return value.partition(":")[2].strip() or value if value else None  # "4: ACTIVE"


def _addresses() -> dict[str, list[str]]:
    """IPv4 and IPv6 addresses of this host by interface, without the scope of link-local ones."""
    families = (socket.AF_INET, socket.AF_INET6)
    return {
        name: [address.address.partition("%")[0] for address in addresses if address.family in families]
        for name, addresses in psutil.net_if_addrs().items()
    }
