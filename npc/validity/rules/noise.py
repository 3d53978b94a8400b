"""Cores that the operating system, or somebody else, takes more from than from the others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from npc.records.record import Record
from npc.records.series import CORE
from npc.validity.rule import Circumstances, rule_of_run

#: A step of a parallel program waits for the slowest of its ranks: what a core loses, all of them lose.
_LOST: Final = 0.01
_TIMES: Final = 3.0


@rule_of_run(
    "noisy_core",
    "a core that loses more of its time than the node's others",
    "Petrini, Kerbyson, Pakin, SC'03: noise of a single core shows in collectives; Hoefler, Schneider, "
    "Lumsdaine, SC10",
    level="note",
)
def noisy_core(records: Sequence[Record], _: Circumstances) -> Iterator[tuple[int, str]]:
    """Of the selfish detours of a node's cores: 1 % of the time or more, and three times what the median core
    of the node loses."""
    nodes: defaultdict[tuple[str, ...], defaultdict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for place, record in enumerate(records):
        named = (record.benchmark, record.case, record.metric) == ("noise", "detour", "noise")
        if named and record.ok and CORE in record.params:
            nodes[record.hosts][record.params[CORE]].append(place)
    for hosts, cores in nodes.items():
        lost = {
            core: median(records[place].value or 0.0 for place in places) for core, places in cores.items()
        }
        for core, share in lost.items():
            others = [taken for other, taken in lost.items() if other != core]
            usual = median(others) if others else 0.0
            if share < _LOST or share < _TIMES * usual:
                continue
            for place in cores[core]:
                params = records[place].params
                steal = float(params.get("steal", 0))
                own = records[place].value or 0.0
                yield place, "".join((
                    f"core {core} of {', '.join(hosts)} lost {own:.1%} of its time ",
                    f"(median {share:.1%}, the other cores {usual:.1%})",
                    f", every {1e3 * float(params['period']):.3g} ms" if "period" in params else "",
                    f"; of it the hypervisor {steal:.1%}" if steal >= _LOST else "",
                    f"; there ran {params['ran']}" if "ran" in params else "",
                    f"; interrupts: {params['interrupts']}" if "interrupts" in params else "",
                ))  # fmt: skip
