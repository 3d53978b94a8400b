"""What writes nights, on a disk that is full: ``python -m tests.lab.full_disk FOLDER``, a small file system.

Prints a JSON object a line: the writer, how many pages of the disk were free, the error's words and file, and
which files are not whole: they have lost a line that was there before, or cannot be read.
"""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from npc.cron.acceptance import accept
from npc.cron.commands.nightly import _write
from npc.cron.figures import over_nights
from npc.cron.nightly import NightOutcome
from npc.cron.publish import write_verdict
from npc.cron.retention import begin
from npc.cron.verdict import NightVerdict, SeriesVerdict
from npc.locks import only_one
from npc.records.history import History
from npc.records.journal import Journal
from npc.records.series import Series
from npc.records.verdicts import Verdict
from tests.lab.in_process import npc
from tests.made.history import KEY, a_record

PAGE: Final = 4096
#: Free pages of the disk: none at all, and so many that a file begins and does not end.
FREE: Final = (0, 1, 3)


def night(run: str) -> NightVerdict:
    """A night with so many series that none of its files is as small as a page."""
    series = tuple(
        SeriesVerdict(
            key=Series("lab", "qperf", f"case {number}", *KEY[3:]), verdict=Verdict.DEGRADED, value=1e9
        )
        for number in range(200)
    )
    return NightVerdict(
        platform="lab", run=run, time="2026-11-21T02:30:00Z", verdict=Verdict.PASS, series=series
    )


def writers(disk: Path, folder: Path) -> Mapping[str, Callable[[], object]]:
    """Everything that writes a night below `folder`, and its tables into a file of the disk."""
    past, points = History(folder), list(History(folder).points())
    later = [a_record(sample, 9) for sample in range(200)]

    def lock() -> None:
        with only_one(folder / "nightly.lock"):
            pass

    def mail() -> None:
        small = replace(night("b"), series=())
        full = Path("/dev/full").open("wb", buffering=0)  # noqa: SIM115
        with full, contextlib.redirect_stdout(io.TextIOWrapper(full, write_through=True)):
            _write(folder, NightOutcome(small), False, None, False)

    def accept_by_command() -> None:
        words: list[str | Path] = [
            "--platform",
            disk / "platforms/lab",
            "--history",
            disk,
            "--reason",
            "x" * 2 * PAGE,
        ]
        ended = npc("night", "accept", *words)
        if ended.returncode:
            path, _, why = ended.stderr.removeprefix("Error: ").rpartition(": ")
            raise OSError(errno.ENOSPC, why.partition(";")[0], path)

    return {
        "history": lambda: past.append(later),
        "journal": lambda: Journal(folder).note("b", "begun", folder="runs/b", words=["x" * 3 * PAGE]),
        "verdict": lambda: write_verdict(folder, night("b"), ["a note"]),
        "metrics": lambda: write_verdict(
            folder, replace(night("b"), series=()), (), textfiles=disk / "textfiles"
        ),
        "accept": lambda: accept(folder, night("b"), "as bought", "root"),
        "accept by command": accept_by_command,
        "runs": lambda: begin(disk / "runs" / os.urandom(4).hex(), folder),
        "lock": lock,
        "pictures": lambda: [*over_nights(points, folder, ())],
        "mail": mail,
    }


def fill(disk: Path, free: int) -> Path:
    """Fill the disk but for some pages; the file that does."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream, contextlib.suppress(OSError):
        while True:
            stream.write(bytes(PAGE))
    os.truncate(filler, max(0, filler.stat().st_size - free * PAGE))
    return filler


def files(disk: Path) -> dict[Path, bytes]:
    """All files but indexes, which are made anew."""
    return {path: path.read_bytes() for path in disk.rglob("*") if path.is_file() and path.suffix != ".npz"}


def is_whole(path: Path, before: bytes, now: bytes) -> bool:
    """Whether lines that were there still are, and no document is half of one."""
    if path.suffix in (".csv", ".jsonl"):
        return now.startswith(before) and now.endswith(b"\n")
    if path.suffix == ".json":
        return isinstance(json.loads(now or b"0"), dict)
    ends = {".xml": b"</testsuite>\n", ".prom": b"\n", ".png": b"IEND\xaeB`\x82"}
    return now.endswith(ends.get(path.suffix, b""))


def main(disk: Path) -> None:
    """Every writer, on disks that have too little room."""
    folder = disk / "lab"
    for name in ("textfiles", "runs", "platforms/lab"):
        (disk / name).mkdir(parents=True)
    (disk / "platforms/lab/platform.xml").write_text("<jube/>\n")
    History(folder).append(a_record(sample, day) for day in range(8) for sample in range(9))
    Journal(folder).note("a", "begun", folder="runs/a", words=[])
    Journal(folder).note("a", "ended", verdict="PASS")
    write_verdict(folder, night("a"), (), textfiles=disk / "textfiles")
    accept(folder, night("a"), "as bought", "root")
    list(over_nights(list(History(folder).points()), folder, ()))
    for name, write in writers(disk, folder).items():
        for free in FREE:
            before = files(disk)
            filler = fill(disk, free)
            why, path = "", ""
            try:
                write()
            except OSError as error:
                why, path = error.strerror or str(error), str(error.filename or "")
            filler.unlink()
            now = files(disk)
            changed = [name for name in {*before, *now} if before.get(name) != now.get(name)]
            broken = [str(p) for p in changed if not is_whole(p, before.get(p, b""), now.get(p, b""))]
            print(json.dumps({"writer": name, "free": free, "why": why, "path": path, "broken": broken}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
