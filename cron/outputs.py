"""A verdict for people and machines: a table for terminal and mail, JUnit XML."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Final

from npc.columns import columns
from npc.cron.series import label, matches
from npc.cron.verdict import NightVerdict, SeriesVerdict
from npc.hostlist import host_text
from npc.page.blocks import Column, Table
from npc.records.record import moment
from npc.records.units import METRICS, between, format_quantity
from npc.records.verdicts import NightSuspect, PairMatrix, Verdict

#: Rows of the table, at most; verdict.json has all.
ROWS: Final = 60
#: Series of a night of the past, at most; `npc night history --replay --json` has all.
REPLAYED: Final = 8
#: Reasons for records without use, of each benchmark.
REASONS: Final = 6
#: What ends a line, or is a space that moves what follows; tools' words may hold anything.
_SPACE: Final = re.compile(r"[\t-\r\x1c-\x1f\x85\u2028\u2029]+")
#: Other characters that would change a terminal, and what is none (lone surrogates).
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
REPLACED: Final = "\ufffd"
#: Characters that XML 1.0 does not allow (section 2.2).
_NOT_XML: Final = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


# -- for people ----------------------------------------------------------------------------------------


def table(
    night: NightVerdict,
    notes: Sequence[str] = (),
    matrix: PairMatrix | None = None,
    drain: Sequence[str] = (),
) -> str:
    """What a person reads in the morning: the worst first, whom to look at, what happened besides.

    drain: command lines that would drain whom the night names.
    """
    lines = [_headline(night), "", *([str(night.common), ""] if night.common else [])]
    unusual = [series for series in night.series if series.verdict is not Verdict.PASS]
    if unusual:
        lines += [*_rows(unusual[:ROWS]), ""]
        if len(unusual) > ROWS:
            lines += [f"and {len(unusual) - ROWS} more, in verdict.json", ""]
    short = sum(series.reference is None for series in night.series if series.verdict is Verdict.PASS)
    if short:
        lines += [f"{short} of them with too few nights to judge", ""]
    lines += [_suspect(suspect) for suspect in night.suspects if suspect.named or unusual]
    lines += [f"finding: {finding}" for finding in night.findings if finding.new]
    if matrix:
        lines += [str(matrix)]
    for benchmark, reasons in night.failures.items():
        lines += [f"{benchmark}: {reason}" for reason in reasons[:REASONS]]
        if len(reasons) > REASONS:
            lines += [f"{benchmark}: and {len(reasons) - REASONS} more reasons, in verdict.json"]
    lines += [f"note: {note}" for note in notes]
    lines += ["to drain:", *(f"  {line}" for line in drain)] if drain else []
    if unusual:
        lines += [f"rule: {rule}" for rule in night.rule]
    while not lines[-1]:
        lines.pop()
    return _text(lines)


def _headline(night: NightVerdict) -> str:
    return f"{night.platform}, night {night.run}: {night.verdict.name} ({_counts(night)}){_blamed(night)}"


def _counts(night: NightVerdict) -> str:
    counts = ", ".join(f"{number} {name}" for name, number in reversed(night.counts.items()) if number)
    if not counts:
        return "no series"
    return counts if night.counts[night.verdict.name] else f"series: {counts}"


def _blamed(night: NightVerdict) -> str:
    named = ", ".join(suspect.whom for suspect in night.suspects if suspect.named)
    reasons: dict[str, list[str]] = {}
    for name, reason in night.lost.items():
        reasons.setdefault(reason, []).append(name)
    gone = (
        f"; lost {'node' if len(names) == 1 else 'nodes'} {host_text(names)}: {reason}"
        for reason, names in reasons.items()
    )
    return "".join(gone) + (f"; to blame: {named}" if named else "")


def replayed(night: NightVerdict, then: str | None, pattern: str = "*") -> str:
    """A night of the past: its line, and one for each series that is not PASS, the worst first.

    then: its verdict when it was judged, None if nobody did. pattern: whose lines.
    """
    unusual = [s for s in night.series if s.verdict is not Verdict.PASS and matches(pattern, s.key)]
    before = f", then {then}" if then and then != night.verdict.name else ""
    lines = [f"{night.run}  {night.verdict.name}{before} ({_counts(night)}){_blamed(night)}"]
    for judged in unusual[:REPLAYED]:
        value = "" if judged.value is None else f" {_quantity(judged, judged.value)}"
        usual = "" if judged.reference is None else f", usual {_quantity(judged, judged.reference)}"
        why = judged.reason.partition("\n")[0]
        lines.append(f"    {judged.verdict.name:8}  {label(judged.key)}:{value}{usual}: {why}")
    if len(unusual) > REPLAYED:
        lines.append(f"    and {len(unusual) - REPLAYED} more, with --json")
    return _text(lines)


def _text(lines: Sequence[str]) -> str:
    """The lines, each of them one line whatever tools' words are in it."""
    return "".join(f"{_CONTROL.sub(REPLACED, _SPACE.sub(' ', line))}\n" for line in lines)


def _rows(series: Sequence[SeriesVerdict]) -> list[str]:
    """The lines of the table: a row that is folded has several."""
    rows = columns(Table.of("", series, _COLUMNS).texts(), keep_empty=False)
    return [line for row in rows for line in row.split("\n")]


def _quantity(judged: SeriesVerdict, value: float | None) -> str:
    return "" if value is None else format_quantity(value, METRICS[judged.key.metric].unit)


def _change(judged: SeriesVerdict) -> str:
    if judged.effect is None:
        return ""
    worse = f" {judged.direction}" if judged.direction in ("worse", "better") else ""
    return f"{judged.effect:+.1%}{worse}"


_COLUMNS: Final[Sequence[Column[SeriesVerdict]]] = (
    Column("verdict", lambda judged: judged.verdict.name),
    Column("series", lambda judged: label(judged.key)),
    Column("tonight", lambda judged: _quantity(judged, judged.value)),
    Column("again", lambda judged: _quantity(judged, judged.again)),
    Column("usual", lambda judged: _quantity(judged, judged.reference)),
    Column("change", _change),
    Column("since", lambda judged: judged.since),
    Column("why", lambda judged: judged.reason.partition("\n")[0]),
)


def _suspect(suspect: NightSuspect) -> str:
    what = "to blame" if suspect.named else "perhaps"
    if suspect.slowdown is None:
        by = " fails"
    else:
        interval = between(suspect.low, suspect.high, "{:.1%}".format, " [{}, {}]")
        by = f", {suspect.slowdown:.1%} worse{interval}"
    rivals = f"; or {', '.join(suspect.rivals)}" if suspect.rivals else ""
    since = f" since {suspect.since}" if suspect.since else ""
    return f"{what}: {suspect.whom}{by}{since}: {suspect.evidence}{rivals}"


# -- for CI --------------------------------------------------------------------------------------------


def junit(night: NightVerdict, notes: Sequence[str] = ()) -> str:
    """JUnit XML: a test case a series, one for what they have in common, one a suspect, a finding and a lost
    node, and one for the night where it has no series.

    A case fails for what the night's exit code is for: CHANGED, MISSING, DEGRADED and FAIL; INVALID is an
    error. A suspect on whom nobody is to act yet, and a finding, have passed, with their words.
    """
    suite = ET.Element("testsuite", name=_xml(f"npc.{night.platform}"))

    def case(where: str, name: str, verdict: Verdict, message: str, text: str = "") -> None:
        testcase = ET.SubElement(suite, "testcase", classname=_xml(where), name=_xml(name))
        if verdict.exit_code:
            element = "error" if verdict is Verdict.INVALID else "failure"
            ET.SubElement(testcase, element, type=verdict.name, message=_xml(message)).text = _xml(text)
        elif message:
            ET.SubElement(testcase, "system-out").text = _xml(message)

    for series in night.series:
        where = f"{night.platform}.{series.key.benchmark}"
        case(where, label(series.key), series.verdict, series.reason, "\n".join(_rows([series])))
    if night.common:
        case(night.platform, "everything", night.common.verdict, str(night.common))
    for suspect in night.suspects:
        case(f"{night.platform}.suspects", suspect.whom, suspect.verdict, _suspect(suspect))
    for finding in night.findings:
        case(f"{night.platform}.findings", f"node {finding.name}", Verdict.PASS, str(finding))
    for name, reason in night.lost.items():
        case(f"{night.platform}.nodes", name, Verdict.MISSING, f"lost: {reason}")
    if not night.series:
        reasons = [f"{name}: {reason}" for name, of in night.failures.items() for reason in of]
        case(night.platform, "night", night.verdict, "nothing was measured", "\n".join(reasons))
    for kind, path in (("tests", "testcase"), ("failures", "testcase/failure"), ("errors", "testcase/error")):
        suite.set(kind, str(len(suite.findall(path))))
    suite.set("timestamp", night.time and f"{moment(night.time):%Y-%m-%dT%H:%M:%S}")
    if notes:
        ET.SubElement(suite, "system-out").text = _xml("\n".join(notes))
    ET.indent(suite)
    text = ET.tostring(suite, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n'


def _xml(text: str) -> str:
    return _NOT_XML.sub(REPLACED, text)
