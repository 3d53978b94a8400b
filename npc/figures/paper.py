"""A printed picture as a whole: its title at the head, its legend and source at the foot, and its file."""

from __future__ import annotations

import contextlib
import logging
import textwrap
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from npc.files import naming, replacing

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure

#: Without this, Matplotlib prints where its cache is at every start if the home cannot be written to.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

DPI: Final = 160
_TITLE_POINTS: Final = 15.0
_SUBTITLE_POINTS: Final = 10.5
_LEGEND_POINTS: Final = 9.5
_SOURCE_POINTS: Final = 8.0
#: Rows of a legend in ordinary size that find room; of more, each is smaller.
_LEGEND_ROWS: Final = 14
#: Inches around everything, and grey for what is beside the point.
_EDGE: Final = 0.1
_FAINT: Final = "#555555"

_STYLE: Final[dict[str, Any]] = {
    "font.family": "sans-serif",
    "font.size": 11,
    "text.parse_math": False,  # a "$" in a host's name is a "$"
    "svg.fonttype": "none",  # text stays text: searchable, and small
    "svg.hashsalt": "npc",  # the same records make the same file
    "axes.spines.top": False,
    "axes.spines.right": False,
}


class Margins(NamedTuple):
    """What title, legend and source take of a picture's height, in inches."""

    #: Height of title and subtitle, at the head.
    top: float
    #: Height of legend and source, at the foot.
    bottom: float


@contextlib.contextmanager
def new_figure(inches: tuple[float, float], **settings: Any) -> Iterator[Figure]:
    """An empty figure in our style; not by pyplot: no window, no display, no global state."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=inches, dpi=DPI, **settings)
        FigureCanvasAgg(figure)
        yield figure


def head_and_foot(
    figure: Figure, title: str, subtitle: str, source: str, handles: Sequence[Any] = (), legend: str = ""
) -> Margins:
    """Write title and subtitle at the head, legend and source at the foot, and say how much room they take.

    They stay at head and foot if the figure's height changes. handles: what stands before the names of the
    legend; legend: its title.
    """
    from matplotlib.transforms import ScaledTranslation

    room = figure.get_size_inches()[0] - 2 * _EDGE
    foot: Any = figure.dpi_scale_trans
    head = foot + ScaledTranslation(0, 1, cast("Any", figure.transFigure))
    top = bottom = _EDGE
    for text, points, weight, colour in (
        (title, _TITLE_POINTS, "bold", "black"), (subtitle, _SUBTITLE_POINTS, "normal", _FAINT)
    ):  # fmt: skip
        if text:
            lines = figure.text(
                _EDGE, -top, _wrapped(text, room, points), fontsize=points, va="top", fontweight=weight,
                color=colour, transform=head,
            )  # fmt: skip
            top += _height(lines) + 0.05
    if source:
        words = figure.text(
            _EDGE, bottom, _wrapped(source, room, _SOURCE_POINTS), fontsize=_SOURCE_POINTS, va="bottom",
            color=_FAINT, transform=foot,
        )  # fmt: skip
        bottom += _height(words) + 0.05
    if handles:
        widest = max(len(str(handle.get_label())) for handle in handles)
        columns = max(1, int(room / (0.56 * _LEGEND_POINTS * widest / 72 + 0.65)))
        rows = -(-len(handles) // columns)
        size = _LEGEND_POINTS * min(1.0, _LEGEND_ROWS / rows)
        below = figure.legend(
            handles=handles, loc="lower left", bbox_to_anchor=(0.0, bottom), bbox_transform=foot,
            ncols=columns, fontsize=size, frameon=False, title=legend or None, title_fontsize=size,
            alignment="left",
        )  # fmt: skip
        below.set_in_layout(False)
        bottom += _height(below) + _EDGE
    return Margins(top, bottom)


def lay_out(figure: Figure, margins: Margins) -> None:
    """Give the axes the room between the margins. From here on it is known where they stand."""
    wide, high = figure.get_size_inches()
    engine: Any = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.0, margins.bottom / high, 1 - _EDGE / wide, 1 - sum(margins) / high))
    engine.execute(figure)
    figure.set_layout_engine("none")


def write(figure: Figure, path: Path) -> None:
    """As ``figure.savefig``, which draws everything once more than it needs to.

    The file is whole, or as it was. Raises OSError, and ValueError for a suffix that Matplotlib does not
    know.
    """
    from matplotlib.backend_bases import get_registered_canvas_class

    form = path.suffix[1:].lower()
    backend = get_registered_canvas_class(form)
    if backend is None:
        raise ValueError(f"a picture is .png, .svg or .pdf, not .{form}")
    print_as = getattr(backend(figure), f"print_{form}")
    with naming(path), replacing(path) as partial:
        print_as(partial, **({"metadata": {"Date": None}} if form == "svg" else {}))


def _height(drawn: Artist) -> float:
    """In inches."""
    figure = drawn.get_figure()
    assert figure is not None
    return float(drawn.get_window_extent().height / figure.dpi)


def _wrapped(text: str, inches: float, points: float) -> str:
    """Lines that fit a width in inches, each letter half as wide as it is high, or a little more."""
    width = max(1, int(inches * 72 / (0.6 * points)))
    return "\n".join(textwrap.fill(line, width) for line in text.splitlines())
