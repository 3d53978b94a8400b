"""Merges the stacks of all ranks into one prefix tree, and finds the hottest functions.

Four thousand ranks take seconds, since each rank's file is already a tree without its rare parts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from npc.observe.hotspots.bounds import bound_of
from npc.observe.hotspots.loop import SampledFunction, with_loop
from npc.observe.hotspots.records import Frame, Hotspot, Hotspots
from npc.observe.hotspots.stack_file import OTHER, SUFFIX
from npc.observe.hotspots.stacks import CLOCK
from npc.observe.rank_files import decoded

OK: Final = "ok"
#: Key of the root: parent and function.
_ROOT: Final = (0, -1)
#: Frames with a smaller share of all samples are counted as `OTHER` of their parent. The share is doubled
#: until there are few enough frames.
_LEAST_SHARE: Final = 0.001
_MOST_FRAMES: Final = 4000
#: Functions with a smaller share of all samples are no hotspots; most hotspots that are kept.
_LEAST_HOTSPOT: Final = 0.005
_MOST_HOTSPOTS: Final = 20
#: Functions whose loops are looked for; each takes a quarter of a second.
_MOST_LOOPS: Final = 5
#: With fewer samples, a rank's share may be wrong by more than a tenth (half of the 95 % interval of a
#: binomial share of one half), so it does not count for the smallest and the largest share.
_ENOUGH_SAMPLES: Final = 100
#: A larger share of stacks that were cut is worth a note; most different notes.
_MUCH_CUT: Final = 0.05
_MOST_NOTES: Final = 20


class CodeSamples(msgspec.Struct, kw_only=True):
    """Where in the machine code of a function a rank's samples are."""

    #: Its symbol, or an address in hexadecimal.
    function: str
    #: Path of its file.
    module: str
    #: Of the file; empty where it has none.
    build_id: str
    #: The function's first address in the file and the one after its last; None where the file does not say.
    range: tuple[int, int] | None
    #: Address in the file, in hexadecimal → samples there.
    counts: dict[str, int]


class RankStacks(msgspec.Struct, kw_only=True):
    """A rank's file (`npc.observe.hotspots.stack_file`)."""

    #: ``ok``, or why there are no stacks.
    status: str
    #: What recorded them: ``perf 6.1, cpu-clock``.
    source: str
    #: Samples per second of CPU time.
    rate: float
    #: How many there are.
    samples: int
    #: Samples that perf could not read in time.
    lost: int
    #: Samples whose stack does not reach the program's start.
    cut: int
    #: Samples whose function has no symbol.
    unnamed: int
    #: Whether perf could see the system, too.
    kernel: bool
    #: Why hardware events are missing; empty where none are.
    counters: str
    #: What was odd, a sentence each.
    notes: list[str]
    #: Functions: (symbol or address, path of the file).
    frames: list[tuple[str, str]]
    #: Nodes, parents first: (place of the parent, place in `frames`, samples, own samples).
    tree: list[tuple[int, int, int, int]]
    #: Functions: (place in `frames`, samples of its own, kind of stack → samples, hardware event → times).
    own: list[tuple[int, int, dict[str, int], dict[str, int]]]
    #: Of the functions with most samples of their own.
    addresses: list[CodeSamples]
    #: As `npc.observe.hotspots.processor` describes it, of a node's first rank; empty for others.
    processor: dict[str, Any] = {}

    def __post_init__(self) -> None:
        frames = len(self.frames)
        for number, (parent, function, *_) in enumerate(self.tree):
            if number and not (0 <= parent < number and 0 <= function < frames):
                raise ValueError(f"its tree has no place for {parent, function}")
        if not all(0 <= function < frames for function, *_ in self.own):
            raise ValueError("samples of a function that is not there")
        for place in self.addresses:
            for address in place.counts:
                int(address, 16)


class _Share:
    """Samples of all ranks, and the smallest and largest share that one rank has."""

    __slots__ = ("least", "most", "ranks", "samples")

    def __init__(self) -> None:
        self.samples = self.ranks = 0
        self.least, self.most = 1.0, 0.0

    def add(self, samples: int, of: int) -> None:
        """Adds one rank. of: all its samples; 0 where these are too few to compare."""
        self.samples += samples
        if of:
            share = samples / of
            self.ranks += 1
            if share < self.least:  # called for millions of nodes: min() would take twice as long
                self.least = share
            if share > self.most:
                self.most = share

    def among(self, ranks: int, mean: float) -> tuple[float, float]:
        """Smallest and largest share of `ranks` ranks; the mean where there are none to compare."""
        if not ranks:
            return mean, mean
        return (self.least if self.ranks >= ranks else 0.0), self.most


class _Function(_Share):
    """A function's own samples by the kind of their stacks, and its hardware events."""

    __slots__ = ("events", "kinds")

    def __init__(self) -> None:
        super().__init__()
        self.kinds: Counter[str] = Counter()
        self.events: Counter[str] = Counter()


def read_hotspots(folder: Path, damaged: list[str]) -> Hotspots | None:
    """The hotspots from the files that ranks left in `folder`; None without files. What cannot be read is
    noted in `damaged`."""
    if not any(folder.glob(f"*{SUFFIX}")):
        return None
    return merge(decoded(folder, SUFFIX, RankStacks, damaged))


def merge(ranks: Iterable[RankStacks]) -> Hotspots:
    """One tree of all ranks, read one after the other, and the loops of the hottest functions."""
    merged = _Merged()
    for rank in ranks:
        merged.add(rank)
    return merged.hotspots()


class _Merged:
    """What has been added so far. Functions (name, module) and nodes of the tree (parent, function) are
    numbered in the order in which they came."""

    def __init__(self) -> None:
        self._ranks: list[RankStacks] = []
        self._functions: dict[tuple[str, str], int] = {}
        self._nodes = {_ROOT: 0}
        self._shares = [_Share()]
        self._own = [0]
        self._counted: defaultdict[int, _Function] = defaultdict(_Function)
        self._code: dict[tuple[str, str], SampledFunction] = {}
        self._processor: Mapping[str, Any] = {}

    def add(self, rank: RankStacks) -> None:
        """One rank's stacks."""
        functions, nodes, shares, own = self._functions, self._nodes, self._shares, self._own
        of = rank.samples if rank.samples >= _ENOUGH_SAMPLES else 0
        numbers = [
            functions.setdefault((function, module.rpartition("/")[2]), len(functions))
            for function, module in rank.frames
        ]
        here: list[int] = []
        for parent, function, samples, at_top in rank.tree:
            node = nodes.setdefault((here[parent], numbers[function]) if here else _ROOT, len(nodes))
            if node == len(shares):
                shares.append(_Share())
                own.append(0)
            here.append(node)
            shares[node].add(samples, of)
            own[node] += at_top
        for function, at_top, kinds, events in rank.own:
            counted = self._counted[numbers[function]]
            counted.add(at_top, of)
            for kind, number in kinds.items():
                counted.kinds[kind] += number
            for event, times in events.items():
                counted.events[event] += times
        # Where nodes or programs differ, the code and the processor of the first rank count.
        self._processor = self._processor or rank.processor
        for place in rank.addresses:
            mine = SampledFunction(Path(place.module), place.build_id, place.range, Counter())
            known = self._code.setdefault((place.function, PurePath(place.module).name), mine)
            if known[:3] == mine[:3]:
                known.counts.update({int(address, 16): count for address, count in place.counts.items()})
        rank.frames, rank.tree, rank.own, rank.addresses = [], [], [], []
        self._ranks.append(rank)

    def hotspots(self) -> Hotspots:
        """The hotspots of all ranks that were added."""
        ranks = [rank for rank in self._ranks if rank.status == OK]
        if not ranks:
            return Hotspots(status=next((rank.status for rank in self._ranks), "no rank left any stacks"))
        samples = sum(rank.samples for rank in ranks)
        compared = sum(rank.samples >= _ENOUGH_SAMPLES for rank in ranks)
        frames, least = self._frames(samples, compared)
        without = Counter(rank.counters for rank in ranks).most_common(1)[0][0]
        return Hotspots(
            status=OK,
            source=ranks[0].source,
            rate=ranks[0].rate,
            samples=samples,
            ranks=len(ranks),
            unresolved=sum(rank.unnamed for rank in ranks) / max(samples, 1),
            frames=frames,
            hotspots=tuple(self._hottest(samples, compared, ranks[0].rate, without)),
            notes=tuple(_noted(self._ranks, samples, least)),
        )

    def _frames(self, total: int, compared: int) -> tuple[tuple[Frame, ...], float]:
        """The tree without rare frames, and the share below which a frame is rare."""
        names = list(self._functions)
        share = _LEAST_SHARE
        while sum(one.samples >= share * total for one in self._shares) > _MOST_FRAMES:
            share *= 2
        places = {0: 0}
        frames: list[Frame] = []
        rest: list[int] = []  # samples of a frame that are neither its own nor of a child
        for node, (parent, function) in enumerate(self._nodes):
            samples = self._shares[node].samples
            if node and (samples < share * total or parent not in places):
                continue
            above = places[parent]
            places[node] = len(frames)
            name, module = names[function] if node else ("", "")
            least, most = self._shares[node].among(compared, samples / max(total, 1))
            frames.append(Frame(above, name, module, samples, self._own[node], least, most))
            rest.append(samples - self._own[node])
            if node:
                rest[above] -= samples
        for above, samples in enumerate(rest[:]):
            if samples > 0:
                mean = samples / total
                frames.append(Frame(above, OTHER, "", samples, samples, mean, mean))
        return tuple(frames), share

    def _hottest(self, total: int, compared: int, rate: float, without: str) -> Iterator[Hotspot]:
        names = list(self._functions)
        ordered = sorted(self._counted.items(), key=lambda item: -item[1].samples)
        loops = 0
        for number, function in ordered[:_MOST_HOTSPOTS]:
            share = function.samples / max(total, 1)
            if share >= _LEAST_HOTSPOT:
                bound = bound_of(function.samples, function.kinds, function.events, rate, without)
                spread = function.among(compared, share)
                hotspot = Hotspot(*names[number], share, *spread, *bound[:2], metrics=bound[2])
                loops += hotspot.bound not in ("mpi", "io")
                if (
                    hotspot.bound not in ("mpi", "io")
                    and loops <= _MOST_LOOPS
                    and names[number] in self._code
                ):
                    hotspot = with_loop(hotspot, self._code[names[number]], self._processor)
                yield hotspot


def _noted(ranks: Sequence[RankStacks], samples: int, least: float) -> Iterator[str]:
    """Notes about the ranks and their samples. least: the smallest share of a frame."""
    for reason, number in Counter(rank.status for rank in ranks if rank.status != OK).most_common(
        _MOST_NOTES
    ):
        yield f"stacks of {number} ranks: {reason}"
    ranks = [rank for rank in ranks if rank.status == OK]
    cut = sum(rank.cut for rank in ranks)
    if cut > _MUCH_CUT * samples:
        yield (
            f"{cut / samples:.0%} of the stacks do not reach the program's start: compiled without frame "
            "pointers; with -fno-omit-frame-pointer, or --call-graph dwarf, they are whole"
        )
    blind = sum(not rank.kernel for rank in ranks)
    if blind:
        yield (
            f"{blind} of {len(ranks)} ranks show no time in the system (sysctl "
            "kernel.perf_event_paranoid=1): shares are of the time outside of it"
        )
    lost = sum(rank.lost for rank in ranks)
    if lost:
        yield f"{lost} samples were lost before perf could read them"
    few = sum(rank.samples < _ENOUGH_SAMPLES for rank in ranks)
    if few:
        yield (
            f"{few} of {len(ranks)} ranks have fewer than {_ENOUGH_SAMPLES} samples ({CLOCK} sees what "
            "computes, not what sleeps or waits): they do not count for the smallest and largest share"
        )
    for note, number in Counter(note for rank in ranks for note in rank.notes).most_common(_MOST_NOTES):
        yield f"{number} ranks: {note}"
    if samples:
        yield f"frames with less than {least:.1%} of the samples are counted as {OTHER}"
