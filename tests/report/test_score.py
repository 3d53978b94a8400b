"""``npc advise --score``: shares of nominal limits, their geometric means, and what is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.machine.platform import Interface, Platform
from npc.records.record import Record, replace, save_csv
from npc.records.run import read_run
from npc.report.score import PARTS, Score, find_scores, geometric_mean
from npc.roofline.analyse import analyse
from npc.roofline.ceilings import find_ceilings
from tests.lab.in_process import npc
from tests.made.measured import level, peak, records
from tests.made.observed import launch

PLATFORM = Platform(
    name="fuchs", cores=20, clock_hz=2.5e9, simd_bits=256, simd_units=2, fma=False, memory_bandwidth=100e9,
    interfaces={"ib0": Interface("ib0", "4x FDR", 6.8e9)},
)  # fmt: skip


def measured() -> Iterator[Record]:
    """90 % and 40 % of the peaks (400 and 800 GFLOP/s), 80 % of the memory bandwidth, half of the link."""
    yield from peak("peakflops_avx", 360e9)
    yield from peak("peakflops_sp_avx", 320e9)
    yield from level("MEM", "load_avx", 80e9)
    yield from level("L1", "load_avx", 900e9)
    for case, value in (("tcp_bw", 1e9), ("rc_bw", 3.4e9)):
        for record in records("qperf", case, value, nodes=2):
            yield replace(record, hosts=("node1", "node2"))


def test_the_score_is_the_geometric_mean_of_its_parts() -> None:
    scores = find_scores(find_ceilings(list(measured()), PLATFORM))
    assert {part: score.value for part, score in scores.parts.items()} == pytest.approx(
        {"compute": (0.9 * 0.4) ** 0.5, "memory": 0.8, "network": 0.5}
    )
    assert scores.whole is not None
    assert scores.whole.value == pytest.approx((0.6 * 0.8 * 0.5) ** (1 / 3))
    assert [ceiling.name for ceiling, _ in scores.shares["network"]] == ["qperf rc_bw"]
    assert scores.missing.keys() == {"I/O"}


def test_the_interval_takes_all_shares_at_one_end() -> None:
    """Each median of seven lies in [0.9, 1.1] of itself with 98.4 %: four of them together with 93.75 %."""
    whole = find_scores(find_ceilings(list(measured()), PLATFORM)).whole
    assert whole is not None and whole.low is not None and whole.high is not None
    assert (whole.low / whole.value, whole.high / whole.value) == pytest.approx((0.9, 1.1))
    assert whole.coverage == pytest.approx(1 - 4 * 2 / 2**6)
    few = find_scores(find_ceilings([r for r in measured() if r.sample < 5], PLATFORM)).whole
    assert few is not None and few.low is None and few.coverage is None


@given(st.lists(st.floats(0.01, 1.0), min_size=2, max_size=6), st.integers(0, 5))
def test_halving_any_part_costs_the_same(values: list[float], place: int) -> None:
    place %= len(values)
    halved = [value / 2 if at == place else value for at, value in enumerate(values)]
    before, after = (
        geometric_mean([Score(value=v, low=None, high=None, coverage=None) for v in some]).value
        for some in (values, halved)
    )
    assert after == pytest.approx(before * 0.5 ** (1 / len(values)))
    assert min(values) <= before * (1 + 1e-9) and before <= max(values) * (1 + 1e-9)


def test_without_nominal_limits_there_is_no_score() -> None:
    scores = find_scores(find_ceilings(list(measured()), None))
    assert scores.whole is None and list(scores.missing) == [part for part in PARTS if part != "GPU"]


def test_one_node_measures_no_link() -> None:
    loopback = [replace(record, nodes=1, hosts=("node1",)) for record in measured()]
    assert "network" not in find_scores(find_ceilings(loopback, PLATFORM)).parts


def test_the_command_shows_the_parts_before_the_whole(tmp_path: Path) -> None:
    first, *others = measured()
    save_csv(
        [replace(first, params={**first.params, "disturbed": "0.25"}), *others], tmp_path / "records.csv"
    )
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "platform.toml").write_text(
        "[node]\ncores = 20\nclock_hz = 2.5e9\nsimd_bits = 256\nsimd_units = 2\nfma = false\n"
        'memory_bandwidth = 100e9\n[interfaces.ib0]\nlink = "4x FDR"\n'
    )
    words = ["advise", "--score", tmp_path, "--platform", tmp_path / "machine"]
    shown = npc(*words)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert lines[-1].startswith("all       62.1% [55.9%, 68.3%] with 87.5%: the geometric mean of compute, ")
    assert "   90.0%  peak double: 360 GFLOP/s of 400 GFLOP/s" in lines
    assert any(line.startswith("I/O       not known: fio (tag io), and io_read_bandwidth") for line in lines)
    document = json.loads(npc(*words, "--json").stdout)
    assert document["schema"] == 1 and document["score"]["value"] == pytest.approx(0.621, abs=1e-3)
    count = len(read_run(tmp_path))
    assert lines[0].startswith(f"{tmp_path}: {count} of {count} records of ")
    assert lines[0].endswith(", held to the nominal limits of machine")
    disturbed = f"1 of {count} usable records were measured while others took 25 % of the CPUs"
    assert lines[1] == f"Disturbed: {disturbed} (npc check says by whom)."
    assert document["disturbed"] == disturbed
    assert (document["folders"], document["limits"]) == ([str(tmp_path)], "machine")
    nothing = npc("advise", "--score", tmp_path)
    assert nothing.returncode == 1 and "No score" in nothing.stdout
    unknown = npc(*words[:-1], "nowhere")
    assert unknown.returncode == 2 and "there is no such platform.toml" in unknown.stderr


def test_an_application_is_held_to_what_the_nominal_limits_allow_it() -> None:
    """10 GFLOP/s a node at 0.125 FLOP a byte of main memory, whose 100 GB/s allow 12.5: 80 %, as much as the
    machine reaches of them; and at 2 FLOP a byte of the network, whose 6.8 GB/s allow more."""
    params = {"bandwidth": 2 * 80e9}  # of two nodes, as the program counts its own bytes
    busy = launch("Himeno", 2, 20e9, 200e9, 5e9, 5e9, **params)
    scores = find_scores(analyse([*measured(), *busy], PLATFORM))
    (himeno,) = scores.applications
    assert (himeno.limit, himeno.allowed) == ("MEM load", pytest.approx(12.5e9))
    assert himeno.share.value == pytest.approx(0.8) and himeno.machine == pytest.approx(0.8)
    assert scores.parts == find_scores(analyse(list(measured()), PLATFORM)).parts, "the machine's is its own"
    assert not find_scores(analyse([*measured(), *busy], None)).applications


def test_what_the_file_does_not_say_is_proposed_by_the_machine(tmp_path: Path) -> None:
    """A node of 20 cores at 2.5 GHz with AVX and without FMA, as its environment.json tells it; what is in
    the file, wrong or right, stays."""
    save_csv(list(measured()), tmp_path / "records.csv")
    (tmp_path / "machine").mkdir()
    (tmp_path / "machine" / "platform.toml").write_text(
        "[node]\nclock_hz = 5e9\nmemory_bandwidth = 100e9\nproposed = ['clock_hz']\n"
    )
    module = {"locator": "A1", "bank": "", "type": "DDR3", "size_bytes": 1, "transfers_s": 1_866_000_000}
    cpu = {"model": "Xeon @ 2.50GHz", "cores": 20, "vendor": "GenuineIntel", "flags": ["avx", "sse2"]}
    environment = {"cpu": cpu, "memory": {"dimms": [module] * 8, "channels": 8}}
    (tmp_path / "environment.json").write_text(json.dumps(environment))
    words = ["advise", "--score", tmp_path, "--platform", tmp_path / "machine"]
    shown = npc(*words)
    assert shown.returncode == 0, shown.stderr
    lines = shown.stdout.splitlines()
    assert "   45.0%  peak double: 360 GFLOP/s of 800 GFLOP/s" in lines
    assert "  cores = 20: as the machine counts them" in lines
    assert "  clock_hz = 5e+09: proposed in platform.toml" in lines
    assert not any("memory_bandwidth = " in line for line in lines)
    document = json.loads(npc(*words, "--json").stdout)
    assert document["proposed"].keys() == {"clock_hz", "cores", "simd_bits", "simd_units", "fma"}
    (tmp_path / "machine" / "platform.toml").write_text("[node]\nclock_hz = 2e9\nproposed = ['clock_hz']\n")
    refuted = "peak double is beyond the limit that the machine suggests (360 GFLOP/s of 320 GFLOP/s): write"
    assert f"compute   not known: {refuted}" in npc(*words).stdout
    (tmp_path / "machine" / "platform.toml").write_text("")
    lines = npc(*words).stdout.splitlines()
    assert "   67.0%  MEM load: 80 GB/s of 119 GB/s" in lines
    assert any(line.startswith("  memory_bandwidth = 1.19424e+11: 8 channels (of the") for line in lines)
