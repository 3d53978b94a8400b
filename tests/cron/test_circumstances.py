"""Nights that differ in their circumstances are nights of one series."""

from __future__ import annotations

import math
import random
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from npc.cron.judge import judge_last_night
from npc.cron.series import panel
from npc.cron.verdict import NightVerdict
from npc.records.history import History, of_night
from npc.records.record import Record
from npc.records.verdicts import Verdict

BEGUN = datetime(2026, 10, 1, 2, 30, tzinfo=timezone.utc)
NIGHTS = 21


def night_verdict(folder: Path, circumstances: list[dict[str, str]], case: str = "tcp_bw") -> NightVerdict:
    """The verdict on the last of healthy nights, of which each had the next of the circumstances."""
    chance = random.Random(3)
    history = History(folder)
    for night in range(NIGHTS):
        moment = (BEGUN + timedelta(days=night)).isoformat()
        records = [
            Record(
                time=moment, platform="fuchs", benchmark="qperf", case=case, metric="bandwidth",
                value=1e9 * math.exp(0.01 * chance.gauss(0, 1)), unit="B/s", size=65536, nodes=2,
                hosts=("n1", "n2"), sample=sample, params=circumstances[night % len(circumstances)],
            )
            for sample in range(3)
        ]  # fmt: skip
        history.append(of_night(records, f"night{night:03d}"))
    verdict = judge_last_night(panel(history.points()), "fuchs")
    history.close()
    return verdict


@pytest.mark.parametrize(
    "circumstances",
    [
        [{"server_cpus": cpus, "client_cpus": cpus} for cpus in ("0-3", "4-7", "0-3,8", "0")],
        [{"server_cpus": "0-1", "client_cpus": "0-1"}] * (NIGHTS - 1) + [{"server_cpus": "0"}],
        [{"received": f"{0.98 + share / 1000:.3f}"} for share in range(11)],
        [{"interface": "ens1f0"}, {"interface": "ens2f0"}],
        [{"blas": "/usr/lib/libblas.so.3"}, {"blas": "/opt/openblas/libopenblas.so.0"}],
    ],
    ids=["other CPUs every night", "the last night under taskset", "received", "interface", "blas"],
)
def test_healthy_nights_in_other_circumstances_pass(
    circumstances: list[dict[str, str]], tmp_path: Path
) -> None:
    verdict = night_verdict(tmp_path / "fuchs", circumstances)
    (series,) = verdict.series
    assert (verdict.verdict, verdict.exit_code) == (Verdict.PASS, 0)
    (usual,) = night_verdict(tmp_path / "usual", [{}]).series
    assert (series.nights, series.reference) == (usual.nights, usual.reference)


def test_another_setting_is_still_another_series_and_the_one_that_was_left_out_is_missed(
    tmp_path: Path,
) -> None:
    circumstances = [{"runtime": "2"}] * (NIGHTS - 1) + [{"runtime": "5"}]
    verdict = night_verdict(tmp_path / "fuchs", circumstances)
    assert (verdict.verdict, verdict.exit_code) == (Verdict.MISSING, 11)
