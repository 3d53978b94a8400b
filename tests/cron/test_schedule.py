"""What cron, scrontab and systemd make of the lines that are written for them."""

from __future__ import annotations

import re
import shlex
import subprocess
import tempfile
from datetime import time
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from npc.cron.schedule import NotInstalled, cron_block, scron_block, systemd_units
from npc.jobs import jube
from npc.jobs.stop import Stop
from npc.one_line import NotOneLine, one_line
from npc.template import filled_in
from tests.lab.in_process import npc

AT = [time(2, 30)]
#: The attack that this was written for, and what formats treat in ways of their own.
ATTACK = "x\n* * * * * touch /tmp/p; :"
NAMES = st.one_of(
    st.text(st.characters(exclude_characters="/\0"), min_size=1, max_size=12),
    st.text("ab %\\$'\"#;&|`(){}!*?~<>=:-\t\n\r\x0b\x85\u2028", min_size=1, max_size=12),
).filter(lambda name: name not in (".", "..") and len(name.encode("utf-8", "replace")) < 200)


def of_cron(line: str) -> str:
    """What cron gives to a shell: an unescaped percent sign ends it, an escaped one is one (crontab(5))."""
    command = line.split(" ", 5)[5]
    return re.split(r"(?<!\\)%", command)[0].replace(r"\%", "%")


def of_systemd(text: str) -> list[str]:
    """The words of a command without single quotes around them: quotes and escapes, then specifiers and
    variables (systemd.syntax(7), systemd.unit(5), systemd.service(5))."""
    words = re.findall(r'"(?:[^"\\]|\\.)*"|[^\s"]+', text)
    unquoted = [re.sub(r"\\(.)", r"\1", word[1:-1] if word.startswith('"') else word) for word in words]
    assert not any(re.search(r"(?<!%)(?:%%)*%(?!%)", word) for word in unquoted)
    assert not any(re.search(r"(?<!\$)(?:\$\$)*\$(?!\$)", word) for word in unquoted)
    return [word.replace("%%", "%").replace("$$", "$") for word in unquoted]


@given(NAMES)
@example(ATTACK)
@example("100%")
@example("50%\\%")
@settings(max_examples=60)
def test_cron_runs_the_script_or_it_is_refused(name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        try:
            script = Path(folder, name, "nightly.sh")
            lines = cron_block("here", AT, script).split("\n")
        except (NotOneLine, NotInstalled):
            return
        assert len(lines) == 4
        assert lines[0].startswith("#")
        assert lines[2].startswith("#")
        script.parent.mkdir()
        script.write_text("#!/bin/sh\necho it ran\n")
        script.chmod(0o755)
        ran = subprocess.run(
            ["/bin/sh", "-c", of_cron(lines[1])], capture_output=True, text=True, check=False
        )
        assert ran.stdout == "it ran\n", ran.stderr


@given(NAMES)
@example(ATTACK)
def test_scrontab_takes_the_options_as_they_are_or_they_are_refused(name: str) -> None:
    script = Path("/", name, "nightly.sh")
    try:
        block = scron_block("here", AT, script, 3600)
    except (NotOneLine, NotInstalled):
        return
    *options, line = block.split("\n")[1:-2]
    assert f"#SCRON --output={script.with_name('nightly.log')}" in options
    assert all(option.startswith("#SCRON --") and len(option.split()) == 2 for option in options)
    assert shlex.split(line.split(" ", 5)[5]) == [str(script)]


@given(NAMES)
@example(ATTACK)
@example('a\\"%$b')
@settings(max_examples=60)
def test_systemd_runs_the_script_or_it_is_refused(name: str) -> None:
    script = Path("/", name, "nightly.sh")
    try:
        units = systemd_units("here", AT, script, 3600)
    except NotOneLine:
        return
    (line,) = [line for line in units["npc-nightly-here.service"].splitlines() if line.startswith("Exec")]
    assert of_systemd(line.removeprefix("ExecStart=")) == ["/bin/sh", str(script)]
    plain = systemd_units("here", AT, Path("/p"), 3600)["npc-nightly-here.service"]
    assert len(units["npc-nightly-here.service"].splitlines()) == len(plain.splitlines())


@pytest.mark.parametrize("name", [ATTACK, "a b", "a%n", "a\\", ""])
def test_a_name_that_no_unit_may_have_is_refused(name: str) -> None:
    with pytest.raises(NotInstalled, match="rename the platform"):
        systemd_units(name, AT, Path("/p"), 3600)


@given(st.text())
def test_one_line_stays_one_for_every_reader(text: str) -> None:
    try:
        assert one_line(text) == text
    except NotOneLine:
        return
    assert len(text.splitlines()) <= 1
    assert text.encode("utf-8").count(b"\n") == 0


@pytest.mark.parametrize("kind", [[], ["--scrontab"], ["--systemd"]])
@pytest.mark.parametrize("where", ["history", "words"])
def test_no_line_of_its_own_gets_into_what_is_installed(kind: list[str], where: str, tmp_path: Path) -> None:
    history = tmp_path / (ATTACK if where == "history" else "history")
    words = ["--", "--tag", ATTACK] if where == "words" else []
    ended = npc("night", "cron", "install", *kind, "--history", history, *words)
    assert ended.returncode == 1
    assert ended.stderr.count("\n") == 1
    assert "U+000A cannot stand in" in ended.stderr
    assert not list(tmp_path.iterdir())


def test_no_template_takes_a_line_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "a.in").write_text("name = {{ name }}\n")
    assert filled_in(tmp_path / "a.in", name="here") == "name = here\n"
    with pytest.raises(NotOneLine, match=r"U\+000A"):
        filled_in(tmp_path / "a.in", name="here\nExecStartPre=/tmp/p")


@pytest.mark.parametrize("place", ["word", "folder", "setting"])
def test_jube_fills_in_no_line_of_its_own(place: str, tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log, pytest.raises(NotOneLine, match=r"U\+000A"):
        jube.call(
            ["run", "x\ny" if place == "word" else "x"],
            cwd=Path("/a\nb") if place == "folder" else tmp_path,
            env={"NPC_QUEUE": "a\n#SBATCH --uid=0" if place == "setting" else "a", "OTHER": "a\nb"},
            log=log,
            stop=Stop(),
        )


@pytest.mark.parametrize("account", ["a$(touch /tmp/p)", "a\nb", "a b", "`a`", 'a"b'])
def test_an_account_is_no_text_for_a_shell(account: str) -> None:
    ended = npc("platform", "new", "here", "--account", account)
    assert ended.returncode == 2
    assert "no account of Slurm has such a name" in ended.stderr
