"""Readings as a table, CSV or JSON on standard output."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import click

from npc.columns import columns
from npc.records.reading import Reading
from npc.records.units import METRICS, format_quantity, format_size

_COLUMNS: Final = ("case", "metric", "value", "unit", "size", "status", "params")

_Row = dict[str, object]


def _rows(readings: Mapping[str, list[Reading]]) -> Iterator[_Row]:
    """One row a reading, with the file it is from if there are several."""
    for name, of_file in readings.items():
        for reading in of_file:
            row: _Row = {"file": name} if len(readings) > 1 else {}
            row.update({column: getattr(reading, column, None) for column in _COLUMNS})
            row["unit"] = METRICS[reading.metric].unit
            row["params"] = dict(reading.params)
            yield row


def print_json(readings: Mapping[str, list[Reading]]) -> None:
    json.dump(list(_rows(readings)), sys.stdout, indent=1)
    sys.stdout.write("\n")


def print_csv(readings: Mapping[str, list[Reading]]) -> None:
    columns = ("file", *_COLUMNS) if len(readings) > 1 else _COLUMNS
    writer = csv.DictWriter(sys.stdout, columns, lineterminator="\n")
    writer.writeheader()
    for row in _rows(readings):
        row["params"] = json.dumps(row["params"], sort_keys=True) if row["params"] else ""
        writer.writerow(row)


def print_table(readings: Mapping[str, list[Reading]]) -> None:
    """Aligned columns; a heading a file if there are several."""
    for name, of_file in readings.items():
        lines = [("case", "size", "metric", "value", "params", "status"), *map(_cells, of_file)]
        if len(readings) > 1:
            click.echo(f"{name}:")
        if of_file:
            click.echo("\n".join(columns(lines, right=(1, 3))))


def _cells(reading: Reading) -> tuple[str, ...]:
    """A reading as people read it: engineering prefixes."""
    value, unit = reading.value, METRICS[reading.metric].unit
    return (
        reading.case,
        format_size(reading.size),
        reading.metric,
        "" if value is None else format_quantity(value, unit),
        " ".join(f"{key}={value}" for key, value in reading.params.items()),
        reading.status,
    )


#: What prints readings as ``--format`` names it.
FORMATS: Final[dict[str, Callable[[Mapping[str, list[Reading]]], None]]] = {
    "table": print_table,
    "csv": print_csv,
    "json": print_json,
}
