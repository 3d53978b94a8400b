"""PCI Express links of network cards, drives and GPUs: what they run at, and what they could."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from npc.machine import sysfs

#: Class codes (PCI Code and ID Assignment Specification) of what moves data or computes.
_KINDS: Final = {
    "0x0200": "network",
    "0x0207": "infiniband",
    "0x0280": "network",
    "0x0108": "nvme",
    "0x0300": "gpu",
    "0x0302": "gpu",
    "0x1200": "accelerator",
}
#: Kinds that lower the rate of their links while they are idle, and raise it when they work.
IDLES: Final = frozenset(("gpu", "accelerator"))


def pcie_links(root: Path = Path("/")) -> list[dict[str, Any]]:
    """The ``pcie`` section of ``environment.json``: devices whose link the kernel knows, by their address.

    ``slot_…`` is what the port above the device could do: an x16 card in an x8 slot runs at x8.
    """
    links = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        kind = _KINDS.get((sysfs.text(device / "class") or "")[:6])
        width, most = _width(device / "current_link_width"), _width(device / "max_link_width")
        if kind is None or width is None or most is None:
            continue
        port = device.resolve().parent
        links.append({
            "address": device.name,
            "kind": kind,
            "name": device_name(device),
            "width": width,
            "max_width": most,
            "slot_max_width": _width(port / "max_link_width"),
            "transfers_s": _transfers(device / "current_link_speed"),
            "max_transfers_s": _transfers(device / "max_link_speed"),
            "slot_max_transfers_s": _transfers(port / "max_link_speed"),
        })  # fmt: skip
    return links


def narrow(links: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """In words those of `pcie_links` that run over fewer or slower lanes than the device has."""
    for link in links:
        width, transfers, most = link["width"], link["transfers_s"], link["max_transfers_s"] or 0
        name = f"{link['name']} ({link['address']})"
        if width < link["max_width"]:
            why = _no_more(link["slot_max_width"], width)
            yield f"{name}: PCIe x{width} of x{link['max_width']}{why}"
        elif transfers and transfers < most and link["kind"] not in IDLES:
            why = _no_more(link["slot_max_transfers_s"], transfers)
            yield f"{name}: PCIe {transfers / 1e9:g} of {most / 1e9:g} GT/s{why}"


def _no_more(slot: float | None, used: float) -> str:
    return " (the slot has no more)" if slot is not None and slot <= used else ""


def device_name(device: Path) -> str:
    """What people call a device: an RDMA device, an interface, a drive; else its address."""
    for kind in ("infiniband", "net", "nvme"):
        for path in sorted((device / kind).glob("*")):
            return path.name
    return device.name


def _width(path: Path) -> int | None:
    width = sysfs.number(path)
    return width if width is not None and 0 < width <= 32 else None  # 0 and 255: no link, unknown


def _transfers(path: Path) -> float | None:
    """Transfers a second of a lane: ``16.0 GT/s PCIe``, of older kernels ``8 GT/s``."""
    match = re.match(r"(\d+(?:\.\d+)?) GT/s", sysfs.text(path) or "")
    return float(match[1]) * 1e9 if match else None
