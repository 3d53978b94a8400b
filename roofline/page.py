"""The roofline in a page: the picture to point at, its ceilings, ridge points and applications as tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from npc.page.blocks import Block, Cell, Preformatted, Table, Text, chart_figure, count, quantity
from roofline.figure import INTENSITIES, SHOWS, Records, describe
from roofline.points import verdict
from roofline.result import Roofline
from roofline.table import (
    date_text,
    format_roofline,
    host_text,
    intensity_text,
    interval_text,
    notes,
    share_text,
    size_text,
    source_text,
)

_READING: Final = (
    "right is more computing per byte, up is faster. A program that does I FLOP for each byte it moves over "
    "a path of bandwidth b reaches at most I·b, and never more than the peak; the lowest of its lines is its "
    "limit. Circles are ridge points (a diamond tells all about its line): left of them bytes are the limit, "
    "right of them arithmetic. The x axis has two meanings, and one program has a place for each: "
    f"{INTENSITIES}. Names of lines are switches: without the small ones the picture is easier to read."
)


def write_page(roofline: Roofline, path: Path) -> bool:
    """Write the page; False, and nothing written, without a roof to draw. Raises OSError."""
    from npc.page.frame import Section, render

    blocks = list(blocks_of(roofline))
    if not blocks:
        return False
    blocks += [Text(note, "note") for note in notes(roofline)]
    blocks.append(Preformatted("The tables as npc roofline prints them", format_roofline(roofline)))
    subtitle = f"{host_text(roofline.hosts)}, {date_text(roofline)}"
    page = render(roofline.title, subtitle, [Section("roofline", "Roofline", blocks)])
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return True


def blocks_of(
    roofline: Roofline, ident: str = "picture", title: str = "", records: Records = lambda _: ()
) -> Iterator[Block]:
    """Picture and tables; nothing without a roof to draw."""
    chart = describe(roofline, ident, title, records)
    if chart is None:
        return
    yield chart_figure(chart, SHOWS, _READING, _ceilings(roofline, records), _ridges(roofline, records))
    if roofline.applications:
        yield _applications(roofline, records)
        for application in roofline.applications:
            yield Text(verdict(application, roofline))


def _ceilings(roofline: Roofline, records: Records) -> Table:
    rows = [
        (
            Cell(ceiling.name),
            quantity(ceiling.value, ceiling.unit, records(ceiling)),
            Cell(interval_text(ceiling), kind="number"),
            count(ceiling.n),
            Cell(size_text(ceiling.size), sort=ceiling.size or 0, kind="number"),
            Cell(source_text(ceiling)),
            Cell(share_text(ceiling), sort=ceiling.share or "", kind="number"),
        )
        for ceiling in roofline.ceilings
    ]
    columns = ("ceiling", "median", "95 % interval", "samples", "size", "test", "of nominal")
    return Table("Ceilings", columns, tuple(rows), folded=True)


def _ridges(roofline: Roofline, records: Records) -> Table:
    ceilings = {ceiling.name: ceiling for ceiling in roofline.ceilings}
    rows = []
    for ridge in roofline.ridges:
        around = ""
        if ridge.low is not None and ridge.high is not None:
            around = f"[{intensity_text(ridge.low)}, {intensity_text(ridge.high)}]"
        both = [record for name in (ridge.compute, ridge.bandwidth) for record in records(ceilings[name])]
        rows.append(
            (
                Cell(ridge.bandwidth),
                Cell(ridge.compute),
                Cell(f"{intensity_text(ridge.intensity)} FLOP/byte", both, ridge.intensity, kind="number"),
                Cell(around, kind="number"),
            )
        )
    return Table("Ridge points", ("bandwidth", "peak", "they meet at", "interval"), tuple(rows), folded=True)


def _applications(roofline: Roofline, records: Records) -> Table:
    rows = []
    for application in roofline.applications:
        intensity = application.intensity
        rows.append(
            (
                Cell(application.name),
                count(application.nodes),
                quantity(application.flops.median, "FLOP/s", records(application)),
                Cell(
                    "" if intensity is None else f"{intensity_text(intensity.median)} FLOP/byte",
                    kind="number",
                ),
                count(application.flops.n),
            )
        )
    return Table("Applications", ("application", "nodes", "a node", "on the network", "runs"), tuple(rows))
