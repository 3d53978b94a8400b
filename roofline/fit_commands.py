"""``npc model fit`` and ``npc model predict``: communication models from records, and times from the
models."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from npc.commands.parameters import PathParameter
from npc.files import parse_json, read_bytes
from npc.roofline.command_line import RECORDS, failure, read_records

if TYPE_CHECKING:
    from pathlib import Path

    from npc.roofline.prediction import BelievedModels

_MAKES: Final = "`npc model fit RECORDS --output FIT.json` makes what is meant"
_OPERATIONS: Final = ("send", "bcast", "allreduce", "alltoall", "barrier")


@click.command(short_help="Fit communication models to measured message times.")
@RECORDS
@click.option(
    "--output", type=PathParameter(dir_okay=False), metavar="FILE",
    help="Write the fits as JSON, for npc model predict.",
)  # fmt: skip
@click.option(
    "--plot", type=PathParameter(dir_okay=False), metavar="FILE",
    help="Draw measured times and fitted lines (.png, .svg, .pdf).",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the JSON instead of the tables.")
def fit(records: tuple[Path, ...], output: Path | None, plot: Path | None, as_json: bool) -> None:
    """Communication models (Hockney, LogGP, LogfP, log_3P, BSP, τ-Lop) from RECORDS.

    RECORDS are run folders or records.csv files. Every sweep over the message size is fitted with all models
    that apply; each parameter has its interval, each model its error on sizes it was not shown.

    Exit code: 0; 1 if there is no sweep to fit; 2 for bad arguments or a file that cannot be written.
    """
    import json

    from npc.columns import sentences
    from npc.roofline.fit_document import to_document
    from npc.roofline.fit_table import format_fits
    from npc.roofline.fits import fit_records

    read = read_records(records)
    fits = fit_records(read)
    if not fits.fits:
        reasons = "".join(f"; {name}: {reason}" for name, reason in fits.skipped.items())
        bad = sum(not record.ok for record in read)
        reasons += f"; {bad} of them failed or are invalid (npc check says why)" if bad else ""
        rest = "\n  ".join(["\nThis measures one:", *fits.rest])
        raise failure(
            f"none of the {len(read)} records is part of a sweep over the message size{reasons}{rest}", 1
        )
    document = to_document(fits)
    click.echo(json.dumps(document, indent=1) if as_json else sentences(format_fits(fits)))
    if output:
        from npc.files import cannot_write, write_whole

        try:
            write_whole(output, json.dumps(document, indent=1) + "\n")
        except OSError as error:
            raise failure(cannot_write(output, error)) from None
    if plot:
        from npc.figures.source import of_records
        from npc.files import cannot_write, replacing
        from npc.roofline.fit_plot import draw

        try:
            with replacing(plot) as partial:
                drawn = draw(fits.fits, partial, of_records(read))
        except OSError as error:
            raise failure(cannot_write(plot, error, "--plot")) from None
        except ValueError as error:
            raise failure(f"cannot draw {plot}: {error}") from None
        if not drawn:
            click.echo("No picture: none of the models is one of times over sizes.", err=True)


@click.command(short_help="Times of messages and collectives from such a fit.")
@click.argument("fits", metavar="FIT.json", type=PathParameter())
@click.option("--sweep", metavar="NAME", help="The sweep whose fit is used, e.g. osu_latency.")
@click.option(
    "--operation", multiple=True, type=click.Choice(_OPERATIONS), help="Repeat for several; default: all."
)
@click.option(
    "--processes", default="16,128,1024", show_default=True, metavar="P,…", help="Numbers of processes."
)
@click.option(
    "--size", default="8,1KiB,64KiB,1MiB", show_default=True, metavar="SIZE,…", help="Message sizes."
)
@click.option(
    "--reduction", type=click.FloatRange(min=0), metavar="S_PER_BYTE",
    help="Time to reduce one byte in all-reduce; default: from STREAM's add, if the records had it.",
)  # fmt: skip
@click.option(
    "--extrapolate", is_flag=True,
    help="Also predict messages of more than 4 times the largest size fitted, which is little reliable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of the table.")
def predict(
    fits: Path,
    sweep: str | None,
    operation: tuple[str, ...],
    processes: str,
    size: str,
    reduction: float | None,
    extrapolate: bool,
    as_json: bool,
) -> None:
    """Times of messages and collectives never measured, from FIT.json (npc model fit --output).

    Sizes count as in the OSU benchmarks: of all-to-all, bytes to each process. What lies outside of the sizes
    fitted is marked as extrapolated, and left out where a message has more than 4 times the largest of them.

    Exit code: 0; 1 if FIT.json has no fit of a message's time; 2 for bad arguments or a file that is no
    FIT.json.
    """
    import json
    import math
    from dataclasses import asdict

    from npc.columns import sentences
    from npc.roofline.fit_document import InvalidDocument, predictable, read_believed
    from npc.roofline.fit_table import format_predictions
    from npc.roofline.prediction import REACH
    from npc.roofline.prediction import predict as predict_times
    from npc.validity.disturbance import remark

    document = _document(fits)
    ranks, sizes = _processes(processes), _sizes(size)
    try:
        chosen = _choose(predictable(document), sweep)
        believed = read_believed(document, chosen)
    except InvalidDocument as error:
        raise failure(f"{fits}: {error}") from None
    reduction = document.get("reduction") if reduction is None else reduction
    if reduction is not None and not math.isfinite(reduction):
        raise click.BadParameter(f"{reduction} is no time", param_hint="--reduction")
    try:
        every = list(predict_times(believed, operation or _OPERATIONS, ranks, sizes, reduction))
    except (ArithmeticError, LookupError, ValueError) as error:  # lines that contradict each other
        raise failure(f"{fits}: it is damaged: {error}") from None
    predictions = [prediction for prediction in every if extrapolate or not prediction.far]
    if not predictions and not as_json:
        raise failure(
            "nothing is left: all messages have more than "
            f"{REACH:.0f} times the largest size fitted; name smaller ones by --size, or --extrapolate",
            1,
        )
    if as_json:
        answer = {
            "schema": 1,
            "sweep": chosen["sweep"],
            "believed": [part._asdict() for part in believed.ranges],
            "reduction": reduction,
            "predictions": [asdict(prediction) for prediction in predictions],
        }
        click.echo(json.dumps(answer, indent=1))
        return
    remarks = _remarks(chosen, believed, reduction, predictions, operation)
    if disturbed := document.get("disturbed"):  # older ones do not say
        remarks.append(remark(str(disturbed)))
    if len(predictions) < len(every):
        remarks.append(
            f"Left out: {len(every) - len(predictions)} with messages of more than {REACH:.0f} times the "
            "largest size fitted (--extrapolate); a sweep over larger sizes tells more."
        )
    click.echo(sentences(format_predictions(predictions, remarks)))


def _remarks(
    chosen: dict[str, Any],
    believed: BelievedModels,
    reduction: float | None,
    predictions: Sequence[Any],
    operation: Sequence[str],
) -> list[str]:
    """What to know below the table."""
    from npc.records.units import format_size, plural
    from npc.roofline.fit_table import NO_ARITHMETIC, ranges_text

    coverage = min(
        (prediction.coverage for prediction in predictions if prediction.coverage is not None), default=None
    )
    remarks = [
        f"From {chosen['sweep']['name']} on {chosen['sweep']['platform']}, "
        f"{format_size(chosen['first'])} to {format_size(chosen['last'])}, "
        f"{plural(chosen['sweep']['nodes'], 'node')}. "
        "No link is shared in these models: where links are, the true time is longer.",
        f"Believed, by the errors on sizes not shown: {ranges_text(believed.ranges)}.",
    ]
    if coverage is not None:
        remarks.append(f"The intervals cover with at least {100 * coverage:.3g} %, if the model holds.")
    if reduction is None and (not operation or "allreduce" in operation):
        remarks.append(NO_ARITHMETIC)
    return remarks


def _choose(candidates: list[dict[str, Any]], name: str | None) -> dict[str, Any]:
    """The fit that is meant."""
    from npc.roofline.messages import preference

    names = [fit["sweep"]["name"] for fit in candidates]
    if not candidates:
        raise failure("there is no fit of a message's time in it: a latency sweep gives one", 1)
    if name is not None:
        candidates = [fit for fit in candidates if name in (fit["sweep"]["name"], fit["sweep"]["case"])]
        if not candidates:
            raise failure(f"--sweep {name}: there are {', '.join(sorted(set(names)))}")
    sweeps = ("benchmark", "case", "nodes")
    return min(candidates, key=lambda fit: preference(*(fit["sweep"][name] for name in sweeps)))


def _document(path: Path) -> Any:
    try:
        return parse_json(read_bytes(path))
    except FileNotFoundError:
        raise failure(f"{path}: no such file; `npc model fit RECORDS --output {path}` makes it") from None
    except OSError as error:
        raise failure(f"{path}: {error.strerror}; {_MAKES}") from None
    except ValueError:
        raise failure(f"{path}: no JSON; {_MAKES}") from None


def _processes(text: str) -> list[int]:
    try:
        ranks = [int(word) for word in text.split(",")]
    except ValueError:
        ranks = []
    if not ranks or min(ranks) < 2 or max(ranks) > 10_000_000:
        raise click.BadParameter(f"{text!r}: numbers from 2 on, e.g. 16,128", param_hint="--processes")
    return ranks


def _sizes(text: str) -> list[int]:
    from npc.records.units import parse_size

    try:
        return [parse_size(word) for word in text.split(",")]
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--size") from None
