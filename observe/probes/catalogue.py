"""The probes there are: what ``--probe`` names, and the bpftrace program of each.

A program is ``programs/KIND.bt`` behind ``programs/ranks.bt``, which knows the ranks. Only the standard
library, since ranks import it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple

_PROGRAMS: Final = Path(__file__).with_name("programs")
#: Follows the ranks and watches nothing.
RANKS: Final = "ranks"
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
    """A probe as it was asked for: `what`, whole. name: a function's, ``PROVIDER:NAME`` of a static probe;
    library: the file that it is in, a path or a library's name, empty where it was not said."""

    what: str
    kind: str
    name: str = ""
    library: str = ""


class Program(NamedTuple):
    """text: with ``$NAME`` where something is to be filled in; maps: those that hold results."""

    text: str
    maps: tuple[str, ...]
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
    """The program of a kind, `RANKS` included."""
    ranks = (_PROGRAMS / f"{RANKS}.bt").read_text(encoding="utf-8")
    own = "" if kind == RANKS else (_PROGRAMS / f"{kind}.bt").read_text(encoding="utf-8")
    found = re.search(r"^// maps:([@\w ]*)(?:; clear:([@\w ]*))?$", own, re.MULTILINE)
    maps, scratch = (tuple((group or "").split()) for group in found.groups()) if found else ((), ())
    return Program(f"{ranks}\n{own}", maps, scratch)
