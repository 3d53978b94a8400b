"""The past judged again: each night as `judge` says of the history that ends with it."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
import pytest

from cron.acceptance import Acceptance, Baseline, baselines_of
from cron.acceptance_bands import Band
from cron.judge import judge, replay
from cron.series import Panel, panel
from cron.verdict import Verdict
from npc.records.history import Point
from tests.made.history import BEGUN, KEY

NIGHTS = 36
LATENCY = KEY._replace(case="tcp_lat", metric="latency")
LATE = KEY._replace(case="late")
BAND = (Band("qperf tcp_bw", 0.7e9, None),)


def moment(night: int) -> str:
    return (BEGUN + timedelta(days=night)).isoformat()


def eventful() -> list[Point]:
    """Four series on two of five nodes, n3 slow from night 20 on; one series begins late, one stays away,
    nights are lost, fail, are invalid, and are measured again."""
    rng = np.random.default_rng(5)
    points = []
    for t in range(NIGHTS):
        hosts = tuple(f"n{i}" for i in sorted(rng.permutation(5)[:2]))
        slow = 0.6 if t >= 20 and "n3" in hosts else 0.9 if t >= 20 else 1.0
        for key, level in ((KEY, 1e9 * slow), (KEY._replace(size=1024), 5e8), (LATENCY, 1e-5), (LATE, 2e9)):
            if (t in (4, 30) and key is KEY) or (key is LATE and not 12 <= t < 33):
                continue
            status = {9: "failed: gone", 27: "invalid: faster than the link"}.get(t, "ok")
            for again in (False, True)[: 2 if t % 7 == 0 else 1]:
                value = level * float(np.exp(0.01 * rng.standard_normal()))
                points.append(Point(key, f"night{t:03d}", moment(t), value, status, hosts, again))
    return points


def accepted(night: int, since: str, value: float | None) -> Acceptance:
    made = (datetime.fromisoformat(moment(night)) + timedelta(hours=6)).isoformat()
    return Acceptance(made, "root", "so it is", "*", {KEY: Baseline(value, since)})


def until(points: list[Point], night: int) -> Panel:
    return panel(point for point in points if point.run <= f"night{night:03d}")


@pytest.mark.parametrize("acceptances", [(), (accepted(24, "night020", 0.9e9), accepted(32, "", None))])
def test_each_night_is_judged_as_if_it_were_the_last(acceptances: tuple[Acceptance, ...]) -> None:
    points = eventful()
    seen = set()
    for t, night in enumerate(replay(panel(points), "fuchs", acceptances, BAND)):
        known = baselines_of(each for each in acceptances if each.time < moment(t))
        assert night == judge(until(points, t), "fuchs", known, BAND), f"night {t}"
        seen |= {series.verdict for series in night.series}
    assert t == NIGHTS - 1
    assert {Verdict.PASS, Verdict.MISSING, Verdict.INVALID, Verdict.FAIL} <= seen
