"""The sections of the page, one module each: ``TITLE``, ``PLACE`` and ``build(report)``, which yields blocks.

A section that has nothing to show raises `NothingToShow` with the reason, and what would make it; the page
lists these at its end. ``PLACE`` says where on the page: 10 is the summary, 190 the environment. One more
section is a module here, or one that is registered as ``npc.sections`` (`npc.registration`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from npc.page.blocks import Block, Text
from npc.report.runs import Report, Run


class NothingToShow(Exception):
    """There is nothing for this section; the message says why, and what would change that."""


def present(blocks: Iterable[Block], otherwise: str) -> Iterator[Block]:
    """The blocks of a section. Raises `NothingToShow` with `otherwise` where there are none."""
    shown = list(blocks)
    if not shown:
        raise NothingToShow(otherwise)
    return iter(shown)


def of_runs(report: Report, blocks_of: Callable[[Report, Run], Iterable[Block]]) -> Iterator[Block]:
    """What a section shows of each run. Raises `NothingToShow` where there are no runs."""
    return (block for run in runs_of(report) for block in blocks_of(report, run))


def runs_of(report: Report) -> list[Run]:
    """The runs, for a section about runs alone. Raises `NothingToShow` where there are none."""
    if not report.runs:
        raise NothingToShow("a history alone does not show it; name a run as well")
    return report.runs


def left_out(report: Report, shown: Sequence[Run], why: str) -> Iterator[Text]:
    """A word about those of several runs that a section has nothing of."""
    labels = [run.label for run in report.runs if run not in shown]
    if labels:
        yield Text(f"Nothing of {', '.join(labels)}: {why}.", "note")
