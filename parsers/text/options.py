"""A tool's command line: its own words, the values of its options."""

from __future__ import annotations

from collections.abc import Sequence


def words_after(argv: Sequence[str], *programs: str) -> list[str]:
    """The arguments that `argv` gives to the first of `programs` in it (``timeout 9 mpirun … qperf HOST``).

    All of `argv` where none of them is named.
    """
    for place, word in enumerate(argv):
        if word.rpartition("/")[2] in programs:
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
