"""``npc program efficiency``: POP's efficiencies of observed runs, and how they scale, as table and
picture."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import click

from npc.commands.parameters import PathParameter, RunParameter
from npc.files import InvalidFile, read_text

if TYPE_CHECKING:
    from pathlib import Path


@click.command(short_help="How well an observed program uses its CPUs.")
@click.argument("folders", nargs=-1, required=True, type=RunParameter())
@click.option(
    "--strong/--weak", "strong", default=True, show_default=True,
    help="Whether all runs did the same work, or each CPU as much as in the reference.",
)  # fmt: skip
@click.option(
    "--region", default="", metavar="NAME", help="Of this region (MPI_Pcontrol) instead of the run."
)
@click.option(
    "--gpu", "gpu_file", type=PathParameter(exists=True, dir_okay=False), metavar="CSV",
    help="Efficiencies of the GPU by rank, for the load imbalance: columns rank, sm_efficiency, "
    "warp_execution_efficiency (percentages). For one run.",
)  # fmt: skip
@click.option(
    "--output", type=PathParameter(file_okay=False), metavar="DIR",
    help="Folder of the pictures; by default the run's, or here if there are several.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the numbers as JSON instead of the table.")
def efficiency(
    folders: tuple[Path, ...],
    strong: bool,
    region: str,
    gpu_file: Path | None,
    output: Path | None,
    as_json: bool,
) -> None:
    """How well the runs in FOLDERS, made by npc observe, used their CPUs, and how they scale.

    Parallel efficiency = load balance × communication efficiency (× OpenMP's); global efficiency = parallel
    efficiency × computation scaling against the run with the fewest CPUs. Writes efficiency.png and .svg.

    Exit code: 0; 1 if no run has a profile; 2 for bad arguments or what cannot be read or written.
    """
    import json
    from dataclasses import replace
    from pathlib import Path

    from npc.figures.printed import save
    from npc.figures.source import of_records
    from npc.files import cannot_write, replacing
    from npc.observe.mpi.runs import NothingObserved, chart_of, format_runs, read_runs, to_document
    from npc.records.run import RECORDS, read_run

    if gpu_file and len(folders) > 1:
        raise click.UsageError("--gpu is for one run: name one folder")
    try:
        gpu = gpu_efficiencies(gpu_file) if gpu_file else None
        runs = read_runs(folders, not strong, region, gpu)
    except NothingObserved as error:
        click.echo(f"npc program efficiency: {error}", err=True)
        sys.exit(1)
    except KeyError as error:
        raise click.UsageError(f"{gpu_file}: it has no rank {error}") from None
    except OSError as error:  # also of a file that somebody removed meanwhile
        raise click.UsageError(f"{error.filename}: {error.strerror}") from None
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if as_json:
        click.echo(json.dumps(to_document(runs, not strong), indent=1))
    else:
        click.echo(format_runs(runs, not strong) + "\n")
    folder = output or (folders[0] if len(folders) == 1 and folders[0].is_dir() else Path())
    paths = [folder / "efficiency.png", folder / "efficiency.svg"]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        records = [record for path in folders if (path / RECORDS).is_file() for record in read_run(path)]
        chart = replace(chart_of(runs, not strong), source=of_records(records))
        with replacing(paths[0]) as png, replacing(paths[1]) as svg:
            save([chart], [png, svg])
    except OSError as error:
        raise click.UsageError(cannot_write(folder, error)) from None
    for path in paths:
        click.echo(path, err=as_json)


def gpu_efficiencies(path: Path) -> dict[int, float]:
    """Eq. 4.3 for each rank. Raises OSError, InvalidFile."""
    import csv

    efficiencies: dict[int, float] = {}
    with io.StringIO(read_text(path, "replace"), newline="") as file:
        reader = csv.DictReader(file)
        while True:
            try:
                row = next(reader, None)
                if row is None:
                    return efficiencies
                busy, active = (
                    float(row[name].strip().rstrip("%")) / 100
                    for name in ("sm_efficiency", "warp_execution_efficiency")
                )
                rank = int(row["rank"])
            except (AttributeError, KeyError, TypeError, ValueError, csv.Error):
                raise InvalidFile(
                    f"{path}:{reader.line_num}: expected columns rank, sm_efficiency, "
                    "warp_execution_efficiency"
                ) from None
            if not (0 < busy <= 1 and 0 < active <= 1):
                raise InvalidFile(f"{path}: rank {rank}: efficiencies are percentages above 0, up to 100")
            efficiencies[rank] = busy * active
