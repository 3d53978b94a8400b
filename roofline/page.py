"""The roofline as one HTML file that works offline: hover over a ceiling for its source, switch it off.

Plotly's JavaScript is inside the file, and its content security policy forbids the browser to fetch
anything, so the page can be archived with the run and opened on a machine without a network.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator
from html import escape
from importlib.util import find_spec
from math import isfinite
from pathlib import Path
from typing import Any, Final

from npc.records.units import format_quantity
from npc.statistics.medians import Summary
from roofline.applications import Application
from roofline.points import verdict
from roofline.result import Ceiling, Roofline
from roofline.scene import GREY, INTENSITIES, Line, Mark, Scene, Stroke, compose
from roofline.table import (
    application_text,
    date_text,
    format_roofline,
    host_text,
    intensity_text,
    interval_text,
    share_text,
    size_text,
    source_text,
    summary_text,
    value_text,
)

#: Marks of applications, in the order of the picture's.
_SHAPES: Final = ("circle", "square", "diamond", "triangle-up", "triangle-down", "cross", "x")
#: Points along a line: the hover answers only at points.
_POINTS: Final = 60

#: What stands before Plotly's JavaScript.
_HEAD: Final = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline';
 style-src 'unsafe-inline'; img-src data: blob:">
<meta name="viewport" content="width=device-width">
<title>{title}</title>
<style>
body {{ font-family: sans-serif; margin: 1.5rem; color: #222 }}
h1 {{ margin: 0 }}
.picture {{ height: 80vh; min-height: 30rem }}
.picture > div {{ height: 100% }}
pre {{ overflow-x: auto }}
</style>
<script>window.PlotlyConfig = {{MathJaxConfig: "local"}};</script>
<script>"""
_BODY: Final = """</script>
</head>
<body>
<h1>{title}</h1>
<p>{where}. Median of repeated runs, shaded its 95 % interval. Hover over a line for its source;
click in the legend to switch a ceiling, double-click to see it alone.</p>
<div class="picture"><div id="roofline"></div></div>
<script>Plotly.newPlot("roofline", {data}, {layout}, {config});</script>
<pre>{tables}</pre>
</body>
</html>
"""


def write_page(roofline: Roofline, path: Path) -> bool:
    """Write the interactive page; False, and nothing written, without a roof to draw. Raises OSError."""
    scene = compose(roofline)
    if scene is None:
        return False
    title = escape(roofline.title)
    body = _BODY.format(
        title=title,
        where=escape(f"{host_text(roofline.hosts)}, {date_text(roofline)}"),
        data=_script(list(_traces(scene, roofline))),
        layout=_script(_layout(scene)),
        config=_script({"displaylogo": False, "responsive": True}),
        tables=escape(format_roofline(roofline)),
    )
    with path.open("wb") as stream:
        stream.writelines((_HEAD.format(title=title).encode(), _library(), body.encode()))
    return True


def _library() -> bytes:
    """Plotly's JavaScript, of whose Python package nothing else is needed: importing it takes long."""
    package = find_spec("plotly")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("No module named 'plotly'", name="plotly")
    return (Path(package.origin).parent / "package_data" / "plotly.min.js").read_bytes()


def _script(value: Any) -> str:
    """A value in JavaScript that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _traces(scene: Scene, roofline: Roofline) -> Iterator[dict[str, Any]]:
    """Plotly's traces: each ceiling with its band and its ridge points is one group of the legend."""
    for line in scene.lines:
        name = line.ceiling.name
        corners = line.band()
        yield _trace(name, *zip(*corners, strict=True)) | {
            "fill": "toself",
            "mode": "lines",
            "line": {"width": 0},
            "fillcolor": _transparent(line.stroke.colour),
            "hoverinfo": "skip",
            "showlegend": False,
        }
        xs = _steps(line.start, line.end)
        yield _trace(name, xs, [line.height(x) for x in xs]) | {
            "mode": "lines",
            "line": _stroke(line.stroke),
            "name": escape(f"{name}  {value_text(line.ceiling)}"),
            "hovertemplate": _hover(line) + "<extra></extra>",
        }
    for ridge, stroke in scene.ridges:
        words = (
            f"ridge point of {ridge.compute}<br>with {ridge.bandwidth}:"
            f"<br><b>{intensity_text(ridge.intensity)} FLOP/byte</b>"
        )
        yield _trace(ridge.bandwidth, [ridge.intensity], [ridge.performance]) | {
            "mode": "markers",
            "marker": {"size": 9, "color": "white", "line": {"color": stroke.colour, "width": 2}},
            "hovertemplate": words + "<extra></extra>",
            "showlegend": False,
        }
    for words, peak in scene.theoretical:
        yield _trace(words, [scene.flat_start(peak), scene.x[1]], [peak, peak]) | {
            "mode": "lines",
            "line": _stroke(Stroke(GREY, 1.2, (1.2, 2.4))),
            "name": f"{words}  {format_quantity(peak, 'FLOP/s', 3)}",
            "hovertemplate": f"{words}<br><b>{format_quantity(peak, 'FLOP/s', 3)}</b><extra></extra>",
        }
    for mark in scene.marks:
        yield from _mark(mark, verdict(mark.application, roofline))


def _mark(mark: Mark, verdict: str) -> Iterator[dict[str, Any]]:
    """The traces of an application: its runs, the trail of its days, and its median."""
    application = mark.application
    name = application_text(application)
    here = f"<b>{_plain(name)}</b><br>%{{text}}<br>%{{x:.3~g}} FLOP/byte, %{{y:.3~s}}FLOP/s<extra></extra>"
    if len(mark.runs) > 1:
        yield _trace(name, *zip(*mark.runs, strict=True)) | {
            "mode": "markers",
            "marker": {"size": 4, "color": mark.colour, "opacity": 0.35},
            "text": [
                _plain(f"{run.time[:19]}, raw: {run.raw}")
                for run in application.runs
                if run.intensity is not None and isfinite(run.intensity)
            ],
            "hovertemplate": here,
            "showlegend": False,
        }
    if mark.trail:
        yield from _trail(mark, name, here)
    facts = [
        f"<b>{_plain(name)}</b>",
        f"{summary_text(application.flops, 'FLOP/s')}{'' if application.whole_job else ' a node'}",
        *([summary_text(application.intensity, "FLOP/byte")] if application.intensity is not None else []),
        _plain(_runs(application)),
        *textwrap.wrap(_plain(verdict), 90),
    ]
    yield _trace(name, [mark.x], [mark.y]) | {
        "error_x": _bar(mark, application.intensity),
        "error_y": _bar(mark, application.flops),
        "mode": "markers",
        "marker": {
            "size": 12,
            "color": mark.colour,
            "symbol": _SHAPES[mark.shape % len(_SHAPES)],
            "line": {"color": "white", "width": 1},
        },
        "name": escape(name),
        "hovertemplate": "<br>".join(facts) + "<extra></extra>",
    }


def _trail(mark: Mark, name: str, here: str) -> Iterator[dict[str, Any]]:
    """The medians of an application's days, from hollow to filled, with the first and the last day's date."""
    xs, ys = zip(*mark.trail, strict=True)
    raw = dict.fromkeys(mark.days, "")
    for run in reversed(mark.application.runs):
        raw[run.time[:10]] = run.raw
    yield _trace(name, xs, ys) | {
        "mode": "lines+markers",
        "line": {"width": 1, "color": mark.colour},
        "marker": {
            "size": 6,
            "color": list(range(len(xs))),
            "colorscale": [[0, "#FFFFFF"], [1, mark.colour]],
            "line": {"width": 1, "color": mark.colour},
        },
        "text": [_plain(f"median of {day}, raw: {raw[day]}") for day in mark.days],
        "hovertemplate": here,
        "showlegend": False,
    }
    lower, upper = sorted((0, -1), key=lambda end: ys[end])
    yield _trace(name, [xs[lower], xs[upper]], [ys[lower], ys[upper]]) | {
        "mode": "text",
        "text": [f" <br>{mark.days[lower]}", f"{mark.days[upper]}<br> "],  # a line away from the mark
        "textposition": ["bottom center", "top center"],
        "textfont": {"size": 11, "color": mark.colour},
        "hoverinfo": "skip",
        "showlegend": False,
    }


def _bar(mark: Mark, summary: Summary | None) -> dict[str, Any]:
    """Plotly's error bar: the interval of a median."""
    if summary is None or summary.low is None or summary.high is None:
        return {"visible": False}
    return {
        "type": "data",
        "symmetric": False,
        "array": [summary.high - summary.median],
        "arrayminus": [summary.median - summary.low],
        "color": mark.colour,
        "thickness": 1.5,
    }


def _runs(application: Application) -> str:
    """How many runs it was, when, where, and their first raw file."""
    runs, coverage = application.runs, application.flops.coverage
    days = " to ".join(dict.fromkeys((runs[0].time[:10], runs[-1].time[:10])))
    more = f" and {len(runs) - 1} more" if len(runs) > 1 else ""
    intervals = f", in brackets the {100 * coverage:.1f} % interval" if coverage else ""
    return f"{len(runs)} runs, {days}, on {host_text(application.hosts)}{intervals}; raw: {runs[0].raw}{more}"


def _plain(text: str) -> str:
    """Text from files for a template of Plotly's, which reads markup and %{…}."""
    return escape(text).replace("%{", "% {")


def _trace(group: str, xs: Any, ys: Any) -> dict[str, Any]:
    return {"type": "scatter", "x": list(xs), "y": list(ys), "legendgroup": group}


def _stroke(stroke: Stroke) -> dict[str, Any]:
    dash = ",".join(f"{length:g}px" for length in stroke.dashes) or "solid"
    return {"color": stroke.colour, "width": stroke.width, "dash": dash}


def _hover(line: Line) -> str:
    """What is known about a ceiling, line by line; all that comes from records is escaped."""
    ceiling = line.ceiling
    facts = [
        f"<b>{escape(ceiling.name)}: {value_text(ceiling)}</b>",
        _interval(ceiling),
        f"{escape(source_text(ceiling))}, {ceiling.n} samples"
        + (f", size {size_text(ceiling.size)}" if ceiling.size is not None else ""),
    ]
    if ceiling.share is not None and ceiling.nominal is not None:
        nominal = format_quantity(ceiling.nominal, ceiling.unit, 3)
        facts.append(f"{share_text(ceiling)} of the nominal {nominal}")
    if ceiling.note:
        facts.append(escape(ceiling.note))
    if ceiling.raw:
        more = f" and {len(ceiling.raw) - 1} more" if len(ceiling.raw) > 1 else ""
        facts.append(f"raw: {escape(ceiling.raw[0])}{more}")
    # Plotly reads %{…} in a template; names come from files.
    facts = [fact.replace("%{", "% {") for fact in facts]
    return "<br>".join(facts) + "<br>%{x:.3~g} FLOP/byte → %{y:.3~s}FLOP/s"


def _interval(ceiling: Ceiling) -> str:
    if ceiling.coverage is None:
        return "too few samples for a 95 % interval"
    return f"{100 * ceiling.coverage:.1f} % interval {interval_text(ceiling)}"


def _steps(start: float, end: float) -> list[float]:
    """`_POINTS` values from start to end, evenly apart on a logarithmic axis."""
    ratio = (end / start) ** (1 / (_POINTS - 1))
    return [start * ratio**step for step in range(_POINTS - 1)] + [end]


def _transparent(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.13)"


def _layout(scene: Scene) -> dict[str, Any]:
    from math import log10

    meanings = f"<span style='font-size:12px'>{INTENSITIES}</span>"
    axis = {"type": "log", "gridcolor": "#DDDDDD", "linecolor": "#444444", "ticks": "outside", "dtick": 1}
    return {
        "xaxis": axis
        | {
            "title": {"text": f"Operational intensity [FLOP/byte]<br>{meanings}"},
            "range": [log10(edge) for edge in scene.x],
        },
        "yaxis": axis
        | {
            "title": {"text": "Attainable performance [FLOP/s]"},
            "range": [log10(edge) for edge in scene.y],
            "exponentformat": "SI",
        },
        "hovermode": "closest",
        "hoverdistance": 30,
        "plot_bgcolor": "white",
        "paper_bgcolor": "white",
        "margin": {"t": 20, "r": 20},
        "legend": {"groupclick": "togglegroup", "tracegroupgap": 0, "font": {"size": 12}},
    }
