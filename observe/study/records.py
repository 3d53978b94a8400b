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

    frequency_hz, memory, network, io: what is changed from the machine's usual state.
    """

    #: What it is called: the values of its factors in words; no other of the plan has the same.
    name: str
    #: How many nodes it takes.
    nodes: int = 1
    #: How many MPI ranks, on all nodes together.
    ranks: int = 1
    #: How many threads each rank has.
    threads: int = 1
    #: How ranks are bound: core, hwthread, none or ppr:N:OBJECT (benchmarks/placement.sh); empty for the
    #: launcher's own way.
    binding: str = ""
    #: Clock that the CPUs are set to, in Hz; None: not changed.
    frequency_hz: float | None = None
    #: Competing processes on each NUMA node; 0.5: one that rests half of the time; None: none.
    memory: float | None = None
    #: B/s that are left to each node, or NAME=VALUE: the variable by which MPI takes another network; None:
    #: not changed.
    network: float | str | None = None
    #: B/s of input and output that are left; None: not changed.
    io: float | None = None
    #: Variables of the program's environment and their values; empty: none is set.
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
    """One fresh process."""

    #: Name of the condition that it was made in.
    condition: str
    #: Which of the condition's runs it is, counted from 0.
    sample: int
    #: How long the program took, in s; None where it failed.
    seconds: float | None
    #: ``ok``, or why it has no time.
    status: str
    #: What the machine gave meanwhile, as measured in this condition: ``cpu`` in Hz, ``memory``, ``network``,
    #: ``io`` in B/s; empty where nothing was measured.
    rates: Mapping[str, float] = {}


class Share(NamedTuple):
    """Part of the reference's time that one resource takes (α of Eq. 3.2), with its interval."""

    #: The resource; ``rest``: what no resource that was varied takes, together with latency and waiting.
    name: Literal["cpu", "memory", "mpi", "io", "rest"]
    #: Part of the reference's time, 0 to 1; None where the plan could not tell it apart.
    value: float | None
    #: Lower end of the interval of `value`; None where `value` is.
    low: float | None
    #: Upper end of the interval of `value`; None where `value` is.
    high: float | None
    #: Why there is no value, or what else is in it; empty where there is nothing to say.
    reason: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramModel:
    """T / T_ref = Σ α_k R_ref,k / R_k (Wang, 2023, Eq. 3.2)."""

    #: Name of the condition that the others are held against.
    reference: str
    #: T_ref: time of the reference, in s, as the fit has it.
    seconds: float
    #: R_ref: what the machine gave in the reference, of each resource that was varied: ``cpu`` in Hz,
    #: ``memory``, ``network``, ``io`` in B/s; empty where none was.
    rates: Mapping[str, float]
    #: α: the parts of the reference's time.
    shares: tuple[Share, ...]
    #: Probability that the intervals of all shares hold together, 0 to 1.
    coverage: float
    #: p-value, small where the form is wrong; None where there is nothing to tell it by.
    lack_of_fit: float | None
    #: Whether the form may be used to predict.
    fits: bool
    #: o of T = (1 − o) Σ + o max, as it fits best: above 0 parts run at the same time, below 0 they are in
    #: each other's way; None where the plan cannot tell.
    overlap: float | None = None
    #: Lower end of the interval of `overlap`; None where `overlap` is.
    overlap_low: float | None = None
    #: Upper end of the interval of `overlap`; None where `overlap` is.
    overlap_high: float | None = None
    #: Condition → its measured time over that predicted by the fit without it; empty where none can be.
    held_out: Mapping[str, float] = field(default_factory=dict)
    #: Condition → why it is not in the fit; empty where all are.
    left_out: Mapping[str, str] = field(default_factory=dict)
    #: What to think of the model, in sentences; empty where there is nothing to say.
    note: str = ""


class Placement(NamedTuple):
    """A condition among those that do the same work."""

    #: Its name.
    condition: str
    #: Median time of its runs, in s.
    seconds: float
    #: Lower end of its interval, in s; None with too few runs.
    low: float | None
    #: Upper end of its interval, in s; None with too few runs.
    high: float | None
    #: By how much it is slower than the best: 0.08 is 8 %, 0 is the best itself.
    loses: float
    #: Lower end of the interval of `loses`; None with too few runs.
    loses_low: float | None
    #: Upper end of the interval of `loses`; None with too few runs.
    loses_high: float | None

    @property
    def loss(self) -> str:
        """``8.0% (5.0% to 11.2%)``."""
        return f"{self.loses:.1%}{between(self.loses_low, self.loses_high, '{:.1%}'.format, ' ({} to {})')}"


class Expectation(NamedTuple):
    """What was written down before the runs, and what came of it."""

    #: What somebody expects, as it was written: ``4 nodes >= 3.5 x 1 node``.
    text: str
    #: When it was written down, ISO 8601, before the runs.
    time: str
    #: Name of the condition that is meant on the left of the sign; empty until the plan is known.
    left: str = ""
    #: Whether the left one's speed is at least (>=) or at most (<=) `factor` times the right one's.
    sign: Literal[">=", "<="] = ">="
    #: How many times the speed of the right one.
    factor: float = 1.0
    #: Name of the condition that is meant on the right of the sign; empty until the plan is known.
    right: str = ""
    #: What came of it; undecided: the interval of `ratio` holds `factor`, or there are too few runs.
    held: Literal["held", "not held", "undecided", "not measured"] = "not measured"
    #: Speed of the left one over that of the right one; None where one of them has no time.
    ratio: float | None = None
    #: Lower end of the interval of `ratio`; None where there are too few runs.
    low: float | None = None
    #: Upper end of the interval of `ratio`; None where there are too few runs.
    high: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A program over a plan of conditions: what is asked for, and what came of it."""

    #: The words that start the program, with placeholders such as {ranks}.
    command: tuple[str, ...]
    #: What the program is called.
    program: str
    #: Name of the platform that it runs on.
    platform: str
    #: When the study was made, ISO 8601.
    started: str
    #: Seed of the random order of the launches.
    seed: int
    #: How many runs each condition has at least.
    runs: int
    #: The plan: every condition that is run.
    conditions: tuple[Condition, ...]
    #: How many runs a condition has at most if its median is not known after `runs`; 0: no more than `runs`.
    most: int = 0
    #: Folder of the platform that the study has a copy of; empty in studies of old.
    platform_folder: str = ""
    #: Folder that the program runs in; empty if not known.
    folder: str = ""
    #: Path of the program; empty where it was not found.
    file: str = ""
    #: SHA-256 of that file when the study was made; empty where there is no file.
    sha256: str = ""
    #: Name of the parser of the program's output.
    tool: str = ""
    #: How long a run may take, in s.
    timeout_s: float = 300.0
    #: Regular expression whose first group is the time in s that the program prints; empty: the time that the
    #: program ran.
    says: str = ""
    #: Settings of the platform and of the suite, as NAME=VALUE; empty: none.
    settings: tuple[str, ...] = ()
    #: Version of NPC that made the study; empty if not known.
    version: str = ""
    #: Whether `npc observe` watches each run.
    observed: bool = True
    #: Names of the rates that are measured in every run; empty where no condition changes the machine.
    measured: tuple[str, ...] = ()
    #: Network interface that is slowed down; empty for the only one.
    interface: str = ""
    #: What somebody expected before the runs, with what came of it; empty: nothing.
    expectations: tuple[Expectation, ...] = ()
    #: The runs so far, the oldest first, also those that failed.
    ran: tuple[ProgramRun, ...] = ()
    #: How the time follows from what each resource gives; None where no condition changes one, or where no
    #: run of the reference worked.
    model: ProgramModel | None = None
    #: The placements, the fastest first; empty where none has a time.
    best: tuple[Placement, ...] = ()
    #: Conditions that were left out and why, a line each; empty where none was.
    notes: tuple[str, ...] = ()
    #: Number of the file's format.
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
