"""Loops at rest: found in real machine code, counted by hand, held against known chains and this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.observe.elf import ElfFile
from npc.observe.hotspots.dependencies import Latency, chain, through_memory
from npc.observe.hotspots.disassembly import Instruction, NotRead, disassemble, read_instructions, read_lines
from npc.observe.hotspots.instructions import bytes_moved, effects, flop, is_masked, obstacle, precision
from npc.observe.hotspots.llvm import Model, NoModel, core_of, model_of, newest_tool
from npc.observe.hotspots.loop import SampledFunction, bound, with_loop
from npc.observe.hotspots.loop_lines import loop_lines
from npc.observe.hotspots.machine_model import needs_of, read_needs
from npc.observe.hotspots.paths import Loop, NoLoop, blocks_of, hottest_loop, natural_loops
from npc.observe.hotspots.processor import clock_hz, node_processor
from npc.observe.hotspots.records import HOTSPOTS, Hotspot, Hotspots, LoopBound
from npc.records.observed import read_part
from tests.paths import ROOT

DATA = ROOT / "tests/data/machine-code"
PROGRAM = ROOT / "tests/observe/programs/hot_loops.c"
SKYLAKE = {"machine": "x86_64", "vendor": "GenuineIntel", "family": 6, "model": 0x55, "name": "a Xeon"}


def functions(name: str) -> dict[str, list[Instruction]]:
    """The functions of a kept disassembly."""
    found: dict[str, list[Instruction]] = {}
    texts = [(DATA / f"{name}.{syntax}.txt").read_text() for syntax in ("att", "intel")]
    parts = [re.split(r"^[0-9a-f]{16} <(\w+)>:\n", text, flags=re.MULTILINE)[1:] for text in texts]
    for (function, att), (_, intel) in zip(
        *(zip(each[::2], each[1::2], strict=True) for each in parts), strict=True
    ):
        found[function] = read_instructions(read_lines(att), read_lines(intel))
    return found


O2, O3, ODD = functions("loops_O2"), functions("loops_O3"), functions("odd")["odd"]


def inside(code: Sequence[Instruction], samples: int = 100) -> Counter[int]:
    """As many samples on every instruction of the smallest loop."""
    graph = blocks_of(code)
    loops = natural_loops(graph)
    smallest = min(loops.values(), key=len)
    return Counter({each.address: samples for block in smallest for each in graph.blocks[block]})


def loop_of(code: Sequence[Instruction]) -> Loop:
    return hottest_loop(code, inside(code))


def ones(loop: Loop, value: float = 1.0, address: float = 0.0) -> list[Latency]:
    return [Latency(value, address)] * len(loop.code)


@pytest.mark.parametrize(
    ("code", "name", "instructions", "flop_", "bytes_"),
    [
        (O2, "sum", 4, 1, 8),
        (O2, "dot8", 21, 16, 128),
        (O2, "horner", 5, 2, 8),
        (O2, "quotient", 6, 1, 8),
        (O2, "chase", 3, 0, 8),
        (O2, "daxpy", 7, 2, 24),
        (O2, "prefix", 6, 2, 16),
        (O3, "daxpy", 6, 16, 192),
        (O3, "horner", 4, 2, 8),
        (O3, "squares", 19, 16, 64),  # 8 products, 8 sums
    ],
)  # fmt: skip
def test_what_an_iteration_does_is_counted_as_by_hand(
    code: Mapping[str, list[Instruction]], name: str, instructions: int, flop_: float, bytes_: float
) -> None:
    loop = loop_of(code[name])
    assert (len(loop.code), loop.share) == (instructions, 1.0)
    assert sum(map(flop, loop.code)) == flop_
    assert sum(map(bytes_moved, loop.code)) == bytes_


ODD_COUNTS = {  # FLOP, bytes
    "vaddpd": (8, 8), "vaddps": (4, 4), "vmulpd": (8, 64), "vfmadd231ps": (16, 32), "vfnmsub132sd": (2, 8),
    "vcvtdq2pd": (0, 16), "vcvtps2pd": (0, 16), "vbroadcastsd": (0, 8), "vbroadcastf128": (0, 16),
    "vextractf128": (0, 16), "vmovddup": (0, 8), "movhpd": (0, 8), "movss": (0, 4), "addsd": (1, 8),
    "haddpd": (2, 0), "sqrtpd": (2, 0), "vmaxpd": (0, 0), "addl": (0, 8), "cmpl": (0, 4), "movb": (0, 1),
    "lea": (0, 0), "prefetcht0": (0, 0), "vmovntpd": (0, 64), "cvtsi2sdl": (0, 4), "vpinsrd": (0, 4),
    "imul": (0, 8), "ret": (0, 0),
}  # fmt: skip


def test_broadcasts_conversions_and_halves_move_other_bytes_than_their_registers_have() -> None:
    counts = [(each.mnemonic, (flop(each), bytes_moved(each))) for each in ODD]
    gathers = [count for name, count in counts if "gather" in name]
    assert gathers == [(0, 32), (0, 16), (0, 64)]  # four doubles, four singles, eight doubles
    assert {name: count for name, count in counts if "gather" not in name} == ODD_COUNTS
    assert [each.mnemonic for each in ODD if is_masked(each) and flop(each)] == ["vmulpd"]
    assert precision(ODD[1]) == "single" and precision(ODD[0]) == "double"


@pytest.mark.parametrize(
    ("text", "writes", "reads"),
    [
        ("vfmadd231pd %ymm1,%ymm2,%ymm3", {"v3"}, {"v1", "v2", "v3"}),
        ("vaddpd %ymm1,%ymm2,%ymm3", {"v3"}, {"v1", "v2"}),
        ("addpd %xmm1,%xmm2", {"v2"}, {"v1", "v2"}),
        ("movapd %xmm1,%xmm2", {"v2"}, {"v1"}),
        ("vaddpd %zmm1,%zmm2,%zmm3{%k1}", {"v3"}, {"v1", "v2", "v3", "k1"}),
        ("vaddpd %zmm1,%zmm2,%zmm3{%k1}{z}", {"v3"}, {"v1", "v2", "k1"}),
        ("vxorpd %xmm1,%xmm1,%xmm2", {"v2"}, set()),
        ("xor %eax,%eax", {"a", "flags"}, set()),
        ("sub %rcx,%rax", {"a", "flags"}, {"a", "c"}),
        ("cmp %rax,%rdx", {"flags"}, {"a", "d"}),
        ("adc $0x0,%rdx", {"d", "flags"}, {"d", "flags"}),
        ("cmova %rax,%r9", {"r9"}, {"a", "r9", "flags"}),
        ("sqrtsd %xmm1,%xmm2", {"v2"}, {"v1"}),
        ("cvtsi2sd %eax,%xmm2", {"v2"}, {"a"}),
        ("imul $0x8,%rax,%rcx", {"c", "flags"}, {"a"}),
        ("div %rcx", {"a", "d"}, {"a", "c", "d"}),
        ("cqto", {"d"}, {"a"}),
        ("shl %cl,%rax", {"a", "flags"}, {"a", "c"}),
        ("inc %r10d", {"r10", "flags"}, {"r10"}),
        ("andn %rax,%rbx,%rcx", {"c", "flags"}, {"a", "b"}),
        ("vucomisd %xmm1,%xmm2", {"flags"}, {"v1", "v2"}),
    ],
)  # fmt: skip
def test_registers_that_an_instruction_reads_and_writes(text: str, writes: set[str], reads: set[str]) -> None:
    found = effects(Instruction(0, text, ""))
    assert (found.writes, found.reads, found.address) == (writes, reads, frozenset())


def test_chains_are_those_of_the_source() -> None:
    # 4 cycles for every result: an addition; a multiplication and an addition; one of four accumulators; a
    # division; and where there is none the counter
    for name, cycles in {"sum": 4, "horner": 8, "dot8": 4, "quotient": 4, "daxpy": 4}.items():
        loop = loop_of(O2[name])
        assert chain(loop.code, ones(loop, 4.0)) == cycles, name
    chase = loop_of(O2["chase"])
    assert chain(chase.code, ones(chase, 1.0, 5.0)) == 5
    assert chain(loop_of(O3["squares"]).code, ones(loop_of(O3["squares"]), 4.0)) == 32  # eight in a row
    assert chain(loop_of(O3["daxpy"]).code, ones(loop_of(O3["daxpy"]), 1.0)) == 1  # the counter


def test_a_copy_costs_nothing_and_a_chain_over_two_iterations_counts_half() -> None:
    # a, b = b, f(a)
    code = [Instruction(number, text, "") for number, text in enumerate((
        "movapd %xmm0,%xmm2", "movapd %xmm1,%xmm0", "vaddsd %xmm2,%xmm3,%xmm1",
    ))]  # fmt: skip
    assert chain(code, [Latency(4.0, 4.0)] * 3) == 2


additions = st.lists(
    st.tuples(*(st.integers(0, 3) for _ in range(3)), st.integers(1, 6)), min_size=1, max_size=5
)


@given(additions)
def test_the_chain_is_the_slowest_of_all_circles(added: list[tuple[int, int, int, int]]) -> None:
    """By trying every circle of instructions, each of which waits for the last one that wrote its operand."""
    code = [Instruction(at, f"vaddpd %ymm{a},%ymm{b},%ymm{c}", "") for at, (a, b, c, _) in enumerate(added)]
    writers = {
        register: [at for at, each in enumerate(added) if each[2] == register] for register in range(4)
    }
    waits: dict[int, set[tuple[int, int]]] = {}
    for at, (a, b, _, _) in enumerate(added):
        for register in (a, b):
            before = [each for each in writers[register] if each < at]
            for writer in before[-1:] or writers[register][-1:]:
                waits.setdefault(at, set()).add((writer, 0 if before else 1))

    def circles(way: tuple[int, ...], cycles: int, rounds: int) -> Iterator[float]:
        for writer, later in waits.get(way[-1], ()):
            if writer == way[0]:
                yield (cycles + added[writer][3]) / (rounds + later)
            elif writer > way[0] and writer not in way:
                yield from circles((*way, writer), cycles + added[writer][3], rounds + later)

    slowest = max((each for at in range(len(code)) for each in circles((at,), 0, 0)), default=0.0)
    found = chain(code, [Latency(float(each[3]), 0.0) for each in added])
    assert found == pytest.approx(slowest)


@pytest.mark.parametrize("name", ["sum", "dot8", "horner", "quotient", "daxpy", "prefix", "squares"])
def test_a_chain_is_the_same_wherever_the_loop_begins(name: str) -> None:
    code = loop_of(O3[name]).code
    latencies = [Latency(1.0 + at % 5, 4.0 + at % 3) for at in range(len(code))]
    first = chain(code, latencies)
    assert first > 0
    for at in range(1, len(code)):
        assert chain([*code[at:], *code[:at]], [*latencies[at:], *latencies[:at]]) == first


def test_what_the_loop_has_just_stored_is_seen() -> None:
    assert through_memory(loop_of(O2["daxpy"]).code) == ""
    texts = [
        "movsd -0x8(%rdi,%rax,8),%xmm1",
        "mulsd %xmm0,%xmm1",
        "movsd %xmm1,(%rdi,%rax,8)",
        "add $0x1,%rax",
    ]
    intel = ["movsd xmm1,QWORD PTR [a]", "mulsd xmm1,xmm0", "movsd QWORD PTR [a],xmm1", "add rax,0x1"]
    code = [Instruction(*each) for each in zip(range(4), texts, intel, strict=True)]
    assert through_memory(code) == texts[0]
    assert through_memory([*code[1:], code[0]]) == texts[0]  # the same loop, begun elsewhere
    ahead = replace(code[0], text="movsd 0x8(%rdi,%rax,8),%xmm1")
    assert through_memory([ahead, *code[1:]]) == ""
    other = replace(code[0], text="movsd -0x8(%rsi,%rax,8),%xmm1")
    assert through_memory([other, *code[1:]]) == ""


def test_the_innermost_loop_with_most_samples_is_the_one() -> None:
    code = O3["squares"]
    outer = max(natural_loops(blocks_of(code)).values(), key=len)
    samples = inside(code) + Counter({min(outer): 100})
    loop = hottest_loop(code, samples)
    assert loop.code[0].text == "vmulpd (%rax),%zmm5,%zmm1"
    assert loop.share == pytest.approx(19 / 20)
    with pytest.raises(NoLoop, match="has another loop in it"):
        hottest_loop(code, inside(code, 1) + Counter({min(outer): 1000}))


def test_why_a_loop_is_not_modelled() -> None:
    with pytest.raises(NoLoop, match="no loop"):
        hottest_loop(O2["sum"][:3], {O2["sum"][0].address: 100})
    with pytest.raises(NoLoop, match="none of its 7 samples is in a loop"):
        hottest_loop(O2["sum"], {O2["sum"][0].address: 7})
    assert "waits for another core" in obstacle(Instruction(0, "pause", "pause"))
    assert "is atomic" in obstacle(Instruction(0, "lock add %rax,(%rdi)", "lock add QWORD PTR [rdi],rax"))
    assert "as often as a register says" in obstacle(Instruction(0, "rep stos %rax,%es:(%rdi)", ""))
    assert "x87" in obstacle(Instruction(0, "fadds (%rax)", "fadd DWORD PTR [rax]"))
    assert not obstacle(Instruction(0, "lfence", "lfence"))
    with pytest.raises(NoLoop, match="5 of its 5 samples"):
        hottest_loop(O2["sum"], {each.address: 1 for each in loop_of(O2["sum"]).code} | {0x15F0: 2})
    with pytest.raises(NoLoop, match=r"`call .*sin.*` in it runs code outside the loop"):
        loop_of(O2["sines"])
    with pytest.raises(NoLoop, match="ways through it, and the samples do not say clearly"):
        loop_of(O2["above"])


def test_the_way_that_is_never_taken_is_left_out() -> None:
    code = O2["above"]
    graph = blocks_of(code)
    body = min(natural_loops(graph).values(), key=len)
    header = min(each for each in body if code[0].address < each and each == 0x1809)
    short = [0x1800, header]  # the elements that are below 3
    samples = Counter({each.address: 10 for block in short for each in graph.blocks[block]})
    assert [each.mnemonic for each in hottest_loop(code, samples).code] == [
        "movsd", "comisd", "jbe", "add", "cmp", "je",
    ]  # fmt: skip
    few = Counter({each.address: 2 for block in short for each in graph.blocks[block]})
    with pytest.raises(NoLoop, match="12 samples are too few to say which"):
        hottest_loop(code, few)


def test_llvm_mca_of_all_versions_is_read() -> None:
    kept = {path.stem: read_needs(path.read_text()) for path in DATA.glob("mca_*.json")}
    assert kept["mca_14_skylake-avx512"].latencies == (9, 1, 1)
    assert kept["mca_16_znver3"].latencies == kept["mca_19_znver4"].latencies == (11, 1, 1)
    assert all(0.5 <= each.ports <= 1.0 for each in kept.values())
    with pytest.raises(NoModel, match="cannot be read"):
        read_needs("{}")


def test_processors_without_a_model_are_said() -> None:
    assert core_of(SKYLAKE).name == "skylake-avx512"
    assert core_of({"vendor": "AuthenticAMD", "family": 25, "model": 17}).name == "znver4"
    for processor, said in (
        (
            {"vendor": "GenuineIntel", "family": 6, "model": 0xAD, "name": "Granite"},
            r"Granite \(family 6 model 173\)",
        ),
        (
            {"vendor": "AuthenticAMD", "family": 26, "model": 2},
            r"AuthenticAMD \(family 26 model 2\): nothing is guessed",
        ),
        ({**SKYLAKE, "amx": True}, "a virtual machine hides its name"),
        ({"machine": "aarch64"}, "x86-64 only, not on aarch64"),
        ({}, r"family \? model \?"),
    ):
        with pytest.raises(NoModel, match=said):
            core_of(processor)


def test_files_that_cannot_be_read_are_said(tmp_path: Path) -> None:
    hotspot = Hotspot("f", "m", 0.5, 0.5, 0.5, "compute", "")
    clocked = {**SKYLAKE, "clock_hz": 2e9}
    for sampled, processor, said in (
        (
            SampledFunction(Path("[vdso]"), "", None, Counter()),
            clocked,
            "[vdso] is no file with machine code here",
        ),
        (SampledFunction(PROGRAM, "", None, Counter()), clocked, "where its function begins and ends"),
        (SampledFunction(PROGRAM, "ab12", (0, 9), Counter()), clocked, "is no ELF file"),
        (
            SampledFunction(PROGRAM, "", (0, 9), Counter()),
            {**SKYLAKE, "clock_reason": "a seal"},
            "the clock was not measured: a seal",
        ),
    ):
        found = with_loop(hotspot, sampled, processor)
        assert found.loop is None and said in found.loop_reason


def test_the_clock_is_that_of_a_core() -> None:
    if node_processor()["machine"] != "x86_64":
        with pytest.raises(ValueError, match="x86-64 only"):
            clock_hz()
        return
    assert 0.5e9 < clock_hz() < 8e9


def test_a_bound_is_one_line_on_the_terminal() -> None:
    loop = LoopBound(
        "llvm-mca 19.1.7, znver4",
        "0x1a20",
        "poly.c:12",
        2,
        8,
        4,
        1.0,
        4.0,
        3.7e9,
        1.85e9,
        notes=("so and so",),
    )
    hotspot = Hotspot("horner", "poly", 0.9, 0.9, 0.9, "unknown", "", loop)
    assert list(loop_lines([hotspot])) == [
        "loop of horner, poly.c:12: 2 FLOP, 8 B, 4 instructions an iteration; 1 cycle by ports, 4 cycles by "
        "dependencies (llvm-mca 19.1.7, znver4): dependencies hold a core to 1.85 GFLOP/s at 3.7 GHz",
        "  so and so",
    ]
    chase = loop._replace(flop=0, flops=0, source="", chain_cycles=0.5, notes=())
    (line,) = loop_lines([hotspot._replace(loop=chase)])
    assert (
        line.startswith("loop of horner, 0x1a20: 0 FLOP")
        and "ports hold a core to 3.7 G/s iterations" in line
    )
    assert list(loop_lines([hotspot._replace(loop=None, loop_reason="no loop")] * 2)) == [
        "loop of horner, horner: no bound: no loop"
    ]
    assert list(loop_lines([hotspot._replace(loop=None)])) == []


# --- with the tools -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("hot_loops")
    found = {}
    for name, options in {"scalar": ["-O2"], "fma": ["-O3", "-mavx2", "-mfma", "-g"]}.items():
        found[name] = folder / name
        subprocess.run(["gcc", *options, "-o", found[name], PROGRAM, "-lm"], check=True, timeout=60)
    return found


def sampled(program: Path, function: str) -> SampledFunction:
    """As if perf had seen every instruction of the loop equally often."""
    listed = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    start = next(int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(f" {function}"))
    file = ElfFile(program)
    place = file.function(start)
    assert place is not None
    return SampledFunction(
        program, file.build_id, (place.first, place.after), inside(disassemble(program, *place))
    )


@pytest.mark.slow
def test_bounds_of_known_chains_by_the_real_tools(programs: dict[str, Path]) -> None:
    # Skylake: additions, multiplications and FMAs 4 cycles, loads 5, two of 32 bytes a cycle (Intel's
    # Optimization Reference Manual, table 2-13 and 2.5)
    processor = {**SKYLAKE, "clock_hz": 2e9, "clock": "made up"}

    def of(program: str, function: str) -> LoopBound:
        return bound(sampled(programs[program], function), processor)

    assert (of("scalar", "sum").chain_cycles, of("scalar", "sum").holds) == (4, "dependencies")
    horner = of("scalar", "horner")
    assert (horner.chain_cycles, horner.flop, horner.flops) == (8, 2, 2 * 2e9 / 8)
    assert (of("fma", "horner").chain_cycles, of("scalar", "chase").chain_cycles) == (4, 5)
    assert of("scalar", "quotient").chain_cycles == 14
    daxpy, dot = of("fma", "daxpy"), of("fma", "dot8")
    assert (daxpy.holds, daxpy.bytes, daxpy.flop, daxpy.chain_cycles) == ("ports", 96, 8, 1)
    assert 1 <= daxpy.port_cycles <= 1.5
    assert (dot.flop, dot.bytes, dot.precision) == (16, 128, "double")
    assert daxpy.source.startswith("hot_loops.c:") and daxpy.clock == "made up"
    assert of("scalar", "daxpy").source == ""
    assert (
        any("has just stored" in note for note in of("scalar", "prefix").notes)
        or of("scalar", "prefix").chain_cycles == 8
    )
    assert re.fullmatch(r"llvm-mca \d+[\d.]*, skylake-avx512", daxpy.model)


@pytest.mark.slow
def test_a_version_of_llvm_without_the_model_is_said(
    programs: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = sampled(programs["scalar"], "sum")
    hotspot = Hotspot("sum", "scalar", 0.5, 0.5, 0.5, "compute", "")
    with pytest.raises(NoModel, match="does not know the processor znver99"):
        needs_of(["nop"], Model(newest_tool()[0], "1", "znver99"))
    with pytest.raises(NoModel, match="cannot read the loop"):
        needs_of(["frobnicate %rax"], model_of(SKYLAKE))
    newest_tool.cache_clear()
    monkeypatch.setenv("PATH", "/nowhere")
    found = with_loop(hotspot, chosen, {**SKYLAKE, "clock_hz": 2e9})
    newest_tool.cache_clear()
    assert found.loop_reason == "llvm-mca is not installed here (Debian: apt install llvm)"
    with pytest.raises(NotRead, match="there is no objdump here"):
        disassemble(programs["scalar"], 0x1000, 0x1010)


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("perf"), reason="perf is not installed")
def test_an_observed_program_has_the_bounds_of_its_hottest_loop(
    programs: dict[str, Path], tmp_path: Path
) -> None:
    npc = [
        sys.executable,
        "-m",
        "npc",
        "observe",
        "--hotspots",
        "--no-profile",
        "--output",
        tmp_path / "seen",
    ]
    ran = subprocess.run(
        [*npc, "--", programs["fma"], "horner", "1.5"], capture_output=True, text=True, check=True, timeout=60
    )
    found = read_part(tmp_path / "seen/raw/0000.observed.json", HOTSPOTS, Hotspots)
    assert found is not None and found.status == "ok"
    (hottest, *_) = found.hotspots
    assert hottest.function == "horner" and hottest.share > 0.8
    try:
        model_of(node_processor())
    except NoModel as reason:
        assert hottest.loop is None and hottest.loop_reason == str(reason)
        return
    assert hottest.loop is not None, hottest.loop_reason
    assert (hottest.loop.flop, hottest.loop.bytes, hottest.loop.instructions) == (2, 8, 4)
    assert (hottest.loop.holds, hottest.loop.chain_cycles) == ("dependencies", 4)
    assert hottest.loop.share > 0.9 and hottest.loop.source.startswith("hot_loops.c:")
    assert "dependencies hold a core to" in ran.stderr


@pytest.mark.slow
@pytest.mark.measures
@pytest.mark.optional_skip("a model of this processor")
def test_chains_hold_on_this_machine(programs: dict[str, Path]) -> None:
    """Latencies are what vendors tell: within a tenth. Of loads models know that of the slowest kind of
    address alone, a cycle too much."""
    processor = node_processor()
    try:
        model_of(processor)
    except NoModel as reason:
        pytest.skip(str(reason))
    assert shutil.which("objdump")
    for program, function, elements, off in (
        ("scalar", "sum", 1, 0.1), ("scalar", "horner", 1, 0.1), ("fma", "horner", 1, 0.1),
        ("scalar", "quotient", 1, 0.15), ("scalar", "chase", 1, 0.3),
    ):  # fmt: skip
        predicted = bound(sampled(programs[program], function), processor)
        assert predicted.holds == "dependencies"
        measured = []
        for _ in range(5):  # what else runs only makes it longer
            words = [programs[program], function, "0.1"]
            ran = subprocess.run(words, capture_output=True, text=True, check=True)
            seconds, calls = float(ran.stdout.split()[0]), int(ran.stdout.split()[-1])
            measured.append(seconds / calls * elements * clock_hz())
        assert min(measured) == pytest.approx(predicted.chain_cycles, rel=off), (function, measured)
