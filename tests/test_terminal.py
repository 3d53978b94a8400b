"""What others wrote does not steer the terminal on which it is read; who reads a pipe gets it as it is."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from npc.records.record import Record, save_csv
from npc.terminal import visible
from tests.lab.jube_job import NPC
from tests.lab.npb_job import MPI_ENVIRONMENT, NPB, mpirun, python
from tests.paths import ROOT

ROOMS = ("npc", "parsers", "npb", "observe", "roofline", "cron", "report")
#: Clears the screen, changes the title, moves back, deletes, C1's CSI, turns the direction; and its escapes.
EVIL = "\x1b[2Jevil\x1b]0;title\x07\r\x7f\x9b5m\u202eright\u2066"
SHOWN = r"\x1b[2Jevil\x1b]0;title\x07\x0d\x7f\x9b5m\u202eright\u2066"


def on_terminal(*command: str | Path, cwd: Path, **environment: str) -> str:
    """What a command shows on a terminal, its two streams together."""
    ours, theirs = os.openpty()
    given = {**os.environ, **environment, "TERM": "xterm", "COLUMNS": "300"}
    process = subprocess.Popen(
        command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=given
    )
    os.close(theirs)
    shown = b""
    try:
        while data := os.read(ours, 65536):
            shown += data
    except OSError:  # EIO: the last who had it open is gone
        pass
    finally:
        os.close(ours)
        process.wait(30)
    return shown.decode(errors="surrogateescape").replace("\r\n", "\n")


def steers(shown: str) -> bool:
    """Whether anything but NPC's own colours and line of progress is there that a terminal obeys."""
    own = ["\r\x1b[K", *(f"\x1b[{code}m" for code in (0, 1, 2, 31, 32, 33, 36))]
    for colour in own:
        shown = shown.replace(colour, "")
    return visible(shown) != shown


def test_what_steers_a_terminal_is_shown_as_its_escape() -> None:
    assert visible(EVIL) == SHOWN
    usual = "a line\n\ta tab, µs – ü 漢字 →\n"
    assert visible(usual) == usual
    assert visible("\udc9b") == r"\udc9b", "a byte that is no text"
    assert visible(SHOWN) == SHOWN


@pytest.mark.parametrize(
    "arguments",
    [
        ("records", "collect", EVIL),
        ("report", EVIL),
        ("compare", EVIL, EVIL),
        ("records", "parse", "qperf", EVIL),
        ("check", EVIL),
        ("observe", "--", f"./{EVIL}"),
        (EVIL,),
        ("compare", f"--{EVIL}"),
    ],
    ids=lambda arguments: arguments[0].replace(EVIL, "command"),
)
def test_names_in_errors_do_not_steer_the_terminal(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    """Folders, files, programs, options and commands that there are not."""
    shown = on_terminal(NPC, *arguments, cwd=tmp_path)
    assert r"\x1b]0;title\x07" in shown and not steers(shown), shown
    piped = subprocess.run([NPC, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert not steers(piped.stderr)


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [("utf-8", "8.2 σ \\udcff\n"), ("latin-1", "8.2 \\u03c3 \\udcff\n"), ("ascii", "8.2 σ ?\n")],
)
def test_what_a_pipe_s_encoding_does_not_have_ends_no_command(encoding: str, shown: str) -> None:
    """Cron mails a night's table in whatever locale it was started."""
    script = "from npc.terminal import guard; guard(); print('8.2 \\u03c3 \\udcff')"
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "PYTHONIOENCODING": encoding},
        capture_output=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout.decode()) == (0, shown), done.stderr


@pytest.mark.slow
def test_a_folder_and_its_records_do_not_steer_the_terminal(tmp_path: Path) -> None:
    folder = tmp_path / f"run{EVIL}"
    folder.mkdir()
    records = [
        Record(
            time="2026-11-21T08:00:00+00:00", platform=f"p{EVIL}", benchmark=f"b{EVIL}", case=f"c{EVIL}",
            metric="latency", value=1e-6 * (1 + sample % 2), unit="s", hosts=("n1",), nodes=1, run=f"r{EVIL}",
            sample=sample, status="ok", params={f"k{EVIL}": f"v{EVIL}"}, raw="raw/0000.out",
        )
        for sample in range(6)
    ]  # fmt: skip
    table = folder / "records.csv"
    save_csv(records, table)
    for command in (("compare", folder, folder), ("check", folder)):
        shown = on_terminal(NPC, *command, cwd=tmp_path)
        assert "evil" in shown and not steers(shown), shown
    table.write_text(table.read_text().replace(",n1,", f',"n1{EVIL}",'), newline="")
    shown = on_terminal(NPC, "check", folder, cwd=tmp_path)
    assert "evil" in shown and not steers(shown), "a host's name"


@pytest.mark.slow
def test_who_reads_a_pipe_gets_what_there_is(tmp_path: Path) -> None:
    """The program's own output under npc observe, also on a terminal."""
    text = tmp_path / "text"
    text.write_text(EVIL + "\n")
    piped = subprocess.run(
        [NPC, "observe", "--", "cat", text], cwd=tmp_path, capture_output=True, timeout=120
    )
    assert EVIL.encode() + b"\n" in piped.stdout
    assert EVIL in on_terminal(NPC, "observe", "--output", "again", "--", "cat", text, cwd=tmp_path)


def npb(server: str, client: str, *options: str) -> list[str]:
    return [
        mpirun(), "-np", "2", str(NPB), "--servercmd", server, "--clientcmd", client, "--ready-after", "0.1",
        "--killserver", "--parser", "raw", *options,
    ]  # fmt: skip


SAYS = f"print({EVIL!r})"


@pytest.mark.slow
@pytest.mark.parametrize("form", ["table", "raw"])
def test_a_clients_words_under_npb_are_visible_on_a_terminal_and_as_they_are_in_a_pipe(
    tmp_path: Path, form: str
) -> None:
    environment = {**MPI_ENVIRONMENT, "TMPDIR": str(tmp_path), "PYTHONIOENCODING": "utf-8"}
    command = npb("sleep 100", python(SAYS), "--format", form)
    shown = on_terminal(*command, cwd=tmp_path, **environment)
    assert "evil" in shown and not steers(shown), shown
    piped = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, timeout=60
    )
    assert b"\x1b[2Jevil\x1b]0;title\x07" in piped.stdout
    if form == "raw":
        assert piped.stdout == EVIL.encode() + b"\n"


@pytest.mark.slow
def test_words_in_npbs_errors_do_not_steer_the_terminal(tmp_path: Path) -> None:
    """Of a server that dies, of a program that there is not, of the folder in which it is all kept."""
    dies = python(f"import sys; {SAYS}; sys.stdout.flush(); sys.exit({EVIL!r})")
    output = ("--output", f"{tmp_path}/out{EVIL}")
    commands = {
        "before it listened": [*npb("", "")[:4], "--servercmd", dies, "--clientcmd", "true", *output],
        "not found in PATH": npb("sleep 100", f"'no{EVIL}'"),
        "cannot write": npb("sleep 100", "true", "--output", f"/proc/{EVIL}"),
        "there is no parser": npb("sleep 100", "true", "--parser", EVIL),
    }
    for words, command in commands.items():
        shown = on_terminal(*command, cwd=tmp_path, **MPI_ENVIRONMENT, TMPDIR=str(tmp_path))
        assert words in shown and "evil" in shown and not steers(shown), shown


def test_every_program_of_npc_guards_its_terminal() -> None:
    """What is started as a module; `npc` and `npb` do it where they begin."""
    without = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            text = path.read_text()
            if '__name__ == "__main__"' in text and path.name not in ("__main__.py", "start.py"):
                of_npc = any(
                    isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] in ROOMS
                    for node in ast.walk(ast.parse(text))
                )
                if of_npc and "    guard()\n" not in text:
                    without.append(path)
    assert not without


def test_colours_are_npcs_own(tmp_path: Path) -> None:
    shows = (
        "from npc.terminal import guard, styled; guard(); "
        "print(styled('bold', bold=True), '\\x1b[1mforeign', '\\uf8fe[2J')"
    )
    shown = on_terminal(sys.executable, "-c", shows, cwd=tmp_path)
    assert shown.startswith("\x1b[1mbold\x1b[0m \\x1b[1mforeign ") and "\x1b[2J" not in shown
