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
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain, repeat
from math import inf, isfinite, nan
from pathlib import PurePath
from typing import Final, NamedTuple

from npc.record import OK, Reading
from parsers import NUMBER, WHOLE, complete_lines, failed, option, readings_of_rows, words_after

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
_HEADING: Final = "\n #bytes"
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
#: The units in which a column is read; one without a unit in its heading is read as it is.
_KNOWN_UNITS: Final[dict[str, Collection[str]]] = {
    "BW peak": _UNITS,
    "BW average": _UNITS,
    "MsgRate": ("Mpps",),
    **dict.fromkeys(_STATISTICS, ("usec",)),
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
#: Half a unit of the last digit of a number with so many decimals.
_HALF_A_UNIT: Final = tuple(0.5 * 10.0**-decimals for decimals in range(19))
#: How far bandwidth and message rate may differ beyond their rounding.
_SLACK: Final = 1e-3


class _Test(NamedTuple):
    """What the readings of one table share."""

    case: str
    params: Mapping[str, str]
    status: str


class _Layout(NamedTuple):
    """A table: the columns' places and what its bandwidths are in.

    unit: in bytes per second, 0 where there are no bandwidths. average, rate: the places of average and
    message rate, if unit is not 0. others: place, factor and divisor into the SI unit of all other numbers.
    metrics, params: of a row's readings, bandwidth and message rate first.
    """

    size: int
    unit: float
    average: int
    rate: int
    others: list[tuple[int, float, float]]
    metrics: list[str]
    params: list[Mapping[str, str]]


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tests, or of a ``--out_json`` file; or the reason why there are none."""
    program = next((name for word in argv if _PROGRAM.fullmatch(name := PurePath(word).name)), "")
    words = words_after(argv, program)
    text = complete_lines(text)
    reason = _REASON.search(text)
    spoilt = f"invalid: {reason[1].strip()}" if reason else OK
    before, *parts = _TITLE.split(text)
    if not parts:
        return iter(_json(text, spoilt) or _without_title(text, program, words))
    clients = _IN_CYCLES if not reason and any(map(_CYCLES.fullmatch, words)) else spoilt
    titles, bodies = parts[::2], parts[1::2]
    statuses = [_OF_SERVER if _SERVER in above else clients for above in (before, *bodies)]
    return chain.from_iterable(map(_test, titles, bodies, statuses))


@lru_cache
def _case(title: str) -> tuple[str, dict[str, str]]:
    """The program's name and the qualifiers in a title, whose words blanks or underscores part."""
    words = title.replace("_", " ").replace("RDMA ", "").split(" ")
    params = {"direction": "bidir"} if "Bidirectional" in words else {}
    if words[0] == "Atomic":
        params["operation"] = "compare_swap" if "SWAP" in words else "fetch_add"
    return f"ib_{words[0].lower()}_{'bw' if 'BW' in words else 'lat'}", params


def _test(title: str, body: str, status: str) -> Iterable[Reading]:
    """Readings of a test's tables; of a test without a row, its failure."""
    case, params = _case(title)
    params = _qualified(
        params, {name: match[1] for name, pattern in _SET_UP.items() if (match := pattern.search(body))}
    )
    found: list[Iterator[Reading]] = []
    before, *tables = body.split(_HEADING)
    for table in tables:
        heading, line_end, lines = table.partition("\n")
        row, layout, unknown = _heading(heading)
        rows = row.findall(line_end + lines)
        if rows and unknown:
            found.append(iter([failed(case, _metric(case), f"unknown unit: {unknown}", params=params)]))
        elif rows:
            part = _PART.search(before) if " results:" in before else None
            test = _Test(case, {**params, "part": part[1].lower()} if part else params, status)
            found.append(_rows(rows, layout, test))
        before = lines
    return chain.from_iterable(found) if found else [_failure(case, body, params)]


def _qualified(params: dict[str, str], set_up: dict[str, str]) -> dict[str, str]:
    """`params` with device and connection, and the number of queue pairs where it is not the usual one."""
    return {**params, **{name: value for name, value in set_up.items() if (name, value) != ("qps", "1")}}


@lru_cache
def _heading(heading: str) -> tuple[re.Pattern[str], _Layout, str]:
    """What a row is like below a heading, of which this is what follows its first word, its columns, and the
    first of these whose unit is not known."""
    names = ["#bytes", *_COLUMN.findall(heading)]
    unit = next((size for unit, size in _UNITS.items() if f"BW average[{unit}]" in names), 0.0)
    number = rf"({WHOLE}\.{WHOLE}|{WHOLE}|-?nan|-?inf)"
    cells = [f"({WHOLE})" if name.startswith("#") else number for name in names]
    row = re.compile(r"\n[ \t]*" + r"[ \t]+".join(cells) + r"[ \t]*(?=\n)")
    parted = [name.rstrip("]").partition("[") for name in names]
    unknown = (
        f"{column}[{printed}]"
        for column, _, printed in parted
        if printed and printed not in _KNOWN_UNITS.get(column, (printed,))
    )
    return row, _layout([column for column, _, _ in parted], unit), next(unknown, "")


def _layout(names: Sequence[str], unit: float) -> _Layout:
    """The layout of a table whose columns have these names, without their units."""
    places = {name: place for place, name in enumerate(names)}
    average, rate = places.get("BW average", 0), places.get("MsgRate", 0)
    unit = unit if rate else 0.0
    numbers: list[tuple[str, str, float, float, dict[str, str]]] = [
        ("BW peak" if unit else "", "bandwidth", unit, 1.0, {"statistic": "max"}),
        ("CPU_Util", "cpu", 1.0, 100.0, {"side": "client"}),
        *((name, "latency", 1.0, 1e6, params) for name, params in _STATISTICS.items()),
    ]
    numbers = [number for number in numbers if number[0] in places]
    headline = ["bandwidth", "message_rate"] if unit else []
    return _Layout(
        places["#bytes"],
        unit,
        average,
        rate,
        [(places[name], factor, divisor) for name, _, factor, divisor, _ in numbers],
        [*headline, *(metric for _, metric, *_ in numbers)],
        [*({} for _ in headline), *(params for *_, params in numbers)],
    )


def _rows(rows: Sequence[Sequence[str]], layout: _Layout, test: _Test) -> Iterator[Reading]:
    """Readings of a table, row by row."""
    size_place, unit, average_place, rate_place, others, metrics, params = layout
    sizes = [int(row[size_place]) for row in rows]
    statuses: Iterable[str] = repeat(test.status)
    if unit:
        values: list[float] = []
        of_rows: list[str] = []
        of_others = [test.status] * len(others)
        for row, size in zip(rows, sizes, strict=True):
            bandwidth, status = _bandwidth(size, row[average_place], row[rate_place], unit, test.status)
            values += (bandwidth, bandwidth / (size or nan))
            for place, factor, divisor in others:
                values.append(float(row[place]) * factor / divisor)
            of_rows += (status, status, *of_others)
        statuses = of_rows
    else:
        values = [float(row[place]) * factor / divisor for row in rows for place, factor, divisor in others]
    readings = readings_of_rows(
        test.case,
        metrics,
        values,
        sizes,
        statuses,
        [{**test.params, **qualifiers} if qualifiers else test.params for qualifiers in params],
    )
    return readings if isfinite(sum(values)) and 0.0 not in values else _measured(readings)


def _measured(readings: Iterable[Reading]) -> Iterator[Reading]:
    """Those that were measured, and the failures: 0 is no bandwidth, but may be a latency's deviation."""
    for reading in readings:
        value = reading.value or 0.0
        if isfinite(value) and (value or reading.metric != "bandwidth"):
            yield reading
        elif reading.status.startswith("failed") and reading.metric == "bandwidth":
            yield reading._replace(value=None)


def _bandwidth(size: int, average: str, rate: str, unit: float, status: str) -> tuple[float, str]:
    """The bandwidth, from the one of the two that was printed more exactly, nan if it failed; its status."""
    bandwidth, from_rate = float(average) * unit, float(rate) * 1e6 * size
    if not (size and 0 < bandwidth + from_rate < inf):
        return nan, f"failed: the result is {average}"
    bandwidth_error = _HALF_A_UNIT[len(average.partition(".")[2])] * unit
    rate_error = _HALF_A_UNIT[len(rate.partition(".")[2])] * 1e6 * size
    if status == OK and abs(bandwidth - from_rate) > bandwidth_error + rate_error + _SLACK * from_rate:
        status = f"invalid: {average} and the message rate {rate} contradict each other: a wrong unit"
    return from_rate if bandwidth_error * from_rate > rate_error * bandwidth else bandwidth, status


def _metric(case: str) -> str:
    return "latency" if case.endswith("_lat") else "bandwidth"


def _failure(case: str, text: str, params: Mapping[str, str]) -> Reading:
    """The reading of a test without a number."""
    metric = _metric(case)
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
    if not test.endswith("_Test") or not re.fullmatch(WHOLE, size):
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
        _, fits = _bandwidth(int(size), cells["BW average"], cells["MsgRate"], unit, OK)
        if fits.startswith("invalid"):  # which of two numbers in an unknown unit is right nobody knows
            return [failed(case, "bandwidth", f"unknown unit: {fits.removeprefix('invalid: ')}", int(size))]
    layout = _layout(list(cells), unit)
    return list(_rows([list(cells.values())], layout, _Test(case, _qualified(params, set_up), status)))
