"""Whose output a text is, which parser a program belongs to, and why a text has no reading.

Parsers say it of themselves, by the attributes that `npc.parsers` explains.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import pairwise, takewhile
from pathlib import PurePath
from types import ModuleType
from typing import Final, NamedTuple

from npc import parsers
from npc.parsers.text.lines import complete_lines
from npc.parsers.text.pasted import texts_of
from npc.records.reading import plain
from npc.registration import extensions

#: What people take for the output of a tool that is read.
_IPERF_2: Final = re.compile(
    r"^(?:Client connecting to .*|Server listening on) (?:TCP|UDP) port ", re.MULTILINE
)
#: What a scheduler or the loader says of a program that did not come to its end.
_ENDING: Final = re.compile(
    r"^(?:(?:slurmstepd|srun)\b.*CANCELLED (?:AT|DUE TO) .*"
    r"|.*(?:oom[-_]kill|OOM Killed|Out of memory: Kill).*|=>> PBS: job killed: .*|TERM_(?:RUN|MEM)LIMIT: .*"
    r"|.*: error while loading shared libraries: .*)$",
    re.MULTILINE,
)
#: What a shell or a launcher says of a command that there is not.
_NO_COMMAND: Final = re.compile(
    r"^.*(?:: command not found|: [0-9]+: \S+: not found|: execve\(\): .*"
    r"| unable to find the specified executable file.*)$",
    re.MULTILINE,
)
_RULE: Final = re.compile(r"[-=#*+ \t]*\n")
_LONGEST_RULE: Final = 500


class ToolText(NamedTuple):
    """The text of one tool, and its command line where that is known."""

    #: Name of the parser that reads it.
    tool: str
    #: What was printed.
    text: str
    #: The command line, word by word; empty where it is not known.
    argv: Sequence[str] = ()


def tool_of_program(name: str) -> str:
    """The parser of what a program prints, by the program's name or path; empty if none reads it."""
    program = PurePath(name).name.removesuffix(".exe").removesuffix(".x")
    if program.lower() in parsers.names():
        return program.lower()
    return next((tool for tool, names in _patterns("PROGRAMS").items() if names.fullmatch(program)), "")


def parts_of(text: str, argv: Sequence[str] = ()) -> list[ToolText]:
    """What each tool printed, in the order of the text; nothing where no tool is recognised.

    By the marks in the text; where there is none by the command line (of the text's first line
    ``#@ cmd: COMMAND`` if `argv` is empty); else by the program that a line of its own names
    (``iperf3: error``).
    """
    argv, own = parsers.command_and_text(text, argv)
    own = _lines(own)
    begins = list(_begins(own))
    tools = list(dict.fromkeys(tool for _, tool in begins))
    if len(tools) <= 1 or len(texts_of(text)) > 1:  # the parsers part the labels of ranks
        tools = tools or _tools_of_command(argv) or _tools_of_error(own)
        return [ToolText(tool, text, argv) for tool in tools]
    if not text.endswith("\n"):  # half of a number is no number
        own = own[:-1]
    started = _tools_of_command(argv)
    begins[0] = (0, tools[0])
    ends = [*(place for place, _ in begins[1:]), len(own)]
    return [
        ToolText(tool, _rule_above(own[:place]) + own[place:end], argv if tool in started else ())
        for (place, tool), end in zip(begins, ends, strict=True)
    ]


def unread(tool: str, text: str, argv: Sequence[str] = ()) -> str:
    """Why the parser `tool`, or any parser if it is empty, reads nothing in a text."""
    if not text.strip():
        return "empty"
    if "\0" in text:
        return "a binary file, not a tool's text"
    ending = ending_of(text)
    tools = list(dict.fromkeys(part.tool for part in parts_of(text, argv)))
    if tool in tools or (tools and not tool):
        reason = ending or "cut off before one, or nothing was measured"
        return f"the output of {tool or ' and '.join(tools)} without a result: {reason}"
    if tools:
        return f"looks like the output of {' and '.join(tools)}, not of {tool}"
    if excerpt := excerpt_of(text):
        names = tool if tool in excerpt else " or ".join(excerpt) + (f", not {tool}" if tool else "")
        return f"looks like {names}, but its heading is missing: size and units cannot be known"
    lines = _lines(text)
    ending = ending or _first_line(_NO_COMMAND, lines)
    other = "looks like iperf 2, which is not read" if _IPERF_2.search(lines) else ""
    return ending or other or "no supported tool's output is recognised in it"


def excerpt_of(text: str) -> list[str]:
    """The parsers whose rows stand in a text."""
    lines = _lines(text)
    return [tool for tool, rows in _patterns("ROWS").items() if rows.search(lines)]


def ending_of(text: str) -> str:
    """The line in which a scheduler or the loader says why a program did not come to its end, if any."""
    return _first_line(_ENDING, _lines(text))


def _first_line(pattern: re.Pattern[str], lines: str) -> str:
    """The first match as text for a terminal; empty if there is none."""
    match = pattern.search(lines)
    return plain(" ".join(match[0].split())[:200]) if match else ""


def _lines(text: str) -> str:
    """The lines of a text, also the last one, whose end may be missing."""
    return complete_lines("\n".join(texts_of(text).values()) + "\n")


def _begins(text: str) -> Iterator[tuple[int, str]]:
    """Where the lines of another tool begin, and whose they are."""
    marks = [(match.start(), tool, mark) for mark in ("MARKS", "END")
             for tool, pattern in _patterns(mark).items() for match in pattern.finditer(text)]  # fmt: skip
    current = ""
    for place, tool, mark in sorted(marks):
        if mark == "END":
            current = ""
        elif tool != current and tool not in getattr(_modules().get(current), "INSIDE", ()):
            yield place, tool
            current = tool


def _rule_above(text: str) -> str:
    """The last lines of a text if they are no more than a rule: it may be of what follows."""
    lines = text[-_LONGEST_RULE:].splitlines(keepends=True)
    return "".join(reversed(list(takewhile(_RULE.fullmatch, reversed(lines)))))


def _tools_of_command(argv: Sequence[str]) -> list[str]:
    """The parser of the first word that names a program, rather one that is no value of an option."""
    words = [word for before, word in pairwise(["", *argv]) if not before.startswith("-")] + [*argv]
    return [tool for word in words if (tool := tool_of_program(word))][:1]


def _tools_of_error(text: str) -> list[str]:
    """The parser of the first program that writes its name before a line, as programs do with errors, in a
    text that tells nothing else."""
    if excerpt_of(text) or _ENDING.search(text) or _NO_COMMAND.search(text):
        return []
    names = re.findall(r"^(?:[Uu]sage: (?=\S+ )|(?=\S+: ))([\w./-]{1,99})", text, re.MULTILINE)
    return [tool for name in names if (tool := tool_of_program(name))][:1]


@cache
def _modules() -> dict[str, ModuleType]:
    """The parsers' modules by their names, without those that cannot be loaded."""
    return {name: module for name, module, _ in extensions("parsers") if module}


@cache
def _patterns(attribute: str) -> dict[str, re.Pattern[str]]:
    """The expressions of the parsers that have such an attribute; of lines, at their beginning."""
    begin = "" if attribute == "PROGRAMS" else "^"
    return {
        name: re.compile(f"{begin}(?:{expression})", re.MULTILINE)
        for name, module in _modules().items()
        if (expression := getattr(module, attribute, ""))
    }
