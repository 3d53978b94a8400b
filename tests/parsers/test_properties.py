"""What no parser does, whatever happens to the text: invent a number, raise, or take for ever."""

from __future__ import annotations

import json
import math
import random
import re
import time
from collections import Counter, deque
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc import parsers
from npc.records.reading import Reading
from npc.records.record import OK
from tests import captured
from tests.captured import command_and_text
from tests.captured_texts import TEXTS

Number = tuple[str, str, float, "int | None", str]

TOOLS = sorted(set(captured.FOLDERS.values()))


def numbers(readings: list[Reading], *, ok: bool) -> set[Number]:
    """The values that readings give; of the usable ones with all that tells what was measured."""
    return {
        (r.case, r.metric, r.value, r.size if ok else None, json.dumps(dict(r.params)) if ok else "")
        for r in readings
        if r.value is not None and (r.status == OK or not ok)
    }


@pytest.mark.slow  # together as long as all other quick tests of the parsers
@pytest.mark.parametrize(
    ("tool", "path", "text"), TEXTS, ids=[f"{tool}-{path.name}" for tool, path, _ in TEXTS]
)
def test_a_truncated_text_gives_only_numbers_of_the_whole(tool: str, path: Path, text: str) -> None:
    argv, text = command_and_text(text)
    whole = parsers.parse(tool, text, argv)
    usable, printed = numbers(whole, ok=True), numbers(whole, ok=False)
    number = min(80, 100_000 // len(text) + 10)
    ends = range(len(text)) if len(text) < number else random.Random(0).sample(range(len(text)), number)
    for end in ends:
        part = parsers.parse(tool, text[:end], argv)
        assert numbers(part, ok=True) <= usable, f"cut at {end}"
        assert numbers(part, ok=False) <= printed, f"cut at {end}"


def damaged(data: st.DataObject, text: str) -> str:
    """`text` with lines dropped, doubled, moved or run into each other."""
    lines = text.splitlines(keepends=True)
    for _ in range(data.draw(st.integers(1, 6))):
        if not lines:
            break
        place = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["drop", "double", "move", "join", "cut"])):
            case "drop":
                del lines[place]
            case "double":
                lines.insert(place, lines[place])
            case "move":
                lines.insert(data.draw(st.integers(0, len(lines) - 1)), lines.pop(place))
            case "join":
                lines[place] = lines[place].rstrip("\n")
            case "cut":
                lines[place] = lines[place][: data.draw(st.integers(0, len(lines[place])))] + "\n"
    return "".join(lines)


@settings(max_examples=150)
@given(data=st.data())
def test_damaged_lines_give_no_reading_that_is_no_record(data: st.DataObject) -> None:
    tool, _, text = data.draw(st.sampled_from(TEXTS))
    argv, text = command_and_text(text)
    for reading in parsers.parse(tool, damaged(data, text), argv):
        assert reading.value is None or (math.isfinite(reading.value) and reading.value >= 0)
        assert reading.value is not None or reading.status.startswith(
            ("failed: ", "invalid: ", "unavailable: ")
        )


#: What begins a block in texts with several whose lines look alike: nothing but its place tells what a line
#: of theirs belongs to, so that a line that fits into another block cannot be told from one of that block.
BLOCKS = {
    "qperf": re.compile(r"^\w+:$", re.MULTILINE),
    "osu": re.compile(r"^# (?:OSU )?MPI.* Test", re.MULTILINE),
    "imb": re.compile(r"^# Benchmarking ", re.MULTILINE),
    "iperf3": re.compile(r"^(?:Connecting to|Accepted connection from) ", re.MULTILINE),
    "hpcc": re.compile(r"^Begin of Summary ", re.MULTILINE),
    "mdtest": re.compile(r"^SUMMARY (?:rate|time)", re.MULTILINE),
    "hpcg": re.compile(
        r"^[A-Z]\S{3,6} Summary: $", re.MULTILINE
    ),  # of 3.0, whose keys are without their section
}
#: JSON's lines say next to nothing on their own, also where other lines stand above a document; Darshan's
#: numbers are sums over its lines.
LINES = [
    (tool, *command_and_text(text))
    for tool, _, text in TEXTS
    if not command_and_text(text)[1].startswith("{") and "\n{\n" not in text and tool != "darshan"
]
ALIKE = [each for each in LINES if each[0] in BLOCKS and len(BLOCKS[each[0]].findall(each[2])) > 1]
ALONE = [each for each in LINES if each not in ALIKE]


def facts(readings: list[Reading], *, usable: bool) -> set[tuple[str, str, float, int | None]]:
    """What readings say was measured, and how large; of the usable ones, else of all.

    Of all also without the size, and without the name where a text has it in one line only: a reading that
    lost these says less, and nothing wrong.
    """
    found = {
        (reading.case, reading.metric, reading.value, reading.size)
        for reading in readings
        if reading.value is not None and (reading.status == OK or not usable)
    }
    if usable:
        return found
    found |= {("collective", *rest) for case, *rest in found if case.endswith("_perf")}  # nccl-tests
    return found | {(case, metric, value, None) for case, metric, value, _ in found}


@settings(max_examples=150)
@given(data=st.data())
def test_whole_lines_lost_doubled_or_shuffled_say_nothing_new(data: st.DataObject) -> None:
    """Neither a value nor what it is of; a warning that was lost is not seen, of course."""
    tool, argv, text = data.draw(st.sampled_from(ALONE))
    lines = text.splitlines(keepends=True)
    by_lot = random.Random(data.draw(st.integers(0, 2**32)))
    kept = by_lot.choices(range(len(lines)), k=data.draw(st.integers(0, len(lines))))
    if data.draw(st.booleans()):  # most lines, so that something is left
        kept = [place for place in range(len(lines)) if place not in kept[:4]]
    if data.draw(st.booleans()):
        by_lot.shuffle(kept)
    part = parsers.parse(tool, "".join(lines[place] for place in kept), argv)
    assert facts(part, usable=True) <= facts(parsers.parse(tool, text, argv), usable=False)


@settings(max_examples=150)
@given(data=st.data())
def test_a_line_lost_doubled_or_moved_among_alike_says_nothing_new(data: st.DataObject) -> None:
    """One line of one block; where more happens, the values at least stay those of the text."""
    tool, argv, text = data.draw(st.sampled_from(ALIKE))
    lines = text.splitlines(keepends=True)
    place, other = (data.draw(st.integers(0, len(lines) - 1)) for _ in range(2))
    # iperf3's runs may end with one line alone, for which any other could stand; mdtest's times look like
    # its rates
    stays = tool in ("iperf3", "mdtest")
    if stays:
        other = place
    keeps_its_order = stays or tool == "hpcg"
    part = list(lines)
    match data.draw(st.sampled_from(["lose", "double", "move"])):
        case "lose":
            del part[place]
        case "double":
            part.insert(other, lines[place])
        case "move":
            part.insert(other, part.pop(place))
    whole = parsers.parse(tool, text, argv)
    assert facts(parsers.parse(tool, "".join(part), argv), usable=True) <= facts(whole, usable=False)
    shuffled = lines if keeps_its_order else random.Random(place).sample(lines, len(lines))
    values = {reading.value for reading in whole}
    assert {reading.value for reading in parsers.parse(tool, "".join(shuffled), argv)} <= values | {None}


@settings(max_examples=150)
@given(tool=st.sampled_from(TOOLS), text=st.text(max_size=400))
def test_any_text_is_read_without_an_exception(tool: str, text: str) -> None:
    for variation in (
        text,
        "{" + text,
        f"tcp_bw:\n    bw  =  {text}\n",
        f"# MPI Latency Test\n# Size {text}\n1 2\n",
    ):
        parsers.parse(tool, variation, ["-m", text])


@settings(max_examples=50)
@given(data=st.data())
def test_texts_behind_each_other_give_the_readings_of_each(data: st.DataObject) -> None:
    tool = data.draw(st.sampled_from(["qperf", "osu", "stream", "likwid"]))
    texts = [command_and_text(text)[1] for name, _, text in TEXTS if name == tool]
    chosen = data.draw(st.lists(st.sampled_from(texts), min_size=1, max_size=4))
    together = parsers.parse(tool, "".join(chosen))
    apart = [reading for text in chosen for reading in parsers.parse(tool, text)]
    assert Counter(map(str, together)) == Counter(map(str, apart))


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
@pytest.mark.parametrize("tool", TOOLS)
def test_line_ends_do_not_matter(tool: str, newline: str) -> None:
    for name, _, text in TEXTS:
        if name == tool:
            argv, text = command_and_text(text)
            assert parsers.parse(tool, text.replace("\n", newline), argv) == parsers.parse(tool, text, argv)


#: What each parser looks for.
HEADS = {
    "qperf": [
        "",
        "tcp_bw:\n",
        "tcp_bw:\n    bw",
        "tcp_bw:\n    bw  =  ",
        "tcp_bw:\n    bw  =  1",
        "nosuch: ",
    ],
    "sockperf": [
        "",
        "sockperf: == version #3.7 ==\n",
        "sockperf: ========= Printing statistics for Server No: 0\nsockperf: ====> avg-latency=",
        "sockperf: ---> percentile ",
        "[ 0] IP = ",
        "sockperf: ERROR: ",
    ],
    "osu": [
        "",
        "# OSU MPI ",
        "# MPI Latency Test\n# ",
        "# MPI Latency Test\n# Size ",
        "# MPI Latency Test\n# Size  Latency(us)\n",
        "# MPI Latency Test\n# Size  Latency(us)\n1",
    ],
    "stream": ["", "STREAM version $Revision: ", "STREAM version 5\nCopy:  ", "Array size = ", "Copy: 1 2 "],
    "patterns": [
        "",
        "# NPC rings: 2 processes, 1 nodes, 1 threads each\n# Columns: ",
        "# NPC rings: 2 processes, 1 nodes, 1 threads each\n# Columns: method size_B latency_us\n",
        "rings.py: ",
    ],
    "hpcg": [
        "",
        "HPCG-Benchmark\nversion=3.1\n",
        "HPCG-Benchmark\nversion=",
        "HPCG-Benchmark\nversion=3.1\nFinal Summary::",
    ],
    "fio": [
        "",
        '# NPC fio: {"host": "n1", "nodes": 1, "part": 0, "rank": 0}\n',
        '# NPC fio unavailable: {"tests": ["read"], "reason": "no"}\n',
        '{\n  "fio version" : "fio-3.33",\n  "jobs" : [{"error" : 0, "write" : {"bw_bytes" : ',
        '{\n  "fio version" : "fio-3.33",\n  "jobs" : []\n}\n',
        "fio: ",
    ],
    "darshan": [
        "",
        "# darshan log version: 3.21\n# nprocs: 4\n# run time: 1.0\n",
        "POSIX\t0\t1\tPOSIX_BYTES_READ\t",
        "POSIX\t0\t1\tPOSIX_BYTES_READ\t5\t/f\t/\text4\n",
    ],
    "ior": [
        "",
        "IOR-4.0.0: MPI Coordinated Test of Parallel I/O\n",
        "\nSummary of all tests:\nOperation   Max(MiB)   Min(MiB)  Mean(MiB) ",
        '{\n  "Command line": "ior", "summary": [{"operation": "write", "bwMeanMIB": ',
        "ior ERROR: ",
    ],
    "mdtest": [
        "",
        "mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)\n",
        "mdtest-4.0.0 was launched with 2 total task(s) on 1 node(s)\n\n"
        "SUMMARY rate: (of 1 iterations)\n   File stat : ",
    ],
    "noise": [
        "",
        "NPC noise: 2 cores at once, 0.5 s of each part, a quantum of 1000 us, detours above 1 us\n",
        "core 0    0.500000    4128.036      255      882.978       4000.0       0.455      0.00        30\n",
        "delays of core 0 [us x number]: 1.000x3\nComplete\n",
        "ran on core 0: 0.01 s sh (process 1)\n",
    ],
    "himeno": [
        "",
        "himeno: ",
        " imax = ",
        " Start rehearsal measurement process.\n MFLOPS: ",
        " cpu : 1 sec.\n Loop executed for 1 times\n Gosa : ",
        " cpu : ",
    ],
    "hpcc": [
        "",
        "This is the DARPA/DOE HPC Challenge Benchmark version ",
        "Begin of Summary section.\nHPL_Tflops=",
        "Begin of StarSTREAM section.\n",
    ],
    "likwid": ["", "Test: ", "Test: load\nMByte/s:\t", "Test: load\nSize (Byte):\t", "Error: "],
    "iperf3": [
        "",
        "Connecting to host h\n[  5]   0.00-2.00   sec ",
        "Connecting to host h\n",
        "iperf3: ",
        "{",
    ],
}
#: What may stand there without end.
ENDLESS = [
    *(" ", "\n", "\t", "0", "9", ".", "1.", ",", "a", "a ", "=", "-", "#", "# ", "\n# ", "é", "\0", "\n    "),
    *("{", "[", '{"a":', "(us)", "[us] ", "1 0.16\n", "    bw  =  1\n", "\x1b[", " Test", ": ", "x: y "),
    *("test was performed using ", " --msg-size=", "sockperf: ", "\nsockperf: ", "Size ", "\nTest: a"),
    *("tcp_bw:\n", "\ntcp_"),
]


def own_text(tool: str) -> str:
    """The shortest captured output of a tool that has a number."""
    return min((command_and_text(text)[1] for name, _, text in TEXTS if name == tool), key=len, default="")


def heads(tool: str) -> list[str]:
    """What a parser looks for: as named above, else its own text up to some places."""
    if tool in HEADS:
        return HEADS[tool]
    text = own_text(tool)
    ends = [line.rfind(" ") for line in text.splitlines(keepends=True)]
    places = [text.find("\n", len(text) * part // 4) + 1 for part in range(4)]
    return ["", *(text[:place] for place in places), *(text[: place + max(ends)] for place in places[:1])]


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_work_grows_with_the_text_and_not_with_its_square(tool: str) -> None:
    """30 kB take some 30 ms at most; the quickest search that starts anew at every character, 400 ms."""
    parse = parsers.load(tool)
    lines = own_text(tool).splitlines(keepends=True)
    for head in heads(tool):
        for endless in [*ENDLESS, *lines[:: len(lines) // 4 + 1]]:
            begun = time.process_time()
            deque(parse(head + endless * (30_000 // len(endless)) + "\n", ()), maxlen=0)
            assert time.process_time() - begun < 0.3, (head, endless)
