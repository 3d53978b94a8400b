"""Texts that passed through people's hands: copied, quoted, labelled, wrapped, cut and put together."""

from __future__ import annotations

import html
import random
import re
import textwrap
from collections.abc import Callable
from dataclasses import replace
from itertools import chain, groupby
from pathlib import Path
from typing import Final

import pytest

from npc import parsers
from npc.records.reading import OK
from tests.captured import command_and_text, text_of
from tests.captured_texts import TEXTS

IDS = [f"{tool}-{path.name}" for tool, path, _ in TEXTS]


def lines_of(text: str) -> list[str]:
    return text.splitlines(keepends=True)


DECORATIONS: Final[dict[str, Callable[[str], str]]] = {
    "indented": lambda text: "".join("    " + line if line.strip() else line for line in lines_of(text)),
    "quoted": lambda text: "".join("> " + line for line in lines_of(text)),
    "quoted twice": lambda text: "".join("> > " + line for line in lines_of(text)),
    "in a list of Markdown": lambda text: f"See:\n\n{DECORATIONS['indented'](text)}\n\nWhy?\n",
    "blanks at line ends": lambda text: "".join(line.rstrip("\n") + "   \n" for line in lines_of(text)),
    "blanks of a web page": lambda text: text.replace("  ", "\u00a0 "),
    "bold": lambda text: "".join(
        f"**{line.rstrip()}**\n" if "*" not in line and line.strip() == line.rstrip("\n") else line
        for line in lines_of(text)
    ),
    "characters of HTML": lambda text: html.escape(text, quote=False),
    "indented and labelled": lambda text: "".join("    0: " + line for line in lines_of(text)),
}


@pytest.mark.parametrize("decoration", DECORATIONS)
def test_what_stands_around_a_text_changes_no_reading(decoration: str) -> None:
    changed = []
    for tool, path, recorded in TEXTS:
        argv, text = command_and_text(recorded)
        if decoration == "bold" and ("\n{" in "\n" + text):  # nobody marks each line of a document
            continue
        if parsers.parse(tool, DECORATIONS[decoration](text), argv) != parsers.parse(tool, text, argv):
            changed.append(f"{tool} {path.name}")
    assert not changed


LABELS = {
    "srun": ("0: ", "1: "),
    "srun of many ranks": ("007: ", "112: "),
    "Open MPI 4": ("[1,0]<stdout>:", "[1,1]<stdout>:"),
    "Open MPI 5": ("[prterun-n01-4711@1,0]<stdout>: ", "[prterun-n01-4711@1,1]<stdout>: "),
    "Hydra": ("[0] ", "[1] "),
    "pdsh": ("n01: ", "n02: "),
    "journalctl": ("Nov 28 01:53:04 n01 job.sh[411]: ", "Nov 28 01:53:04 n02 job.sh[812]: "),
}


LABEL: Final = re.compile(r"\[1,\d\]|\[prt.*\]|n\d+ job.sh\[\d+\]|\b[n\d]\d*\b(?!.*job)")


@pytest.mark.parametrize("launcher", LABELS)
def test_lines_belong_to_the_text_of_their_label(launcher: str) -> None:
    """Two ranks or hosts that each measured: their lines are mixed, their readings are not."""
    by_lot, changed = random.Random(0), []
    for tool, path, recorded in TEXTS:
        argv, text = command_and_text(recorded.rstrip("\n") + "\n")
        alone = parsers.parse(tool, text, argv)
        parts = [[label + line for line in lines_of(text)] for label in LABELS[launcher]]
        mixed = []
        while any(parts):
            mixed.append(by_lot.choice([part for part in parts if part]).pop(0))
        names = [LABEL.search(label)[0] for label in LABELS[launcher]]  # type: ignore[index]
        expected = [replace(r, params={**r.params, "label": name}) for name in names for r in alone]
        if sorted(map(str, parsers.parse(tool, "".join(mixed), argv))) != sorted(map(str, expected)):
            changed.append(f"{tool} {path.name}")
    assert not changed


def test_a_rank_that_only_warns_is_no_second_text() -> None:
    text = text_of("osu", "osu_latency.out")
    labelled = "".join("0: " + line for line in lines_of(text)) + "1: a warning\n1: of the transport\n"
    argv = ["osu_latency"]
    assert parsers.parse("osu", labelled, argv) == parsers.parse("osu", text, argv)


def test_the_failure_of_one_rank_stands_beside_the_result_of_another() -> None:
    """Its text begins a test and shows no result."""
    whole, lost = (
        text_of("stream", "stream_10M_t2.txt"),
        "STREAM version $Revision: 5.10 $\nSegmentation fault\n",
    )
    labelled = "".join(
        f"{rank}: {line}" for rank, text in enumerate((whole, lost)) for line in lines_of(text)
    )
    labels = {reading.params["label"]: reading.status for reading in parsers.parse("stream", labelled)}
    assert labels["0"] == OK and labels["1"].startswith("failed: ")


#: Numbers of free length that may end a text: whether they were cut cannot be told.
FREE = {("nuttcp", "cpu"), ("nuttcp", "retransmits"), ("nuttcp", "loss"), ("himeno", "time")}


#: Its numbers are sums over its lines.
SUMS = {"darshan"}
#: Outputs in which the tool itself prints a row again and again.
REPEATED = {("perftest", "ib_write_bw_infinite.client.txt")}


def values(tool: str, text: str, argv: list[str]) -> set[tuple[str, str, float | None]]:
    """What usable readings say; less may be told of what was measured."""
    read = parsers.parse(tool, text, argv)
    return {(r.case, r.metric, r.value) for r in read if r.status == OK and (tool, r.metric) not in FREE}


def of_the_whole(tool: str, text: str, argv: list[str]) -> set[tuple[str, str, float | None]]:
    """Some were captured without their last line end, and one with the recorder's line behind it."""
    ended = text.partition("#@ exit: ")[0] + "\n"
    return values(tool, text, argv) | values(tool, ended, argv)


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "path", "recorded"), TEXTS, ids=IDS)
def test_a_text_cut_anywhere_and_ended_gives_only_numbers_of_the_whole(
    tool: str, path: Path, recorded: str
) -> None:
    """An editor or a mail ends the last line, which may have been cut within a number."""
    argv, text = command_and_text(recorded)
    usable, number = of_the_whole(tool, text, argv), min(60, 50_000 // len(text) + 10, len(text))
    tail = range(max(0, len(text) - 60), len(text))
    for end in {*random.Random(0).sample(range(len(text)), number), *tail}:
        wrong = values(tool, text[:end] + "\n", argv) - usable
        assert not wrong, f"cut at {end}: {text[max(0, end - 60) : end]!r}"


def wrapped_hard(text: str, width: int) -> str:
    """As a terminal shows it."""
    lines = (line[at : at + width] for line in text.split("\n") for at in range(0, max(1, len(line)), width))
    return "\n".join(lines)


def wrapped_at_blanks(text: str, width: int) -> str:
    """As mail sends it."""
    lines = (
        textwrap.wrap(line, width, replace_whitespace=False, break_long_words=False) or [""]
        for line in text.split("\n")
    )
    return "\n".join(chain.from_iterable(lines))


@pytest.mark.parametrize("wrapped", [wrapped_hard, wrapped_at_blanks])
@pytest.mark.parametrize("width", [72, 80])
def test_a_wrapped_text_gives_only_numbers_of_the_whole(
    wrapped: Callable[[str, int], str], width: int
) -> None:
    wrong = []
    for tool, path, recorded in TEXTS:
        argv, text = command_and_text(recorded)
        if tool in SUMS:
            continue
        if more := values(tool, wrapped(text, width), argv) - of_the_whole(tool, text, argv):
            wrong.append(f"{tool} {path.name}: {sorted(more)[:2]}")
    assert not wrong


def other_run(line: str) -> str:
    """A line as another run might have printed it: another last digit in its numbers with decimals."""
    return re.sub(r"(\d\.\d*)(\d)(?!\d)", lambda number: f"{number[1]}{(int(number[2]) + 3) % 10}", line)


def doubled(text: str) -> str:
    """Two runs whose lines were sorted: each line of the one stands below that of the other."""
    pairs = ((line, other_run(line)) for line in lines_of(text))
    return "".join(line + other if other != line else line for line, other in pairs)


def appended(text: str) -> str:
    """Two runs, of which the second lost what stands above its last block of numbers."""
    lines = lines_of(text)
    blocks = [
        list(block) for numbers, block in groupby(lines, lambda line: other_run(line) != line) if numbers
    ]
    return text + "".join(map(other_run, blocks[-1] if blocks else []))


@pytest.mark.parametrize("mixed", [doubled, appended])
def test_two_runs_in_one_text_give_no_number_of_the_second(mixed: Callable[[str], str]) -> None:
    """Where nothing tells which is which, neither counts."""
    wrong = []
    for tool, path, recorded in TEXTS:
        argv, text = command_and_text(recorded)
        if (
            (tool, path.name) in REPEATED or tool in SUMS or tool == "nuttcp"
        ):  # a line there is a whole result
            continue
        if more := values(tool, mixed(text), argv) - of_the_whole(tool, text, argv):
            wrong.append(f"{tool} {path.name}: {sorted(more)[:2]}")
    assert not wrong, "\n".join(wrong)
