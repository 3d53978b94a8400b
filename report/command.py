"""``npc report``: runs and a history as one page that works offline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from npc import status_line
from npc.commands.parameters import PathParameter
from npc.files import cannot_write, write_whole
from npc.records.units import format_size
from npc.roofline.command_line import failure, picture_folder

if TYPE_CHECKING:
    from pathlib import Path

    from npc.page.frame import Section
    from npc.report.runs import Report, Run

SCHEMA: Final = 1
PAGE: Final = "report.html"
#: What ``--history`` without a value means: that folder here, else in the checkout.
_USUAL: Final = "history"


@click.command(short_help="One page about runs and nights, with every record.")
@click.argument("runs", nargs=-1, type=PathParameter(), metavar="[RUN]...")
@click.option(
    "--history",
    is_flag=False,
    flag_value=_USUAL,
    type=PathParameter(),
    metavar="[FOLDER]",
    help="Show the nights of a history, too: its folder; if none is named, history/ here or in the checkout.",
)
@click.option(
    "--output",
    type=PathParameter(dir_okay=False),
    metavar="FILE",
    help=f"The page; by default {PAGE} beside the run, or here if there are several.",
)
@click.option("--topology", help="Draw nodes by rack or switch: slurm, or a file (docs/blame.md).")
@click.option("--json", "as_json", is_flag=True, help="Print what the page holds as JSON.")
def report(
    runs: tuple[Path, ...], history: Path | None, output: Path | None, topology: str | None, as_json: bool
) -> None:
    """One page about RUN…: verdicts, pictures, models, nights, what failed; every number with its raw file.

    RUN is a run's folder (of a folder of runs, its newest), a records.csv, or a folder that npb wrote.
    Several are shown beside each other. The page is one file that fetches nothing, for a browser without a
    network.

    Exit codes: 0; 1 if nothing in it was measured (the page says why); 2 for bad arguments, files that
    cannot be read, or a page that cannot be written.
    """
    import csv
    import json

    from npc.machine.fabric import InvalidTopology, load
    from npc.report.history import NoHistory, read_history, usual_history
    from npc.report.joined_runs import under_ceilings
    from npc.report.page import build, render
    from npc.report.runs import Report, read_runs
    from npc.report.trials import trial_modules

    if not runs and not history:
        raise click.UsageError("name a run (runs/000003), a records.csv, or --history FOLDER")
    path = output or picture_folder(runs) / PAGE
    try:
        named = read_runs(runs)
        trials = [run for run in named if any(module.is_trial(run) for module in trial_modules())]
        shown_runs = under_ceilings([run for run in named if run not in trials] or named)
        fabric = load(topology) if topology else None
        if str(history) == _USUAL:
            history = usual_history()
        platforms = [run.platform_name for run in shown_runs if run.records]
        read = read_history(history, platforms, status_line.show) if history else None
    except FileNotFoundError as error:
        raise failure(str(error)) from None
    except OSError as error:
        raise failure(f"{error.filename}: {error.strerror}") from None
    except (InvalidTopology, NoHistory) as error:
        raise failure(str(error)) from None
    except (ValueError, csv.Error) as error:
        raise failure(f"no records: {error}") from None
    whole = Report(shown_runs, path.parent, read, fabric, trials)
    sections, absent = build(whole, status_line.show)
    status_line.show("writing the page")
    page = render(whole, sections, absent)
    status_line.show("")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, page)
    except OSError as error:
        raise failure(cannot_write(path, error)) from None
    if as_json:
        click.echo(json.dumps(_document(whole, sections, absent, path, page), indent=1))
    else:
        size = format_size(len(page.encode()) // 1024 * 1024)
        click.echo(f"{path}: {size}, {', '.join(s.title for s in sections)}")
    if not any(run.usable for run in shown_runs) and not (read and read.nights):
        click.echo(f"npc report: nothing in it was measured: {_nothing(shown_runs)}", err=True)
        raise click.exceptions.Exit(1)


def _nothing(runs: Sequence[Run]) -> str:
    """Why no record of some runs is usable."""
    statuses = Counter(record.status for run in runs for record in run.records)
    if not statuses:
        return "there are no records" if runs else "the history has no nights"
    reason, times = statuses.most_common(1)[0]
    return f"no record is usable; {times} of {sum(statuses.values())}: {reason}"


def _document(
    whole: Report, sections: Sequence[Section], absent: Sequence[tuple[str, str]], path: Path, page: str
) -> dict[str, Any]:
    """What ``--json`` prints; docs/report.md explains it."""
    from npc.page.blocks import figures

    return {
        "schema": SCHEMA,
        "path": str(path),
        "bytes": len(page.encode("utf-8", errors="backslashreplace")),
        "runs": [
            {
                "label": run.label,
                "folder": str(run.folder),
                "joined": [str(guest.folder) for guest in run.guests],
                "platform": run.platform_name,
                "records": len(run.records),
                "usable": run.usable,
                "series": len(run.series),
            }
            for run in whole.runs
        ],
        "tried": [str(run.folder) for run in whole.trials],
        "history": whole.history
        and {
            "folder": str(whole.history.folder),
            "platforms": list(whole.history.platforms),
            "nights": whole.history.nights,
            "rows": whole.history.rows,
            "series": len(whole.history.series),
        },
        "sections": [
            {"name": section.name, "title": section.title, "figures": len(list(figures(section.blocks)))}
            for section in sections
        ],
        "absent": dict(absent),
        "charts": whole.charts,
    }
