"""JUBE's state of a run, ``workpackages.xml``, kept whole.

JUBE writes it in place after every workpackage. One that is killed meanwhile, or whose disk is full, leaves a
part of it or nothing: the run cannot go on then, and nobody knows its jobs any more. So whoever runs JUBE
keeps a copy of the last whole state beside it, and puts it back.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

from npc.files import read_bytes, replacing
from npc.jobs.scheduler import SchedulerUnavailable
from npc.jobs.workpackages import Workpackage, read_steps, read_workpackages
from npc.records.run import WORKPACKAGES

#: In a run's folder: the last whole state.
COPY: Final = ".workpackages.xml"
#: In a run's folder: what jobs wrote of which JUBE's state knows no more.
LOST: Final = "lost"
_END: Final = b"</workpackages>"
_FOLDER: Final = re.compile(r"(\d{6})_(.+)")


def save(run: Path) -> bool:
    """Copy the state if it is whole and was written since; whether there is a copy. Where there is no room
    for it the older one stays."""
    file, copy = run / WORKPACKAGES, run / COPY
    with contextlib.suppress(OSError):
        written = file.stat().st_mtime_ns
        if not copy.exists() or copy.stat().st_mtime_ns != written:
            data = read_bytes(file)
            if data.rstrip().endswith(_END):
                with replacing(copy) as partial:
                    with partial.open("xb") as stream:
                        stream.write(data)
                    os.utime(partial, ns=(written, written))
    return copy.exists()


def restore(run: Path) -> list[str]:
    """Put the copy in place of a state that is not whole; sentences about the jobs that this one knows not.

    No JUBE may be at work on the run. A job of which the copy knows nothing is cancelled and what it wrote is
    set aside: JUBE submits it again, perhaps under another number. Without a copy the jobs are named.
    """
    file = run / WORKPACKAGES
    with contextlib.suppress(OSError):
        if read_bytes(file).rstrip().endswith(_END):
            return []
    try:
        (run / COPY).replace(file)
    except FileNotFoundError:
        return [
            f"{workpackage.folder.name}: its job {job.number} may still run, and JUBE's state is lost"
            for workpackage in _unknown(run, [])
            if (job := workpackage.batch_job())
        ]
    sentences = []
    for workpackage in _unknown(run, read_workpackages(run)):
        name = workpackage.folder.name
        (run / LOST).mkdir(exist_ok=True)
        aside = run / LOST / f"{name}.{os.urandom(4).hex()}"
        sentences.append(f"{name}: JUBE's state of it is lost{cancelled(workpackage)}; its files: {aside}")
        workpackage.folder.replace(aside)
    return sentences


def cancelled(workpackage: Workpackage) -> str:
    """Cancel its job, as the end of a sentence that says what became of that; empty where it has none."""
    if (job := workpackage.batch_job()) is None:
        return ""
    try:
        job.scheduler.cancel(job.number, job.cluster)
    except (SchedulerUnavailable, FileNotFoundError) as words:
        return f"; job {job.number} could not be cancelled: {words}"
    return f"; job {job.number} was cancelled"


def _unknown(run: Path, workpackages: list[Workpackage]) -> Iterator[Workpackage]:
    """The folders of workpackages that are none of these, as far as they tell of themselves."""
    steps = read_steps(run)
    folders = {workpackage.folder.name for workpackage in workpackages}
    for folder in sorted(run.glob("[0-9]" * 6 + "_*")):
        match = _FOLDER.fullmatch(folder.name)
        if folder.name in folders or match is None or not folder.is_dir():
            continue
        # a step may give its folders a suffix
        step = max((name for name in steps if f"{match[2]}_".startswith(f"{name}_")), key=len, default="")
        alike = next((known for known in workpackages if known.step == step), None)
        own = Workpackage(folder, int(match[1]), step, {}, steps.get(step, ()))
        yield replace(own, parameters=alike.parameters) if alike else own
