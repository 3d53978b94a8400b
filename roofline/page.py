"""The roofline in a page: the picture to point at, its ceilings, ridge points and applications as tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from npc.hostlist import host_text
from npc.page.blocks import Block, Preformatted, Text, chart_figure
from npc.roofline.figure import INTENSITIES, SHOWS, describe
from npc.roofline.mpi_plot import SHOWS as MPI_SHOWS
from npc.roofline.mpi_plot import describe as describe_mpi
from npc.roofline.points import verdict
from npc.roofline.result import Roofline
from npc.roofline.table import (
    Records,
    applications_table,
    ceilings_table,
    date_text,
    format_roofline,
    latencies_table,
    mpi_table,
    notes,
    ridges_table,
)

_READING: Final = (
    "right is more computing per byte, up is faster. A program that does I FLOP for each byte it moves over "
    "a path of bandwidth b reaches at most I·b, and never more than the peak; the lowest of its lines is its "
    "limit. Circles are ridge points: left of them bytes are the limit, right of them arithmetic. Point at a "
    "diamond to see all about its line. The x axis has several meanings, and one program has a place for "
    f"each: {INTENSITIES}. The dotted slope is main memory's bandwidth for loads that wait for each other; "
    "bars above or below a mark are what the network allows its own messages. A click on the name of a line "
    "hides it: with fewer lines the picture is easier to read."
)

_MPI_READING: Final = (
    "up is more operations, left are large messages. A flat line is a rate that the library reaches whatever "
    "the size, a slope is a bandwidth. The band of its 95 % intervals is shown of the line that is "
    "pointed at, here or by its name."
)


def write_page(roofline: Roofline, path: Path) -> bool:
    """Write the page; False, and nothing written, without a roof to draw. Raises OSError."""
    from npc.page.frame import Section, render

    blocks = list(blocks_of(roofline, iter(("picture", "mpi")).__next__))
    if not blocks:
        return False
    blocks += [Text(note, "note") for note in notes(roofline)]
    blocks.append(Preformatted("The tables as npc roofline prints them", format_roofline(roofline)))
    subtitle = f"{host_text(roofline.hosts)}, {date_text(roofline)}"
    page = render(roofline.title, subtitle, [Section("roofline", "Roofline", blocks)])
    path.write_text(page, encoding="utf-8", errors="backslashreplace")
    return True


def blocks_of(
    roofline: Roofline, ident: Callable[[], str], title: str = "", records: Records = lambda _: ()
) -> Iterator[Block]:
    """Pictures and tables; nothing without a roof to draw. ident: gives each picture its id."""
    chart = describe(roofline, ident(), title, records)
    if chart is None:
        return
    tables = [ceilings_table(roofline, records), ridges_table(roofline, records)]
    if roofline.latencies:
        tables.append(latencies_table(roofline, records))
    yield chart_figure(chart, SHOWS, _READING, *tables)
    if roofline.mpi and (mpi := describe_mpi(roofline, ident())) is not None:
        yield chart_figure(mpi, MPI_SHOWS, _MPI_READING, mpi_table(roofline))
    if roofline.applications:
        yield applications_table(roofline, records)
        for application in roofline.applications:
            yield Text(verdict(application, roofline))
