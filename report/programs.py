"""The observed programs of a report's runs, each under its heading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, TypeVar

from npc.page.blocks import Block, Heading, Text
from npc.report.observed import Observed, newest
from npc.report.runs import Report, Run
from npc.report.sections import runs_of

#: Of a run.
_MOST: Final = 6

Part = TypeVar("Part")


def programs(
    report: Report,
    part_of: Callable[[Observed], Part | None],
    blocks_of: Callable[[Report, Run, Observed, Part], Iterator[Block]],
) -> Iterator[Block]:
    """What a section shows of the newest run of each program that has its part of an observation."""
    for run in runs_of(report):
        observations = newest(observation for observation in run.observed if part_of(observation))
        for observation in observations[:_MOST]:
            if part := part_of(observation):
                yield Heading(f"{report.label(run, '{}: ')}{observation.name}")
                yield from blocks_of(report, run, observation, part)
        if len(observations) > _MOST:
            yield Text(
                f"Not shown here: {'; '.join(observation.name for observation in observations[_MOST:])}.",
                "note",
            )
