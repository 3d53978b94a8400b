"""fio (2.x and 3.x): bandwidth, operations a second, latency of each job; of JSON, terse lines or text.

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
- JSON (JSON+, that of ``--client``) is read wherever it begins, else terse lines, else the text
  (`npc.parsers.text.fio_entries`). These do not tell all options, as ``direct``: such a param is there where
  the command line has it. Terse lines, and JSON before 2.6, do not even tell ``rw``: `case` is then the job's
  name, unless the command line has it.
- What each of ``--client``'s hosts did is one test, as above; fio's own ``All clients`` is the same sum.
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

from npc.parsers.text.documents import documents_in, number_below, object_of
from npc.parsers.text.documents import object_below as below
from npc.parsers.text.files import noted
from npc.parsers.text.fio_entries import (
    CONTRADICTION,
    CUT,
    NO_HEADING,
    REPEATED,
    FioRun,
    runs_of_terse,
    runs_of_text,
)
from npc.parsers.text.lines import complete_lines
from npc.parsers.text.options import words_after
from npc.records.reading import OK, Reading, failed
from npc.validity.arithmetic import contradiction

#: The lines above a document that NPC's fio.py prints.
_ABOVE: Final = re.compile(r"\n# NPC fio(?P<missing> unavailable)?: (?P<head>\{[^\n]{1,4000}\})(?=\n)")
_ERROR: Final = re.compile(r"\n(fio: [^\n]+)(?=\n)")
_MISSING: Final = re.compile(r"\n(unavailable: [^\n]+)(?=\n)")
_VERSION: Final = re.compile(r"(?:fio-)?([0-9]{1,4}(?:\.[0-9]{1,6}){1,3}[\w.-]{0,40})")
_SIZE: Final = re.compile(r"([0-9]{1,15})([kmgt]?)(?:i?b)?", re.IGNORECASE)
_ENGINES: Final = frozenset({"filecreate", "filestat", "filedelete"})
_DIRECTIONS: Final = ("read", "write", "mixed")
#: Options by which a job has several sizes of blocks.
_SEVERAL_SIZES: Final = frozenset({"bsrange", "blocksize_range", "bssplit"})
PROGRAMS: Final = r"fio\.py"
MARKS: Final = (
    r'[ \t]*"fio version" ?:|\{ *"fio version"|# NPC fio(?: unavailable)?: |fio-[0-9]+\.[0-9]'
    r"|2(?:;[^;\n]*){3};[0-9.]+;|[345];fio-[0-9]|[^\n:]+: \(groupid=[0-9]+, jobs=[0-9]+\): err="
)
ROWS: Final = r" *(?:READ|WRITE|TRIM|read|write|trim) *: (?:IOPS=|bw=|io=)| *clat percentiles \("
#: A line of fio's, by which a text is known whose beginning or end is missing.
_OWN: Final = re.compile(rf"\n(?:{MARKS}|{ROWS}|[ \t]*Run status group [0-9])")
_HEADING: Final = "looks like fio's output, but it is cut off: no job has its results from beginning to end"
#: What tells the hosts of ``--client`` apart.
_HOST: Final = ("hostname", "port")
_ALL_CLIENTS: Final = "All clients"
_MIXED: Final = frozenset({"rw", "readwrite", "randrw"})
_PERCENTILES: Final = (50.0, 99.0, 99.9)
#: Fewest operations that have to lie above a percentile.
_ABOVE_IT: Final = 10

#: A run time is in whole milliseconds: below this a rate is wrong by more than a tenth.
_SHORTEST_MS: Final = 5

Entry = Mapping[str, Any]


@dataclass(frozen=True)
class _Job:
    """The results of a job in a process or a host, and what is known of them."""

    #: As the JSON has it.
    entry: Entry
    #: Its own and the global options.
    options: Mapping[str, str]
    #: What NPC's fio.py printed above the document.
    head: Entry
    #: Version of fio, without its name; empty where the text does not tell it.
    version: str
    #: The number of the document, or of the run in a text.
    document: int
    #: Whether an option that is not there has its default value.
    all_options: bool = True
    #: What of the text is missing; empty where it is whole.
    missing: str = ""

    @property
    def same(self) -> tuple[object, ...]:
        """What the entries of one test share: clones are of one document, nodes of one part."""
        names = self.entry.get("groupid"), self.entry.get("jobname")
        if "part" in self.head:  # nodes differ in what they could write in the time there was
            return "part", self.head["part"], *names
        return self.document, *names, tuple(sorted(self.options.items()))


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of every job of every document; the failure of a run that has none."""
    whole, text = "\n" + text, complete_lines(text)
    by_command = _command_options(words_after(argv, "fio"))
    groups: dict[tuple[object, ...], list[_Job]] = {}
    explained = False
    jobs, broken = _jobs(whole, by_command)
    if not jobs and f"\n{_ALL_CLIENTS}: (groupid=" in text:
        broken = "the text of several clients is not read: take their --output-format=json"
    runs = list(runs_of_terse(text)) or list(runs_of_text(text)) if not jobs and not broken else []
    for job in [*jobs, *_printed(runs, by_command)]:
        groups.setdefault(job.same, []).append(job)
    for above in _ABOVE.finditer(text):
        if above["missing"]:
            explained = True
            yield from _unavailable(object_of(above["head"]))
    for of_test in groups.values():
        yield from _test(of_test)
    missing, error = _MISSING.search(text), _ERROR.search(text)
    case = by_command.get("rw") or "fio"
    if broken:
        yield failed(case, "bandwidth", broken)
    elif missing and not groups and not explained:
        yield failed("fio", "bandwidth", missing[1])
    elif not groups and not explained and (error or argv or _OWN.search(whole)):
        reason = _HEADING if _OWN.search(whole) else "no result was printed"
        yield failed(case, "bandwidth", error[1] if error else reason)


def _command_options(words: Sequence[str]) -> dict[str, str]:
    """The options of a command line that has one job alone; none where a job file has more of them."""
    pairs = [word.lstrip("-").partition("=") for word in words]
    options = {name.replace("readwrite", "rw"): value for name, _, value in pairs}
    one_job = all(word.startswith("-") for word in words) and [name for name, *_ in pairs].count("name") <= 1
    return options if one_job else {}


def _jobs(text: str, by_command: Mapping[str, str]) -> tuple[list[_Job], str]:
    """The jobs of every JSON document, and why one of them cannot be read; empty where all could."""
    above, jobs, broken = list(_ABOVE.finditer(text)), [], ""
    if len(above) != text.count("\n# NPC fio"):
        return [], "a line '# NPC fio', which tells the node, was wrapped or cut"
    for number, document in enumerate(documents_in(text)):
        content = document.content
        if document.error and '"fio version"' in document.text:
            broken = document.error
        if "jobname" in content and "fio version" not in content:
            broken = "looks like fio's JSON, but its beginning is missing"
        entries = content.get("jobs", content.get("client_stats"))
        if "fio version" not in content or not isinstance(entries, list):
            continue
        version = _VERSION.fullmatch(str(content["fio version"]))
        last = next((line for line in reversed(above) if line.end() <= document.begin + 1), None)
        head = object_of(last["head"]) if last and not last["missing"] else {}
        for entry in entries:
            if not isinstance(entry, dict) or (len(entries) > 1 and entry.get("jobname") == _ALL_CLIENTS):
                continue
            given = (content.get("global options"), entry.get("job options"))
            options = {
                str(name): str(value)
                for some in given
                if isinstance(some, dict)
                for name, value in some.items()
            }
            known = options or ({} if "target" in head else by_command)
            jobs.append(_Job(entry, known, head, version[1] if version else "", number))
    return jobs, broken


def _printed(runs: Sequence[FioRun], by_command: Mapping[str, str]) -> Iterator[_Job]:
    """The jobs of texts or terse lines, with the options that these and the command line tell."""
    for number, run in enumerate(runs):
        for entry in run.entries:
            options = {**by_command, **run.options.get((entry["jobname"], entry["groupid"]), {})}
            if entry.get("jobs", 1) > 1:
                options["numjobs"] = str(entry["jobs"])
            missing = REPEATED if entry.get("repeated") else ""
            if "cut" in entry:  # of a text
                unfinished = entry["cut"] or entry["groupid"] not in run.finished
                missing = CUT if unfinished else "" if "rw" in options else NO_HEADING
            yield _Job(entry, options, {}, run.version, number, "name" in by_command, missing)


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
    lie = next(filter(None, (_contradiction(job.entry) for job in jobs)), "")
    nodes = first.head.get("nodes")
    with_result = _nodes(jobs)
    if not wrong and isinstance(nodes, int) and with_result != nodes:
        wrong = f"{with_result} of {nodes} nodes have a result"
    done = [name for name in _DIRECTIONS if any(_operations(below(job.entry, name)) for job in jobs)]
    metric = "operation_rate" if of_names else "bandwidth"
    if wrong or not done:
        size = None if of_names else _block(first, word or "read")
        trimmed = any(_operations(below(job.entry, "trim")) for job in jobs)
        reason = wrong or (
            "trims alone were done, which are not read" if trimmed else "no operation was done"
        )
        yield Reading(case, metric, None, size, f"failed: {reason}", params, first.version)
    for name in done if not wrong else ():
        of = {**params, "direction": name} if word in _MIXED or len(done) > 1 else params
        size = None if of_names else _block(first, name)
        parts = [below(job.entry, name) for job in jobs]
        longest = max(number_below(part, "runtime") or 0.0 for part in parts)
        short = f"invalid: it took {longest:g} ms, and fio counts whole ones: more bytes or files are needed"
        for metric, value, more in _values(parts, of_names):
            too_short = metric != "latency" and longest < _SHORTEST_MS
            if too_short and of_names:
                continue
            status = f"invalid: {lie}" if lie else short if too_short else OK
            yield Reading(case, metric, value, size, status, {**of, **more}, first.version)


def _contradiction(entry: Entry) -> str:
    """What is wrong with rate, bytes and time of a direction; empty if they agree."""
    for part in (below(entry, name) for name in _DIRECTIONS):
        kilo = 1 if "bw_bytes" in part else 1024  # 2.x has KiB alone; a text is judged by its digits
        moved, runtime = number_below(part, "io_bytes"), number_below(part, "runtime")
        if moved and runtime and "jobs" not in entry:
            wrong = contradiction(_rate(part), moved * kilo, runtime / 1e3, 2048, 1e-3)
            if wrong:
                return wrong
    return str(entry.get(CONTRADICTION, ""))


def _nodes(jobs: Sequence[_Job]) -> int:
    """How many nodes, or hosts of ``--client``, the entries of a test are from."""
    return len({(str(job.head.get("rank")), *map(str, map(job.entry.get, _HOST))) for job in jobs})


def _params(jobs: Sequence[_Job], of_names: bool) -> dict[str, str]:
    options, head = jobs[0].options, jobs[0].head
    clones = len(jobs) // _nodes(jobs)
    numjobs = options.get("numjobs", "1")
    params = {"processes": numjobs if numjobs != "1" else str(clones)}
    if not options and "target" not in head:
        params = {}  # fio before 2.6 repeats none
    if _nodes(jobs) > 1 and "hostname" in jobs[0].entry:
        params["clients"] = str(_nodes(jobs))
    if options and not of_names:
        if jobs[0].all_options or "direct" in options:
            params["direct"] = options.get("direct", "0")
        if jobs[0].all_options or "iodepth" in options:
            params["iodepth"] = options.get("iodepth", "1")
        if "ioengine" in options:
            params["ioengine"] = options["ioengine"]
        for name in ("end_fsync", "fsync", "fdatasync", "rwmixread"):
            if options.get(name, "0") != "0":
                params[name] = options[name]
    return params


def _error(job: _Job) -> str:
    """Why a job failed; nothing where it did not."""
    if job.missing:
        return job.missing
    number = job.entry.get("error")
    if not isinstance(number, int) or isinstance(number, bool) or number == 0:
        return ""
    host = job.head.get("host")
    reason = os.strerror(number) if 0 < number < 4096 else f"error {number}"
    return f"{host}: {reason}" if isinstance(host, str) else reason


def _operations(part: Entry) -> float:
    """Operations of a direction; before 2.2, and in terse lines, as their rate and the run time tell."""
    count = number_below(part, "total_ios")
    if count is not None:
        return count
    return (number_below(part, "iops") or 0.0) * (number_below(part, "runtime") or 0.0) / 1e3


def _block(job: _Job, direction: str) -> int | None:
    """Bytes of a block: ``bs=4k``, or ``bs=4k,64k`` of reading and writing; K is 1024, as k is."""
    options, default = job.options, "4k" if job.all_options else ""
    if not options or _SEVERAL_SIZES & set(options):
        return None
    words = next((options[name] for name in ("bs", "blocksize") if name in options), default).split(",")
    if direction == "mixed" and len(set(words)) > 1:
        return None
    match = _SIZE.fullmatch(
        words[1] if direction.endswith("write") and len(words) > 1 and words[1] else words[0]
    )
    return int(match[1]) * 1024 ** " kmgt".index(match[2].lower() or " ") if match else None


def _values(parts: Sequence[Entry], of_names: bool) -> Iterator[tuple[str, float, dict[str, str]]]:
    """(metric, value, params) of a direction by the entries of all who took part."""
    rates = [_rate(part) for part in parts]
    if len(parts) == 1:
        rate, operations = rates[0], number_below(parts[0], "iops") or 0.0
    else:
        longest = max(number_below(part, "runtime") or 0.0 for part in parts) / 1e3
        rate = _together(parts, "io_bytes", longest) or sum(rates)
        operations = sum(map(_operations, parts)) / longest if longest else 0.0
    if rate and not of_names:
        yield "bandwidth", rate, {}
    if operations:
        yield "operation_rate", operations, {}
    for name, unit in (("lat_ns", 1e-9), ("lat", 1e-6), ("clat_ns", 1e-9), ("clat", 1e-6)):
        weighed = [(number_below(below(part, name), "mean") or 0.0, _operations(part)) for part in parts]
        count = sum(number for _, number in weighed)
        if count and all(mean for mean, number in weighed if number):
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


def _rate(part: Entry) -> float:
    """Bytes a second of a direction; 2.x has KiB alone."""
    exact = number_below(part, "bw_bytes")
    return exact if exact is not None else 1024 * (number_below(part, "bw") or 0.0)


def _together(parts: Sequence[Entry], name: str, longest: float) -> float:
    """The sum over the longest run time; 0 without one, and where bytes are KiB, as in 2.x."""
    if not longest or any("bw_bytes" not in part for part in parts):
        return 0.0
    return sum(number_below(part, name) or 0.0 for part in parts) / longest


def _percentiles(times: Sequence[Entry], parts: Sequence[Entry]) -> Iterator[tuple[float, float]]:
    """(percentile, time) of one table, or of the bins of several (JSON+)."""
    operations = sum(map(_operations, parts))
    wanted = [point for point in _PERCENTILES if operations * (100 - point) >= 100 * _ABOVE_IT - 1e-6]
    if len(times) == 1:
        table = {_float(name): name for name in below(times[0], "percentile")}
        for point in wanted:
            value = number_below(below(times[0], "percentile"), table.get(point, ""))
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
