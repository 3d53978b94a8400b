"""The ``npc`` command: a shell around the rooms' commands, which it knows by entry points alone.

A command is a click command named in the entry point group ``npc.commands``; its module is imported
when it is called (or listed), so one that cannot be loaded costs only itself. Commands report what can
go wrong by raising `click.ClickException`; an OSError (read-only folder, missing file, full disk) and
`npc.files.InvalidFile` become one line as well. Exit codes: docs/commands.md.
"""

from __future__ import annotations

import errno
import sys
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any, Final

import click

from npc import __version__, status_line
from npc.files import InvalidFile
from npc.streams import nowhere, open_streams
from npc.terminal import guard

GROUP: Final = "npc.commands"
#: What people want to do, and the commands for it; what is in none is listed last, a site's own too.
TASKS: Final[dict[str, tuple[str, ...]]] = {
    "Begin with": ("doctor", "characterise", "report"),
    "Measure": (
        "plan", "platform", "sample", "observe", "study", "cc", "c++", "fc", "wait", "collect", "parse",
    ),
    "Look": ("roofline", "sweep", "fit", "predict", "efficiency"),
    "Judge": ("check", "compare", "advise", "score"),
    "Keep watch": ("nightly", "cron", "history", "accept", "environment"),
}  # fmt: skip
#: As a shell reports a program that SIGINT ended: 128 + 2.
INTERRUPTED: Final = 130


class Commands(click.Group):
    """The commands found through the entry points, loaded by name."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of all commands, sorted; nothing is loaded."""
        return sorted(entry_points())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their purposes, by task."""
        left = self.list_commands(ctx)
        width = max(map(len, left), default=0)
        for task, names in [*TASKS.items(), ("Others", ())]:
            rows = []
            for name in names or left.copy():
                if name in left and (command := self.get_command(ctx, name)):
                    left.remove(name)
                    limit = formatter.width - formatter.current_indent - 2 - width - 2
                    rows.append((name.ljust(width), command.get_short_help_str(limit)))
            if rows:
                with formatter.section(task):
                    formatter.write_dl(rows)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or one that says why it cannot be loaded; None if there is none of that name."""
        entry = entry_points().get(cmd_name)
        return _load(entry) if entry else None

    def main(self, *args: Any, **extra: Any) -> Any:
        """As click does it, with nothing of what others wrote that could steer the terminal, and also where
        stdout and stderr are closed (``>&-``) or take nothing."""
        own = sys.stdout is sys.__stdout__  # none that a test, or a program of Python, has put there
        if own:
            open_streams()
        guard()
        try:
            return super().main(*args, **extra)
        finally:
            if own:
                _let_go_of_stdout()

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
        except InvalidFile as error:
            status_line.show("")
            raise click.ClickException(str(error)) from error
        except RecursionError as error:
            raise click.ClickException("a file that was read is nested too deep") from error
        except RuntimeError as error:  # of Path.resolve before Python 3.13
            if "Symlink loop" not in str(error):
                raise
            raise click.ClickException(f"{error}: a link that leads to itself") from error
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # the reader of a pipe has gone: click ends quietly
            raise click.ClickException(_describe(error)) from error
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="npc")
def main() -> None:
    """Characterise a machine's network, memory and compute, and watch it.

    `npc doctor` and `npc characterise` are the beginning; `npc COMMAND --help` explains each command.
    """


@cache
def entry_points() -> dict[str, EntryPoint]:
    """The commands of every installed distribution by name; the first on ``sys.path`` wins."""
    found: dict[str, EntryPoint] = {}
    for entry in metadata.entry_points(group=GROUP):
        found.setdefault(entry.name, entry)
    return found


def _load(entry: EntryPoint) -> click.Command:
    try:
        command = entry.load()
    except Exception as error:  # a site's own command may fail in any way while it is imported
        return _unavailable(entry.name, f"{type(error).__name__}: {error}")
    if not isinstance(command, click.Command):
        return _unavailable(entry.name, f"{entry.value} is no click command")
    return command


def _let_go_of_stdout() -> None:
    """What stdout did not take is given up, since Python would try again at the end; a command that was done
    was not, then."""
    ending = sys.exc_info()[1]
    try:
        sys.stdout.flush()
    except OSError as error:
        nowhere(1)
        if isinstance(ending, SystemExit) and ending.code:
            return
        if error.errno != errno.EPIPE:
            click.echo(f"Error: stdout: {_describe(error)}", err=True)
        sys.exit(1)


def _unavailable(name: str, reason: str) -> click.Command:
    """Stands in for a command that cannot be loaded, and says so."""

    def refuse(arguments: tuple[str, ...]) -> None:
        raise click.ClickException(f"the command {name} cannot be loaded: {reason}")

    return click.Command(
        name,
        callback=refuse,
        help=f"Cannot be loaded: {reason}",
        short_help=f"(cannot be loaded: {reason})",
        context_settings={"ignore_unknown_options": True},
        params=[click.Argument(["arguments"], nargs=-1, type=click.UNPROCESSED)],
    )


#: What to do about an error of the file system, where a command does not know better.
_REMEDIES: Final = {
    errno.EROFS: "copy it to where you can write",
    errno.EACCES: "ask its owner, or copy it to where you can write",
    errno.ENOSPC: "make room there",
    errno.EDQUOT: "make room within your quota",
}


def _describe(error: OSError) -> str:
    if error.strerror is None:
        return str(error)
    names = [str(name) for name in (error.filename, error.filename2) if name is not None]
    what = ": ".join([" → ".join(names), error.strerror]) if names else error.strerror
    return "; ".join(filter(None, (what, _REMEDIES.get(error.errno or 0))))
