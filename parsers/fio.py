"""fio (2.x and 3.x): bandwidth, operations a second and latency of each job, of its JSON and JSON+.

A job is known by its ``rw``, which is the `case`: ``read``, ``write``, ``randread``, ``randwrite``; of a mix
{"direction": "read"} and "write" tell its two parts. The engines that work on names instead of data
(``filecreate``, ``filestat``, ``filedelete``) are the case themselves: the bytes that fio counts there were
never moved. Size is the block (``bs``), which names have none of.

- Where jobs of a test have documents or entries of their own (clones without ``group_reporting``, and each
  node of NPC's fio.py), they are one: the sum of their bytes and operations over the longest run time, as
  fio's own groups have it. Their percentiles are those of all their bins together, so only JSON+
  has any then.
- Latency is that from submission to completion (``lat``), of engines without a submission the completion
  alone. Percentiles are of completion (``clat``), {"part": "completion"}, unless ``lat_percentiles`` was
  asked for. One is given where at least ten operations took longer.
- A bandwidth is exact in ``bw_bytes``, which 2.x lacks: there ``bw`` is in KiB/s, and times in µs, not ns.
- A rate of less than 5 ms is invalid, for fio counts whole milliseconds; of names it is passed over, as the
  latency of each tells the same.
- A job with an error has failed: what it did before that is no result.

What NPC's fio.py prints above each document (``# NPC fio: {…}``) says where the files lay. Source: fio's
HOWTO, section "Interpreting the output", and stat.c.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from npc.parsers.text.documents import number_below, object_of
from npc.parsers.text.documents import object_below as below
from npc.parsers.text.files import noted
from npc.parsers.text.lines import complete_lines
from npc.parsers.text.options import option, words_after
from npc.records.reading import OK, Reading, failed

#: The lines above a document that NPC's fio.py prints.
_ABOVE: Final = re.compile(r"\n# NPC fio(?P<missing> unavailable)?: (?P<head>\{[^\n]{1,4000}\})(?=\n)")
_ERROR: Final = re.compile(r"\n(fio: [^\n]+)(?=\n)")
_MISSING: Final = re.compile(r"\n(unavailable: [^\n]+)(?=\n)")
_VERSION: Final = re.compile(r"(?:fio-)?([0-9]{1,4}(?:\.[0-9]{1,6}){1,3}[\w.-]{0,40})")
_SIZE: Final = re.compile(r"([0-9]{1,15})([kmgt]?)(?:i?b)?", re.IGNORECASE)
_ENGINES: Final = frozenset({"filecreate", "filestat", "filedelete"})
_DIRECTIONS: Final = ("read", "write")
_MIXED: Final = frozenset({"rw", "readwrite", "randrw"})
_PERCENTILES: Final = (50.0, 99.0, 99.9)
#: Fewest operations that have to lie above a percentile.
_ABOVE_IT: Final = 10

#: A run time is in whole milliseconds: below this a rate is wrong by more than a tenth.
_SHORTEST_MS: Final = 5

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class _Job:
    """An entry of a document: its own and the global options, what stood above the document, the version."""

    entry: Entry
    options: Mapping[str, str]
    head: Entry
    version: str
    document: int

    @property
    def same(self) -> tuple[object, ...]:
        """What the entries of one test share: clones are of one document, nodes of one part."""
        names = self.entry.get("groupid"), self.entry.get("jobname")
        if "part" in self.head:  # nodes differ in what they could write in the time there was
            return "part", self.head["part"], *names
        return self.document, *names, tuple(sorted(self.options.items()))


PROGRAMS: Final = r"fio\.py"
MARKS: Final = (
    r'[ \t]*"fio version" ?:|\{ *"fio version"|# NPC fio(?: unavailable)?: |fio-[0-9]+\.[0-9]'
    r"|2(?:;[^;\n]*){3};[0-9.]+;|[345];fio-[0-9]|[^\n:]+: \(groupid=[0-9]+, jobs=[0-9]+\): err="
)
ROWS: Final = r" *(?:READ|WRITE|TRIM|read|write|trim) *: (?:IOPS=|bw=|io=)| *clat percentiles \("


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every job of every document; the failure of a run that has none."""
    text = complete_lines(text)
    groups: dict[tuple[object, ...], list[_Job]] = {}
    explained = False
    for job in _jobs(text):
        groups.setdefault(job.same, []).append(job)
    for above in _ABOVE.finditer(text):
        if above["missing"]:
            explained = True
            yield from _unavailable(object_of(above["head"]))
    for jobs in groups.values():
        yield from _test(jobs)
    missing, error = _MISSING.search(text), _ERROR.search(text)
    if missing and not groups and not explained:
        yield failed("fio", "bandwidth", missing[1])
    elif not groups and not explained and (error or argv):
        case = option(words_after(argv, "fio"), "--rw", "--readwrite") or "fio"
        yield failed(case, "bandwidth", error[1] if error else "no result in JSON was printed")


def _documents(text: str) -> Iterator[tuple[int, str]]:
    """Where each document begins, and it: its braces stand alone on their lines."""
    begin = text.find("\n{\n")
    while begin >= 0 and (end := text.find("\n}\n", begin + 2)) >= 0:
        yield begin, text[begin : end + 2]
        begin = text.find("\n{\n", end + 2)


def _jobs(text: str) -> Iterator[_Job]:
    above = list(_ABOVE.finditer(text))
    for number, (begin, text_of_one) in enumerate(_documents(text)):
        document = object_of(text_of_one)
        version = _VERSION.fullmatch(str(document.get("fio version", "")))
        jobs = document.get("jobs")
        if not version or not isinstance(jobs, list):
            continue
        last = next((head_line for head_line in reversed(above) if head_line.end() <= begin + 1), None)
        head = object_of(last["head"]) if last and not last["missing"] else {}
        for entry in jobs:
            if isinstance(entry, dict):
                given = (document.get("global options"), entry.get("job options"))
                options = {
                    str(name): str(value)
                    for some in given
                    if isinstance(some, dict)
                    for name, value in some.items()
                }
                yield _Job(entry, options, head, version[1], number)


def _unavailable(head: Entry) -> Iterator[Reading]:
    tests = head.get("tests")
    params = noted(head)
    for name in ("direct", "iodepth", "processes"):
        if isinstance(head.get(name), str):
            params[name] = head[name]
    for test in tests if isinstance(tests, list) else ():
        metric = "operation_rate" if test in _ENGINES else "bandwidth"
        yield failed(str(test), metric, f"unavailable: {head.get('reason')}", params=params)


def _test(jobs: Sequence[_Job]) -> Iterator[Reading]:
    """Readings of a test by the entries of all its processes and nodes."""
    first = jobs[0]
    options, entry = first.options, first.entry
    word = (options.get("rw") or options.get("readwrite") or "").partition(":")[0]
    engine = options.get("ioengine", "")
    of_names = engine in _ENGINES
    case = engine if of_names else word or str(entry.get("jobname"))
    params = {**noted(first.head), **_params(jobs, of_names)}
    if of_names:
        params.pop("file_size", None)
    wrong = next((status for job in jobs if (status := _error(job))), "")
    nodes = first.head.get("nodes")
    with_result = _nodes(jobs)
    if not wrong and isinstance(nodes, int) and with_result != nodes:
        wrong = f"{with_result} of {nodes} nodes have a result"
    done = [name for name in _DIRECTIONS if any(_number(below(job.entry, name), "total_ios") for job in jobs)]
    metric = "operation_rate" if of_names else "bandwidth"
    if wrong or not done:
        size = None if of_names else _block(options, word or "read")
        reason = wrong or "no operation was done"
        yield Reading(case, metric, None, size, f"failed: {reason}", params, first.version)
    for name in done if not wrong else ():
        of = {**params, "direction": name} if word in _MIXED or (not word and len(done) > 1) else params
        size = None if of_names else _block(options, name)
        parts = [below(job.entry, name) for job in jobs]
        longest = max(_number(part, "runtime") for part in parts)
        short = f"invalid: it took {longest:g} ms, and fio counts whole ones: more bytes or files are needed"
        for metric, value, more in _values(parts, of_names):
            too_short = metric != "latency" and longest < _SHORTEST_MS
            if too_short and of_names:
                continue
            status = short if too_short else OK
            yield Reading(case, metric, value, size, status, {**of, **more}, first.version)


def _nodes(jobs: Sequence[_Job]) -> int:
    return len({str(job.head.get("rank")) for job in jobs})


def _params(jobs: Sequence[_Job], of_names: bool) -> dict[str, str]:
    options, head = jobs[0].options, jobs[0].head
    clones = len(jobs) // _nodes(jobs)
    numjobs = options.get("numjobs", "1")
    params = {"processes": numjobs if numjobs != "1" else str(clones)}
    if not options and "target" not in head:
        params = {}  # fio before 2.6 repeats none
    if options and not of_names:
        params |= {"direct": options.get("direct", "0"), "iodepth": options.get("iodepth", "1")}
        if "ioengine" in options:
            params["ioengine"] = options["ioengine"]
        for name in ("end_fsync", "fsync", "fdatasync", "rwmixread"):
            if options.get(name, "0") != "0":
                params[name] = options[name]
    return params


def _error(job: _Job) -> str:
    """Why a job failed; nothing where it did not."""
    number = job.entry.get("error")
    if not isinstance(number, int) or isinstance(number, bool) or number == 0:
        return ""
    host = job.head.get("host")
    reason = os.strerror(number) if 0 < number < 4096 else f"error {number}"
    return f"{host}: {reason}" if isinstance(host, str) else reason


def _number(part: Entry, name: str) -> float:
    """A number of a document; 0 where there is none."""
    return number_below(part, name) or 0.0


def _block(options: Mapping[str, str], direction: str) -> int | None:
    """Bytes of a block: ``bs=4k``, or ``bs=4k,64k`` of reading and writing; K is 1024, as k is."""
    if not options:
        return None
    words = next((options[name] for name in ("bs", "blocksize") if name in options), "4k").split(",")
    match = _SIZE.fullmatch(
        words[1] if direction.endswith("write") and len(words) > 1 and words[1] else words[0]
    )
    return int(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ") if match else None


def _values(parts: Sequence[Entry], of_names: bool) -> Iterator[tuple[str, float, dict[str, str]]]:
    """(metric, value, params) of a direction by the entries of all who took part."""
    if len(parts) == 1:
        rate = _number(parts[0], "bw_bytes") or 1024 * _number(parts[0], "bw")
        operations = _number(parts[0], "iops")
    else:
        longest = max(_number(part, "runtime") for part in parts) / 1e3
        rate = _together(parts, "io_bytes", longest) or sum(1024 * _number(part, "bw") for part in parts)
        operations = _together(parts, "total_ios", longest)
    if rate and not of_names:
        yield "bandwidth", rate, {}
    if operations:
        yield "operation_rate", operations, {}
    for name, unit in (("lat_ns", 1e-9), ("lat", 1e-6), ("clat_ns", 1e-9), ("clat", 1e-6)):
        weighed = [(_number(below(part, name), "mean"), _number(part, "total_ios")) for part in parts]
        count = sum(number for mean, number in weighed if mean)
        if count:
            yield "latency", unit * sum(mean * number for mean, number in weighed) / count, {}
            break
    for name, unit, of in (
        ("lat_ns", 1e-9, {}), ("lat", 1e-6, {}),
        ("clat_ns", 1e-9, {"part": "completion"}), ("clat", 1e-6, {"part": "completion"}),
    ):  # fmt: skip
        more = {} if of_names else of
        points = list(_percentiles([below(part, name) for part in parts], parts))
        for point, value in points:
            yield "latency", unit * value, {**more, "statistic": f"p{point:g}"}
        if points:
            break


def _together(parts: Sequence[Entry], name: str, longest: float) -> float:
    """The sum over the longest run time; 0 without one, and where bytes are KiB, as in 2.x."""
    if not longest or any("bw_bytes" not in part for part in parts):
        return 0.0
    return sum(_number(part, name) for part in parts) / longest


def _percentiles(times: Sequence[Entry], parts: Sequence[Entry]) -> Iterator[tuple[float, float]]:
    """(percentile, time) of one table, or of the bins of several (JSON+)."""
    operations = sum(_number(part, "total_ios") for part in parts)
    wanted = [point for point in _PERCENTILES if operations * (100 - point) >= 100 * _ABOVE_IT - 1e-6]
    if len(times) == 1:
        table = {_float(name): name for name in below(times[0], "percentile")}
        for point in wanted:
            value = _number(below(times[0], "percentile"), table.get(point, ""))
            if value:
                yield point, value
        return
    bins: dict[float, float] = {}
    for latencies in times:
        for name, count in below(latencies, "bins").items():
            if isinstance(count, int) and count > 0 and _float(name) > 0:
                bins[_float(name)] = bins.get(_float(name), 0) + count
    total = sum(bins.values())
    if not total or any(not below(latencies, "bins") for latencies in times):
        return
    for point in wanted:
        passed = 0.0
        for time in sorted(bins):
            passed += bins[time]
            if passed >= math.ceil(total * point / 100):
                yield point, time
                break


def _float(name: object) -> float:
    try:
        return float(str(name))
    except ValueError:
        return 0.0
