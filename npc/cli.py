"""The ``npc`` command: a shell around the rooms' commands, which it knows by entry points alone.

A command is a click command named in the entry point group ``npc.commands``; its module is imported
when it is called (or listed), so one that cannot be loaded costs only itself. Commands report what can
go wrong by raising `click.ClickException`; an OSError (read-only folder, missing file, full disk) and
`npc.InvalidRecord` become one line as well. Exit codes: docs/commands.md.
"""

from __future__ import annotations

import atexit
import errno
import gc
import importlib
import os
import sys
from functools import lru_cache
from typing import Final

import click

from npc import __version__

GROUP: Final = "npc.commands"
#: As a shell reports a program that SIGINT ended: 128 + 2.
INTERRUPTED: Final = 130
#: How many more objects there must be before the collector of cycles looks at them; Python's 700 would make
#: it walk ever again through all of a command's records, which are many (200 000 objects of 10 000 runs) and
#: have no cycles.
_ALLOCATIONS: Final = 1_000_000


class Commands(click.Group):
    """The commands found through the entry points, loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted; nothing is loaded."""
        return sorted(entry_points())

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or one that says why it cannot be loaded; None if there is none of that name."""
        target = entry_points().get(cmd_name)
        return _load(cmd_name, target) if target else None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands below ``npc --help``, of their modules' texts: loading all takes a second."""
        names = self.list_commands(ctx)
        width = formatter.width - 6 - max(map(len, names), default=0)
        rows = []
        for name in names:
            summary = _summary(entry_points()[name], width)
            if not summary:
                command = self.get_command(ctx, name)
                summary = command.get_short_help_str(width) if command else ""
            rows.append((name, summary))
        if rows:
            with formatter.section("Commands"):
                formatter.write_dl(rows)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does it, with the names that were perhaps meant."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            import difflib  # only here, to keep the start short

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), cutoff=0.5)
            if near:
                error.message += f" Did you mean {' or '.join(near)}?"
            raise

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; whatever a user can cause ends in one line and no traceback."""
        try:
            return super().invoke(ctx)
        except ValueError as error:
            from npc.records.record import InvalidRecord  # only here, to keep the start short

            if not isinstance(error, InvalidRecord):
                raise
            raise click.ClickException(str(error)) from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # the reader of a pipe has gone: click ends quietly
            raise click.ClickException(_describe(error)) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


class Unavailable(click.Command):
    """Stands in for a command whose module cannot be loaded, and says so."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(
            name,
            callback=self._refuse,
            help=f"Cannot be loaded: {reason}",
            short_help=f"(cannot be loaded: {reason})",
            context_settings={"ignore_unknown_options": True},
            params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
        )
        self.reason = reason

    def _refuse(self, arguments: tuple[str, ...]) -> None:
        raise click.ClickException(f"the command {self.name} cannot be loaded: {self.reason}")


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="npc")
def main() -> None:
    """Characterise a machine's network, memory and compute, and watch it.

    Start with `npc doctor`, then `npc characterise`.
    """
    gc.set_threshold(_ALLOCATIONS)
    atexit.register(gc.freeze)  # the interpreter would walk through all of them once more when it ends


def entry_points() -> dict[str, str]:
    """``{command: "module:attribute"}`` of every installed distribution; the first on ``sys.path`` wins.

    Reads ``*.dist-info/entry_points.txt`` (PyPA entry points specification) by itself, because importing
    importlib.metadata takes longer than everything else that ``npc CMD --help`` does.
    """
    return _entry_points(tuple(sys.path))


@lru_cache(maxsize=4)
def _entry_points(path: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for folder in path:
        for package in _installed_in(folder or "."):
            section = ""
            for line in _text(f"{package}/entry_points.txt").splitlines():
                line = line.strip()
                if line.startswith("["):
                    section = line.strip("[]").strip()
                elif section == GROUP and "=" in line and not line.startswith(("#", ";")):
                    name, _, target = line.partition("=")
                    # An extras marker, "module:attribute [extra]", is allowed and has no meaning here.
                    found.setdefault(name.strip(), target.partition("[")[0].strip())
    return found


def _installed_in(folder: str) -> list[str]:
    """The folders that describe the distributions in `folder`, ``*.dist-info`` and ``*.egg-info``."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.path for entry in entries if entry.name.endswith("-info"))
    except OSError:
        return []  # a ZIP file, or nothing


def _text(path: str) -> str:
    """The text of a file; empty where it cannot be read, or is somebody else's broken one."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        return ""


def _summary(target: str, width: int) -> str:
    """What the command does in a line, read in its module's source; empty where it is not found there."""
    module, _, attribute = target.partition(":")
    file = f"{module.replace('.', '/')}.py"
    text = next(filter(None, (_text(f"{folder or '.'}/{file}") for folder in sys.path)), "")
    head, _, body = text.partition(f"\ndef {attribute}(")
    decorator = max(head.rfind("\n@click.command("), head.rfind("\n@click.group("))
    docstring = body.partition('"""')[2].partition('"""')[0]
    if decorator < 0 or not docstring:
        return ""
    first_line = head[decorator + 1 :].partition("\n")[0]
    short = first_line.partition('short_help="')[2].partition('"')[0]
    return short or click.utils.make_default_short_help(docstring, width)


def _load(name: str, target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    try:
        command = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a site's own command may fail in any way while it is imported
        return Unavailable(name, f"{type(error).__name__}: {error}")
    if not isinstance(command, click.Command):
        return Unavailable(name, f"{target} is no click command")
    return command


def _describe(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    return ": ".join([" → ".join(names), error.strerror]) if names else error.strerror
