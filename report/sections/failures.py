"""What failed, what must not be believed, and why; with the tools' own last words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from npc.files import leads_out
from npc.page.blocks import (
    Block,
    Cell,
    Column,
    Table,
    Text,
    count,
)
from npc.records.launch import last_words
from npc.records.record import Record
from npc.records.units import plural, several
from npc.report.runs import Report, Run, hosts_of
from npc.report.sections import runs_of
from npc.validity import Violation, grouped, unusable
from npc.validity.rule import Rule

TITLE = "What failed, and why"
PLACE = 180
_MEANING = {
    "failed": "no usable number",
    "timeout": "it did not end in time",
    "invalid": "a number, but not to be believed",
    "unavailable": "cannot be had on this machine; no failure",
}
#: Raw files that are named of each group.
_MOST = 3


def build(report: Report) -> Iterator[Block]:
    """Run by run what is not ``ok``, grouped by reason; then the notes on numbers that may be used."""
    for run in runs_of(report):
        bad = [record for record in run.records if not record.ok]
        notes = [finding for finding in run.findings if finding.rule.level == "note"]
        where = report.label(run)
        if not run.records:
            yield Text(f"There are no records{where}.", "bad")
        elif not bad and not notes:
            yield Text(f"Nothing failed, and no rule doubts a number{where}.", "good")
        if bad:
            yield _statuses(report, run, bad, where)
        if notes:
            yield _notes(report, run, notes, where)


def _statuses(report: Report, run: Run, bad: Sequence[Record], where: str) -> Table:
    """A row for each reason."""
    rules: dict[int, Rule] = {}
    for finding in run.findings:
        rules.setdefault(id(run.records[finding.place]), finding.rule)
    rows = []
    for alike in unusable(bad):
        kind, _, reason = alike[0].status.partition(": ")
        rule = next((rules[id(record)] for record in alike if id(record) in rules), None)
        said = f"{rule.name}: {rule.title} ({rule.source})" if rule else ""
        rows.append(
            (
                Cell(kind, kind="note" if kind == "unavailable" else "bad"),
                _test(run, alike),
                count(len(alike)),
                Cell(reason or _MEANING.get(kind, "")),
                Cell(said or _words(run, alike)),
                Cell(several(hosts_of(alike))),
                *_raw(report, run, alike),
            )
        )
    rows.sort(key=lambda row: tuple(_MEANING).index(row[0].text) if row[0].text in _MEANING else 9)
    columns = (
        "what", "test", "records", "reason", "rule, or the tool's last words", "hosts", "raw file",
        "its stderr",
    )  # fmt: skip
    return Table(
        f"{plural(len(bad), 'record')} of {len(run.records)} not used{where}",
        columns,
        tuple(rows),
        note="; ".join(f"{kind}: {words}" for kind, words in _MEANING.items()),
    )


def _test(run: Run, alike: Sequence[Record]) -> Cell:
    """The benchmark and cases of some records, which leads to their series."""
    cases = list(dict.fromkeys(record.case for record in alike if record.case))
    idents = list(dict.fromkeys(run.idents[id(record)] for record in alike))
    return Cell(f"{alike[0].benchmark} {several(cases)}", idents)


def _words(run: Run, records: Sequence[Record]) -> str:
    """The last line that the tool printed, where it tells more than the reason does."""
    for record in records:
        for suffix in (".err", ".out"):
            path = (run.folder / record.raw).with_suffix(suffix) if record.raw else Path()
            if path.is_file() and not leads_out(path, run.folder, *(guest.folder for guest in run.guests)):
                said = last_words(path)
                if said and said not in record.status:
                    return said
    return ""


def _raw(report: Report, run: Run, records: Sequence[Record]) -> tuple[Cell, Cell]:
    raw = next((record.raw for record in records if record.raw), "")
    if not raw:
        return Cell(""), Cell("")
    error = Path(raw).with_suffix(".err")
    has = raw.endswith(".out") and (run.folder / error).is_file() and (run.folder / error).stat().st_size > 0
    return (
        Cell(raw, href=report.href(run, raw)),
        Cell(error.name, href=report.href(run, error)) if has else Cell(""),
    )


def _notes(report: Report, run: Run, notes: Sequence[Violation], where: str) -> Table:
    columns: list[Column[Sequence[Violation]]] = [
        Column("rule", lambda alike: alike[0].rule.name),
        Column("test", lambda alike: _test(run, [run.records[violation.place] for violation in alike])),
        Column("records", lambda alike: count(len(alike))),
        Column("what it saw", lambda alike: alike[0].reason),
        Column("why it matters", lambda alike: f"{alike[0].rule.title} ({alike[0].rule.source})"),
    ]
    caption = f"Numbers that are true, and worth a look{where}"
    return Table.of(caption, grouped(run.records, notes), columns)
