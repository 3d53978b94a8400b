"""The roofline of each run: what compute, memory and network allow a program at best."""

from __future__ import annotations

from collections.abc import Iterator

from npc.hostlist import host_text
from npc.page.blocks import Block, Cell, Figure, Listing, beside
from npc.report.runs import Report, Run
from npc.report.sections import NothingToShow, left_out, runs_of
from npc.roofline.applications import Application
from npc.roofline.page import blocks_of
from npc.roofline.result import ROOFS, Estimate
from npc.roofline.table import date_text

TITLE = "Roofline"
PLACE = 50
_FILES = {
    "roofline.html": "the picture in a page of its own",
    "roofline.json": "its numbers for programs",
    "mpi-roofline.svg": "the roofline of MPI operations",
}


_ABSENT = "without a compute ceiling there is no roof (tag compute: likwid-bench peakflops)"


def build(report: Report) -> Iterator[Block]:
    """Run by run the picture, the ceilings, ridge points and applications."""
    shown = [run for run in runs_of(report) if run.roofline.of_kind(*ROOFS) or run.roofline.theoretical]
    if not shown:
        raise NothingToShow(_ABSENT)
    yield from left_out(report, shown, _ABSENT)
    yield from beside([list(_of_run(report, run)) for run in shown])


def _of_run(report: Report, run: Run) -> Iterator[Block]:
    roofline = run.roofline
    title = f"{report.label(run, '{}: ')}{roofline.title}: {host_text(roofline.hosts)}, {date_text(roofline)}"

    def records(of: Estimate | Application) -> list[str]:
        if isinstance(of, Estimate):
            return run.records_of(of)
        raw = {part.raw for part in of.runs}
        return list(dict.fromkeys(run.idents[id(record)] for record in run.records if record.raw in raw))

    files = [
        Cell(f"{name}: {words}", href=report.href(run, name))
        for name, words in _FILES.items()
        if (run.folder / name).is_file()
    ]
    for block in blocks_of(roofline, report.ident, title, records):
        yield block
        if files and isinstance(block, Figure):
            yield Listing("The same beside the records", tuple(files))
            files = []
