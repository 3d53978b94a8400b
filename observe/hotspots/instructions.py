"""What an x86-64 instruction does: FLOP, bytes between registers and memory, registers read and written.

Mnemonics are those of Intel's Software Developer's Manual, volume 2, in AT&T's spelling.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from npc.observe.hotspots.disassembly import Instruction

_WIDTHS: Final = {"x": 16, "y": 32, "z": 64}
_ELEMENTS: Final = {"d": 8, "s": 4, "h": 2}
_VECTOR: Final = re.compile(r"%([xyz])mm(\d+)")
_REGISTER: Final = re.compile(r"%(\w+)")
_ARITHMETIC: Final = re.compile(r"v?(?:h?add|h?sub|addsub|mul|div|sqrt)([ps])([dsh])")
_FUSED: Final = re.compile(r"vfn?m(?:add|sub|addsub|subadd)(?:132|213|231)?([ps])([dsh])")
_MASK: Final = re.compile(r"\{%k\d\}")
#: Instructions that only read, and that only write, a destination in memory. All others do both.
_ONLY_READ: Final = re.compile(r"cmp[bwlq]?|test[bwlq]?|bt[wlq]?|i?(?:mul|div)[bwlq]?|push[wlq]?|v?ldmxcsr")
_ONLY_WRITTEN: Final = re.compile(
    r"v?(?:mov|pmov|maskmov|pextr|extract|p?compress|p?scatter|cvtps2ph|stmxcsr).*|set.*|kmov.*|pop[wlq]?"
)
_GATHER: Final = re.compile(r"vp?(?:gather|scatter)([dq])(?:p?[ds]|[dq])")

#: Instructions that write nothing that a later one might wait for.
_SILENT: Final = re.compile(r"nop[wl]?|endbr64|prefetch.*|j.*|.?fence|pause|vzeroupper")
_COMPARES: Final = re.compile(
    r"(?:cmp|test|bt)[bwlq]?|v?u?comis[sdh]|v?ptest|vtestp[sd]|k?ortest[bwdq]|ktest[bwdq]|kortest[bwdq]"
)
#: Instructions with two operands that write their destination without reading it.
_WRITES: Final = re.compile(
    r"mov.*|lea[wlq]?|cvt.*|sqrt[ps][sd]|r(?:c|sqr)tp?[ps]s|round[ps][sd]|pshuf[dhl]w?|lddqu|set.*|p?abs[bwd]|pmov[sz]x.*"
    r"|pmovmskb|movmsk.*|popcnt[wlq]?|[lt]zcnt[wlq]?|kmov[bwdq]|bswap"
)
#: Vector instructions of three or four operands that read their destination.
_ACCUMULATES: Final = re.compile(
    r"vfn?m(?:add|sub|addsub|subadd)(?:132|213|231).*|vpternlog.*|vperm[it]2.*|vpdp.*|vdpbf16ps|vpmadd52.*|vpsh[lr]dv.*"
    r"|vfixupimm.*|vp?gather.*|vf?c?maddc.*"
)
#: With two equal sources these give zero (or ones) without waiting for the sources.
_IDIOM: Final = re.compile(
    r"v?p?xor(?:[bwlq]|p[sd])?|v?xorp[sd]|vpxor[dq]|sub[bwlq]?|v?psub[bwdq]|v?pcmpeq[bwd]"
)
_SETS_FLAGS: Final = re.compile(
    r"(?:add|sub|and|or|xor|neg|inc|dec|adc|sbb|sh[lr]|sa[lr]|rc?[lr]|ro[lr]|sh[lr]d|i?mul|blsr|blsi|blsmsk|andn|bextr|bzhi"
    r"|popcnt|[lt]zcnt|bs[fr])[bwlq]?"
)
_READS_FLAGS: Final = re.compile(r"(?:adc|sbb|rc[lr])[bwlq]?|cmov.*|set.*")
_WIDENS: Final = {
    "cltq": ("a", "a"),
    "cwtl": ("a", "a"),
    "cbtw": ("a", "a"),
    "cqto": ("a", "d"),
    "cltd": ("a", "d"),
    "cwtd": ("a", "d"),
}
#: Copies that modern processors make by renaming alone.
_COPIES: Final = re.compile(r"mov[lq]?|v?mov(?:ap[sd]|up[sd]|dq[au](?:8|16|32|64)?)")
#: Instructions for which there is no model: they run other code or the system, or repeat by themselves.
_OPAQUE: Final = re.compile(
    r"call[q]?|l?ret[q]?|syscall|int\d?|cpuid|rdtscp?|x(?:save|rstor).*|hlt|ud2|x(?:begin|end|abort)|.*\(bad\).*"
)


class InstructionEffects(NamedTuple):
    """The registers that an instruction uses. Narrow registers count as the wide ones that they are part of,
    the flags as one register, ``flags``."""

    #: Whose values it changes.
    writes: frozenset[str]
    #: Whose values it works with.
    reads: frozenset[str]
    #: Of its address in memory.
    address: frozenset[str]


def obstacle(instruction: Instruction) -> str:
    """Why a loop with this instruction is not modelled; empty where it may be."""
    if _OPAQUE.fullmatch(instruction.mnemonic):
        return f"`{instruction.text}` in it runs code outside the loop"
    if any(prefix.startswith("rep") for prefix in instruction.prefixes):
        return f"`{instruction.text}` in it repeats as often as a register says"
    if instruction.mnemonic in ("pause", "tpause", "umwait"):
        return f"`{instruction.text}` in it: it waits for another core"
    if re.match(r"f(?!ence)|emms", instruction.mnemonic):
        return f"`{instruction.text}` in it is x87's, whose stack of registers is not followed"
    if "lock" in instruction.prefixes or (instruction.mnemonic.startswith("xchg") and instruction.memory):
        return f"`{instruction.text}` in it is atomic: how long it takes depends on the other cores"
    return ""


def flop(instruction: Instruction) -> float:
    """FLOP of an instruction. An addition, subtraction, multiplication, division or square root is one, a
    fused multiply-add two; minima, comparisons and conversions are none. Of a masked instruction all
    elements count, so its number is an upper bound."""
    name = instruction.mnemonic
    match = _ARITHMETIC.fullmatch(name) or _FUSED.fullmatch(name)
    if match is None:
        return 0.0
    packed, kind = match.groups()
    elements = _vector_bytes(instruction) // _ELEMENTS[kind] if packed == "p" else 1
    return elements * (2.0 if _FUSED.fullmatch(name) else 1.0)


def precision(instruction: Instruction) -> str:
    """Precision of its FLOP: double, single or half."""
    match = _ARITHMETIC.fullmatch(instruction.mnemonic) or _FUSED.fullmatch(instruction.mnemonic)
    return {"d": "double", "s": "single", "h": "half"}[match[2]] if match else "double"


def is_masked(instruction: Instruction) -> bool:
    """Whether it works only on the elements that a mask selects."""
    return bool(_MASK.search(instruction.text)) or "maskmov" in instruction.mnemonic


def bytes_moved(instruction: Instruction) -> float:
    """Bytes loaded and stored by its operand in memory, including spilled registers. A broadcast loads one
    element, a gather all its elements. Of a masked instruction all elements count. Raises NotRead."""
    size = instruction.operand_bytes
    if not size:
        return 0.0
    if gather := _GATHER.fullmatch(instruction.mnemonic):
        element = 8 if re.search(r"(?:pd|[dq]q)$", instruction.mnemonic) else 4
        index = max((_WIDTHS[letter] for letter, _ in _VECTOR.findall(instruction.memory)), default=16)
        values = [operand for operand in instruction.operands if operand != instruction.memory]
        vector = _WIDTHS[_VECTOR.findall(values[-1])[0][0]]
        return float(element * min(vector // element, index // (4 if gather[1] == "d" else 8)))
    if instruction.stores and not (
        _ONLY_READ.fullmatch(instruction.mnemonic) or _ONLY_WRITTEN.fullmatch(instruction.mnemonic)
    ):
        return 2.0 * size
    return float(size)


def writes_memory(instruction: Instruction) -> bool:
    return instruction.stores and not _ONLY_READ.fullmatch(instruction.mnemonic)


def reads_memory(instruction: Instruction) -> bool:
    if not instruction.memory:
        return False
    return not instruction.stores or not _ONLY_WRITTEN.fullmatch(instruction.mnemonic)


def is_copy(instruction: Instruction) -> bool:
    """Whether it copies a register to another."""
    return bool(_COPIES.fullmatch(instruction.mnemonic)) and all(
        operand.startswith("%") and "{" not in operand for operand in instruction.operands
    )


def effects(instruction: Instruction) -> InstructionEffects:
    """The registers that it reads and writes.

    A register that may or may not be read counts as not read. So a chain of dependencies is never longer here
    than in the processor, and its cycles are a lower bound.
    """
    name, operands = instruction.mnemonic, instruction.operands
    address = frozenset(_registers(instruction.memory)) if instruction.memory else frozenset()
    values = [frozenset(_registers(operand)) for operand in operands if operand != instruction.memory]
    everything = frozenset().union(*values)
    if _SILENT.fullmatch(name):
        return InstructionEffects(frozenset(), frozenset(), frozenset())
    if _COMPARES.fullmatch(name):
        return InstructionEffects(frozenset(("flags",)), everything, address)
    if name in _WIDENS:
        narrow, wide = _WIDENS[name]
        return InstructionEffects(frozenset((wide,)), frozenset((narrow,)), address)
    if re.fullmatch(r"i?(?:mul|div)[bwlq]?", name) and len(operands) == 1:
        high = frozenset(("d",)) if "div" in name else frozenset[str]()
        return InstructionEffects(frozenset(("a", "d")), everything | {"a"} | high, address)
    flags = frozenset(("flags",)) if _SETS_FLAGS.fullmatch(name) else frozenset[str]()
    read_flags = frozenset(("flags",)) if _READS_FLAGS.fullmatch(name) else frozenset[str]()
    if instruction.stores:
        return InstructionEffects(frozenset(flags), everything | read_flags, address)
    if not operands:
        return InstructionEffects(frozenset(), frozenset(), address)
    target, mask = _target(operands[-1])
    compared = operands[:-1] if len(operands) > 2 else operands
    if _IDIOM.fullmatch(name) and len(operands) > 1 and len(set(compared)) == 1:
        return InstructionEffects(target | flags, frozenset(), frozenset())
    sources = frozenset().union(
        *(frozenset(_registers(operand)) for operand in operands[:-1] if operand != instruction.memory)
    )
    if _keeps(instruction):
        sources |= target
    if name.startswith("mulx"):
        target |= frozenset(_registers(operands[-2]))
        sources = (sources - frozenset(_registers(operands[-2]))) | {"d"}
    return InstructionEffects(target | flags, sources | mask | read_flags, address)


def _keeps(instruction: Instruction) -> bool:
    """Whether it reads its destination."""
    name, operands = instruction.mnemonic, instruction.operands
    merges = bool(_MASK.search(operands[-1])) and "{z}" not in operands[-1]
    if _ACCUMULATES.fullmatch(name) or merges:
        return True
    if name.startswith("v") or len(operands) > 2:
        return name.startswith(
            ("shld", "shrd", "pinsr", "shufp", "insertps", "blend", "palignr", "cmpp", "cmps", "dpp")
        )
    if re.fullmatch(r"mov(?:hp|lp)[sd]|movhlps|movlhps", name):
        return True
    if name in ("movsd", "movss"):
        return not instruction.memory
    return not _WRITES.fullmatch(name) and not name.startswith("pop")


def _target(operand: str) -> tuple[frozenset[str], frozenset[str]]:
    """The register of a destination, and that of its mask."""
    whole, _, mask = operand.partition("{")
    return frozenset(_registers(whole)), frozenset(_registers(mask.partition("}")[0]))


def _registers(operand: str) -> Iterator[str]:
    for name in _REGISTER.findall(operand):
        if wide := wide_name(name):
            yield wide


def wide_name(name: str) -> str:
    """The register that a narrow one is part of: ``eax`` and ``al`` → ``a``, ``xmm3`` → ``v3``; empty for
    registers that are not followed (segments, the instruction pointer)."""
    name = name.removeprefix("%")
    if match := re.fullmatch(r"[xyz]mm(\d+)", name):
        return f"v{match[1]}"
    if match := re.fullmatch(r"(r\d+)[dwb]?|(k\d)", name):
        return match[1] or match[2]
    if match := re.fullmatch(r"[re]?([abcd])x|([abcd])[lh]", name):
        return match[1] or match[2]
    if match := re.fullmatch(r"[re]?(si|di|bp|sp)l?", name):
        return match[1]
    return ""


def _vector_bytes(instruction: Instruction) -> int:
    """Bytes of the vectors that it works on: those of its destination, or of its operand in memory."""
    widths = [_WIDTHS[letter] for operand in instruction.operands for letter, _ in _VECTOR.findall(operand)]
    return max(widths, default=16)
