"""GPUs that were slowed down, or shared, while they were measured."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from npc.records.record import Record
from npc.records.series import GPU_PROCESSES
from npc.records.units import format_quantity
from npc.validity.rule import Circumstances, rule

#: What a GPU does by itself, whenever products take all of its power; anything else is a setting or a fault.
_ITS_OWN: Final = frozenset(("power cap",))
#: A GPU that works has this share of its highest clock or more; an idle one has a fifth.
_WORKING: Final = 0.5


@rule(
    "gpu_shared",
    "a GPU that others use",
    "NVIDIA, NVML API reference: nvmlDeviceGetComputeRunningProcesses",
)
def shared_gpu(record: Record, _: Circumstances) -> Iterator[str]:
    """Another process has memory on the GPU, and may compute on it at any time."""
    number = record.params.get(GPU_PROCESSES, "0")
    if number != "0":
        yield f"{number} other processes on GPU {record.params['gpu']}"


@rule(
    "gpu_clock",
    "a GPU whose clock was held down",
    "NVIDIA, NVML API reference: nvmlClocksEventReasons",
    level="note",
)
def held_down(record: Record, _: Circumstances) -> Iterator[str]:
    """Heat, power that fails, clocks that somebody set; or a clock far below the highest while it worked."""
    reasons = {*record.params.get("held_down_by", "nothing").split(", ")} - _ITS_OWN - {"nothing"}
    if reasons:
        yield f"the clock was held down by: {', '.join(sorted(reasons))}"
    highest = float(record.params.get("highest_clock", 0))
    if record.metric == "clock" and record.value and record.value < _WORKING * highest:
        clocks = " of ".join(format_quantity(clock, "Hz", 3) for clock in (record.value, highest))
        yield f"it worked at {clocks}"
