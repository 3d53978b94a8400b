"""Every command on folders in which one file is damaged, is a pipe, or is not there: an answer or a line that
says what is wrong, and an exit code; and with a stdout and stderr that take nothing.

Which commands read a file shows when it is taken away: what they say is another thing then.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests.lab.alone import Alone, EndedAlone, alone
from tests.lab.every_command import reading
from tests.made import foreign
from tests.made.damaged import damaged
from tests.made.run_folder import everything, make_history, make_pairs, make_run

pytestmark = pytest.mark.slow
#: Damages of each file, for each command that reads it.
CASES: Final = int(os.environ.get("NPC_DAMAGES", "2"))
#: Folders → (what makes one, what of it a command is given).
FOLDERS: Final[dict[str, tuple[Callable[[Path], object], str]]] = {
    "run": (lambda folder: make_run(folder, everything()[:40]), ""),
    "pairs": (make_pairs, ""),
    "JUBE": (foreign.a_jube_run, ""),
    "observation": (foreign.an_observation, ""),
    "study": (foreign.a_study, ""),
    "fits": (foreign.fits, "fit.json"),
    "history": (lambda folder: make_history(folder, nights=12), ""),
}


@pytest.fixture(scope="module")
def nothing_starts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    with alone(tmp_path_factory.mktemp("alone")) as server:
        yield server


class Damaging:
    """A folder, made anew for each command line."""

    def __init__(self, server: Alone, name: str, place: Path) -> None:
        make, given = FOLDERS[name]
        self.good, self.folder = place / "good", place / "folder"
        make(self.good)
        self._server = server
        self.answers = dict[tuple[str, ...], EndedAlone]()
        for line in map(tuple, reading(str(self.folder / given))):
            answer = self.run(line, lambda: None)
            if answer != self.run(line, partial(shutil.rmtree, self.folder)):  # it reads what is there
                self.answers[line] = answer

    def files(self) -> Iterator[str]:
        """One of each kind in each folder: as raw files are all alike."""
        kinds = dict[tuple[Path, str], Path]()
        for path in sorted(self.good.rglob("*")):
            if path.is_file() and not path.name.startswith("."):
                kinds.setdefault((path.parent, path.suffix), path)
                if path.parent == self.good:
                    kinds[path, ""] = path
        yield from (str(path.relative_to(self.good)) for path in dict.fromkeys(kinds.values()))

    def readers(self, file: str) -> Iterator[tuple[str, ...]]:
        """Command lines of which the answer is another one without this file."""
        for line, answer in self.answers.items():
            if self.run(line, (self.folder / file).unlink) != answer:
                yield line

    def run(self, line: tuple[str, ...], damage: Callable[[], object], streams: str = "") -> EndedAlone:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.good, self.folder)
        damage()
        return self._server.run(line, streams)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_command_ends_in_a_line_whatever_a_file_holds(
    name: str, nothing_starts: Alone, tmp_path: Path
) -> None:
    damaging = Damaging(nothing_starts, name, tmp_path)
    faults = {line: told.fault() for line, told in damaging.answers.items()}
    for file in damaging.files():
        chance, path = random.Random(f"{name} {file}"), damaging.folder / file
        good = (damaging.good / file).read_bytes()
        damages = [damaged(good, path.suffix, number, chance) for number in range(CASES)] if good else []
        for line in damaging.readers(file):
            faults[(*line, f"({file} a pipe)")] = damaging.run(line, partial(put_pipe, path)).fault()
            for number, damage in enumerate(damages):
                kept = tmp_path / f"damaged-{len(faults)}"
                kept.write_bytes(damage)
                fault = damaging.run(line, partial(path.write_bytes, damage)).fault()
                faults[(*line, f"({file} as {kept}, damage {number})")] = fault
    assert not [f"npc {' '.join(line)}: {fault}" for line, fault in faults.items() if fault]


def put_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


#: What is done to stdout and stderr → whether the exit code is still the same.
STREAMS: Final = {
    "1=closed": True,
    "2=closed": True,
    "1=closed 2=closed": True,
    "1=full": False,
    "2=full": False,
    "1=full 2=full": False,
    "1=gone": False,
}


@pytest.mark.parametrize("name", ["run", "fits", "history"])
def test_a_command_ends_with_its_exit_code_wherever_its_output_goes(
    name: str, nothing_starts: Alone, tmp_path: Path
) -> None:
    damaging = Damaging(nothing_starts, name, tmp_path)
    faults = []
    for line, usual in damaging.answers.items():
        for streams, same in STREAMS.items():
            ended = damaging.run(line, lambda: None, streams)
            known = {usual.code} if same else {usual.code, 1}
            if ended.code not in known or "Traceback" in ended.err or "Exception ignored" in ended.err:
                faults.append(
                    f"npc {' '.join(line)} {streams}: {usual.code} → {ended.code}: {ended.err[-300:]}"
                )
    assert not faults, "\n".join(faults)
