"""NetPIPE 2 to 4 (``NPopenmpi``, ``NPtcp`` …): a ping-pong over message sizes and their neighbours.

A row is ``0:  1 bytes  50 times -->  38.10 Mbps in  0.20 usec`` (stderr; up to 2.4 in ``sec``), or, where
``-o /dev/stdout`` sends NetPIPE's output file there as well, size, rate and seconds (``1 38.095238
0.00000020``), which then counts. Mbps is 2^20 bits a second: 8 · size / 2^20 / time. The time is half a
round trip; streaming (``-s``) is no ping-pong and gives no latency. With ``-2`` the rate is that of both
directions, and so is the size in the file: twice the message's. NetPIPE 5, whose rows round the sizes, is
not read.

Source: netpipe(1), netpipe.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import Final

from npc.parsers.text.lines import NUMBER, WHOLE, complete_lines
from npc.parsers.text.tables import ascending
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import row_contradiction

_FILE_ROW: Final = re.compile(rf"\n *({WHOLE}) ({NUMBER}) +(0\.[0-9]{{8}})(?=\n)")
_ROW: Final = re.compile(
    rf"\n *{WHOLE}: +({WHOLE}) bytes +{WHOLE} times --> +({NUMBER}) Mbps in +({NUMBER}) (u?)sec(?=\n)"
)
_NETPIPE_5: Final = re.compile(r"\nStart testing with [0-9]{1,9} trials for each message size\n")
_PROGRAM: Final = re.compile(r"NP[a-z]+2?")
_STREAM: Final = "\nStreaming in one direction only.\n"
_BOTH: Final = "\nPassing data in both directions simultaneously.\n"
_ERROR: Final = re.compile(
    r"\n(Need at least two processes[^\n]*|Integrity check failed[^\n]*|[^\n]*invalid option[^\n]*)(?=\n)"
)
PROGRAMS: Final = r"NP[a-z]+2?"
MARKS: Final = (
    r"Now starting the main loop| *[0-9]+: +[0-9]+ +(?:B|bytes) +[0-9]+ times +-->| NETPIPE USAGE"
    r"|Start testing with [0-9]+ trials| *[0-9]+ [0-9.]+ +0\.[0-9]{8}$"
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one run."""
    text = complete_lines(text)
    case = "bidirectional" if _BOTH in text else "stream" if _STREAM in text else "pingpong"
    if case == "pingpong":  # the notes are printed before all rows, but may be lost
        case = "bidirectional" if "-2" in argv else "stream" if "-s" in argv else case
    of_file = _FILE_ROW.findall(text)
    rows = of_file or _ROW.findall(text)
    a_second = 1e6 if rows and rows[0][-1] == "u" else 1.0
    if _NETPIPE_5.search(text):
        yield failed(case, "bandwidth", "NetPIPE 5 is not read: its rows round the sizes")
        return
    error = _ERROR.search(text)
    started = any(_PROGRAM.fullmatch(PurePath(word).name) for word in argv)
    if error or (started and not rows):
        yield failed(case, "bandwidth", error[1] if error else "no row was printed")
        return
    if not ascending(int(size) for size, *_ in rows):
        yield failed(case, "bandwidth", "rows of several runs: sizes do not ascend")
        return
    messages = 2 if case == "bidirectional" and of_file else 1
    counted = 2 if case == "bidirectional" and not of_file else 1
    lies = [row_contradiction(row[1], 2**17, counted * int(row[0]), row[2], 1 / a_second) for row in rows]
    judged = [(row, f"invalid: {lie}" if lie else OK) for row, lie in zip(rows, lies, strict=True)]
    for (size, rate, *_), status in judged:
        if float(rate):  # of 0 bytes, which 2.4 sends, it is none
            yield Reading(case, "bandwidth", float(rate) * 2**17, int(size) // messages, status)
    for (size, _, time, *_), status in judged if case != "stream" else ():
        yield Reading(case, "latency", float(time) / a_second, int(size) // messages, status)
