"""Every printed picture: no text is cut by its edge, none lies on another; and how ``docs/gallery`` is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from npc.figures import paper
from tests.gallery import FOLDER, PRINTED, SHOWN
from tests.paths import ROOT

#: Pixels that letters may lack at an edge, and that boxes of texts may share: they are larger than letters.
_EDGE = 1.0
_SHARED = 3.0


def corners(text: Any) -> Any:
    """The rectangle that a text covers, turned as it is: 4 × 2 pixels."""
    outer = text.get_window_extent()
    turned = text.get_rotation()
    text.set_rotation(0)
    inner = text.get_window_extent()
    text.set_rotation(turned)
    half = np.array([inner.width, inner.height]) / 2 - _SHARED / 2
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    cosine, sine = np.cos(np.radians(turned)), np.sin(np.radians(turned))
    middle = [(outer.x0 + outer.x1) / 2, (outer.y0 + outer.y1) / 2]
    return signs * half @ np.array([[cosine, sine], [-sine, cosine]]) + middle


def overlap(one: Any, other: Any) -> bool:
    """Whether two rectangles share a point: no side of either parts them."""
    for corner in (one, other):
        for side in (corner[1] - corner[0], corner[2] - corner[1]):
            a, b = one @ side, other @ side
            if a.max() <= b.min() or b.max() <= a.min():
                return False
    return True


def faults(figure: Any) -> Iterator[str]:
    """What is wrong with a figure's texts."""
    from matplotlib.text import Text

    figure.draw_without_rendering()  # legends place their texts only now
    texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
    whole = figure.bbox
    for text in texts:
        box = text.get_window_extent()
        if box.x0 < -_EDGE or box.y0 < -_EDGE or box.x1 > whole.x1 + _EDGE or box.y1 > whole.y1 + _EDGE:
            yield f"cut: {text.get_text()!r}"
    places = [(text.get_text(), corners(text)) for text in texts]
    for (one, a), (other, b) in combinations(places, 2):
        if overlap(a, b):
            yield f"{one!r} lies on {other!r}"


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What is wrong with each figure that would be written, by its name; none is drawn."""
    found: dict[str, list[str]] = {}

    def judge(figure: Any, path: Path) -> None:
        found[path.name] = list(faults(figure))

    monkeypatch.setattr(paper, "write", judge)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("make", PRINTED, ids=lambda make: make.__name__)
def test_no_text_of_a_picture_is_cut_or_lies_on_another(
    judged: dict[str, list[str]], make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path)
    assert judged
    assert not {name: wrong for name, wrong in judged.items() if wrong}


def test_a_text_that_is_cut_and_two_on_each_other_are_seen() -> None:
    with paper.new_figure((4.0, 3.0)) as figure:
        figure.text(0.5, 0.5, "one", rotation=40)
        figure.text(0.52, 0.5, "two")
        figure.text(0.9, 0.9, "too long for what is left")
        figure.text(0.1, 0.9, "apart")
        assert sorted(faults(figure)) == ["'one' lies on 'two'", "cut: 'too long for what is left'"]


def test_the_gallery_shows_every_picture_and_is_small() -> None:
    page = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
    kept = {file.name: file.stat().st_size for file in FOLDER.iterdir()}
    names = [name for names in PRINTED.values() for name in names] + list(SHOWN)
    assert set(kept) == {f"{name}.png" for name in names}
    assert sorted(re.findall(r"\]\(gallery/([\w-]+)\.png\)", page)) == sorted(names)
    assert max(kept.values()) < 100_000 and sum(kept.values()) < 1_500_000
