"""The line at a picture's foot: whose measurements it shows, of which runs and days."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from npc.hostlist import host_text
from npc.records.record import Record

_MOST_NAMED: Final = 3


def of_records(records: Collection[Record]) -> str:
    """That of a picture of records; empty of none."""
    if not records:
        return ""
    platforms = ", ".join(sorted({record.platform for record in records}))
    hosts = sorted({host for record in records for host in record.hosts})
    runs = sorted({record.run for record in records} - {""})
    times = [record.time for record in records]
    return source_line(platforms, hosts, runs, min(times), max(times))


def source_line(platform: str, hosts: Sequence[str], runs: Sequence[str], first: str, last: str) -> str:
    """``fuchs: n1, n2; run 000003; measured 2026-11-23``. first, last: ISO 8601 times, UTC."""
    named = ", ".join(runs) if len(runs) <= _MOST_NAMED else f"{runs[0]} to {runs[-1]} ({len(runs)})"
    parts = [
        f"{platform}: {host_text(hosts)}" if hosts else platform,
        f"run{'s' * (len(runs) > 1)} {named}" if runs else "",
        f"measured {day_text(first, last)}" if first else "",
    ]
    return "; ".join(filter(None, parts))


def day_text(first: str, last: str) -> str:
    """The day of both times, or the first and the last."""
    return " to ".join(dict.fromkeys((first[:10], last[:10])))
