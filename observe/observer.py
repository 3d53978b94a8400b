"""What a folder of `observe` adds to `npc observe`: a part of an observation, from options to lines.

An observer is a class that a module names `OBSERVER`; the module is registered in the entry point group
``npc.observers`` (`npc.registration`). `npc observe` knows the observers by that alone, and does with each:

1. its `options` are options of the command; `requested` makes an observer of their values, or None;
2. `prepare` builds and measures what it needs, `words` go before the program;
3. `companion` says what watches in each rank's process (`npc.observe.options.Companion`);
4. after the run `read` makes its part of ``observed.json``, `save` writes files of its own beside that, and
   `lines` show it on the terminal.

A module with an observer imports click, and what it needs else only in functions: ``npc observe --help``
loads it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from npc.registration import extensions

if TYPE_CHECKING:
    import click

    from npc.observe.monitoring import RankFlow
    from npc.observe.options import CompanionOptions
    from npc.observe.rank_files import WatchedRank
    from npc.records.observed import CollectiveCalls


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservationRequest:
    """What `npc observe` was called with, as far as it concerns every observer."""

    #: The words of the command, the launcher's first.
    command: tuple[str, ...]
    #: Index of the program's word among them.
    place: int
    #: Share of the run time that watching may take (0.01: 1 %); None: no limit.
    budget: float | None = None
    #: Whether the user gave that share, or it is the usual one.
    is_budget_given: bool = False
    #: Pairs of runs of ``--check-observer``; 0: no check.
    pairs: int = 0
    #: The program that these start without watching; empty: the same one.
    plain: str = ""

    @property
    def launcher(self) -> tuple[str, ...]:
        """The words before the program."""
        return self.command[: self.place]

    @property
    def program(self) -> str:
        """The program's word."""
        return self.command[self.place]


@dataclass(frozen=True, slots=True, kw_only=True)
class RanksLeft:
    """What the ranks of a run left."""

    #: The folder with their files, ``HOST.RANK.*``.
    folder: Path
    #: The ranks whose own file could be read.
    ranks: Sequence[WatchedRank]
    #: Messages as Open MPI's monitoring counted them; empty without.
    flows: Sequence[RankFlow] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCounts:
    """The program's messages, as an observer counted them."""

    #: What each rank sent to, put to or fetched from another one.
    flows: Sequence[RankFlow]
    #: Calls by the name of the operation.
    collectives: Mapping[str, CollectiveCalls]
    #: Number of messages by the class of their size, as in `npc.records.observed.Messages.by_size`.
    by_size: Mapping[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedPart:
    """What an observer read of a run."""

    #: What stands under its key in ``observed.json``: a dataclass, or what JSON knows; None: nothing.
    content: Any
    #: What is missing of it, or odd.
    notes: Sequence[str] = ()
    #: The program's messages; None where it does not count them.
    messages: MessageCounts | None = None
    #: Estimates the share of the run time that watching took (0.01: 1 %), None where it cannot be told; may
    #: raise `npc.observe.costs.cache.NoCost`. None: there is nothing to estimate.
    overhead: Callable[[], float | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlan:
    """How one run of a program is watched; as it is made without arguments: not at all."""

    #: Seconds to watch a node's ports before the program begins.
    background_s: float = 0.0
    #: A group of LIKWID's or an event of PAPI's (`npc.observe.options.ObservationOptions`).
    counters: str = ""
    #: Whether Open MPI counts messages and bytes.
    monitoring: bool = False
    #: What else watches it; empty: nothing.
    observers: Sequence[RunObserver] = field(default_factory=tuple)


class RunObserver(ABC):
    """Observes one run of a program; a subclass for each part that an observation may have."""

    #: What it is called in notes and where it says what watching took, as it is registered.
    name: ClassVar[str]
    #: The part's key in ``observed.json``, and that of its companion in the ranks' files.
    key: ClassVar[str]
    #: Heading of its options in ``--help-all``.
    title: ClassVar[str]
    #: What it is good for and what it costs, in a sentence or two below that.
    purpose: ClassVar[str]
    #: Its place among the observers, in help and in what is shown: from 10 on.
    order: ClassVar[int]
    options: ClassVar[Sequence[click.Option]]
    #: Commands that the help shows.
    examples: ClassVar[Sequence[str]] = ()
    #: How long ranks may take to finish, in seconds, once the launcher has ended.
    patience_s: ClassVar[float] = 60.0

    #: The reason why nothing else can be measured in such a run, which begins with the option; empty: it can.
    alone: str = ""
    #: Whether it observes though no option asks for it: it gives way to one that is alone.
    is_usual: bool = False
    #: Share of the run time that it may take, and keeps within by itself; None: no limit.
    budget: float | None = None

    @classmethod
    @abstractmethod
    def requested(cls, values: Mapping[str, Any], request: ObservationRequest) -> RunObserver | None:
        """The observer that the values of its options ask for, by their names in Python; None: they do not.

        Raises ValueError for values that do not go together. It builds and starts nothing.
        """

    def prepare(self) -> bool:
        """Build and measure what it needs; False where it cannot observe: it has said why.

        Raises click.UsageError.
        """
        return True

    def words(self) -> tuple[str, ...]:
        """What is put before the program in the command."""
        return ()

    @abstractmethod
    def companion(self, ranks: Path) -> CompanionOptions:
        """What watches each rank, in the folder of the ranks' files. Raises OSError."""

    def clear(self, ranks: Path) -> None:
        """Remove what only the run needed of that folder."""
        return

    @abstractmethod
    def read(self, left: RanksLeft) -> ObservedPart:
        """What the ranks left, read and judged. What is damaged becomes a note."""

    def save(self, content: Any, stem: Path) -> None:
        """Write files of its own, ``STEM.*``, beside the observation. Raises OSError."""
        return

    def slowed(self, content: Any, slowdown: float) -> Any:
        """The content once it was measured how many times longer an observed run takes."""
        return content

    def lines(self, content: Any) -> Iterable[str]:
        """The content as people read it on the terminal."""
        return ()


class RegisteredObservers(NamedTuple):
    """The observers that there are."""

    #: Their classes, in the order in which they take part.
    kinds: tuple[type[RunObserver], ...]
    #: By name, why a module with one cannot be loaded.
    problems: dict[str, str]


@cache
def registered_observers() -> RegisteredObservers:
    """All that are registered as ``npc.observers``, in their order."""
    kinds: list[type[RunObserver]] = []
    problems = {}
    for name, module, problem in extensions("observers"):
        kind = getattr(module, "OBSERVER", None)
        if kind is not None:
            kinds.append(kind)
        else:
            problems[name] = problem or "has no OBSERVER"
    return RegisteredObservers(tuple(sorted(kinds, key=lambda kind: kind.order)), problems)
