"""``npc advise RUN…``: bottlenecks and hints in plain words, each with its evidence; or how much of its
nominal limits a machine reaches."""

from __future__ import annotations

import inspect
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from npc.commands.parameters import RunParameter
from npc.document import plain
from npc.report.trials import trial_modules

if TYPE_CHECKING:
    from pathlib import Path

    from npc.report.advice import Advice
    from npc.report.runs import Run

SCHEMA: Final = 1


class AdviseCommand(click.Command):
    """A command with the options of what tries hints."""

    def __init__(self, *args: Any, **extra: Any) -> None:
        super().__init__(*args, **extra)
        for module in trial_modules():
            self.params.extend(module.OPTIONS)
            self.help = f"{inspect.cleandoc(self.help or '')}\n\n{module.HELP}"


@click.command(cls=AdviseCommand, short_help="What holds this machine back, and what a change would bring.")
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
def advise(
    runs: tuple[Path, ...],
    platform: str,
    as_json: bool,
    score: bool,
    list_rules: bool,
    **of_trials: Any,
) -> None:
    """What holds the machine of RUN... back: run folders, folders of runs (the newest), or records.csv files.

    Several are judged as one: applications that npc observe saw meet the ceilings of the other runs, and
    pairs of nodes that npb measured are named. Every hint has its evidence in the records or in
    environment.json, and says what it would bring at most.

    Exit codes: 0, also where nothing is found; 1 no record is usable, so nothing could be judged, or
    (--score) no part has both a measurement and a nominal limit; 2 usage.
    """
    import csv
    import json

    from npc.columns import sentences
    from npc.report.advice import advise as judge
    from npc.report.advice import all_rules, gather

    if list_rules:
        for rule in all_rules():
            click.echo(f"{rule.name:15} {rule.title}\n{'':15} {rule.source}")
        return
    if not runs:
        raise click.UsageError("name a run's folder or a records.csv")
    trials = [module for module in trial_modules() if module.is_asked(of_trials)]
    if score and trials:
        raise click.UsageError(f"--score and {trials[0].OPTIONS[0].opts[0]} exclude each other")
    try:
        run = gather(runs, platform)
    except (OSError, ValueError, csv.Error) as error:
        raise click.UsageError(str(error)) from None
    if score:
        _score(run, as_json)
        return
    advice = judge(run, platform)
    for module in trials:
        module.try_hint(run, advice, of_trials, as_json)
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
            *(f"   try:    {module.how_to_try(run, advice, number - 1)}" for module in trial_modules()),
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
