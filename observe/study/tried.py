"""What ``npc advise --try`` says: before it launches, and of what it measured; what its folder holds."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from npc.columns import columns
from npc.document import plain
from npc.files import parse_json, read_bytes
from npc.machine.programs import BestSetting
from npc.observe.study import remembering
from npc.observe.study.trying import Experiment, TrialAnswer, answer, compared, mpi_of, times, word_of
from npc.places import shown
from npc.records.environment import read_environment
from npc.records.launch import ENVIRONMENT, now
from npc.records.record import Record
from npc.records.units import between, format_duration, format_quantity, format_size, plural
from npc.report.advice.rule import TrialChange
from npc.report.compare.compared_series import ComparedSeries, ComparedSide
from npc.report.runs import Run
from npc.validity.disturbance import in_words, remark

SCHEMA: Final = 1
#: In the folder of what was measured for it.
TRIED_FILE: Final = "tried.json"
HEADER: Final = ("test", "size", "without", "with", "with/without", "95 % interval", "n", "")


def announced(experiment: Experiment, folder: Path) -> str:
    """What is going to be launched, how long that takes, and where it is kept."""
    runs, launch = experiment.runs, experiment.launch
    most = format_duration(2 * runs * experiment.timeout_s)
    about = format_duration(experiment.seconds)
    return (
        f"{experiment.rule.title} (rule {experiment.rule.name}): {experiment.hint.seen}\n"
        f"  without: {shlex.join(experiment.without)}\n"
        f"  with:    {shlex.join(experiment.changed)}\n"
        f"{2 * runs} launches, {runs} each, in turns: about {about} (one took {launch.seconds:.3g} s), "
        f"at most {most}; all of it is kept in {shown(folder)}\n"
    )


def text(
    experiment: Experiment, folder: Path, records: Sequence[Record], pairs: Sequence[ComparedSeries]
) -> str:
    """The table, and the answer below it."""
    rows = [HEADER, *map(row, pairs)]
    parts = ["\n".join(columns(rows, right={1, 2, 3, 4}))] if pairs else []
    trial_answer = answer(pairs, experiment.trial)
    lines = answer_lines(trial_answer, experiment.hint.of, experiment.hint.gain)
    if other := _other_mpi(experiment, folder):
        lines.append(f"The hint was measured with another MPI: {experiment.library}; this with {other}.")
    failed = [record for record in records if not record.ok]
    if failed:
        first = failed[0]
        lines.append(f"{plural(len(failed), 'record')} not usable, the first: {first.status} ({first.raw})")
    if disturbed := in_words(records):
        lines.append(remark(disturbed))
    keep = f"; to keep it, have jobs say it: {experiment.change}" if trial_answer.word == "better" else ""
    lines.append(f"Nothing was changed for good{keep}. Raw output and records: {shown(folder)}.")
    return "\n\n".join([*parts, "\n".join(lines)])


def keep(experiment: Experiment, folder: Path, pairs: Sequence[ComparedSeries]) -> str:
    """Remember the change for the platform, where it was shown to help and to harm nowhere; a sentence that
    says where, empty where nothing was shown. Raises OSError where even `folder` cannot be written."""
    trial_answer = answer(pairs, experiment.trial)
    best = trial_answer.best
    if (
        trial_answer.word != "better"
        or best is None
        or any(pair.verdict == "worse" for pair in trial_answer.elsewhere)
    ):
        return ""
    ends = [1 / end if times(best) != best.ratio else end for end in (best.low, best.high) if end]
    known = len(ends) == 2
    return remembering.keep(
        experiment.platform,
        BestSetting(
            program=experiment.program,
            setting=experiment.change,
            nodes=experiment.launch.nodes,
            ranks=int(experiment.launch.params.get("ranks") or 0),
            variables=dict(experiment.trial.set),
            times=times(best),
            low=min(ends) if known else None,
            high=max(ends) if known else None,
            against=f"without it, at {_size(best)}" if best.size is not None else "without it",
            time=now(),
            hosts=experiment.launch.hosts,
            by="npc advise --try",
            rule=experiment.rule.name,
            run=str(folder.absolute()),
        ),
        folder,
    )


def answer_lines(answer: TrialAnswer, of: str, gain: float | None) -> list[str]:
    """What became of what the hint is about (`of`), beside what it promised (`gain` times as fast at most);
    and what became of other sizes."""
    promised = f"; the hint says at most {gain:.3g} times as fast" if gain else ""
    best = answer.best
    at = f", most at {_size(best)}" if best and len(answer.about) > 1 else ""
    most = f"{at}: {_times(best)} times as fast" if best else ""
    lines = [f"{of}: {answer.word}{most}{promised}."]
    elsewhere = [pair for pair in answer.elsewhere if pair.verdict in ("better", "worse", "different")]
    if elsewhere:
        texts = [f"{pair.verdict} at {_size(pair)}" for pair in elsewhere[:6]]
        lines.append(f"Elsewhere: {', '.join(texts)}{', …' if len(elsewhere) > 6 else ''}.")
    return lines


def _other_mpi(experiment: Experiment, folder: Path) -> str:
    """The MPI that was there while it was tried, where another one was there when the hint was measured."""
    now = mpi_of(read_environment(folder / ENVIRONMENT) or {})
    return now if experiment.library and now != experiment.library else ""


def _times(pair: ComparedSeries) -> str:
    """How many times as fast, with the interval."""
    ends = [1 / end if times(pair) != pair.ratio else end for end in (pair.low, pair.high) if end]
    around = f" [{_ratio(min(ends))}, {_ratio(max(ends))}]" if len(ends) == 2 else ""
    return f"{_ratio(times(pair))}{around}"


def _ratio(ratio: float) -> str:
    """Three digits, without an exponent where it is large."""
    return f"{ratio:.0f}" if ratio >= 100 else f"{ratio:#.3g}"


def _size(pair: ComparedSeries) -> str:
    return format_size(pair.size) or pair.test


def row(pair: ComparedSeries) -> tuple[str, ...]:
    """A pair in the columns of `HEADER`."""
    counts = "/".join("–" if half is None else str(half.launches) for half in (pair.a, pair.b))
    return (
        f"{pair.test} {pair.metric}",
        format_size(pair.size),
        *(_median(half, pair.unit) for half in (pair.a, pair.b)),
        "" if pair.ratio is None else _ratio(pair.ratio),
        between(pair.low, pair.high, _ratio, "[{}, {}]"),
        counts,
        ": ".join(filter(None, (word_of(pair), pair.reason))),
    )


def _median(half: ComparedSide | None, unit: str) -> str:
    return "" if half is None else format_quantity(half.median, unit, 3)


def document(experiment: Experiment, folder: Path, pairs: Sequence[ComparedSeries]) -> dict[str, Any]:
    """``tried.json``, and what ``--json`` prints."""
    trial_answer = answer(pairs, experiment.trial)
    return {
        "schema": SCHEMA,
        "rule": experiment.rule.name,
        "hint": plain(experiment.hint),
        "change": experiment.change,
        "trial": plain(experiment.trial),
        "without": list(experiment.without),
        "with": list(experiment.changed),
        "launches": experiment.runs,
        "folder": str(folder),
        "answer": trial_answer.word,
        "pairs": [
            {**plain(pair), "verdict": word_of(pair), "concerned": pair in trial_answer.about}
            for pair in pairs
        ],
    }


class _Hint(msgspec.Struct):
    #: What the hint rests on, in a sentence with its numbers.
    evidence: str = msgspec.field(name="seen")
    #: What becomes faster.
    of: str
    #: How many times as fast it becomes at most; None where that is not known.
    gain: float | None = None


class _Document(msgspec.Struct):
    """What is read of ``tried.json``."""

    #: Number of the file's format.
    schema: int
    #: Name of the rule that gave the hint.
    rule: str
    #: What was tried.
    hint: _Hint
    #: What was changed, in words.
    change: str
    #: What was changed, and which sizes of messages the hint is about.
    trial: TrialChange


class TriedHints(NamedTuple):
    """What a folder of ``--try`` holds."""

    #: Name of the rule that gave the hint.
    rule: str
    #: What the hint rests on, in a sentence with its numbers.
    evidence: str
    #: What was changed, in words.
    change: str
    #: Every series, without and with the change.
    pairs: list[ComparedSeries]
    #: What these say together.
    answer: TrialAnswer
    #: That answer in words, a sentence each.
    lines: list[str]


def read_tried(run: Run) -> TriedHints | None:
    """What was tried in a run's folder; None where it has no ``tried.json`` that can be read."""
    try:
        document = msgspec.convert(parse_json(read_bytes(run.folder / TRIED_FILE)), _Document)
    except (OSError, ValueError, msgspec.ValidationError):
        return None
    if document.schema != SCHEMA:
        return None
    pairs = compared(run.records, run.folder)
    trial_answer = answer(pairs, document.trial)
    return TriedHints(
        document.rule,
        document.hint.evidence,
        document.change,
        pairs,
        trial_answer,
        answer_lines(trial_answer, document.hint.of, document.hint.gain),
    )
