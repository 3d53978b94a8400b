"""Advice: what holds a machine or an application back, on what evidence, and what a change brings at most.

A rule is a function of a `Run`; a new one is one function with the decorator `rule` in a module of
``report/advice/rules/`` or in one that is registered as ``npc.advice`` (`npc.registration`), and a table of
its words in a ``rules.toml``. It gives back the hints it has, an empty
list where it looked and found nothing, or a sentence that says what evidence it lacks: nothing is ever said
without evidence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from npc.files import InvalidFile
from npc.machine.platform import InvalidPlatform, find_platform
from npc.machine.programs import PROGRAMS_FILE, BestSetting, remembered
from npc.registration import extensions
from npc.report.advice.rule import RULES, AdviceRule, Hint
from npc.report.joined_runs import joined
from npc.report.runs import Run, program_of, read_runs


def gather(paths: Sequence[Path], platform: str = "") -> Run:
    """The runs that `paths` mean as one, judged by the nominal limits of `platform` (default: the records'
    own); of records of several platforms those of `platform`.

    Raises FileNotFoundError, OSError, `npc.InvalidRecord`, `npc.machine.platform.InvalidPlatform`, and
    ValueError for a platform that does not exist, and for several none of which is chosen.
    """
    if platform and find_platform(platform) is None:
        raise ValueError(f"--platform {platform}: there is no such platform.toml")
    runs = read_runs(paths, platform)
    names = sorted({run.platform_name for run in runs} - {""})
    if len(names) > 1:
        if platform not in names:
            raise ValueError(f"records of several platforms ({', '.join(names)}): choose one by --platform")
        runs = [run for run in runs if run.platform_name == platform]
    if problem := next(filter(None, (run.problem for run in runs)), ""):
        raise InvalidPlatform(problem)
    return runs[0] if len(runs) == 1 else joined(runs[0], runs[1:])


def all_rules() -> list[AdviceRule]:
    """All rules, by name."""
    return _rules_and_problems()[0]


def _rules_and_problems() -> tuple[list[AdviceRule], dict[str, str]]:
    """All rules, and the modules of rules and of trials that cannot be loaded, with the reason."""
    modules = (*extensions("advice"), *extensions("trials"))
    problems = {name: problem for name, _, problem in modules if problem}
    return sorted(RULES.values(), key=lambda rule: rule.name), problems


@dataclass(frozen=True, slots=True)
class Advice:
    """What all rules say of a run."""

    #: Each hint with its rule; what brings most is first.
    hints: tuple[tuple[AdviceRule, Hint], ...]
    #: Names of rules that had evidence and found nothing.
    silent: tuple[str, ...]
    #: Rule's name → the evidence that it did not have.
    lacking: Mapping[str, str]
    #: Hints for which the platform remembers the best setting already, with that setting.
    remembered: tuple[tuple[AdviceRule, Hint, BestSetting], ...] = ()
    #: Other settings that the platform remembers for the run's programs.
    settings: tuple[BestSetting, ...] = ()


def advise(run: Run, platform: str = "") -> Advice:
    """What all rules say. platform: whose settings are remembered (default: that of the records)."""
    hints: list[tuple[AdviceRule, Hint]] = []
    silent: list[str] = []
    rules, lacking = _rules_and_problems()
    for rule in rules:
        judgement = rule.judge(run)
        if isinstance(judgement, str):
            lacking[rule.name] = judgement
        elif judgement:
            hints += [(rule, hint) for hint in judgement]
        else:
            silent.append(rule.name)
    hints.sort(key=lambda pair: -(pair[1].gain or 0))
    try:
        known = _settings_of(run, platform or run.platform_name)
    except (OSError, InvalidFile) as error:
        known, lacking[PROGRAMS_FILE] = [], str(error)
    proposed, answered = [], []
    for rule, hint in hints:
        behind = run.launched(hint.raw)
        launch = (program_of(*behind), behind[1].nodes) if behind else ("", 0)
        answers = (
            setting
            for setting in known
            if (setting.program, setting.nodes, setting.rule) == (*launch, rule.name)
        )
        if answer := next(answers, None):
            answered.append((rule, hint, answer))
        else:
            proposed.append((rule, hint))
    rest = [setting for setting in known if all(setting is not answer for *_, answer in answered)]
    return Advice(tuple(proposed), tuple(silent), lacking, tuple(answered), tuple(rest))


def _settings_of(run: Run, platform: str) -> list[BestSetting]:
    """What the platform remembers for programs that are in the run."""
    programs = {f"{record.benchmark} {record.case}" for record in run.records}
    programs |= {record.params.get("program", "") for record in run.records}
    return [setting for setting in remembered(platform) if setting.program in programs]


Tone = Literal["good", "note", "bad"]


def conclusion(run: Run, advice: Advice) -> tuple[str, Tone]:
    """What to say where there are no hints, or where they come from the machine alone; else an empty text."""
    if run.why_unusable:
        return f"Nothing could be judged of {run.label}: {run.why_unusable}.", "bad"
    if advice.hints or advice.remembered:
        return "", "note"
    if not advice.silent:
        return f"Nothing could be judged of {run.label}: no rule has the evidence that it needs.", "note"
    return f"Nothing was found that holds {run.label} back.", "good"
