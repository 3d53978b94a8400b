"""What a platform remembers of programs, as it is read; people and npc write the file."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from npc.files import InvalidFile
from npc.machine.platform import PLATFORM_FILE
from npc.machine.programs import PROGRAMS_FILE, read_programs, remembered

BY_HAND = """\
[[setting]]
program = "himeno"     # the department's
setting = "binding none"

[other]
answer = 42
"""


def by_npc(program: str, host: str) -> str:
    return f"""
[[setting]]
program = "{program}"
nodes = 1
ranks = 2
setting = "2 ranks, binding core"
times = 1.08
low = 1.05
high = 1.11
against = "2 ranks"
time = "2026-11-23T11:20:00+01:00"
hosts = ["{host}"]
by = "npc program study"
run = "/home/me/study"
"""


def test_a_table_by_hand_needs_program_and_setting_alone(tmp_path: Path) -> None:
    assert read_programs(tmp_path) == ()
    (tmp_path / PROGRAMS_FILE).write_text(BY_HAND + by_npc("hpcg", "n1"))
    hand, npc = read_programs(tmp_path)
    assert hand.words == "himeno: binding none (by hand)"
    assert npc.words == (
        "hpcg, 2 ranks on 1 node: 2 ranks, binding core: 1.08 times as fast as 2 ranks [1.05, 1.11] "
        "(npc program study, 2026-11-23, /home/me/study)"
    )


def test_any_machine_is_localhost_and_remembers_its_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "platforms/localhost"
    folder.mkdir(parents=True)
    (folder / PLATFORM_FILE).touch()
    monkeypatch.chdir(tmp_path)
    text = BY_HAND + by_npc("here", os.uname().nodename) + by_npc("elsewhere", "n1")
    (folder / PROGRAMS_FILE).write_text(text)
    assert [setting.program for setting in remembered("localhost")] == ["himeno", "here"]


@pytest.mark.parametrize(
    "text", ["[", '[[setting]]\nprogram = "a"\n', '[[setting]]\nprogram = 1\nsetting = ""\n']
)
def test_a_file_that_is_none_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / PROGRAMS_FILE).write_text(text)
    with pytest.raises(InvalidFile, match=r"programs\.toml"):
        read_programs(tmp_path)
