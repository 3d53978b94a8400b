"""Numbers of one measurement that contradict each other."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from npc import catalogue
from npc.records.record import Record
from npc.records.series import RECEIVED
from npc.records.units import format_quantity
from npc.validity.arithmetic import TOLERANCE, contradiction
from npc.validity.rule import Circumstances, rule_of_run

#: IMB prints MB/s and µs with two digits behind the point; its MB were of 2^20 bytes.
_IMB_RATE_STEP: Final = 0.01 * 2**20
_IMB_TIME_STEP: Final = 0.01e-6
#: IMB-P2P's tests have the same names, but their rate follows from the messages of all pairs and both ways.
_IMB_PROGRAM: Final = "IMB-MPI1"
#: OSU prints MB/s with two digits, perftest and others more.
_RATE_STEP: Final = 0.01e6


@rule_of_run(
    "imb_rate",
    "IMB: rate against bytes and time",
    "Intel MPI Benchmarks User Guide, 'IMB-MPI1 Benchmarks': PingPong bytes/t, Sendrecv 2·bytes/t_max, "
    "Exchange 4·bytes/t_max, MB = 10^6",
)
def imb_rate_against_time(records: Sequence[Record], _: Circumstances) -> Iterator[tuple[int, str]]:
    """The MB/s of each row, compared with its own bytes and time."""
    for group in _rows(records, "statistic"):
        place = _headline(records, group, "bandwidth")
        if place is None or not (count := catalogue.row_of(records[place]).counted):
            continue
        bandwidth = records[place]
        if bandwidth.params.get("program", _IMB_PROGRAM) != _IMB_PROGRAM:
            continue
        of_row = [records[other] for other in group if records[other].metric in ("latency", "time")]
        column = "max" if count > 1 else ""  # of all ranks, where several send
        times = [record.value for record in of_row if record.params.get("statistic", "") == column]
        seconds = times[0] if times else None
        if seconds and bandwidth.size and bandwidth.value is not None:
            moved = count * bandwidth.size
            reason = contradiction(bandwidth.value, moved, seconds, _IMB_RATE_STEP, _IMB_TIME_STEP)
            if reason:
                yield place, f"{reason} (IMB counts {count} × {bandwidth.size} bytes)"


@rule_of_run(
    "message_rate",
    "bandwidth against message rate × size",
    "bandwidth = message rate × message size; OSU osu_mbw_mr.c, perftest_resources.c",
)
def bandwidth_against_message_rate(records: Sequence[Record], _: Circumstances) -> Iterator[tuple[int, str]]:
    """Rows that have both numbers: a wrong prefix shows here."""
    for group in _rows(records):
        place, other = (_headline(records, group, metric) for metric in ("bandwidth", "message_rate"))
        if place is None or other is None or not records[place].size:
            continue
        bandwidth, messages, size = records[place].value, records[other].value, records[place].size
        if bandwidth is None or messages is None or size is None:
            continue
        step = 1 / messages if messages else 0.0  # tools print whole messages a second
        if reason := contradiction(bandwidth, messages * size, 1.0, _RATE_STEP, step):
            yield place, f"{reason} ({format_quantity(messages, '1/s')} messages of {size} bytes)"


@rule_of_run(
    "arrived",
    "the sender counts what the receiver never got",
    "qperf(1): send_bw and recv_bw; RFC 768: UDP gives no guarantee of delivery, nor do UC and UD "
    "(InfiniBand Architecture Specification vol. 1, chapter 9)",
)
def sent_but_not_received(records: Sequence[Record], _: Circumstances) -> Iterator[tuple[int, str]]:
    """Rates of a sender over UDP or an unreliable RDMA transport (UC, UD), against those of its receiver, or
    against what npb saw arrive."""
    for group in _rows(records, "side"):
        sent = [place for place in group if records[place].params.get("side") == "send"]
        for place in sent:
            record = records[place]
            if record.value is None or not catalogue.row_of(record).lossy:
                continue
            received = [
                records[other].value
                for other in group
                if other not in sent and records[other].metric == record.metric
            ]
            share = None
            if received and received[0] is not None:
                share = received[0] / record.value if record.value else None
            elif lost := [records[other].value for other in group if records[other].metric == "loss"]:
                share = 1 - (lost[0] or 0.0)
            elif re.fullmatch(r"[01]\.[0-9]+", record.params.get(RECEIVED, "")):
                share = float(record.params[RECEIVED])
            if share is None and not received:
                yield place, "the sender's count alone: nobody knows whether anything arrived"
            elif share is not None and share < 1 - TOLERANCE:
                yield place, f"the sender's figure, of which {1 - share:.0%} never arrived"


def _rows(records: Sequence[Record], *without: str) -> list[list[int]]:
    """Places of the records that one row or block of a tool's text gave: same launch, case, size, params.

    `without`: params that tell the numbers of a row apart.
    """
    rows: defaultdict[tuple[object, ...], list[int]] = defaultdict(list)
    for place, record in enumerate(records):
        params = {name: value for name, value in record.params.items() if name not in without}
        where = (record.raw, record.sample, record.time, record.benchmark, record.case, record.size)
        rows[(*where, json.dumps(params, sort_keys=True))].append(place)
    return list(rows.values())


def _headline(records: Sequence[Record], group: Sequence[int], metric: str) -> int | None:
    """The place of the one headline number of `metric`; None if there is none or more than one."""
    headlines = [
        place
        for place in group
        if records[place].metric == metric and "statistic" not in records[place].params
    ]
    return headlines[0] if len(headlines) == 1 else None
