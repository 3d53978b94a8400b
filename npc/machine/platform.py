"""A platform's nominal limits, from ``platforms/NAME/platform.toml``: what the data sheets promise.

Everything in the file is optional, because a site may know nothing about a machine::

    description = "a node of FUCHS, Xeon E5-2670 v2"

    [node]
    cores = 20                    # of one node
    clock_hz = 2.5e9              # what the cores hold under SIMD load
    simd_bits = 256
    simd_units = 2                # SIMD instructions a cycle
    fma = false
    memory_bandwidth = 102.4e9    # B/s, of one node
    proposed = ["clock_hz"]       # keys that nobody has compared with a data sheet yet

    [interfaces.ib0]
    link = "4x FDR"               # or "10 GbE"; or instead of it: data_rate = 6.8e9 (B/s)

    [gpu]                         # one of the node's GPUs, by its data sheet
    memory_bandwidth = 3.35e12    # B/s
    link_bandwidth = 63e9         # B/s, to the host or back
    double_flops = 67e12          # also single_flops, tf32_flops, half_flops, bfloat16_flops: dense

    [bands]                       # acceptance bands (cron/acceptance_bands.py); kept as they are

Units are SI base units (Hz, B/s, FLOP/s); data rates count one direction of one link.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec

from npc.files import InvalidFile, parse_toml, read_text
from npc.places import home, workplace

T = TypeVar("T", bound="_Table")
PLATFORMS: Final = "platforms"
PLATFORM_FILE: Final = "platform.toml"

Precision = Literal["double", "single"]
PRECISION_BITS: Final[Mapping[Precision, int]] = MappingProxyType({"double": 64, "single": 32})

#: Data rate of one InfiniBand lane in bit/s: symbol rate × encoding. SDR, DDR and QDR lose a fifth to
#: 8b/10b, FDR10 to EDR 2 of 66 bits; for HDR and NDR the named rate is the data rate (InfiniBand
#: Architecture Specification, volume 2, release 1.7, link speeds).
INFINIBAND_LANE: Final[Mapping[str, float]] = MappingProxyType({
    "SDR": 2.5e9 * 8 / 10,
    "DDR": 5e9 * 8 / 10,
    "QDR": 10e9 * 8 / 10,
    "FDR10": 10.3125e9 * 64 / 66,
    "FDR": 14.0625e9 * 64 / 66,
    "EDR": 25.78125e9 * 64 / 66,
    "HDR": 50e9,
    "NDR": 100e9,
})  # fmt: skip

_INFINIBAND: Final = re.compile(r"(1|2|4|8|12)x\s*([A-Z]+\d*)")
_ETHERNET: Final = re.compile(r"(\d+(?:\.\d+)?)\s*GbE")


class InvalidPlatform(InvalidFile):
    """A platform file that cannot be used; the message names the file and the key."""


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of a node."""

    #: As the kernel has it: ``ib0``.
    name: str
    #: Its link as people call it: ``4x FDR``; empty where the file gives the data rate only.
    link: str
    #: B/s of one direction.
    data_rate: float


class _Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the file: its keys and what they may hold."""


_Positive = Annotated[float, msgspec.Meta(gt=0, le=sys.float_info.max)]
_Count = Annotated[int, msgspec.Meta(ge=1)]


class NodeLimits(_Table, frozen=True):
    """The table ``node``: nominal limits of one node; None where the file does not say."""

    #: Cores of the node, without their hardware threads.
    cores: _Count | None = None
    #: Hz that the cores hold under SIMD load.
    clock_hz: _Positive | None = None
    #: Width of a SIMD register in bits.
    simd_bits: Annotated[int, msgspec.Meta(ge=64, multiple_of=64)] | None = None
    #: SIMD instructions a cycle and core.
    simd_units: _Count | None = None
    #: Whether one instruction multiplies and adds.
    fma: bool | None = None
    #: B/s between the memory and all cores.
    memory_bandwidth: _Positive | None = None
    #: B/s that the node can get from the file system of the runs.
    io_read_bandwidth: _Positive | None = None
    #: B/s that the node can give to the file system of the runs.
    io_write_bandwidth: _Positive | None = None
    #: Names of those limits that nobody has compared with a data sheet yet; empty if all are confirmed.
    proposed: tuple[str, ...] = ()


class GpuLimits(_Table, frozen=True):
    """The table ``gpu``: nominal limits of one GPU, of dense matrices; None where the file does not say."""

    #: B/s between the GPU and its own memory.
    memory_bandwidth: _Positive | None = None
    #: B/s to the host or back, one direction.
    link_bandwidth: _Positive | None = None
    #: FLOP/s in double precision (64 bits).
    double_flops: _Positive | None = None
    #: FLOP/s in single precision (32 bits).
    single_flops: _Positive | None = None
    #: FLOP/s in TF32, NVIDIA's format of 19 bits.
    tf32_flops: _Positive | None = None
    #: FLOP/s in half precision (IEEE, 16 bits).
    half_flops: _Positive | None = None
    #: FLOP/s in bfloat16 (16 bits, the exponent of single precision).
    bfloat16_flops: _Positive | None = None

    def flops(self, precision: str) -> float | None:
        """FLOP/s of dense matrix products."""
        rate: float | None = getattr(self, f"{precision}_flops", None)
        return rate


class Platform(NodeLimits, frozen=True, kw_only=True):
    """What a ``platform.toml`` says: the nominal limits of one node, its interfaces and its GPUs."""

    #: Its folder's name.
    name: str
    #: A line for people; empty without one.
    description: str = ""
    #: Interface by its name; empty where the file names none.
    interfaces: Mapping[str, Interface] = {}
    #: Acceptance bands as they stand in the file (`npc.cron.acceptance_bands` reads them); empty without.
    bands: Mapping[str, Any] = {}
    #: One of the node's GPUs; all of its limits are None where the file has none.
    gpu: GpuLimits = GpuLimits()

    def io_bandwidth(self, direction: str) -> float | None:
        """B/s of ``read`` or ``write``."""
        return self.io_read_bandwidth if direction == "read" else self.io_write_bandwidth

    @property
    def confirmed(self) -> Platform:
        """The limits without those that are only proposed: only these may show that a record is wrong."""
        return msgspec.structs.replace(self, proposed=(), **dict.fromkeys(self.proposed))

    def peak_flops(self, precision: Precision) -> float | None:
        """Theoretical FLOP/s of the node; None unless cores, clock, width, units and FMA are all known.

        FLOP/cycle = (SIMD bits / precision bits) × (2 with FMA, else 1) × SIMD units, times cores × Hz, as in
        the worked example and table 4 of Bartelheimer, Zhu, Neuwirth 2023 (Xeon E5-2670 v2, 20 cores at
        2.5 GHz, AVX, one add and one multiply unit, no FMA: 400 GFLOP/s double, 800 single).

        Their Eq. 6 as printed is not used. Its factor of FMA is FMA width / precision bits: without FMA
        units, which their own processor does not have, it gives 0 FLOP/s, and with them it counts the numbers
        of a register twice. Their example leaves that factor out. An FMA is two FLOP on each number of the
        register. Their Eq. 7 is for one processor, table 4 for nodes with two; `cores` is of the node.
        """
        if (
            self.cores is None
            or self.clock_hz is None
            or self.simd_bits is None
            or self.simd_units is None
            or self.fma is None
        ):
            return None
        numbers = self.simd_bits // PRECISION_BITS[precision]
        flop_per_cycle = numbers * (2 if self.fma else 1) * self.simd_units
        return self.cores * self.clock_hz * flop_per_cycle


def link_data_rate(link: str) -> float:
    """Data rate in B/s of a link such as ``4x FDR`` (6.818e9) or ``10 GbE`` (1.25e9).

    Raises ValueError for a name that is neither. An Ethernet rate counts frames: TCP gets at most
    1448/1514 of it with a 1500-byte MTU.
    """
    if match := _INFINIBAND.fullmatch(link.strip()):
        lanes, generation = match.groups()
        if generation in INFINIBAND_LANE:
            return int(lanes) * INFINIBAND_LANE[generation] / 8
    if match := _ETHERNET.fullmatch(link.strip()):
        return float(match[1]) * 1e9 / 8
    raise ValueError(
        f"{link!r} is no known link: write '10 GbE', '4x EDR' ({', '.join(INFINIBAND_LANE)}), "
        "or data_rate in B/s instead"
    )


def find_platform(name: str) -> Path | None:
    """The file of platform `name`: a path to it or to its folder, else ``platforms/NAME/platform.toml``.

    Looked for in the current folder, in the workplace, then where NPC's own are. None if there is none.
    """
    given = Path(name)
    if given.suffix == ".toml" or "/" in name:
        file = given if given.suffix == ".toml" else given / PLATFORM_FILE
        return file if file.is_file() else None
    for root in (Path(), workplace(), home()):
        path = root / PLATFORMS / name / PLATFORM_FILE
        if name not in ("", ".", "..") and path.is_file():
            return path
    return None


def read_platform(path: Path) -> Platform:
    """The platform of a ``platform.toml``; its name is its folder's.

    Raises OSError, and `InvalidPlatform` with file and key for what is unknown or has no sense.
    """
    try:
        table = parse_toml(read_text(path), dict)
    except ValueError as error:
        raise InvalidPlatform(f"{path}: not TOML: {error}") from None
    try:
        return _platform(path.resolve().parent.name, table)
    except InvalidPlatform as error:
        raise InvalidPlatform(f"{path}: {error}") from None


class _Link(_Table, frozen=True):
    """A table below ``interfaces``; it needs one of the two keys."""

    #: As people call it: ``4x FDR``, ``10 GbE``; empty where `data_rate` stands instead.
    link: str = ""
    #: B/s of one direction; None where it follows from `link`.
    data_rate: _Positive | None = None


class _PlatformFile(_Table, frozen=True):
    """The whole file, before its tables are read; an empty table is one that the file does not have."""

    #: A line for people.
    description: str = ""
    #: Keys of `NodeLimits`.
    node: dict[str, Any] = {}
    #: Interface → keys of `_Link`.
    interfaces: dict[str, Any] = {}
    #: Keys of `GpuLimits`.
    gpu: dict[str, Any] = {}
    #: Acceptance bands, which are not read here.
    bands: dict[str, Any] = {}


def _platform(name: str, table: Mapping[str, Any]) -> Platform:
    file = _read_table(table, _PlatformFile, "")
    node = _read_table(file.node, NodeLimits, "node.")
    if node.clock_hz is not None and node.clock_hz < 1e6:
        raise InvalidPlatform(f"node.clock_hz: {node.clock_hz:g} Hz is no clock; 2.5 GHz is 2.5e9")
    limits = set(NodeLimits.__struct_fields__) - {"proposed"}
    if unknown := [key for key in node.proposed if key not in limits]:
        known = ", ".join(sorted(limits))
        raise InvalidPlatform(f"node.proposed: {unknown[0]!r} is no limit; known here: {known}")
    return Platform(
        name=name,
        description=file.description,
        interfaces={key: _interface(key, value) for key, value in file.interfaces.items()},
        bands=file.bands,
        gpu=_read_table(file.gpu, GpuLimits, "gpu."),
        **msgspec.structs.asdict(node),
    )


def _interface(name: str, table: object) -> Interface:
    prefix = f"interfaces.{name}."
    given = _read_table(table, _Link, prefix)
    if given.data_rate is not None:
        return Interface(name, given.link, given.data_rate)
    if not given.link:
        raise InvalidPlatform(f"{prefix}link: missing, and no data_rate either")
    try:
        return Interface(name, given.link, link_data_rate(given.link))
    except ValueError as error:
        raise InvalidPlatform(f"{prefix}link: {error}") from None


def _read_table(table: object, kind: type[T], prefix: str) -> T:
    """A table as `kind` has it; InvalidPlatform names the key that is not as it should be."""
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at `$.")
        key = place.rstrip("`")
        if unknown := re.search(r"unknown field `(.+)`", what):
            known = ", ".join(kind.__struct_fields__)
            raise InvalidPlatform(f"{prefix}{unknown[1]}: unknown key; known here: {known}") from None
        first = key.partition("[")[0]
        value = table[first] if first and isinstance(table, dict) else table
        no_table = " is no table" if "`object`" in what else f": {what}"
        raise InvalidPlatform(f"{(prefix + key).rstrip('.')}: {value!r}{no_table}") from None
