"""What a machine's own words suggest as its nominal limits."""

from __future__ import annotations

import pytest

from npc.machine.platform import Interface, Platform
from npc.machine.proposal import completed, propose

CASCADE = "avx512f avx512_vnni avx2 avx fma sse2 clwb"


@pytest.mark.parametrize(
    ("vendor", "model", "flags", "a_cycle"),
    [
        # double precision FLOP a cycle and core, as vendors state them
        ("GenuineIntel", "Intel(R) Xeon(R) CPU E5-2670 v2 @ 2.50GHz", "avx sse2", 8),
        ("GenuineIntel", "Intel(R) Xeon(R) CPU E5-2680 v4 @ 2.40GHz", "avx2 avx fma sse2", 16),
        ("GenuineIntel", "Intel(R) Xeon(R) Gold 6146 CPU @ 3.20GHz", "avx512f avx2 avx fma sse2 clwb", 32),
        ("GenuineIntel", "Intel(R) Xeon(R) Silver 4215 CPU @ 2.50GHz", CASCADE, 16),
        ("GenuineIntel", "Intel(R) Xeon(R) Gold 5218 CPU @ 2.30GHz", CASCADE, 16),
        ("GenuineIntel", "Intel(R) Xeon(R) Gold 5222 CPU @ 3.80GHz", CASCADE, 32),
        ("GenuineIntel", "Intel(R) Xeon(R) Platinum 8260M CPU @ 2.40GHz", CASCADE, 32),
        ("GenuineIntel", "Intel(R) Xeon(R) Silver 4314 CPU @ 2.40GHz", CASCADE + " avx512_vbmi2", 32),
        ("AuthenticAMD", "AMD EPYC 7551 32-Core Processor", "avx2 avx fma sse2", 8),
        ("AuthenticAMD", "AMD EPYC 7742 64-Core Processor", "avx2 avx fma sse2 clwb", 16),
        ("AuthenticAMD", "AMD EPYC 9654 96-Core Processor", CASCADE, 16),
        ("AuthenticAMD", "AMD EPYC 9755 128-Core Processor", CASCADE + " avx512_vp2intersect", 32),
    ],
)
def test_flop_a_cycle_are_those_that_vendors_state(vendor: str, model: str, flags: str, a_cycle: int) -> None:
    cpu = {"vendor": vendor, "model": model, "flags": flags.split(), "cores": 1}
    found, added = completed(Platform(name="x"), {"cpu": {**cpu, "frequency": {"base_hz": 1e9}}})
    clock = propose({"cpu": cpu}).get("clock_hz")
    assert found.peak_flops("double") == a_cycle * (clock.value if clock else 1e9)
    assert added.keys() == {"cores", "clock_hz", "simd_bits", "simd_units", "fma"}


def test_what_the_file_says_stays() -> None:
    given = Platform(name="x", clock_hz=2e9, fma=False, interfaces={"ib0": Interface("ib0", "4x FDR", 6.8e9)})
    link = {"driver": "mlx", "state": "up", "rdma_devices": [], "type": "ethernet", "addresses": ["10.0.0.1"]}
    seen = {
        "cpu": {"model": "Xeon @ 2.50GHz", "flags": ["avx", "fma"], "cores": 4},
        "interfaces": [{**link, "name": "eth0", "speed_bit_s": 10_000_000_000}],
    }
    found, added = completed(given, seen)
    assert (found.clock_hz, found.fma, found.cores, list(found.interfaces)) == (2e9, False, 4, ["ib0"])
    assert added.keys() == set(found.proposed) == {"cores", "simd_bits", "simd_units"}
    assert completed(Platform(name="x"), seen)[0].interfaces["eth0"].data_rate == 1.25e9
    assert completed(given, {}) == (given, {})


def test_the_clock_comes_from_the_surest_that_tells_it() -> None:
    frequency = {"base_hz": 2.1e9, "counter_hz": 2.0949e9}
    for seen, value in (
        ({"model": "X @ 2.50GHz", "frequency": frequency}, 2.5e9),
        ({"model": "X", "frequency": frequency}, 2.1e9),
        ({"model": "X", "frequency": {**frequency, "base_hz": None}}, 2.1e9),
    ):
        assert propose({"cpu": seen})["clock_hz"].value == value
    assert propose({"cpu": {"model": None, "flags": None, "cores": None}}) == {}
