"""What a rule is: a function of a run and all that is known of it, that gives hints or says what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from npc.report.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialChange:
    """What is changed to try a hint, in one command line and for as long as it runs."""

    #: Variables of the environment to set: name → value.
    set: Mapping[str, str] = field(default_factory=dict)
    #: Variables of the environment to take away.
    clear: tuple[str, ...] = ()
    #: (words of the command line, those in their place); the second is empty where they only go.
    replace: tuple[tuple[str, str], ...] = ()
    #: The least and the largest message that it is about, in bytes; None for all.
    sizes: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One piece of advice."""

    #: The evidence, in a sentence with its numbers.
    seen: str
    #: What to do.
    do: str
    #: What becomes faster.
    of: str
    #: How ``--try`` changes a command for it, or why it cannot.
    trial: TrialChange | str
    #: The speed afterwards at most, as a multiple of today's; None where that is not known.
    gain: float | None = None
    #: Files that the evidence is in.
    raw: tuple[str, ...] = ()

    @property
    def brings(self) -> str:
        """What becomes faster, and by how much."""
        if self.gain:
            return f"{self.of}: at most {self.gain:.3g} times as fast"
        return f"{self.of}: how much, nobody can tell from this"


#: Hints, or what evidence is missing.
Judgement = list[Hint] | str
Judge = Callable[[Run], Judgement]


@dataclass(frozen=True, slots=True)
class AdviceRule:
    """One rule of advice."""

    #: Its name, which stays the same for ``--json``.
    name: str
    #: What it looks for.
    title: str
    #: Where that is written: papers, manuals, pages of the documentation.
    source: str
    #: Looks at a run and gives hints, or says what evidence is missing.
    judge: Judge


_WORDS: Final[dict[str, dict[str, Any]]] = {}


def add_words(path: Path) -> None:
    """Take the words of rules from a file like ``report/advice/rules.toml``, before the rules are made."""
    _WORDS.update(msgspec.toml.decode(path.read_bytes()))


add_words(Path(__file__).with_name("rules.toml"))
#: All rules whose module is loaded (`npc.report.advice.all_rules` loads every one).
RULES: Final[dict[str, AdviceRule]] = {}


def rule(name: str) -> Callable[[Judge], Judge]:
    """Adds the function below it to the rules; its words stand under `name` in a ``rules.toml``."""

    def add(judge: Judge) -> Judge:
        RULES[name] = AdviceRule(name, _WORDS[name]["title"], _WORDS[name]["source"], judge)
        return judge

    return add


def hint(
    name: str,
    seen: str,
    gain: float | None = None,
    raw: tuple[str, ...] = (),
    sizes: tuple[int, int] | None = None,
    untried: str = "",
    **words: str,
) -> Hint:
    """A hint of a rule, or as ``rule.hint`` one of several, with `words` put into what is to be done.

    sizes: `TrialChange.sizes`. untried: why this one cannot be tried, where others of its kind can.
    """
    table, _, kind = name.partition(".")
    entry = _WORDS[table][kind] if kind else _WORDS[table]
    trial = untried or entry.get("untried") or _trial(entry["try"], sizes, words)
    of = entry["of"].format(**words)
    return Hint(seen=seen, do=entry["do"].format(**words), of=of, trial=trial, gain=gain, raw=raw)


def _trial(entry: Mapping[str, Any], sizes: tuple[int, int] | None, words: Mapping[str, str]) -> TrialChange:
    return TrialChange(
        set={name: value.format(**words) for name, value in entry.get("set", {}).items()},
        clear=tuple(entry.get("clear", ())),
        replace=tuple((old, new.format(**words)) for old, new in entry.get("replace", ())),
        sizes=sizes,
    )
