"""The plan of a study: which conditions there are, and what was expected of them before.

A condition is a value of each factor (nodes, ranks, threads, binding, …); the plan is their product, without
what cannot be run. Of the values that somebody gives for a factor the first one is the usual one: what an
expectation does not name is as in the first condition that it fits.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

from npc.observe.study.records import Condition, Expectation
from npc.records.launch import now
from npc.records.units import format_quantity, plural

#: JUBE asks the platform for the starter of each placement, a workpackage each, and slows down beyond.
MOST_PLACEMENTS: Final = 60
BINDINGS: Final = ("default", "core", "hwthread", "none")
_MAPPING: Final = re.compile(r"ppr:[1-9]\d*:(socket|numa)")
_NUMBER: Final = re.compile(r"([1-9]\d*)(/node)?")
_DECIMAL: Final = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_EXPECTATION: Final = re.compile(
    r"(?P<left>.+?)\s*(?P<sign>>=|≥|<=|≤)\s*(?:(?P<factor>\d+(?:\.\d+)?)\s*[x×*]\s*)?(?P<right>\S.*)"
)
#: How an expectation names a factor's value: ``4 nodes``, ``core``, ``memory 0.5``, ``NAME=VALUE``.
_NAMED: Final = re.compile(
    r"(?P<count>\d+)\s+(?P<of>node|rank|thread)s?|(?P<state>memory|frequency|network)\s+(?P<value>[\d.]+\s*(?:[kMGT]?(?:Hz|bit|B)(?:/s)?)?|\w+(?:=[^\s,]+)?)"
    r"|(?P<binding>default|core|hwthread|none|ppr:\d+:\w+)|(?P<name>[A-Za-z_]\w*)=(?P<text>[^\s,]*)"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """The values of each factor."""

    #: How many nodes a condition takes.
    nodes: Sequence[int] = (1,)
    #: How many MPI ranks: ``8`` of all nodes together, or ``2/node``.
    ranks: Sequence[str] = ("1/node",)
    #: How many cores to fill, written likewise, instead of `ranks`: as many ranks as fill them with their
    #: threads; empty: `ranks` counts.
    cores: Sequence[str] = ()
    #: How many threads each rank has.
    threads: Sequence[int] = (1,)
    #: How ranks are bound: one of `BINDINGS`, or a mapping such as ppr:1:numa.
    binding: Sequence[str] = ("default",)
    #: Clock of the CPUs in Hz; None: as usual.
    frequency: Sequence[float | None] = (None,)
    #: Competing processes on each NUMA node; 0.5: one that rests half of the time; None: none.
    memory: Sequence[float | None] = (None,)
    #: B/s of each node, or NAME=VALUE by which MPI takes another network; None: as usual.
    network: Sequence[float | str | None] = (None,)
    #: Variable of the program's environment → its values; empty: none is set.
    variables: Mapping[str, Sequence[str]] = field(default_factory=dict)


def conditions_of(factors: Factors) -> tuple[list[Condition], list[str]]:
    """The plan's conditions, each once, and what was left out and why.

    Raises ValueError for a value that is none, and where nothing is left.
    """
    for word in factors.binding:
        if word not in BINDINGS and not _MAPPING.fullmatch(word):
            raise ValueError(f"binding {word!r}: expected {', '.join(BINDINGS)}, ppr:N:socket or ppr:N:numa")
    several = len(factors.binding) > 1
    product: Iterator[tuple[Any, ...]] = itertools.product(
        factors.nodes, factors.cores or factors.ranks, factors.threads, factors.binding, factors.frequency,
        factors.memory, factors.network,
        *([(name, text) for text in texts] for name, texts in factors.variables.items()),
    )  # fmt: skip
    conditions: dict[str, Condition] = {}
    notes: dict[str, None] = {}
    for nodes, ranks, threads, binding, frequency, memory, network, *variables in product:
        total = _number_on(ranks, nodes, "cores" if factors.cores else "ranks")
        if factors.cores and total % threads:
            notes[f"left out: {total} cores, which ranks of {threads} threads do not fill"] = None
            continue
        total //= threads if factors.cores else 1
        if total % nodes:
            notes[f"left out: {total} ranks on {nodes} nodes, which are not as many on each"] = None
            continue
        condition = Condition(
            name="", nodes=nodes, ranks=total, threads=threads,
            binding="" if binding == "default" else binding, frequency_hz=frequency, memory=memory,
            network=network, variables=dict(variables),
        )  # fmt: skip
        name = name_of(condition, several)
        conditions.setdefault(name, replace(condition, name=name))
    if not conditions:
        raise ValueError(f"the plan has no condition that can be run: {'; '.join(notes)}")
    placements = {placement_of(condition) for condition in conditions.values()}
    if len(placements) > MOST_PLACEMENTS:
        raise ValueError(
            f"{len(placements)} placements are more than {MOST_PLACEMENTS}: make several studies"
        )
    return list(conditions.values()), list(notes)


def hertz_of(word: str) -> float | None:
    """Hz of ``2.4`` or ``2.4GHz``; None of ``usual``. Raises ValueError."""
    return _number(word, r"(GHz)?", {"": 1e9, "GHz": 1e9}, "frequency", "2.4GHz")


def network_of(word: str) -> float | str | None:
    """Bytes/s of ``100Mbit`` or ``1GB``; ``NAME=VALUE`` as it is; None of ``usual``. Raises ValueError."""
    if re.fullmatch(r"[A-Za-z_]\w*=\S+", word):
        return word
    bits = {f"{prefix}bit": factor / 8 for prefix, factor in _DECIMAL.items()}
    sizes = {f"{prefix}B": factor for prefix, factor in _DECIMAL.items()}
    return _number(word, r"([kMGT]?(?:bit|B))(?:/s)?", bits | sizes, "network", "100Mbit, 1GB, NAME=VALUE")


def _number(word: str, unit: str, factors: Mapping[str, float], what: str, example: str) -> float | None:
    if word == "usual":
        return None
    match = re.fullmatch(rf"(\d+(?:\.\d+)?)\s*{unit}", word.strip())
    if not match or not float(match[1]):
        raise ValueError(f"{what} {word!r}: expected such as {example}, or usual")
    return float(match[1]) * factors[match[2] or ""]


def _number_on(word: str, nodes: int, what: str) -> int:
    match = _NUMBER.fullmatch(word)
    if not match:
        raise ValueError(f"{what} {word!r}: expected a number of all nodes together, or N/node")
    return int(match[1]) * (nodes if match[2] else 1)


def with_free_cores(plan: Sequence[Condition], cores: int) -> tuple[list[Condition], list[str]]:
    """The conditions that leave a core of each node to every competing process; which were left out.

    cores: CPUs of a node, 0 where nobody knows.
    """
    left, notes = [], []
    for planned in plan:
        taken = planned.ranks_per_node * planned.threads + math.ceil(planned.memory or 0.0)
        if not planned.memory or not cores or taken <= cores:
            left.append(planned)
        else:
            notes.append(
                f"left out: {planned.name}: of {cores} CPUs none is free for what takes bandwidth away"
            )
    return left, notes


def placement_of(condition: Condition) -> tuple[int, int, int, str]:
    """What a launcher has to be told: nodes, ranks on each, threads of each, binding."""
    return condition.nodes, condition.ranks_per_node, condition.threads, condition.binding


def name_of(condition: Condition, with_binding: bool = False) -> str:
    """For people, and unique in a plan: ``2 nodes, 4 ranks, 1 thread, core``."""
    words = [
        plural(number, what)
        for number, what in (
            (condition.nodes, "node"),
            (condition.ranks, "rank"),
            (condition.threads, "thread"),
        )
    ]
    words += [condition.binding or "default"] if condition.binding or with_binding else []
    words += [f"frequency {condition.frequency_hz / 1e9:g} GHz"] if condition.frequency_hz is not None else []
    words += [f"memory {condition.memory:g}"] if condition.memory is not None else []
    if condition.network is not None:
        network = condition.network
        words.append(f"network {network if isinstance(network, str) else format_quantity(network, 'B/s')}")
    words += [f"{name}={text}" for name, text in condition.variables.items()]
    return ", ".join(words)


def expectation_of(text: str, plan: Sequence[Condition]) -> Expectation:
    """What ``4 nodes >= 3.5 x 1 node`` means in this plan, written down now.

    It is about speed, the inverse of the time. Raises ValueError where it says nothing about this plan.
    """
    match = _EXPECTATION.fullmatch(text.strip())
    if not match:
        raise ValueError(f"expectation {text!r}: it is about speed, as in '4 nodes >= 3.5 x 1 node'")
    left, right = (_meant(match[side], plan, text) for side in ("left", "right"))
    if left.name == right.name:
        raise ValueError(f"expectation {text!r}: both sides are {left.name!r}")
    factor = float(match["factor"] or 1)
    if factor <= 0:
        raise ValueError(f"expectation {text!r}: {factor:g} times a speed is no speed")
    sign: Literal[">=", "<="] = ">=" if match["sign"] in (">=", "≥") else "<="
    return Expectation(text, now(), left.name, sign, factor, right.name)


def _meant(side: str, plan: Sequence[Condition], text: str) -> Condition:
    """The first condition of the plan that is as a side of an expectation says."""
    wanted: list[tuple[str, Any]] = []
    rest = side
    for match in _NAMED.finditer(side):
        rest = rest.replace(match[0], "", 1)
        wanted.append(_wanted(match))
    if rest.strip(" ,") or not wanted:
        raise ValueError(
            f"expectation {text!r}: {(rest.strip(' ,') or side)!r} names no condition of the plan"
        )
    for condition in plan:
        if all(_value(condition, name) == value for name, value in wanted):
            return condition
    raise ValueError(f"expectation {text!r}: the plan has no condition with {side.strip()}:{_listed(plan)}")


def _wanted(match: re.Match[str]) -> tuple[str, Any]:
    if match["of"]:
        return f"{match['of']}s", int(match["count"])
    if match["state"]:
        name, value = match["state"], match["value"]
        try:
            if name == "memory":
                return name, float(value) or None
            return ("frequency_hz", hertz_of(value)) if name == "frequency" else (name, network_of(value))
        except ValueError:
            return name, value  # no condition has it
    if match["binding"]:
        return "binding", "" if match["binding"] == "default" else match["binding"]
    return match["name"], match["text"]


def _value(condition: Condition, name: str) -> object:
    if name in ("nodes", "ranks", "threads", "binding", "memory", "network", "frequency_hz"):
        return getattr(condition, name)
    return condition.variables.get(name)


def _listed(plan: Iterable[Condition]) -> str:
    names = [planned.name for planned in plan]
    return "".join(f"\n  {name}" for name in names[:8]) + ("\n  …" if len(names) > 8 else "")
