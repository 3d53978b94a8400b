"""Sweeps: ``--repeat name:from:to:OPstep`` in a command makes one step of each value.

``--repeat msg_size:16:32768:*2`` runs twelve times, with ``--msg_size 16``, ``--msg_size 32``, …; the
hyphens of ``--repeat`` are carried over, so ``-repeat m:14:1K:*4`` gives ``-m 14``. ``OP`` is one of
``+ - * /`` (``/`` of whole numbers rounds down); values may be sizes (``4K`` is 4096). A list,
``msg_size:16,64,4K``, gives its members. Several repeats give their product, the last one fastest.
A sweep is computed whole before anything starts, so one that would never end is refused there.
"""

from __future__ import annotations

import itertools
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias

from npc.records.units import parse_size

MAX_STEPS: Final = 10_000

_NUMBER: Final = re.compile(r"-?\d{1,15}(\.\d{1,9})?")
_OPERATORS: Final = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_REPEAT: Final = re.compile(r"(-{1,2})repeat(?:=(.*))?", re.DOTALL)


class BadRepeat(ValueError):
    """A repeat that cannot be read, or that has no end."""


@dataclass(frozen=True)
class Repeat:
    """One swept option."""

    #: Without dashes: ``size`` stands for ``--size`` or ``{size}`` in the commands.
    name: str
    #: As they stand on a command line.
    values: tuple[str, ...]


@dataclass(frozen=True)
class SweepStep:
    """One step of a sweep."""

    #: By name of a repeat its value.
    values: Mapping[str, str]
    #: The server's command line with these values in place.
    server: tuple[str, ...]
    #: The client's command line with these values in place.
    client: tuple[str, ...]
    #: How often it was measured before.
    sample: int = 0


#: A command line with places for swept values: (hyphens, name) stands for ``--name VALUE``.
_Command: TypeAlias = list[str | tuple[str, str]]


def parse_repeat(text: str) -> Repeat:
    """The repeat of ``name:from:to:OPstep`` or ``name:a,b,c``. Raises `BadRepeat`, saying why."""
    name, _, rest = text.partition(":")
    fields = rest.split(":")
    if not re.fullmatch(r"[A-Za-z][\w-]*", name) or not rest or len(fields) not in (1, 3):
        raise BadRepeat(f"--repeat {text}: write name:from:to:OPstep (msg_size:16:32K:*2) or name:a,b,c")
    if len(fields) == 1:
        members = tuple(_member(member) for member in rest.split(","))
        if not all(members):
            raise BadRepeat(f"--repeat {text}: an empty value in the list")
        return Repeat(name, members)
    return Repeat(name, _progression(text, *fields))


def plan(
    server: Sequence[str], client: Sequence[str], options: Sequence[str] = (), runs: int = 1
) -> list[SweepStep]:
    """All steps in order: `runs` times the product of the repeats found in both commands.

    `options` are further repeats (npb's own ``--repeat``), whose values replace ``{name}`` in the commands.
    Raises `BadRepeat`.
    """
    repeats: dict[str, Repeat] = {}
    own = [parse_repeat(text) for text in options]
    server_command, client_command = _read(server, repeats), _read(client, repeats)
    for repeat in own:
        place = "{" + repeat.name + "}"
        if not any(place in argument for argument in (*server, *client)):
            raise BadRepeat(
                f"--repeat {repeat.name}: say where its value goes: put {place} into a command, "
                f"or write the --repeat inside the command, where it becomes --{repeat.name} VALUE"
            )
        _add(repeats, repeat)
    steps = math.prod(len(repeat.values) for repeat in repeats.values())
    if steps > MAX_STEPS:
        raise BadRepeat(f"the repeats make {steps} steps; {MAX_STEPS} is the limit")
    placed = {repeat.name for repeat in own}
    steps_in_order = []
    for sample in range(runs):
        for values in itertools.product(*(repeat.values for repeat in repeats.values())):
            at = dict(zip(repeats, values, strict=True))
            own_server, own_client = (_fill(argv, at, placed) for argv in (server_command, client_command))
            steps_in_order.append(SweepStep(at, own_server, own_client, sample))
    return steps_in_order


def _read(argv: Sequence[str], repeats: dict[str, Repeat]) -> _Command:
    """The command with its repeats taken out and added to `repeats`."""
    command: _Command = []
    waiting = iter(argv)
    for argument in waiting:
        match = _REPEAT.fullmatch(argument)
        if not match:
            command.append(argument)
            continue
        text = match[2] if match[2] is not None else next(waiting, None)
        if text is None:
            raise BadRepeat(f"{argument}: nothing follows it")
        repeat = parse_repeat(text)
        _add(repeats, repeat)
        command.append((match[1], repeat.name))
    return command


def _add(repeats: dict[str, Repeat], repeat: Repeat) -> None:
    """The same repeat on both sides runs in step; different ones of one name are a mistake."""
    if repeats.setdefault(repeat.name, repeat) != repeat:
        raise BadRepeat(f"--repeat {repeat.name} is given twice with different values")


def _fill(command: _Command, values: Mapping[str, str], placed: set[str]) -> tuple[str, ...]:
    argv: list[str] = []
    for part in command:
        if isinstance(part, tuple):
            hyphens, name = part
            argv += [hyphens + name, values[name]]
        else:
            for name in placed:
                part = part.replace("{" + name + "}", values[name])
            argv.append(part)
    return tuple(argv)


def _number(text: str) -> Fraction:
    if _NUMBER.fullmatch(text):
        return Fraction(text)
    return Fraction(parse_size(text))


def _member(text: str) -> str:
    """A list's member: a size becomes bytes, because not every tool knows ``4K``; words stay."""
    try:
        return str(parse_size(text))
    except ValueError:
        return text.strip()


def _format(value: Fraction) -> str:
    if value.denominator == 1:
        return str(value.numerator)
    return f"{float(value):.12f}".rstrip("0")


def _progression(text: str, start_text: str, end_text: str, step_text: str) -> tuple[str, ...]:
    try:
        start, end = _number(start_text), _number(end_text)
        by = _number(step_text[1:])
        apply = _OPERATORS[step_text[0]]
    except ValueError as error:
        raise BadRepeat(f"--repeat {text}: {error}") from None
    except KeyError:
        raise BadRepeat(f"--repeat {text}: the step is +N, -N, *N or /N, not {step_text!r}") from None
    if apply is operator.truediv:
        if by == 0:
            raise BadRepeat(f"--repeat {text}: a division by zero")
        if all(number.denominator == 1 for number in (start, end, by)):
            apply = operator.floordiv
    upwards = end > start
    values: list[Fraction] = []
    value = start
    while True:
        values.append(value)
        if len(values) > MAX_STEPS:
            raise BadRepeat(f"--repeat {text}: more than {MAX_STEPS} steps")
        following = Fraction(apply(value, by))
        if following == value:
            raise BadRepeat(f"--repeat {text}: never ends, {step_text} does not change {_format(value)}")
        if (end == start) or (following > end if upwards else following < end):
            return tuple(map(_format, values))
        if (following > value) != upwards:
            raise BadRepeat(f"--repeat {text}: never ends, {step_text} leads away from {end_text}")
        value = following
