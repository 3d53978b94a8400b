"""Options of `npc advise` that try a hint, and what its page says of that (`npc.report.trials`)."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from npc.commands.parameters import PathParameter, name_values

if TYPE_CHECKING:
    from npc.records.launch import Launch
    from npc.report.advice import Advice
    from npc.report.runs import Run

OPTIONS: Final = (
    click.Option(
        ["--try", "hint_name"], default="", metavar="HINT",
        help="Try a hint, by its rule or its number: launches with and without the change in turns.",
    ),
    click.Option(
        ["--set", "settings"], multiple=True, metavar="NAME=VALUE",
        help="With --try: the variable to try, in place of the hint's own change; may be repeated.",
    ),
    click.Option(
        ["--replace", "replaced"], nargs=2, multiple=True, metavar="OLD NEW",
        help="With --try: the same with words of the command line: '-n 2' '-n 2 --bind-to core'.",
    ),
    click.Option(
        ["--launches"], default=8, show_default=True, type=click.IntRange(4, 1000),
        help="With --try: how many without the change, and how many with it.",
    ),
    click.Option(
        ["--output"], type=PathParameter(file_okay=False),
        help="With --try: folder for what is measured (default: tried/ and the rule's name).",
    ),
)  # fmt: skip
HELP: Final = """\
With --try the launch that a hint rests on is repeated with and without the change, in turns, and the ratio
printed with its 95 % interval. Nothing is changed for good: the change is a part of the command. Exit codes
of that: 0; 1 the hint cannot be tried here, or nothing usable was measured; 6 some launches failed; 128+N
stopped by signal N, what was measured is kept."""


def is_asked(options: Mapping[str, Any]) -> bool:
    """Whether a hint is to be tried. Raises click.UsageError."""
    if options["hint_name"]:
        list(name_values("--set", options["settings"], r"([A-Za-z_]\w*)=(.*)", "NAME=VALUE"))
        return True
    for option, values in (("--set", options["settings"]), ("--replace", options["replaced"])):
        if values:
            raise click.UsageError(f"{option} goes with --try")
    return False


def try_hint(run: Run, advice: Advice, options: Mapping[str, Any], as_json: bool) -> None:
    """Try a hint, and end with the exit code of that."""
    import json
    import signal
    import time
    from pathlib import Path

    from npc import status_line
    from npc.files import cannot_write, write_whole
    from npc.jobs.stop import Stop
    from npc.observe.study import tried, trying
    from npc.report.advice.rule import TrialChange

    name, launches, output = options["hint_name"], options["launches"], options["output"]
    settings, replaced = options["settings"], options["replaced"]
    own = TrialChange(set=dict(word.split("=", 1) for word in settings), replace=replaced)
    try:
        chosen = trying.choose(advice, name)
        experiment = trying.design(run, *chosen, own if settings or replaced else None, launches)
    except LookupError as error:
        raise click.UsageError(f"--try {name}: {error.args[0]}") from None
    except trying.CannotTry as error:
        raise click.ClickException(str(error)) from None
    folder = output or Path("tried") / f"{experiment.rule.name}-{time.strftime('%Y%m%dT%H%M%S')}"
    click.echo(tried.announced(experiment, folder), err=as_json)
    made = 0

    def tell(_: Launch) -> None:
        nonlocal made
        made += 1
        status_line.show(f"{made} of {2 * launches} launches")

    try:
        with Stop().listening() as stop:
            records = trying.measure(experiment, folder, time.time_ns() % 2**32, tell, stop)
            status_line.show("")
            result = trying.compared(records, folder)
            document = json.dumps(tried.document(experiment, folder, result), indent=1)
            write_whole(folder / tried.TRIED_FILE, document + "\n")
    except FileExistsError:
        raise click.UsageError(f"{folder} holds launches already: name another --output") from None
    except OSError as error:
        raise click.ClickException(cannot_write(folder, error)) from None
    click.echo(document if as_json else tried.text(experiment, folder, records, result))
    if sentence := tried.keep(experiment, folder, result):
        click.echo(sentence, err=as_json)
    if stop.number is not None:
        sentence = f"stopped by {signal.Signals(stop.number).name} after {made} of {2 * launches} launches"
        click.echo(f"npc advise: {sentence}: what was measured is kept in {folder}", err=True)
        sys.exit(128 + stop.number)
    failed = sum(not record.ok for record in records)
    if failed or not records:
        sys.exit(6 if failed < len(records) else 1)


def how_to_try(run: Run, advice: Advice, number: int) -> str:
    """The command that tries a hint, or why there is none."""
    import shlex

    from npc.places import shown

    rule, hint = advice.hints[number]
    if isinstance(hint.trial, str):
        return f"not by npc: {hint.trial}"
    alone = sum(other.name == rule.name for other, _ in advice.hints) == 1
    folders = shlex.join(shown(part.folder) for part in (run, *run.guests))
    return f"npc advise {folders} --try {rule.name if alone else number + 1}"


def is_trial(run: Run) -> bool:
    """Whether a run was measured to try a hint."""
    from npc.observe.study.tried import TRIED_FILE

    return (run.folder / TRIED_FILE).exists()


def answers(trials: Sequence[Run]) -> dict[tuple[str, str], str]:
    """(rule, what the hint has seen) → what came of trying it."""
    from npc.observe.study.tried import read_tried

    tried = filter(None, map(read_tried, trials))
    return {(trial.rule, trial.evidence): f"tried ({trial.change}): {trial.answer.word}" for trial in tried}
