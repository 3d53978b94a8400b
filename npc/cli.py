"""The ``npc`` command: a shell around the rooms' commands, which it knows by their registration alone.

A command is a click command named in the entry point group ``npc.commands`` (`npc.registration`); its module
is imported when it is called (or listed), so one that cannot be loaded costs only itself. A name with a
blank, such as ``model fit``, is a command of a group: `npc model fit`. Commands report what can go wrong by
raising `click.ClickException`; what the modules below them raise becomes one line as well: `npc.errors`,
`npc.files.InvalidFile` and OSError (read-only folder, missing file, full disk). Exit codes: docs/commands.md.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from typing import Any, Final

import click

from npc import __version__, registration, status_line
from npc.commands.rare_options import shows_all, with_help_all
from npc.errors import CommandFailed, InvalidUsage
from npc.files import InvalidFile
from npc.streams import nowhere, open_streams
from npc.terminal import guard

#: The order in which commands and groups stand in ``npc --help``; others, such as a site's own, follow.
ORDER: Final = (
    "doctor", "characterise", "report", "check", "compare", "advise", "plan", "platform", "observe",
    "roofline", "night", "program", "model", "records",
)  # fmt: skip
#: What the commands of a group are for; a group that is not named here lists its commands.
GROUPS: Final = {
    "night": "Measure every night, and name the node to blame.",
    "model": "Models of communication: fit them, predict by them.",
    "program": "Programs: efficiency, studies, accesses to memory.",
    "records": "Records of single commands and of JUBE runs.",
}
#: Commands that became a part of another one, or have another name.
MOVED: Final = {
    "environment": "doctor --environment", "nightly": "night run", "score": "advise --score",
}  # fmt: skip
#: As a shell reports a program that SIGINT ended: 128 + 2.
INTERRUPTED: Final = 130


class Commands(click.Group):
    """Commands found through the entry points, loaded by name: all of ``npc``, or those of a group."""

    #: The words before the names of its commands, as in the entry points: ``()``, ``("model",)``.
    words: tuple[str, ...] = ()

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names of its commands and groups, sorted; nothing is loaded."""
        depth = len(self.words)
        names = [name.split() for name in entry_points()]
        return sorted({name[depth] for name in names if tuple(name[:depth]) == self.words and name[depth:]})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Options and commands; of ``npc`` itself the commands alone, so that they fit on a screen."""
        if self.words or shows_all(ctx):
            super().format_options(ctx, formatter)
        else:
            self.format_commands(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands with their purposes; with ``--help-all`` each group is followed by its commands."""
        shown = list(self._shown(ctx))
        width = max((len(name) for name, _ in shown), default=0)
        limit = formatter.width - 2 - width - 2
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.get_short_help_str(limit)) for name, command in shown])

    def _shown(self, ctx: click.Context, before: str = "") -> Iterator[tuple[str, click.Command]]:
        for name in sorted(self.list_commands(ctx), key=_place):
            command = self.get_command(ctx, name)
            if command is None or command.hidden:
                continue
            yield before + name, command
            if isinstance(command, Commands) and shows_all(ctx):
                yield from command._shown(ctx, f"{before}{name} ")

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command or group, or one that says why it cannot be loaded; None if there is no such one."""
        words = (*self.words, cmd_name)
        name = " ".join(words)
        if entry := entry_points().get(name):
            command = _load(entry)
        elif any(other.startswith(f"{name} ") for other in entry_points()):
            command = _group(words)
        else:
            return None
        return with_help_all(command)

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
        """As click does it, with the names that were perhaps meant, and where a command is now."""
        try:
            return super().resolve_command(ctx, args)
        except click.NoSuchOption:
            raise
        except click.UsageError as error:
            if not self.words and (now := _now(args[0])):
                raise MovedCommand(f"npc {args[0]} is {now}") from None
            import difflib  # only here, to keep the start short

            near = difflib.get_close_matches(args[0], self.list_commands(ctx), cutoff=0.5)
            if near:
                error.message += f" Did you mean {' or '.join(near)}?"
            raise

    def invoke(self, ctx: click.Context) -> object:
        """Run the command; whatever a user can cause ends in one line and no traceback."""
        try:
            return super().invoke(ctx)
        except InvalidUsage as error:
            raise click.UsageError(str(error)) from error
        except CommandFailed as error:
            raise click.ClickException(str(error)) from error
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


class MovedCommand(click.ClickException):
    """A command that has another name now; the message is the only line that is shown."""

    exit_code = 2


@click.group(
    cls=Commands,
    options_metavar="[--version] [-h|--help|--help-all]",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="npc")
def main() -> None:
    """Characterise a machine's network, memory and compute, and watch it.

    Begin with npc doctor and npc characterise. npc COMMAND --help explains a command, npc --help-all shows
    also those of the groups.
    """


with_help_all(main, "Show the commands of all groups.")


def entry_points() -> dict[str, EntryPoint]:
    """The commands of every installed distribution by name."""
    return registration.entry_points("commands")


def _place(name: str) -> tuple[int, str]:
    """Sorts names of the first level as in `ORDER`, others behind them."""
    return ORDER.index(name) if name in ORDER else len(ORDER), name


def _group(words: tuple[str, ...]) -> Commands:
    """The group whose commands begin with `words`."""
    names = [name.split()[len(words)] for name in entry_points() if name.split()[: len(words)] == [*words]]
    purpose = GROUPS.get(" ".join(words), f"Commands: {', '.join(sorted(set(names)))}.")
    group = Commands(words[-1], help=purpose, short_help=purpose)
    group.words = words
    return group


def _now(name: str) -> str:
    """What is called instead of ``npc NAME``, which there is not; empty if nothing is known."""
    if name in MOVED:
        return f"npc {MOVED[name]}"
    places = [entry for entry in sorted(entry_points()) if " " in entry and entry.split()[-1] == name]
    return " or ".join(f"npc {place}" for place in places)


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
