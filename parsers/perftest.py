"""perftest (ib_send, _write, _read, _atomic, each _bw and _lat): RDMA bandwidth, latency, rate.

A title names the test (``RDMA_Write Bidirectional BW Test``), lines below it the device, the transport and
the number of queue pairs, then comes a table. Columns count by their headings: options add and drop some.

- ``MB/sec`` (newer: ``MiB/sec``) is 2^20 bytes, ``Gb/sec`` 10^9 bits, ``Mpps`` 10^6 messages. Average and
  message rate × size say the same: both readings come from the one that was printed with more digits, and a
  row in which they disagree is invalid (the server's, if only its client knows of ``--report_gbits``).
- ``BW peak`` is ``{"statistic": "max"}``, 0.00 where it was not measured.
- Latency is the average, the only figure that every mode prints; ``t_typical`` is the median (``p50``). Of
  send and write it is half the round trip, of read and atomic the whole operation.
- Messages in a GPU's memory are told by ``memory``.
- More than 100 Gbit/s by one queue pair bear a note, unless a port of 200, 400 or 800 Gbit/s is full then:
  what limits may be the pair, not the port.
- With ``-C`` latencies are clock cycles under a heading of microseconds: invalid.
- The server's tables are invalid: its clock starts before the client's, and it may print the last size only.
- A reason that stands beside a table (stderr) spoils it: a client whose server was killed prints a row and
  exits 0.
- Where a set-up line contradicts the command line (``-m 8192``, ``Mtu: 4096[B]``) the numbers are invalid.
- A table without its closing rule ended early where ``-a`` or its rows promise more: also a failure.
- ``--out_json`` writes no unit, and once wrote no JSON; which unit it is follows from the message rate.
- ``--output=…`` prints a bare number, which only the command line explains.

Source: ``perftest_parameters.h``, ``perftest_resources.c`` of its sources; ``--help``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import inf, isfinite
from operator import itemgetter
from pathlib import PurePath
from typing import Final

from npc.parsers.text.lines import DECIMAL_2, DECIMAL_6, NUMBER, WHOLE, complete_lines, sections
from npc.parsers.text.options import option, words_after
from npc.parsers.text.runs import of_one_run
from npc.parsers.text.tables import whole_rows
from npc.records.reading import OK, Reading, failed, with_note
from npc.validity.arithmetic import last_digit, message_contradiction

_PROGRAM: Final = re.compile(r"ib_(?:send|write|read|atomic)_(?:bw|lat)")
_TITLE: Final = re.compile(
    r"\n {8,40}((?:RDMA_Write(?:_imm)?|RDMA_Read|Send|Atomic) [A-Za-z_ ]{2,80}) Test[ \t]*(?=\n)"
)
_HEADING: Final = re.compile(r"\n {1,20}(#bytes[^\n]*)(?=\n)")
_NUMBER: Final = rf"-?{NUMBER}|-?nan|-?inf"
_SET_UP: Final = {
    "connection": re.compile(r"\n *Connection type +: (\w+)"),
    "device": re.compile(r"[ \t]Device {1,20}: (\S+)"),
    "qps": re.compile(r"\n *Number of qps +: ([0-9]{1,9})\b"),
    "MTU": re.compile(r"\n *Mtu +: ([0-9]{1,9})(?=\[B\]\n|\n)"),
}
_RULE: Final = re.compile(r"\n *-{40,}(?=\n)")
#: Where the messages lie, if not in the host's memory.
_GPU: Final = re.compile(r"\n(?:initializing (CUDA|MLU)| Use (ROCm) memory : ON)(?=\n)")
#: What the command line may ask for, and by which options.
_OPTIONS_OF: Final = {
    "connection": ("-c", "--connection"),
    "device": ("-d", "--ib-dev"),
    "qps": ("-q", "--qp"),
    "MTU": ("-m", "--mtu"),
}
_SERVER: Final = "* Waiting for client to connect... *"
_COLUMN: Final = re.compile(r"#\w+|\S+(?: \S+)*")
_PART: Final = re.compile(r"\n (Local|Remote) results:")
_BARE: Final = re.compile(rf"\n({DECIMAL_6})[ \t]*(?=\n)")
_NO_DEVICE: Final = re.compile(r"\n ?(Did not detect devices|Failed to get IB devices list[^\n]*)")
_REASON: Final = re.compile(
    r"\n ?((?:[a-z]\w{0,39}: )?(?!Unable to validat)(?:Couldn't|Unable to|Failed|Error|ERROR|Invalid"
    r"|Completion with error|IB device|Gid index|Max message size|Message size"
    r"|Duration mode|Iteration num|unrecognized option)[^\n]*)"
)
#: What one printed unit is in bytes per second.
_UNITS: Final = {"MB/sec": 2.0**20, "MiB/sec": 2.0**20, "Gb/sec": 1e9 / 8}
#: Column, or key of ``--out_json`` → metric, how many of its units one SI unit is, qualifiers.
_QUANTITIES: Final[dict[str, tuple[str, float, dict[str, str]]]] = {
    "CPU_Util": ("cpu", 100.0, {"side": "client"}),
    "t_avg": ("latency", 1e6, {}),
    "t_min": ("latency", 1e6, {"statistic": "min"}),
    "t_max": ("latency", 1e6, {"statistic": "max"}),
    "t_typical": ("latency", 1e6, {"statistic": "p50"}),
    "t_stdev": ("latency", 1e6, {"statistic": "stdev"}),
    "99% percentile": ("latency", 1e6, {"statistic": "p99"}),
    "99.9% percentile": ("latency", 1e6, {"statistic": "p99.9"}),
    "percentile_99": ("latency", 1e6, {"statistic": "p99"}),
    "percentile_99.9": ("latency", 1e6, {"statistic": "p99.9"}),
}
#: Ports in B/s (HDR, NDR, XDR) that one queue pair may not fill, as it does slower ones; above this part of
#: their rate they are full.
_FAST_PORTS: Final = (200e9 / 8, 400e9 / 8, 800e9 / 8)
_SLOWER_PORT: Final = 100e9 / 8
_FULL: Final = 0.9
_READ: Final = ("BW peak", "BW average", "MsgRate", *_QUANTITIES)
_KNOWN_UNITS: Final = ("", *_UNITS, "Mpps", "usec", "%")
_JSON: Final = re.compile(r"\n\{\n[^{}]{0,9999}(?:\{[^{}]{0,9999}\}[^{}]{0,9999}){0,9}\n\}(?=\n)")
_JSON_FIELD: Final = re.compile(r'\n[ \t]*"?([\w.]{1,40})"? ?: ?"?([^",\n{]{1,60})"?,?[ \t]*(?=\n)')
_JSON_SET_UP: Final = {
    "Connection_type": "connection",
    "Device": "device",
    "Number_of_qps": "qps",
    "Mtu": "MTU",
}
_DEFAULT_SIZE: Final = {"bw": "65536", "lat": "2"}
#: The option, perhaps behind others without a value in the same word.
_CYCLES: Final = re.compile(r"-[aebFgNORHUz]*C|--report-cycles")
_ALL_SIZES: Final = re.compile(r"-[abeFgNORHUzC]*a[abeFgNORHUzC]*|--all")
#: A row of the same size every few seconds.
_ENDLESS: Final = "--run_infinitely"
_LARGEST: Final = 1 << 23
_IN_CYCLES: Final = "invalid: -C prints clock cycles under a heading of microseconds"
_OF_SERVER: Final = "invalid: printed by the server: the client's figures count"
PROGRAMS: Final = r"(?:ib|raw_ethernet)_(?:send|write|read|atomic|bw|lat|burst_lat|fs_rate)(?:_(?:bw|lat))?"
MARKS: Final = (
    r" {0,40}(?:RDMA_Write(?:_imm)?|RDMA_Read|Send|Atomic) [A-Za-z_ ]+ Test[ \t]*$"
    r'|[ \t]*"?test_info"?: ?\{|\* Waiting for client to connect|initializing (?:CUDA|MLU)'
    r"|(?: Did not detect devices|Failed to get IB devices list)"
)
ROWS: Final = (
    r" *#bytes +#iterations| *[0-9]+ +[0-9]+(?:[ \t]+-?[0-9.]+){2}[ \t]+[0-9]+\.[0-9]{6}[ \t]*$"
    r"| *[0-9]+ +[0-9]+(?:[ \t]+[0-9]+\.[0-9]{2}){7}[ \t]*$"
)


def parse(text: str, argv: Sequence[str] = ()) -> Iterator[Reading]:
    """Readings of one or several tests, or of a ``--out_json`` file; or the reason why there are none."""
    program = next((name for word in argv if _PROGRAM.fullmatch(name := PurePath(word).name)), "")
    words = words_after(argv, program)
    text = complete_lines(text)
    reason = _REASON.search(text)
    spoilt = f"invalid: {reason[1].strip()}" if reason else OK
    clients = _IN_CYCLES if not reason and any(map(_CYCLES.fullmatch, words)) else spoilt
    end = 0
    for title, body in sections(_TITLE, text):
        above = text[end : title.start()]
        test = _test(title[1], above, body, _OF_SERVER if _SERVER in above else clients, words)
        yield from test if _ENDLESS in words else of_one_run(test)
        end = title.end()
    if not end:
        yield from _json(text, spoilt, words) or _without_title(text, program, words)


def _test(title: str, above: str, body: str, status: str, words: Sequence[str]) -> Iterator[Reading]:
    """Readings of a test's tables; of a test without a row, its failure."""
    set_up = {name: match[1] for name, pattern in _SET_UP.items() if (match := pattern.search(body))}
    if gpu := _GPU.search(above) or _GPU.search(body):
        set_up["memory"] = gpu.group(gpu.lastindex or 0).lower()
    case, params = _qualified(title, set_up)
    status = status if status != OK else _as_asked(set_up, words)
    any_row, end = False, 0
    for heading, lines in sections(_HEADING, body):
        part = _PART.search(body, end, heading.start() + 1)
        end = heading.end()
        columns = dict(name.rstrip("]").partition("[")[::2] for name in _COLUMN.findall(heading[1]))
        keys = [place for place, name in enumerate(columns) if name in ("#bytes", "#sl")]
        if _ENDLESS in words:
            keys = []
        rows, wrong = whole_rows(lines, [_cell(name) for name in columns], keys)
        any_row |= bool(rows or wrong)
        own = {**params, "part": part[1].lower()} if part else params
        if wrong:
            yield failed(case, _metric(case), wrong, params=own)
        unit = _UNITS.get(columns.get("BW average", ""), 0.0)
        unknown = [name for name, unit in columns.items() if name in _READ and unit not in _KNOWN_UNITS]
        if rows and unknown:
            reason = f"unknown unit: {unknown[0]}[{columns[unknown[0]]}]"
            yield failed(case, _metric(case), reason, params=params)
            continue
        cells = [dict(zip(columns, row, strict=True)) for row in rows]
        readings = [placed for row in cells for placed in _row(row, unit, case, own, status)]
        yield from (reading for _, reading in sorted(readings, key=itemgetter(0)))  # column by column
        sizes = [int(row["#bytes"]) for row in cells]
        sweep = len(set(sizes)) > 1 or any(map(_ALL_SIZES.fullmatch, words))
        if sweep and max(sizes, default=_LARGEST) < _LARGEST and not _RULE.search(lines) and status == OK:
            yield failed(case, _metric(case), f"the table ended early, at {max(sizes)} bytes", params=own)
    if not any_row:
        yield _failure(case, params, body)


def _cell(name: str) -> str:
    """What the cells of the column `name` are like; Gbit/s below 10 have more decimals than others."""
    if name.startswith("#"):
        return WHOLE
    return rf"-?{DECIMAL_6 if name == 'MsgRate' else DECIMAL_2}|-?nan|-?inf"


def _as_asked(set_up: Mapping[str, str], words: Sequence[str]) -> str:
    """The status of a test: ok only where what it printed of itself is what its command line asked for."""
    for name, flags in _OPTIONS_OF.items():
        wanted, got = option(words, *flags), set_up.get(name)
        doubled = (
            name == "qps" and got and wanted == str(int(got) // 2)
        )  # of two ports, of XRC and DC with -b
        if wanted and got and wanted != got and not doubled:
            return f"invalid: asked for {name} {wanted}, got {got}"
    return OK


def _qualified(title: str, set_up: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Case and params of a test; the number of queue pairs only where it is not the usual one.

    Blanks or underscores part the words of a title.
    """
    words = title.replace("_", " ").replace("RDMA ", "").split(" ")
    params = {"direction": "bidir"} if "Bidirectional" in words else {}
    if words[0] == "Atomic":
        params["operation"] = "compare_swap" if "SWAP" in words else "fetch_add"
    elif "imm" in words:
        params["operation"] = "write_with_imm"
    others = {name: value for name, value in set_up.items() if name != "MTU"}
    params |= {name: value for name, value in others.items() if (name, value) != ("qps", "1")}
    return f"ib_{words[0].lower()}_{'bw' if 'BW' in words else 'lat'}", params


def _row(
    row: Mapping[str, str], unit: float, case: str, params: Mapping[str, str], status: str
) -> Iterator[tuple[int, Reading]]:
    """Readings of a row (column → cell) with their order; unit: of bandwidths in B/s, 0 if there are none."""
    size = int(row["#bytes"])
    if "#sl" in row:
        params = {**params, "sl": row["#sl"]}
    if unit:
        value, checked = _bandwidth(row, unit, status)
        if value:
            reading = Reading(case, "bandwidth", value, size, checked, params)
            one_qp = "qps" not in params and _below_a_fast_port(value)
            yield 0, with_note(reading, "one queue pair, which may limit it: try -q 4") if one_qp else reading
            if "MsgRate" in row:  # not before 2.0
                yield 1, Reading(case, "message_rate", value / size, size, checked, params)
        else:
            yield 0, failed(case, "bandwidth", f"the result is {row['BW average']}", size, params)
        peak = float(row.get("BW peak", 0))
        if 0 < peak < inf:
            yield 2, Reading(case, "bandwidth", peak * unit, size, status, {**params, "statistic": "max"})
    for place, (name, (metric, a_unit, own)) in enumerate(_QUANTITIES.items(), start=3):
        value = float(row.get(name, "nan")) / a_unit
        if isfinite(value) and value >= 0:
            yield place, Reading(case, metric, value, size, status, {**params, **own})
        elif value < 0:  # a counter that overflowed
            yield place, failed(case, metric, f"the result is {row[name]}", size, {**params, **own})


def _below_a_fast_port(rate: float) -> bool:
    """Whether a rate in B/s is more than a port of 100 Gbit/s has, and that of no full one."""
    return rate > _SLOWER_PORT and not any(_FULL * port < rate <= port for port in _FAST_PORTS)


def _bandwidth(row: Mapping[str, str], unit: float, status: str) -> tuple[float, str]:
    """Bandwidth in B/s, 0 if it failed, and its status: as printed, or from the message rate where that was
    printed more exactly."""
    size, average, rate = int(row["#bytes"]), row["BW average"], row.get("MsgRate")
    bandwidth = float(average) * unit
    if rate is None:
        return bandwidth if 0 < bandwidth < inf else 0.0, status
    from_rate = float(rate) * 1e6 * size
    if not (size and min(bandwidth, from_rate) >= 0 and 0 < bandwidth + from_rate < inf):
        return 0.0, status
    if status == OK and (lie := message_contradiction(average, unit, size * 1e6, rate)):
        status = f"invalid: {lie}"
    rounded = last_digit(average) * unit * from_rate > last_digit(rate) * 1e6 * size * bandwidth
    return from_rate if rounded else bandwidth, status


def _metric(case: str) -> str:
    return "latency" if case.endswith("_lat") else "bandwidth"


def _failure(case: str, params: Mapping[str, str], text: str) -> Reading:
    """The reading of a test without a number."""
    metric = _metric(case)
    if device := _NO_DEVICE.search(text):
        return failed(case, metric, f"unavailable: no RDMA device: {device[1]}", params=params)
    reason = _REASON.search(text)
    return failed(case, metric, reason[1] if reason else "no result was printed", params=params)


def _without_title(text: str, program: str, words: Sequence[str]) -> Iterator[Reading]:
    """The reading of ``--output=…``, or why there is none."""
    if {"-h", "--help", "-V", "--version"} & set(words):
        return
    metric, bare = option(words, "--output"), _BARE.search(text)
    given = option(words, "-s", "--size") or _DEFAULT_SIZE.get(program.rpartition("_")[2], "")
    size = "8" if "_atomic_" in program else given
    bandwidths = _UNITS["Gb/sec" if "--report_gbits" in words else "MB/sec"]
    units = {"bandwidth": bandwidths, "message_rate": 1e6, "latency": 1e-6}
    if bare and metric in units and size.isdecimal():
        status = _OF_SERVER if _SERVER in text else OK
        yield Reading(program, metric, float(bare[1]) * units[metric], int(size), status)
    elif program or _NO_DEVICE.search(text):
        yield _failure(program or "perftest", {}, text)


def _json(text: str, status: str, words: Sequence[str]) -> list[Reading]:
    """Readings of a ``--out_json`` file; none if `text` is no such file, or only a part of one."""
    document = _JSON.search(text)
    pairs = _JSON_FIELD.findall(document[0]) if document else []
    fields = dict(pairs) if len(dict(pairs)) == len(pairs) else {}  # else those of several runs
    test, size = fields.get("test", ""), fields.get("MsgSize", "")
    if not test.endswith("_Test") or not re.fullmatch(WHOLE, size):
        return []
    set_up = {name: fields[key] for key, name in _JSON_SET_UP.items() if key in fields}
    status = status if status != OK else _as_asked(set_up, words)
    case, params = _qualified(test.removesuffix("_Test"), set_up)
    numbers = {key: number for key, number in fields.items() if re.fullmatch(_NUMBER, number)}
    row = {"#bytes": size} | {key.replace("BW_", "BW "): number for key, number in numbers.items()}
    unit = 0.0
    if {"BW average", "MsgRate"} <= row.keys():
        expected = float(row["MsgRate"]) * 1e6 * int(size)
        unit = min(_UNITS.values(), key=lambda unit: abs(float(row["BW average"]) * unit - expected))
        _, fits = _bandwidth(row, unit, OK)
        if fits != OK:  # which of two numbers in an unknown unit is right nobody knows
            return [failed(case, "bandwidth", f"unknown unit: {fits.removeprefix('invalid: ')}", int(size))]
    return [reading for _, reading in _row(row, unit, case, params, status)]
