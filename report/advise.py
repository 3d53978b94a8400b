"""``npc advise RUN…``: bottlenecks and hints in plain words, each with its evidence; or how much of its
nominal limits a machine reaches."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import click

from npc.commands.parameters import PathParameter, RunParameter
from npc.document import plain

if TYPE_CHECKING:
    from pathlib import Path

    from npc.records.launch import Launch
    from npc.report.advice import Advice
    from npc.report.advice.rule import AdviceRule, Hint, TrialChange
    from npc.report.runs import Run

SCHEMA: Final = 1


@click.command(short_help="What holds this machine back, and what a change would bring.")
@click.argument("runs", type=RunParameter(), nargs=-1, metavar="RUN...")
@click.option(
    "--platform",
    default="",
    help="Platform whose records are judged, by its nominal limits (default: the one that there is).",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/advise.md).")
@click.option(
    "--score", is_flag=True,
    help="Print instead how much of its nominal limits the machine reaches.",
)  # fmt: skip
@click.option("--rules", "list_rules", is_flag=True, help="List the rules with their sources.")
@click.option(
    "--try", "hint_name", default="", metavar="HINT",
    help="Try a hint, by its rule or its number: launches with and without the change in turns.",
)  # fmt: skip
@click.option(
    "--set", "settings", multiple=True, metavar="NAME=VALUE",
    help="With --try: the variable to try, in place of the hint's own change; may be repeated.",
)  # fmt: skip
@click.option(
    "--replace", "replaced", nargs=2, multiple=True, metavar="OLD NEW",
    help="With --try: the same with words of the command line: '-n 2' '-n 2 --bind-to core'.",
)  # fmt: skip
@click.option(
    "--launches", default=8, show_default=True, type=click.IntRange(4, 1000),
    help="With --try: how many without the change, and how many with it.",
)  # fmt: skip
@click.option(
    "--output", type=PathParameter(file_okay=False),
    help="With --try: folder for what is measured (default: tried/ and the rule's name).",
)  # fmt: skip
def advise(
    runs: tuple[Path, ...],
    platform: str,
    as_json: bool,
    score: bool,
    list_rules: bool,
    hint_name: str,
    settings: tuple[str, ...],
    replaced: tuple[tuple[str, str], ...],
    launches: int,
    output: Path | None,
) -> None:
    """What holds the machine of RUN... back: run folders, folders of runs (the newest), or records.csv files.

    Several are judged as one: applications that npc observe saw meet the ceilings of the other runs, and
    pairs of nodes that npb measured are named. Every hint has its evidence in the records or in
    environment.json, and says what it would bring at most.

    With --try the launch that a hint rests on is repeated with and without the change, in turns, and the
    ratio printed with its 95 % interval. Nothing is changed for good: the change is a part of the command.

    Exit codes: 0, also where nothing is found; 1 no record is usable, so nothing could be judged, or the hint
    cannot be tried here, or (--score) no part has both a measurement and a nominal limit; 2 usage; 6 some
    launches of --try failed; 128+N stopped by signal N, what was measured is kept.
    """
    import csv
    import json
    import re

    from npc.columns import sentences
    from npc.report.advice import advise as judge
    from npc.report.advice import all_rules, gather
    from npc.report.advice.rule import TrialChange

    if list_rules:
        for rule in all_rules():
            click.echo(f"{rule.name:15} {rule.title}\n{'':15} {rule.source}")
        return
    if not runs:
        raise click.UsageError("name a run's folder or a records.csv")
    for word in settings:
        if not hint_name or not re.fullmatch(r"[A-Za-z_]\w*=.*", word, re.DOTALL):
            why = "expected NAME=VALUE" if hint_name else "it goes with --try"
            raise click.UsageError(f"--set {word!r}: {why}")
    if score and hint_name:
        raise click.UsageError("--score and --try exclude each other")
    if replaced and not hint_name:
        raise click.UsageError("--replace goes with --try")
    try:
        run = gather(runs, platform)
    except (OSError, ValueError, csv.Error) as error:
        raise click.UsageError(str(error)) from None
    if score:
        _score(run, as_json)
        return
    advice = judge(run, platform)
    if hint_name:
        own = TrialChange(set=dict(word.split("=", 1) for word in settings), replace=replaced)
        _try(run, advice, hint_name, own if settings or replaced else None, launches, output, as_json)
        return
    click.echo(json.dumps(_document(run, advice), indent=1) if as_json else sentences(_text(run, advice)))
    if not run.usable:
        sys.exit(1)


def _score(run: Run, as_json: bool) -> None:
    """Print the machine's shares of its nominal limits; exit code 1 where no part has both."""
    import json

    from npc.columns import sentences
    from npc.report.score import format_scores, score, to_document

    scores = score(run)
    if as_json:
        click.echo(json.dumps(to_document(run, scores), indent=1))
    else:
        click.echo(sentences(format_scores(run, scores)))
    if scores.whole is None:
        sys.exit(1)


def _try(
    run: Run,
    advice: Advice,
    name: str,
    own: TrialChange | None,
    launches: int,
    output: Path | None,
    as_json: bool,
) -> None:
    """Try a hint, and end with the exit code of that."""
    import json
    import signal
    import time
    from pathlib import Path

    from npc import status_line
    from npc.files import cannot_write, write_whole
    from npc.jobs.stop import Stop
    from npc.report import tried
    from npc.report.advice import trying

    try:
        experiment = trying.design(run, *trying.choose(advice, name), own, launches)
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


def _document(run: Run, advice: Advice) -> dict[str, Any]:
    import msgspec

    return {
        "schema": SCHEMA,
        **run.document,
        "hints": [
            {"rule": rule.name, "title": rule.title, "source": rule.source, **plain(hint)}
            for rule, hint in advice.hints
        ],
        "remembered": [
            *(
                {"rule": rule.name, **msgspec.structs.asdict(setting)}
                for rule, _, setting in advice.remembered
            ),
            *(msgspec.structs.asdict(setting) for setting in advice.settings),
        ],
        "silent": list(advice.silent),
        "lacking": dict(advice.lacking),
    }


def _text(run: Run, advice: Advice) -> str:
    from npc.places import shown
    from npc.report.advice import conclusion

    parts = [run.words]
    for number, (rule, hint) in enumerate(advice.hints, 1):
        lines = [
            f"{number}. {rule.title} (rule {rule.name})",
            f"   seen:   {hint.seen}",
            f"   do:     {hint.do}",
            f"   brings: {hint.brings}",
            f"   source: {rule.source}",
            f"   try:    {_how_to_try(hint, rule, number, run, advice)}",
        ]
        if hint.raw:
            files = ", ".join(shown(run.folder / raw) for raw in hint.raw[:3])
            lines.append(f"   raw:    {files}{', …' if len(hint.raw) > 3 else ''}")
        parts.append("\n".join(lines))
    known = [f"  {setting.words}; it answers rule {rule.name}" for rule, _, setting in advice.remembered]
    known += [f"  {setting.words}" for setting in advice.settings]
    parts += (
        ["\n".join([f"Remembered of {run.platform_name}, and not proposed again:", *known])] if known else []
    )
    words, _ = conclusion(run, advice)
    parts += [words] if words else []
    if advice.silent:
        parts.append(f"Looked and found nothing: {', '.join(advice.silent)}.")
    if advice.lacking:
        lacking = "\n".join(f"  {name}: {what}" for name, what in advice.lacking.items())
        parts.append(f"Not judged, for lack of evidence:\n{lacking}")
    return "\n\n".join(parts)


def _how_to_try(hint: Hint, rule: AdviceRule, number: int, run: Run, advice: Advice) -> str:
    """The command that tries a hint, or why there is none."""
    import shlex

    from npc.places import shown

    if isinstance(hint.trial, str):
        return f"not by npc: {hint.trial}"
    alone = sum(other.name == rule.name for other, _ in advice.hints) == 1
    folders = shlex.join(shown(part.folder) for part in (run, *run.guests))
    return f"npc advise {folders} --try {rule.name if alone else number}"
