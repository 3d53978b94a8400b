"""The study of a program that is known: on more CPUs it loses a tenth at each doubling."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npc.observe.study.records import (
    STUDY,
    Condition,
    Expectation,
    Placement,
    ProgramModel,
    ProgramRun,
    Share,
    Study,
    write_study,
)
from npc.records.record import Record, read_csv, replace, save_csv
from tests.made.measured import AROUND, records

CPUS = (1, 2, 4, 8)


def name_of(ranks: int) -> str:
    """Of a condition."""
    return f"1 node, {ranks} rank{'s' * (ranks > 1)}, 1 thread"


def seconds_of(ranks: int) -> float:
    """Median of its runs; the efficiency is 0.9 to the power of doublings."""
    return float(8.0 / ranks / 0.9 ** (ranks.bit_length() - 1))


def model(**more: Any) -> ProgramModel:
    """Three quarters memory, the rest not told apart."""
    fields: dict[str, Any] = {
        "reference": name_of(1),
        "seconds": 8.0,
        "rates": {"memory": 1e10},
        "shares": (
            Share("cpu", None, None, None, "the clock was changed by no condition"),
            Share("memory", 0.75, 0.7, 0.8),
            Share("rest", 0.25, 0.2, 0.3, "clock, with latency"),
        ),
        "coverage": 0.95,
        "lack_of_fit": 0.4,
        "fits": True,
        "held_out": {name_of(2): 1.02},
    }
    return ProgramModel(**fields | more)


def put_study(folder: Path, **more: Any) -> Path:
    """The folder of a run with a study of it beside the records, to which its own are added."""
    conditions = tuple(Condition(name=name_of(ranks), ranks=ranks) for ranks in CPUS)
    broken = Condition(name="1 node, 16 ranks, 1 thread", ranks=16)
    ran = tuple(
        ProgramRun(name_of(ranks), sample, seconds_of(ranks) * factor, "ok", {"cpu": 2e9})
        for ranks in CPUS
        for sample, factor in enumerate(AROUND)
    )
    best = tuple(
        Placement(name_of(ranks), seconds_of(ranks), None, None, loses, loses - 0.1, loses + 0.1)
        for ranks, loses in ((8, 0.0), (4, 0.8), (2, 2.2), (1, 4.8))
    )
    fields: dict[str, Any] = {
        "command": ("./app",), "program": "app", "platform": "fuchs", "started": "2026-11-20T08:00:00+00:00",
        "seed": 1, "runs": len(AROUND), "conditions": (*conditions, broken),
        "ran": (*ran, ProgramRun(broken.name, 0, None, "failed: exit code 1")), "best": best,
        "model": model(),
        "expectations": (Expectation("8 ranks >= 6 x 1 rank", "2026-11-20T07:59:00+00:00", held="not held",
                                     ratio=5.83, low=5.7, high=5.9),),
    }  # fmt: skip
    folder.mkdir(exist_ok=True)
    write_study(Study(**fields | more), folder)
    own: list[Record] = []
    for ranks in CPUS:
        params = {"condition": name_of(ranks), "ranks": str(ranks)}
        once: dict[str, Any] = {"params": params, "spread": AROUND[:1]}
        own += records("study", "observed", seconds_of(ranks), metric="time", **once)
        for kind, share in (("parallel", 0.81), ("load balance", 0.9), ("communication", 0.9)):
            once["params"] = params | {"kind": kind}
            own += records("study", "observed", share, metric="efficiency", **once)
    file = folder / "records.csv"
    own = [replace(each, raw=STUDY) for each in own]
    save_csv([*(read_csv(file) if file.exists() else ()), *own], file)
    return folder
