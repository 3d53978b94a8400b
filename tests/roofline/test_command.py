"""``npc roofline`` as a user meets it: records in; tables, files and exit codes out."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from npc.records.record import Record, replace, save_csv
from npc.roofline.commands import roofline
from tests.made.measured import level, peak, records
from tests.made.observed import launch
from tests.paths import ROOT

PICTURES = ["roofline.html", "roofline.json", "roofline.png", "roofline.svg"]


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(roofline, list(map(str, arguments)))


def saved(folder: Path, measured: Iterable[Record]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_csv(measured, folder / "records.csv")
    return folder / "records.csv"


def machine() -> list[Record]:
    return [
        *peak("peakflops_avx", 100e9),
        *level("MEM", "load_avx", 25e9, size=400_000_000),
        *records("qperf", "tcp_bw", 2e9, size=65536),
        *records("qperf", "tcp_lat", 7e-6, metric="latency", size=1),
    ]


def made(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_run_gives_tables_and_pictures_beside_its_records(tmp_path: Path) -> None:
    path = saved(tmp_path / "run", machine())
    result = run(path.parent)
    assert result.exit_code == 0, result.output
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "MEM load 25 GB/s [22.5, 27.5] 7 381 MiB likwid load_avx" in lines
    assert "qperf tcp_bw 2 GB/s [1.8, 2.2] 7 64 KiB qperf tcp_bw" in lines
    ridges = lines.index(next(line for line in lines if line.startswith("FLOP/byte of ridge points")))
    assert lines[ridges].split()[4:6] == ["peak", "double"]
    assert any(line.startswith("MEM load 4 [3.27, 4.89]") for line in lines[ridges:])
    assert "qperf tcp_lat 7 µs [6.3, 7.7] 7 1 B qperf tcp_lat" in lines
    assert "no link" in result.stdout
    assert made(tmp_path / "run") == ["records.csv", *PICTURES]
    for name in PICTURES:
        assert str(path.parent / name) in result.stdout


def test_theoretical_peaks_are_in_the_table(tmp_path: Path) -> None:
    data_sheet = tmp_path / "fuchs/platform.toml"
    data_sheet.parent.mkdir()
    data_sheet.write_text(
        "[node]\ncores = 20\nclock_hz = 2.5e9\nsimd_bits = 256\nsimd_units = 2\nfma = false\n"
    )
    result = run(saved(tmp_path, machine()), "--platform", data_sheet)
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert any(line.startswith("theoretical peak double 400 GFLOP/s") for line in lines)
    assert "theoretical peak single 800 GFLOP/s platform.toml" in lines


@pytest.mark.slow
def test_applications_without_ceilings_say_how_to_have_an_earlier_run_s(tmp_path: Path) -> None:
    application = list(launch("app", 2, 20e9, 200e9, 1e9, 1e9))
    alone = run(saved(tmp_path / "apps", application))
    assert "not measured here: compute (a peak), memory, network" in alone.stdout
    assert "npc roofline EARLIER_RUN RUN" in alone.stdout
    between = list(records("osu", "osu_bw", 1e9, size=65536, nodes=2))
    both = run(saved(tmp_path / "earlier", [*machine(), *between]), tmp_path / "apps", "--output", tmp_path)
    assert both.exit_code == 0, both.output
    assert "EARLIER_RUN" not in both.stdout
    single = [replace(r, params={**r.params, "precision": "single"}) for r in application]
    lacking = run(saved(tmp_path / "single", [*machine(), *between, *single]))
    assert "not measured here: compute (a peak). An" in lacking.stdout
    assert "The tightest ceiling known is peak double" in both.stdout


def test_json_is_the_document_that_is_written(tmp_path: Path) -> None:
    path = saved(tmp_path, machine())
    result = run(path, "--json")
    document = json.loads(result.stdout)
    assert document == json.loads((tmp_path / "roofline.json").read_text(encoding="utf-8"))
    assert document["schema"] == 1
    assert [ceiling["name"] for ceiling in document["ceilings"]] == [
        "peak double",
        "MEM load",
        "qperf tcp_bw",
    ]
    ceiling = document["ceilings"][1]
    assert (ceiling["kind"], ceiling["level"], ceiling["value"], ceiling["unit"]) == (
        "memory",
        "MEM",
        25e9,
        "B/s",
    )
    assert ceiling["raw"][0] == "raw/likwid-load_avx-0.out"
    assert [ridge["intensity"] for ridge in document["ridge_points"]] == [4.0, 50.0]
    assert {(curve["case"], curve["metric"]) for curve in document["curves"]} == {
        ("tcp_bw", "bandwidth"),
        ("tcp_lat", "latency"),
    }
    assert document["curves"][0]["points"][0].keys() == {"size", "value", "low", "high", "coverage", "n"}


def test_every_key_of_the_document_is_described() -> None:
    page = (ROOT / "docs" / "roofline.md").read_text(encoding="utf-8")
    from npc.roofline.ceilings import find_ceilings
    from npc.roofline.document import to_document

    def keys(value: object) -> set[str]:
        if isinstance(value, dict):
            return set(value) | {name for child in value.values() for name in keys(child)}
        return {name for child in value for name in keys(child)} if isinstance(value, list) else set()

    document = to_document(find_ceilings([replace(record, params={}) for record in machine()]))
    missing = sorted(name for name in keys(document) if f"`{name}`" not in page)
    assert not missing


def test_the_same_records_given_twice_do_not_narrow_the_interval(tmp_path: Path) -> None:
    path = saved(tmp_path, machine())
    result = run(path, path.parent, path, "--output", tmp_path / "out", "--json")
    assert [ceiling["n"] for ceiling in json.loads(result.stdout)["ceilings"]] == [7, 7, 7]


@pytest.mark.slow
def test_several_runs_are_taken_together(tmp_path: Path) -> None:
    first = saved(tmp_path / "a", [*peak("peakflops_avx", 100e9, spread=(1, 1, 1))])
    second = saved(tmp_path / "b", [*peak("peakflops_avx", 100e9, spread=(1, 1, 1))])
    result = run(first, second, "--output", tmp_path / "out")
    assert result.exit_code == 0
    assert "[100, 100]" in result.stdout
    assert made(tmp_path / "out") == PICTURES


def test_runs_of_one_name_in_several_folders_are_several(tmp_path: Path) -> None:
    """The first run of every folder is 000000, and launches of each have the same raw files."""
    files = [
        saved(tmp_path / night / "000000", [*machine(), *launch("app", 2, flops, 1e12, traffic, traffic)])
        for night, flops, traffic in (("first", 1e11, 1e9), ("second", 3e11, 1e9), ("third", 2e11, 1e9))
    ]
    ended = run(*files, "--output", tmp_path, "--json")
    assert ended.exit_code == 0, ended.output
    (point,) = json.loads(ended.stdout)["points"]
    assert point["flops"]["median"] == 2e11 / 2 and point["flops"]["n"] == 3
    assert point["intensity"]["median"] == 1e12 / 2 / 2e9


def test_too_few_samples_are_said(tmp_path: Path) -> None:
    result = run(saved(tmp_path, [*peak("peakflops_avx", 100e9, spread=(1, 1))]))
    assert result.exit_code == 0
    assert "n = 2" in result.stdout
    assert "Fewer than 6 samples give no 95 % interval: peak double." in result.stdout


def test_a_network_without_compute_gives_a_table_and_no_picture(tmp_path: Path) -> None:
    result = run(saved(tmp_path, [*records("osu", "osu_bw", 6e9)]))
    assert result.exit_code == 0
    assert "osu_bw" in result.stdout
    assert "No picture: without a compute ceiling" in result.stderr
    assert made(tmp_path) == ["records.csv", "roofline.json"]


def test_a_platform_gives_nominal_limits_and_a_theoretical_roof(tmp_path: Path) -> None:
    path = saved(tmp_path / "run", [*records("osu", "osu_bw", 1e9, nodes=2)])
    (tmp_path / "fuchs").mkdir()
    limits = tmp_path / "fuchs" / "platform.toml"
    limits.write_text(
        "[node]\ncores = 20\nclock_hz = 2.5e9\nsimd_bits = 256\nsimd_units = 2\nfma = false\n"
        '[interfaces.eth0]\nlink = "10 GbE"\n',
        encoding="utf-8",
    )
    result = run(path, "--platform", limits)
    assert result.exit_code == 0
    assert "of nominal" in result.stdout
    assert "80 %" in result.stdout
    assert made(tmp_path / "run") == ["records.csv", *PICTURES]


def test_records_of_several_platforms_need_a_choice(tmp_path: Path) -> None:
    other = [replace(record, platform="localhost") for record in peak("peakflops_avx", 50e9)]
    path = saved(tmp_path, [*peak("peakflops_avx", 100e9), *other])
    result = run(path)
    assert result.exit_code == 2
    assert "several platforms (fuchs, localhost): choose one by --platform" in result.stderr
    chosen = run(path, "--platform", "localhost", "--json")
    assert [ceiling["value"] for ceiling in json.loads(chosen.stdout)["ceilings"]] == [50e9]


def test_unusable_records_are_counted_by_reason(tmp_path: Path) -> None:
    path = saved(
        tmp_path,
        [
            *peak("peakflops_avx", 1e9, status="failed: no such kernel"),
            *records("qperf", "tcp_bw", 1e9, status="timeout: 10 s", spread=(1, 1)),
            *records("hpl", "hpl", 1.0, metric="time", spread=(1,)),
        ],
    )
    result = run(path)
    assert result.exit_code == 1
    assert (
        "none of the 10 records can be used: 7 failed, 2 timeout; 1 of tests that give no ceiling"
        in result.stderr
    )
    assert made(tmp_path) == ["records.csv"]


def test_no_records_at_all_are_said(tmp_path: Path) -> None:
    result = run(saved(tmp_path, []))
    assert result.exit_code == 1
    assert "there are no records" in result.stderr


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "does not exist: npc characterise makes a run"),
        (b"a,b\n1,2\n", "no records: "),
        (b"\xff\xfe\x00", "no records: "),
    ],
)
def test_what_is_no_file_of_records_is_refused(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "records.csv"
    if content is not None:
        path.write_bytes(content)
    result = run(path)
    assert result.exit_code == 2
    assert str(path) in result.stderr
    assert message in result.stderr


def test_a_run_that_was_not_collected_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "workpackages.xml").touch()
    result = run(tmp_path)
    assert result.exit_code == 2
    assert f"npc records collect {tmp_path}" in result.stderr


def test_a_folder_of_runs_means_the_newest(tmp_path: Path) -> None:
    for number, flops in ((2, 1e9), (10, 100e9)):
        saved(tmp_path / f"{number:06d}", peak("peakflops_avx", flops))
    result = run(tmp_path)
    assert result.exit_code == 0 and "100 GFLOP/s" in result.stdout
    assert made(tmp_path / "000010") == ["records.csv", *PICTURES]
    assert made(tmp_path / "000002") == ["records.csv"]
    (tmp_path / "000011").mkdir()
    assert f"npc records collect {tmp_path / '000011'}" in run(tmp_path).stderr, (
        "not an older one in its place"
    )


def test_an_unknown_platform_is_refused(tmp_path: Path) -> None:
    result = run(saved(tmp_path, machine()), "--platform", "nowhere")
    assert result.exit_code == 2
    assert "platforms/nowhere/platform.toml" in result.stderr


def test_a_bad_platform_file_is_refused_with_its_key(tmp_path: Path) -> None:
    limits = tmp_path / "platform.toml"
    limits.write_text("[node]\ncores = 0\n", encoding="utf-8")
    result = run(saved(tmp_path / "run", machine()), "--platform", limits)
    assert result.exit_code == 2
    assert f"{limits}: node.cores: 0" in result.stderr


def test_a_folder_that_cannot_be_written_leaves_the_table(tmp_path: Path) -> None:
    path = saved(tmp_path, machine())
    (tmp_path / "file").write_text("", encoding="utf-8")
    # Nobody can make a folder in /sys, not even root, whom no permission stops elsewhere.
    for folder in (tmp_path / "file" / "out", Path("/sys/npc-roofline")):
        result = run(path, "--output", folder)
        assert result.exit_code == 2
        assert "MEM load" in result.stdout
        assert f"cannot write {folder}" in result.stderr
        assert "--output" in result.stderr
        assert not folder.exists()


@pytest.mark.parametrize(
    "code",
    [
        "import npc.roofline.commands, npc.roofline.ceilings, npc.roofline.figure, npc.roofline.page",
        "import sys; from npc.cli import main; sys.argv = ['npc', 'roofline', '--help']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code",
    ],
)
def test_importing_and_help_load_nothing_heavy(code: str) -> None:
    check = "import sys; print([n for n in ('numpy', 'matplotlib', 'jinja2', 'PIL') if n in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{check}"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.splitlines()[-1] == "[]"


#: A fresh Python, in which the page does not fit on the disk.
FULL_DISK = """
import sys
from npc.roofline import page
from npc.roofline.commands import roofline as command

def full(found, path):
    raise OSError(28, "No space left on device")

page.write_page = full
command(sys.argv[1:])
"""


@pytest.mark.slow
def test_a_disk_that_is_full_meanwhile_leaves_no_half_picture(tmp_path: Path) -> None:
    path = saved(tmp_path / "run", machine())
    command = [sys.executable, "-c", FULL_DISK, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 2
    assert "No space left on device" in ended.stderr and "Traceback" not in ended.stderr
    assert made(path.parent) == ["records.csv", "roofline.json"]
