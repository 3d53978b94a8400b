"""Readings as a table, CSV or JSON on standard output."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import click

from npc.columns import columns
from npc.records.reading import Reading
from npc.records.units import METRICS, format_quantity, format_size

_COLUMNS: Final = ("case", "metric", "value", "unit", "size", "status", "params")

#: What the tools printed into a file, by tool.
Readings: TypeAlias = Mapping[str, list[Reading]]
_Row = dict[str, object]


def _rows(files: Mapping[str, Readings], with_tool: bool) -> Iterator[_Row]:
    """One row a reading, with its tool if that is wanted, and the file it is from if there are several."""
    for name, by_tool in files.items():
        for tool, readings in by_tool.items():
            for reading in readings:
                row: _Row = {"file": name} if len(files) > 1 else {}
                row |= {"tool": tool} if with_tool else {}
                row.update({column: getattr(reading, column, None) for column in _COLUMNS})
                row["unit"] = METRICS[reading.metric].unit
                row["params"] = dict(reading.params)
                yield row


def print_json(files: Mapping[str, Readings], with_tool: bool) -> None:
    json.dump(list(_rows(files, with_tool)), sys.stdout, indent=1)
    sys.stdout.write("\n")


def print_csv(files: Mapping[str, Readings], with_tool: bool) -> None:
    names = ("file",) * (len(files) > 1) + ("tool",) * with_tool + _COLUMNS
    writer = csv.DictWriter(sys.stdout, names, lineterminator="\n")
    writer.writeheader()
    for row in _rows(files, with_tool):
        row["params"] = json.dumps(row["params"], sort_keys=True) if row["params"] else ""
        writer.writerow(row)


def print_table(files: Mapping[str, Readings], with_tool: bool) -> None:
    """Aligned columns; a heading a file if there are several."""
    heading, first = ("case", "size", "metric", "value", "params", "status"), ("tool",) * with_tool
    for name, by_tool in files.items():
        lines = [
            (tool,) * with_tool + _cells(reading)
            for tool, readings in by_tool.items()
            for reading in readings
        ]
        if len(files) > 1:
            click.echo(f"{name}:")
        if lines:
            right = (1 + with_tool, 3 + with_tool)
            click.echo("\n".join(columns([first + heading, *lines], right=right)))


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
FORMATS: Final[dict[str, Callable[[Mapping[str, Readings], bool], None]]] = {
    "table": print_table,
    "csv": print_csv,
    "json": print_json,
}
