"""The command line as a user meets it: help, mistakes, broken commands, broken pipes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from npc.cli import entry_points
from tests.lab.in_process import npc
from tests.paths import ROOT

BIN = Path(sys.executable).parent
NAMES = sorted(entry_points())


def started(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, capture_output=True, text=True, check=False, env={**os.environ, **environ}, timeout=60
    )


@pytest.fixture
def site(tmp_path: Path) -> tuple[str, ...]:
    """The command ``npc`` in an environment in which a package with a site's own commands is installed."""
    info = tmp_path / "site_commands-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-commands\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[console_scripts]\nother = site_commands:other\n\n"
        "[npc.commands]\nhello = site_commands:hello\nfails = site_commands:fails [extra]\n"
        "missing = no_such_module:command\nraising = site_raising:command\nnumber = site_commands:number\n"
    )
    (tmp_path / "site_raising.py").write_text("raise RuntimeError('no licence')\n")
    (tmp_path / "site_commands.py").write_text(
        """
import os, signal, sys, time
import click
from npc import read_run

number = 7

@click.command(short_help="Say hello.")
def hello():
    click.echo("hello")

@click.command()
@click.argument("how")
def fails(how):
    if how == "read-only":
        open("/proc/sys", "w")
    elif how == "full":
        os.write(os.open("/dev/full", os.O_WRONLY), b"x")
    elif how == "renamed":
        os.rename("/proc/nothing", "/proc/nowhere")
    elif how == "missing-records":
        read_run(sys.path[-1] + "/no-run")
    elif how == "interrupted":
        print("started", flush=True)
        time.sleep(60)
    elif how == "flood":
        for _ in range(100_000):
            click.echo("x" * 80)
"""
    )
    main = f"import sys; sys.path.append({str(tmp_path)!r}); from npc.cli import main; main(prog_name='npc')"
    return sys.executable, "-c", main


def test_help_lists_every_command_with_its_purpose() -> None:
    shown = npc("--help")
    assert shown.returncode == 0
    assert NAMES
    for name in NAMES:
        assert re.search(rf"^  {re.escape(name)}  +[A-Z(]\S", shown.stdout, re.MULTILINE), name
    assert "cannot be loaded" not in shown.stdout
    assert "npc doctor" in shown.stdout and shown.stdout.index("Begin with") < shown.stdout.index("Measure:")


#: Prints what each command prints when it is asked by each of the words; in one process for all.
ASK_ALL = """
import json, sys
from tests.lab.in_process import npc
names = json.loads(sys.argv[1])
print(json.dumps([[npc(name, word).stdout for word in ("--help", "-h")] for name in names]))
"""


def test_every_command_explains_itself() -> None:
    words = [sys.executable, "-c", ASK_ALL, json.dumps(NAMES)]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name, (long, short) in zip(NAMES, json.loads(shown), strict=True):
        assert long.startswith(f"Usage: npc {name}") and "cannot be loaded" not in long, name
        assert short == long, name


def test_the_version_is_the_package_s() -> None:
    from npc import __version__

    shown = npc("--version")
    assert (shown.returncode, shown.stdout) == (0, f"npc, version {__version__}\n")


def test_a_mistyped_command_gets_the_one_that_was_meant() -> None:
    shown = npc("docter")
    assert shown.returncode == 2
    assert "No such command 'docter'. Did you mean doctor?" in shown.stderr


def test_a_command_that_resembles_none_gets_no_suggestion() -> None:
    shown = npc("zzzzqqqq")
    assert shown.returncode == 2
    assert "No such command 'zzzzqqqq'" in shown.stderr
    assert "mean" not in shown.stderr


def test_an_unknown_option_is_a_usage_error() -> None:
    shown = npc("doctor", "--jsn")
    assert shown.returncode == 2
    assert "--jsn" in shown.stderr


def test_a_site_s_own_command_is_found_and_run(site: tuple[str, ...]) -> None:
    assert re.search(r"^  hello +Say hello\.$", started(*site, "--help").stdout, re.MULTILINE)
    assert started(*site, "hello").stdout == "hello\n"


def test_a_broken_command_costs_only_itself(site: tuple[str, ...]) -> None:
    shown = started(*site, "--help")
    assert shown.returncode == 0
    assert set(NAMES) <= set(shown.stdout.split())
    reasons = {
        "missing": "ModuleNotFoundError: No module named 'no_such_module'",
        "raising": "RuntimeError: no licence",
        "number": "is no click command",
    }
    for name, reason in reasons.items():
        assert f"{name} " in shown.stdout
        called = started(*site, name, "--any", "argument")
        assert called.returncode == 1
        assert reason in called.stderr
        assert "Traceback" not in called.stderr


def options(command: click.Command) -> Iterator[click.Option]:
    """Of a command and those below it."""
    yield from (each for each in command.params if isinstance(each, click.Option))
    for below in getattr(command, "commands", {}).values():
        yield from options(below)


@pytest.mark.parametrize("name", NAMES)
def test_every_option_says_what_it_does(name: str) -> None:
    assert [each.opts for each in options(entry_points()[name].load()) if not each.help] == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("read-only", "/proc/sys: "),
        ("full", "No space left on device; make room there"),
        ("renamed", "/proc/nothing → /proc/nowhere: "),
        ("missing-records", "no-run does not exist: "),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(site: tuple[str, ...], how: str, message: str) -> None:
    shown = started(*site, "fails", how)
    assert shown.returncode == 1
    assert message in shown.stderr
    assert shown.stderr.startswith("Error: ")
    assert shown.stderr.count("\n") == 1


def test_an_interrupted_command_ends_with_130(site: tuple[str, ...]) -> None:
    with subprocess.Popen(
        [*site, "fails", "interrupted"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stderr is not None
        assert child.stdout.readline() == "started\n"
        time.sleep(0.2)  # until it sleeps
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=30) == 130
        assert child.stderr.read() == "interrupted\n"


def test_a_reader_that_goes_away_causes_no_traceback(site: tuple[str, ...]) -> None:
    with subprocess.Popen([*site, "fails", "flood"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdout is not None and child.stderr is not None
        child.stdout.read(1000)
        child.stdout.close()
        assert child.wait(timeout=30) == 1
        assert child.stderr.read() == b""


def test_the_shell_completes_command_names() -> None:
    shown = started(str(BIN / "npc"), _NPC_COMPLETE="bash_complete", COMP_WORDS="npc doc", COMP_CWORD="1")
    assert shown.stdout.split() == ["plain,doctor"]


def test_every_command_and_its_exit_codes_are_in_the_reference() -> None:
    page = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name in [*(f"npc {name}" for name in NAMES), "npb"]:
        assert re.search(rf"^## `{re.escape(name)}(?!\w)", page, re.MULTILINE), name
