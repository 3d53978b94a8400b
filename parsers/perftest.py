"""perftest 4.x and later (ib_send, _write, _read, _atomic, each _bw and _lat): RDMA bandwidth, latency, rate.

A title names the test (``RDMA_Write Bidirectional BW Test``), lines below it the device, the transport and
the number of queue pairs, then comes a table. Columns count by their headings: options add and drop some.

- ``MB/sec`` (newer: ``MiB/sec``) is 2^20 bytes, ``Gb/sec`` 10^9 bits, ``Mpps`` 10^6 messages. Average and
  message rate × size say the same: both readings come from the one that was printed with more digits, and a
  row in which they disagree is invalid (the server's, if only its client knows of ``--report_gbits``).
- ``BW peak`` is ``{"statistic": "max"}``, 0.00 where it was not measured.
- Latency is the average, the only figure that every mode prints; ``t_typical`` is the median (``p50``). Of
  send and write it is half the round trip, of read and atomic the whole operation.
- With ``-C`` latencies are clock cycles under a heading of microseconds: invalid.
- The server's tables are invalid: its clock starts before the client's, and it may print the last size only.
- A reason that stands beside a table (stderr) spoils it: a client whose server was killed prints a row and
  exits 0.
- ``--out_json`` writes no JSON and no unit; which unit it is follows from the message rate.
- ``--output=…`` prints a bare number, which only the command line explains.

Source: ``perftest_parameters.h``, ``perftest_resources.c`` of its sources; ``--help``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import PurePath
from typing import Final, NamedTuple

from npc.record import OK, Reading
from parsers import NUMBER, WHOLE, complete_lines, failed, option, reading_of, words_after

_PROGRAM: Final = re.compile(r"ib_(?:send|write|read|atomic)_(?:bw|lat)")
_TITLE: Final = re.compile(
    r"\n {8,30}((?:RDMA_Write|RDMA_Read|Send|Atomic) [A-Za-z_ ]{2,80}) Test[ \t]*(?=\n)"
)
_SET_UP: Final = {
    "connection": re.compile(r"\n Connection type +: (\w+)"),
    "device": re.compile(r"\tDevice {1,20}: (\S+)"),
    "qps": re.compile(r"\n Number of qps +: ([0-9]{1,9})\b"),
}
_SERVER: Final = "* Waiting for client to connect... *"
_HEADING: Final = re.compile(r"\n (#bytes[^\n]*)(?=\n)")
_COLUMN: Final = re.compile(r"#\w+|\S+(?: \S+)*")
_PART: Final = re.compile(r"\n (Local|Remote) results:")
_BARE: Final = re.compile(rf"\n({NUMBER})[ \t]*(?=\n)")
_NO_DEVICE: Final = re.compile(r"\n ?(Did not detect devices|Failed to get IB devices list[^\n]*)")
_REASON: Final = re.compile(
    r"\n ?((?:\w{1,40}: )?(?:Couldn't|Unable to|Failed|Error|ERROR|Invalid|Completion with error|IB device"
    r"|Gid index|Max message size|Message size|Duration mode|Iteration num|unrecognized option)[^\n]*)"
)
#: What one printed unit is in bytes per second.
_UNITS: Final = {"MB/sec": 2.0**20, "MiB/sec": 2.0**20, "Gb/sec": 1e9 / 8}
_STATISTICS: Final[dict[str, dict[str, str]]] = {
    "t_avg": {},
    "t_min": {"statistic": "min"},
    "t_max": {"statistic": "max"},
    "t_typical": {"statistic": "p50"},
    "t_stdev": {"statistic": "stdev"},
    "99% percentile": {"statistic": "p99"},
    "99.9% percentile": {"statistic": "p99.9"},
}
#: The columns as ``--out_json`` calls them.
_JSON_COLUMNS: Final = {
    "MsgSize": "#bytes",
    "BW_peak": "BW peak",
    "BW_average": "BW average",
    "MsgRate": "MsgRate",
    "percentile_99": "99% percentile",
    "percentile_99.9": "99.9% percentile",
    **{name: name for name in ("t_avg", "t_min", "t_max", "t_typical", "t_stdev")},
}
_JSON_FIELD: Final = re.compile(r'\n[ \t]*"?([\w.]{1,40})"? ?: ?"?([^",\n{]{1,60})"?,?[ \t]*(?=\n)')
_JSON_SET_UP: Final = {"Connection_type": "connection", "Device": "device", "Number_of_qps": "qps"}
_DEFAULT_SIZE: Final = {"bw": "65536", "lat": "2"}
#: The option, perhaps behind others without a value in the same word.
_CYCLES: Final = re.compile(r"-[aebFgNORHUz]*C|--report-cycles")
_IN_CYCLES: Final = "invalid: -C prints clock cycles under a heading of microseconds"
_OF_SERVER: Final = "invalid: printed by the server: the client's figures count"
#: How far bandwidth and message rate may differ beyond their rounding.
_SLACK: Final = 1e-3


class _Test(NamedTuple):
    """What the readings of one table share."""

    case: str
    params: Mapping[str, str]
    status: str


class _Layout(NamedTuple):
    """A table: the columns' names without their units, what its bandwidths are in, and what a row is like.

    unit: in bytes per second, 0 where there are no bandwidths.
    """

    names: tuple[str, ...]
    unit: float
    row: re.Pattern[str]


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tests, or of a ``--out_json`` file; or the reason why there are none."""
    program = next((name for word in argv if _PROGRAM.fullmatch(name := PurePath(word).name)), "")
    words = words_after(argv, program)
    text = complete_lines(text)
    reason = _REASON.search(text)
    spoilt = f"invalid: {reason[1].strip()}" if reason else OK
    before, *parts = _TITLE.split(text)
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        status = _OF_SERVER if _SERVER in before else spoilt
        if status == OK and any(map(_CYCLES.fullmatch, words)):
            status = _IN_CYCLES
        yield from _test(title, body, status)
        before = body
    if not parts:
        yield from _json(text, spoilt) or _without_title(text, program, words)


@lru_cache
def _case(title: str) -> tuple[str, dict[str, str]]:
    """The program's name and the qualifiers in a title, whose words blanks or underscores part."""
    words = title.replace("_", " ").replace("RDMA ", "").split(" ")
    params = {"direction": "bidir"} if "Bidirectional" in words else {}
    if words[0] == "Atomic":
        params["operation"] = "compare_swap" if "SWAP" in words else "fetch_add"
    return f"ib_{words[0].lower()}_{'bw' if 'BW' in words else 'lat'}", params


def _test(title: str, body: str, status: str) -> Iterator[Reading]:
    """Readings of a test's tables; of a test without a row, its failure."""
    case, params = _case(title)
    params = _qualified(
        params, {name: match[1] for name, pattern in _SET_UP.items() if (match := pattern.search(body))}
    )
    before, *parts = _HEADING.split(body)
    found = False
    for heading, rows in zip(parts[::2], parts[1::2], strict=True):
        layout = _layout(heading)
        part = _PART.search(before)
        test = _Test(case, {**params, "part": part[1].lower()} if part else params, status)
        for cells in layout.row.findall(rows):
            found = True
            yield from _row(dict(zip(layout.names, cells, strict=True)), layout.unit, test)
        before = rows
    if not found:
        yield _failure(case, body, params)


def _qualified(params: dict[str, str], set_up: dict[str, str]) -> dict[str, str]:
    """`params` with device and connection, and the number of queue pairs where it is not the usual one."""
    return {**params, **{name: value for name, value in set_up.items() if (name, value) != ("qps", "1")}}


@lru_cache
def _layout(heading: str) -> _Layout:
    """The columns that a heading names."""
    names = _COLUMN.findall(heading)
    unit = next((size for unit, size in _UNITS.items() if f"BW average[{unit}]" in names), 0.0)
    cells = [f"({WHOLE})" if name.startswith("#") else rf"({NUMBER}|-?nan|-?inf)" for name in names]
    row = re.compile(r"\n[ \t]*" + r"[ \t]+".join(cells) + r"[ \t]*(?=\n)")
    return _Layout(tuple(name.partition("[")[0] for name in names), unit, row)


def _row(cells: Mapping[str, str], unit: float, test: _Test) -> Iterator[Reading]:
    """Readings of a row: column's name → cell."""
    size = int(cells["#bytes"])
    if unit and "MsgRate" in cells:
        yield from _bandwidth(size, cells["BW average"], cells["MsgRate"], unit, test)
        peak = float(cells.get("BW peak", "nan"))
        if isfinite(peak) and peak > 0:
            params = {**test.params, "statistic": "max"}
            yield Reading(test.case, "bandwidth", peak * unit, size, test.status, params)
    used = float(cells.get("CPU_Util", "nan"))
    if isfinite(used):
        yield Reading(test.case, "cpu", used / 100, size, test.status, {**test.params, "side": "client"})
    for name, statistic in _STATISTICS.items():
        value = float(cells.get(name, "nan"))
        if isfinite(value):
            params = {**test.params, **statistic}
            yield reading_of((test.case, "latency", value / 1e6, size, test.status, params, ""))


def _bandwidth(size: int, average: str, rate: str, unit: float, test: _Test) -> Iterator[Reading]:
    """Bandwidth and message rate, both from the one of the two that was printed more exactly."""
    bandwidth, bandwidth_error = (number * unit for number in _printed(average))
    from_rate, rate_error = (number * 1e6 * size for number in _printed(rate))
    if not (isfinite(bandwidth + from_rate) and bandwidth + from_rate > 0):
        yield failed(test.case, "bandwidth", f"the result is {average}", size, test.params)
        return
    status = test.status
    if status == OK and abs(bandwidth - from_rate) > bandwidth_error + rate_error + _SLACK * from_rate:
        status = f"invalid: {average} and the message rate {rate} contradict each other: a wrong unit"
    if bandwidth_error * from_rate > rate_error * bandwidth:
        bandwidth = from_rate
    yield reading_of((test.case, "bandwidth", bandwidth, size, status, test.params, ""))
    yield reading_of((test.case, "message_rate", bandwidth / size, size, status, test.params, ""))


def _printed(number: str) -> tuple[float, float]:
    """A printed number and half of its last digit's unit."""
    return float(number), 0.5 * 10.0 ** -len(number.partition(".")[2])


def _failure(case: str, text: str, params: Mapping[str, str]) -> Reading:
    """The reading of a test without a number."""
    metric = "latency" if case.endswith("_lat") else "bandwidth"
    device = _NO_DEVICE.search(text)
    if device:
        return Reading(case, metric, None, None, f"unavailable: no RDMA device: {device[1]}".strip(), params)
    reason = _REASON.search(text)
    return failed(case, metric, reason[1] if reason else "no result was printed", params=params)


def _without_title(text: str, program: str, words: Sequence[str]) -> Iterator[Reading]:
    """The reading of ``--output=…``, or why there is none."""
    if {"-h", "--help", "-V", "--version"} & set(words):
        return
    metric, bare = option(words, "--output"), _BARE.search(text)
    if not program or not metric or not bare:
        if program or _NO_DEVICE.search(text):
            yield _failure(program or "perftest", text, {})
        return
    size = option(words, "-s", "--size") or _DEFAULT_SIZE[program.rpartition("_")[2]]
    units = {
        "bandwidth": _UNITS["Gb/sec" if "--report_gbits" in words else "MB/sec"],
        "message_rate": 1e6,
        "latency": 1e-6,
    }
    if metric in units and size.isdecimal():
        bytes_ = 8 if "_atomic_" in program else int(size)
        status = _OF_SERVER if _SERVER in text else OK
        yield Reading(program, metric, float(bare[1]) * units[metric], bytes_, status)


def _json(text: str, status: str) -> list[Reading]:
    """Readings of a ``--out_json`` file; none if `text` is no such file, or only a part of one."""
    fields = dict(_JSON_FIELD.findall(text)) if text.startswith("\n{") and text.endswith("}\n") else {}
    test, size = fields.get("test", ""), fields.get("MsgSize", "")
    if not test.endswith("_Test") or not size.isdecimal():
        return []
    case, params = _case(test.removesuffix("_Test"))
    set_up = {name: fields[key] for key, name in _JSON_SET_UP.items() if key in fields}
    cells = {
        name: fields[key]
        for key, name in _JSON_COLUMNS.items()
        if re.fullmatch(rf"{NUMBER}|-?nan|-?inf", fields.get(key, ""))
    }
    unit = 0.0
    if {"BW average", "MsgRate"} <= cells.keys():
        printed = float(cells["BW average"])
        expected = float(cells["MsgRate"]) * 1e6 * int(size)
        unit = min(_UNITS.values(), key=lambda unit: abs(printed * unit - expected))
    return list(_row(cells, unit, _Test(case, _qualified(params, set_up), status)))
