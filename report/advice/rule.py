"""What a rule is: a function of a run and all that is known of it, that gives hints or says what it lacks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec

from report.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Hint:
    """One piece of advice.

    seen: the evidence, in a sentence with its numbers. do: what to do. gain: at most so many times as fast
    afterwards, None where nobody can tell. of: what becomes faster. raw: files that the evidence is in.
    """

    seen: str
    do: str
    of: str
    gain: float | None = None
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
class Rule:
    """name: stable, for ``--json``. title: what it looks for. source: where that is written."""

    name: str
    title: str
    source: str
    judge: Judge


_WORDS: Final[dict[str, dict[str, Any]]] = msgspec.toml.decode(
    Path(__file__).with_name("rules.toml").read_bytes()
)
#: All rules whose module is loaded (`report.advice.all_rules` loads every one).
RULES: Final[dict[str, Rule]] = {}


def rule(name: str) -> Callable[[Judge], Judge]:
    """Adds the function below it to the rules; its words stand under `name` in ``rules.toml``."""

    def add(judge: Judge) -> Judge:
        RULES[name] = Rule(name, _WORDS[name]["title"], _WORDS[name]["source"], judge)
        return judge

    return add


def hint(name: str, seen: str, gain: float | None = None, raw: tuple[str, ...] = (), **words: str) -> Hint:
    """A hint of a rule, or as ``rule.hint`` one of several, with `words` put into what is to be done."""
    table, _, kind = name.partition(".")
    said = _WORDS[table][kind] if kind else _WORDS[table]
    return Hint(seen=seen, do=said["do"].format(**words), of=said["of"].format(**words), gain=gain, raw=raw)
