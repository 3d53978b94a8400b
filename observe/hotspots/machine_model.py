"""How many cycles a loop's instructions need on a processor's ports, by llvm-mca."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final, NamedTuple

from npc.machine.command import last_words, run
from npc.observe.hotspots.llvm import Model, NoModel

_TIMEOUT_S: Final = 60.0


class CycleNeeds(NamedTuple):
    """What llvm-mca says of a block of instructions."""

    #: Cycles of one iteration that the busiest group of ports needs, or dispatch where that takes longer (the
    #: block's reciprocal throughput).
    ports: float
    #: Of each instruction, cycles from its operands to its result.
    latencies: tuple[float, ...]


def needs_of(code: Sequence[str], model: Model) -> CycleNeeds:
    """What llvm-mca says of instructions in AT&T's syntax as the body of a loop. Raises NoModel."""
    arguments = (
        model.tool, "-mtriple=x86_64-unknown-linux", f"-mcpu={model.core}", "--json", "--instruction-info",
        "--iterations=1",
    )  # fmt: skip
    done = run(arguments, "\n".join(code) + "\n", _TIMEOUT_S)
    if "is not a recognized processor" in done.stderr:
        raise NoModel(f"{model.tool} does not know the processor {model.core}")
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "error:" in line]
        raise NoModel(f"llvm-mca cannot read the loop: {[*errors, last_words(done)][0]}")
    needs = read_needs(done.stdout)
    if len(needs.latencies) != len(code):
        raise NoModel(f"{model.name} reads {len(code)} instructions as {len(needs.latencies)}")
    return needs


def read_needs(text: str) -> CycleNeeds:
    """The needs in what ``llvm-mca --json --instruction-info`` prints. Raises NoModel."""
    try:
        region = json.loads(text[text.index("{") :])["CodeRegions"][0]
        latencies = tuple(
            float(instruction["Latency"]) for instruction in region["InstructionInfoView"]["InstructionList"]
        )
        return CycleNeeds(float(region["SummaryView"]["BlockRThroughput"]), latencies)
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise NoModel(f"the output of llvm-mca cannot be read ({error!r})") from None
