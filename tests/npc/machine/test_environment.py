"""environment.json: what this machine says, and what others with stranger /proc and /sys trees say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from npc.machine import sysfs
from npc.machine.environment import collect_environment, mpi_library, virtualisation
from npc.machine.interfaces import highest_link_mode, interfaces, rdma_ports
from npc.machine.load import busy_processes, cgroup_cores, cgroup_memory_bytes, load_average
from npc.machine.pcie import pcie_links
from npc.machine.tools import TOOLS
from npc.machine.topology import processors
from tests.lab.in_process import npc
from tests.made.sysfs_tree import tree
from tests.paths import ROOT

BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def here() -> dict[str, Any]:
    return collect_environment()


def test_it_is_json_and_says_what_this_machine_is(here: dict[str, Any]) -> None:
    assert json.loads(json.dumps(here)) == here
    assert here["schema"] == 1
    assert here["host"]["name"] == os.uname().nodename
    assert here["kernel"]["release"] == os.uname().release
    assert here["cpu"]["architecture"] == os.uname().machine
    assert here["cpu"]["threads"] == os.cpu_count()
    assert here["limits"]["cpus"] == len(os.sched_getaffinity(0))
    assert here["memory"]["total_bytes"] == os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert {"127.0.0.1"} <= {
        address
        for interface in here["interfaces"]
        if interface["name"] == "lo"
        for address in interface["addresses"]
    }
    versions = {each.metadata["Name"].lower(): each.version for each in metadata.distributions()}
    assert here["python"]["packages"] == {name.replace("_", "-"): text for name, text in versions.items()}
    assert here["tools"]["jube"]["version"]
    assert here["mpi"]["library"]


def test_the_caches_are_those_that_lscpu_shows(here: dict[str, Any]) -> None:
    shown = subprocess.run(
        ["lscpu", "--bytes", "--json", "--caches"], capture_output=True, text=True, check=True
    )
    expected = {
        (cache["level"], cache["type"].lower()): (int(cache["one-size"]), int(cache["all-size"]))
        for cache in json.loads(shown.stdout)["caches"]
    }
    seen = {
        (cache["level"], cache["type"]): (cache["size_bytes"], cache["size_bytes"] * cache["instances"])
        for cache in here["cpu"]["caches"]
    }
    assert seen == expected


def test_the_commit_is_that_of_the_checkout(here: dict[str, Any]) -> None:
    head = subprocess.run(
        ["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=True
    )
    assert here["npc"]["commit"] == head.stdout.strip()
    assert here["npc"]["dirty"] in (True, False)


def test_variables_that_matter_are_kept_and_secrets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("UCX_TLS", "rc")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    monkeypatch.setenv("SLURM_JWT", "eyJhbGciOi")
    monkeypatch.setenv("NPC_API_TOKEN", "secret-value")
    monkeypatch.setenv("HOME_SWEET", "home")
    environment = collect_environment(command=["npc", "characterise", "--tag", "a b"], tools=[])
    assert environment["command"] == "npc characterise --tag 'a b'"
    assert environment["variables"]["OMP_NUM_THREADS"] == "3"
    assert environment["variables"]["UCX_TLS"] == "rc"
    assert environment["slurm"] == {"SLURM_JOB_ID": "4711"}
    assert "eyJhbGciOi" not in json.dumps(environment)
    assert "secret-value" not in json.dumps(environment)
    assert "HOME_SWEET" not in environment["variables"]


def test_outside_a_job_slurm_is_null(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setenv("SLURM_CONF", "/etc/slurm/slurm.conf")
    assert collect_environment(tools=[])["slurm"] is None


def test_an_mpi_library_that_cannot_be_loaded_is_null(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "libmpi.so").write_text("no library", encoding="utf-8")
    monkeypatch.setenv("MPI4PY_LIBMPI", str(tmp_path / "libmpi.so"))
    assert mpi_library() is None


def test_nothing_is_needed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No tool on PATH, no /proc, no /sys: null, and no exception."""
    monkeypatch.setenv("PATH", str(tmp_path))
    environment = collect_environment()
    assert environment["tools"]["qperf"] is None
    assert environment["npc"]["commit"] is None
    cpu = processors(tmp_path)
    assert cpu["model"] is None and cpu["caches"] is None and cpu["threads"] is None
    assert cpu["numa_nodes"] is None and cpu["frequency"]["governors"] is None
    assert interfaces(tmp_path) == [] and rdma_ports(tmp_path) == []
    assert load_average(tmp_path) == {"average": None, "runnable": None, "busy": None}
    assert cgroup_cores(tmp_path) is None and cgroup_memory_bytes(tmp_path) is None
    assert virtualisation(tmp_path) == {"hypervisor": None, "container": None}


@pytest.mark.slow
def test_the_command_writes_the_file_or_prints_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no tools to ask
    output = tmp_path / "environment.json"
    assert npc("doctor", "--environment", "--output", output).returncode == 0
    there = json.loads(output.read_text(encoding="utf-8"))
    assert there.keys() == json.loads(npc("doctor", "--environment").stdout).keys()
    in_job = json.loads(npc("doctor", "--environment", "--in-job").stdout)
    assert there.keys() == in_job.keys()
    of_observe = {"perf", "bpftrace", "valgrind", "llvm-mca", "objdump"} & {tool.command for tool in TOOLS}
    assert there["tools"].keys() - in_job["tools"].keys() == {"jube", *of_observe}
    refused = npc("doctor", "--environment", "--output", tmp_path / "none/e.json")
    assert refused.returncode == 1
    assert "there is no folder" in refused.stderr


@pytest.mark.parametrize("words", [("--output", "e.json"), ("--watch", "0"), ("--in-job",)])
def test_the_options_of_the_environment_need_it(words: tuple[str, ...], tmp_path: Path) -> None:
    ended = npc("doctor", *words, cwd=tmp_path)
    assert ended.returncode == 2 and "go with --environment" in ended.stderr
    assert list(tmp_path.iterdir()) == []


def test_missing_and_the_environment_exclude_each_other() -> None:
    ended = npc("doctor", "--environment", "--missing")
    assert ended.returncode == 2 and "exclude each other" in ended.stderr


def test_every_field_is_described(here: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
    for name, value in here.items():
        assert f"`{name}`" in page, name
        entries = value if isinstance(value, list) else [value]
        if name in ("variables", "tools", "slurm", "rdma", "pcie", "counters"):
            continue  # keys are names of variables, commands, counters; or all stand in one row
        for key in {key for entry in entries if isinstance(entry, dict) for key in entry}:
            assert f"`{name}.{key}`" in page, f"{name}.{key}"


# --- other machines ------------------------------------------------------------------------------------

CPU = "sys/devices/system/cpu"


def two_sockets(root: Path) -> Path:
    """Two sockets of two cores of two threads, one L3 a socket; CPU 3 is offline; Intel, powersave."""
    files = {
        f"{CPU}/online": "0-2,4-7",
        f"{CPU}/smt/control": "on",
        f"{CPU}/intel_pstate/no_turbo": "0",
        "sys/devices/system/node/online": "0-1",
        "sys/devices/system/node/node0/cpulist": "0-2",
        "sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:       65536 kB\nNode 0 MemFree: 1 kB",
        "sys/devices/system/node/node1/cpulist": "4-7",
        "proc/cpuinfo": "processor : 0\nvendor_id : GenuineIntel\nmodel name : Xeon\nflags : fpu avx2 "
        "constant_tsc\nbogomips : 4589.218\n"
        "processor : 1\nmodel name : other",
    }
    for cpu in (0, 1, 2, 4, 5, 6, 7):
        socket, core = cpu // 4, cpu // 2
        base = f"{CPU}/cpu{cpu}"
        siblings = "2" if cpu == 2 else f"{core * 2}-{core * 2 + 1}"
        files |= {
            f"{base}/topology/thread_siblings_list": siblings,
            f"{base}/topology/physical_package_id": str(socket),
            f"{base}/cache/index0/level": "1",
            f"{base}/cache/index0/type": "Data",
            f"{base}/cache/index0/size": "32K",
            f"{base}/cache/index0/shared_cpu_list": siblings,
            f"{base}/cache/index3/level": "3",
            f"{base}/cache/index3/type": "Unified",
            f"{base}/cache/index3/size": "20M",
            f"{base}/cache/index3/shared_cpu_list": "0-2" if socket == 0 else "4-7",
            f"{base}/cpufreq/scaling_governor": "performance" if cpu == 0 else "powersave",
            f"{base}/cpufreq/scaling_driver": "intel_pstate",
            f"{base}/cpufreq/scaling_min_freq": "1000000",
            f"{base}/cpufreq/scaling_max_freq": "3500000",
            f"{base}/cpufreq/base_frequency": "2300000",
        }
    return tree(root, files)


def test_two_sockets_with_threads_and_a_cpu_offline(tmp_path: Path) -> None:
    cpu = processors(two_sockets(tmp_path))
    assert (cpu["model"], cpu["vendor"], cpu["flags"]) == (
        "Xeon",
        "GenuineIntel",
        ["avx2", "constant_tsc", "fpu"],
    )
    assert (cpu["sockets"], cpu["cores"], cpu["threads"]) == (2, 4, 7)
    assert (cpu["online"], cpu["smt"]) == ("0-2,4-7", "on")
    assert cpu["numa_nodes"] == [
        {"node": 0, "cpus": "0-2", "memory_bytes": 65536 * 1024},
        {"node": 1, "cpus": "4-7", "memory_bytes": None},
    ]
    assert cpu["caches"] == [
        {
            "level": 1, "type": "data", "size_bytes": 32768, "instances": 4,
            "shared_cpus": ["0-1", "2", "4-5", "6-7"],
        },
        {
            "level": 3, "type": "unified", "size_bytes": 20 * 2**20, "instances": 2,
            "shared_cpus": ["0-2", "4-7"],
        },
    ]  # fmt: skip
    assert cpu["frequency"] == {
        "driver": "intel_pstate", "governors": {"performance": 1, "powersave": 6},
        "min_hz": 10**9, "max_hz": 3_500_000_000, "base_hz": 2_300_000_000, "boost": True,
        "counter_hz": 2_294_609_000.0,
    }  # fmt: skip


def test_an_arm_server_without_a_model_name_or_caches(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            f"{CPU}/online": "0-1",
            f"{CPU}/cpu0/topology/thread_siblings_list": "0",
            f"{CPU}/cpu1/topology/thread_siblings_list": "1",
            f"{CPU}/cpu0/topology/physical_package_id": "-1",
            f"{CPU}/cpu1/topology/physical_package_id": "-1",
            "proc/cpuinfo": "processor : 0\nFeatures : fp asimd\nCPU implementer : 0x41\nCPU part : 0xd40",
        },
    )
    cpu = processors(root)
    assert cpu["model"] == "implementer 0x41, part 0xd40"
    assert cpu["flags"] == ["asimd", "fp"]
    assert (cpu["cores"], cpu["threads"], cpu["caches"]) == (2, 2, None)


def test_a_power_server(tmp_path: Path) -> None:
    root = tree(tmp_path, {f"{CPU}/online": "0", "proc/cpuinfo": "processor : 0\ncpu : POWER9, altivec"})
    assert processors(root)["model"] == "POWER9, altivec"


def test_interfaces_of_a_cluster_node(tmp_path: Path) -> None:
    root = tree(
        tmp_path,
        {
            "sys/class/net/bonding_masters": "bond0",
            "sys/class/net/ib0/type": "32",
            "sys/class/net/ib0/operstate": "up",
            "sys/class/net/ib0/speed": "100000",
            "sys/class/net/ib0/mtu": "2044",
            "sys/class/net/ib0/device/numa_node": "1",
            "sys/class/net/ib0/device/infiniband/mlx5_0/node_guid": "1",
            "sys/class/net/eth0/type": "1",
            "sys/class/net/eth0/operstate": "down",
            "sys/class/net/eth0/speed": "-1",
            "sys/class/net/eth0/device/numa_node": "-1",
        },
    )
    (root / "drivers/mlx5_core").mkdir(parents=True)
    (root / "sys/class/net/ib0/device/driver").symlink_to(root / "drivers/mlx5_core")
    eth0, ib0 = interfaces(root)
    assert ib0 == {
        "name": "ib0", "type": "infiniband", "state": "up", "speed_bit_s": 100 * 10**9, "mtu": 2044,
        "supported_bit_s": None, "driver": "mlx5_core", "numa_node": 1,
        "rdma_devices": ["mlx5_0"], "addresses": [],
    }  # fmt: skip
    assert (eth0["speed_bit_s"], eth0["mtu"], eth0["numa_node"]) == (None, None, None)


def test_a_rate_that_a_virtual_interface_makes_up_is_none(tmp_path: Path) -> None:
    """veth says 10 Gbit/s and carries what the processor copies; a bond's rate is that of its parts."""
    files = {
        "veth0/speed": "10000", "bond0/speed": "20000", "bond0/lower_eth0/type": "1", "eth0/speed": "10000",
        "eth0/device/numa_node": "0",
    }  # fmt: skip
    root = tree(tmp_path, {f"sys/class/net/{name}": text for name, text in files.items()})
    rates = {each["name"]: each["speed_bit_s"] for each in interfaces(root)}
    assert rates == {"bond0": 20 * 10**9, "eth0": 10 * 10**9, "veth0": None}


def test_rdma_ports_with_their_rate(tmp_path: Path) -> None:
    device = "sys/class/infiniband/mlx5_0"
    root = tree(
        tmp_path,
        {
            f"{device}/fw_ver": "16.35.1012",
            f"{device}/ports/1/rate": "100 Gb/sec (4X EDR)",
            f"{device}/ports/1/state": "4: ACTIVE",
            f"{device}/ports/1/phys_state": "5: LinkUp",
            f"{device}/ports/1/link_layer": "InfiniBand",
            f"{device}/ports/2/state": "1: DOWN",
        },
    )
    first, second = rdma_ports(root)
    assert (first["device"], first["port"], first["state"]) == ("mlx5_0", 1, "ACTIVE")
    assert (first["rate_bit_s"], first["physical_state"]) == (100 * 10**9, "LinkUp")
    assert (first["link_layer"], first["firmware"]) == ("InfiniBand", "16.35.1012")
    assert (second["state"], second["rate_bit_s"]) == ("DOWN", None)
    assert (first["lanes"], second["lanes"]) == (4, None)


def test_the_highest_mode_that_ethtool_shows_is_what_a_link_could_run_at() -> None:
    """The text is that of the kernel's commit that brought ``lanes`` (Danielle Ratson, 2021)."""
    text = """Settings for swp1:
\tSupported ports: [ FIBRE ]
\tSupported link modes:   1000baseKX/Full
\t                        10000baseKR/Full
\t                        40000baseCR4/Full
\t                        100000baseSR4/Full
\tSupported pause frame use: Symmetric Receive-only
\tAdvertised link modes:  400000baseCR4/Full
\tSpeed: Unknown!
"""
    assert highest_link_mode(text) == 100 * 10**9
    assert highest_link_mode("Settings for eth0:\n\tSupported link modes:   Not reported\n") is None


def test_pcie_links_below_what_they_could(tmp_path: Path) -> None:
    port = "sys/devices/pci0000:3a/0000:3a:00.0"
    card = f"{port}/0000:3b:00.0"
    root = tree(
        tmp_path,
        {
            f"{port}/max_link_width": "8",
            f"{port}/max_link_speed": "16.0 GT/s PCIe",
            f"{card}/class": "0x020700",
            f"{card}/current_link_width": "8",
            f"{card}/max_link_width": "16",
            f"{card}/current_link_speed": "8.0 GT/s PCIe",
            f"{card}/max_link_speed": "16.0 GT/s PCIe",
            f"{card}/infiniband/mlx5_0/node_guid": "1",
            "sys/devices/pci0000:00/0000:00:1f.0/class": "0x060100",
        },
    )
    devices = root / "sys/bus/pci/devices"
    devices.mkdir(parents=True)
    (devices / "0000:3b:00.0").symlink_to(root / card)
    (devices / "0000:00:1f.0").symlink_to(root / "sys/devices/pci0000:00/0000:00:1f.0")
    assert pcie_links(root) == [{
        "address": "0000:3b:00.0", "kind": "infiniband", "name": "mlx5_0", "width": 8, "max_width": 16,
        "slot_max_width": 8, "transfers_s": 8e9, "max_transfers_s": 16e9, "slot_max_transfers_s": 16e9,
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("files", "cores", "memory"),
    [
        ({"proc/self/cgroup": "0::/"}, None, None),
        (
            {
                "proc/self/cgroup": "0::/system.slice/job",
                "sys/fs/cgroup/system.slice/job/cpu.max": "max 100000",
                "sys/fs/cgroup/system.slice/cpu.max": "150000 100000",
                "sys/fs/cgroup/system.slice/job/memory.max": "1073741824",
                "sys/fs/cgroup/system.slice/memory.max": "max",
            },
            1.5,
            2**30,
        ),
        (
            {
                "proc/self/cgroup": "4:cpu,cpuacct:/docker/1\n3:memory:/docker/1\n1:name=systemd:/x",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu,cpuacct/docker/1/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": "9223372036854771712",
            },
            2.0,
            None,
        ),
    ],
)
def test_cgroup_limits_of_both_versions(
    tmp_path: Path, files: dict[str, str], cores: float | None, memory: int | None
) -> None:
    root = tree(tmp_path, files)
    assert cgroup_cores(root) == cores
    assert cgroup_memory_bytes(root) == memory


@pytest.mark.parametrize(
    ("files", "hypervisor"),
    [
        ({"proc/cpuinfo": "flags : fpu sse"}, None),
        ({"proc/cpuinfo": "flags : fpu hypervisor"}, "unknown"),
        ({"proc/cpuinfo": "flags : hypervisor", "sys/class/dmi/id/sys_vendor": "QEMU"}, "qemu"),
        ({"proc/cpuinfo": "flags : fpu", "sys/class/dmi/id/sys_vendor": "Amazon EC2"}, None),
        (
            {"proc/cpuinfo": "Features : fp", "sys/class/dmi/id/product_name": "KVM Virtual Machine"},
            "hyper-v",
        ),
    ],
)
def test_guests_are_told_from_bare_machines(tmp_path: Path, files: dict[str, str], hypervisor: str) -> None:
    assert virtualisation(tree(tmp_path, files))["hypervisor"] == hypervisor


# --- small rules ---------------------------------------------------------------------------------------


@given(st.sets(st.integers(min_value=0, max_value=1000)))
def test_cpu_lists_are_read_back(cpus: set[int]) -> None:
    assert sysfs.parse_cpus(sysfs.format_cpus(cpus)) == cpus


def test_cpu_lists_are_as_linux_writes_them() -> None:
    assert sysfs.format_cpus([8, 0, 1, 2, 3, 10, 11]) == "0-3,8,10-11"
    assert sysfs.format_cpus([]) == ""


@pytest.mark.parametrize("text", ["many", "a", "3-1", "1,,2", "1-", "-1", "0x3"])
def test_what_is_no_cpu_list_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=text):
        sysfs.parse_cpus(text)


@pytest.mark.parametrize(
    ("written", "size"), [("32K", 32768), ("1M", 2**20), ("512", 512), ("big", None), ("", None)]
)
def test_sizes_as_the_kernel_writes_them(tmp_path: Path, written: str, size: int | None) -> None:
    assert sysfs.size_bytes(tree(tmp_path, {"size": written}) / "size") == size


def test_a_process_that_computes_is_seen_and_one_that_sleeps_is_not() -> None:
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    sleeping = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        time.sleep(0.5)  # both have started up
        busy = {entry.pid: entry for entry in busy_processes(0.5, at_least=0.05)}
    finally:
        for child in (spinning, sleeping):
            child.kill()
            child.wait()
    assert sleeping.pid not in busy
    assert 0.05 <= busy[spinning.pid].cores < 1.2
    assert busy[spinning.pid].name.startswith("python")
