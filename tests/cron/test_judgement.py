"""The judgement: verdicts of made-up histories, and what step detection, change points and blame promise."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from npc.cron.acceptance import InvalidAcceptance, accept, baselines_of, read_acceptances
from npc.cron.acceptance_bands import band_of, bands_of
from npc.cron.detection import THRESHOLD
from npc.cron.judge import judge_last_night, replay
from npc.cron.localise import localise_nights
from npc.cron.series import label, matches, panel
from npc.cron.step_detection import StepDetection
from npc.cron.verdict import NightVerdict, SeriesVerdict
from npc.machine.fabric import parse
from npc.machine.platform import InvalidPlatform, Platform, read_platform
from npc.records.history import HistoryRow
from npc.records.series import Series
from npc.records.verdicts import Verdict, to_text
from tests.bench.acceptance import (
    accuse,
    accuse_innocent,
    beginnings,
    delays_of_change,
    simulate,
    year_of_changes,
)
from tests.made import noise
from tests.made.history import KEY
from tests.paths import ROOT

LATENCY = KEY._replace(case="tcp_lat", metric="latency")
PAIR = ("n1", "n2")


def quiet(nights: int, seed: int = 1, sigma: float = 0.01) -> list[float]:
    """Healthy nights, relative to the usual."""
    return list(np.exp(sigma * np.random.default_rng(seed).standard_normal(nights)).tolist())


def points(
    values: Sequence[float | None], key: Series = KEY, usual: float = 1e9, status: str = "failed: gone"
) -> list[HistoryRow]:
    """Nights of one sample each; None did not work."""
    return [
        HistoryRow(
            key, f"night{t:03d}", f"2026-01-01T00:{t // 60:02d}:{t % 60:02d}+00:00",
            None if value is None else usual * value, "ok" if value is not None else status, PAIR, False,
        )
        for t, value in enumerate(values)
    ]  # fmt: skip


def again(night: int, value: float, key: Series = KEY, usual: float = 1e9) -> HistoryRow:
    """The re-measurement of a night."""
    return points([None] * night + [value], key, usual)[-1]._replace(remeasured=True)


def judged(rows: Sequence[HistoryRow], **how: object) -> NightVerdict:
    return judge_last_night(panel(rows), "fuchs", **how)  # type: ignore[arg-type]


def of(rows: Sequence[HistoryRow], **how: object) -> SeriesVerdict:
    """The verdict on the only series."""
    (series,) = judged(rows, **how).series
    return series


def test_as_always() -> None:
    verdict = of(points(quiet(30)))
    assert verdict.verdict is Verdict.PASS
    assert verdict.reference == pytest.approx(1e9, rel=0.01)
    assert verdict.noise == pytest.approx(0.01, rel=0.5)
    assert verdict.hosts == PAIR


def test_too_few_nights_are_said_to_be() -> None:
    verdict = of(points(quiet(5)))
    assert (verdict.verdict, verdict.reference) == (Verdict.PASS, None)
    assert verdict.reason == "4 nights to compare with, too few to judge: 8 quiet ones are needed"


def test_worse_once_is_watched_and_worse_twice_degraded() -> None:
    once = points([*quiet(30), 0.8])
    assert of(once).verdict is Verdict.WATCH
    assert of(once).hit and of(once).again is None and judged(once).exit_code == 0
    confirmed = [*once, again(30, 0.81)]
    assert of(confirmed).verdict is Verdict.WATCH and of(confirmed).again is not None
    twice = of([*points([*quiet(30), 0.8, 0.79]), again(30, 0.81), again(31, 0.8)])
    assert (twice.verdict, twice.direction, twice.since) == (Verdict.DEGRADED, "worse", "night030")
    assert twice.effect == pytest.approx(-0.2, abs=0.02)
    assert of(points([*quiet(30), 0.8, 0.79])).verdict is Verdict.DEGRADED, "without second draws, too"


def beside_others(rows: Sequence[HistoryRow], *nights: int, again: bool = True) -> list[HistoryRow]:
    """The same, but others took 12 % of the CPUs in some nights, in the re-measurement too or not."""
    names = {f"night{night:03d}" for night in nights}
    return [
        point._replace(disturbed=0.12) if point.run in names and (again or not point.remeasured) else point
        for point in rows
    ]


def test_what_others_disturbed_is_measured_again_and_then_does_not_count() -> None:
    once = beside_others(points([*quiet(30), 0.8]), 30)
    assert (of(once).verdict, of(once).disturbed, of(once).disturbed_on) == (
        Verdict.WATCH,
        0.12,
        (PAIR[::-1],),
    )
    assert of(once).reason.endswith("; others took 12 % of the CPUs")
    verdict = of(beside_others([*once, again(30, 1.001)], 30, again=False))
    assert (verdict.verdict, verdict.disturbed, verdict.value) == (Verdict.PASS, 0.0, pytest.approx(1.001e9))
    young = of(beside_others(points(quiet(3)), 2))
    assert young.disturbed_on and young.verdict is Verdict.PASS, (
        "also before there is anything to compare with"
    )
    (series,) = judged(beside_others(points(quiet(30)), 28, 29)).series
    assert series.disturbed and not series.disturbed_on, "what is so every night is how the machine is"


def test_numbers_that_others_disturbed_twice_call_nothing_degraded() -> None:
    """Nor FAIL: whether the machine is worse cannot be told from them."""
    twice = [*points([*quiet(30), 0.8, 0.79]), again(30, 0.81), again(31, 0.8)]
    assert of(twice).verdict is Verdict.DEGRADED
    judged_twice = of(beside_others(twice, 31))
    assert (judged_twice.verdict, judged_twice.direction) == (Verdict.INVALID, "worse")
    assert (
        judged_twice.reason.startswith("worse in two of three nights")
        and "others took 12 %" in judged_twice.reason
    )
    assert judged(beside_others(twice, 31)).exit_code == 12
    assert of(beside_others(twice, 31, again=False)).disturbed == 0.0
    everything = many(60, 3)
    for row in everything:
        row[-2:] = [0.85 * value for value in row[-2:]]
    for disturbed, verdict in (([], Verdict.DEGRADED), ([59], Verdict.INVALID)):
        night = judge_last_night(panel(beside_others(every_series(everything), *disturbed)), "fuchs")
        assert night.common and night.common.verdict is verdict
        assert night.common.disturbed == 60 * len(disturbed)


def test_what_is_invalid_because_of_others_is_measured_again_too() -> None:
    status = "invalid: others used 2.0 of the 2 CPUs during the launch"
    bad = points([None], status=status)[0]._replace(run="night030", time="2026-01-01T00:00:30+00:00")
    once = [*points(quiet(30)), bad]
    assert (of(once).verdict, of(once).disturbed_on) == (Verdict.INVALID, (PAIR,))
    verdict = of([*once, again(30, 1.001)])
    assert (verdict.verdict, verdict.value, verdict.disturbed_on) == (
        Verdict.PASS,
        pytest.approx(1.001e9),
        (),
    )
    twice = of([*once, bad._replace(remeasured=True)])
    assert twice.verdict is Verdict.INVALID
    lied = of([*once[:-1], bad._replace(status="invalid: faster than the link"), again(30, 1.001)])
    assert lied.verdict is Verdict.INVALID, "another lie is one, however often it is measured"
    lasting = [*once, bad._replace(run="night031", time="2026-01-01T00:00:31+00:00")]
    assert not of(lasting).disturbed_on, "what is so every night is how the machine is"


def test_on_each_node_what_nobody_disturbed_counts() -> None:
    """One of three nodes was disturbed, and its second measurement was not."""
    key = KEY._replace(benchmark="stream", case="triad", nodes=1)
    (first,) = points([1.0], key)
    night = [
        first._replace(hosts=(name,), value=value) for name, value in (("n1", 9.0), ("n2", 10.0), ("n3", 2.0))
    ]
    night[2] = night[2]._replace(disturbed=0.3)
    (series,) = judged(night).series
    assert (series.value, series.disturbed, series.disturbed_on) == (9.0, 0.0, (("n3",),)), series
    night.append(night[2]._replace(value=9.5, remeasured=True, disturbed=0.0))
    (series,) = judged(night).series
    assert (series.value, series.again, series.disturbed_on) == (9.5, None, ())


def test_an_outlier_that_is_gone_when_measured_again_is_forgotten() -> None:
    values = quiet(32)
    values[30] = values[31] = 0.7
    verdict = of([*points(values), again(30, 1.0), again(31, 1.002)])
    assert verdict.verdict is Verdict.PASS


def test_more_latency_is_worse_and_less_is_not() -> None:
    slower = [1 / value for value in (*quiet(30), 0.8, 0.8)]
    worse = of([*points(slower, LATENCY, 1e-5), *(again(night, 1.25, LATENCY, 1e-5) for night in (30, 31))])
    assert (worse.verdict, worse.direction) == (Verdict.DEGRADED, "worse")
    assert worse.effect == pytest.approx(0.25, abs=0.03)
    faster = of(points([*quiet(30), *[0.8] * 8], LATENCY, 1e-5))
    assert (faster.verdict, faster.direction) == (Verdict.CHANGED, "better")
    assert faster.effect == pytest.approx(-0.2, abs=0.03)
    assert faster.since == "night030"


def test_a_lasting_fault_does_not_become_normal_by_itself() -> None:
    verdict = of(points([*quiet(40), *(0.9 * value for value in quiet(200, 2))]))
    assert (verdict.verdict, verdict.since) == (Verdict.DEGRADED, "night040")
    assert verdict.reference == pytest.approx(1e9, rel=0.01)


def verdicts_by_night(values: Sequence[Sequence[float]]) -> list[dict[str, SeriesVerdict]]:
    """Of each night, the series' verdicts by case."""
    nights = replay(panel(every_series(values)), "fuchs")
    return [{series.key.case: series for series in night.series} for night in nights]


@pytest.mark.slow
def test_a_fault_that_stays_is_degraded_until_a_week_is_as_before() -> None:
    """5 % less, with 2 % of noise, for 90 nights: single nights are often as good as before.

    Eight series: what more have in common is one event.
    """
    first, _, _ = noise.nights("independent", np.random.default_rng(1), (8, 220), outliers=0.0)
    first[:, 100:190] += math.log(0.95)
    nights = verdicts_by_night(np.exp(first).tolist())
    begun = [case for case, series in nights[150].items() if series.verdict is Verdict.DEGRADED]
    assert len(begun) >= 5
    for case in begun:
        of_case = [night[case] for night in nights]
        assert all(series.verdict is Verdict.DEGRADED for series in of_case[150:190])
        assert {series.since for series in of_case[150:190]} == {of_case[150].since}, "it does not move"
        assert of_case[150].since >= "night096"
        assert of_case[189].effect == pytest.approx(-0.05, abs=0.04)
        healed = [series.verdict is not Verdict.DEGRADED for series in of_case[190:]]
        assert healed == sorted(healed) and not healed[0] and healed[12], "once and for all"


def test_a_fault_of_every_other_night_is_one_fault_and_three_good_nights_heal_nothing() -> None:
    nights = [*quiet(40), 0.8, 0.8, *([1.0, 0.8] * 10), 1.0, 1.0, 1.0]
    by_night = [night["c0"] for night in verdicts_by_night([nights])]
    assert {(series.verdict, series.since) for series in by_night[42:]} == {(Verdict.DEGRADED, "night040")}
    verdict = by_night[-1]
    assert "the mean of 7 nights is not as before yet" in verdict.reason
    assert verdict.effect == pytest.approx(-0.1, abs=0.03), "how bad it was on the average"
    assert of(points([*nights, *quiet(6, 4)])).verdict is Verdict.PASS
    missed = judged(points([*nights[:45], None]))
    assert missed.series[0].verdict is Verdict.MISSING, "nobody knows whether it is still so"


def test_missing_and_invalid_are_no_pass() -> None:
    missing = judged(points([*quiet(20), None]))
    assert (missing.verdict, missing.series[0].reason) == (Verdict.MISSING, "failed: gone")
    assert missing.failures == {"qperf": ("failed: gone",)}
    assert judged(points([*quiet(20), None], status="invalid: a lie")).verdict is Verdict.INVALID
    nights = panel(points(quiet(20)), night=("night999", "2026-02-01T00:00:00+00:00"))
    nothing = judge_last_night(nights, "fuchs")
    assert (nothing.verdict, nothing.run) == (Verdict.MISSING, "night999")


def test_a_launch_that_lost_a_node_is_no_pass_whatever_the_others_gave() -> None:
    lost = points([None], status="failed: lost n2: Connection timed out")
    night = judged([*points([1.0]), *lost])
    assert (night.verdict, night.series[0].verdict) == (Verdict.MISSING, Verdict.PASS)
    assert dict(night.lost) == {"n2": "Connection timed out"}
    for words, node in (
        ("its node n7.lab after 25s", {"n7.lab": "after 25s"}),
        ("a node of n[1-2] at once", {}),
    ):
        lost = points([None], status=f"failed: job 12 lost {words}")
        assert dict(judged([*points([1.0]), *lost]).lost) == node


def test_an_older_night_is_judged_by_what_was_known_then() -> None:
    """A series that began later is not missed, and later failures accuse nobody."""
    later = points([None] * 15 + [1.0] * 5, KEY._replace(case="later"))[15:]
    gone = points([None] * 20, KEY._replace(case="gone"), status="failed: no route to host")[12:]
    nights = panel([*points(quiet(20)), *later, *gone], night=("night010", "2026-01-01T00:00:10+00:00"))
    assert (len(nights.runs), nights.runs[-1]) == (11, "night010")
    night = judge_last_night(nights, "fuchs")
    assert [(series.key, series.verdict) for series in night.series] == [(KEY, Verdict.PASS)]
    assert not night.suspects and not night.failures


def test_nights_without_any_usable_number_are_judged_too() -> None:
    unusable = points([1.0, 1.0, 1.0])
    unusable = [
        point._replace(value=None, status="invalid: others used 2.0 of the 2 CPUs") for point in unusable
    ]
    assert judged(unusable).verdict is Verdict.INVALID
    lies = [point._replace(status="invalid: others used 2.0 of the 2 CPUs") for point in points([1.0, 1.0])]
    night = judged(lies)
    assert (night.verdict, night.exit_code, night.series[0].verdict) == (Verdict.INVALID, 12, Verdict.INVALID)
    sent = KEY._replace(params='{"side": "send"}')
    beside = [point._replace(key=sent) for point in lies]
    assert [series.key for series in judged([*points([1.0, 1.0]), *beside]).series] == [KEY]


def test_a_benchmark_that_broke_is_the_reason_of_its_missing_series() -> None:
    broken = points([None] * 21)[-1]._replace(
        key=KEY._replace(case="", metric="time"), status="failed: no job"
    )
    night = judged([*points(quiet(20)), broken])
    assert night.verdict is Verdict.MISSING
    assert night.series[0].reason == "failed: no job"


def test_beyond_a_band_fails_unless_the_second_measurement_is_inside() -> None:
    bands = bands_of(Platform(name="fuchs", bands={"qperf tcp_bw 64K": {"low": 0.9e9}}))
    low = points([*quiet(3), 0.85])
    verdict = of(low, bands=bands)
    assert (verdict.verdict, verdict.floor) == (Verdict.FAIL, 0.9e9)
    assert "'qperf tcp_bw 64K'" in verdict.reason and "900 MB/s" in verdict.reason
    assert of([*low, again(3, 1.0)], bands=bands).verdict is Verdict.PASS
    assert of([*low, again(3, 0.86)], bands=bands).verdict is Verdict.FAIL
    assert judged(low, bands=bands).exit_code == 14
    latency = points([1e-9, 1e-9], LATENCY._replace(case="tcp_bw"))
    assert {series.verdict for series in judged([*points(quiet(2)), *latency], bands=bands).series} == {
        Verdict.PASS
    }


@pytest.mark.parametrize("band", [{}, {"lo": 1}, {"low": "6 GB/s"}, {"low": True}, 6e9])
def test_a_band_that_is_none_is_refused_by_its_key(band: object) -> None:
    with pytest.raises(InvalidPlatform, match=r"bands\.'qperf tcp_bw 4M'"):
        bands_of(Platform(name="x", bands={"qperf tcp_bw 4M": band}))


@pytest.mark.parametrize(
    "name",
    ["qperf", "qperf tcp_bw", "qperf tcp_bw bandwidth", "qperf tcp_bw nodes=2", "qperf tcp_bw ..",
     "qperf tcp_bw 4M..64K", "* * * * 4M", "qperf tcp_bw 4Q"],
)  # fmt: skip
def test_a_band_without_a_size_is_refused_with_what_to_write(name: str) -> None:
    with pytest.raises(InvalidPlatform, match=r"names no size.*for every size"):
        bands_of(Platform(name="x", bands={name: {"low": 1e9}}))


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("qperf rc_bw 4M", [2**22]),
        ("qperf rc_* bandwidth 4194304", [2**22]),
        ("qperf rc_bw 64K..1M", [2**16, 2**20]),
        ("qperf rc_bw 1M.. nodes=1", [2**20, 2**22]),
        ("qperf rc_bw ..64K", [1, 2**16]),
        ("qperf rc_bw *", [None, 1, 2**16, 2**20, 2**22]),
        ("qperf rc_bw 4M nodes=2", []),
    ],
)
def test_a_band_holds_for_its_sizes_only(name: str, sizes: list[int | None]) -> None:
    (band,) = bands_of(Platform(name="x", bands={name: {"low": 1e9}}))
    keys = [KEY._replace(case="rc_bw", size=size, nodes=1) for size in (None, 1, 2**16, 2**20, 2**22)]
    assert [key.size for key in keys if band_of(key, [band], keys)] == sizes


def test_bands_that_ship_name_sizes_at_which_they_were_measured() -> None:
    (band,) = bands_of(read_platform(ROOT / "platforms/fuchs-csc/platform.toml"))
    assert (band.name, band.sizes, band.low) == ("qperf rc_bw 4M", (2**22, 2**22), 6.03e9)
    for file in (ROOT / "platforms").glob("*/platform.toml"):
        bands_of(read_platform(file))


def test_the_baseline_moves_only_when_somebody_accepts_it(tmp_path: Path) -> None:
    nights = points([*quiet(40), *(0.85 * value for value in quiet(30, 2))])
    before = judged(nights)
    assert before.verdict is Verdict.DEGRADED
    with pytest.raises(InvalidAcceptance, match="--reason"):
        accept(tmp_path, before, " ", "ada")
    with pytest.raises(InvalidAcceptance, match="names no series"):
        accept(tmp_path, before, "because", "ada", "osu")
    accept(tmp_path, before, "half the cables are gone", "ada", "qperf tcp_*")
    (acceptance,) = read_acceptances(tmp_path)
    assert (acceptance.who, acceptance.reason) == ("ada", "half the cables are gone")
    baselines = baselines_of([acceptance])
    assert baselines[KEY].since == "night040"
    assert baselines[KEY].value == pytest.approx(0.85e9, rel=0.02)
    after = of(nights, baselines=baselines)
    assert after.verdict is Verdict.PASS
    assert after.reference == pytest.approx(0.85e9, rel=0.01)
    worse = points([*quiet(40), *(0.85 * value for value in quiet(30, 2)), 0.7, 0.7])
    failed = of(worse, baselines=baselines)
    assert failed.verdict is Verdict.FAIL
    assert "accepted 8" in failed.reason


def test_half_a_line_of_an_acceptance_is_none(tmp_path: Path) -> None:
    night = judged(points(quiet(20)))
    accept(tmp_path, night, "first", "ada")
    path = tmp_path / "accepted.jsonl"
    path.write_bytes(path.read_bytes() + b'{"time": "20')
    assert [acceptance.reason for acceptance in read_acceptances(tmp_path)] == ["first"]
    accept(tmp_path, night, "second", "ada")
    assert [acceptance.reason for acceptance in read_acceptances(tmp_path)] == ["first", "second"]
    path.write_text("nonsense\n")
    with pytest.raises(InvalidAcceptance, match=r"accepted\.jsonl:1"):
        read_acceptances(tmp_path)


def test_who_gives_a_series_up_misses_it_no_more(tmp_path: Path) -> None:
    other = points(quiet(21, 3), LATENCY)
    gone = judged([*points(quiet(20)), *other])
    assert gone.verdict is Verdict.MISSING
    accept(tmp_path, gone, "the old tool", "ada", "qperf tcp_bw")
    baselines = baselines_of(read_acceptances(tmp_path))
    left = judged([*points(quiet(20)), *other], baselines=baselines)
    assert [series.key for series in left.series] == [LATENCY]
    back = judged([*points(quiet(21)), *other], baselines=baselines)
    assert len(back.series) == 2


def test_a_change_of_what_may_be_zero_is_told_in_its_own_numbers() -> None:
    """Retransmits of a real night: 1460 tonight, 803.6 once, 0 since; judged by what they exceed ten by."""
    lost = KEY._replace(case="tcp", metric="retransmits", benchmark="iperf3")
    before = [803.6 * value for value in quiet(20, sigma=0.02)]
    gone = of(points([*before, *[0.0] * 20, 1460.0], lost, 1.0))
    assert (gone.verdict, gone.direction, gone.effect) == (Verdict.CHANGED, "better", pytest.approx(-1.0))
    assert gone.reference == pytest.approx(803.6, rel=0.05)
    assert "0 instead of 80" in gone.reason and "since night020" in gone.reason
    come = of(points([*[0.0] * 20, *before], lost, 1.0))
    assert (come.direction, come.reference, come.effect) == ("worse", 0.0, None)  # from nothing
    few = of(points([2.0] * 20 + [6.0] * 20, lost, 1.0))
    assert (few.direction, few.reference, few.effect) == ("worse", pytest.approx(2), pytest.approx(2.0))


def test_patterns_name_series_by_words_from_the_left() -> None:
    named = KEY._replace(params='{"runtime": "2"}')
    assert label(named) == "qperf tcp_bw bandwidth 64 KiB nodes=2 runtime=2"
    for pattern in (
        "*",
        "qperf",
        "qperf tcp_*",
        "* * bandwidth 64K",
        label(named),
        "* * * 64KiB",
        "qperf * * 65536 runtime=2 nodes=2",
    ):
        assert matches(pattern, named), pattern
    for pattern in ("osu", "qperf tcp_lat", "qperf tcp_bw latency", "* * * 1K", "* runtime=3", "* a b c d"):
        assert not matches(pattern, named), pattern


def test_the_verdict_is_plain_json() -> None:
    slow = [*points([*quiet(30), 0.7, 0.7]), again(30, 0.7), again(31, 0.71)]
    night = judged([*slow, *points(quiet(32), LATENCY, 1e-5)])
    plain = json.loads(to_text(night.document()))
    assert (plain["schema"], plain["verdict"], plain["exit_code"]) == (1, "DEGRADED", 13)
    assert plain["counts"]["DEGRADED"] == 1 and plain["counts"]["PASS"] == 1
    worst = plain["series"][0]
    assert (worst["benchmark"], worst["case"], worst["verdict"]) == ("qperf", "tcp_bw", "DEGRADED")


def test_many_series_at_once_need_more_evidence_each() -> None:
    """Benjamini–Hochberg: the same evidence counts for less among a thousand series."""
    rng = np.random.default_rng(4)
    few = [*points([*quiet(60, 5, 0.02), 0.925, 0.92])]
    many = list(few)
    for case in range(200):
        key = KEY._replace(case=f"c{case}")
        many += points(np.exp(0.02 * rng.standard_normal(62)).tolist(), key)
    alone = of(few)
    assert alone.score is not None and alone.chance is not None
    among = next(series for series in judged(many).series if series.key == KEY)
    assert among.score == pytest.approx(alone.score)
    assert (alone.score >= THRESHOLD) == (alone.verdict is Verdict.DEGRADED)
    if alone.chance > 0.01 / 201:
        assert among.verdict is not Verdict.DEGRADED


# -- what step detection and the change points promise -------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["AR(1), 0.9", "weekly wave", "two levels", "skewed (gamma, 2)"])
def test_healthy_series_are_left_alone_whatever_their_noise(kind: str) -> None:
    year = simulate(kind, 1, (60, 60 + 365))
    assert beginnings(year.alarms[:, 60:]) <= 9  # 3 at 0.05 a year; Poisson's 99.9 %
    assert year.again < 0.1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "least"), [("independent", 0.45), ("AR(1), 0.9", 0.45), ("weekly wave", 0.6)]
)
def test_a_step_of_five_percent_is_seen_in_three_nights(kind: str, least: float) -> None:
    scores = simulate(kind, 2, (60, 60 + 365), 0.05).scores
    assert (scores[:, -3:] >= THRESHOLD).any(axis=1).mean() >= least


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["AR(1), 0.9", "independent"])
def test_one_bad_night_is_never_degraded_however_deep(kind: str) -> None:
    """Where nights are like the ones before, the best estimate of a step looks at one night before others."""
    first, second, _ = noise.nights(kind, np.random.default_rng(5), (40, 200), outliers=0.0)
    for draws in (first, second):
        draws[:, 197] -= 0.5
    steps = StepDetection(40, THRESHOLD)
    for t in range(200):
        night = steps.night(first[:, t], np.where(first[:, t] < steps.limit, second[:, t], np.nan))
        assert t < 197 or not (night.score >= THRESHOLD).any()


def test_real_nights_of_a_machine_that_others_use_are_left_alone() -> None:
    """qperf, iperf3, STREAM and likwid-bench again and again, two draws each, while builds came and went:
    values differ by a factor, and nothing of the machine has changed."""
    draws: dict[str, dict[int, dict[int, float]]] = {}
    with (ROOT / "tests/data/nights/shared.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            night = draws.setdefault(row["series"], {}).setdefault(int(row["night"]), {})
            night[int(row["draw"])] = math.log(float(row["value"])) * (-1 if "lat" in row["series"] else 1)
    alarms, judged_nights = 0, 0
    for nights in draws.values():
        steps, before = StepDetection(1, THRESHOLD), False
        for pair in nights.values():
            hit = pair[1] < steps.limit[0]
            judged_night = steps.night(
                np.array([pair[1]]), np.array([pair[2] if hit and 2 in pair else np.nan])
            )
            alarm = bool(judged_night.score[0] >= THRESHOLD)
            alarms, before = alarms + (alarm and not before), alarm
            judged_nights += not np.isnan(judged_night.location[0])
    assert judged_nights > 450 and len(draws) == 7
    assert alarms == 0


@pytest.mark.slow
def test_change_points_are_seldom_false_and_soon_true() -> None:
    for kind in ("independent", "AR(1), 0.98"):
        assert year_of_changes(kind, 1, 10) <= 1
    assert np.median(delays_of_change("independent", 1, 10, 0.10)) <= 7
    assert np.median(delays_of_change("independent", 1, 10, 0.10, 60)) <= 49


# -- what all series have in common --------------------------------------------------------------------


def many(nights: int, seed: int, series: int = 60) -> list[list[float]]:
    """Series × nights that go up and down together by 1 %, and by 1.5 % each for itself."""
    rng = np.random.default_rng(seed)
    together = 0.01 * rng.standard_t(5, nights)
    values: list[list[float]] = np.exp(together + 0.015 * rng.standard_normal((series, nights))).tolist()
    return values


def every_series(values: Sequence[Sequence[float]]) -> list[HistoryRow]:
    return [point for n, row in enumerate(values) for point in points(row, KEY._replace(case=f"c{n}"))]


def in_one_history(values: Sequence[Sequence[float]]) -> NightVerdict:
    return judged(every_series(values))


def test_a_night_in_which_everything_is_slower_is_one_event_with_one_line() -> None:
    nights = many(60, 3)
    assert in_one_history(nights).common is None
    for row in nights:
        row[-1] *= 0.9
    night = in_one_history(nights)
    assert night.common and night.verdict is Verdict.WATCH
    assert night.common.effect == pytest.approx(-0.1, abs=0.02)
    assert night.common.worse >= 55 and night.common.series == 60
    assert sum(series.verdict is Verdict.WATCH for series in night.series) <= 2
    assert json.loads(to_text(night.document()))["common"]["verdict"] == "WATCH"


def test_everything_slower_for_three_nights_is_degraded_and_one_worse_still_stands_out() -> None:
    nights = many(60, 4)
    for row in nights:
        row[-3:] = [0.92 * value for value in row[-3:]]
    nights[7][-3:] = [0.8 * value for value in nights[7][-3:]]
    night = in_one_history(nights)
    assert night.common and night.common.verdict is Verdict.DEGRADED
    assert night.common.since == "night057"
    assert [series.key.case for series in night.series if series.verdict is Verdict.DEGRADED] == ["c7"]


@pytest.mark.slow
def test_what_is_slower_together_stays_degraded_until_it_heals() -> None:
    nights = many(120, 5)
    for row in nights:
        row[60:90] = [0.94 * value for value in row[60:90]]
        row[75] /= 0.94
    for end, worse in ((76, True), (80, True), (90, True), (97, False), (110, False)):
        event = in_one_history([row[:end] for row in nights]).common
        is_worse = bool(event) and event.verdict is Verdict.DEGRADED
        assert is_worse == worse, end
        assert not worse or (event and event.since == "night060")


# -- blame ----------------------------------------------------------------------------------------------


def rounds(
    nights: int, slow: Sequence[str], since: int, nodes: int = 8, seed: int = 1, sending: bool = False
) -> list[HistoryRow]:
    """Random pairs of all nodes in each night; pairs with a slow node (if it sends) have a tenth less."""
    rng = np.random.default_rng(seed)
    rows = []
    for t in range(nights):
        for a, b in rng.permutation(nodes).reshape(-1, 2).tolist():
            hosts = f"n{a}", f"n{b}"
            # qperf's client sends, and the server is named first
            loss = 0.9 if t >= since and set(hosts[1:] if sending else hosts) & set(slow) else 1.0
            value = 1e9 * loss * float(np.exp(0.01 * rng.standard_normal()))
            rows.append(HistoryRow(KEY, f"night{t:03d}", f"2026-01-{t + 1:02d}", value, "ok", hosts, False))
    return rows


def test_nobody_is_accused_of_a_healthy_history() -> None:
    assert not [suspect for suspect in localise_nights(panel(rounds(25, [], 0))) if suspect.named]


@pytest.mark.parametrize("sigma", [0.002, 0.01])
@pytest.mark.slow
def test_a_disturbance_that_lasts_until_it_is_measured_again_is_one(sigma: float) -> None:
    """Counted twice, two such nights of one node would name it after 10 to 12 % of these histories."""
    assert sum(accuse_innocent(seed, sigma) for seed in range(200)) <= 2


def test_two_slow_nights_are_not_enough_to_name_a_node_and_three_are() -> None:
    slow = [(f"n{a}", f"n{b}") for a, b in ((3, 1), (3, 5), (3, 2))]
    others = [(f"n{a}", f"n{b}") for a, b in ((1, 2), (4, 5), (6, 1), (2, 4), (5, 6), (3, 4), (3, 6), (1, 4))]
    healthy = [
        point._replace(hosts=hosts) for point, hosts in zip(points(quiet(20)), 3 * others, strict=False)
    ]
    for nights in (2, 3):
        bad = [
            point._replace(hosts=hosts)
            for t, hosts in enumerate(slow[:nights])
            for point in (*points([None] * (20 + 2 * t) + [0.8])[-1:], again(20 + 2 * t, 0.8))
        ]
        between = [
            point._replace(hosts=("n4", "n5"))
            for t in range(nights)
            for point in points([None] * (21 + 2 * t) + [1.0])[-1:]
        ]
        first, *_ = localise_nights(panel([*healthy, *bad, *between]))
        assert (first.kind, first.name, len(first.runs)) == ("node", "n3", nights)
        assert first.named is (nights == 3)


def test_the_node_that_was_there_whenever_it_was_slow_is_named() -> None:
    first, *_ = localise_nights(panel(rounds(25, ["n3"], 21)))
    assert (first.kind, first.name, first.named) == ("node", "n3", True)
    assert first.slowdown == pytest.approx(0.1, abs=0.02)
    assert first.low is not None and first.high is not None and first.low < 0.1 < first.high
    assert first.since == "night021"
    assert "4 nights" in first.evidence


def test_a_node_that_is_slow_when_it_sends_is_named_so_and_no_link_of_it() -> None:
    nights = [localise_nights(panel(rounds(30, ["n3"], 18, seed=seed, sending=True))) for seed in range(8)]
    named = [suspect for night in nights for suspect in night if suspect.named]
    assert {suspect.whom for suspect in named} == {"node n3 as sender"}
    assert len(named) >= 4
    assert all(suspect.slowdown == pytest.approx(0.1, abs=0.02) for suspect in named)
    # where it met too few partners, a link explains as much: that is said, and the matrix of pairs asks
    links = [night[0] for night in nights if night and night[0].kind == "link"]
    assert any("node n3 as sender" in link.rivals for link in links)


def test_one_bad_node_degrades_a_night_whose_medians_are_well() -> None:
    night = judge_last_night(panel(rounds(25, ["n3"], 21, nodes=40)), "fuchs")
    assert {series.verdict for series in night.series} == {Verdict.PASS}
    assert (night.verdict, night.suspects[0].name) == (Verdict.DEGRADED, "n3")


def test_what_cannot_be_told_apart_is_not_named() -> None:
    elsewhere = [point._replace(hosts=("n3", "n4")) for point in points(quiet(20))]
    suspects = localise_nights(panel([*elsewhere, *points([*[None] * 20, 0.7, 0.7, 0.7])[20:]]))
    assert suspects and not any(suspect.named for suspect in suspects)
    assert any("n2" in rival or "link" in rival or "everything" in rival for rival in suspects[0].rivals)


def test_a_bad_switch_is_one_suspect_not_many() -> None:
    topology = parse("leaf1: n[0-3]\nleaf2: n[4-7]\nleaf3: n[8-11]\n")
    slow = ["n0", "n1", "n2", "n3"]
    first, *rest = localise_nights(panel(rounds(25, slow, 15, nodes=12)), topology)
    assert (first.kind, first.name, first.nodes) == ("switch", "leaf1", tuple(slow))
    assert not [suspect for suspect in rest if suspect.named]


def test_a_platform_that_is_slow_as_a_whole_accuses_no_node() -> None:
    everyone = [f"n{number}" for number in range(8)]
    assert not [suspect for suspect in localise_nights(panel(rounds(25, everyone, 22))) if suspect.named]


def test_a_node_that_fails_is_named_by_counting() -> None:
    rows = rounds(10, [], 0)
    rows = [
        point._replace(value=None, status="failed: no route") if "n5" in point.hosts and t >= 20 else point
        for t, point in enumerate(rows)
    ]
    first, *_ = localise_nights(panel(rows[::-1]))
    assert (first.name, first.slowdown, first.named) == ("n5", None, True)
    assert list(first.runs) == sorted(first.runs) and first.since == first.runs[0]


@pytest.mark.slow
def test_the_bad_node_of_two_hundred_leads_the_list() -> None:
    outcomes = [accuse(seed, 0.10, 2) for seed in range(10)]
    assert sum(first for first, _, _ in outcomes) >= 9
