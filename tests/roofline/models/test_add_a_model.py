"""docs/add-a-model.md, carried out: its model fits, and is held against the others."""

from __future__ import annotations

import re
import sys
import types

import numpy as np
import pytest

from npc.roofline.models import hockney
from npc.roofline.models.fitted import FittedModel, relative_errors
from npc.roofline.models.piecewise import Sweep
from tests.paths import ROOT

PAGE = ROOT / "docs" / "add-a-model.md"


@pytest.fixture
def power() -> types.ModuleType:
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module = types.ModuleType("power")
    sys.modules["power"] = module  # where dataclasses look for the annotations of their fields
    exec(compile(code, str(PAGE), "exec"), module.__dict__)
    return module


def test_the_model_of_the_page_finds_its_own_parameters(power: types.ModuleType) -> None:
    """1 µs + 2 ns · m^0.8, with 1 % of noise in eight launches."""
    rng = np.random.default_rng(1)
    sizes = 2.0 ** np.arange(21)
    times = (1e-6 + 2e-9 * sizes**0.8)[:, None] * np.exp(rng.normal(0, 0.01, (21, 8)))
    fitted = power.fit(Sweep(sizes, times))
    assert isinstance(fitted, FittedModel)
    alpha, beta, gamma = (parameter.value for parameter in fitted.parameters)
    assert gamma == pytest.approx(0.8, abs=0.02)
    assert (alpha, beta) == (pytest.approx(1e-6, rel=0.02), pytest.approx(2e-9, rel=0.2))
    assert fitted.held_out_median < 0.02
    one_line = hockney.fit(Sweep(sizes, times), most=1)
    assert max(relative_errors(fitted.held_out)) < max(relative_errors(one_line.held_out))
