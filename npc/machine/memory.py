"""Memory modules (DIMMs) and the channels they are on, as far as this user may read that.

Only root may read the firmware's table (SMBIOS, structures of type 17: DMTF DSP0134, section 7.18), but
everybody what udev has read from it at boot. Channels are those that the memory controllers' drivers show
(EDAC), else those in the names of the modules' slots.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from npc.machine import sysfs

_TABLE: Final = "sys/firmware/dmi/tables/DMI"
_UDEV: Final = "run/udev/data/+dmi:id"
_EDAC: Final = "sys/devices/system/edac/mc"
_MEMORY_DEVICE: Final = 17
_END_OF_TABLE: Final = 127
#: Code of a memory type that has channels of 64 data bits → its name.
_TYPES: Final = {0x18: "DDR3", 0x1A: "DDR4", 0x22: "DDR5"}
#: A size with this value is in another field; so is a speed with the value `_FAST`.
_EXTENDED: Final = 0x7FFF
_FAST: Final = 0xFFFF
#: How vendors name a module's channel in its place: ``Channel0``, ``CHANNEL A``; ``DIMM_A1``, ``P1-DIMMA1``;
#: the processor stands before it, or in the bank (``NODE 1``, ``P0``). A letter alone (``A1``) may mean both.
_CHANNEL: Final = (
    re.compile(r"ch(?:annel|an)?[ _-]*([A-Z]|\d+)(?![a-z])", re.IGNORECASE),
    re.compile(r"DIMM[ _-]?([A-Z])\d$"),
)
_SOCKET: Final = re.compile(r"(?:node|cpu|proc|socket|p)[ _-]*(\d+)", re.IGNORECASE)
#: Bits of data on a channel of DDR3 and DDR4; DDR5 has two halves of it.
CHANNEL_BYTES: Final = 8


def dimms(root: Path = Path("/")) -> list[dict[str, Any]] | None:
    """The modules in place: ``locator``, ``bank``, ``type``, ``size_bytes`` and ``transfers_s``, the
    configured rate; None where this user may not read them."""
    try:
        devices = list(_of_table((root / _TABLE).read_bytes()))
    except (OSError, ValueError, struct.error, IndexError):
        devices = list(_of_udev(sysfs.text(root / _UDEV) or ""))
    return [dimm for dimm in devices if dimm["size_bytes"]] or None


def channels(root: Path = Path("/")) -> int | None:
    """Memory channels with a module, as the memory controllers' drivers tell them; None without any."""
    used = {
        (dimm.parent.name, match[1])
        for dimm in (root / _EDAC).glob("mc[0-9]*/dimm[0-9]*")
        if (sysfs.number(dimm / "size") or 0) > 0
        and (match := re.search(r"channel (\d+)", sysfs.text(dimm / "dimm_location") or ""))
    }
    return len(used) or None


def bandwidth(modules: Sequence[Mapping[str, Any]], channels: int | None) -> tuple[float, str] | None:
    """(B/s that the channels move at most, how that was found) from what `dimms` and `channels` gave; None
    where modules, their rate or their channels are not known."""
    rates = [float(rate) for module in modules if (rate := module.get("transfers_s"))]
    types = {module.get("type") for module in modules}
    if not modules or len(rates) < len(modules) or None in types or len(types) > 1:
        return None
    number, whose = channels, "of the memory controllers"
    if not number:
        number, whose = _by_places(modules), "by the modules' places"
    if not number or number > len(modules):
        return None
    rate = min(rates)
    how = f"{number} channels ({whose}) × {CHANNEL_BYTES} B × {rate / 1e6:.0f} MT/s ({modules[0]['type']})"
    return number * CHANNEL_BYTES * rate, how


def _by_places(modules: Sequence[Mapping[str, Any]]) -> int | None:
    """The channels that the modules' places are named after; None where one has no such name."""
    named = set()
    for module in modules:
        place = f"{module.get('bank') or ''} {module.get('locator') or ''}"
        channel = next((match[1] for pattern in _CHANNEL if (match := pattern.search(place))), None)
        if channel is None:
            return None
        sockets = _SOCKET.findall(place)
        named.add((*sockets[:1], channel.upper()))
    return len(named)


def _of_table(table: bytes) -> Iterator[dict[str, Any]]:
    """Memory devices of a SMBIOS table: type, length, handle and fields of each, then its texts."""
    at = 0
    while at + 4 <= len(table):
        kind, length = table[at], table[at + 1]
        end = table.index(b"\0\0", at + length) + 2
        if kind == _MEMORY_DEVICE and length >= 0x15:
            texts = table[at + length : end].decode(errors="replace").split("\0")
            yield _device(table[at : at + length].ljust(0x5C, b"\0"), texts)
        if kind == _END_OF_TABLE:
            return
        at = end


def _device(fields: bytes, texts: Sequence[str]) -> dict[str, Any]:
    (size,) = struct.unpack_from("<H", fields, 0x0C)
    (large,) = struct.unpack_from("<I", fields, 0x1C)
    speed, configured = (struct.unpack_from("<H", fields, place)[0] for place in (0x15, 0x20))
    if configured == _FAST:
        (configured,) = struct.unpack_from("<I", fields, 0x58)
    if speed == _FAST:
        (speed,) = struct.unpack_from("<I", fields, 0x54)
    if size == _EXTENDED:
        size_bytes = large * 2**20
    elif size == 0xFFFF:  # not known
        size_bytes = 0
    else:  # bit 15: in KiB
        size_bytes = (size & 0x7FFF) * (2**10 if size & 0x8000 else 2**20)
    locator, bank = (texts[number - 1] if 0 < number <= len(texts) else None for number in fields[0x10:0x12])
    rate = configured or speed
    return _module(locator, bank, _TYPES.get(fields[0x12]), size_bytes, rate)


def _of_udev(text: str) -> Iterator[dict[str, Any]]:
    """Memory devices in udev's properties: ``E:MEMORY_DEVICE_0_CONFIGURED_SPEED_MTS=2933``."""
    devices: dict[str, dict[str, str]] = {}
    for number, name, value in re.findall(r"^E:MEMORY_DEVICE_(\d+)_(\w+)=(.*)$", text, re.MULTILINE):
        devices.setdefault(number, {})[name] = value
    for device in devices.values():
        if device.get("PRESENT") == "0":
            continue
        size, speed, configured = (
            int(text) if (text := device.get(name, "")).isdecimal() else 0
            for name in ("SIZE", "SPEED_MTS", "CONFIGURED_SPEED_MTS")
        )
        kind = device.get("TYPE") if device.get("TYPE") in _TYPES.values() else None
        yield _module(device.get("LOCATOR"), device.get("BANK_LOCATOR"), kind, size, configured or speed)


def _module(
    locator: str | None, bank: str | None, kind: str | None, size_bytes: int, megatransfers: int
) -> dict[str, Any]:
    return {
        "locator": locator,
        "bank": bank,
        "type": kind,
        "size_bytes": size_bytes,
        "transfers_s": megatransfers * 1_000_000 or None,
    }
