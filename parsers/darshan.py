"""Darshan's logs, as ``darshan-parser`` tells them (3.x): a program's bytes and calls by file system.

Case ``files``, all ranks together. `traffic` and `events` are bytes and calls of reading and writing
(``direction``), `time` the seconds that a rank spent in them as the mean of all ranks, {"part": "metadata"}
in opening, closing, asking and seeking. ``port`` is the mount point, the circumstance ``filesystem`` its
type. What POSIX calls and C's streams moved is added up: MPI-IO's are POSIX calls again, and streams' inner
calls are not counted. `time` without ``port`` is the whole run's.

Source: darshan-util's documentation, "darshan-parser", and "Guide to darshan-parser output".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines
from npc.records.reading import OK, Reading, failed

_LOG: Final = re.compile(r"\n# darshan log version: (\d[\d.]{0,20})(?=\n)")
_RANKS: Final = re.compile(rf"\n# nprocs: ({WHOLE})(?=\n)")
_SECONDS: Final = re.compile(rf"\n# run time: ({NUMBER})(?=\n)")
#: module, rank, file, counter, value, name, mount point, type of the file system
_ROW: Final = re.compile(
    r"\n(?:POSIX|STDIO)\t-?\d{1,10}\t\d{1,20}\t(?:POSIX|STDIO)_(\w{1,40})"
    rf"\t(-?{NUMBER})\t[^\t\n]{{0,4096}}\t([^\t\n]{{1,4096}})\t(\w[^\t\n]{{0,60}})(?=\n)"
)
#: Counter → metric and params of what it is part of.
_COUNTERS: Final = {
    "BYTES_READ": ("traffic", "direction", "read"), "BYTES_WRITTEN": ("traffic", "direction", "write"),
    "READS": ("events", "direction", "read"), "WRITES": ("events", "direction", "write"),
    "F_READ_TIME": ("time", "direction", "read"), "F_WRITE_TIME": ("time", "direction", "write"),
    "F_META_TIME": ("time", "part", "metadata"),
}  # fmt: skip
PROGRAMS: Final = r"darshan-parser"
MARKS: Final = r"# darshan log version: "


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every file system; the failure of a log that could not be read."""
    text = complete_lines(text)
    log, ranks, seconds = _LOG.search(text), _RANKS.search(text), _SECONDS.search(text)
    if not (log and ranks and seconds and int(ranks[1])):
        if log or any(word.rpartition("/")[2] == "darshan-parser" for word in argv):
            yield failed("files", "traffic", "darshan-parser told no log's ranks and run time")
        return
    common = {"ranks": ranks[1]}
    yield Reading("files", "time", float(seconds[1]), None, OK, common, log[1])
    sums: defaultdict[tuple[str, str, str, str, str], float] = defaultdict(float)
    for counter, value, mount, kind in _ROW.findall(text, log.end()):
        if counter in _COUNTERS and float(value) > 0:
            sums[(mount, kind, *_COUNTERS[counter])] += float(value)
    for (mount, kind, metric, name, what), total in sorted(sums.items()):
        params = {**common, "port": mount, "filesystem": kind, name: what}
        value = total / int(ranks[1]) if metric == "time" else total
        yield Reading("files", metric, value, None, OK, params, log[1])
