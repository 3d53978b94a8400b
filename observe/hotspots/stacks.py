"""Counts the stacks that ``perf script`` prints.

Fields ``pid,event,period,ip,sym,symoff,dso`` with mappings and losses (perf-script(1)); a sample of a clock
has its stack below it, leaf first, one of a hardware event its address on the same line::

    PERF_RECORD_MMAP2 24279/24279: [0x555ded2f9000(0x1000) @ 0x1000 fe:00 9994243 0]: r-xp /tmp/app
    24279   10101010 cpu-clock:
                126c heavy+0xac (/tmp/app)
                10a2 main+0x42 (/tmp/app)

Addresses are offsets in the file or addresses in memory, depending on perf's version and the kind of sample.
The mappings turn both into virtual addresses of the file.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from npc.observe.elf import ElfFile


KERNEL: Final = "[kernel]"
#: Code that a program made while it ran, without a map of it for perf (/tmp/perf-PID.map).
JIT: Final = "[jit]"
#: An address without code: found in a stack where the frame pointer's register was used for something else.
NOWHERE: Final = "[unknown]"
CLOCK: Final = "cpu-clock"

#: Longer names are C++'s templates.
_LONGEST_NAME: Final = 300
_MAPPED: Final = re.compile(
    r"PERF_RECORD_MMAP2? (-?\d+)/-?\d+: \[(0x[0-9a-f]+)\((0x[0-9a-f]+)\) @ (0x[0-9a-f]+|0).*?\]: \S+ (.*)"
)
_LOST: Final = re.compile(r"PERF_RECORD_LOST(?:_SAMPLES)? lost (\d+)")
_SAMPLE: Final = re.compile(r"\s*(-?\d+)\s+(\d+)\s+(\S.*?):(?:\s+(.*))?")
_FRAME: Final = re.compile(r"\s*([0-9a-f]+) (.*?)(?:\+0x([0-9a-f]+))? \(([/\[].*|[^()]*)\)")
#: What perf adds to an event's name: cycles/call-graph=no/u, cpu-clock:u, cpu_core/cycles/.
_MODIFIERS: Final = re.compile(r"^cpu_\w+/|(?<=\w)[/:].*$")
_INLINED: Final = "inlined"
_SYSTEM: Final = re.compile(r"\[(?!vdso|vsyscall|unknown|JIT|heap|stack|anon)")
_ANONYMOUS: Final = re.compile(
    r"//anon|\[(JIT|heap|stack|anon)|/dev/zero|/memfd:|/tmp/perf-\d+\.map|anon_inode"
)


class Code(NamedTuple):
    """Where a frame of a stack is."""

    #: Its symbol; without one an address in hexadecimal, where the function begins if the file's unwind table
    #: tells, else of the frame itself.
    function: str
    #: Path of the file, or `KERNEL`, `JIT`, `NOWHERE`.
    module: str
    #: In the file; in memory where there is no file.
    address: int
    #: Whether `function` is a symbol.
    named: bool


class Stacks:
    """The samples of one rank, counted."""

    def __init__(self) -> None:
        #: (function, module); a place in this list stands for one of them below.
        self.functions: list[tuple[str, str]] = []
        #: Stack, as places of its functions, outermost first → samples of the clock.
        self.counts: Counter[tuple[int, ...]] = Counter()
        #: Place of a function → address → samples there at the top of the stack.
        self.addresses: defaultdict[int, Counter[int]] = defaultdict(Counter)
        #: Place of a function → hardware event → how often it happened.
        self.events: defaultdict[int, Counter[str]] = defaultdict(Counter)
        #: Places of functions without a symbol.
        self.unnamed: set[int] = set()
        #: Samples that perf could not read in time.
        self.lost = 0
        self._numbers: dict[tuple[str, str], int] = {}
        self._mapped: defaultdict[int, dict[str, list[tuple[int, int, int]]]] = defaultdict(dict)
        self._code_by_process: defaultdict[int, dict[str, Code]] = defaultdict(dict)
        self._files: dict[str, ElfFile | None] = {}

    @property
    def samples(self) -> int:
        """Number of samples of the clock."""
        return self.counts.total()

    def read(self, lines: Iterable[str]) -> None:
        """Count what perf prints, line by line."""
        event, process, frames = "", 0, list[str]()
        for line in lines:
            if line[:1] == "\t":
                frames.append(line)
            elif line != "\n":
                self._count(event, process, frames)
                event, frames = "", []
                if "PERF_RECORD_" in line:
                    self._note(line)
                elif sample := _SAMPLE.fullmatch(line.rstrip("\n")):
                    process, event = int(sample[1]), _MODIFIERS.sub("", sample[3])
                    frames = [sample[4]] if sample[4] else []
                    if event != CLOCK:
                        self._add_event(event, int(sample[2]), process, frames)
                        event = ""
        self._count(event, process, frames)

    def file(self, module: str) -> ElfFile | None:
        """The file of a module; None where there is none, or none any more."""
        if not module.startswith("/"):
            return None
        if module not in self._files:
            from npc.observe.elf import ElfFile  # after the rank's end: it is more than the standard library

            try:
                self._files[module] = ElfFile(Path(module))
            except (OSError, ValueError):
                self._files[module] = None
        return self._files[module]

    def _note(self, line: str) -> None:
        if mapped := _MAPPED.search(line):
            process, path = int(mapped[1]), mapped[5].strip()
            start, length, offset = (int(mapped[group], 16) for group in (2, 3, 4))
            self._mapped[process].setdefault(path, []).append((start, start + length, offset))
            self._code_by_process.pop(
                process, None
            )  # a program may have been started in the place of another
        elif lost := _LOST.search(line):
            self.lost += int(lost[1])

    def _count(self, event: str, process: int, frames: list[str]) -> None:
        if not event:
            return
        codes = self._codes(process, frames)
        leaf = codes[0]
        stack = tuple(self._number(code) for code in reversed(codes))
        self.counts[stack] += 1
        self.addresses[stack[-1]][leaf.address] += 1

    def _add_event(self, event: str, period: int, process: int, frames: list[str]) -> None:
        if frames:
            leaf = self._codes(process, frames[:1])[0]
            self.events[self._number(leaf)][event] += period

    def _number(self, code: Code) -> int:
        key = (code.function, code.module)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.functions)
            self.functions.append(key)
            if not code.named:
                self.unnamed.add(number)
        return number

    def _codes(self, process: int, frames: list[str]) -> list[Code]:
        """The codes of a stack, leaf first. An inlined function has the module of the one that it is in. Of
        several addresses without code in a row one is kept; at the outer end none, since there they only show
        that the stack could not be followed further."""
        mapping = self._code_by_process[process]
        codes: list[Code] = []
        for line in reversed(frames):  # outermost first, so a function is known before what is inlined in it
            code = mapping.get(line)
            if code is None:
                code = self._code(process, line)
                mapping[line] = code
            if code.module == _INLINED:
                code = code._replace(module=codes[-1].module if codes else NOWHERE)
            if code.module == NOWHERE and (not codes or codes[-1].module == NOWHERE):
                continue
            codes.append(code)
        codes.reverse()
        return codes or [Code(NOWHERE, NOWHERE, 0, named=False)]

    def _code(self, process: int, line: str) -> Code:
        match = _FRAME.fullmatch(line.strip())
        if match is None:
            return Code(NOWHERE, NOWHERE, 0, named=False)
        place, symbol, offset, module = int(match[1], 16), match[2], match[3], match[4]
        named = symbol != "[unknown]"
        name = symbol if len(symbol) <= _LONGEST_NAME else f"{symbol[: _LONGEST_NAME - 1]}…"
        if _SYSTEM.match(module):
            # Addresses in the kernel hold for this boot of this node only: without a symbol they are useless.
            return Code(name if named else KERNEL, KERNEL, place, named)
        if module == _INLINED:
            return Code(name, _INLINED, place, named)
        if module == "[unknown]":
            return Code(NOWHERE, NOWHERE, 0, named=False)
        if _ANONYMOUS.match(module):
            return Code(name if named else hex(place), JIT, place, named)
        module = module.removesuffix(" (deleted)")
        file = self.file(module)
        address = self._offset(process, module, place)
        if file is not None:
            address = file.address(address)
        function = file.function(address) if file is not None else None
        if named and function is not None:
            # A return address may be just past the end of a function. Where symbols have no size, perf takes
            # the nearest symbol before the address, even of another function: that is not its name.
            before = file.function(address - 1) if file is not None else None
            named = address - int(offset or "0", 16) >= (before or function).first
        if named:
            return Code(name, module, address, named)
        return Code(hex(function.first if function is not None else address), module, address, named)

    def _offset(self, process: int, module: str, place: int) -> int:
        """The offset in its file of an address that perf printed; it may be one already."""
        for start, end, offset in self._mapped[process].get(module, ()):
            if start <= place < end:
                return place - start + offset
        return place
