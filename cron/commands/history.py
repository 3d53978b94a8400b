"""``npc night history``: what the nights were like, with pictures."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click

from npc import status_line
from npc.commands.parameters import PathParameter
from npc.cron.commands import folder_of, of_history

if TYPE_CHECKING:
    from pathlib import Path

    from npc.cron.variation import Variation
    from npc.cron.verdict import NightVerdict
    from npc.figures.allocation import Allocation
    from npc.machine.fabric import Topology
    from npc.records.history import History, HistoryRow
    from npc.records.history_columns import HistoryColumns
    from npc.records.record import Record
    from npc.records.series import Series
    from npc.roofline.peak_share import PeakShare
    from npc.roofline.result import Ceiling

#: Rows that cannot be read are told one by one up to this number.
_PROBLEMS = 10
#: Judging more nights of series than this is shared among the CPUs: half a minute's work for 80 000.
_SHARED = 4000


@click.command(short_help="The nights so far, series by series.")
@click.argument("pattern", default="*")
@click.option(
    "--platform",
    default="localhost",
    show_default=True,
    help="Whose history: a name in platforms/, or any other.",
)
@of_history
@click.option("--replay", is_flag=True, help="Print the verdict of each night, by today's rule.")
@click.option(
    "--figures", type=PathParameter(file_okay=False), help="Draw the nights into this folder, as PNG."
)
@click.option("--topology", help="Switches and racks: slurm, or a file (docs/blame.md).")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the tables.")
def history(
    pattern: str,
    platform: str,
    history: Path | None,
    replay: bool,
    figures: Path | None,
    topology: str | None,
    as_json: bool,
) -> None:
    """What the nights were like: level and spread of each series, and whether it varies in time.

    PATTERN: benchmark, case, metric, size, as many as given, each a shell pattern: "qperf tcp_*".
    Time-variant is what Kruskal and Wallis' test (do nights differ by more than the samples of one?) or
    Mann and Kendall's (is there a trend?) says, with a chance below 1 % for both together. Best per
    platform is compared with its nominal limits, applications with the theoretical peak. --figures draws all
    series over the nights with the verdicts of --replay, which nodes each benchmark had how often, by rack,
    and how good they were. --replay instead judges every night anew, each by the nights
    before it, from the history's files alone: what would today's rule have said? PATTERN then chooses whose
    verdicts are listed. A night that has not ended is left out.

    Exit codes: 0, 1 nothing to show, 2 usage.
    """
    from pathlib import Path

    from npc.cron.series import matches
    from npc.cron.variation import variations
    from npc.figures.allocation import allocations
    from npc.machine.fabric import load
    from npc.records.history import History
    from npc.records.journal import Journal, not_ended
    from npc.validity.disturbance import of_shares, remark

    fabric = load(topology) if topology else None
    past = History(folder_of(history, Path(platform).name), status_line.show)
    status_line.show(f"reading {past.folder}")
    every, running = past.points(), not_ended(Journal(past.folder).entries())
    for night in sorted(running.intersection(every.runs)):
        click.echo(f"left out: {night}: this night has not ended", err=True)
    every = every.of_nights(run not in running for run in every.runs)
    hosts = every.hosts
    points = every if pattern == "*" else every.of_series(matches(pattern, key) for key in every.keys)
    varied = [] if replay else variations(points, status_line.show)
    status_line.show("")
    for note in past.notes:
        click.echo(f"note: {note}", err=True)
    for problem in past.problems[:_PROBLEMS]:
        click.echo(f"left out: {problem}", err=True)
    if len(past.problems) > _PROBLEMS:
        click.echo(f"left out: {len(past.problems) - _PROBLEMS} more rows", err=True)
    if disturbed := of_shares(points.disturbed[points.ok]):
        click.echo(remark(disturbed), err=True)
    if not (len(points) if replay else varied):
        what = "no nights yet" if pattern == "*" else f"nothing that {pattern!r} names"
        raise click.ClickException(f"{past.folder} has {what}: npc night run fills it")
    if replay:
        print_replay(past, _verdicts(past, every, platform, fabric), pattern, as_json)
    else:
        shares = _shares(past, points, platform, {variation.key for variation in varied})
        _print(past, varied, allocations(points, fabric, hosts), shares, as_json)
    if figures:
        for path in _draw(list(points), _verdicts(past, every, platform, fabric), figures, fabric, hosts):
            click.echo(f"drawn: {path}", err=True)


def _verdicts(
    past: History, points: HistoryColumns, platform: str, fabric: Topology | None
) -> Iterator[NightVerdict]:
    """The verdict on every night of the history."""
    import os

    from npc.cron.acceptance import read_acceptances
    from npc.cron.acceptance_bands import bands_of
    from npc.cron.judge import replay
    from npc.cron.series import panel
    from npc.machine.platform import find_platform, read_platform
    from npc.records.journal import Journal, plans_of

    file = find_platform(platform)
    bands = bands_of(read_platform(file)) if file else ()
    nights = panel(points, plans=plans_of(Journal(past.folder).entries()))
    shared = nights.value.size > _SHARED
    judged = replay(
        nights, past.folder.name, read_acceptances(past.folder), bands, fabric,
        processes=len(os.sched_getaffinity(0)) if shared else 1,
    )  # fmt: skip
    for number, night in enumerate(judged, 1):
        status_line.show("")
        yield night
        status_line.show(f"judging night {number} of {len(nights.runs)}")
    status_line.show("")


def print_replay(past: History, verdicts: Iterable[NightVerdict], pattern: str, as_json: bool) -> None:
    """Print the verdict of every night, one after the other.

    as_json: as one JSON document instead of lines.
    """
    import dataclasses

    import msgspec

    from npc.cron.outputs import replayed
    from npc.cron.series import matches
    from npc.records.journal import Journal
    from npc.records.verdicts import SCHEMA, Verdict, to_text

    then = {entry.name: entry.verdict for entry in Journal(past.folder).entries()}
    if not as_json:
        for night in verdicts:
            click.echo(replayed(night, then.get(night.run), pattern), nl=False)
        return
    # One night at a time: a year of them has hundreds of megabytes.
    head = to_text({"schema": SCHEMA, "platform": past.folder.name, "nights": []})
    before, between, after = head.rpartition("[]")[0] + "[\n", "", "\n]" + head.rpartition("[]")[2]
    click.echo(before, nl=False)
    for night in verdicts:
        mine = (verdict for verdict in night.series if matches(pattern, verdict.key))
        series = tuple(verdict for verdict in mine if verdict.verdict is not Verdict.PASS)
        document = dataclasses.replace(night, series=series).document()
        plain = msgspec.to_builtins(msgspec.structs.replace(document, counts=night.counts))
        click.echo(between + to_text({**plain, "then": then.get(night.run)}).rstrip("\n"), nl=False)
        between = ",\n"
    click.echo(after, nl=False)


def _print(
    past: History,
    variations: Sequence[Variation],
    allocated: Sequence[Allocation],
    limits: tuple[Sequence[Ceiling], Sequence[PeakShare]],
    as_json: bool,
) -> None:
    """Print level, spread and time variance of each series, shares of the nominal limits and of the
    theoretical peak, and how many nodes the benchmarks had."""
    import json

    from npc.columns import columns
    from npc.cron.variation_table import variation_table
    from npc.roofline.peak_share import peak_table

    shares, peaks = limits
    if not as_json:
        lines = [*variation_table(variations), *map(_share, shares)]
        if peaks:
            lines += ["", *columns(peak_table(peaks).texts(), keep_empty=False)]
        if allocated:
            lines += ["", f"Nodes allocated: {'; '.join(map(str, allocated))}."]
        click.echo("\n".join(lines))
        return
    plain: dict[str, Any] = {
        "schema": 1,
        "platform": past.folder.name,
        "series": [variation.as_json() for variation in variations],
        "shares": [
            {name: getattr(ceiling, name) for name in ("kind", "name", "value", "nominal", "share")}
            for ceiling in shares
        ],
        "applications": [peak.as_json() for peak in peaks],
        "nodes": [
            {"benchmark": node.benchmark, "seen": len(node.nights), "known": len(node.known)}
            for node in allocated
        ],
    }
    click.echo(json.dumps(plain, indent=1, ensure_ascii=False))


def _shares(
    past: History, points: HistoryColumns, platform: str, keys: set[Series]
) -> tuple[list[Ceiling], list[PeakShare]]:
    """The ceilings of all nights together that have a nominal limit, and the applications of the nights'
    first measurements, as far as their theoretical peak is known."""
    from npc.machine.platform import find_platform, read_platform
    from npc.roofline.applications import TELLING, find_applications
    from npc.roofline.ceilings import find_ceilings
    from npc.roofline.peak_share import peak_shares

    path = find_platform(platform)
    if path is None:
        return [], []
    limits = read_platform(path)
    ceilings = find_ceilings(list(_typical_records(past, points, keys)), limits).ceilings
    benchmarks = {key.benchmark for key in keys if key.metric == "flops"}
    benchmarks &= {key.benchmark for key in keys if key.metric in TELLING}
    launches = (key for key in sorted(keys, key=str) if key.benchmark in benchmarks)
    applications = find_applications(record for key in launches for record in past.records(key))
    status_line.show("")
    return [ceiling for ceiling in ceilings if ceiling.share is not None], peak_shares(applications, limits)


def _typical_records(past: History, points: HistoryColumns, keys: set[Series]) -> Iterator[Record]:
    """What ceilings are found by, without reading the rows of all nights: of each series a record of its last
    night with the median of all of them, as often as counts for being repeated enough.

    A ceiling is the best of the placements that a run has tried, so where the last night has several, all
    records of the series are read.
    """
    from itertools import repeat

    import numpy as np

    from npc.records.record import replace
    from npc.records.series import placement
    from npc.statistics.medians import MIN_SAMPLES

    for number, (key, rows) in enumerate(points.by_series(), 1):
        status_line.show(f"nominal limits: series {number} of {len(points.keys)}")
        rows = rows.where(rows.usable & (rows.value > 0))
        if key not in keys or not len(rows):
            continue
        night = rows.runs[rows.run[rows.time.argmax()]]
        last = [record for record in past.records(key, night) if record.ok and record.value]
        if len({(record.case, *sorted(placement(record.params).items())) for record in last}) > 1:
            yield from past.records(key)
        elif last:
            typical = replace(last[-1], value=float(np.median(rows.value)))
            yield from repeat(typical, min(len(rows), MIN_SAMPLES))


def _share(ceiling: Ceiling) -> str:
    from npc.records.units import format_quantity

    unit = "FLOP/s" if ceiling.kind == "compute" else "B/s"
    value, nominal = (format_quantity(x, unit) for x in (ceiling.value, ceiling.nominal or 0.0))
    return f"{ceiling.name}: {value} is {ceiling.share:.1%} of the nominal {nominal}"


def _draw(
    points: Sequence[HistoryRow],
    verdicts: Iterable[NightVerdict],
    folder: Path,
    topology: Topology | None,
    hosts: Collection[str],
) -> Iterator[Path]:
    """The pictures: each benchmark over the nights, which nodes they had, and how good these were."""
    from npc.cron.figures import allocation, health, over_nights

    folder.mkdir(parents=True, exist_ok=True)
    yield from over_nights(points, folder, verdicts)
    if allocation(points, folder / "allocation.png", topology, hosts):
        yield folder / "allocation.png"
    if health(points, folder / "nodes.png", topology):
        yield folder / "nodes.png"
