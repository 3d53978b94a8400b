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

from npc.cli import GROUPS, MOVED, entry_points, main
from npc.commands.rare_options import RareOption, show_all
from tests.lab.in_process import npc
from tests.lab.parts import needs_parts
from tests.paths import ROOT

BIN = Path(sys.executable).parent
NAMES = sorted(entry_points())
#: Files in which commands are named.
ENDINGS = (".md", ".py", ".sh", ".xml", ".yml", ".toml", ".ini", ".in", ".html", ".c", ".h", ".def", ".js")
#: What tells of the past, or is a captured output.
PAST = ("CHANGELOG.md", "docs/example/", "tests/data/")


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
        "[npc.commands]\nhello = site_commands:hello\nnight hello = site_commands:hello\n"
        "site hello = site_commands:hello\nfails = site_commands:fails [extra]\n"
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
    shown = npc("--help-all")
    assert shown.returncode == 0
    assert NAMES
    for name in NAMES:
        if name != "completion":
            assert re.search(rf"^  {re.escape(name)}  +[A-Z(]\S", shown.stdout, re.MULTILINE), name
    assert "cannot be loaded" not in shown.stdout
    assert "npc doctor" in shown.stdout and shown.stdout.index("  doctor ") < shown.stdout.index("  report ")


def test_help_fits_on_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    """24 lines of 80 columns: the commands of the first level, and the groups."""
    monkeypatch.setenv("COLUMNS", "80")
    lines = npc("--help").stdout.splitlines()
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    first = {name.split()[0] for name in NAMES} - {"completion"}
    assert {line.split()[0] for line in lines[lines.index("Commands:") + 1 :]} == first


def every_command(
    command: click.Command, name: str, above: click.Context | None = None
) -> Iterator[click.Context]:
    """The context of each command that ends in one, those of groups below."""
    context = click.Context(command, info_name=name, parent=above)
    if isinstance(command, click.Group):
        for below in command.list_commands(context):
            inner = command.get_command(context, below)
            assert inner
            yield from every_command(inner, below, context)
    else:
        yield context


def options_shown(context: click.Context) -> list[str]:
    """The options in its help, ``--help`` among them."""
    records = [
        option.get_help_record(context)
        for option in context.command.get_params(context)
        if isinstance(option, click.Option)
    ]
    return [record[0] for record in records if record]


def test_no_command_shows_more_than_fifteen_options_and_help_all_shows_all() -> None:
    shown = {context.command_path: options_shown(context) for context in every_command(main, "npc")}
    assert {path: len(options) for path, options in shown.items() if len(options) > 15} == {}
    above = click.Context(main)
    show_all(above)
    for context in every_command(main, "npc", above):
        few = shown[context.command_path]
        rare = [option for option in context.command.params if isinstance(option, RareOption)]
        assert bool(rare) == ("--help-all" in few), context.command_path
        assert len(options_shown(context)) == len(few) + len(rare), context.command_path


def test_help_all_shows_the_rare_options() -> None:
    few, all_of_them = npc("night", "run", "--help"), npc("night", "run", "--help-all")
    assert all_of_them.returncode == 0 and "--keep-runs" in all_of_them.stdout
    assert "--keep-runs" not in few.stdout and "--help-all" in few.stdout


@pytest.mark.parametrize(
    ("words", "now"),
    [
        ("fit", "model fit"), ("nightly", "night run"), ("cron install", "night cron"),
        ("score RUN --json", "advise --score"), ("environment --in-job", "doctor --environment"),
        pytest.param("c++ -c a.cpp", "program c++", marks=needs_parts), ("collect runs", "records collect"),
    ],
)  # fmt: skip
def test_an_old_name_is_answered_with_the_new_one(words: str, now: str) -> None:
    shown = npc(*words.split())
    assert (shown.returncode, shown.stderr) == (2, f"Error: npc {words.split()[0]} is npc {now}\n")


def test_a_mistyped_command_of_a_group_gets_the_one_that_was_meant() -> None:
    shown = npc("model", "predit")
    assert shown.returncode == 2 and "No such command 'predit'. Did you mean predict?" in shown.stderr


#: A command in running text or in a script: ``npc`` and the words behind it.
NAMED = re.compile(
    r"(?:`npc\s+|(?:\$ |(?<![-\w.])[$\w.{}/-]*bin/|^ *|[(;:&|] ?)npc )((?:[a-z+]+ )?[a-z+]+)", re.MULTILINE
)
#: The last words of the commands of groups, and old names.
LAST_WORDS = [name.split()[-1] for name in NAMES if " " in name] + sorted(MOVED)
#: Such a word without its group.
OLD = re.compile(rf"(?<![-\w./])npc\s+({'|'.join(map(re.escape, LAST_WORDS))})(?![\w.-])")


@needs_parts
def test_every_command_that_is_named_exists() -> None:
    """In documentation, messages, scripts and specifications."""
    known = {context.command_path for context in every_command(main, "npc")}
    known |= {path.rpartition(" ")[0] for path in known}
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    wrong = list[str]()
    for file in files.splitlines():
        path = ROOT / file
        named = path.suffix in ENDINGS or file in ("Makefile", ".ci/run")
        if not named or file.startswith(PAST) or path.is_symlink():
            continue
        text = path.read_text(encoding="utf-8")
        wrong += [f"{file}: npc {name}" for name in OLD.findall(text)]
        for first, second in (
            words.split()[:2] if " " in words else (words, "") for words in NAMED.findall(text)
        ):
            if f"npc {first} {second}".strip() not in known and (
                first in GROUPS or f"npc {first}" not in known
            ):
                wrong.append(f"{file}: npc {first} {second}")
    assert not wrong


#: Prints what each command prints when it is asked by each of the words; in one process for all.
ASK_ALL = """
import json, sys
from tests.lab.in_process import npc
names = json.loads(sys.argv[1])
print(json.dumps([[npc(*name.split(), word).stdout for word in ("--help", "-h")] for name in names]))
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


def test_a_site_adds_a_command_to_a_group_and_a_group_of_its_own(site: tuple[str, ...]) -> None:
    assert started(*site, "night", "hello").stdout == started(*site, "site", "hello").stdout == "hello\n"
    assert re.search(r"^  hello +Say hello\.$", started(*site, "night", "--help").stdout, re.MULTILINE)
    assert re.search(r"^  site +Commands: hello\.$", started(*site, "--help").stdout, re.MULTILINE)


def test_a_broken_command_costs_only_itself(site: tuple[str, ...]) -> None:
    shown = started(*site, "--help")
    assert shown.returncode == 0
    assert {name.split()[0] for name in NAMES} - {"completion"} <= set(shown.stdout.split())
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
