"""The choice of a model: from a question to the model that answers it, and from that to its measurements.

All of them stand in ``questions.toml``; `npc plan` and `npc model fit` print them (Bartelheimer, Zhu,
Neuwirth 2023, section 3: phase 0, a set of models with their test configurations).
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

Layer = Literal["mpi", "rdma", "tcp"]


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question, and the model that answers it."""

    #: What somebody wants to know.
    question: str
    #: Name of the model, as `npc model fit` has it.
    model: str
    #: What has to be measured for the model: `Measurement.of` of each.
    of: tuple[str, ...]
    #: On which machine the model says most.
    suits: str
    #: Whether what lies below MPI is measured, too.
    below: bool = False
    #: The command that uses the fits; empty if there is none.
    then: str = ""


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A benchmark, and how it measures what a model is made of."""

    #: What it measures: a timing (`npc.catalogue.row.Timing`), or a pattern of the benchmark ``models``.
    of: str
    #: What carries the messages.
    layer: Layer
    #: Name of the benchmark.
    benchmark: str
    #: How many jobs one sample takes.
    jobs: int
    #: How many launches one sample takes.
    launches: int
    #: Values of the benchmark's settings by their names, so that it measures sizes enough; empty: the
    #: defaults do.
    set: Mapping[str, str] = {}
    #: More settings on several nodes, likewise.
    cluster: Mapping[str, str] = {}


class _ChoiceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The content of ``questions.toml``."""

    #: By a short key.
    questions: dict[str, Question]
    #: Of several for the same thing and layer the first is used.
    measurements: tuple[Measurement, ...]


_FILE: Final = msgspec.toml.decode(Path(__file__).with_name("questions.toml").read_bytes(), type=_ChoiceFile)
QUESTIONS: Final[Mapping[str, Question]] = _FILE.questions
MEASUREMENTS: Final = _FILE.measurements


class PlannedMeasurement(NamedTuple):
    """One run of a benchmark that measures several things at once."""

    #: Name of the benchmark.
    benchmark: str
    #: By name of a setting its values, joined by commas; empty: the defaults.
    settings: Mapping[str, str]
    #: How many jobs one sample takes, of all that it measures.
    jobs: int
    #: How many launches one sample takes, likewise.
    launches: int

    def words(self, platform: str, output: str = "", **settings: str) -> list[str]:
        """The words of the command that measures it."""
        words = ["npc", "characterise", "--benchmark", self.benchmark]
        words += ["--platform", platform] if platform != "localhost" else []
        words += ["--output", output] if output else []
        return [
            *words,
            *(
                w
                for name, value in {**self.settings, **settings}.items()
                for w in ("--set", f"{name}={value}")
            ),
        ]


def jobs_of(measured: Iterable[str], layers: Collection[Layer], cluster: bool) -> list[PlannedMeasurement]:
    """What has to be run to measure these on each of the layers, one entry for each benchmark."""
    by_benchmark: dict[str, list[Measurement]] = {}
    for what in measured:
        for layer in layers:
            fitting = [
                measurement
                for measurement in MEASUREMENTS
                if (measurement.of, measurement.layer) == (what, layer)
            ]
            for measurement in fitting[:1]:
                beside = by_benchmark.setdefault(measurement.benchmark, [])
                # The same settings measure both at once.
                if measurement.set not in [other.set for other in beside]:
                    beside.append(measurement)
    return [_job(benchmark, chosen, cluster) for benchmark, chosen in by_benchmark.items()]


def _job(benchmark: str, measured: Sequence[Measurement], cluster: bool) -> PlannedMeasurement:
    settings: dict[str, dict[str, None]] = {}
    for measurement in measured:
        for name, value in {**measurement.set, **(measurement.cluster if cluster else {})}.items():
            settings.setdefault(name, {})[value] = None
    return PlannedMeasurement(
        benchmark,
        {name: ",".join(values) for name, values in settings.items()},
        sum(measurement.jobs for measurement in measured),
        sum(measurement.launches for measurement in measured),
    )


def measures(benchmark: str, what: str, platform: str) -> str:
    """The command by which a benchmark measures `what` at sizes enough for a model."""
    fitting = [
        measurement
        for measurement in MEASUREMENTS
        if (measurement.of, measurement.benchmark) == (what, benchmark)
    ]
    job = _job(benchmark, fitting[:1], cluster=False) if fitting else PlannedMeasurement(benchmark, {}, 1, 1)
    return shlex.join(job.words(platform))
