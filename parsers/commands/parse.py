"""``npc records parse FILE``: a tool's raw text, without a run around it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from npc import parsers
from npc.files import read_input
from npc.records.reading import OK

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from click.shell_completion import CompletionItem

    from npc.parsers.commands.outputs import Readings
    from npc.records.reading import Reading

_STDIN: Final = "-"


def _complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The tools as the first word, and files."""
    from click.shell_completion import CompletionItem

    tools = [] if context.params.get("words") else parsers.names()
    names = [CompletionItem(name) for name in tools if name.startswith(incomplete)]
    return [*names, CompletionItem(incomplete, type="file")]


@click.command(short_help="Numbers in SI units from the raw output of a tool.")
@click.argument("words", nargs=-1, required=True, metavar="[TOOL] FILE...", shell_complete=_complete)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "csv", "json"]),
    default="table",
    show_default=True,
    help="How to print them.",
)
@click.option("--command", default="", help="The tool's command line, where the text does not hold it.")
def parse(words: tuple[str, ...], form: str, command: str) -> None:
    """Readings in SI units of what a tool printed into FILE (- is standard input).

    The text itself tells whose it is; of several tools in one FILE, each part is read. TOOL, the first of
    several words, is a tool or one of its programs (ib_write_bw, xhpl); a FILE of such a name is ./NAME.

    A first line "#@ cmd: COMMAND" of a FILE is the tool's command line. csv and json hold one reading a
    row, values in B/s, s, 1/s or FLOP/s and sizes in bytes; of several files, a column "file" as well, and
    without TOOL a column "tool".

    Exit code 1 if a FILE holds no usable reading or all tests of one tool in it failed, 2 if TOOL is unknown
    or a FILE cannot be read.
    """
    from npc.parsers.commands.outputs import FORMATS

    tool, files = _tool_and_files(words)
    argv = parsers.split_command(command)
    texts = {name: _read(name) for name in dict.fromkeys(files)}
    readings = {name: _readings(tool, text, argv) for name, text in texts.items()}
    FORMATS[form](readings, not tool)
    complaints = [
        complaint for name, by_tool in readings.items()
        for complaint in _complaints(tool, name, texts[name], argv, by_tool)
    ]  # fmt: skip
    if complaints:
        sys.stdout.flush()
        raise click.ClickException("\n".join(complaints))


def _tool_and_files(words: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The parser that the first of several words names, else "", and the files. Raises `click.UsageError`."""
    from npc.parsers.commands.recognise import tool_of_program

    first, *files = words
    tool = "" if "/" in first else tool_of_program(first)
    if tool and files:
        return tool, tuple(files)
    exists = first == _STDIN or Path(first).exists()
    if tool and not exists:
        raise click.UsageError(f"Missing FILE: {first!r} is a tool.")
    if files and not exists and "/" not in first:
        known = ", ".join(parsers.names())
        raise click.UsageError(f"{first!r} is no tool, no program of one and no file; the tools are: {known}")
    return "", words


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


def _readings(tool: str, text: str, argv: Sequence[str]) -> dict[str, list[Reading]]:
    """Readings by tool: of each that is recognised in a text, or of `tool` alone."""
    from npc.parsers.commands.recognise import ToolText, excerpt_of, parts_of

    parts = parts_of(text, argv)
    if not parts and len(excerpt := excerpt_of(text)) == 1:  # its parser may know more of what is missing
        tool = tool or excerpt[0]
    own = [part for part in parts if part.tool == tool] or [ToolText(tool, text, argv)] if tool else parts
    readings: dict[str, list[Reading]] = {part.tool: [] for part in own}
    for part in own:
        readings[part.tool] += parsers.parse(*part)
    is_foreign = tool and parts and tool not in {part.tool for part in parts}
    if is_foreign and all(reading.status != OK for reading in readings[tool]):
        return {tool: []}  # what `tool` fails to find in it says nothing
    return readings


def _complaints(tool: str, name: str, text: str, argv: Sequence[str], by_tool: Readings) -> Iterator[str]:
    """Why a file, or what a tool printed into it, is of no use; nothing if it holds a usable reading.

    A tool that began no test (its version, its help) is no reason beside another that did.
    """
    from npc.parsers.commands.recognise import ending_of, unread

    where = "standard input" if name == _STDIN else name
    if not any(by_tool.values()):
        yield f"{where}: {unread(tool, text, argv)}"
    for readings in filter(None, by_tool.values()):
        if all(reading.status != OK for reading in readings):
            ending = ending_of(text)
            reason = f"{readings[0].case} {readings[0].status}"
            yield f"{where}: no usable reading: {reason}{ending and f'; {ending}'}"
