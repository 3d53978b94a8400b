"""Runs of other people's JUBE specifications: their jobs write no launches, so what they printed is read.

A file counts where the parsers recognise a supported tool in it. What has nothing of the kind, such as a step
that compiles, is no failure: it is not measured by NPC, and `jube result` knows what its authors made of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Final

from npc import parsers
from npc.files import leads_out, parse_xml, read_bytes, read_text
from npc.jobs.workpackages import CONFIGURATION, Workpackage
from npc.parsers.commands.recognise import parts_of
from npc.records.build import Origin, records_of
from npc.records.launch import Launch
from npc.records.record import Record
from npc.records.series import Series

#: A parameter of `benchmarks/npc.xml`: NPC's own steps have it, and their jobs write launches.
_OURS: Final = "npc_bin"
#: Longer values are texts, and tell no series apart.
_LONGEST: Final = 60


def is_foreign(workpackage: Workpackage) -> bool:
    """Whether somebody else's specification made it."""
    return _OURS not in workpackage.parameters


def records_of_foreign(run: Path, workpackages: Sequence[Workpackage], origin: Origin) -> list[Record]:
    """What the workpackages of somebody else that are done have printed, as far as a parser reads it.

    Launches that repeat each other are numbered through the run. What differs between the workpackages of a
    step (``jube_threads``) tells their series apart. Hosts are not known.
    """
    analysed = _analysed(run)
    samples: Counter[tuple[Series, str, int | None]] = Counter()
    records = []
    for workpackage in workpackages:
        params = _differing(workpackage, workpackages)
        job = workpackage.batch_job()
        of_job = origin._replace(job=str(job.number) if job else "")
        for path in _outputs(workpackage, analysed.get(workpackage.step, [])):
            for record in _records_of_file(path, run, of_job, params, workpackage.asked_nodes()):
                key = (Series.of(record), record.metric, record.size)
                records.append(replace(record, sample=samples[key]))
                samples[key] += 1
    return records


def unread(workpackages: Sequence[Workpackage], records: Sequence[Record]) -> Counter[str]:
    """Step → how many done workpackages of somebody else's step have nothing that was read."""
    read = {record.raw.partition("/")[0] for record in records}
    return Counter(
        workpackage.step
        for workpackage in workpackages
        if workpackage.done and is_foreign(workpackage) and workpackage.folder.name not in read
    )


def _records_of_file(
    path: Path, run: Path, origin: Origin, params: Mapping[str, str], nodes: int
) -> Iterator[Record]:
    moment = datetime.fromtimestamp(path.stat().st_mtime, timezone.utc).isoformat(timespec="milliseconds")
    raw = path.relative_to(run).as_posix()
    try:
        text = read_text(path, "replace")
    except OSError:  # larger than any tool's output
        return
    for number, part in enumerate(parts_of(text)):
        readings = parsers.parse(*part)
        launch = Launch(
            id=number, argv=tuple(part.argv) or (part.tool,), started=moment, seconds=0.0, exit=0,
            params=params, nodes=nodes, raw=raw,
        )  # fmt: skip
        if readings:
            yield from records_of(launch, readings, origin._replace(benchmark=part.tool), raw)


def _differing(workpackage: Workpackage, workpackages: Sequence[Workpackage]) -> dict[str, str]:
    """Its parameters that other workpackages of its step have with other values, but for those that hold its
    number (``$jube_wp_padid``)."""
    others = [other.parameters for other in workpackages if other.step == workpackage.step]
    return {
        f"jube_{name}": value
        for name, value in workpackage.parameters.items()
        if name != "nodes"
        and 0 < len(value) <= _LONGEST
        and "\n" not in value
        and f"{workpackage.number:06d}" not in value
        and any(other.get(name) != value for other in others)
    }


def _analysed(run: Path) -> dict[str, list[str]]:
    """Step → the files that JUBE's analysers read of it, with ``$parameters`` and ``*``."""
    try:
        root = parse_xml(read_bytes(run / CONFIGURATION))
    except (OSError, ValueError):
        return {}
    files: dict[str, list[str]] = {}
    for analyse in root.iter("analyse"):
        for file in analyse.iter("file"):
            files.setdefault(analyse.get("step", ""), []).extend((file.text or "").split(","))
    return files


def _outputs(workpackage: Workpackage, analysed: Sequence[str]) -> list[Path]:
    """The files of a workpackage in which a tool may have printed, each once."""
    work = workpackage.folder / "work"
    names = [*analysed, *(do.stdout for do in workpackage.dos)]
    patterns = [workpackage.evaluate(name.strip()) for name in names]
    paths = [path for pattern in patterns if pattern for path in _below(work, pattern)]
    paths += [path for path in workpackage.outputs() if path.name != "stderr"]
    return [path for path in dict.fromkeys(paths) if path.is_file() and not leads_out(path, work)]


def _below(folder: Path, pattern: str) -> list[Path]:
    try:
        return sorted(folder.glob(pattern))
    except (ValueError, NotImplementedError, IndexError):  # no pattern, or one that leads elsewhere
        return []
