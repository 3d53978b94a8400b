"""Several observed runs of one program: their efficiencies and how they scale, as table and picture."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc.columns import columns
from npc.figures.axes import Axis, Tick, linear_ticks, quantity_axis
from npc.figures.chart import CYCLE, DASHES, Chart, Mark, Trace
from npc.files import valid
from npc.observe.mpi.efficiency import Scaling, efficiency_by_region, efficiency_of, in_region, scaling_of
from npc.observe.mpi.records import Efficiency, Rank, profile_of
from npc.records.observed import read_document
from npc.records.units import format_quantity

SCHEMA: Final = 1
_PATTERN: Final = "*.observed.json"
#: What a row of the table is called, deeper ones being factors of those above: (attribute, name).
_EFFICIENCIES: Final = (
    ("parallel", "  parallel efficiency"),
    ("load_balance", "    load balance"),
    ("communication", "    communication"),
    ("openmp", "    OpenMP (at most)"),
)
_SCALINGS: Final = (
    ("computation", "  computation scaling"),
    ("instructions", "    instructions"),
    ("ipc", "    IPC"),
    ("frequency", "    frequency"),
)
_NAMES: Final = {
    "total": "global efficiency",
    "imbalance": "load imbalance",
    **dict(_EFFICIENCIES + _SCALINGS),
}
#: The lines of the picture: (of what, attribute, name).
_LINES: Final = (
    ("scaling", "total", "global efficiency"),
    ("efficiency", "parallel", "parallel efficiency"),
    ("efficiency", "load_balance", "load balance"),
    ("efficiency", "communication", "communication efficiency"),
    ("scaling", "computation", "computation scaling"),
    ("efficiency", "openmp", "OpenMP, at most"),
)


class NothingObserved(ValueError):
    """There is nothing to be seen of what ranks did inside MPI; says where, and what to do."""


class MemoryTraffic(NamedTuple):
    """What hardware counters saw a level of the memory move in a run, on all nodes."""

    #: ``MEM``, ``L3`` or ``L2``.
    level: str
    #: Sum over the nodes (B).
    bytes: float
    #: Sum over the nodes (B/s).
    rate: float
    #: Share of the time that the CPUs were halted; None where nothing counts it.
    idle: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedRun:
    """An observed run, or one region of it."""

    #: Its folder's; with the observation's own where a folder has several.
    name: str
    #: Where the time of each went; never empty.
    ranks: tuple[Rank, ...]
    #: Of all that is looked at, the run or the region.
    efficiency: Efficiency
    #: Region → its efficiency; empty where the program names none.
    regions: Mapping[str, Efficiency]
    #: Against the reference; the reference's own is all 1.
    scaling: Scaling
    #: Of the whole run; None without ``--counters`` of bytes.
    moved: MemoryTraffic | None = None

    @property
    def cpus(self) -> int:
        """Ranks and their threads."""
        return self.efficiency.threads


def read_runs(
    paths: Sequence[Path],
    weak: bool = False,
    region: str = "",
    gpu: Mapping[int, float] | None = None,
) -> list[ObservedRun]:
    """The runs observed in folders (or ``*.observed.json`` files), that with the fewest CPUs first, which is
    the reference.

    gpu: as `efficiency_of` wants it. Raises NothingObserved; OSError and ValueError for what cannot be read;
    KeyError for a rank that `gpu` lacks.
    """
    runs = []
    for name, file in _named(paths):
        document = read_document(file)
        with valid(file):
            profile = profile_of(document)
        ranks = profile.ranks if profile else ()
        if region:
            ranks = tuple(in_region(ranks, region))
        if ranks:
            runs.append((name, ranks, _moved_of(document)))
    if not runs:
        where = ", ".join(map(str, paths))
        what = f"no rank was in region {region!r}" if region else "no profile of what ranks did inside MPI"
        raise NothingObserved(f"{where}: {what} (npc observe -- mpirun … makes one)")
    runs.sort(key=lambda run: sum(rank.threads for rank in run[1]))
    reference = runs[0][1]
    return [
        ObservedRun(
            name=name,
            ranks=ranks,
            efficiency=efficiency_of(ranks, gpu),
            regions=efficiency_by_region(ranks),
            scaling=scaling_of(ranks, reference, weak),
            moved=moved,
        )
        for name, ranks, moved in runs
    ]


def _moved_of(document: Mapping[str, Any]) -> MemoryTraffic | None:
    nodes = [*((document.get("counted") or {}).get("moved") or {}).values()]
    if not nodes:
        return None
    idle = [node["idle"] for node in nodes if node["idle"] is not None]
    return MemoryTraffic(
        nodes[0]["level"],
        math.fsum(node["bytes"] for node in nodes),
        math.fsum(node["bytes"] / node["seconds"] for node in nodes),
        math.fsum(idle) / len(idle) if idle else None,
    )


def _named(paths: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Observations, by their folder's name and, of several in one, their own. Raises FileNotFoundError."""
    for path in dict.fromkeys(paths):
        path.stat()
        files = sorted(path.rglob(_PATTERN)) if path.is_dir() else [path]
        for file in files:
            own = f" {file.name.partition('.')[0]}" if len(files) > 1 else ""
            yield f"{path.name if path.is_dir() else path}{own}", file


# --- as people read them ---------------------------------------------------------------------------------


def format_runs(runs: Sequence[ObservedRun], weak: bool) -> str:
    """The table, a column for each run, and below it why something is not known."""
    several = len(runs) > 1
    rows = [
        ("", *(run.name for run in runs)),
        ("ranks", *(_ranks(run) for run in runs)),
        ("time", *(format_quantity(run.efficiency.seconds, "s", 4) for run in runs)),
    ]
    if several:
        rows.append(("global efficiency", *(_share(run.scaling.total) for run in runs)))
    for name, title in _EFFICIENCIES:
        indented = title if several else title[2:]
        rows.append((indented, *(_share(getattr(run.efficiency, name)) for run in runs)))
    for name, title in _SCALINGS if several else ():
        rows.append((title, *(_share(getattr(run.scaling, name)) for run in runs)))
    rows += [
        ("load imbalance", *(_share(run.efficiency.imbalance) for run in runs)),
        ("slowest rank", *(_slowest(run) for run in runs)),
        ("balanced, shorter by", *(format_quantity(run.efficiency.gain, "s", 3) for run in runs)),
    ]
    rows += _moved(runs)
    shown = [row for row in rows if any(cell != "–" for cell in row[1:])]
    parts = ["\n".join(columns(shown, right=range(1, len(runs) + 1)))]
    if several:
        kind = "as much work for each CPU (weak scaling)" if weak else "the same work (strong scaling)"
        parts.append(f"Scaling against {runs[0].name}, for {kind}.")
    parts += [line for run in runs for line in _regions(run)]
    parts += _reasons(runs)
    return "\n\n".join(parts)


def _moved(runs: Sequence[ObservedRun]) -> Iterator[tuple[str, ...]]:
    """By level: volume and bandwidth, and how many times those of the run with the fewest CPUs."""
    for level in dict.fromkeys(run.moved.level for run in runs if run.moved):
        those = [run.moved if run.moved and run.moved.level == level else None for run in runs]
        first = next(filter(None, those))
        for name, unit, title in (("bytes", "B", "volume"), ("rate", "B/s", "bandwidth")):
            cells = []
            for item in those:
                value = getattr(item, name, None)
                times = f" ({value / getattr(first, name):.2f} x)" if value and getattr(first, name) else ""
                cells.append("–" if value is None else f"{format_quantity(value, unit, 3)}{times}")
            yield f"{level} {title}", *cells
        yield "idle", *(_share(memory.idle if memory else None) for memory in those)


def _ranks(run: ObservedRun) -> str:
    threads, ranks = run.efficiency.threads, run.efficiency.ranks
    return str(ranks) if threads == ranks else f"{ranks} ({threads} threads)"


def _share(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"


def _slowest(run: ObservedRun) -> str:
    host = next(rank.host for rank in run.ranks if rank.rank == run.efficiency.slowest)
    return f"{run.efficiency.slowest} ({host})"


def _regions(run: ObservedRun) -> Iterator[str]:
    """Those of a run, the longest first."""
    if run.regions:
        rows = [("region", "time", "efficiency", "load balance", "communication", "slowest rank")]
        for name, region in sorted(run.regions.items(), key=lambda entry: -entry[1].seconds):
            rows.append(
                (name or "outside of all", format_quantity(region.seconds, "s", 4), _share(region.mpi),
                 _share(region.load_balance), _share(region.communication), str(region.slowest))
            )  # fmt: skip
        yield "\n".join([f"Regions of {run.name}:", *columns(rows, right=range(1, 6))])


def _reasons(runs: Sequence[ObservedRun]) -> list[str]:
    """Why numbers are missing: a line for each reason."""
    names_of_runs: dict[str, dict[str, None]] = {}
    for run in runs:
        scaling = run.scaling.reasons if len(runs) > 1 else {}
        for name, reason in {**run.efficiency.reasons, **scaling}.items():
            if reason != "each rank has one thread":
                names_of_runs.setdefault(reason, {})[_NAMES.get(name, name).strip()] = None
    return [f"unavailable: {', '.join(names)}: {reason}" for reason, names in names_of_runs.items()]


def to_document(runs: Sequence[ObservedRun], weak: bool) -> dict[str, Any]:
    """What ``npc program efficiency --json`` prints (docs/mpi.md)."""
    return {
        "schema": SCHEMA,
        "scaling": "weak" if weak else "strong",
        "reference": runs[0].name,
        "runs": [
            {
                "name": run.name,
                "efficiency": asdict(run.efficiency),
                "scaling": asdict(run.scaling),
                "regions": {name: asdict(region) for name, region in run.regions.items()},
                **({"moved": run.moved._asdict()} if run.moved else {}),
            }
            for run in runs
        ],
    }


# --- the picture -----------------------------------------------------------------------------------------


def chart_of(runs: Sequence[ObservedRun], weak: bool) -> Chart:
    """Efficiencies over CPUs, or over the runs one after the other where two have as many; of one run, where
    each rank's time went."""
    return _rank_chart(runs[0]) if len(runs) == 1 else _scaling_chart(runs, weak)


def _rank_chart(run: ObservedRun) -> Chart:
    """Seconds outside and inside MPI by rank: who is slow, and who waits."""
    traces = []
    for number, (of, title) in enumerate((("computing", "outside MPI"), ("mpi", "inside MPI"))):
        marks = tuple(
            Mark(
                rank.rank, value, f"rank {rank.rank} ({rank.host})\n{title}: {format_quantity(value, 's', 4)}"
            )
            for rank in run.ranks
            for value in [getattr(rank, of)]
        )
        traces.append(Trace(title, CYCLE[number], marks=marks, shape=number))
    mean = ((run.ranks[0].rank, run.efficiency.computing), (run.ranks[-1].rank, run.efficiency.computing))
    traces.append(Trace("outside MPI, mean", CYCLE[0], (mean,), dashes=DASHES[1], width=1.2))
    ranks = [float(rank.rank) for rank in run.ranks]
    ticks = [at for at in linear_ticks(0, max(*ranks, 1.0)) if at == int(at)]
    text = f"{run.name}: load imbalance {_share(run.efficiency.imbalance)}, slowest rank {_slowest(run)}"
    return Chart(
        ident="ranks",
        title=f"Where the time of each rank went: {run.name}",
        text=text,
        x=Axis("Rank", -0.5, max(ranks) + 0.5, False, tuple(Tick(at, str(int(at))) for at in ticks)),
        y=quantity_axis("Time", [0.0, run.efficiency.seconds], "s", log=False),
        traces=tuple(traces),
    )


def _scaling_chart(runs: Sequence[ObservedRun], weak: bool) -> Chart:
    by_cpus = max(Counter(run.cpus for run in runs).values()) == 1
    places = [float(run.cpus) if by_cpus else float(at) for at, run in enumerate(runs)]
    traces = []
    for number, (of, name, title) in enumerate(_LINES):
        values = [getattr(getattr(run, of), name) for run in runs]
        marks = tuple(
            Mark(x, value, f"{run.name}\n{title}: {value:.1%}")
            for x, value, run in zip(places, values, runs, strict=True)
            if value is not None
        )
        if marks:
            line = tuple((mark.x, mark.y) for mark in marks)
            traces.append(Trace(title, CYCLE[number], (line,), marks=marks, shape=number))
    text = "; ".join(
        f"{run.name}: parallel efficiency {_share(run.efficiency.parallel)}, "
        f"global efficiency {_share(run.scaling.total)}"
        for run in runs
    )
    return Chart(
        ident="efficiency",
        title=f"Efficiencies ({'weak' if weak else 'strong'} scaling)",
        text=text,
        x=_x_axis(runs, places, by_cpus),
        y=_y_axis(max(mark.y for trace in traces for mark in trace.marks)),
        traces=tuple(traces),
    )


def _x_axis(runs: Sequence[ObservedRun], places: Sequence[float], by_cpus: bool) -> Axis:
    if not by_cpus:
        ticks = tuple(Tick(x, run.name) for x, run in zip(places, runs, strict=True))
        return Axis("Run", -0.5, len(runs) - 0.5, False, ticks)
    ticks = tuple(Tick(x, str(round(x))) for x in places)
    title = "Ranks" if all(run.efficiency.ranks == run.cpus for run in runs) else "Threads of all ranks"
    return Axis(title, places[0] / 1.25, places[-1] * 1.25, True, ticks, base=2)


def _y_axis(most: float) -> Axis:
    """From nothing to all, or as far as a scaling that is better goes."""
    step = 0.2 if most <= 2 else 0.2 * math.ceil(most / 2)
    high = max(1.0, most) * 1.05
    ticks = tuple(Tick(at * step, f"{at * step:.0%}") for at in range(math.floor(high / step + 1e-9) + 1))
    return Axis("Share", 0.0, high, False, ticks)
