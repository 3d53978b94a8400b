"""What a platform remembers of programs: a file that people and npc write."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from npc.files import InvalidFile
from npc.machine.platform import PLATFORM_FILE
from npc.machine.programs import (
    PROGRAMS_FILE,
    BestSetting,
    read_programs,
    remembered,
)
from npc.observe.study.remembering import keep, remember
from tests.lab.in_process import npc
from tests.paths import ROOT

FOUND = BestSetting(
    program="himeno", setting="2 ranks, binding core", nodes=1, ranks=2, times=1.08, low=1.05, high=1.11,
    against="2 ranks", time="2026-11-23T11:20:00+01:00", hosts=("n1",), by="npc program study",
        run="/home/me/study",
)  # fmt: skip
OWN = """\
# settings of our site
[[setting]]
program = "himeno"     # the department's
nodes = 1
ranks = 2
setting = "binding none"

[other]
answer = 42
"""


def test_a_finding_comes_back(tmp_path: Path) -> None:
    assert read_programs(tmp_path) == ()
    remember(tmp_path, FOUND)
    assert read_programs(tmp_path) == (FOUND,)
    assert FOUND.words == (
        "himeno, 2 ranks on 1 node: 2 ranks, binding core: 1.08 times as fast as 2 ranks [1.05, 1.11] "
        "(npc program study, 2026-11-23, /home/me/study)"
    )


def test_a_newer_finding_takes_the_place_of_an_older_one(tmp_path: Path) -> None:
    other = BestSetting(
        program="himeno", setting="eager", ranks=2, variables={"A": "1"}, by="npc advise --try"
    )
    for each in (FOUND, other, BestSetting(program="hpcg", setting="8 threads", by="npc program study")):
        remember(tmp_path, each)
    newer = BestSetting(program="himeno", setting="binding none", nodes=1, ranks=2, by="npc program study")
    remember(tmp_path, newer)
    kept = read_programs(tmp_path)
    assert [each.setting for each in kept] == ["eager", "8 threads", "binding none"]
    assert (tmp_path / PROGRAMS_FILE).read_text().count("[[setting]]") == 3


def test_lines_that_somebody_wrote_stay(tmp_path: Path) -> None:
    path = tmp_path / PROGRAMS_FILE
    path.write_text(OWN)
    remember(tmp_path, FOUND)
    assert path.read_text().startswith(OWN)
    path.write_text(path.read_text().replace('by = "npc', '# checked by Ann\nby = "npc') + "\n# the end\n")
    remember(tmp_path, FOUND)
    text = path.read_text()
    assert text.startswith(OWN) and "# checked by Ann" in text and "# the end" in text
    own, found = read_programs(tmp_path)
    assert (own.setting, own.by, found) == ("binding none", "", FOUND)


def test_a_platform_s_folder_comes_first_and_what_else_keeps_it_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, study = tmp_path / "platforms/cluster", tmp_path / "study"
    for each in (folder, study):
        each.mkdir(parents=True)
    (folder / PLATFORM_FILE).touch()
    monkeypatch.chdir(tmp_path)
    assert keep("cluster", FOUND, study) == f"Remembered: {FOUND.words}, in platforms/cluster/programs.toml."
    assert remembered("cluster") == (FOUND,)
    said = keep("nowhere", FOUND, study)
    assert said.startswith(
        f"Remembered in {study}/programs.toml, not for the platform (there is no platform "
    )
    assert read_programs(study) == (FOUND,)
    (folder / PROGRAMS_FILE).write_text("[")
    assert "not for the platform (platforms/cluster/programs.toml: " in keep("cluster", FOUND, study)


def test_with_a_workplace_of_one_s_own_the_checkout_stays_as_it_is(tmp_path: Path) -> None:
    """As each test has one (NPC_WORKPLACE): what came with NPC is read, what is found lies there."""
    anywhere = msgspec.structs.replace(FOUND, hosts=())
    own = Path.cwd() / "platforms/localhost" / PROGRAMS_FILE
    assert keep("localhost", anywhere, tmp_path).endswith(f", in {own}.")
    assert remembered("localhost") == (anywhere,) and own.is_file()
    planned = npc("plan", "accept").stdout
    assert "\nType here:\n" in planned and f" jube run {ROOT}/jube.yml --outpath runs " in planned


def test_any_machine_is_localhost_and_remembers_its_own_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "platforms/localhost"
    folder.mkdir(parents=True)
    (folder / PLATFORM_FILE).touch()
    monkeypatch.chdir(tmp_path)
    here = msgspec.structs.replace(FOUND, program="here", hosts=(os.uname().nodename,))
    for each in (FOUND, here, msgspec.structs.replace(FOUND, program="anywhere", hosts=())):
        remember(folder, each)
    assert [each.program for each in remembered("localhost")] == ["here", "anywhere"]


def test_a_file_that_is_none_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / PROGRAMS_FILE
    for text in ("[[setting]\n", '[[setting]]\nprogram = "a"\n', '[[setting]]\nprogram = 1\nsetting = ""\n'):
        path.write_text(text)
        with pytest.raises(InvalidFile, match=r"programs\.toml"):
            remember(tmp_path, FOUND)
        assert path.read_text() == text


def test_a_folder_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        remember(tmp_path / "none", FOUND)
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=20, deadline=None)
@given(st.text(max_size=20), st.text(max_size=20), st.dictionaries(st.text(max_size=5), st.text(max_size=5)))
def test_any_text_comes_back_or_is_refused(
    tmp_path_factory: pytest.TempPathFactory, program: str, setting: str, variables: dict[str, str]
) -> None:
    folder = tmp_path_factory.mktemp("platform")
    found = BestSetting(
        program=program or "p", setting=setting or "s", variables=variables, by="npc program study"
    )
    try:
        remember(folder, found)
    except InvalidFile:
        assert read_programs(folder) == ()
    else:
        assert read_programs(folder) == (found,)
