"""Records of nights, made by hand."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from npc.records.record import Record, replace
from npc.records.series import Series

BEGUN = datetime(2026, 11, 20, 2, 30, tzinfo=timezone.utc)


def a_record(sample: int = 0, day: int = 0, **changes: object) -> Record:
    record = Record(
        time=(BEGUN + timedelta(days=day)).isoformat(), platform="fuchs", benchmark="qperf", case="tcp_bw",
        metric="bandwidth", value=1.1e9 + sample, unit="B/s", size=65536, nodes=2, hosts=("n1", "n2"),
        run=f"night{day}", sample=sample, params={"runtime": "2"},
    )  # fmt: skip
    return replace(record, **changes)


#: Of the same test.
KEY = Series("fuchs", "qperf", "tcp_bw", "bandwidth", 65536, 2, "{}")
