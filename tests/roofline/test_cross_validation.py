"""Models of the same observable against each other: on times made by one of them, that one is believed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from npc.catalogue.row import Timing
from npc.roofline.cross_validation import ModelComparison
from npc.roofline.fit_commands import fit
from npc.roofline.fits import Fits, fit_series
from npc.roofline.models.collectives import superstep
from npc.roofline.sweeps import SweepSource, SweepTimes
from tests.made.sweeps import fitted, run, saved, sweep

Array = NDArray[np.float64]

PLACE = SweepSource("fuchs", "models", "", 2, ("a", "b"), '{"ranks": "4"}')
ALPHA, BETA = 2e-6, 1e-9
SIZES = 2.0 ** np.arange(21)
MESSAGES = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64], dtype=float)
MESSAGE = ALPHA + BETA * SIZES


def pattern(case: str, times: Array, x: Array = SIZES, kind: Timing = "pattern", **place: str) -> SweepTimes:
    """Six launches with 1 % of noise."""
    rng = np.random.default_rng(len(case) + len(x))
    launches = times[:, None] * (1 + 0.01 * rng.standard_normal((len(x), 6)))
    return SweepTimes(
        PLACE._replace(case=case)._replace(**place),
        kind,
        {
            int(size): {str(launch): float(time) for launch, time in enumerate(row)}
            for size, row in zip(x, launches, strict=True)
        },
        (),
    )


def ping_pong(benchmark: str = "osu") -> SweepTimes:
    return pattern("osu_latency", MESSAGE, kind="half round trip", benchmark=benchmark)


def of(found: Fits, observable: str) -> ModelComparison:
    """The comparison of what these models predict."""
    (comparison,) = (each for each in found.comparisons if each.observable == observable)
    return comparison


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((MESSAGES + 1) * 2e-6, "Hockney"),
        (4e-6 + (MESSAGES - 1) * 0.8e-6, "LogGP"),
        (4e-6 + (MESSAGES - 1) * 0.2e-6 + np.maximum(0, MESSAGES - 8) * 0.6e-6, "LogfP"),
    ],
)
def test_a_burst_is_believed_to_whose_messages_it_is_made_of(times: Array, expected: str) -> None:
    comparison = of(fit_series([pattern("burst", times, MESSAGES)]), "burst of messages")
    assert list(comparison.errors) == ["Hockney", "LogGP", "LogfP"], "the simplest first"
    assert comparison.best == expected
    assert comparison.errors[expected] < 0.03
    assert (comparison.first, comparison.last) == (1, 64)


def test_a_superstep_is_held_against_its_messages() -> None:
    made = [sum(each.messages * (ALPHA + BETA * each.size) for each in superstep(4, int(h))) for h in SIZES]
    of_messages = of(fit_series([ping_pong(), pattern("h_relation", np.array(made))]), "superstep")
    assert (of_messages.best, of_messages.tied) == ("Hockney", ("BSP",))
    assert of_messages.errors["Hockney"] < 0.02
    slower = of(fit_series([ping_pong(), pattern("h_relation", 30e-6 + 3e-9 * SIZES)]), "superstep")
    assert (slower.best, slower.tied) == ("BSP", ())
    assert slower.errors["Hockney"] > 0.5 and slower.errors["BSP"] < 0.02


@pytest.mark.parametrize(("sharing", "expected"), [(1.0, "Hockney"), (2.0, "τ-Lop")])
def test_concurrent_transfers_are_held_against_one_alone(sharing: float, expected: str) -> None:
    large = 2.0 ** np.arange(10, 24)
    rings = [
        pattern("ring_1", ALPHA + BETA * large, large),
        pattern("ring_2", ALPHA + BETA * large, large),
        pattern("ring_3", ALPHA + sharing * BETA * large, large),
    ]
    found = fit_series(rings)
    assert of(found, "2 concurrent transfers").best == "Hockney"
    assert of(found, "3 concurrent transfers").best == expected


@pytest.mark.parametrize(("strides", "expected"), [(0.0, "Hockney"), (5e-10, "log_3P")])
def test_strided_data_are_held_against_contiguous_ones(strides: float, expected: str) -> None:
    copy = 2e-7 + 3e-11 * SIZES
    found = fit_series(
        [
            pattern("middleware", MESSAGE),
            pattern("middleware_strided", MESSAGE + 2 * strides * SIZES),
            pattern("pack", copy),
            pattern("pack_strided", copy + strides * SIZES),
        ]
    )
    assert of(found, "half round trip of strided data").best == expected


def test_a_stream_is_held_against_messages_one_at_a_time() -> None:
    pipelined = pattern("osu_bw", 0.3e-6 + 0.5e-9 * SIZES, kind="interval between messages", benchmark="osu")
    comparison = of(fit_series([ping_pong(), pipelined]), "interval between messages")
    assert (comparison.best, comparison.tied) == ("LogGP gap", ())
    assert comparison.errors["Hockney"] > 0.4


def test_a_model_without_a_rival_is_said_with_its_own_error(tmp_path: Path) -> None:
    path = saved(
        tmp_path, sweep("qperf", "tcp_bw", metric="bandwidth", sizes=[2**power for power in range(5, 20)])
    )
    (alone,) = fit_series([pattern("h_relation", 30e-6 + 3e-9 * SIZES)]).unrivalled
    assert alone.name == "BSP"
    document = fitted(path)
    error = document["fits"][0]["held_out_median"]
    assert not document["comparisons"]
    said = run(fit, path).stdout
    assert f"Without a rival: LogGP gap of qperf tcp_bw on fuchs (1 node), {100 * error:.2g} % median" in said


def test_predictions_are_made_of_what_is_compared_for_messages_alone(tmp_path: Path) -> None:
    """Comparisons of other observables change nothing in what `npc model predict` believes."""
    from npc.roofline.fit_document import predictable, read_believed, to_document

    found = fit_series([ping_pong(), pattern("h_relation", 30e-6 + 3e-9 * SIZES)])
    document = json.loads(json.dumps(to_document(found)))
    (entry,) = predictable(document)
    assert [each.model for each in read_believed(document, entry).ranges] == ["Hockney, one line"]
    assert [each["observable"] for each in document["comparisons"]] == ["half round trip", "superstep"]
