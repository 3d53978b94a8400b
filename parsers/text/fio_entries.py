"""fio's text and terse lines as the entries that its JSON has, so that one reader does for all three.

- The text of 3.x has KiB of 2^10 and kB of 10^3 bytes, each rate in both; that of 2.x has ``KB`` of 2^10
  bytes (of 10^3 with ``--kb_base=1000``, which only operations × block tell).
- Latencies are in the unit that each line names: nsec, usec or msec.
- A job counts when its line ``issued`` and the ``Run status`` of its group are there: before that the text
  was cut. That status is the sum of the group and must agree with its jobs.
- Terse lines (versions 2 to 5) have KiB/s and µs. Neither the block nor the kind of access is in them.

Source: fio's stat.c and lib/num2str.c.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from npc.parsers.text.lines import NUMBER, WHOLE, sections
from npc.records.units import format_quantity
from npc.validity.arithmetic import contradiction, last_digit

#: What an entry has beside those of the JSON: why its numbers cannot be believed.
CONTRADICTION: Final = "contradiction"
REPEATED: Final = "several terse lines of one job: clones without group_reporting, or several runs"
CUT: Final = "cut off: the text ends before the run status of its group"
NO_HEADING: Final = "its heading 'NAME: (g=0): rw=…' is missing; --command can tell what was run"

_QUANTITY: Final = rf"{NUMBER} ?(?:[KMGTPEk]i?)?(?:B|bit)"
_BEGIN: Final = re.compile(
    r"\n[ \t]*(?:<[^>\n]{1,200}> )?(?:"
    r"(?P<defined>[^\n]{0,200}?): \(g=(?P<defined_group>\d{1,9})\): rw=(?P<rw>\w+),"
    r" bs=(?P<blocks>[^\n]{1,200}?), ioengine=(?P<ioengine>[^,\s]+)(?:, iodepth=(?P<iodepth>\d{1,9}))?"
    r"|fio-(?P<version>\d[\w.-]{0,40})"
    r"|(?P<job>[^\n]{0,200}?): \(groupid=(?P<group>\d{1,9}), jobs=(?P<jobs>\d{1,9})\):"
    r" err= *(?P<error>\d{1,9})[ :][^\n]*"
    r"|Run status group (?P<status>\d{1,9}) \(all jobs\):"
    r")[ \t]*(?=\n)"
)
_NEW: Final = re.compile(
    rf"\n[ \t]*(?P<name>read|write|trim|mixed) *: IOPS=(?P<iops>{NUMBER}[kMG]?), BW=(?P<rate>{_QUANTITY})/s"
    rf" \((?P<again>{_QUANTITY})/s\)\((?P<moved>{_QUANTITY})/(?P<runtime>{WHOLE})msec\)[^\n]*(?=\n)"
)
_OLD: Final = re.compile(
    rf"\n[ \t]*(?P<name>read|write|trim|mixed) *: io=(?P<moved>{_QUANTITY}), bw=(?P<rate>{_QUANTITY})/s,"
    rf" iops=(?P<iops>{NUMBER}[KMG]?) ?, runt= *(?P<runtime>{WHOLE})msec[ \t]*(?=\n)"
)
#: The status of a group: direction, rate, and since 2.99 the rate again in the other unit.
_SUM_NEW: Final = re.compile(
    rf"\n[ \t]*(READ|WRITE|TRIM|MIXED): bw=({_QUANTITY})/s \(({_QUANTITY})/s\),"
    rf"[^\n]* run={WHOLE}-{WHOLE}msec[ \t]*(?=\n)"
)
_SUM_OLD: Final = re.compile(
    rf"\n[ \t]*(READ|WRITE|TRIM|MIXED): io={_QUANTITY}, aggrb=({_QUANTITY})/s,()"
    rf"[^\n]* maxt= *{WHOLE}msec[ \t]*(?=\n)"
)
_ISSUED: Final = re.compile(
    rf"\n[ \t]*issued[ a-z]*: total=(?:r=)?({WHOLE})[,/](?:w=)?({WHOLE})[,/](?:d=)?({WHOLE}),?"
    r"[^\n]* short=[^\n]*(?=\n)"
)
_LATENCY: Final = re.compile(
    rf"\n[ \t]*lat \(([num]sec)\) ?: min= *[^,\n]+, max= *[^,\n]+,"
    rf" avg= *({NUMBER}), stdev= *{NUMBER}[ \t]*(?=\n)"
)
_PERCENTILES: Final = re.compile(
    r"\n[ \t]*(clat|lat) percentiles \(([num]sec)\):((?:\n[ \t]*\|[^\n]*)+)(?=\n)"
)
_PERCENTILE: Final = re.compile(rf"({NUMBER})th=\[ *({WHOLE})\]")
#: The smallest and the largest block of a direction.
_BLOCK: Final = re.compile(rf"({NUMBER})([KMG]?)(?:i?B)?-({NUMBER})([KMG]?)(?:i?B)?(?=[/,]|$)")
_TERSE: Final = re.compile(r"\n(?:\*\*)?((?:[345];fio-|2;)[^\n]{200,20000})(?=\n)")
_NANOSECONDS: Final = {"nsec": 1.0, "usec": 1e3, "msec": 1e6}
#: Rounding of sums of rounded numbers, and of the fractions that 2.x writes, of 1024 for of 1000.
_TOLERANCE: Final = 0.02
#: Numbers of a direction in a terse line, and of those the percentiles.
_TERSE_FIELDS: Final = 41
_TERSE_PERCENTILES: Final = slice(12, 32)


@dataclass
class FioRun:
    """A run of fio by its text or its terse lines."""

    #: As fio prints it; empty where the text does not tell.
    version: str = ""
    #: (name, group) → options of a job as the text tells them: ``rw``, ``bs``, ``ioengine``, ``iodepth``.
    options: dict[tuple[str, int], dict[str, str]] = field(default_factory=dict)
    #: Its jobs, as the JSON has them.
    entries: list[dict[str, Any]] = field(default_factory=list)
    #: The groups whose status is there.
    finished: set[int] = field(default_factory=set)


def runs_of_text(text: str) -> Iterator[FioRun]:
    """Every run whose text has a job's results."""
    run = FioRun()
    for begin, lines in sections(_BEGIN, text):
        repeated = begin["job"] is not None and int(begin["group"]) in run.finished
        if run.entries and (repeated or begin["defined"] is not None or begin["version"]):
            yield run
            run = FioRun()
        if begin["defined"] is not None:
            run.options[begin["defined"], int(begin["defined_group"])] = {
                "rw": begin["rw"],
                "bs": _blocks(begin["blocks"]),
                "ioengine": begin["ioengine"],
                "iodepth": begin["iodepth"] or "1",
            }
        elif begin["version"]:
            run.version = begin["version"]
        elif begin["status"] is not None:
            _close(run, int(begin["status"]), lines)
        else:
            job = begin["job"], int(begin["group"])
            run.entries.append(_entry(begin, lines, run.options.get(job, {}).get("bs", "")))
    if run.entries:
        yield run


def _entry(begin: re.Match[str], lines: str, blocks: str) -> dict[str, Any]:
    """A job's results as the JSON has them; blocks: as `_blocks` gives them."""
    issued, old = _ISSUED.search(lines), bool(_OLD.search(lines))
    parts = list(sections(_OLD if old else _NEW, lines))
    entry: dict[str, Any] = {
        "jobname": begin["job"],
        "groupid": int(begin["group"]),
        "error": int(begin["error"]),
        "jobs": int(begin["jobs"]),
        "cut": not issued or not parts,
    }
    totals = dict(zip(("read", "write", "trim"), map(int, issued.groups()), strict=True)) if issued else {}
    names = [part["name"] for part, _ in parts]
    for part, below in parts:
        name, runtime = part["name"], int(part["runtime"])
        total = totals.get(name, sum(totals.values()))
        entry[name] = {
            "bw_bytes": _amount(part["rate"], old)[0],
            "io_bytes": _amount(part["moved"], old)[0],
            "runtime": runtime,
            "total_ios": total,
            "iops": 1e3 * total / runtime if runtime else 0.0,
            **_latencies(below),
        }
        block = dict(zip(("read", "write"), blocks.split(","), strict=False)).get(name, "")
        if names.count(name) > 1:
            entry.setdefault(CONTRADICTION, f"the {name} line stands there twice: of two runs")
        if wrong := _disagreement(part, old, total, int(block or 0), entry["jobs"]):
            entry.setdefault(CONTRADICTION, wrong)
    return entry


def _disagreement(part: re.Match[str], old: bool, total: int, block: int, jobs: int) -> str:
    """What is wrong with a direction's line; empty if its numbers agree, with the operations, too.

    block: bytes of one, 0 where it is not known.
    """
    (rate, step), (moved, moved_step) = _amount(part["rate"], old), _amount(part["moved"], old)
    iops, iops_step = _amount(part["iops"], False)
    seconds = int(part["runtime"]) / 1e3
    if not old:
        again, other_step = _amount(part["again"], False)
        if abs(rate - again) > step + other_step:
            return f"{part['rate']}/s and {part['again']}/s are printed of one rate"
    if wrong := contradiction(rate, moved, seconds, 2 * step + moved_step / max(seconds, 1e-3), 1e-3):
        return wrong
    if seconds and abs(total / seconds - iops) > 2 * iops_step + _TOLERANCE * iops:
        return f"{part['iops']} operations a second are printed, but {total} in {seconds:g} s"
    if block and abs(block * total - moved) > _TOLERANCE * moved + moved_step + block * jobs:
        blocks = f"{total} blocks of {block} B are {format_quantity(block * total, 'B')}"
        return f"{blocks}, and {part['moved']} is printed"
    return ""


def _latencies(lines: str) -> dict[str, Any]:
    """Means and percentiles below a direction, in ns."""
    times: dict[str, dict[str, Any]] = {}
    for unit, mean in _LATENCY.findall(lines):
        times.setdefault("lat_ns", {}).setdefault("mean", float(mean) * _NANOSECONDS[unit])
    for name, unit, rows in _PERCENTILES.findall(lines):
        times.setdefault(f"{name}_ns", {}).setdefault(
            "percentile", {point: int(time) * _NANOSECONDS[unit] for point, time in _PERCENTILE.findall(rows)}
        )
    return times


def _close(run: FioRun, group: int, lines: str) -> None:
    """Hold the status of a group against its jobs; a status without a direction of theirs was cut."""
    jobs = [entry for entry in run.entries if entry["groupid"] == group]
    sums = {row[1].lower(): row for form in (_SUM_NEW, _SUM_OLD) for row in form.finditer(lines)}
    done = {name for entry in jobs for name in ("read", "write", "trim", "mixed") if name in entry}
    if not done <= set(sums):
        return
    run.finished.add(group)
    for name in done:
        parts = [entry[name] for entry in jobs if name in entry]
        seconds = max(part["runtime"] for part in parts) / 1e3
        rate, step = _amount(sums[name][2], not sums[name][3])
        moved = sum(part["io_bytes"] for part in parts)
        if abs(rate * seconds - moved) > _TOLERANCE * (moved + rate * seconds) + step * seconds:
            sum_text = f"{format_quantity(moved, 'B')} were moved in {seconds:g} s"
            for entry in jobs:
                entry.setdefault(CONTRADICTION, f"the group's status is {sums[name][2]}/s, but {sum_text}")


def _amount(printed: str, binary: bool) -> tuple[float, float]:
    """Bytes (or operations), and one step of the last digit; binary: K is 1024 without an i, too."""
    match = re.fullmatch(rf"({NUMBER}) ?([A-Za-z]?)(i?)(B|bit)?", printed)
    if not match:
        return 0.0, 0.0
    power = " KMGTPE".index(match[2].upper()) if match[2] in ("k", *"KMGTPE") else 0
    unit = (1024.0 if match[3] or binary else 1000.0) ** power / (8 if match[4] == "bit" else 1)
    return float(match[1]) * unit, last_digit(match[1]) * unit


def _blocks(printed: str) -> str:
    """``READ,WRITE`` in bytes where every block of a direction has one size; else empty."""
    sizes = [
        _amount(smallest + unit, True)[0] if (smallest, unit) == (largest, other) else 0
        for smallest, unit, largest, other in _BLOCK.findall(printed)
    ]
    return f"{sizes[0]:.0f},{sizes[1]:.0f}" if len(sizes) >= 2 and all(sizes[:2]) else ""


def runs_of_terse(text: str) -> Iterator[FioRun]:
    """Every terse line that is whole, as a run with an entry; ``repeated`` where another is of its job."""
    runs = list(_terse_lines(text))
    names = [(run.entries[0]["jobname"], run.entries[0]["groupid"]) for run in runs]
    for run, name in zip(runs, names, strict=True):
        run.entries[0]["repeated"] = names.count(name) > 1
    yield from {name: run for run, name in zip(runs, names, strict=True)}.values()


def _terse_lines(text: str) -> Iterator[FioRun]:
    for match in _TERSE.finditer(text):
        cells = match[1].split(";")
        head = 1 if cells[0] == "2" else 2
        fields = _TERSE_FIELDS + 6 if cells[0] == "5" else _TERSE_FIELDS
        first = head + 3
        if len(cells) < first + 2 * fields + 5:
            continue
        entry: dict[str, Any] = {"jobname": cells[head], "groupid": _count(cells[head + 1])}
        entry["error"] = _count(cells[head + 2])
        for place, name in enumerate(("read", "write")):
            part = cells[first + place * fields : first + (place + 1) * fields]
            table = dict(point.split("%=", 1) for point in part[_TERSE_PERCENTILES] if "%=" in point)
            numbers = dict(zip(("io_bytes", "bw", "iops", "runtime"), map(_count, part), strict=False))
            clat = {
                "mean": _mean(part[10]),
                "percentile": {point: _count(time) for point, time in table.items()},
            }
            entry[name] = {**numbers, "clat": clat, "lat": {"mean": _mean(part[34])}}
        yield FioRun(cells[1].removeprefix("fio-") if head == 2 else "", entries=[entry])


def _count(cell: str) -> int | None:
    return int(cell) if re.fullmatch(WHOLE, cell) else None


def _mean(cell: str) -> float | None:
    return float(cell) if re.fullmatch(NUMBER, cell) else None
