"""``verdict.json``: what is written is read back by everybody, and what is none is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner

from npc.cron.commands.cron import show
from npc.files import InvalidFile
from npc.records.journal import Journal
from npc.records.verdicts import (
    Coverage,
    JudgedSeries,
    NightDocument,
    NightSuspect,
    UnmeasuredNode,
    Verdict,
    last_night,
    read_night,
    to_text,
    write_night,
)
from npc.report.history import read_history
from tests import schemas
from tests.made.history import KEY
from tests.made.run_folder import make_history

COVERAGE = Coverage(within=14, nodes=2, unmeasured=(UnmeasuredNode(node="n2", last="", why="drained"),))


def a_night(coverage: Coverage | None = COVERAGE) -> NightDocument:
    suspect = NightSuspect(
        kind="node", name="n1", nodes=("n1",), evidence="slow", chance=1e-6, score=5.0, benchmarks=("qperf",),
        since="night0", named=True,
    )  # fmt: skip
    return NightDocument(
        platform="p", run="night1", time="2026-11-21T02:30:00+00:00", verdict=Verdict.DEGRADED, exit_code=13,
        series=(JudgedSeries(**KEY._asdict(), verdict=Verdict.DEGRADED, value=1e9, hosts=("n1", "n2")),),
        suspects=(suspect,), failures={"osu": ("failed: x",)}, lost={"n3": "silent"}, coverage=coverage,
        counts={"DEGRADED": 1}, notes=("a note",),
    )  # fmt: skip


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    write_night(tmp_path, a_night())
    assert last_night(tmp_path) == read_night(tmp_path / "verdicts/night1.json") == a_night()
    assert a_night().series[0].key == KEY
    assert last_night(tmp_path / "nowhere") is None


def test_a_night_of_a_version_that_knew_less_or_more_is_read(tmp_path: Path) -> None:
    whole = json.loads(to_text(a_night()))
    for name in ("common", "coverage", "lost", "notes", "pairs", "postponed"):
        del whole[name]
    (tmp_path / "verdict.json").write_text(json.dumps({**whole, "new": {"x": 1}}))
    night = last_night(tmp_path)
    assert night and (night.coverage, night.lost, night.run) == (None, {}, "night1")


def removed(*names: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for name in names[:-1]:
            document = document[name]
        del document[names[-1]]

    return change


def put(value: object, *names: str | int) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for name in names[:-1]:
            document = document[name]
        document[names[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (put(2, "schema"), "no verdict of schema 1: 2"),
        (removed("series"), "`series`"),
        (removed("series", 0, "verdict"), "`verdict` - at `$.series[0]`"),
        (put("fast", "series", 0, "value"), "$.series[0].value"),
        (put("GOOD", "series", 0, "verdict"), "'GOOD' - at `$.series[0].verdict`"),
        (put("[1]", "series", 0, "params"), "series[].params: '[1]' is no JSON object"),
        (put([], "coverage"), "$.coverage"),
        (removed("coverage", "unmeasured", 0, "why"), "`why` - at `$.coverage.unmeasured[0]`"),
        (removed("suspects", 0, "grave"), ""),
        (removed("suspects", 0, "named"), "`named` - at `$.suspects[0]`"),
    ],
)
def test_what_is_no_verdict_is_refused_with_its_file_and_field(
    change: Callable[[Any], None], says: str, tmp_path: Path
) -> None:
    document = json.loads(to_text(a_night()))
    change(document)
    path = tmp_path / "verdict.json"
    path.write_text(json.dumps(document))
    if not says:
        assert read_night(path) == a_night()
        return
    with pytest.raises(InvalidFile) as refused:
        read_night(path)
    line = str(refused.value)
    assert line.startswith(f"{path}: ") and says in line and "\n" not in line


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (to_text(a_night(None)), ""),
        (to_text(a_night()), "not measured: n2: drained, never measured"),
        ("{", "verdict.json: "),
        ("[]", "verdict.json: no verdict of schema 1"),
    ],
    ids=["without --each-node", "with it", "half a file", "another file"],
)
def test_npc_cron_show_ends_well_after_any_night(text: str, says: str, tmp_path: Path) -> None:
    """A night without --each-node has no coverage: that was a traceback."""
    for name in ("p", "q"):
        (tmp_path / name).mkdir()
        Journal(tmp_path / name).note("night1", "begun", folder="runs/night1", words=[])
    (tmp_path / "p/verdict.json").write_text(text)
    shown = CliRunner().invoke(show, ["--history", str(tmp_path)])
    assert shown.exit_code == 0, shown.exception
    assert says in shown.output and "night1  not ended" in shown.output.partition("\nq\n")[2]


def test_the_page_says_which_verdicts_it_could_not_read(tmp_path: Path) -> None:
    make_history(tmp_path, nights=9)
    past = tmp_path / "fuchs"
    assert read_history(past).unread == ()
    (past / "verdict.json").write_text('{"schema": 1}')
    (unread,) = read_history(past).unread
    assert unread.startswith(f"{past / 'verdict.json'}: ") and "missing required field" in unread


def test_the_schema_and_the_table_of_the_keys_are_those_of_the_types() -> None:
    again = "python -m tests.schemas"
    assert schemas.SCHEMA_FILE.read_text(encoding="utf-8") == schemas.schema_text(), again
    assert schemas.PAGE.read_text(encoding="utf-8") == schemas.page_text(), again
    keys = {line.split("`")[1] for line in schemas.table().splitlines()[2:]}
    written = msgspec.to_builtins(a_night())
    told = {name.removesuffix("[]").removeprefix("series[].") for name in keys}
    assert {*written, *written["series"][0]} == told
