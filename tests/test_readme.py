"""The README and the pages: what they tell people to type exists, and what they show is what is printed."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from npc.choices import TAGS
from npc.cli import main
from npc.jobs.suite import settings
from npc.observe.study.command import StudyCommands
from tests.lab.jube_job import finish
from tests.lab.pages import (
    EXAMPLE,
    FENCE,
    PAGES,
    README,
    blocks,
    example_in,
    is_shown,
    printed_in,
    typed,
)
from tests.paths import ROOT

#: Pages whose blocks another test carries out.
_CARRIED_OUT = {"add-a-benchmark.md"}


def command_lines(page: Path) -> Iterator[str]:
    """Lines that a shell is meant to read: of npc, npb or make, without comments, continued ones joined."""
    for language, text in blocks(page):
        if language in ("", "sh", "bash", "console", "indented"):
            for line in text.replace("\\\n", " ").splitlines():
                line = re.sub(r"\s#.*", "", line.removeprefix("$ ")).strip()
                line = re.sub(r"^(\.venv/bin/|[A-Z_]+=\S+ )", "", line)
                if re.match(r"(npc|make) [a-z]", line):
                    yield line


LINES = sorted(
    {(page.relative_to(ROOT).as_posix(), line) for page in PAGES if page.name not in _CARRIED_OUT
     for line in command_lines(page)}
)  # fmt: skip


def test_there_are_lines_to_look_at() -> None:
    assert len([line for page, line in LINES if page == "README.md"]) >= 2
    assert len(LINES) > 40


@pytest.mark.parametrize(("page", "line"), LINES, ids=[f"{page}: {line}"[:80] for page, line in LINES])
def test_every_line_that_is_shown_names_what_exists(page: str, line: str) -> None:
    """Commands, their options, tags and settings; make targets."""
    words = shlex.split(re.sub(r"[;&|<>].*", "", line.replace("…", "")))
    if words[0] == "make":
        targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        targets += [f"bench-{path.stem[6:]}" for path in (ROOT / "tests").glob("bench_*.py")]
        wanted = [word for word in words[1:] if "=" not in word and re.fullmatch(r"[\w-]+", word)]
        assert set(wanted[:1]) <= set(targets)
        return
    command, rest = main, words[1:]
    context = click.Context(main)
    while isinstance(command, click.Group) and rest and rest[0] in command.list_commands(context):
        command, rest = command.get_command(context, rest[0]), rest[1:]
    assert command is not main or rest[0].startswith("-"), f"there is no npc {words[1]}"
    if isinstance(command, StudyCommands):
        command = command.commands[command.usual]
    assert command is not None
    options = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    rest = rest[: rest.index("--")] if "--" in rest else rest
    for place, word in enumerate(rest):
        option = re.match(r"\[?(--[a-z][a-z-]*)", word)
        if option:
            assert option[1] in {*options, "--help"}, f"npc {words[1]} has no {option[1]}"
        value = rest[place + 1] if place + 1 < len(rest) else ""
        if word == "--tag" and re.fullmatch(r"[a-z]+", value):
            assert value in TAGS
        if word == "--set" and re.fullmatch(r"[a-z0-9_]+=.*", value):
            folders = [None, *(path.parent for path in (ROOT / "platforms").glob("*/platform.xml"))]
            name = value.partition("=")[0]
            own = [(ROOT / file).read_text() for file in rest if (ROOT / file).suffix == ".xml"]
            known = [settings(ROOT, folder) for folder in folders]
            assert any(name in names for names in known) or f"NPC_{name.upper()}" in "".join(own), name


def test_ci_carries_out_the_commands_of_the_readme_in_their_order() -> None:
    """One after the other in one clone, where the second meets what the first has left there."""
    (start,) = [text for _, text in blocks(README) if "make test" in text]
    shown = [re.sub(r"\s*#.*", "", line) for line in start.strip().splitlines()]
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")
    assert re.findall(r"^timed (?:env [A-Z_]+=0 )?(.*)$", script, re.MULTILINE) == shown
    assert {"make characterise", "make test"} <= set(shown)


def test_the_notebook_line_of_the_readme() -> None:
    (line,) = re.findall(
        r"`(from npc import read_run; .*?)`", (ROOT / "README.md").read_text(encoding="utf-8")
    )
    names: dict[str, object] = {}
    exec(line.replace('"runs/000000"', repr(str(EXAMPLE))), names)
    assert isinstance(names["records"], list) and len(names["records"]) > 1000


CONSOLE = [
    (page, number)
    for page in PAGES
    for number, (language, _) in enumerate(blocks(page))
    if language == "console"
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "number"), CONSOLE, ids=[f"{page.name} {number}" for page, number in CONSOLE]
)
def test_what_a_page_shows_of_a_terminal_is_what_is_printed(page: Path, number: int, tmp_path: Path) -> None:
    """Blocks ``console``: what follows ``$`` is typed where runs/000000 is the example; ``…`` is anything."""
    example_in(tmp_path)
    for line, shown in typed(list(blocks(page))[number][1]):
        printed = printed_in(tmp_path, line)
        assert is_shown(shown, printed), f"{line}\n--- printed:\n{printed}"


def test_there_are_terminals_to_look_at() -> None:
    assert len(CONSOLE) >= 5


def test_the_version_is_the_same_everywhere() -> None:
    from npc import __version__

    assert f'version = "{__version__}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert f"version: {__version__}" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    licence = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in licence and "license: Apache-2.0" in (ROOT / "CITATION.cff").read_text()


def test_every_page_is_in_the_index() -> None:
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, page.name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)#\s]*)(?:#[^)]*)?\)", text):
        if target and "://" not in target:
            assert (page.parent / target).exists(), target


@pytest.mark.slow
def test_the_pairs_of_the_readme_really_run() -> None:
    """As they stand, in a bare shell."""
    (pairs,) = [text for _, text in blocks(README) if text.startswith("mpirun")]
    bare = ("env", "--ignore-environment", f"PATH={os.defpath}", "bash", "--norc", "-c")
    one, all_of_them = (
        finish(*bare, f"cd {shlex.quote(str(ROOT))}; {line}") for line in pairs.strip().splitlines()
    )
    assert one.returncode == 0, one.stderr
    assert re.search(r"tcp_bw +bandwidth.* [GMk]?B/s\n.*tcp_lat +latency.* [mµn]s\n", one.stdout)
    assert all_of_them.returncode == 0, all_of_them.stderr
    assert len(re.findall(r"→\S+ +tcp_bw +bandwidth ", all_of_them.stdout)) == 3


def test_the_readme_is_read_in_a_minute() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 60
