"""A platform's nominal limits: what platform.toml says, and what it must not say."""

from __future__ import annotations

from pathlib import Path

import pytest

from npc.machine.platform import (
    InvalidPlatform,
    Platform,
    Precision,
    find_platform,
    link_data_rate,
    read_platform,
)

#: A node of FUCHS: two Xeon E5-2670 v2 (Bartelheimer, Zhu, Neuwirth 2023, table 3).
FUCHS = """
description = "FUCHS-CSC"
[node]
cores = 20
clock_hz = 2.5e9
simd_bits = 256
simd_units = 2
fma = false
[interfaces.ib0]
link = "4x FDR"
[bands]
"qperf rc_bw 4M" = { low = 6.1e9 }
"""


def shipped(name: str) -> Platform:
    """A platform that comes with NPC."""
    path = find_platform(name)
    assert path is not None
    return read_platform(path)


def _write(folder: Path, text: str) -> Path:
    path = folder / "fuchs" / "platform.toml"
    path.parent.mkdir()
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("nodes", "precision", "gflops"),
    [
        (1, "single", 800),
        (1, "double", 400),
        (2, "single", 1600),
        (2, "double", 800),
        (4, "single", 3200),
        (4, "double", 1600),
        (8, "single", 6400),
        (8, "double", 3200),
    ],
)
def test_theoretical_peaks_of_the_published_table_4(nodes: int, precision: Precision, gflops: float) -> None:
    peak = shipped("fuchs-csc").peak_flops(precision)
    assert peak is not None
    assert nodes * peak == gflops * 1e9


@pytest.mark.parametrize(
    ("name", "gflops", "memory", "gbytes"),
    [
        ("fuchs-csc", 20 * 2.5 * 4 * 2, 8 * 8 * 1.8667, 6.82),
        ("cesari-msqc", 20 * 2.2 * 4 * 2, 8 * 8 * 1.8667, 6.82),
        ("deep-cm", 24 * 3.2 * 8 * 2 * 2, 12 * 8 * 2.6667, 12.5),
        ("deep-esb", 8 * 2.5 * 8 * 2 * 1, 6 * 8 * 2.4, 12.5),
        ("deep-dam", 48 * 2.4 * 8 * 2 * 2, 12 * 8 * 2.9333, 12.5),
    ],
)
def test_the_systems_of_the_paper_have_their_limits(
    name: str, gflops: float, memory: float, gbytes: float
) -> None:
    """cores × GHz × doubles in a register × 2 with FMA × units; channels × 8 B × 10⁹ transfers a second; 4x
    FDR is 54.5 Gbit/s, 4x EDR 100."""
    limits = shipped(name)
    assert limits.peak_flops("double") == pytest.approx(gflops * 1e9)
    assert limits.peak_flops("single") == pytest.approx(2 * gflops * 1e9)
    assert limits.memory_bandwidth == pytest.approx(memory * 1e9, rel=1e-3)
    assert limits.interfaces["ib0"].data_rate == pytest.approx(gbytes * 1e9, rel=1e-3)


def test_fma_doubles_the_peak(tmp_path: Path) -> None:
    platform = read_platform(_write(tmp_path, FUCHS.replace("fma = false", "fma = true")))
    assert platform.peak_flops("double") == 800e9


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    platform = read_platform(_write(tmp_path, FUCHS))
    assert platform.name == "fuchs"
    assert platform.description == "FUCHS-CSC"
    assert platform.interfaces["ib0"].data_rate == pytest.approx(6.818e9, rel=1e-4)
    assert platform.bands == {"qperf rc_bw 4M": {"low": 6.1e9}}
    assert platform.memory_bandwidth is None


def test_there_is_no_peak_where_one_of_its_factors_is_unknown(tmp_path: Path) -> None:
    platform = read_platform(_write(tmp_path, FUCHS.replace("simd_units = 2\n", "")))
    assert platform.peak_flops("double") is None


def test_localhost_claims_nothing() -> None:
    platform = shipped("localhost")
    assert platform.name == "localhost"
    assert platform.peak_flops("double") is None
    assert not platform.interfaces


@pytest.mark.parametrize(
    ("link", "rate"),
    [
        ("4x QDR", 4e9),
        ("4x FDR", 6.8182e9),
        ("4x EDR", 12.5e9),
        ("4x HDR", 25e9),
        ("4x NDR", 50e9),
        ("1x FDR", 6.8182e9 / 4),
        ("10 GbE", 1.25e9),
        ("2.5GbE", 0.3125e9),
    ],
)
def test_data_rates_of_links(link: str, rate: float) -> None:
    assert link_data_rate(link) == pytest.approx(rate, rel=1e-4)


@pytest.mark.parametrize("link", ["", "4x", "4x XDR99", "ten GbE", "3x FDR", "10 Gb"])
def test_a_link_nobody_knows_is_refused(link: str) -> None:
    with pytest.raises(ValueError, match="no known link"):
        link_data_rate(link)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("nodes = 3", "nodes: unknown key"),
        ("[node]\ncore = 3", "node.core: unknown key"),
        ("[node]\ncores = 0", "node.cores: 0"),
        ("[node]\ncores = 2.5", "node.cores: 2.5"),
        ("[node]\ncores = true", "node.cores: True"),
        ("[node]\nclock_hz = 2.5", "2.5 GHz is 2.5e9"),
        ("[node]\nclock_hz = nan", "node.clock_hz: nan"),
        ("[node]\nsimd_bits = 100", "node.simd_bits: 100"),
        ("[node]\nfma = 1", "node.fma: 1"),
        ("[node]\nmemory_bandwidth = -1", "node.memory_bandwidth: -1"),
        ('[node]\nmemory_bandwidth = "100 GB/s"', "node.memory_bandwidth: '100 GB/s'"),
        ("node = 3", "node: 3 is no table"),
        ("description = 3", "description: 3"),
        ("[interfaces]\nib0 = 3", "interfaces.ib0: 3"),
        ("[interfaces.ib0]", "interfaces.ib0.link: missing"),
        ('[interfaces.ib0]\nlink = "fast"', "interfaces.ib0.link: 'fast'"),
        ('[interfaces.ib0]\nrate = "fast"', "interfaces.ib0.rate: unknown key"),
        ("[node", "not TOML"),
    ],
)
def test_errors_name_the_file_and_the_key(tmp_path: Path, text: str, key: str) -> None:
    path = _write(tmp_path, text)
    with pytest.raises(InvalidPlatform) as caught:
        read_platform(path)
    assert str(path) in str(caught.value)
    assert key in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "platform.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidPlatform, match="not TOML"):
        read_platform(path)


def test_a_platform_is_found_by_name_by_folder_and_by_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "platforms").mkdir()
    path = _write(tmp_path / "platforms", FUCHS)
    for name in ("fuchs", "platforms/fuchs", str(path)):
        found = find_platform(name)
        assert found is not None
        assert found.resolve() == path
    for name in ("", "..", "nowhere", "platforms/nowhere", "nowhere.toml"):
        assert find_platform(name) is None
