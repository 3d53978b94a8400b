"""How often the shares of a made-up program lie within their intervals, by family of noise.

``make bench-study``, or ``python -m tests.bench.study TRIALS``. The interval of all shares of a study is
counted as one: it covers where each of them does. ``wrong form``: how often the form was called wrong.
"""

from __future__ import annotations

import sys
import time
import zlib
from collections.abc import Mapping
from statistics import median
from typing import Any, Final

import numpy as np

from npc.observe.study.program_model import fit
from npc.observe.study.records import Study
from tests.made.studies import FIXED_CLOCK, NOISE, made_study, random_shares

#: What is different from eleven conditions, six runs each and rates with errors of 2 %.
CASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "as it is": {},
    "fixed clock": {"plan": FIXED_CLOCK},
    "three runs": {"runs": 3},
    "rates off by 5 %": {"rate_error": 0.05},
    "10 % overlap": {"overlap": 0.1},
    "40 % overlap": {"overlap": 0.4},
}


def within(study: Study, truth: Mapping[str, float]) -> tuple[bool, bool, list[float]]:
    """(whether all shares lie within their intervals, whether the form fits, the intervals' widths)."""
    model = fit(study)
    widths, covered = [], True
    for name, value, low, high, _ in model.shares:
        if value is not None and low is not None and high is not None:
            covered &= low <= truth.get(name, 0.0) + 1e-12 and truth.get(name, 0.0) <= high + 1e-12
            widths.append(high - low)
    return covered, model.fits, widths


def main(trials: int = 200) -> None:
    print(f"{'':18} {'noise':14} {'all within':>10} {'wrong form':>10} {'width':>7} {'ms a fit':>9}")
    for name, case in CASES.items():
        for kind in NOISE:
            rng = np.random.default_rng(zlib.crc32(f"{name} {kind}".encode()))
            began = time.process_time()
            found = [within(*made_study(random_shares(rng), kind, rng, **case)) for _ in range(trials)]
            taken = (time.process_time() - began) / trials
            covered = sum(each[0] for each in found) / trials
            wrong = 1 - sum(each[1] for each in found) / trials
            width = median(width for each in found for width in each[2])
            print(f"{name:18} {kind:14} {covered:10.1%} {wrong:10.1%} {width:7.3f} {1e3 * taken:9.1f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
