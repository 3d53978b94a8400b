"""The probes there are: what ``--probe`` names, and the bpftrace program of each.

A program is ``programs/KIND.bt`` behind ``programs/ranks.bt``, which knows the ranks; its events hold
``programs/budget.bt`` where watching has a budget. Only the standard library, since ranks import it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

_PROGRAMS: Final = Path(__file__).with_name("programs")
FUNCTION: Final = "function"
#: Before the names of costs of functions that begin with a push.
PUSHED: Final = "pushed_"
USDT: Final = "usdt"
#: Probes that are named alone, and what they tell.
NAMED: Final = {
    "syscalls": "system calls by name and time",
    "scheduler": "waiting for a CPU, involuntary switches",
    "faults": "page faults, minor and major",
    "io": "bytes and time of reads and writes by file system and block device",
    "tcp": "TCP segments sent again",
    "softirq": "time in the softirq that receives packets",
}
#: Those that read the kernel's structures, which takes its type information (BTF).
NEEDS_TYPES: Final = ("io",)


class RequestedProbe(NamedTuple):
    """A probe as it was asked for."""

    #: The whole word behind ``--probe``.
    what: str
    #: A name of `NAMED`, `FUNCTION` or `USDT`.
    kind: str
    #: Of a function, or ``PROVIDER:NAME`` of a static probe.
    name: str = ""
    #: The file that it is in: a path or a library's name; empty where none was given.
    library: str = ""


class Program(NamedTuple):
    """A program of bpftrace as it stands in its files."""

    #: With ``$NAME`` where something is to be filled in.
    text: str
    #: Maps that hold results.
    maps: tuple[str, ...]
    #: Maps that hold what the program needs meanwhile.
    scratch: tuple[str, ...]


def read_wanted(what: str) -> RequestedProbe:
    """What a ``--probe`` names. Raises ValueError with what it may be."""
    if what in NAMED:
        return RequestedProbe(what, what)
    kind, _, rest = what.partition(":")
    name, _, library = rest.partition("@")
    if kind == FUNCTION and name:
        return RequestedProbe(what, kind, name, library)
    if kind == USDT and re.fullmatch(r"\w+:\w+", name):
        return RequestedProbe(what, kind, name, library)
    raise ValueError(
        f"{what!r}: expected {', '.join(NAMED)}, function:NAME[@LIBRARY] or usdt:PROVIDER:NAME[@LIBRARY]"
    )


def program(kind: str) -> Program:
    """The program of a kind."""
    own = _program(kind)
    return own._replace(text=f"{_program('ranks').text}\n{own.text}")


def budget_check() -> Program:
    """What an event does in a program with a budget."""
    return _program("budget")


def _program(name: str) -> Program:
    text = (_PROGRAMS / f"{name}.bt").read_text(encoding="utf-8")
    header = re.search(r"^// maps:([@\w ]*)(?:; clear:([@\w ]*))?$", text, re.MULTILINE)
    maps, scratch = (tuple((names or "").split()) for names in header.groups()) if header else ((), ())
    return Program(text, maps, scratch)
