"""The loop that a hotspot computes in, and the cycles that its machine code needs at least.

Of the function's loops, the innermost one with most samples is taken. It must have one path through it, or
the samples must show clearly which path is taken. llvm-mca then says how many cycles an iteration needs on
the processor's ports, and the latencies of its instructions say how many the longest chain of dependencies
needs. Both are lower bounds for a model in which all data are in the first cache, all branches are predicted
and there are many iterations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc.observe.elf import ElfFile
from npc.observe.hotspots import instructions
from npc.observe.hotspots.dependencies import Latency, chain, through_memory
from npc.observe.hotspots.disassembly import Instruction, NotRead, disassemble
from npc.observe.hotspots.llvm import Model, NoModel, model_of
from npc.observe.hotspots.machine_model import needs_of
from npc.observe.hotspots.paths import Loop, NoLoop, hottest_loop
from npc.observe.hotspots.records import Hotspot, LoopBound

#: Instructions that decoders fuse with a conditional jump after them.
_FUSED: Final = re.compile(r"(?:cmp|test|add|sub|and|inc|dec)[bwlq]?")
#: Cycles until the result of an instruction whose latency without its load is not known.
_LEAST: Final = 1.0


class SampledFunction(NamedTuple):
    """A function and where in it the samples are."""

    #: The file of its machine code.
    path: Path
    #: Of that file when the program ran; empty where it is not known.
    build_id: str
    #: Its first address in the file and the one after its last; None where the file does not say.
    range: tuple[int, int] | None
    #: Address in the file → samples there.
    counts: Counter[int]


def with_loop(hotspot: Hotspot, sampled: SampledFunction, processor: Mapping[str, Any]) -> Hotspot:
    """The hotspot with its loop, or with the reason why it has none. processor: the node's
    (`npc.observe.hotspots.processor.node_processor`)."""
    try:
        return hotspot._replace(loop=bound(sampled, processor), loop_reason="")
    except (NotRead, NoLoop, NoModel) as reason:
        return hotspot._replace(loop=None, loop_reason=str(reason))


def bound(sampled: SampledFunction, processor: Mapping[str, Any]) -> LoopBound:
    """The bound of the function's hottest loop. Raises NotRead, NoLoop and NoModel, which say why there is
    none."""
    if not sampled.path.is_absolute() or not sampled.path.is_file():
        raise NotRead(f"{sampled.path} is no file with machine code here")
    if sampled.range is None:
        raise NotRead(f"{sampled.path} does not say where its function begins and ends (no unwind table)")
    clock = processor.get("clock_hz")
    if not clock:
        raise NoModel(f"the clock was not measured: {processor.get('clock_reason', 'on no rank')}")
    file = _read(sampled.path)
    if sampled.build_id and file.build_id != sampled.build_id:
        raise NotRead(f"{sampled.path} is no longer the program that ran (its build id is another)")
    model = model_of(processor)
    loop = hottest_loop(disassemble(sampled.path, *sampled.range), sampled.counts)
    (lines,) = file.lines([loop.code[0].address])
    source = f"{Path(lines[0].file).name}:{lines[0].number}" if lines else ""
    return bound_of(loop, model, float(clock), str(processor.get("clock", "")), source)


def _read(path: Path) -> ElfFile:
    try:
        return ElfFile(path)
    except (OSError, ValueError) as error:
        raise NotRead(str(error)) from None


def bound_of(loop: Loop, model: Model, clock_hz: float, clock: str, source: str = "") -> LoopBound:
    """What the model says of the loop. Raises NoModel, and NotRead where the bytes are not known."""
    code = [
        instruction for instruction in loop.code if not re.match(r"nop|endbr|data16", instruction.mnemonic)
    ]
    dispatched = _as_dispatched(code)
    needs = needs_of([_assembler_text(instruction) for instruction in dispatched], model)
    chain_cycles = chain(dispatched, _latencies(dispatched, needs.latencies, model))
    flop = sum(map(instructions.flop, code))
    slower = max(needs.ports, chain_cycles)
    return LoopBound(
        model=model.name,
        address=f"{loop.code[0].address:#x}",
        source=source,
        flop=flop,
        bytes=sum(map(instructions.bytes_moved, code)),
        instructions=len(code),
        port_cycles=needs.ports,
        chain_cycles=chain_cycles,
        clock_hz=clock_hz,
        flops=flop * clock_hz / slower,
        share=loop.share,
        clock=clock,
        precision=_precision(code),
        notes=tuple(_notes(code, model.name)),
    )


def _as_dispatched(code: Sequence[Instruction]) -> list[Instruction]:
    """The instructions without conditional jumps that decoders fuse with the comparison before them, which
    LLVM's models do not do, and without a jump that only closes the loop."""
    return [
        instruction
        for before, instruction in zip([None, *code], code, strict=False)
        if not (
            instruction.jumps
            and (instruction.mnemonic == "jmp" or (before and _FUSED.fullmatch(before.mnemonic)))
        )
    ]


def _assembler_text(instruction: Instruction) -> str:
    """The instruction as LLVM's assembler reads it. The target of a jump does not matter, but must be a
    number."""
    if instruction.jumps:
        return f"{instruction.mnemonic} 0"
    return re.sub(r" <[^>]*>", "", instruction.text)


def _latencies(code: Sequence[Instruction], whole: Sequence[float], model: Model) -> list[Latency]:
    """The latencies of all instructions. For an instruction that loads and computes the model gives the
    latency from its address; from its other operands it is that of the same instruction with a register
    instead of memory."""
    reasons = []
    for instruction, latency in zip(code, whole, strict=True):
        text = _with_register(instruction) if instruction.memory and not instruction.stores else ""
        reasons.append(Latency(min(_latency(text, model), latency) if text else latency, latency))
    return reasons


@lru_cache
def _latency(text: str, model: Model) -> float:
    try:
        return needs_of([text], model).latencies[0]
    except NoModel:  # the instruction has no form with a register
        return _LEAST


def _with_register(instruction: Instruction) -> str:
    """The instruction with a register instead of its operand in memory; empty where it only loads."""
    others = [operand for operand in instruction.operands if operand != instruction.memory]
    if not instructions.effects(instruction).reads:
        return ""
    size = instruction.operand_bytes
    vectors = re.findall(r"%([xyz])mm", " ".join(others))
    if re.search(r"cvtsi2s|pinsr", instruction.mnemonic) or not vectors:
        register = {1: "%r11b", 2: "%r11w", 4: "%r11d", 8: "%r11"}.get(size, "")
    elif "{1to" in instruction.memory:
        register = f"%{vectors[-1]}mm15"
    else:
        register = {32: "%ymm15", 64: "%zmm15"}.get(size, "%xmm15")
    return _assembler_text(instruction).replace(instruction.memory, register) if register else ""


def _precision(code: Sequence[Instruction]) -> str:
    """The precision of most FLOP; empty without any."""
    by_precision: Counter[str] = Counter()
    for instruction in code:
        by_precision[instructions.precision(instruction)] += int(instructions.flop(instruction))
    name, most = max(by_precision.items(), key=lambda item: item[1])
    return name if most else ""


def _notes(code: Sequence[Instruction], model: str) -> Iterable[str]:
    if any(instructions.is_masked(instruction) and instructions.flop(instruction) for instruction in code):
        yield "under a mask: its FLOP are an upper bound"
    if any("gather" in instruction.mnemonic for instruction in code) and ", znver" in model:
        yield "LLVM's models of AMD's processors take a gather for one load: it takes far more cycles"
    if model.endswith("sapphirerapids") and any(map(instructions.flop, code)):
        yield "LLVM's model adds in 3 cycles, this core in 2 after another addition: the chain may be shorter"
    if again := through_memory(code):
        yield f"`{again}` reads what the loop has just stored: that wait is not in the bound"
