"""Every command on folders in which one file is damaged, is a pipe, or is not there: an answer or a line that
says what is wrong, and an exit code; and with a stdout and stderr that take nothing.

Which commands read a file shows when it is taken away: what they say is another thing then.
"""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.lab.alone import Alone, Ended, alone
from tests.lab.every_command import reading
from tests.made import foreign
from tests.made.damaged import damaged
from tests.made.run_folder import everything, make_history, make_pairs, make_run

pytestmark = pytest.mark.slow
#: Damages of each file, for each command that reads it.
CASES: Final = int(os.environ.get("NPC_DAMAGES", "6"))
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
        self._lines = list(reading(str(self.folder / given)))
        self.answers = {tuple(line): self.run(line, lambda: None) for line in self._lines}

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
        for line in self._lines:
            if self.run(line, (self.folder / file).unlink) != self.answers[tuple(line)]:
                yield tuple(line)

    def run(self, line: list[str] | tuple[str, ...], damage: Callable[[], object]) -> Ended:
        shutil.rmtree(self.folder, ignore_errors=True)
        shutil.copytree(self.good, self.folder)
        damage()
        return self._server.run(line)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_command_ends_in_a_line_whatever_a_file_holds(
    name: str, nothing_starts: Alone, tmp_path: Path
) -> None:
    damaging = Damaging(nothing_starts, name, tmp_path)
    faults = [
        f"npc {' '.join(line)}: {fault}" for line, told in damaging.answers.items() if (fault := told.fault())
    ]
    for file in damaging.files():
        chance = random.Random(f"{name} {file}")
        path = damaging.folder / file
        good = (damaging.good / file).read_bytes()
        damages = [damaged(good, path.suffix, number, chance) for number in range(CASES)]
        readers = list(damaging.readers(file))

        def pipe(path: Path = path) -> None:
            path.unlink()
            os.mkfifo(path)

        for line in readers:
            if fault := damaging.run(line, pipe).fault():
                faults.append(f"npc {' '.join(line)}, {file} is a pipe: {fault}")
            for number, damage in enumerate(damages):
                if fault := damaging.run(
                    line, lambda damage=damage, path=path: path.write_bytes(damage)
                ).fault():
                    kept = tmp_path / f"damaged-{len(faults)}"
                    kept.write_bytes(damage)
                    faults.append(f"npc {' '.join(line)}, {file} is {kept} ({number}): {fault}")
    assert not faults, "\n".join(faults)
