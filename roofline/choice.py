"""The choice of a model: from a question to the model that answers it, and from that to its measurements.

What there is stands in ``questions.toml``; `npc plan` and `npc model fit` say it (Bartelheimer, Zhu,
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
    """A question and the model that answers it; the fields are explained in ``questions.toml``."""

    question: str
    model: str
    of: tuple[str, ...]
    suits: str
    below: bool = False
    then: str = ""


class Measurement(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A benchmark, and how it is told to measure what a model is made of."""

    of: str
    layer: Layer
    benchmark: str
    jobs: int
    launches: int
    set: Mapping[str, str] = {}
    cluster: Mapping[str, str] = {}


class _ChoiceFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    questions: dict[str, Question]
    measurements: tuple[Measurement, ...]


_FILE: Final = msgspec.toml.decode(Path(__file__).with_name("questions.toml").read_bytes(), type=_ChoiceFile)
QUESTIONS: Final[Mapping[str, Question]] = _FILE.questions
MEASUREMENTS: Final = _FILE.measurements


class PlannedMeasurement(NamedTuple):
    """A benchmark with settings: all that it is to measure at once."""

    benchmark: str
    settings: Mapping[str, str]
    jobs: int
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
    """What measures these on each of the layers, a job a benchmark."""
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
                if measurement.set not in [other.set for other in beside]:  # else it is measured at once
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
