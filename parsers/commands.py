"""``npc parse``: a tool's raw text as readings, without a run around it."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import click

import parsers
from npc.record import OK, Reading
from npc.units import METRICS, format_quantity, format_size

_COLUMNS: Final = ("case", "metric", "value", "unit", "size", "status", "params")
_STDIN: Final = "-"

_Row = dict[str, object]


@click.command()
@click.argument("tool")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True
)
@click.option("--command", default="", help="The tool's command line, where the text does not hold it.")
def parse(tool: str, files: tuple[str, ...], form: str, command: str) -> None:
    """Readings in SI units of what TOOL printed into FILE (- is standard input).

    A first line "#@ cmd: COMMAND" of a FILE is the tool's command line. csv and json hold one reading a
    row, values in B/s, s, 1/s or FLOP/s and sizes in bytes; of several files, a column "file" as well.

    Exit code 1 if a FILE holds no usable reading, 2 if TOOL is unknown or a FILE cannot be read.
    """
    if tool not in parsers.names():
        raise click.UsageError(f"there is no parser {tool!r}; there are: {', '.join(parsers.names())}")
    argv = parsers.split_command(command)
    texts = {name: _read(name) for name in dict.fromkeys(files)}
    readings = {name: parsers.parse(tool, text, argv) for name, text in texts.items()}
    _FORMATS[form](readings)
    complaints = [_complaint(tool, name, texts[name], found) for name, found in readings.items()]
    if any(complaints):
        sys.stdout.flush()
        raise click.ClickException("\n".join(filter(None, complaints)))


def _read(name: str) -> str:
    """The text of a file, bytes that are no UTF-8 replaced. Raises `click.UsageError`."""
    try:
        data = sys.stdin.buffer.read() if name == _STDIN else Path(name).read_bytes()
    except OSError as error:
        raise click.UsageError(f"{name}: {error.strerror or error}") from None
    return data.decode("utf-8", "replace")


def _complaint(tool: str, name: str, text: str, found: list[Reading]) -> str:
    """Why a file is of no use; nothing if it holds a usable reading."""
    if any(reading.status == OK for reading in found):
        return ""
    where = "standard input" if name == _STDIN else name
    if not text.strip():
        return f"{where}: empty"
    if not found:
        return f"{where}: no reading of {tool} in it: another tool's output, or cut off before a result"
    return f"{where}: no usable reading: {found[0].case} {found[0].status}"


def _rows(readings: Mapping[str, list[Reading]]) -> Iterator[_Row]:
    """One row a reading, with the file it is from if there are several."""
    for name, found in readings.items():
        for reading in found:
            row: _Row = {"file": name} if len(readings) > 1 else {}
            row.update({column: getattr(reading, column, None) for column in _COLUMNS})
            row["unit"] = METRICS[reading.metric].unit
            row["params"] = dict(reading.params)
            yield row


def _print_json(readings: Mapping[str, list[Reading]]) -> None:
    json.dump(list(_rows(readings)), sys.stdout, indent=1)
    sys.stdout.write("\n")


def _print_csv(readings: Mapping[str, list[Reading]]) -> None:
    columns = ("file", *_COLUMNS) if len(readings) > 1 else _COLUMNS
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in _rows(readings):
        row["params"] = json.dumps(row["params"], sort_keys=True) if row["params"] else ""
        writer.writerow(row)


def _print_table(readings: Mapping[str, list[Reading]]) -> None:
    """Aligned columns; a heading a file if there are several."""
    for name, found in readings.items():
        lines = [("case", "size", "metric", "value", "params", "status"), *map(_cells, found)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        if len(readings) > 1:
            click.echo(f"{name}:")
        for line in lines if found else ():
            cells = [
                cell.rjust(width) if place in (1, 3) else cell.ljust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ]
            click.echo("  ".join(cells).rstrip())


def _cells(reading: Reading) -> tuple[str, ...]:
    """A reading as people read it: engineering prefixes, sizes as powers of 1024 where they are."""
    value, unit = reading.value, METRICS[reading.metric].unit
    return (
        reading.case,
        "" if reading.size is None else format_size(reading.size),
        reading.metric,
        "" if value is None else format_quantity(value, unit),
        " ".join(f"{key}={value}" for key, value in reading.params.items()),
        reading.status,
    )


_FORMATS: Final[dict[str, Callable[[Mapping[str, list[Reading]]], None]]] = {
    "table": _print_table,
    "csv": _print_csv,
    "json": _print_json,
}
