"""Jobs of one run that measured on the same node at the same time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from npc.records.launch import Launch
from npc.records.record import Record, moment
from npc.validity.rule import Circumstances, rule_of_run

#: Share of a launch's time; less may be one launch's end and the next one's start, or clocks that differ.
_LEAST: Final = 0.02


class _Span(NamedTuple):
    """When and in which job a launch ran."""

    #: Its start, in seconds since the epoch.
    begin: float
    #: Its end, in seconds since the epoch.
    end: float
    #: Its raw file, as records name it.
    raw: str
    #: The id of its job.
    job: str
    #: The name of its benchmark.
    benchmark: str


@rule_of_run(
    "beside",
    "a node that another job of the run measured on",
    "launches.jsonl, started and seconds; Hoefler, Belli, SC'15, rule 9 (document the experimental setup)",
)
def beside(records: Sequence[Record], circumstances: Circumstances) -> Iterator[tuple[int, str]]:
    """Launches of two jobs that ran on one node at the same time, for more than a fiftieth of the time of
    one."""
    on_node: defaultdict[str, dict[str, _Span]] = defaultdict(dict)
    for record in records:
        launch = circumstances.launches.get(record.raw)
        if launch and record.job:
            for host in launch.hosts:
                on_node[host].setdefault(record.raw, _span(record, launch))
    reasons: dict[str, str] = {}
    for host, spans in on_node.items():
        before: list[_Span] = []
        for span in sorted(spans.values()):
            before = [earlier for earlier in before if earlier.end > span.begin]
            for earlier in before:
                if earlier.job != span.job:
                    together = min(earlier.end, span.end) - span.begin
                    for one, other in ((earlier, span), (span, earlier)):
                        if (share := together / max(one.end - one.begin, 1e-9)) > _LEAST:
                            reasons.setdefault(one.raw, _reason(other, host, share))
            before.append(span)
    for place, record in enumerate(records):
        if record.raw in reasons:
            yield place, reasons[record.raw]


def _span(record: Record, launch: Launch) -> _Span:
    begin = moment(launch.started).timestamp()
    return _Span(begin, begin + launch.seconds, record.raw, record.job, record.benchmark)


def _reason(other: _Span, host: str, share: float) -> str:
    return (
        f"{other.benchmark} of job {other.job} measured on {host} for {share:.0%} of the time; "
        "measure one job after the other, or on whole nodes"
    )
