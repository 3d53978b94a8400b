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
from itertools import chain, repeat, starmap
from math import inf, isfinite, nan
from pathlib import PurePath
from typing import Final, NamedTuple, TypeAlias

from npc.records.reading import OK, Reading, failed
from parsers.text.lines import NUMBER, WHOLE, complete_lines
from parsers.text.options import option, words_after
from parsers.text.readings import Column
from parsers.text.tables import by_layout

_PROGRAM: Final = re.compile(r"ib_(?:send|write|read|atomic)_(?:bw|lat)")
#: A test's title, or what follows the first word of a table's heading.
_SECTION: Final = re.compile(
    r"\n(?: {8,30}((?:RDMA_Write|RDMA_Read|Send|Atomic) [A-Za-z_ ]{2,80}) Test[ \t]*| #bytes([^\n]*))(?=\n)"
)
_SET_UP: Final = {
    "connection": re.compile(r"\n Connection type +: (\w+)"),
    "device": re.compile(r"\tDevice {1,20}: (\S+)"),
    "qps": re.compile(r"\n Number of qps +: ([0-9]{1,9})\b"),
}
_SERVER: Final = "* Waiting for client to connect... *"
_COLUMN: Final = re.compile(r"#\w+|\S+(?: \S+)*")
_PART: Final = re.compile(r"\n (Local|Remote) results:")
_BARE: Final = re.compile(rf"\n({NUMBER})[ \t]*(?=\n)")
_NO_DEVICE: Final = re.compile(r"\n ?(Did not detect devices|Failed to get IB devices list[^\n]*)")
_REASON: Final = re.compile(
    r"\n ?(?=[CDEFGIMUa-z])((?:[a-z]\w{0,39}: |)(?:Couldn't|Unable to|Failed|Error|ERROR|Invalid"
    r"|Completion with error|IB device|Gid index|Max message size|Message size"
    r"|Duration mode|Iteration num|unrecognized option)[^\n]*)"
)
#: The set-up ends at a rule, after a few hundred characters.
_LONGEST_SET_UP: Final = 2000
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


#: What tables have in common: title, set-up, whose results they are, heading, status.
_Kind: TypeAlias = tuple[str, tuple[tuple[str, str], ...], str, str, str]


class _Column(NamedTuple):
    """A column that is read: its place, its metric, factor and divisor into the SI unit, its qualifiers."""

    place: int
    metric: str
    factor: float
    divisor: float
    params: Mapping[str, str]


class _Layout(NamedTuple):
    """A table: cells of a row; the bandwidths' unit in bytes per second, 0 where there are none; the columns
    that are read, bandwidth and message rate first where there are bandwidths."""

    width: int
    unit: float
    columns: list[_Column]


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tests, or of a ``--out_json`` file; or the reason why there are none."""
    program = next((name for word in argv if _PROGRAM.fullmatch(name := PurePath(word).name)), "")
    words = words_after(argv, program)
    text = complete_lines(text)
    reason = _REASON.search(text)
    spoilt = f"invalid: {reason[1].strip()}" if reason else OK
    before, *sections = _SECTION.split(text)
    titles, headings, texts = sections[::3], sections[1::3], sections[2::3]
    starts = [place for place, title in enumerate(titles) if title]
    if not starts:
        return iter(_json(text, spoilt) or _without_title(text, program, words))
    clients = _IN_CYCLES if not reason and any(map(_CYCLES.fullmatch, words)) else spoilt
    of_server = [_SERVER in lines for lines in (before, *texts)]
    tests = zip([0, *(start + 1 for start in starts)], starts, [*starts[1:], len(titles)], strict=False)
    failures: list[Reading] = []
    tables: list[tuple[_Kind, str]] = []
    for above, start, end in tests:
        status = _OF_SERVER if True in of_server[above : start + 1] else clients
        tables += _tables(titles[start], headings[start + 1 : end], texts[start:end], status, failures)
    readings = starmap(_readings, by_layout(tables).items())
    return chain.from_iterable(chain([failures], readings))


@lru_cache
def _case(title: str) -> tuple[str, dict[str, str]]:
    """The program's name and the qualifiers in a title, whose words blanks or underscores part."""
    words = title.replace("_", " ").replace("RDMA ", "").split(" ")
    params = {"direction": "bidir"} if "Bidirectional" in words else {}
    if words[0] == "Atomic":
        params["operation"] = "compare_swap" if "SWAP" in words else "fetch_add"
    return f"ib_{words[0].lower()}_{'bw' if 'BW' in words else 'lat'}", params


def _tables(
    title: str, headings: Sequence[str], texts: Sequence[str], status: str, failures: list[Reading]
) -> Iterator[tuple[_Kind, str]]:
    """Kind and rows of each table of a test; what failed goes to `failures`.

    `texts` are what stands between title and first heading and what stands behind each heading.
    """
    above = texts[0]
    head, rule, _ = above[:_LONGEST_SET_UP].partition("\n---")
    set_up = _remembered_set_up(head) if rule else ()
    if len(set_up) < len(_SET_UP):
        set_up = _set_up("".join(texts))
    any_row = False
    for heading, lines in zip(headings, texts[1:], strict=True):
        row, _, unknown = _heading(heading)
        rows = row.findall(lines)
        if rows:
            any_row = True
            part = _PART.search(above) if " results:" in above else None
            kind = (title, set_up, part[1] if part else "", heading, status)
            if unknown:
                case, params = _qualified(title, set_up)
                failures.append(failed(case, _metric(case), f"unknown unit: {unknown}", params=params))
            else:
                yield kind, "".join(rows)
        above = lines
    if not any_row:
        failures.append(_failure(*_qualified(title, set_up), "".join(texts)))


def _set_up(text: str) -> tuple[tuple[str, str], ...]:
    """Connection, device and number of queue pairs as far as `text` has them."""
    found = ((name, pattern.search(text)) for name, pattern in _SET_UP.items())
    return tuple((name, match[1]) for name, match in found if match)


_remembered_set_up: Final = lru_cache(_set_up)


def _qualified(title: str, set_up: Iterable[tuple[str, str]], part: str = "") -> tuple[str, dict[str, str]]:
    """Case and params of a test; the number of queue pairs only where it is not the usual one."""
    case, params = _case(title)
    given = {name: value for name, value in set_up if (name, value) != ("qps", "1")}
    return case, {**params, **given, **({"part": part.lower()} if part else {})}


@lru_cache
def _heading(heading: str) -> tuple[re.Pattern[str], _Layout, str]:
    """What a row is like below a heading, of which this is what follows its first word, its columns, and the
    first of these whose unit is not known."""
    names = ["#bytes", *_COLUMN.findall(heading)]
    unit = next((size for unit, size in _UNITS.items() if f"BW average[{unit}]" in names), 0.0)
    number = rf"(?:{WHOLE}\.{WHOLE}|{WHOLE}|-?nan|-?inf)"
    cells = [WHOLE if name.startswith("#") else number for name in names]
    row = re.compile(r"\n[ \t]*" + r"[ \t]+".join(cells) + r"[ \t]*(?=\n)")
    parted = [name.rstrip("]").partition("[") for name in names]
    unknown = (
        f"{column}[{printed}]"
        for column, _, printed in parted
        if printed and printed not in _KNOWN_UNITS.get(column, (printed,))
    )
    return row, _layout([column for column, _, _ in parted], unit), next(unknown, "")


def _layout(names: Sequence[str], unit: float) -> _Layout:
    """The layout of a table whose columns, the first of them ``#bytes``, have these names without units."""
    unit = unit if "BW average" in names and "MsgRate" in names else 0.0
    columns: list[tuple[str, str, float, float, dict[str, str]]] = [
        ("CPU_Util", "cpu", 1.0, 100.0, {"side": "client"}),
        *((name, "latency", 1.0, 1e6, params) for name, params in _STATISTICS.items()),
    ]
    if unit:
        columns = [
            ("BW average", "bandwidth", unit, 1.0, {}),
            ("MsgRate", "message_rate", 1e6, 1.0, {}),
            ("BW peak", "bandwidth", unit, 1.0, {"statistic": "max"}),
            *columns,
        ]
    places = {name: place for place, name in enumerate(names)}
    read = [
        _Column(places[name], metric, factor, divisor, params)
        for name, metric, factor, divisor, params in columns
        if name in places
    ]
    return _Layout(len(names), unit, read)


def _readings(kind: _Kind, tables: Sequence[str]) -> Iterator[Reading]:
    """Readings of tables of one kind."""
    title, set_up, part, heading, status = kind
    _, layout, _ = _heading(heading)
    return _rows("".join(tables).split(), layout, *_qualified(title, set_up, part), status)


def _rows(
    cells: Sequence[str], layout: _Layout, case: str, params: Mapping[str, str], status: str
) -> Iterator[Reading]:
    """Readings of rows, column by column."""
    width, unit, columns = layout
    sizes = list(map(int, cells[::width]))
    own = [Column(case, column.metric, {**params, **column.params}, status=status) for column in columns]
    readings = []
    if unit:
        average, rate = (cells[column.place :: width] for column in columns[:2])
        measured = map(_bandwidth, sizes, average, rate, repeat(unit), repeat(status))
        *both, statuses = zip(*measured, strict=True)
        readings = [_measured(own[n], values, sizes, statuses) for n, values in enumerate(both)]
    done = len(readings)
    for made, (place, _, factor, divisor, _) in zip(own[done:], columns[done:], strict=True):
        values = [float(cell) * factor / divisor for cell in cells[place::width]]
        readings.append(_measured(made, values, sizes))
    return chain.from_iterable(readings)


def _measured(
    column: Column, values: Sequence[float], sizes: Sequence[int], statuses: Sequence[str] = ()
) -> Iterable[Reading]:
    """Readings of what was measured, and the failures."""
    readings = column.readings(values, sizes, statuses)
    if isfinite(sum(values)) and 0.0 not in values:
        return readings
    return chain.from_iterable(map(_if_measured, readings))


def _if_measured(reading: Reading) -> Iterator[Reading]:
    """`reading`, the failure that it tells of, or nothing: 0 is no bandwidth, but may be a deviation."""
    value = reading.value or 0.0
    if isfinite(value) and (value or reading.metric != "bandwidth"):
        yield reading
    elif reading.status.startswith("failed") and reading.metric == "bandwidth":
        yield Reading(reading.case, "bandwidth", None, reading.size, reading.status, reading.params)


def _bandwidth(size: int, average: str, rate: str, unit: float, status: str) -> tuple[float, float, str]:
    """Bandwidth and message rate, from the one of the two that was printed more exactly, nan if they failed;
    their status."""
    bandwidth, from_rate = float(average) * unit, float(rate) * 1e6 * size
    if not (size and 0 < bandwidth + from_rate < inf):
        return nan, nan, f"failed: the result is {average}"
    bandwidth_error = _HALF_A_UNIT[len(average.partition(".")[2])] * unit
    rate_error = _HALF_A_UNIT[len(rate.partition(".")[2])] * 1e6 * size
    if abs(bandwidth - from_rate) > bandwidth_error + rate_error + _SLACK * from_rate and status == OK:
        status = f"invalid: {average} and the message rate {rate} contradict each other: a wrong unit"
    if bandwidth_error * from_rate > rate_error * bandwidth:
        bandwidth = from_rate
    return bandwidth, bandwidth / size, status


def _metric(case: str) -> str:
    return "latency" if case.endswith("_lat") else "bandwidth"


def _failure(case: str, params: Mapping[str, str], text: str) -> Reading:
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
            yield _failure(program or "perftest", {}, text)
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
    set_up = [(name, fields[key]) for key, name in _JSON_SET_UP.items() if key in fields]
    cells = {
        name: fields[key]
        for key, name in _JSON_COLUMNS.items()
        if re.fullmatch(rf"{NUMBER}|-?nan|-?inf", fields.get(key, ""))
    }
    case, params = _qualified(test.removesuffix("_Test"), set_up)
    unit = 0.0
    if {"BW average", "MsgRate"} <= cells.keys():
        printed = float(cells["BW average"])
        expected = float(cells["MsgRate"]) * 1e6 * int(size)
        unit = min(_UNITS.values(), key=lambda unit: abs(printed * unit - expected))
    row, layout = list(cells.values()), _layout(list(cells), unit)
    if unit:
        fits = next(_rows(row, layout, case, params, OK)).status
        if fits.startswith("invalid"):  # which of two numbers in an unknown unit is right nobody knows
            return [failed(case, "bandwidth", f"unknown unit: {fits.removeprefix('invalid: ')}", int(size))]
    return list(_rows(row, layout, case, params, status))
