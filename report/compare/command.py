"""``npc compare A B…``: what is better, worse or the same, and by how much."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

import click

from npc import status_line
from npc.commands.parameters import PathParameter
from npc.files import cannot_write

if TYPE_CHECKING:
    from pathlib import Path

    from npc.report.compare.comparison import Comparison
    from npc.report.compare.sides import Side

#: A difference of the kind that ``--fail-on`` names.
EXIT_DIFFERS: Final = 7
#: Names of tests that are told at most.
_MOST_NAMES: Final = 12


@click.command(short_help="Platforms, nights, MPIs or tools side by side.")
@click.argument("what", nargs=-1, required=True, metavar="A [B]…")
@click.option(
    "--by", default="", metavar="FIELD",
    help="Split the records of all A B… by platform, night, run, benchmark, version, nodes, hosts, or a "
    "param: params.mpi.",
)  # fmt: skip
@click.option(
    "--reference",
    default="",
    metavar="NAME",
    help="Which of them is A, that the others are compared with (default: the first).",
)
@click.option(
    "--ignore", multiple=True, metavar="NAME",
    help="What may differ in a series: size, nodes, version, or a param's name; disturbed: use disturbed "
    "records, too. May be repeated.",
)  # fmt: skip
@click.option(
    "--case",
    "cases",
    multiple=True,
    metavar="PATTERN",
    help="Compare only these tests: osu_bw, 'likwid/*'; may be repeated (default: all).",
)
@click.option("--statistics", is_flag=True, help="Compare percentiles, minima and maxima as well.")
@click.option(
    "--least", default=0.02, show_default=True, type=click.FloatRange(0, 10), metavar="SHARE",
    help="Differences below this share of the value count as the same.",
)  # fmt: skip
@click.option(
    "--run-to-run", type=click.FloatRange(0, 1), metavar="SHARE",
    help="How much runs of one machine differ, their standard deviation (default: as earlier runs say).",
)  # fmt: skip
@click.option(
    "--history", type=PathParameter(file_okay=False),
    help="Folder of the histories that PLATFORM@DATE means (default: history/ here, or in the checkout).",
)  # fmt: skip
@click.option("--all", "everything", is_flag=True, help="Show also what is the same or not comparable.")
@click.option(
    "--format", "form", type=click.Choice(("table", "markdown", "csv", "json")), default="table",
    show_default=True, help="How to print it.",
)  # fmt: skip
@click.option("--json", "form", flag_value="json", help="The same as --format json.")
@click.option(
    "--plot", type=PathParameter(file_okay=False), metavar="DIR",
    help="Draw compare-sizes and compare-rooflines (.png, .svg) into this folder.",
)  # fmt: skip
@click.option(
    "--fail-on",
    type=click.Choice(("worse", "different")),
    help="End with exit code 7 if a series is worse, or differs (default: end with 0).",
)
def compare(
    what: tuple[str, ...],
    by: str,
    reference: str,
    ignore: tuple[str, ...],
    cases: tuple[str, ...],
    statistics: bool,
    least: float,
    run_to_run: float | None,
    history: Path | None,
    everything: bool,
    form: str,
    plot: Path | None,
    fail_on: str | None,
) -> None:
    """Compare B… with A, series by series: ratio with interval, better, worse, same or not comparable.

    A and B are runs (folders, or records.csv files), folders of several runs, or nights of a history as
    PLATFORM@DATE or PLATFORM@DATE..DATE. With --by, one is enough.

    Exit codes: 0; 1 nothing can be compared, or it cannot be told whether what differs is worse; 2 usage; 7
    what --fail-on asks for.
    """
    from npc.report.compare.compared_series import direction
    from npc.report.compare.comparison import compare_sides
    from npc.report.compare.earlier import EarlierRuns
    from npc.report.compare.matching import Choice
    from npc.report.history import usual_history

    status_line.show(f"reading {' '.join(what)}")
    folder = history or usual_history()
    whole, sides = _sides(what, by, folder, reference, cases)
    choice = Choice(by=by, ignore=ignore, statistics=statistics, least_effect=least, run_to_run=run_to_run)
    past = EarlierRuns(whole, folder)
    comparisons = []
    for a, b in _couples(sides, by, reference):
        status_line.show(f"comparing {b.name} with {a.name}")
        comparisons.append(compare_sides(a, b, choice, past.before(a, b)))
    status_line.show("")
    if by == "benchmark":  # tools that measure something else have nothing to compare
        comparisons = [
            comparison
            for comparison in comparisons
            if any("only in" not in series.reason for series in comparison.series)
        ]
    _show(comparisons, by, form, everything)
    if plot is not None:
        _draw(sides, plot)
    compared = [series for comparison in comparisons for series in comparison.series]
    if all(series.verdict == "not comparable" for series in compared):
        click.echo("npc compare: no series can be compared; --all says why of each", err=True)
        sys.exit(1)
    wanted = ("worse",) if fail_on == "worse" else ("worse", "better", "different")
    if fail_on and any(series.verdict in wanted for series in compared):
        sys.exit(EXIT_DIFFERS)
    undecided = [
        series for series in compared if series.verdict == "different" and direction(series) == "worse"
    ]
    if fail_on and undecided:
        differ = f"{len(undecided)} series differ{'s' if len(undecided) == 1 else ''} {undecided[0].reason}"
        click.echo(
            f"npc compare: --fail-on {fail_on} cannot be answered: {differ}, and how runs of this machine "
            "differ is not known",
            err=True,
        )
        sys.exit(1)


def _sides(
    what: Sequence[str], by: str, history: Path, reference: str, cases: Sequence[str]
) -> tuple[list[Side], list[Side]]:
    """(what was named, whole; two sides of it or more, the reference first)."""
    from npc.records.record import InvalidRecord
    from npc.report.compare.sides import NoSide, name_sides, narrowed, read_side, split_side

    try:
        whole = [read_side(word, history) for word in what]
        sides = [narrowed(side, cases) for side in whole]
        if cases and not any(record for side in sides for record in side.all_records()):
            raise _no_case(cases, whole)
        sides = split_side(sides, by) if by else name_sides(sides)
    except (NoSide, InvalidRecord) as error:
        raise click.UsageError(str(error)) from None
    if len(sides) < 2:
        raise click.UsageError("name two sides to compare, or --by what the records differ in")
    names = [side.name for side in sides]
    if reference and reference not in names:
        raise click.UsageError(f"--reference {reference}: there are {', '.join(names)}")
    return whole, sorted(sides, key=lambda side: side.name != reference) if reference else sides


def _no_case(cases: Sequence[str], sides: Sequence[Side]) -> click.ClickException:
    """That no test has such a name, and which names there are."""
    names = sorted(
        {f"{record.benchmark}/{record.case}".strip("/") for side in sides for _, record in side.all_records()}
    )
    there = f"there are {', '.join(names[:_MOST_NAMES])}{', …' if len(names) > _MOST_NAMES else ''}"
    return click.ClickException(f"no series can be compared: no test is called {' or '.join(cases)}; {there}")


def _couples(sides: Sequence[Side], by: str, reference: str) -> list[tuple[Side, Side]]:
    """What is compared: the first with each other one; of tools, unless one was named, every two."""
    if by == "benchmark" and not reference:
        return list(combinations(sides, 2))
    return [(sides[0], other) for other in sides[1:]]


def _show(comparisons: Sequence[Comparison], by: str, form: str, everything: bool) -> None:
    from npc.report.compare import outputs

    if form == "json":
        click.echo(outputs.to_json(comparisons, by))
    elif form == "csv":
        click.echo(outputs.to_csv(comparisons), nl=False)
    elif form == "markdown":
        click.echo("\n\n".join(outputs.to_markdown(comparison, everything) for comparison in comparisons))
    else:
        for comparison in comparisons:
            outputs.show(comparison, everything)


def _draw(sides: Sequence[Side], folder: Path) -> None:
    from npc.machine.platform import InvalidPlatform
    from npc.report.compare.plots import draw

    try:
        written = draw(sides, folder)
    except InvalidPlatform as error:
        raise click.UsageError(str(error)) from None
    except OSError as error:
        raise click.ClickException(cannot_write(folder, error, "--plot")) from None
    for path in written:
        click.echo(path, err=True)
    if not written:
        click.echo("no picture: no test at two sizes, and no compute ceiling", err=True)
