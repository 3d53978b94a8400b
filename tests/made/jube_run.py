"""Runs of JUBE made by hand: workpackages, and launches with whatever outputs in them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from npc.records.launch import Launch, LaunchLog

#: A part of workpackages.xml as JUBE 2.5.1 writes it: parameters in modes text, shell and python.
PARAMETERS = """
      <parameter name="submit" type="string" separator="," duplicate="none" mode="text">
        <value>bash</value>
      </parameter>
      <parameter name="tasks" type="int" separator="," duplicate="none" mode="python">
        <value>$nodes * $taskspernode</value>
        <selection>2</selection>
      </parameter>
      <parameter name="npc_bin" type="string" separator="," duplicate="none" mode="shell">
        <value>printf /opt/npc/bin</value>
        <selection>/opt/npc/bin</selection>
      </parameter>
      <parameter name="preprocess" type="string" separator="," duplicate="none" mode="text">
        <value/>
      </parameter>
"""


class Run:
    """A JUBE run made by hand: workpackages with whatever in them."""

    def __init__(self, folder: Path, platform: str = "cluster") -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._platform = platform
        self._steps: list[str] = []

    def add(self, step: str, *files: str, started: bool = True) -> Path:
        """The next workpackage; `files` are made empty in its folder. Returns its work folder."""
        number = len(self._steps)
        self._steps.append(step)
        work = self.folder / f"{number:06d}_{step}/work"
        if started:
            work.mkdir(parents=True)
            for name in files:
                (work.parent / name).write_text("")
        named = (
            f'<parameter name="npc_platform_name" mode="text"><value>{self._platform}</value></parameter>'
            if self._platform
            else ""
        )
        workpackages = "".join(
            f'<workpackage id="{place}"><step iteration="0" cycle="0">{name}</step>'
            f"<parameterset>{PARAMETERS}{named}</parameterset></workpackage>"
            for place, name in enumerate(self._steps)
        )
        (self.folder / "workpackages.xml").write_text(
            f'<?xml version="1.0" encoding="UTF-8"?>\n<workpackages>{workpackages}</workpackages>\n'
        )
        return work


def launch(number: int = 0, **fields: Any) -> Launch:
    given = {
        "argv": ("./stream",),
        "started": "2026-11-21T08:00:00.000+00:00",
        "seconds": 1.0,
        "exit": 0,
        "hosts": ("n1",),
        "raw": f"raw/{number:04d}.out",
        "sample": number,
        **fields,
    }
    return Launch(id=number, **given)


def write_launches(
    folder: Path, *made: tuple[Launch, str], tool: str = "stream", planned: int | None = None
) -> Path:
    """A folder of launches with their raw outputs."""
    log = LaunchLog(folder, tool, len(made) if planned is None else planned)
    for each, text in made:
        (folder / each.raw).write_text(text)
        log.append(each)
    log.close()
    return folder
