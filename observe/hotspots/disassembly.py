"""The machine code of one function, disassembled twice by ``objdump`` of GNU's binutils.

AT&T's syntax is read by all assemblers; Intel's says how many bytes an operand in memory has (``YMMWORD
PTR``). Addresses are those of the file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from npc.machine.command import MISSING, last_words, run

_TIMEOUT_S: Final = 20.0
#: Longer code is taken for a mistake (B).
_MOST_BYTES: Final = 1 << 20
_LINE: Final = re.compile(r"\s*([0-9a-f]+):\t(.*)")
_PREFIXES: Final = frozenset((
    "addr32", "bnd", "cs", "data16", "ds", "es", "fs", "gs", "lock", "notrack", "rep", "repz", "repnz",
    "rex.W", "ss", "{evex}", "{vex}", "{vex3}",
))  # fmt: skip
_SIZES: Final = {
    "BYTE": 1, "WORD": 2, "DWORD": 4, "FWORD": 6, "QWORD": 8, "TBYTE": 10, "XMMWORD": 16, "OWORD": 16,
    "YMMWORD": 32, "ZMMWORD": 64,
}  # fmt: skip
_POINTER: Final = re.compile(rf"\b({'|'.join(_SIZES)}) (?:PTR|BCST)\b")
_TARGET: Final = re.compile(r"([0-9a-f]+)(?: <.*>)?")


class NotRead(Exception):
    """Why there is no machine code, as a message for the user."""


@dataclass(frozen=True)
class Instruction:
    """One instruction."""

    #: In its file.
    address: int
    #: In AT&T's syntax without comments, as an assembler takes it.
    text: str
    #: The same in Intel's syntax; empty where objdump has none.
    intel: str

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        words = self.text.split()
        count = next((place for place, word in enumerate(words) if word not in _PREFIXES), len(words))
        return tuple(words[:count])

    @cached_property
    def mnemonic(self) -> str:
        """Without prefixes and without the hint of a branch (``jne,pt``)."""
        words = self.text.split()[len(self.prefixes) :]
        return words[0].partition(",")[0] if words else ""

    @cached_property
    def operands(self) -> tuple[str, ...]:
        """In the order of AT&T's syntax: the destination is the last."""
        return _split(_after(self.text, len(self.prefixes) + 1))

    @cached_property
    def memory(self) -> str:
        """The operand in memory as AT&T writes it, empty without one. ``lea`` and prefetches have none."""
        if self.mnemonic.startswith(("lea", "nop", "prefetch")) or self.jumps or self.mnemonic == "call":
            return ""
        return next(
            (operand for operand in self.operands if "(" in operand and not operand.startswith("%st(")), ""
        )

    @cached_property
    def stores(self) -> bool:
        """Whether the destination is in memory."""
        intel = _split(_after(self.intel, len(self.prefixes) + 1))
        return bool(self.memory and intel and "[" in intel[0])

    @cached_property
    def operand_bytes(self) -> int:
        """Bytes of the operand in memory; 0 without one. Raises NotRead where objdump does not say."""
        if not self.memory:
            return 0
        match = _POINTER.search(self.intel)
        if match is None:
            raise NotRead(f"objdump does not say how many bytes `{self.text}` moves")
        return _SIZES[match[1]]

    @property
    def jumps(self) -> bool:
        return self.mnemonic.startswith("j")

    @cached_property
    def target(self) -> int | None:
        """Where a jump goes; None where a register or memory says so."""
        match = _TARGET.fullmatch(" ".join(self.operands)) if self.jumps else None
        return int(match[1], 16) if match else None


def disassemble(path: Path, first: int, after: int) -> list[Instruction]:
    """The instructions of a file's addresses `first` to before `after`. Raises NotRead."""
    if not 0 < after - first <= _MOST_BYTES:
        raise NotRead(f"{after - first} bytes of machine code are no function that is read here")
    range_ = (f"--start-address={first:#x}", f"--stop-address={after:#x}")
    att, intel = (
        read_lines(_run(("objdump", "-d", "--no-show-raw-insn", *range_, *how, str(path))))
        for how in ((), ("-M", "intel"))
    )
    if not att:
        raise NotRead(f"objdump finds no machine code at {first:#x} of {path}")
    return read_instructions(att, intel)


def read_instructions(att: Mapping[int, str], intel: Mapping[int, str]) -> list[Instruction]:
    """The instructions from both syntaxes, each by address."""
    return [Instruction(address, text, intel.get(address, "")) for address, text in sorted(att.items())]


def read_lines(text: str) -> dict[int, str]:
    """Address → instruction, without comments, of what ``objdump -d --no-show-raw-insn`` prints."""
    lines = filter(None, map(_LINE.fullmatch, text.splitlines()))
    return {int(line[1], 16): " ".join(line[2].partition("#")[0].split()) for line in lines}


def _run(command: Sequence[str]) -> str:
    done = run(command, timeout_s=_TIMEOUT_S)
    if done.returncode:
        hint = " (Debian: apt install binutils)" if done.returncode == MISSING else ""
        raise NotRead(f"{last_words(done)}{hint}")
    return done.stdout


def _after(text: str, words: int) -> str:
    return (text.split(maxsplit=words) + [""] * (words + 1))[words]


def _split(text: str) -> tuple[str, ...]:
    """Operands at the commas outside of brackets."""
    text = re.sub(r" <[^>]*>$", "", text)
    parts, depth, begin = [], 0, 0
    for place, letter in enumerate(text):
        depth += letter in "([{"
        depth -= letter in ")]}"
        if letter == "," and depth == 0:
            parts.append(text[begin:place].strip())
            begin = place + 1
    return tuple(filter(None, [*parts, text[begin:].strip()]))
