"""Every command of ``npc`` as click knows it, and lines that give it a path wherever one may stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import click

from npc.cli import main
from npc.commands.parameters import RunParameter

#: What a parameter needs to be so that the command goes on to the next one.
GOOD: Final = {"tool": "qperf", "goal": "watch", "pattern": "*", "reason": "why", "shell": "bash"}


def commands() -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Every command, those of groups too, with the words that name it."""

    def below(
        command: click.Command, words: tuple[str, ...]
    ) -> Iterator[tuple[tuple[str, ...], click.Command]]:
        if not isinstance(command, click.Group):
            yield words, command
            return
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner
            yield from below(inner, (*words, name))

    yield from below(main, ())


def is_text(parameter: click.Parameter) -> bool:
    """Whether it may be a path: it takes any text."""
    kinds = (click.Choice, click.types.BoolParamType, click.types.IntParamType, click.types.FloatParamType)
    return not isinstance(parameter.type, kinds) and not getattr(parameter, "is_flag", False)


def is_path(parameter: click.Parameter) -> bool:
    """Whether it is said to be one, or is an argument."""
    known = isinstance(parameter.type, click.Path | RunParameter)
    return known or (is_text(parameter) and isinstance(parameter, click.Argument))


def words_of(parameter: click.Parameter, value: str) -> list[str]:
    """How it is said on the command line."""
    values = [value] * (parameter.nargs if parameter.nargs > 1 else 1)
    return values if isinstance(parameter, click.Argument) else [parameter.opts[0], *values]


def lines_with(
    command: click.Command, path: str, run: str, wanted: Callable[[click.Parameter], bool]
) -> Iterator[list[str]]:
    """Command lines in which each parameter that is `wanted` in turn is `path`, and the others are what they
    should be."""
    needed = {each.name: each for each in command.params if each.required or isinstance(each, click.Argument)}
    for odd in filter(wanted, command.params):
        options, arguments = list[str](), list[str]()
        for parameter in {**needed, odd.name: odd}.values():
            known = GOOD.get(parameter.name or "", run)
            if isinstance(parameter.type, click.Choice):
                known = GOOD.get(parameter.name or "", parameter.type.choices[0])
            words = words_of(parameter, path if parameter is odd else known)
            (arguments if isinstance(parameter, click.Argument) else options).extend(words)
        yield [*options, "--", *arguments]


def reading(path: str) -> Iterator[list[str]]:
    """Every command line that reads a folder or a file: its arguments, its history."""
    for words, command in commands():
        for line in lines_with(command, path, path, _read):
            yield [*words, *line]


def _read(parameter: click.Parameter) -> bool:
    return is_path(parameter) and (isinstance(parameter, click.Argument) or parameter.name == "history")
