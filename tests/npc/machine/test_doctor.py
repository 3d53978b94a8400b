"""npc doctor: what it finds here, what it says where tools are missing, what its preflight checks find."""

from __future__ import annotations

import copy
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from npc.machine import fetch, tools
from npc.machine.command import TOO_LONG, run
from npc.machine.diagnosis import missing_for_main_job, remedies
from npc.machine.load import BusyProcess
from npc.machine.mpi_variables import CLASSES
from npc.machine.preflight import MpiTrial, preflight, start_two_ranks
from npc.machine.tools import (
    FETCH,
    TOOLS,
    SoftwareSource,
    ToolNeed,
    ToolStatus,
    find_all,
    look_up,
    named,
    ways_to_get,
)
from tests.made.sound_node import QUIET, only_checks_of, sound_environment

BIN = Path(sys.executable).parent
NOWHERE = SoftwareSource(root=False, apt=None, modules=False, spack=False, easybuild=False)


def doctor(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BIN / "npc"), "doctor", *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **environ},
        timeout=60,
    )


def program(folder: Path, name: str, script: str) -> Path:
    """An executable that stands in for a tool that is not here, or is here in one version only."""
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


# --- on this machine -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_it_shows_every_tool_and_the_main_job_can_run() -> None:
    shown = doctor()
    assert shown.returncode == 0, shown.stdout
    assert "The main job can run" in shown.stdout
    for tool in TOOLS:
        assert re.search(rf"^{re.escape(tool.name)} ", shown.stdout, re.MULTILINE), tool.name
    for command in ("jube", "mpirun", "qperf", "sockperf", "iperf3", "ib_write_bw", "likwid-bench", "cc"):
        assert re.search(rf" {shutil.which(command)}$", shown.stdout, re.MULTILINE), command
    assert "\x1b" not in shown.stdout


@pytest.mark.slow
def test_the_json_holds_what_the_reference_says() -> None:
    shown = doctor("--json")
    document = json.loads(shown.stdout)
    assert set(document) == {"schema", "ok", "problems", "tools", "traps"}
    assert (document["schema"], document["ok"], document["problems"]) == (1, True, [])
    by_command = {entry["command"]: entry for entry in document["tools"]}
    assert set(by_command) == {tool.command for tool in TOOLS}
    for entry in document["tools"]:
        assert set(entry) == {
            "command", "name", "path", "version", "need", "used_by", "tags", "problem", "get",
        }  # fmt: skip
        assert entry["path"] is not None or entry["get"]
    assert re.fullmatch(r"2\.\d+\.\d+", by_command["jube"]["version"])
    assert re.fullmatch(r"(Open MPI|MPICH|Intel) [\d.]+", by_command["mpirun"]["version"])
    assert by_command["qperf"]["version"].startswith("0.4.")
    for finding in document["traps"]:
        assert set(finding) == {"name", "level", "seen", "why", "do"}
        assert all(finding.values())


@pytest.mark.slow
def test_without_any_tool_it_says_what_is_missing_and_exits_1(tmp_path: Path) -> None:
    shown = doctor("--missing", PATH=str(tmp_path))
    assert shown.returncode == 1
    assert "JUBE is missing (jube)" in shown.stdout
    for tool in TOOLS:
        needed = tool.need is not ToolNeed.OPTIONAL and look_up(tool).path != tools.OSU_PORTS
        # a wheel's mpirun stands beside the interpreter, on PATH or not
        if needed and not (BIN / tool.command).exists():
            assert re.search(rf"^  (.*, )?{re.escape(tool.name)}(,.*)?: ", shown.stdout, re.MULTILINE), (
                tool.name
            )
    assert json.loads(doctor("--json", PATH=str(tmp_path)).stdout)["ok"] is False


@pytest.mark.slow
def test_missing_says_nothing_where_nothing_is_missing() -> None:
    shown = doctor("--missing")
    assert (shown.returncode, shown.stdout) == (0, "")


def test_two_ranks_find_each_other_here_and_tell_of_their_mpi() -> None:
    ranks, output = start_two_ranks()
    assert ranks == "2"
    offered = MpiTrial((), ranks, output).mpi_variables
    assert offered is not None
    assert set(offered["classes"]) <= set(CLASSES)


# --- the table of tools --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "said", "exit_code", "version"),
    [
        ("jube", "JUBE, version 2.7.1", 0, "2.7.1"),
        ("mpirun", "mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/", 0, "Open MPI 4.1.4"),
        (
            "mpirun",
            "HYDRA build details:\n    Version:                                 4.0.2",
            0,
            "MPICH 4.0.2",
        ),
        (
            "mpirun",
            "Intel(R) MPI Library for Linux* OS, Version 2021.9 Build 20230307 (id: d82b3071db)",
            0,
            "Intel 2021.9",
        ),
        ("sockperf", "\x1b[32msockperf, version 3.7-no.git\x1b[0m\n   compiled 2021-08-23", 0, "3.7"),
        ("ib_write_bw", "Version: 6.06", 1, "6.06"),
        ("iperf3", "iperf 3.12 (cJSON 1.7.15)\nLinux vm 6.18", 0, "3.12"),
        ("nuttcp", "nuttcp-6.1.2", 0, "6.1.2"),
        ("sbatch", "slurm-wlm 22.05.8", 0, "22.05.8"),
        ("sbatch", "slurm 23.11.4", 0, "23.11.4"),
        ("likwid-bench", "likwid-bench -- Version 5.2.2", 0, "5.2.2"),
        ("cc", "cc (Debian 12.2.0-14) 12.2.0\nCopyright", 0, "cc (Debian 12.2.0-14) 12.2.0"),
        ("ip", "ip utility, iproute2-6.1.0, libbpf 1.1.0", 255, "6.1.0"),
    ],
)
def test_versions_are_read_however_a_tool_says_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, said: str, exit_code: int, version: str
) -> None:
    (tmp_path / "said").write_text(said, encoding="utf-8")
    program(tmp_path, command, f"cat {tmp_path}/said; exit {exit_code}")
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    found = look_up(named(command))
    assert (found.path, found.version, found.problem) == (tmp_path / command, version, "")


def test_a_tool_that_hangs_crashes_or_babbles_has_no_version_and_stops_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(tools, "VERSION_TIMEOUT_S", 0.5)
    program(tmp_path, "qperf", "kill -SEGV $$")
    program(tmp_path, "sockperf", "echo 'error while loading shared libraries' >&2; exit 127")
    (tmp_path / "iperf3").write_bytes(b"\x7fELF no program")
    (tmp_path / "iperf3").chmod(0o755)
    found = {entry.tool.command: entry for entry in find_all()}
    assert (found["qperf"].version, found["qperf"].problem) == (None, "killed by SIGSEGV")
    assert found["sockperf"].problem == "says no version: error while loading shared libraries"
    assert found["iperf3"].problem.startswith("does not start: ")
    assert found["jube"].version


def running(pid: int) -> bool:
    """Whether the process is alive; one that init has not taken note of yet is not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in ("Z", "X")


def ends(pid: int) -> bool:
    """Whether the process is gone soon: a killed one takes a moment."""
    deadline = time.monotonic() + 10
    while running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not running(pid)


def test_a_program_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    path = program(tmp_path, "hangs", f"sleep 60 & echo $! > {marker}; wait")
    answer = run([path], timeout_s=0.5)
    assert (answer.returncode, answer.text, answer.problem) == (
        TOO_LONG,
        "hangs gave no answer in 0.5 s",
        "gave no answer in 0.5 s",
    )
    assert ends(int(marker.read_text()))


def test_what_a_program_leaves_behind_with_its_output_open_is_ended(tmp_path: Path) -> None:
    path = program(tmp_path, "leaves", "sleep 60 & echo $!; echo warning >&2; exit 3")
    answer = run([path], timeout_s=60)
    assert (answer.returncode, answer.stderr, answer.problem) == (3, "warning\n", "")
    assert ends(int(answer.stdout))


def test_nobody_waits_for_what_has_left_its_program_with_the_output_open(tmp_path: Path) -> None:
    path = program(tmp_path, "leaves", "setsid sleep 60 & echo $!")
    answer = run([path], timeout_s=60)
    os.kill(int(answer.stdout), signal.SIGKILL)  # it was there: nobody has waited for its end
    assert (answer.returncode, answer.problem) == (0, "")


def test_a_program_reads_and_prints_more_than_a_pipe_holds() -> None:
    text = "line\n" * 200_000
    assert run(["cat"], text).stdout == text


def test_a_wheel_s_launcher_is_found_beside_the_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "python", "")
    mpirun = program(tmp_path, "mpirun", "echo 'mpirun (Open MPI) 5.0.11'")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert look_up(named("mpirun")) == ToolStatus(named("mpirun"), mpirun, "Open MPI 5.0.11")


def test_a_c_build_of_osu_is_found_below_its_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NPC_OSU_PREFIX", str(tmp_path))
    assert "no osu_latency below" in look_up(named("osu_latency")).problem
    folder = tmp_path / "libexec" / "osu-micro-benchmarks" / "mpi" / "pt2pt"
    folder.mkdir(parents=True)
    latency = program(folder, "osu_latency", "")
    assert look_up(named("osu_latency")).path == latency


def test_every_needed_tool_can_be_got_somewhere() -> None:
    assert len({tool.command for tool in TOOLS}) == len(TOOLS)
    for tool in TOOLS:
        assert ways_to_get(tool, NOWHERE), tool.name
        if tool.need is not ToolNeed.OPTIONAL:
            assert tool.debian or tool.command == "osu_latency"
    with pytest.raises(LookupError, match="qperf"):
        named("netperf")


@pytest.mark.parametrize(
    ("site", "ways"),
    [
        (SoftwareSource(True, frozenset({"likwid"}), False, False, False), ["apt-get install likwid"]),
        (SoftwareSource(False, frozenset({"likwid"}), False, False, False), ["sudo apt-get install likwid"]),
        (
            SoftwareSource(False, None, True, True, True),
            ["module load likwid", "spack install likwid && spack load likwid", "eb --search likwid"],
        ),
        # a release that does not have the package
        (SoftwareSource(True, frozenset(), True, False, False), ["module load likwid"]),
    ],
)
def test_the_ways_are_those_of_this_site(site: SoftwareSource, ways: list[str]) -> None:
    assert ways_to_get(named("likwid-bench"), site) == ways


def test_libraries_that_no_command_stands_for_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("npc.machine.tools.OTHER_DEBIAN_PACKAGES", {
        "libopenblas0-pthread": str(tmp_path), "libblis4-pthread": "/nowhere", "libfftw3-double3": "/nowhere",
    })  # fmt: skip
    (line,) = remedies([], SoftwareSource(True, frozenset(), False, False, False))
    assert line == ("libraries of blas, fft, hpcc", "apt-get install libblis4-pthread libfftw3-double3")
    assert not remedies([], SoftwareSource(False, None, False, False, False, "dnf"))


def test_what_apt_has_is_one_command() -> None:
    apt = SoftwareSource(False, frozenset({"jube", "qperf", "sockperf"}), False, False, False)
    missing = [ToolStatus(named(command), None, None) for command in ("jube", "qperf", "nuttcp")]
    packaged = ("JUBE, qperf", "sudo apt-get install jube qperf")
    # without sudo, JUBE from its release
    assert remedies(missing, apt) == [packaged, ("JUBE", f"{FETCH} jube")]


@pytest.mark.parametrize(
    ("release", "command", "line"),
    [
        ('ID="rocky"\nID_LIKE="rhel centos fedora"', "dnf", "dnf install openmpi iperf3 (some are in EPEL)"),
        ('ID="sles"\nID_LIKE="suse"', "zypper", "zypper install openmpi4 iperf"),
        ("ID=fedora", "", ""),
    ],
)
def test_systems_with_rpm_have_their_own_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, command: str, line: str
) -> None:
    (tmp_path / "os-release").write_text(f"{release}\n", encoding="utf-8")
    monkeypatch.setattr(platform, "_os_release_candidates", (str(tmp_path / "os-release"),))
    monkeypatch.setattr(platform, "_os_release_cache", None)
    monkeypatch.setenv("PATH", str(tmp_path))
    for variable in ("MODULESHOME", "LMOD_CMD", "LOADEDMODULES"):
        monkeypatch.delenv(variable, raising=False)
    if command:
        program(tmp_path, command, "")
    missing = [named(each) for each in ("jube", "mpirun", "iperf3", "likwid-bench")]
    site = SoftwareSource.here(missing)
    told = dict(remedies([ToolStatus(tool, None, None) for tool in missing], site))
    prefix = "" if os.geteuid() == 0 else "sudo "
    assert told.get("MPI, iperf3" if command == "dnf" else "MPI, iperf3, LIKWID", "") == (
        f"{prefix}{line}{' likwid' if command == 'zypper' else ''}" if line else ""
    )
    assert told["JUBE"] == f"{FETCH} jube"


# --- JUBE where no package brings it ------------------------------------------------------------------


@pytest.fixture
def no_jube(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Makes an address that of JUBE's release, on a machine without any ``jube``."""
    monkeypatch.setattr(fetch, "find", lambda command: None)

    def release(address: str) -> None:
        monkeypatch.setattr(fetch, "named", lambda command: replace(named(command), release=address))

    return release


def test_where_jube_s_release_is_out_of_reach_two_commands_are_said(no_jube: Callable[[str], None]) -> None:
    no_jube("http://127.0.0.1:9/download?file=JUBE-2.7.1.tar.gz")
    with pytest.raises(fetch.NotFetched) as caught:
        fetch.fetch_jube()
    why, jube, get, install = str(caught.value).splitlines()
    assert "Connection refused" in why and jube.startswith("no JUBE: load its module")
    sum_ = named("jube").sha256
    assert get.endswith(f"&& echo '{sum_}  JUBE-2.7.1.tar.gz' | sha256sum -c")
    assert install.strip() == f"{sys.executable} -m pip install ./JUBE-2.7.1.tar.gz"


def test_a_release_with_another_sum_is_not_installed(no_jube: Callable[[str], None], tmp_path: Path) -> None:
    (tmp_path / "JUBE-2.7.1.tar.gz").write_bytes(b"something else")
    no_jube((tmp_path / "JUBE-2.7.1.tar.gz").as_uri())
    with pytest.raises(fetch.NotFetched, match=f"SHA-256 is f41f3fa6.*, not {named('jube').sha256}"):
        fetch.fetch_jube()


@pytest.mark.parametrize(
    ("present", "problems"),
    [
        ({"jube", "mpirun", "cc"}, []),
        ({"mpirun", "cc"}, ["JUBE is missing (jube)"]),
        ({"jube", "qperf"}, ["MPI is missing (mpirun)"]),
        ({"jube", "mpirun", "git"}, ["not one benchmark tool is there"]),
    ],
)
def test_the_main_job_needs_jube_mpi_and_one_benchmark(present: set[str], problems: list[str]) -> None:
    found = [ToolStatus(tool, Path("/x") if tool.command in present else None, None) for tool in TOOLS]
    assert missing_for_main_job(found) == problems


# --- preflight checks ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sound() -> dict[str, Any]:
    return sound_environment()


@pytest.fixture(autouse=True)
def core_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of program analysis are tested beside it."""
    monkeypatch.setattr("npc.machine.energy.refusal", lambda: "")
    only_checks_of("npc.machine.checks", monkeypatch)


def test_nothing_is_found_on_a_sound_machine(sound: dict[str, Any]) -> None:
    assert preflight(sound, QUIET) == []


PORT = {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "link_layer": "InfiniBand", "lanes": 4}
SLOT: dict[str, Any] = {
    "address": "0000:3b:00.0", "kind": "infiniband", "name": "mlx5_0", "width": 16, "max_width": 16,
    "slot_max_width": 16, "transfers_s": 16e9, "max_transfers_s": 16e9, "slot_max_transfers_s": 16e9,
}  # fmt: skip
GPU = {**SLOT, "kind": "gpu", "name": "0000:4b:00.0", "transfers_s": 2.5e9}
#: What test_gpus.py reads of a real one.
IDLE: dict[str, Any] = {
    "index": 0, "persistence": True, "uncorrected_errors": 0, "power_limit_w": 700,
    "default_power_limit_w": 700, "utilisation": 0, "held_down_by": [], "processes": [],
}  # fmt: skip
CABLE = {"name": "eth0", "state": "up", "speed_bit_s": 10**9, "supported_bit_s": 25 * 10**9}

FINDINGS: list[tuple[str, str, str, Callable[[dict[str, Any]], object]]] = [
    ("old_jube", "error", "JUBE 2.4.2", lambda e: e["tools"]["jube"].update(version="2.4.2")),
    ("mpi_versions", "warning", "Open MPI: mpirun 4.1.4, the library that mpi4py loads 5.0.11",
     lambda e: e["mpi"].update(launcher="Open MPI 4.1.4", library="Open MPI v5.0.11, ident: 5.0.11")),
    ("jube_fails", "error", "/jube does not start", lambda e: e["tools"]["jube"].update(version=None)),
    ("governor", "warning", "powersave on 8 CPUs",
     lambda e: e["cpu"]["frequency"].update(governors={"powersave": 8})),
    ("oversubscribed", "warning", "1 CPU(s) (3) for 2 ranks",
     lambda e: e["limits"].update(cpus=1, affinity="3")),
    ("oversubscribed", "warning", "8 CPU(s) (0-7) for 16 ranks",
     lambda e: e["variables"].update(SLURM_TASKS_PER_NODE="16(x4),2")),
    ("cpu_quota", "warning", "1.5 cores on 8 CPUs", lambda e: e["limits"].update(cgroup_cores=1.5)),
    ("memlock", "warning", "64 KiB (mlx5_0)",
     lambda e: (e["rdma"].append(PORT), e["limits"].update(memlock_bytes=65536, memlock_unlimited=False))),
    ("rdma_down", "note", "mlx5_0/1 DOWN", lambda e: e["rdma"].append({**PORT, "state": "DOWN"})),
    ("rdma_lanes", "warning", "mlx5_0/1 runs at 25 Gb/sec (1X EDR)",
     lambda e: e["rdma"].append({**PORT, "lanes": 1, "rate": "25 Gb/sec (1X EDR)"})),
    ("rdma_lanes", "note", "mlx5_0/1 runs at 100 Gb/sec (2X HDR)",
     lambda e: e["rdma"].extend([PORT, {**PORT, "lanes": 2, "rate": "100 Gb/sec (2X HDR)"}])),
    ("narrow_pcie", "warning", "mlx5_0 (0000:3b:00.0): PCIe x8 of x16 (the slot has no more)",
     lambda e: e["pcie"].append({**SLOT, "width": 8, "slot_max_width": 8})),
    ("narrow_pcie", "warning", "mlx5_0 (0000:3b:00.0): PCIe x1 of x16",
     lambda e: e["pcie"].extend([{**SLOT, "width": 1}, GPU])),
    ("narrow_pcie", "warning", "mlx5_0 (0000:3b:00.0): PCIe 2.5 of 16 GT/s",
     lambda e: e["pcie"].append({**SLOT, "transfers_s": 2.5e9})),
    ("slow_interface", "note", "eth0 runs at 1 of 25 Gbit/s", lambda e: e.update(interfaces=[CABLE])),
    ("full_counters", "note", "1 counter(s) are full: mlx5_0/1 symbol_error",
     lambda e: e["counters"].update({"mlx5_0/1 symbol_error": 65535, "mlx5_0/1 link_downed": 254})),
    ("busy_gpu", "warning", "GPU 0 is used by python3 (1052)",
     lambda e: e["gpus"].append({**IDLE, "processes": [{"pid": 1052, "name": "python3"}]})),
    ("busy_gpu", "warning", "GPU 0 is 17% busy", lambda e: e["gpus"].append({**IDLE, "utilisation": 0.17})),
    ("slow_gpu", "warning", "GPU 0 may take 500 of 700 W",
     lambda e: e["gpus"].append({**IDLE, "power_limit_w": 500})),
    ("slow_gpu", "warning", "GPU 0 is held down by: thermal slowdown",
     lambda e: e["gpus"].append({**IDLE, "held_down_by": ["thermal slowdown"]})),
    ("gpu_persistence", "note", "is off: GPU 1",
     lambda e: e["gpus"].extend([IDLE, {**IDLE, "index": 1, "persistence": False}])),
    ("gpu_errors", "warning", "GPU 0 has 2 uncorrected",
     lambda e: e["gpus"].append({**IDLE, "uncorrected_errors": 2})),
    ("host_name", "warning", "does not resolve", lambda e: e["host"].update(addresses=None)),
    ("host_name", "note", "127.0.1.1 (loopback)", lambda e: e["host"].update(addresses=["127.0.1.1"])),
    ("huge_pages", "note", "never", lambda e: e["memory"].update(transparent_huge_pages="never")),
    ("smt", "note", "16 hardware threads on 8 cores", lambda e: e["cpu"].update(threads=16)),
    ("no_counters", "note", "no performance counters", lambda e: e["cpu"].update(flags=["avx2"])),
    ("virtual_machine", "note", "kvm", lambda e: e["virtualisation"].update(hypervisor="kvm")),
    ("clock_source", "warning", "hpet (there are: tsc, hpet)",
     lambda e: e["kernel"].update(clock_source="hpet")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "level", "seen", "spoil"), FINDINGS, ids=[f"{t[0]}-{t[2]}" for t in FINDINGS]
)
def test_each_check_finds_its_own_alone(
    sound: dict[str, Any], name: str, level: str, seen: str, spoil: Callable[[dict[str, Any]], object]
) -> None:
    environment = copy.deepcopy(sound)
    spoil(environment)
    (finding,) = preflight(environment, QUIET)
    assert (finding.name, finding.level) == (name, level)
    assert seen in finding.symptom


def test_a_low_memlock_does_not_matter_without_rdma(sound: dict[str, Any]) -> None:
    environment = copy.deepcopy(sound)
    environment["limits"].update(memlock_bytes=65536, memlock_unlimited=False)
    assert preflight(environment, QUIET) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="Open MPI refuses root only")
def test_root_is_told_of_open_mpi_s_refusal(sound: dict[str, Any]) -> None:
    environment = copy.deepcopy(sound)
    environment["mpi"]["launcher"] = "Open MPI 4.1.4"
    environment["variables"].clear()
    assert [finding.name for finding in preflight(environment, QUIET)] == ["root"]


def test_a_busy_machine_is_named_with_its_processes(sound: dict[str, Any]) -> None:
    busy = (BusyProcess(4711, "xhpl", 1.95), BusyProcess(12, "kworker", 0.15))
    (finding,) = preflight(sound, MpiTrial(busy, "2"))
    assert (finding.name, finding.level) == ("loaded", "warning")
    assert finding.symptom.startswith("2.1 of 8 CPUs are busy now: xhpl (4711) 195%, kworker (12) 15%")


def test_ranks_that_are_alone_are_an_error(sound: dict[str, Any]) -> None:
    (finding,) = preflight(sound, MpiTrial((), "1"))
    assert (finding.name, finding.level) == ("mpi_mismatch", "error")


def test_ranks_that_do_not_start_are_an_error_with_the_launcher_s_words(sound: dict[str, Any]) -> None:
    output = "-----\nThere are not enough slots available in the system\n-----\n"
    (finding,) = preflight(sound, MpiTrial((), "0 of 2 ranks came up", output))
    assert (finding.name, finding.level) == ("mpi_fails", "error")
    assert "not enough slots" in finding.symptom


def test_a_missing_launcher_is_no_finding_because_it_is_a_missing_tool(sound: dict[str, Any]) -> None:
    assert preflight(sound, MpiTrial((), "no mpirun")) == []


@pytest.mark.parametrize(
    ("library", "offered", "seen"),
    [
        ("Open MPI v4.1.4, package: Debian OpenMPI, 2022", {"classes": {"size": 3, "counter": 15}, "spc": 0},
         "Open MPI v4.1.4 without SPC has 18 performance variables (15 counter, 3 size)"),
        ("Open MPI v4.1.4, package: own", {"classes": {"size": 111}, "spc": 108},
         "Open MPI v4.1.4 with SPC has 111 performance variables (111 size)"),
        ("MPICH Version: 4.0.2 MPICH Release date: Thu", {"classes": {}, "spc": 0},
         "MPICH Version: 4.0.2 has no performance variables"),
    ],
)  # fmt: skip
def test_the_counters_of_mpi_are_told(
    sound: dict[str, Any], library: str, offered: dict[str, Any], seen: str
) -> None:
    environment = copy.deepcopy(sound)
    environment["mpi"]["library"] = library
    (finding,) = preflight(
        environment, MpiTrial((), "2", f"ranks: 2\nranks: 2\nvariables: {json.dumps(offered)}\n")
    )
    assert (finding.name, finding.level, finding.symptom) == ("mpi_variables", "note", seen)


def test_errors_come_first(sound: dict[str, Any]) -> None:
    environment = copy.deepcopy(sound)
    environment["virtualisation"]["hypervisor"] = "kvm"
    environment["tools"]["jube"]["version"] = "2.1"
    levels = [finding.level for finding in preflight(environment, MpiTrial((BusyProcess(1, "x", 1.0),), "2"))]
    assert levels == ["error", "warning", "note"]


@pytest.mark.parametrize("launcher", ['shift 2; "$@" & "$@"; wait', "exit 3"])
def test_a_launcher_of_another_mpi_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, launcher: str
) -> None:
    """A foreign launcher starts processes that each believe to be alone: singletons."""
    program(tmp_path, "mpirun", launcher)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    assert start_two_ranks()[0] == ("0 of 2 ranks came up" if launcher == "exit 3" else "1")
