"""The keys of an ``environment.json`` (docs/files.md) that are read by type; a wrong type drops a key."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from npc.files import read_json

_Amount = Annotated[float, msgspec.Meta(ge=0)]
_Count = Annotated[int, msgspec.Meta(ge=0)]


class _Host(msgspec.Struct):
    """The key ``host``."""

    #: As the kernel has it.
    name: str | None = None


class _Frequency(msgspec.Struct):
    """The key ``cpu.frequency``."""

    #: Base clock in Hz, by the frequency driver.
    base_hz: _Amount | None = None
    #: Rate of x86's time-stamp counter in Hz.
    counter_hz: _Amount | None = None
    #: Frequency governor → number of CPUs that have it.
    governors: dict[str, int] | None = None


class _Cpu(msgspec.Struct):
    """The key ``cpu``."""

    #: As the processor calls itself.
    model: str | None = None
    #: As /proc/cpuinfo has it: ``GenuineIntel``, ``AuthenticAMD``.
    vendor: str | None = None
    #: Online cores of the whole machine, without their hardware threads.
    cores: _Count | None = None
    #: Instruction set extensions and other features, sorted.
    flags: list[str] | None = None
    #: Governors and clocks.
    frequency: _Frequency | None = None


class _Dimm(msgspec.Struct):
    """A memory module: an entry of ``memory.dimms``."""

    #: Its slot, in the words of the firmware.
    locator: str | None = None
    #: Its bank, in the words of the firmware.
    bank: str | None = None
    #: ``DDR3``, ``DDR4`` or ``DDR5``; None for any other.
    type: str | None = None
    #: Transfers a second, as configured.
    transfers_s: _Amount | None = None


class _Memory(msgspec.Struct):
    """The key ``memory``."""

    #: Bytes of memory that the kernel has.
    total_bytes: _Amount | None = None
    #: How many huge pages are reserved.
    huge_pages: _Count | None = None
    #: ``always``, ``madvise`` or ``never``.
    transparent_huge_pages: str | None = None
    #: The memory modules in their slots; None where this user may not read them.
    dimms: list[_Dimm] | None = None
    #: Memory channels with a module, by the memory controllers' drivers.
    channels: _Count | None = None


class _InterfaceSeen(msgspec.Struct):
    """A network interface: an entry of ``interfaces``."""

    #: As the kernel has it: ``eth0``.
    name: str
    #: ``ethernet``, ``infiniband``, ``loopback``, or the kernel's number of another type.
    type: str | None = None
    #: The kernel's word: ``up``, ``down``, ``unknown``.
    state: str | None = None
    #: Rate of its link in bit/s; None for virtual interfaces.
    speed_bit_s: _Amount | None = None
    #: RDMA devices of the same card.
    rdma_devices: list[str] | None = None


class _PortSeen(msgspec.Struct):
    """An RDMA port: an entry of ``rdma``."""

    #: Name of the RDMA device: ``mlx5_0``.
    device: str
    #: The driver's word: ``ACTIVE``, ``DOWN``.
    state: str | None = None
    #: The driver's words: ``100 Gb/sec (4X EDR)``.
    rate: str | None = None


class _LinkSeen(msgspec.Struct):
    """A PCI Express link: an entry of ``pcie``."""

    #: What people call the device: ``mlx5_0``, ``nvme0``, else its address.
    name: str | None = None
    #: What the device is: ``network``, ``gpu``, ….
    kind: str | None = None
    #: Transfers a second of one lane, now.
    transfers_s: _Amount | None = None


class _Limits(msgspec.Struct):
    """The key ``limits``: what the process that wrote the file might use."""

    #: CPUs (hardware threads) that it might run on.
    cpus: _Count | None = None
    #: CPU quota of its cgroups in cores; None without one.
    cgroup_cores: _Amount | None = None
    #: Bytes of memory that it might lock; None without a limit.
    memlock_bytes: _Amount | None = None


class _EnvironmentFile(msgspec.Struct):
    """The keys of the file that are read by type. Each is None where the file does not have it."""

    #: The computer itself.
    host: _Host | None = None
    #: When it was written, ISO 8601 UTC.
    time: str | None = None
    #: Its processors.
    cpu: _Cpu | None = None
    #: Its memory, and the modules of it.
    memory: _Memory | None = None
    #: Its network interfaces.
    interfaces: list[_InterfaceSeen] | None = None
    #: Its RDMA ports.
    rdma: list[_PortSeen] | None = None
    #: PCI Express links of its cards and drives.
    pcie: list[_LinkSeen] | None = None
    #: Its GPUs, with the keys of `npc.machine.gpus.gpus`.
    gpus: list[dict[str, Any]] | None = None
    #: What the process that wrote the file might use.
    limits: _Limits | None = None
    #: What else ran, with the keys of `npc.machine.load.load_average`.
    load: dict[str, Any] | None = None
    #: Counters of errors and losses that were not 0 (`npc.machine.counters.raised`).
    counters: dict[str, Any] | None = None
    #: Variables of the environment that change how programs run.
    variables: dict[str, str] | None = None
    #: Command → ``path`` and ``version`` of a tool; None for a tool that is missing.
    tools: dict[str, dict[str, str | None] | None] | None = None
    #: ``launcher`` and ``library``: their own names and versions.
    mpi: dict[str, str | None] | None = None


def read_environment(path: Path) -> dict[str, Any] | None:
    """The content of an ``environment.json`` without keys of a wrong type; None where there is no such file,
    or where it cannot be read."""
    document = read_json(path)
    return whole_parts(document) if isinstance(document, dict) else None


def whole_parts(document: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of an environment that have the right type, and all that nobody reads by type."""
    return {name: part for name, part in document.items() if name not in _TYPES or _fits(part, _TYPES[name])}


def _fits(part: Any, kind: Any) -> bool:
    try:
        msgspec.convert(part, kind)
    except msgspec.ValidationError:
        return False
    return True


_TYPES = {field.name: field.type for field in msgspec.structs.fields(_EnvironmentFile)}
