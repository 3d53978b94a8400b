"""The launches of fio on this job's nodes: ``python cases.py > cases.jsonl`` for ``npc records sample
--cases``.

One for each target and number of processes. ``--bytes`` bounds what all
launches of the job read and write together on a node: each test gets the same part of it, which is its file.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import socket
import sys
from functools import partial

from npc.jobs.cases import Unavailable, numbers_of, words_of, write
from npc.records.units import format_size, parse_size

DATA = ("write", "read", "randread", "randwrite")
NAMES = ("filecreate", "filestat", "filedelete")
SEQUENTIAL = ("write", "read")
#: Fewest blocks a test moves in each process: with less it has hardly begun.
FEWEST_BLOCKS = 16


def sizes(setting: str, text: str) -> list[int]:
    """Sizes with commas between. Raises ValueError."""
    try:
        return [parse_size(word) for word in text.split(",")]
    except ValueError as error:
        raise ValueError(f"{setting}: {error}") from None


def processes_of(text: str) -> list[int]:
    """Numbers of processes; ``all``: one on every CPU that may be used. Raises ValueError."""
    every = str(len(os.sched_getaffinity(0)))
    words = [every if word == "all" else word for word in text.split(",")]
    return sorted(set(numbers_of("fio_processes", ",".join(words))))


def file_bytes(options: argparse.Namespace, tests: int, processes: int, largest: int) -> int:
    """Bytes of the file of a process. Raises ValueError that says what the bound needs."""
    bound = parse_size(options.bytes)
    least = FEWEST_BLOCKS * largest
    shares = options.samples * tests
    size = bound // shares // processes // largest * largest
    if size < least:
        raise ValueError(
            f"io_bytes {options.bytes} is too little: {options.samples} samples of {tests} tests on "
            f"a node, by {processes} process(es) each, move at least {FEWEST_BLOCKS} blocks "
            f"of {format_size(largest)} each, in all {shares * processes * least / 1e9:.3g} GB: "
            f"--set io_bytes={format_size(shares * processes * least)}, or fewer tests, samples, processes, "
            "or smaller sizes"
        )
    return size


def cases(options: argparse.Namespace) -> list[dict[str, object]]:
    """All of them. Raises ValueError for a setting that cannot be, or without fio."""
    if shutil.which("fio") is None:
        host = socket.gethostname()
        raise Unavailable(f"fio: not found in PATH on {host}: apt-get install fio, or load a module")
    direct = words_of("fio_direct", options.direct, DATA, "no")
    buffered = words_of("fio_buffered", options.buffered, DATA, "no")
    names = words_of("fio_names", options.names, NAMES, "no")
    blocks, random_blocks = (
        sizes("fio_sizes", options.blocks),
        sizes("fio_random_sizes", options.random_blocks),
    )
    depths = numbers_of("fio_depths", options.depths)
    if not (direct or buffered or names):
        raise ValueError("fio_direct, fio_buffered and fio_names are no: nothing to measure")
    targets = [word for word in options.paths.split(",") if word]
    relative = [word for word in targets if word not in ("run", "scratch") and not word.startswith("/")]
    if relative or not targets:
        raise ValueError(
            f"io_paths {options.paths}: of run, scratch, or folders from the root (/…), commas between"
        )
    every = list(processes_of(options.processes))

    def tests_of(words: list[str], number_of_depths: int) -> int:
        made = sum(len(blocks) if word in SEQUENTIAL else len(random_blocks) for word in words)
        layout = 1 if words and "write" not in words else 0  # what is read has to be written
        return made * number_of_depths + layout

    tests = (tests_of(direct, len(depths)) + tests_of(buffered, 1)) * len(targets) * len(every)
    largest = max([*blocks, *random_blocks])
    if direct or buffered:
        file_bytes(options, tests, max(every), largest)  # the most need the most
    listed: list[dict[str, object]] = []
    for target in targets:
        for processes in every:
            common = ["--target", target, "--nodes", str(options.nodes), "--processes", str(processes)]
            if options.scratch:
                common += ["--scratch", options.scratch]
            params = {"target": target, "processes": str(processes)}
            words = [*common, "--milliseconds", str(options.milliseconds), "--files", str(options.files)]
            for option, chosen in (("--direct", direct), ("--buffered", buffered), ("--names", names)):
                words += [option, ",".join(chosen) or "no"]
            if direct or buffered:
                size = file_bytes(options, tests, processes, largest)
                words += ["--size", str(size), "--largest", str(largest), "--blocks", options.blocks]
                words += ["--random-blocks", options.random_blocks, "--depths", options.depths]
            values = {"test": shlex.join(words)}
            listed.append({"name": f"{target} {processes}", "values": values, "params": params})
    return listed


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings, or that there is no fio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paths", default="run", help="run, scratch, or folders; commas between")
    parser.add_argument("--scratch", default="", help="the node's own; empty: $TMPDIR, else /tmp")
    parser.add_argument("--bytes", default="1700M", help="of a node at most, in all launches")
    parser.add_argument("--samples", type=int, default=6, help="launches of each case")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--milliseconds", type=int, default=100, help="that a test takes at most")
    parser.add_argument("--direct", default=",".join(DATA), help="tests past the page cache, or no")
    parser.add_argument("--buffered", default="write", help="tests through the page cache, or no")
    parser.add_argument("--names", default=",".join(NAMES), help="tests of names, or no")
    parser.add_argument("--blocks", default="1M", help="of sequential tests")
    parser.add_argument("--random-blocks", default="4K", help="of random tests")
    parser.add_argument("--depths", default="16", help="requests in flight past the page cache")
    parser.add_argument("--processes", default="1", help="on a node; all: one on every CPU")
    parser.add_argument("--files", type=int, default=2000, help="of each process, at most")
    return write(partial(cases, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
