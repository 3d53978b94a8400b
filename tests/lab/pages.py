"""What README and docs show of commands' outputs, against the shipped example: found, held against what is
printed, and written anew."""

from __future__ import annotations

import difflib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.lab.jube_job import NPC
from tests.paths import ROOT

README: Final = ROOT / "README.md"
PAGES: Final = sorted([README, *(ROOT / "docs").rglob("*.md"), *(ROOT / "benchmarks").rglob("*.md")])
EXAMPLE: Final = ROOT / "docs" / "example" / "localhost"
FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
#: What stands for anything.
ANYTHING: Final = "…"


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """(language, text) of each fenced block, and of indented ones as ``indented``."""
    text = page.read_text(encoding="utf-8")
    yield from FENCE.findall(text)
    for lines in re.findall(r"(?:^    .*\n)+", FENCE.sub("", text), re.MULTILINE):
        yield "indented", re.sub(r"^    ", "", lines, flags=re.MULTILINE)


def example_in(folder: Path) -> Path:
    """`folder`, with the example as its only run."""
    shutil.copytree(EXAMPLE, folder / "runs" / "000000")
    return folder


def printed_in(folder: Path, line: str) -> str:
    """What a line typed in `folder` prints."""
    environment = {**os.environ, "PATH": f"{NPC.parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("COLUMNS", None)
    ended = subprocess.run(
        ["bash", "-c", line.removeprefix(".venv/bin/")],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    return re.sub(r"[ \t]+$", "", ended.stdout + ended.stderr, flags=re.MULTILINE)


def typed(block: str) -> Iterator[tuple[str, str]]:
    """(line behind ``$``, what is shown below it) of a block ``console``."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, shown = part.partition("\n")
        yield line, shown


def is_shown(shown: str, printed: str) -> bool:
    """Whether `shown`, in which `ANYTHING` stands for anything, is what was printed."""
    parts = (re.escape(part.strip("\n") if "\n" in part else part) for part in shown.split(ANYTHING))
    return re.search(".*".join(parts).strip(), printed, re.DOTALL) is not None


# -- written anew ----------------------------------------------------------------------------------------


def renewed(shown: str, printed: str) -> str:
    """`shown` with the lines of `printed` that say the same of other numbers, in their order.

    A line that ends in `ANYTHING` keeps as many words as it had.
    """
    lines, begin = printed.splitlines(), 0
    found = []
    for line in shown.splitlines():
        if not line.strip() or line.strip() == ANYTHING:
            found.append(line)
            continue
        cut = line.rstrip().endswith(ANYTHING)
        known = line.rstrip().removesuffix(ANYTHING).rstrip() if cut else line
        words = len(known.split())
        at = max(
            range(begin, len(lines)),
            key=lambda place: _likeness(known, _first(lines[place], words) if cut else lines[place]),
            default=None,
        )
        if at is None:
            found.append(line)
            continue
        begin = at + 1
        found.append(f"{_first(lines[at], words)} {ANYTHING}" if cut else lines[at])
    return "\n".join(found) + "\n"


def _first(line: str, words: int) -> str:
    match = re.match(rf"\s*(?:\S+\s+){{{words - 1}}}\S+", line)
    return match[0] if match else line


def _likeness(one: str, other: str) -> float:
    """How alike two lines are, whatever their numbers."""
    return difflib.SequenceMatcher(None, *(_masked(line) for line in (one, other)), autojunk=False).ratio()


def _masked(line: str) -> str:
    return re.sub(r"\d[\d.]*", "0", " ".join(line.split()))


def renew(page: Path, folder: Path) -> list[str]:
    """Write a page's outputs anew; the lines of which it still shows what is not printed."""
    text = page.read_text(encoding="utf-8")
    wrong = []
    for language, block in FENCE.findall(text):
        if language == "console":
            new = ""
            for line, shown in typed(block):
                printed = printed_in(folder, line)
                again = renewed(shown, printed)
                new += f"$ {line}\n{again}"
                wrong += [] if is_shown(again, printed) else [f"{page.relative_to(ROOT)}: {line}"]
            text = text.replace(block, new)
    page.write_text(text, encoding="utf-8")
    return wrong
