"""What failed, what must not be believed, and why; with the tools' own last words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from npc.files import leads_out
from npc.hostlist import host_text
from npc.page.blocks import Block, Cell, Column, Table, Text, count
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

    def why(alike: Sequence[Record]) -> str:
        rule = next((rules[id(record)] for record in alike if id(record) in rules), None)
        return f"{rule.name}: {rule.title} ({rule.source})" if rule else _words(run, alike)

    columns: list[Column[Sequence[Record]]] = [
        Column("what", lambda alike: Cell(_kind(alike), kind=_tone(_kind(alike)))),
        Column("test", lambda alike: _test(run, alike)),
        Column("records", lambda alike: count(len(alike))),
        Column("reason", lambda alike: alike[0].status.partition(": ")[2] or _MEANING.get(_kind(alike), "")),
        Column("rule, or the tool's last words", why),
        Column("hosts", lambda alike: host_text(hosts_of(alike))),
        Column("raw file", lambda alike: _file(report, run, _raw(alike))),
        Column("its stderr", lambda alike: _file(report, run, _stderr(run, _raw(alike)), short=True)),
    ]
    kinds = list(_MEANING)
    return Table.of(
        f"{plural(len(bad), 'record')} of {len(run.records)} not used{where}",
        sorted(unusable(bad), key=lambda alike: kinds.index(_kind(alike)) if _kind(alike) in kinds else 9),
        columns,
        note="; ".join(f"{kind}: {words}" for kind, words in _MEANING.items()),
    )


def _kind(alike: Sequence[Record]) -> str:
    """``failed``, ``timeout``, … of records of one status."""
    return alike[0].status.partition(": ")[0]


def _tone(kind: str) -> str:
    return "note" if kind == "unavailable" else "bad"


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
                words = last_words(path)
                if words and words not in record.status:
                    return words
    return ""


def _raw(records: Sequence[Record]) -> str:
    """The first raw file of some records, relative to their run; empty where none is known."""
    return next((record.raw for record in records if record.raw), "")


def _stderr(run: Run, raw: str) -> str:
    """What was printed to stderr beside a raw file; empty where that is nothing."""
    error = Path(raw).with_suffix(".err") if raw.endswith(".out") else None
    path = run.folder / error if error else None
    return str(error) if path and path.is_file() and path.stat().st_size > 0 else ""


def _file(report: Report, run: Run, file: str, short: bool = False) -> Cell:
    """A link to a file of a run. short: by its name without its folder."""
    return Cell(Path(file).name if short else file, href=report.href(run, file)) if file else Cell("")


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
