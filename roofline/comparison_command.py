"""``npc model sweep``: tools and MPI implementations against each other over message size, as table and
picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from npc.roofline.command_line import OUTPUT, RECORDS, failure, picture_folder, read_records

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="Bandwidth and latency over message size, by tool.")
@RECORDS
@click.option(
    "--case", "cases", multiple=True, metavar="PATTERN",
    help="Tests to show: osu_allreduce, 'imb/*'; may be repeated. By default what measures a link.",
)  # fmt: skip
@OUTPUT
@click.option("--json", "as_json", is_flag=True, help="Print every point instead of the table.")
def sweep(records: tuple[Path, ...], cases: tuple[str, ...], output: Path | None, as_json: bool) -> None:
    """Bandwidth and latency over message size, a line for each tool, test and MPI of RECORDS.

    RECORDS are run folders or records.csv files. Writes sweep.png and sweep.svg.

    Exit code: 0; 1 if no test was measured at two sizes; 2 for bad arguments or an unwritable folder.
    """
    import json

    from npc.files import cannot_write, replacing
    from npc.records.units import METRICS
    from npc.roofline.comparison import draw_sweeps, find_sweeps, format_sweeps
    from npc.validity.disturbance import in_words, remark

    read = read_records(records)
    sweeps = find_sweeps(read, cases)
    if not sweeps:
        usable = sum(record.ok for record in read)
        chosen = f" of {', '.join(cases)} (--case)" if cases else ""
        raise failure(
            f"none of the {usable} usable records is of a test{chosen} at two message sizes or more", 1
        )
    disturbed = in_words(record for one in sweeps for some in one.records.values() for record in some)
    if as_json:
        lines = [
            {
                "name": one.name,
                "metric": one.metric,
                "unit": METRICS[one.metric].unit,
                "mpi": one.mpi,
                "network": one.network,
                "points": [{"size": size, **point._asdict()} for size, point in one.points.items()],
            }
            for one in sweeps
        ]
        platforms = sorted({record.platform for record in read})
        document = {"schema": 1, "platforms": platforms, "disturbed": disturbed, "sweeps": lines}
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo("\n\n".join(filter(None, (format_sweeps(sweeps), remark(disturbed)))) + "\n")
    folder = output or picture_folder(records)
    paths = [folder / "sweep.png", folder / "sweep.svg"]
    title = ", ".join(sorted({record.platform for record in read}))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with replacing(paths[0]) as png, replacing(paths[1]) as svg:
            draw_sweeps(sweeps, title, [png, svg])
    except OSError as error:
        raise failure(cannot_write(folder, error)) from None
    for path in paths:
        click.echo(path, err=as_json)
