"""A tool's command line: its own words, the values of its options."""

from __future__ import annotations

from collections.abc import Sequence

from npc.records.units import parse_size


def words_after(argv: Sequence[str], program: str) -> list[str]:
    """What `argv` gives to `program` (``timeout 9 mpirun … qperf HOST``); all of it if that is not named."""
    for place, word in enumerate(argv):
        if word.rpartition("/")[2] == program:
            return list(argv[place + 1 :])
    return list(argv)


def option(argv: Sequence[str], *flags: str) -> str | None:
    """The last value that `argv` gives to one of `flags`: ``-m 9``, ``-m9``, ``--size 9``, ``--size=9``."""
    value = None
    for place, word in enumerate(argv):
        if word in flags:
            value = argv[place + 1] if place + 1 < len(argv) else value
            continue
        for flag in flags:
            if flag.startswith("--"):
                if word.startswith(flag + "="):
                    value = word[len(flag) + 1 :]
            elif not word.startswith("--") and word.startswith(flag) and word[len(flag) :][:1].isdigit():
                value = word[len(flag) :]
    return value


def bytes_of(size: str | None) -> int | None:
    """The size that a command line gives, None where it gives none or one that is not understood."""
    try:
        return parse_size(size) if size else None
    except ValueError:
        return None
