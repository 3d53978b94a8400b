"""``npc program study predict``: the time of a study's program on a machine that it has not run on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from npc.commands.parameters import PathParameter

if TYPE_CHECKING:
    from npc.observe.study.program_conditions import Resource
    from npc.observe.study.program_prediction import Prediction
    from npc.observe.study.records import Study
    from npc.roofline.result import Roofline

RESOURCES: Final[tuple[Resource, ...]] = ("cpu", "memory", "mpi", "io")


@click.command(short_help="Predict a study's time on another machine.")
@click.argument("folder", type=PathParameter(exists=True, file_okay=False))
@click.option("--on", "there", type=PathParameter(), metavar="RUN", help="Characterisation of that machine.")
@click.option(
    "--here", type=PathParameter(), metavar="RUN", help="Characterisation of the machine of the study."
)
@click.option(
    "--ratio", "given", multiple=True, metavar="NAME=X",
    help=f"How many times less a resource gives there: {', '.join(RESOURCES)}; may be repeated.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
def predict(
    folder: Path, there: Path | None, here: Path | None, given: tuple[str, ...], as_json: bool
) -> None:
    """Predict the time of the study in FOLDER on another machine, by the shares that were fitted.

    A RUN is the folder of npc characterise. Both have to hold the same tests: memory by STREAM or
    likwid-bench, compute by HPC Challenge's DGEMM, BLAS or likwid-bench, the network by a test of MPI
    messages; I/O has no ceiling, so it needs --ratio io=X.

    Exit codes: 0, 1 something is missing, 2 usage.
    """
    import json

    from npc.document import plain
    from npc.observe.study.program_prediction import CannotPredict
    from npc.observe.study.program_prediction import predict as predicted

    ratios: dict[Resource, float] = {}
    for word in given:
        name, _, text = word.partition("=")
        try:
            ratios[next(resource for resource in RESOURCES if resource == name)] = _positive(text)
        except (StopIteration, ValueError):
            known = ", ".join(RESOURCES)
            raise click.UsageError(f"--ratio {word!r}: expected NAME=NUMBER, of {known}") from None
    study = study_in(folder)
    try:
        prediction = predicted(study, _roofline(here, study.platform), _roofline(there, "there"), ratios)
    except CannotPredict as error:
        raise click.ClickException(str(error)) from None
    except ValueError as error:
        raise click.ClickException(f"{folder}: {error}") from None
    click.echo(json.dumps(plain(prediction), indent=1) if as_json else "\n".join(lines_of(prediction)))


def study_in(folder: Path) -> Study:
    """The study in a folder. Raises click.UsageError where there is none, click.ClickException for another
    file."""
    from npc.observe.study.records import STUDY, read_study

    try:
        return read_study(folder)
    except FileNotFoundError:
        raise click.UsageError(
            f"{folder} holds no study ({STUDY}): npc program study -- COMMAND makes one"
        ) from None
    except ValueError as error:
        raise click.ClickException(str(error)) from None


def lines_of(prediction: Prediction) -> Sequence[str]:
    """The prediction in words, with its parts below."""
    from npc.columns import columns

    interval = "no interval"
    if prediction.low is not None and prediction.high is not None:
        interval = f"[{prediction.low:.3g}, {prediction.high:.3g}] s with {100 * prediction.coverage:.3g} %"
    rows = [("part", "times as long", "seconds", "at least", "at most", "by")]
    for term in prediction.terms:
        least, most = (f"{end:.3g}" for end in term.slower)
        times = least if least == most else f"{least} to {most}"
        ends = (f"{term.seconds:.3g}", f"{term.low:.3g}", f"{term.high:.3g}")
        rows.append((term.name, times, *ends, term.source))
    says = (
        f"Most of it there: {prediction.dominates}."
        if prediction.dominates
        else "Which part is the largest there is not sure."
    )
    return (
        f"{prediction.program} on {prediction.there}: {prediction.seconds:.3g} s, {interval} "
        f"(on {prediction.here} {prediction.measured:.3g} s, {prediction.reference}).",
        *columns(rows, right={1, 2, 3, 4}),
        says,
        *prediction.notes,
    )


def _positive(text: str) -> float:
    """A number above 0. Raises ValueError."""
    number = float(text)
    if not 0 < number < float("inf"):
        raise ValueError(text)
    return number


def _roofline(run: Path | None, name: str) -> Roofline:
    """The ceilings of a characterisation; none without one."""
    from npc.roofline.ceilings import find_ceilings
    from npc.roofline.command_line import read_records
    from npc.roofline.result import Roofline

    if run is None:
        return Roofline(platform=name)
    roofline = find_ceilings(read_records([run]))
    if not roofline.ceilings:
        raise click.ClickException(f"{run}: no ceiling in its records; npc characterise measures them")
    return roofline
