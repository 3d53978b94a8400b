"""Memory modules as the firmware, udev and the memory controllers' drivers tell them, and what follows."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from npc.machine.memory import bandwidth, channels, dimms


def device(
    locator: str, bank: str, kind: int = 0x1A, size: int = 16384, speed: int = 3200, configured: int = 2933,
    large: int = 0,
) -> bytes:  # fmt: skip
    """A memory device as SMBIOS 3.2 lays it out (DSP0134, table of structure type 17)."""
    fields = bytearray(0x54)
    struct.pack_into("<BBH", fields, 0, 17, len(fields), 0x1100)
    struct.pack_into("<HHH", fields, 0x08, 72, 64, size)
    fields[0x10:0x13] = bytes((1, 2, kind))
    struct.pack_into("<H", fields, 0x15, speed)
    struct.pack_into("<IH", fields, 0x1C, large, configured)
    return bytes(fields) + f"{locator}\0{bank}\0\0".encode()


def firmware(root: Path, *devices: bytes) -> Path:
    """A root with that table between other structures."""
    table = root / "sys/firmware/dmi/tables/DMI"
    table.parent.mkdir(parents=True)
    other = bytes((0, 8, 0, 0, 1, 0, 0, 0)) + b"A vendor\0\0"
    table.write_bytes(other + b"".join(devices) + bytes((127, 4, 0, 1)) + b"\0\0" + b"more")
    return root


def test_the_firmware_s_modules(tmp_path: Path) -> None:
    found = dimms(firmware(
        tmp_path, device("P1-DIMMA1", "P0_Node0_Channel0_Dimm0"),
        device("P1-DIMMA2", "P0_Node0_Channel0_Dimm1", size=0),
        device("P1-DIMMB1", "P0_Node0_Channel1_Dimm0", kind=0x22, size=0x7FFF, large=65536, configured=0),
    ))  # fmt: skip
    assert found == [
        {"locator": "P1-DIMMA1", "bank": "P0_Node0_Channel0_Dimm0", "type": "DDR4", "size_bytes": 2**34,
         "transfers_s": 2_933_000_000},
        {"locator": "P1-DIMMB1", "bank": "P0_Node0_Channel1_Dimm0", "type": "DDR5", "size_bytes": 2**36,
         "transfers_s": 3_200_000_000},
    ]  # fmt: skip


@pytest.mark.parametrize("table", [b"", b"\x11", b"\x11\x54\x00\x00half", b"\x7f\x04\x00\x00\0\0"])
def test_a_table_that_tells_nothing(table: bytes, tmp_path: Path) -> None:
    firmware(tmp_path)
    (tmp_path / "sys/firmware/dmi/tables/DMI").write_bytes(table)
    assert dimms(tmp_path) is None and channels(tmp_path) is None


def test_what_udev_has_read_is_everybody_s(tmp_path: Path) -> None:
    data = tmp_path / "run/udev/data/+dmi:id"
    data.parent.mkdir(parents=True)
    data.write_text(
        "I:1\nE:MEMORY_ARRAY_NUM_DEVICES=2\nE:MEMORY_DEVICE_0_SIZE=17179869184\nE:MEMORY_DEVICE_0_TYPE=DDR4\n"
        "E:MEMORY_DEVICE_0_LOCATOR=DIMM_A1\nE:MEMORY_DEVICE_0_SPEED_MTS=3200\n"
        "E:MEMORY_DEVICE_0_CONFIGURED_SPEED_MTS=2933\nE:MEMORY_DEVICE_1_PRESENT=0\n"
    )
    (found,) = dimms(tmp_path) or ()
    assert found == {
        "locator": "DIMM_A1", "bank": None, "type": "DDR4", "size_bytes": 2**34, "transfers_s": 2_933_000_000
    }  # fmt: skip


def test_channels_are_those_of_the_memory_controllers_that_have_a_module(tmp_path: Path) -> None:
    for controller in (0, 1):
        for place, (channel, size) in enumerate([(0, 16384), (0, 16384), (1, 16384), (2, 0)]):
            dimm = tmp_path / f"sys/devices/system/edac/mc/mc{controller}/dimm{place}"
            dimm.mkdir(parents=True)
            (dimm / "dimm_location").write_text(f"channel {channel} slot {place % 2}\n")
            (dimm / "size").write_text(f"{size}\n")
    assert channels(tmp_path) == 4


def memory(*places: str, channels: int | None = None, **more: Any) -> dict[str, Any]:
    each = {"bank": None, "type": "DDR4", "size_bytes": 2**34, "transfers_s": 3_200_000_000, **more}
    return {"dimms": [{**each, "locator": place} for place in places], "channels": channels}


@pytest.mark.parametrize(
    ("seen", "number"),
    [
        (memory("CPU1_DIMM_A1", "CPU1_DIMM_A2", "CPU1_DIMM_B1", "CPU2_DIMM_A1"), 3),
        (memory("P1-DIMMA1", "P2-DIMMA1"), 2),
        (memory("ChannelA-DIMM0", "ChannelB-DIMM0"), 2),
        (memory("A1", "A2", "B1", "B2", channels=4), 4),
        (memory("A1", "A2", "B1", "B2"), None),
        (memory("PROC 1 DIMM 1", "PROC 1 DIMM 2"), None),
        (memory("DIMM_A1", transfers_s=None), None),
        (memory("DIMM_A1", type=None), None),
        (memory("DIMM_A1", channels=12), None),
        ({}, None),
    ],
)
def test_the_bandwidth_is_that_of_the_channels_or_not_known(seen: dict[str, Any], number: int | None) -> None:
    found = bandwidth(seen.get("dimms", []), seen.get("channels"))
    assert (found and found[0]) == (number and number * 8 * 3200e6)
