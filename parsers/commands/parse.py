"""``npc records parse TOOL FILE``: a tool's raw text, without a run around it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from npc import parsers
from npc.files import read_input
from npc.records.reading import OK

if TYPE_CHECKING:
    from npc.records.reading import Reading

_STDIN: Final = "-"


@click.command(short_help="Numbers in SI units from the raw output of a tool.")
@click.argument("tool")
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How to print them.",
)
@click.option("--command", default="", help="The tool's command line, where the text does not hold it.")
def parse(tool: str, files: tuple[str, ...], form: str, command: str) -> None:
    """Readings in SI units of what TOOL printed into FILE (- is standard input).

    A first line "#@ cmd: COMMAND" of a FILE is the tool's command line. csv and json hold one reading a
    row, values in B/s, s, 1/s or FLOP/s and sizes in bytes; of several files, a column "file" as well.

    Exit code 1 if a FILE holds no usable reading, 2 if TOOL is unknown or a FILE cannot be read.
    """
    from npc.parsers.commands.outputs import FORMATS

    if tool not in parsers.names():
        raise click.UsageError(f"there is no parser {tool!r}; there are: {', '.join(parsers.names())}")
    argv = parsers.split_command(command)
    texts = {name: _read(name) for name in dict.fromkeys(files)}
    readings = {name: parsers.parse(tool, text, argv) for name, text in texts.items()}
    FORMATS[form](readings)
    complaints = [_complaint(tool, name, texts[name], of_file) for name, of_file in readings.items()]
    if any(complaints):
        sys.stdout.flush()
        raise click.ClickException("\n".join(filter(None, complaints)))


def _read(name: str) -> str:
    """The text of a file, UTF-16 where it says so, else UTF-8 whose wrong bytes are replaced. Raises
    `click.UsageError`."""
    import codecs

    try:
        data = read_input(name)
    except OSError as error:
        raise click.UsageError(f"{error.filename or name}: {error.strerror or error}") from None
    utf_16 = data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))  # as PowerShell redirects
    return data.decode("utf-16" if utf_16 else "utf-8-sig", "replace")


def _complaint(tool: str, name: str, text: str, readings: list[Reading]) -> str:
    """Why a file is of no use; nothing if it holds a usable reading."""
    if any(reading.status == OK for reading in readings):
        return ""
    where = "standard input" if name == _STDIN else name
    if not text.strip():
        return f"{where}: empty"
    if not readings:
        return f"{where}: no reading of {tool} in it: another tool's output, or cut off before a result"
    return f"{where}: no usable reading: {readings[0].case} {readings[0].status}"
