"""What identifies a series: the values that repeat each other and may be put into one median or one history.

A record's params are *settings* (what was asked for), *qualifiers* (which of a tool's numbers it is) or
*circumstances* (where it ran, and what was seen). Settings and qualifiers identify a series together with the
record's platform, benchmark, case, metric, size and nodes. Circumstances never do: a healthy night on other
CPUs belongs to the same history. Pages and comparisons may show them.

LIKWID puts a circumstance into the name of its test: ``load_avx512`` is the load kernel in the variant that
this CPU and this build of LIKWID offer. The series is ``load``. Where a run measures several variants, each
was asked for by name, and ``benchmarks/likwid/cases.py`` says so by the setting ``variant``.

The size is the one that was asked for, too (`asked_size`). A record has the one that was used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, NamedTuple

from npc.records.overhead import OVERHEAD
from npc.records.reading import NOTE
from npc.records.record import Record
from npc.records.units import parse_size

Role = Literal["setting", "qualifier", "circumstance"]

#: The server's interface, between two hosts (`npc.records.launch`).
INTERFACE: Final = "interface"
#: The CPUs that a launcher has bound the ranks of a node to (`npc.parsers.observed.rank_cpus`).
RANK_CPUS: Final = "rank_cpus"
#: What watching a program took of its run time, as measured; `OVERHEAD`: as estimated
#: (`npc.parsers.observed.watching`).
OVERHEAD_MEASURED: Final = "overhead_measured"
#: The part of what a client counts as sent that npb saw arrive at the server's host.
RECEIVED: Final = "received"
#: Marks what a night's automatic second measurement gave (`npc.records.history`).
REMEASURED: Final = "remeasured"
#: The share of the CPUs that others took meanwhile (`npc.validity.disturbance`).
DISTURBED: Final = "disturbed"
#: Bytes of the last-level caches, where a program's arrays are too small beside them
#: (`npc.validity.rules.cache`).
CACHED: Final = "cached"
#: Counters of errors, losses and congestion that rose meanwhile, by node (`npc.validity.rules.counters`).
MOVED: Final = "moved"
#: The core that a node's noise is of.
CORE: Final = "core"
#: The number of a node's GPU, and of the one that it copies to.
GPU: Final = "gpu"
TO_GPU: Final = "to_gpu"
#: Names of a node's devices: each of them is compared with the others of the fleet, not with its node.
DEVICES: Final = (GPU, TO_GPU)
#: How many other processes used that GPU when it had been measured.
GPU_PROCESSES: Final = "gpu_processes"
#: How many of a node's ranks wrote to storage.
WRITERS: Final = "writers"
#: What counted a launch's joules (`npc.machine.energy`).
ENERGY_SOURCE: Final = "energy_source"
#: The case of what ``npc observe`` saw around a program.
OBSERVED: Final = "observed"
#: Names under which a sweep varies the message size. A record has the size in its own column.
SIZE_NAMES: Final = ("m", "msg_size", "msg-size", "size", "s", "l", "len", "length")

#: The setting that names the container image in which a tool ran (`npc.records.launch.container_of`).
CONTAINER: Final = "container"

#: Settings that go with the number of nodes: MPI's ranks, and how a program divides its problem among them.
RANKS: Final = frozenset(("decomposition", "processes", "ranks", "tasks"))

#: The circumstances that say where it ran.
_PLACEMENT: Final = ("server_cpus", "client_cpus", "thread_cpus", INTERFACE, "device")
#: Among them: ``counted``, LIKWID's name of a hardware counter's figure, and ``region`` of its marker API;
#: ``group`` of IMB's -multi; ``server``, which of several sockperf has; of npc observe the ``kind`` of MPI's
#: calls, the size of their ``communicator``, and the ``port`` of a node.
_QUALIFIERS: Final = frozenset((
    "communicator", CORE, "counted", "direction", GPU, "group", "kind", "layer", "level", "part",
    "percentile", "port", "precision", "region", "server", "side", "statistic", TO_GPU, "validation",
))  # fmt: skip
#: Among them: ``attempt`` of npb --pairs, which measures the worst pairs once more; of the memory ladder
#: the ``cpus`` it may use, the bytes of a cache ``line`` and the share of ``huge_pages``; the ``kernel`` that
#: LIKWID's counters looked at; HPCG's ``kernels``, reference or optimised, and whether it is ``official``,
#: having run as long as its rules demand; of a GPU its ``gpu_model`` and ``ecc``, what its clock was
#: ``held_down_by``, its ``highest_clock``, and the ``path`` to another; of npc observe
#: the ``node`` whose port it is, one of the hosts, the
#: ``algorithm`` of a collective by its messages, and the ``largest_size`` at which it ran; where a ``loop``
#: lies, its ``share`` of the samples, the ``model`` that it was held against, the ``cores`` in use on a node;
#: the share of the time that a probe was ``attached``; the type of the ``filesystem`` that files
#: lay on, its share that was ``filled``, what ``others`` moved there, and the bytes of all files of a node,
#: ``file_size``; of noise its ``period``, what ``ran`` meanwhile, the ``interrupts``, and the
#: hypervisor's share, ``steal``; a ``note`` on a good number.
#: Every other name is a setting.
_CIRCUMSTANCES: Final = frozenset((
    *_PLACEMENT, CACHED, DISTURBED, ENERGY_SOURCE, MOVED, NOTE, "algorithm", "attached", "attempt", "blas",
    "cores", "cpus", "ecc", "file_size", "filesystem", "filled", "gpu_model", GPU_PROCESSES, "held_down_by",
    "highest_clock", "hosts", "huge_pages", "interrupts", "kernel", "kernels", "largest_size", "line", "loop",
    "lost", "model", "mpi_library", "node", "official", "others", "path", "period", "ran", "share", "steal",
    OVERHEAD, OVERHEAD_MEASURED, RANK_CPUS, RECEIVED, REMEASURED, WRITERS,
))  # fmt: skip

#: The variants of LIKWID's kernels: the width of their instructions, with or without fused multiply-add.
_VARIANT: Final = re.compile(r"_(?:sse|avx\d*|neon|sve\d*|vsx)(?:_fma)?\b")
_SINGLE: Final = re.compile(r"_sp(?=_|$)")
#: The size in a work group of LIKWID: ``-w S0:400kB:2``.
_WORK_GROUP: Final = re.compile(r"-[wW] \w+:([0-9]{1,15}[kMGT]?B)(?=[:\s]|$)")


def role(name: str) -> Role:
    """What a param is."""
    if name in _QUALIFIERS:
        return "qualifier"
    return "circumstance" if name in _CIRCUMSTANCES else "setting"


def identity(params: Mapping[str, str]) -> dict[str, str]:
    """Settings and qualifiers."""
    return {name: text for name, text in params.items() if role(name) != "circumstance"}


def qualifiers(params: Mapping[str, str]) -> dict[str, str]:
    """Which of a tool's numbers it is."""
    return {name: text for name, text in params.items() if role(name) == "qualifier"}


def placement(params: Mapping[str, str]) -> dict[str, str]:
    """On which CPUs, interface and device it ran. A ceiling is the best of the placements that one run has
    tried."""
    return {name: text for name, text in params.items() if name in _PLACEMENT}


def circumstances(record: Record) -> dict[str, str]:
    """Where a record was measured and what was seen; of LIKWID also the kernel's variant, as ``kernel``."""
    texts = {name: text for name, text in record.params.items() if role(name) == "circumstance"}
    if neutral_case(record.benchmark, record.case) != record.case:
        texts["kernel"] = record.case
    return texts


def neutral_case(benchmark: str, case: str) -> str:
    """A case without the variant of LIKWID's kernel.

    ``load_avx512`` → ``load``, ``copy_mem_avx`` → ``copy_mem``, ``peakflops_sp_avx_fma`` → ``peakflops`` (its
    precision, ``single``, is a param of the series).
    """
    return _SINGLE.sub("", _VARIANT.sub("", case)) if benchmark == "likwid" else case


def test_name(benchmark: str, case: str) -> str:
    """A test for people: its benchmark and its case, without saying the benchmark twice."""
    return case if case.startswith(benchmark) else f"{benchmark} {case}".strip()


def repeats_size(name: str, text: str, size: int | None) -> bool:
    """Whether a param only says again what the column ``size`` says, as that of a sweep does."""
    return name in SIZE_NAMES and is_size(text, size)


def is_size(text: str, size: int | None) -> bool:
    """Whether a text is that size, in bytes."""
    try:
        return parse_size(text) == size
    except ValueError:
        return False


def asked_size(benchmark: str, params: Mapping[str, str], size: int | None) -> int | None:
    """The size in bytes by which a series is known; `size` is what the tool says it used.

    Most tools use what they were asked for. These do not:

    - likwid-bench rounds to the stride of its kernel and the number of threads, so another kernel variant or
      version uses another size: asked for 400 kB, 399 360 or 399 936 bytes. The size is that of all work
      groups together.
    - HPCG is asked for the cells of a process, which are settings. How much memory these take is its
      implementation's affair: no size.
    """
    if benchmark == "likwid" and size is not None:
        groups = _WORK_GROUP.findall(params.get("workgroup", ""))
        return sum(map(parse_size, groups)) or size
    if benchmark == "hpcg" and {"nx", "ny", "nz"} <= params.keys():
        return None
    return size


def share_taken(record: Record) -> float:
    """The share of the CPUs that others took while a record was measured; 0 where none is known."""
    return share_of(record.params)


def share_of(params: Mapping[str, str]) -> float:
    """The same, by a record's params."""
    try:
        return float(params.get(DISTURBED, 0))
    except ValueError:
        return 1.0


class Series(NamedTuple):
    """What the values of one series have in common."""

    #: Name of the platform.
    platform: str
    #: Name of the benchmark's folder.
    benchmark: str
    #: The tool's test (`neutral_case`).
    case: str
    #: A key of `npc.records.units.METRICS`.
    metric: str
    #: Bytes of the message or the working set (`asked_size`); None where the test has none.
    size: int | None
    #: How many nodes take part.
    nodes: int
    #: Settings and qualifiers: a JSON object of texts, as text, its keys sorted.
    params: str

    @classmethod
    def of(cls, record: Record) -> Series:
        """The series that a record belongs to, wherever it was measured, for the first time or again."""
        return cls.of_fields(*(getattr(record, name) for name in cls._fields))

    @classmethod
    def of_fields(
        cls,
        platform: str,
        benchmark: str,
        case: str,
        metric: str,
        size: int | None,
        nodes: int,
        params: Mapping[str, str],
    ) -> Series:
        """The series of what a record has in these columns."""
        own = {name: text for name, text in identity(params).items() if not repeats_size(name, text, size)}
        if benchmark == "likwid" and _SINGLE.search(case):
            own.setdefault("precision", "single")
        test, size = neutral_case(benchmark, case), asked_size(benchmark, params, size)
        return cls(platform, benchmark, test, metric, size, nodes, json.dumps(own, sort_keys=True))

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Series:
        """The series that a row of ``verdict.json`` or ``accepted.jsonl`` names; those of older versions have
        circumstances among their params. Raises KeyError, TypeError and ValueError where it names none."""
        given = {name: row[name] for name in cls._fields}
        return cls.of_fields(**given | {"params": dict(json.loads(row["params"]))})

    @property
    def by_name(self) -> dict[str, str]:
        """The values of `params`."""
        return dict(json.loads(self.params))

    @property
    def device(self) -> str:
        """The device of a node that it is about: ``gpu 3``; empty for none."""
        texts = self.by_name
        return " ".join(f"{name} {texts[name]}" for name in DEVICES if name in texts)

    @property
    def order(self) -> tuple[object, ...]:
        """What series are sorted by: those without a size before those with one."""
        return (*self[:4], -1 if self.size is None else self.size, *self[5:])
