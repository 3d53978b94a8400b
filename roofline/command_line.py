"""What the commands of this room share: they read records, and end with one line about what is wrong."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from npc.commands.parameters import PathParameter
from npc.records.record import Record, replace
from npc.records.run import read_run, records_file

USAGE: Final = 2
RECORDS: Final = click.argument("records", nargs=-1, required=True, type=PathParameter())
OUTPUT: Final = click.option(
    "--output", type=PathParameter(file_okay=False), metavar="DIR",
    help="Folder of the pictures; by default beside the records, or the present one if there are several.",
)  # fmt: skip


def read_records(paths: Sequence[Path]) -> list[Record]:
    """Records of all paths; the same file named twice counts once, since repeats would narrow intervals.

    Runs of one name in several folders (every folder of runs begins with 000000) get their folder's.
    """
    records: list[Record] = []
    names: set[str] = set()
    for file, path in {records_file(path).resolve(): path for path in paths}.items():
        try:
            read = read_run(file)
        except FileNotFoundError as error:
            raise failure(str(error)) from None
        except OSError as error:
            raise failure(f"{path}: {error.strerror}") from None
        except (ValueError, csv.Error) as error:
            raise failure(f"no records: {error}") from None
        own = {record.run for record in read}
        records += [replace(record, run=f"{path}/{record.run}") for record in read] if own & names else read
        names |= own
    return records


def picture_folder(paths: Sequence[Path]) -> Path:
    """Where pictures go if nobody says: beside the records, or here if there are several."""
    if len(paths) != 1:
        return Path()
    file = records_file(paths[0])
    return file if file.is_dir() else file.parent


def failure(message: str, code: int = USAGE) -> SystemExit:
    """Say what is wrong; raising the result ends the command with `code`."""
    click.echo(f"{click.get_current_context().command_path}: {message}", err=True)
    return SystemExit(code)
