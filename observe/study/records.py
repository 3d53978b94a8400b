"""A study: a program over a plan of conditions. ``study.json`` in the study's folder.

The folder holds all that is needed to do it again: the plan, what was expected before, and what came of it
(``study.json``), the platform's files (``platforms/``), the machine (``environment.json``), the JUBE runs
with all raw output (``runs/``), and their ``records.csv``. Seconds, bytes/s, Hz.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from npc.files import parse_json, read_bytes, valid, write_whole
from npc.records.units import between

SCHEMA: Final = 1
STUDY: Final = "study.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """How the program is run.

    ranks: MPI's, of all nodes together. threads: of each rank. binding: core, hwthread, none or ppr:N:OBJECT
    of benchmarks/placement.sh, empty for the launcher's own. variables: of the program's environment.
    frequency_hz, memory, network, io: what is changed from the machine's usual state, None for nothing.
    memory: competing processes on each NUMA node, 0.5 for one that rests half of the time; network, io:
    bytes/s that are left; network as NAME=VALUE: the variable by which MPI takes another network.
    """

    name: str
    nodes: int = 1
    ranks: int = 1
    threads: int = 1
    binding: str = ""
    frequency_hz: float | None = None
    memory: float | None = None
    network: float | str | None = None
    io: float | None = None
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def ranks_per_node(self) -> int:
        """Ranks on each node."""
        return self.ranks // self.nodes

    @property
    def usual(self) -> bool:
        """Whether the machine is in its usual state: what differs is the placement alone."""
        changed = (self.frequency_hz, self.memory, self.network, self.io)
        return all(setting is None for setting in changed)

    def same_work(self, other: Condition) -> bool:
        """Whether nodes, ranks, threads, binding and variables are the same."""
        keys = ("nodes", "ranks", "threads", "binding", "variables")
        return all(getattr(self, key) == getattr(other, key) for key in keys)


class ProgramRun(NamedTuple):
    """One fresh process. seconds: of the program, None where it failed, for `status`. rates: what the machine
    gave meanwhile, as measured in this condition (`cpu` Hz, `memory`, `network`, `io` bytes/s)."""

    condition: str
    sample: int
    seconds: float | None
    status: str
    rates: Mapping[str, float] = {}


class Share(NamedTuple):
    """Part of the reference's time that one resource takes (α of Eq. 3.2), with its interval; None where the
    plan could not tell it apart, for `reason`. rest: what no resource that was varied takes, together with
    latency and waiting."""

    name: Literal["cpu", "memory", "mpi", "io", "rest"]
    value: float | None
    low: float | None
    high: float | None
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramModel:
    """T / T_ref = Σ α_k R_ref,k / R_k (Wang, 2023, Eq. 3.2).

    reference: the condition; seconds: T_ref; rates: R_ref. coverage: of all shares' intervals together.
    lack_of_fit: p-value, small where the form is wrong; None where there is nothing to tell it by.
    overlap: T = (1 − o) Σ + o max fits best with this o: above 0 parts run at the same time, below 0 they are
    in each other's way; None where the plan cannot tell.
    held_out: condition → measured / predicted by the fit without it. left_out: condition → why it is not in
    the fit. fits: whether the form may be used. note: what to think of it.
    """

    reference: str
    seconds: float
    rates: Mapping[str, float]
    shares: tuple[Share, ...]
    coverage: float
    lack_of_fit: float | None
    fits: bool
    overlap: float | None = None
    overlap_low: float | None = None
    overlap_high: float | None = None
    held_out: Mapping[str, float] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    note: str = ""


class Placement(NamedTuple):
    """A condition among those that do the same work: median seconds with interval; loses: by how much it is
    slower than the best (0.08: 8 %), with interval."""

    condition: str
    seconds: float
    low: float | None
    high: float | None
    loses: float
    loses_low: float | None
    loses_high: float | None

    @property
    def loss(self) -> str:
        """``8.0% (5.0% to 11.2%)``."""
        return f"{self.loses:.1%}{between(self.loses_low, self.loses_high, '{:.1%}'.format, ' ({} to {})')}"


class Expectation(NamedTuple):
    """What was written down before (text, time) and what came of it.

    left, right: names of the conditions that the text means. sign, factor: the speed of the left one is at
    least (>=), or at most (<=), `factor` times that of the right one. ratio: of their speeds, with interval.
    """

    text: str
    time: str
    left: str = ""
    sign: Literal[">=", "<="] = ">="
    factor: float = 1.0
    right: str = ""
    held: Literal["held", "not held", "undecided", "not measured"] = "not measured"
    ratio: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """command: with placeholders; program: what to call it; file, sha256: what it was. folder: where it runs.
    platform_folder: whose copy the study has; empty in studies of old.

    tool: parser of its output. says: where that tells the seconds (an expression with a group); empty: the
    whole program's. seed: of the order of launches. runs: of each condition; most: of one whose median
    is not yet known with these, 0: the same. timeout_s: of one.
    settings: of the platform and the suite, as NAME=VALUE. version: NPC's. observed: whether `npc observe`
    stands around each. measured: rates that are measured in every run. interface: the one that is shaped.
    best: placements, the best first.
    """

    command: tuple[str, ...]
    program: str
    platform: str
    started: str
    seed: int
    runs: int
    conditions: tuple[Condition, ...]
    most: int = 0
    platform_folder: str = ""
    folder: str = ""
    file: str = ""
    sha256: str = ""
    tool: str = ""
    timeout_s: float = 300.0
    says: str = ""
    settings: tuple[str, ...] = ()
    version: str = ""
    observed: bool = True
    measured: tuple[str, ...] = ()
    interface: str = ""
    expectations: tuple[Expectation, ...] = ()
    ran: tuple[ProgramRun, ...] = ()
    model: ProgramModel | None = None
    best: tuple[Placement, ...] = ()
    notes: tuple[str, ...] = ()
    schema: int = SCHEMA

    def condition(self, name: str) -> Condition:
        """The condition of this name. Raises KeyError."""
        for candidate in self.conditions:
            if candidate.name == name:
                return candidate
        raise KeyError(name)

    def seconds(self, name: str) -> list[float]:
        """How long the runs of a condition took that worked, in the order of their samples."""
        return [run.seconds for run in self.ran if run.condition == name and run.seconds is not None]


def read_study(folder: Path) -> Study:
    """The study in a folder. Raises OSError, and ValueError for a file that is none."""
    path = folder / STUDY
    with valid(path):
        return msgspec.convert(parse_json(read_bytes(path)), Study)


def write_study(study: Study, folder: Path) -> None:
    """Write the file whole or not at all."""
    text = msgspec.json.format(msgspec.json.encode(study), indent=1)
    write_whole(folder / STUDY, text.decode())
