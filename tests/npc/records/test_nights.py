"""What a night says of a series, and of the nodes: the same for verdicts, tables, pictures and pages."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from npc.cron.figures import course, relative_by_node
from npc.cron.series import panel
from npc.cron.variation import variations
from npc.records.history import History, HistoryRow, of_night
from npc.records.nights import SeriesNight, series_nights
from npc.records.nodes import beside_others
from npc.report.history import read_history
from tests.made.history import KEY, a_record

A, B = ("n1", "n2"), ("n3", "n4")
FAILED, LIE = "failed: connection refused", "invalid: faster than the link"
OTHERS = "invalid: others used 2.0 of the 2 CPUs during the launch"


def row(
    value: float | None,
    hosts: tuple[str, ...] = A,
    again: bool = False,
    status: str = "ok",
    disturbed: float = 0.0,
) -> HistoryRow:
    return HistoryRow(KEY, "night1", "2026-11-20T02:30:00+00:00", value, status, hosts, again, disturbed)


#: What a night has → its value, and what it measured again.
ODD_NIGHTS: dict[str, tuple[list[HistoryRow], float | None, float | None]] = {
    "once": ([row(1.0), row(3.0), row(2.0)], 2.0, None),
    "twice": ([row(1.0), row(3.0), row(5.0, again=True)], 2.0, 5.0),
    "nothing but the second": ([row(5.0, again=True)], 5.0, None),
    "the first failed": ([row(None, status=FAILED), row(5.0, again=True)], 5.0, None),
    "the first failed on some hosts": (
        [row(1.0), row(None, B, status=FAILED), row(5.0, B, again=True)], 3.0, None,
    ),
    "one sample of the first failed": (
        [row(1.0), row(None, status=FAILED), row(5.0, again=True)], 1.0, 5.0,
    ),
    "the first is a lie": ([row(9.0, status=LIE), row(5.0, again=True)], None, 5.0),
    "the first is a lie on other hosts": (
        [row(9.0, B, status=LIE), row(None, status=FAILED), row(5.0, again=True)], 5.0, None,
    ),
    "both are lies": ([row(9.0, status=LIE), row(9.0, again=True, status=LIE)], None, None),
    "others made the first invalid": ([row(None, status=OTHERS), row(5.0, again=True)], 5.0, None),
    "others disturbed the first": ([row(1.0, disturbed=0.4), row(5.0, again=True)], 5.0, None),
    "others disturbed the second": ([row(1.0), row(5.0, again=True, disturbed=0.4)], 1.0, None),
    "others disturbed both": (
        [row(1.0, disturbed=0.4), row(5.0, again=True, disturbed=0.4)], 1.0, 5.0,
    ),
    "others disturbed a sample": ([row(1.0, disturbed=0.4), row(2.0), row(4.0)], 3.0, None),
    "all failed": ([row(None, status=FAILED), row(None, again=True, status=FAILED)], None, None),
    "without hosts": ([row(1.0, ()), row(5.0, (), again=True)], 1.0, 5.0),
}  # fmt: skip


@pytest.mark.parametrize("name", ODD_NIGHTS)
def test_the_value_of_a_night_is_the_same_for_all_who_show_or_judge_it(name: str, tmp_path: Path) -> None:
    rows, value, again = ODD_NIGHTS[name]
    night = SeriesNight.of(rows)
    assert (night.value, night.value_again) == (value, again)

    usual = [row(7.0)._replace(run="night0", time="2026-11-19T02:30:00+00:00")]  # else it is no series yet
    judged = panel([*usual, *rows])
    seen = np.array([judged.value[0, -1], judged.again[0, -1]])
    expected = np.array([value, again], dtype=float)
    np.testing.assert_equal(seen, expected)

    drawn = course(KEY, series_nights(rows)[KEY], {}, {"night1": 0.0}).nights[0]
    np.testing.assert_equal(np.array([drawn.median, drawn.again]), expected)

    assert [found.summary.median for found in variations(rows)] == ([] if value is None else [value])

    records = [
        a_record(
            sample=number, value=each.value, status=each.status, hosts=each.hosts,
            params={"disturbed": f"{each.disturbed:.2f}"} if each.disturbed else {},
        )
        for number, each in enumerate(rows)
    ]  # fmt: skip
    history = History(tmp_path)
    for record, each in zip(records, rows, strict=True):
        history.append(of_night([record], "night1", remeasured=each.remeasured))
    (series,) = read_history(tmp_path).series
    np.testing.assert_equal(series.nights[0].median, expected[0])


def a_fleet() -> list[HistoryRow]:
    """Ten nodes for 40 nights; from the 30th everything is 10 % slower, and four nodes join."""
    return [
        HistoryRow(
            KEY._replace(nodes=1), f"night{night:02}", f"2026-{1 + night // 28:02}-{1 + night % 28:02}",
            (0.9 if night >= 30 else 1.0) * 1e9 * (1 + 0.001 * (node % 3 - 1)), "ok", (f"n{node}",), False,
        )
        for night in range(40)
        for node in range(14 if night >= 30 else 10)
    ]  # fmt: skip


def test_a_node_that_was_only_there_in_slow_nights_is_no_slow_node(tmp_path: Path) -> None:
    rows = a_fleet()
    History(tmp_path).append(
        a_record(
            nodes=1, params={}, run=each.run, time=f"{each.time}T02:30:00+00:00", hosts=each.hosts,
            value=each.value,
        )
        for each in rows
    )  # fmt: skip
    nodes = {node.name: node.ratio for node in read_history(tmp_path).nodes["fuchs"]}
    assert len(nodes) == 14
    assert nodes == dict.fromkeys(nodes, pytest.approx(1.0, abs=0.002))
    drawn = relative_by_node(rows)
    assert drawn == dict.fromkeys(drawn, pytest.approx(1.0, abs=0.002)) and len(drawn) == 10 * 30 + 14 * 10


def test_a_node_that_is_slow_is_named_whenever_it_was_measured(tmp_path: Path) -> None:
    slow = [
        each._replace(value=0.8 * (each.value or 0.0)) if each.hosts == ("n12",) else each
        for each in a_fleet()
    ]
    drawn = {node: ratio for (node, _), ratio in relative_by_node(slow).items()}
    assert [node for node, ratio in drawn.items() if ratio < 0.95] == ["n12"]


def test_what_one_group_of_nodes_measured_alone_is_compared_with_nothing() -> None:
    assert beside_others(KEY, {A: [1.0]}) == {}
    assert beside_others(KEY, {A: [1.0, 1.0], B: [3.0]}) == {A: 0.5, B: 1.5}
    assert beside_others(KEY, {A: [1.0], B: [3.0]}, least=3) == {}
    late = KEY._replace(metric="latency")
    assert beside_others(late, {A: [1.0], B: [3.0]}) == {A: 2.0, B: pytest.approx(2 / 3)}
    assert beside_others(KEY._replace(params='{"statistic": "p99"}'), {A: [1.0], B: [3.0]}) == {}
