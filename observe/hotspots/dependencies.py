"""The longest chain of dependencies that goes from one iteration of a loop into the next.

Every iteration waits for results of the one before. The slowest closed chain of instructions that wait for
each other limits the loop, however many execution ports there are (the maximum cycle mean of an event graph:
Baccelli and others, Synchronization and Linearity, 1992, chapter 2). It is computed here as the growth of the
longest path per iteration, over many iterations.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import Final, NamedTuple

from npc.observe.hotspots.disassembly import Instruction
from npc.observe.hotspots.instructions import effects, is_copy, reads_memory, wide_name, writes_memory

#: Iterations; a multiple of 1 to 6, since a closed chain may span several iterations.
_ROUNDS: Final = 60
_ADDRESS: Final = re.compile(r"(-?0x[0-9a-f]+)?\((%\w+)?(?:,(%\w+),(\d))?\)")
#: Iterations after which a stored value is in the cache, so that a load of it does not wait.
_NEAR: Final = 8


class Latency(NamedTuple):
    """Cycles until the result of an instruction is there."""

    #: After the values that it works with.
    value: float
    #: After the registers of its address in memory.
    address: float


def chain(loop: Sequence[Instruction], latencies: Sequence[Latency]) -> float:
    """Cycles per iteration of the slowest closed chain through registers; waiting through memory does not
    count."""
    does = [effects(instruction) for instruction in loop]
    waits = [
        Latency(0.0, 0.0) if is_copy(instruction) else latency
        for instruction, latency in zip(loop, latencies, strict=True)
    ]
    ready: dict[str, float] = {}
    ends = []
    for _ in range(3 * _ROUNDS):
        for its, wait in zip(does, waits, strict=True):
            after = max(
                [ready.get(name, 0.0) + wait.value for name in its.reads]
                + [ready.get(name, 0.0) + wait.address for name in its.address],
                default=0.0,
            )
            ready.update(dict.fromkeys(its.writes, after))
        ends.append(max(ready.values(), default=0.0))
    return (ends[-1] - ends[-1 - _ROUNDS]) / _ROUNDS


def through_memory(loop: Sequence[Instruction]) -> str:
    """An instruction that loads what the loop has stored shortly before, as AT&T writes it; empty without
    one.

    Addresses are compared where they use the same registers, which keep their value or move by a constant in
    each iteration.
    """
    places = list(enumerate(_places(loop)))
    stored = [(number, place) for number, place in places if place and writes_memory(loop[number])]
    for number, read in places:
        if read is not None and reads_memory(loop[number]):
            for before, place in stored:
                same = place.registers == read.registers
                if same and _is_earlier(place.at - read.at, read.step, before < number):
                    return loop[number].text
    return ""


class _Address(NamedTuple):
    """An address in memory, in a loop."""

    #: Base, index and scale; empty texts where it has none.
    registers: tuple[str, str, str]
    #: What is added to them in the first iteration (B).
    at: int
    #: How far it moves from iteration to iteration (B).
    step: int


def _is_earlier(apart: int, step: int, in_order: bool) -> bool:
    """Whether a store `apart` bytes after a load's address was made a few iterations before the load, or,
    where the store comes first in the loop (`in_order`), in the same iteration. step: by which both move
    (B)."""
    if step == 0:
        return apart == 0
    iterations, rest = divmod(apart, step)
    return rest == 0 and (0 if in_order else 1) <= iterations <= _NEAR


def _places(loop: Sequence[Instruction]) -> list[_Address | None]:
    """The address of each instruction's operand in memory; None without one, and where it does not move by a
    constant."""
    moves = [_moves(instruction) for instruction in loop]
    whole: dict[str, int] = defaultdict(int)
    for register, by in moves:
        whole[register] += by
    lost = {
        name
        for instruction, move in zip(loop, moves, strict=True)
        for name in effects(instruction).writes - {move[0]}
    }
    so_far: dict[str, int] = defaultdict(int)
    addresses: list[_Address | None] = []
    for instruction, (register, by) in zip(loop, moves, strict=True):
        address = _ADDRESS.fullmatch(instruction.memory.partition("{")[0])
        if address is None or lost & set(effects(instruction).address):
            addresses.append(None)
        else:
            offset, base, index, scale = (part or "" for part in address.groups())
            wide = (wide_name(base), wide_name(index), scale)
            far = [names[wide[0]] + names[wide[1]] * int(scale or 1) for names in (so_far, whole)]
            addresses.append(_Address(wide, int(offset or "0", 16) + far[0], far[1]))
        so_far[register] += by
    return addresses


def _moves(instruction: Instruction) -> tuple[str, int]:
    """The register to which it adds a constant, and the constant; an empty name where it does something
    else."""
    name, operands = instruction.mnemonic.rstrip("lq"), instruction.operands
    if name in ("inc", "dec") and operands[0].startswith("%"):
        return wide_name(operands[0]), 1 if name == "inc" else -1
    if name in ("add", "sub") and operands[0].startswith("$") and operands[-1].startswith("%"):
        by = (int(operands[0][1:], 16) + (1 << 63)) % (1 << 64) - (1 << 63)
        return wide_name(operands[-1]), by if name == "add" else -by
    if (
        name == "lea"
        and (match := _ADDRESS.fullmatch(operands[0]))
        and match[2] == operands[-1]
        and not match[3]
    ):
        return wide_name(operands[-1]), int(match[1] or "0", 16)
    return "", 0
