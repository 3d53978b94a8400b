"""``npc night accept``: what nights are compared with."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from npc.cron.commands import folder_of, of_history, of_platform

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Take the present state as the new baseline.")
@click.argument("pattern", default="*")
@click.option("--reason", required=True, help="Why: it is recorded, with the time and who said it.")
@of_platform
@of_history
@click.option("--night", help="The night whose state is taken (default: the last one that has ended).")
def accept(pattern: str, reason: str, platform: str, history: Path | None, night: str | None) -> None:
    """Take the present state as the baseline of the series that PATTERN names (default: of all).

    PATTERN: benchmark, case, metric, size, as many as given, each a shell pattern: "qperf tcp_*". A changed
    or degraded series is accepted as it is since its change began; one that is missing is given up.

    Exit codes: 0 done, 1 nothing to accept, 2 usage.
    """
    from npc.cron.acceptance import accept as record
    from npc.cron.nightly import judge_night
    from npc.cron.series import label
    from npc.jobs.suite import platform_folder
    from npc.places import suite
    from npc.records.history import History
    from npc.records.journal import Journal, not_ended, plans_of
    from npc.records.record import moment
    from npc.records.units import METRICS, format_quantity

    folder = folder_of(history, platform_folder(suite(), platform).name)
    past = History(folder)
    entries = Journal(folder).entries()
    running = not_ended(entries)
    if night in running:
        raise click.ClickException(f"night {night} has not ended: wait for its verdict, or name another one")
    # one that measured nothing is none of the history's
    nights = {entry.name: entry.begun.isoformat() for entry in entries}
    nights |= {past_night.run: past_night.begun for past_night in past.nights()}
    nights = {run: begun for run, begun in nights.items() if run not in running}
    chosen = night or max(nights, key=lambda run: nights[run], default="")
    if chosen not in nights:
        last = ", ".join(sorted(nights)[-3:])
        empty = "its first night has not ended" if running else "it is empty: npc night run fills it"
        known = f"the last are {last}" if last else empty
        raise click.ClickException(f"no night{f' {chosen}' if chosen else ''} in {folder}: {known}")
    began, plans = moment(nights[chosen]), plans_of(entries)
    verdict = judge_night(platform_folder(suite(), platform), past, chosen, began, plans=plans)
    taken = record(folder, verdict, reason, _who(), pattern)
    for key, baseline in taken.baselines.items():
        unit = METRICS[key.metric].unit
        value = "given up" if baseline.value is None else format_quantity(baseline.value, unit)
        since = f"  since {baseline.since}" if baseline.since else ""
        click.echo(f"{label(key)}: {value}{since}")
    for node, begun in taken.nodes.items():
        click.echo(f"node {node}: as it is since {begun}")


def _who() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user here
        return str(os.getuid())
