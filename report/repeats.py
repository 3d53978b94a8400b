"""A series in a page: the records that repeat each other, with the anchor that numbers lead to.

An anchor is like `r0s3`: of the first run the fourth series.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from npc.records.record import Record
from npc.records.series import Series, circumstances, neutral_case, test_name
from npc.statistics.medians import Summary, summarise


@dataclass(frozen=True, slots=True)
class Repeats:
    """Records that repeat each other."""

    #: Their anchor in the page.
    ident: str
    #: The records, in the order of the file; there is always one.
    records: tuple[Record, ...]

    @property
    def first(self) -> Record:
        """A record that stands for all: they differ in time, sample, status, value and raw file only."""
        return self.records[0]

    @property
    def params(self) -> Mapping[str, str]:
        """Those of a record that stands for all, and what its test's name says beside them."""
        return {**self.first.params, **Series.of(self.first).by_name}

    @property
    def usable(self) -> list[Record]:
        """Those whose value may be used."""
        return [record for record in self.records if record.ok and record.value is not None]

    @property
    def summary(self) -> Summary | None:
        """Median and interval of the usable ones; None if there are none."""
        values = [record.value for record in self.usable if record.value is not None]
        return summarise(values) if values else None

    @property
    def median(self) -> float:
        """Of the usable ones; 0 if there are none."""
        return self.summary.median if self.summary else 0.0

    @property
    def name(self) -> str:
        """The benchmark and its case, without the variant of a kernel."""
        return test_name(self.first.benchmark, neutral_case(self.first.benchmark, self.first.case))

    @property
    def qualifiers(self) -> str:
        """The params that all its records have, and the kernel's variant, in words."""
        shared = set.intersection(
            *({*record.params.items(), *circumstances(record).items()} for record in self.records)
        )
        return ", ".join(f"{name} {text}" for name, text in sorted(shared))
