"""The machine and its software, and how every number came to be: each launch with command and raw file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from npc.document import below
from npc.page.blocks import Block, Cell, Preformatted, Table, Text, count, plural, several
from npc.records.launch import Launch
from npc.records.units import format_duration, format_quantity
from report.runs import Report, Run
from report.sections import runs_of

TITLE = "Environment and provenance"
#: Launches beyond so many are left to ``launches.jsonl``.
_MOST_LAUNCHES = 2000


def build(report: Report) -> Iterator[Block]:
    """The facts side by side, the whole of each ``environment.json``, and the launches."""
    known = [run for run in runs_of(report) if run.environment]
    if known:
        yield _facts(report)
    else:
        yield Text(
            "No environment.json lies with these records: what machine made them is not known.", "note"
        )
    for run in known:
        text = json.dumps(run.environment, indent=1, ensure_ascii=False)
        yield Preformatted(f"environment.json of {run.label}", text)
    for run in report.runs:
        if run.launches:
            yield _launches(report, run)


def _facts(report: Report) -> Table:
    """A row a fact, a column a run; what differs is marked."""
    columns = [dict(_of_run(run)) for run in report.runs]
    names = list(dict.fromkeys(name for column in columns for name in column))
    rows = []
    for name in names:
        values = [column.get(name, "") for column in columns]
        kind = "differs" if len(set(values)) > 1 else ""
        rows.append((Cell(name), *(Cell(value, kind=kind) for value in values)))
    return Table("Where it was measured", ("what", *(run.label for run in report.runs)), tuple(rows))


def _of_run(run: Run) -> Iterator[tuple[str, str]]:
    """(fact, what it was) of a run."""
    yield "folder", str(run.folder)
    yield "measured", run.days
    yield "hosts", several(run.hosts, 8)
    yield from _software(run.environment)
    yield from _hardware(run.environment)


def of_machine(seen: Mapping[str, Any]) -> dict[str, str]:
    """What an ``environment.json`` says that two runs may be compared by; nothing of the run itself."""
    if not seen:
        return {}
    whole = {**dict(_software(seen)), **dict(_hardware(seen))}
    # each tool by itself; that of mpirun stands with MPI
    versions = {name: _text(tool, "version") for name, tool in _items(seen, "tools") if name != "mpirun"}
    facts = {what: text for what, text in whole.items() if what not in ("command", "tools", "Slurm job")}
    return {what: text for what, text in (facts | versions).items() if text}


def _software(seen: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "command", _text(seen, "command")
    changed = "and changes" if below(seen, "npc", "dirty") else ""
    yield "NPC", _words(_text(seen, "npc", "version"), _text(seen, "npc", "commit")[:10], changed)
    kernel = _words(_text(seen, "kernel", "name"), _text(seen, "kernel", "release"))
    yield "operating system", _words(_text(seen, "os", "name"), kernel, between=", ")
    yield "MPI", _words(_text(seen, "mpi", "launcher"), _text(seen, "mpi", "library"), between="; ")
    yield "Python", _text(seen, "python", "version")
    tools = [_words(name, _text(tool, "version")) for name, tool in _items(seen, "tools") if tool]
    yield "tools", ", ".join(tools)
    yield "Slurm job", _text(seen, "slurm", "SLURM_JOB_ID") or "none"


def _hardware(seen: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    inside = (_text(seen, "virtualisation", name) for name in ("hypervisor", "container"))
    yield "virtual machine, container", _words(*inside, between=", ") or "none seen"
    counts = (
        plural(number, name)
        for name in ("socket", "core", "thread")
        if isinstance(number := below(seen, "cpu", f"{name}s"), int)
    )
    yield "processor", _words(_text(seen, "cpu", "model"), *counts, between=", ")
    yield "caches", ", ".join(map(_cache, _list(seen, "cpu", "caches")))
    governors = (f"{name} ({number})" for name, number in _items(seen, "cpu", "frequency", "governors"))
    yield "governor", ", ".join(governors) or "not told"
    yield "memory", _bytes(below(seen, "memory", "total_bytes"))
    transparent = _text(seen, "memory", "transparent_huge_pages")
    yield "huge pages", f"{_text(seen, 'memory', 'huge_pages')} reserved, transparent: {transparent}"
    yield "interfaces", "; ".join(map(_interface, _list(seen, "interfaces")))
    ports = [
        _words(*(_text(port, key) for key in ("device", "state", "rate"))) for port in _list(seen, "rdma")
    ]
    yield "RDMA", "; ".join(ports) or "none"


def _cache(cache: Mapping[str, Any]) -> str:
    name = f"L{_text(cache, 'level')} {_text(cache, 'type')}"
    return f"{name} {_text(cache, 'instances')} × {_bytes(below(cache, 'size_bytes'))}"


def _interface(interface: Mapping[str, Any]) -> str:
    speed = below(interface, "speed_bit_s")
    rate = format_quantity(speed, "bit/s", 3) if isinstance(speed, int | float) else ""
    facts = [_text(interface, "type"), _text(interface, "state"), rate, f"MTU {_text(interface, 'mtu')}"]
    return f"{_text(interface, 'name')} ({_words(*facts, between=', ')})"


def _text(seen: Any, *keys: str) -> str:
    found = below(seen, *keys)
    return "" if found is None else str(found)


def _list(seen: Any, *keys: str) -> list[Mapping[str, Any]]:
    found = below(seen, *keys)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _items(seen: Any, *keys: str) -> Collection[tuple[str, Any]]:
    found = below(seen, *keys)
    return found.items() if isinstance(found, Mapping) else ()


def _words(*words: str, between: str = " ") -> str:
    return between.join(filter(None, words))


def _bytes(number: Any) -> str:
    return format_quantity(number, "B", 3) if isinstance(number, int | float) else "not told"


def _launches(report: Report, run: Run) -> Table:
    """Every launch: what was started, where, how long, how it ended, and what it printed."""
    rows = []
    first: dict[str, str] = {}
    for record in run.records:
        first.setdefault(record.raw, run.idents[id(record)])
    for launch in run.launches[:_MOST_LAUNCHES]:
        ended = launch.status if launch.exit in (0, None) else f"{launch.status} (exit {launch.exit})"
        rows.append(
            (
                Cell(_stamp(launch), (first[launch.raw],) if launch.raw in first else (), kind="stamp"),
                Cell(launch.raw, href=report.href(run, launch.raw), sort=launch.raw),
                Cell(shlex.join(launch.argv), kind="command"),
                count(launch.sample),
                Cell(format_duration(launch.seconds), sort=launch.seconds, kind="number"),
                Cell(ended, kind="" if launch.status == "ok" else "bad"),
                Cell(", ".join(dict.fromkeys(launch.hosts))),
            )
        )
    left = len(run.launches) - len(rows)
    return Table(
        f"Launches of {run.label}: every process that measured, with its raw output",
        ("started (UTC)", "raw output", "command", "sample", "took", "ended", "hosts"),
        tuple(rows),
        folded=True,
        filtered=True,
        note=f"{left} more are in launches.jsonl." if left else "",
    )


def _stamp(launch: Launch) -> str:
    return launch.started[:19].replace("T", " ")
