"""Cores that lose more of their time than others, to the operating system or to somebody else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

from npc.hostlist import host_text
from npc.records.record import Record
from npc.records.series import CORE
from npc.validity.rule import Circumstances, rule_of_run

#: Share of its time from which on a core's loss is reported: a parallel program waits for its slowest rank,
#: so what one core loses all lose.
_LOST: Final = 0.01
#: And so many times what the median of the other cores loses.
_TIMES: Final = 3.0


@rule_of_run(
    "noisy_core",
    "a core that loses more of its time than the node's others",
    "Petrini, Kerbyson, Pakin, SC'03: noise of a single core shows in collectives; Hoefler, Schneider, "
    "Lumsdaine, SC10",
    level="note",
)
def noisy_core(records: Sequence[Record], _: Circumstances) -> Iterator[tuple[int, str]]:
    """A core that loses 1 % of its time or more in selfish detours, and three times as much as the median of
    the node's other cores."""
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
                    f"core {core} of {host_text(hosts)} lost {own:.1%} of its time ",
                    f"(median {share:.1%}, the other cores {usual:.1%})",
                    f", every {1e3 * float(params['period']):.3g} ms" if "period" in params else "",
                    f"; of it the hypervisor {steal:.1%}" if steal >= _LOST else "",
                    f"; there ran {params['ran']}" if "ran" in params else "",
                    f"; interrupts: {params['interrupts']}" if "interrupts" in params else "",
                ))  # fmt: skip
