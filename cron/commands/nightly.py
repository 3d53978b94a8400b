"""``npc night run``: a night."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from npc.commands.parameters import Duration, PathParameter
from npc.commands.rare_options import RareOption
from npc.cron.commands import (
    LOCK,
    NODES_HELP,
    NodeNames,
    check_one_job,
    chosen,
    folder_of,
    of_at_once,
    of_benchmark,
    of_each_node,
    of_history,
    of_node_benchmarks,
    of_platform,
    of_settings,
    of_tags,
    rotation_of,
)
from npc.files import cannot_write, naming

if TYPE_CHECKING:
    from pathlib import Path

    from npc.cron.nightly import NightOutcome, Options

NIGHTS: Final = "runs/nightly"


@click.command(short_help="One night: measure, judge, name the node to blame.")
@of_platform
@of_tags
@of_settings
@of_benchmark
@of_history
@click.option(
    "--output",
    cls=RareOption,
    type=PathParameter(file_okay=False),
    help="Folder of the raw runs (default: runs/nightly/PLATFORM).",
)
@click.option(
    "--limit",
    type=Duration(),
    default="3h",
    show_default=True,
    help="How long the night may take: 90s, 10m, 3h.",
)
@click.option(
    "--budget", type=Duration(),
    help="Node time that its jobs may take, nodes times hours as Slurm bills them: 10m, 8h (default: any).",
)  # fmt: skip
@click.option(
    "--one-job", cls=RareOption, is_flag=True,
    help="Each measurement of the night in one job instead of a job a benchmark (docs/cluster.md).",
)  # fmt: skip
@of_each_node
@click.option("--nodes", cls=RareOption, type=NodeNames(), default=(), help=NODES_HELP)
@click.option(
    "--within", cls=RareOption, type=click.IntRange(1), default=14, show_default=True,
    help="Number of nights in which --each-node has measured every node once.",
)  # fmt: skip
@of_at_once
@of_node_benchmarks
@click.option(
    "--keep-runs", cls=RareOption, type=click.IntRange(0), default=14, show_default=True,
    help="Number of good nights whose raw runs are kept; those of bad nights always are.",
)  # fmt: skip
@click.option(
    "--topology",
    default="",
    help="Switches and racks, which may be to blame, too: slurm, or a file (docs/blame.md).",
)
@click.option(
    "--no-pairs", cls=RareOption, is_flag=True, help="Do not confirm suspects by a matrix of pairs."
)
@click.option("--drain", is_flag=True, help="Let Slurm drain the nodes to blame (docs/nightly.md).")
@click.option(
    "--textfile", cls=RareOption, type=PathParameter(file_okay=False, exists=True),
    help="Also write npc-PLATFORM.prom into this folder of node_exporter's textfile collector.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print verdict.json instead of the table.")
def nightly(
    platform: str,
    tags: tuple[str, ...],
    given: tuple[str, ...],
    benchmark: str | None,
    history: Path | None,
    output: Path | None,
    limit: float,
    budget: float | None,
    one_job: bool,
    each_node: bool,
    nodes: tuple[str, ...],
    within: int,
    at_once: int,
    node_benchmarks: tuple[str, ...],
    keep_runs: int,
    topology: str,
    no_pairs: bool,
    drain: bool,
    textfile: Path | None,
    as_json: bool,
) -> None:
    """One night: characterise, append to the history, judge, measure the suspicious again, say who it is.

    Exit codes by the worst verdict: 0 all as always, 10 CHANGED, 11 MISSING, 12 INVALID, 13 DEGRADED, 14
    FAIL; 1 it could not run or be written down, 2 usage, 130 and 143 stopped (what was measured is kept).
    """
    import contextlib
    import errno
    from pathlib import Path

    from npc.cron.characterise import alone_on
    from npc.cron.nightly import NightRun, Options, Stopped
    from npc.cron.node_parts import slurm_nodes
    from npc.jobs.scheduler import SchedulerUnavailable
    from npc.jobs.stop import Stop
    from npc.jobs.wait import missing
    from npc.locks import LockHeld, only_one
    from npc.machine.fabric import load
    from npc.machine.tools import find
    from npc.places import workplace

    if find("jube") is None:
        raise click.ClickException(missing(FileNotFoundError(errno.ENOENT, "", "jube")))
    _, folder, file, _ = chosen(platform, tags, given, benchmark)  # before the night, not in it
    if one_job:
        check_one_job(folder)
    if nodes and not each_node:
        raise click.UsageError("--nodes goes with --each-node; for other jobs it is --set nodelist=n1,n2")
    rotation = rotation_of(folder, given, within, at_once, node_benchmarks, nodes) if each_node else None
    if rotation:  # what is not there is a mistake in the command, and no matter of the night
        with contextlib.suppress(SchedulerUnavailable, FileNotFoundError):
            slurm_nodes(folder, _words(tags, given, file, one_job), rotation.only)
    options = Options(
        platform=folder,
        history=folder_of(history, folder.name),
        runs=(output or workplace() / NIGHTS / folder.name).resolve(),
        words=_words(tags, given, file, one_job),
        keep_runs=keep_runs,
        limit_s=limit,
        budget_s=budget,
        rotation=rotation,
        pairs=not no_pairs,
        topology=topology if topology in ("", "slurm") else str(Path(topology).resolve()),
        fabric=load(topology) if topology else None,
    )
    try:
        options.history.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise click.ClickException(cannot_write(options.history, error, "--history")) from None
    try:
        with (
            Stop().listening() as stop,
            only_one(options.history / LOCK, 2 * limit) as lock,
            alone_on(folder, options.runs, 2 * limit),
        ):
            night_run = NightRun(options, stop)
            if lock.died:
                night_run.notes.append(f"the night before died ({lock.died})")
            try:
                outcome = night_run.run()
                _write(options.history, outcome, drain, textfile, as_json)
                night_run.end(outcome.night)
            except Stopped:
                click.echo("stopped: what was measured is kept; the next night judges it", err=True)
                sys.exit(128 + (stop.number or 0))
            except OSError as error:
                raise click.ClickException(_cannot_write(error, options)) from None
    except LockHeld as who:
        raise click.ClickException(f"another night is running ({who})") from None
    sys.exit(outcome.night.exit_code)


def _words(tags: Sequence[str], given: Sequence[str], file: Path | None, one_job: bool) -> tuple[str, ...]:
    """The same for ``npc characterise``."""
    words = [word for tag in tags for word in ("--tag", tag)]
    words += [word for setting in given for word in ("--set", setting)]
    words += ["--one-job"] if one_job else []
    return (*words, *(["--benchmark", str(file)] if file else []))


def _write(history: Path, outcome: NightOutcome, drain: bool, textfile: Path | None, as_json: bool) -> None:
    """Write and print the verdict; drain whom it names, if that is wanted and the verdict is bad enough."""
    from pathlib import Path

    from npc.columns import sentences
    from npc.cron import drain as draining
    from npc.cron.outputs import table
    from npc.cron.publish import write_verdict
    from npc.records.verdicts import Verdict, to_text

    nodes = draining.to_drain(outcome.night, outcome.matrix)
    lasting = not outcome.night.verdict < Verdict.DEGRADED
    for node, reason in nodes.items() if drain and lasting else ():
        problem = draining.drain(node, reason)
        outcome.notes.append(
            f"{node} was not drained: {problem}" if problem else f"{node} was drained: {reason}"
        )
    written = write_verdict(history, outcome.night, outcome.notes, outcome.matrix, textfile)
    lines = [] if drain else [draining.drain_line(node, reason) for node, reason in nodes.items()]
    text = to_text(written) if as_json else table(outcome.night, outcome.notes, outcome.matrix, lines)
    with naming(Path("stdout")):
        click.echo(text if as_json else sentences(text), nl=False)


def _cannot_write(error: OSError, options: Options) -> str:
    where = f": {error.filename}" if error.filename else ""
    return (
        f"{error.strerror or error}{where}; what this night measured is in {options.runs}, and the next one "
        f"goes on from there"
    )
