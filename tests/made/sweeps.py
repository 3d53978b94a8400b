"""Sweeps of message sizes, captured or along a known line, and what ``npc model fit`` makes of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from npc import parsers
from npc.records.record import Record, save_csv
from npc.records.units import METRICS
from npc.roofline.fit_commands import fit
from tests import captured


def run(command: Any, *arguments: str | Path) -> Result:
    return CliRunner().invoke(command, list(map(str, arguments)))


def of_output(folder: str, name: str, **fields: Any) -> list[Record]:
    """Records of a captured output."""
    tool = folder.partition("-")[0]
    provenance = {"time": "2026-11-21T09:00:00Z", "platform": "vm", "benchmark": tool, "raw": name, **fields}
    readings = parsers.parse(tool, captured.text_of(folder, name))
    return [Record.of(reading, **provenance) for reading in readings]


def sweep(
    benchmark: str = "osu", case: str = "osu_latency", alpha: float = 2e-6, beta: float = 1e-9, launches:
    int = 6, metric: str = "latency", sizes: Sequence[int] = tuple(2**power for power in range(20)),
    **fields: Any,
) -> list[Record]:  # fmt: skip
    """Launches of a line, each off by its own per cent."""
    found = []
    for launch in range(launches):
        for place, size in enumerate(sizes):
            time = (alpha + beta * size) * (1 + 0.01 * ((launch * 7 + place * 3) % 11 - 5) / 5)
            found.append(
                Record(
                    time="2026-11-21T09:00:00Z", platform="fuchs", benchmark=benchmark, case=case,
                    metric=metric, value=size / time if metric == "bandwidth" else time,
                    unit=METRICS[metric].unit, size=size, sample=launch, run="000000", **fields,
                )
            )  # fmt: skip
    return found


def saved(folder: Path, records: Iterable[Record]) -> Path:
    save_csv(records, folder / "records.csv")
    return folder / "records.csv"


def fitted(path: Path) -> dict[str, Any]:
    result = run(fit, path, "--json")
    assert result.exit_code == 0, result.output
    document = json.loads(result.stdout)
    assert isinstance(document, dict)
    return document
