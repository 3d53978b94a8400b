"""What is read of an ``environment.json`` (docs/files.md), by type: a part that is not so says nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from npc.files import read_json

_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Host(msgspec.Struct):
    name: str | None = None


class _Frequency(msgspec.Struct):
    base_hz: _Amount | None = None
    counter_hz: _Amount | None = None
    governors: dict[str, int] | None = None


class _Cpu(msgspec.Struct):
    model: str | None = None
    vendor: str | None = None
    cores: _Count | None = None
    flags: list[str] | None = None
    frequency: _Frequency | None = None


class _Dimm(msgspec.Struct):
    locator: str | None = None
    bank: str | None = None
    type: str | None = None
    transfers_s: _Amount | None = None


class _Memory(msgspec.Struct):
    total_bytes: _Amount | None = None
    huge_pages: _Count | None = None
    transparent_huge_pages: str | None = None
    dimms: list[_Dimm] | None = None
    channels: _Count | None = None


class _InterfaceSeen(msgspec.Struct):
    name: str
    type: str | None = None
    state: str | None = None
    speed_bit_s: _Amount | None = None
    rdma_devices: list[str] | None = None


class _PortSeen(msgspec.Struct):
    device: str
    state: str | None = None
    rate: str | None = None


class _LinkSeen(msgspec.Struct):
    name: str | None = None
    kind: str | None = None
    transfers_s: _Amount | None = None


class _Limits(msgspec.Struct):
    cpus: _Count | None = None
    cgroup_cores: _Amount | None = None
    memlock_bytes: _Amount | None = None


class _EnvironmentFile(msgspec.Struct):
    host: _Host | None = None
    time: str | None = None
    cpu: _Cpu | None = None
    memory: _Memory | None = None
    interfaces: list[_InterfaceSeen] | None = None
    rdma: list[_PortSeen] | None = None
    pcie: list[_LinkSeen] | None = None
    gpus: list[dict[str, Any]] | None = None
    limits: _Limits | None = None
    load: dict[str, Any] | None = None
    counters: dict[str, Any] | None = None
    variables: dict[str, str] | None = None
    tools: dict[str, dict[str, str | None] | None] | None = None
    mpi: dict[str, str | None] | None = None


def read_environment(path: Path) -> dict[str, Any] | None:
    """The content of an ``environment.json``, without those parts that are not what they should be; None
    where there is none, or none that could be read."""
    document = read_json(path)
    return whole_parts(document) if isinstance(document, dict) else None


def whole_parts(document: Mapping[str, Any]) -> dict[str, Any]:
    """Those parts of an environment that are what they should be, and all that nobody reads by type."""
    return {name: part for name, part in document.items() if name not in _TYPES or _fits(part, _TYPES[name])}


def _fits(part: Any, kind: Any) -> bool:
    try:
        msgspec.convert(part, kind)
    except msgspec.ValidationError:
        return False
    return True


_TYPES = {field.name: field.type for field in msgspec.structs.fields(_EnvironmentFile)}
