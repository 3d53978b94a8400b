"""Traps: what about this machine will spoil a measurement, why, and what to do about it.

Each check is a function of what `npc.machine.environment.collect_environment` saw; a new one is one function
with the decorator. Those that must try something out (start two ranks, watch the processes) take its
outcome from `Trial`.
"""

from __future__ import annotations

import ipaddress
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from npc.machine.load import Busy
from npc.machine.tools import find, run_bounded, search_path

#: The oldest JUBE that the benchmark files are tested with.
OLDEST_JUBE: Final = (2, 5)
#: perftest registers up to 2 × 8 MiB a queue pair under ``-a``; 64 KiB, the usual default, fails at once.
ENOUGH_MEMLOCK: Final = 64 * 2**20
MPI_TIMEOUT_S: Final = 20.0
WATCHED_S: Final = 0.3

Environment = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trap:
    """One trap. level: ``error`` the main job cannot run, ``warning`` numbers will be off, ``note`` know it.

    name: stable, for ``--json``. seen, why, do: sentences for the person at the terminal.
    """

    name: str
    level: Literal["error", "warning", "note"]
    seen: str
    why: str
    do: str


@dataclass(frozen=True, slots=True)
class Trial:
    """What was tried out. ranks: the size that two started ranks each saw, or why there is none."""

    busy: tuple[Busy, ...]
    ranks: str
    mpi_output: str = ""


Check = Callable[[Environment, Trial], Trap | None]
_CHECKS: Final[list[Check]] = []


def check(function: Check) -> Check:
    """Adds a check to those that `find_traps` makes."""
    _CHECKS.append(function)
    return function


def find_traps(environment: Environment, trial: Trial) -> list[Trap]:
    """Every trap seen, errors first."""
    found = [trap for test in _CHECKS if (trap := test(environment, trial)) is not None]
    return sorted(found, key=lambda trap: ("error", "warning", "note").index(trap.level))


def start_two_ranks() -> tuple[str, str]:
    """(``2`` or what the ranks saw instead, what ``mpirun`` printed), within `MPI_TIMEOUT_S`."""
    mpirun = find("mpirun")
    if mpirun is None:
        return "no mpirun", ""
    # One write each, or the launcher mixes the lines of the ranks.
    program = "import os; from mpi4py import MPI; os.write(1, b'ranks: %d\\n' % MPI.COMM_WORLD.Get_size())"
    environ = {
        **os.environ,
        "PATH": search_path(),
        # Root and a machine with one core are traps of their own; here the question is the library.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    argv = [str(mpirun), "-n", "2", sys.executable, "-c", program]
    output, problem = run_bounded(argv, MPI_TIMEOUT_S, environ)
    sizes = re.findall(r"ranks: (\d+)", output)
    if problem or len(sizes) != 2:
        return problem or f"{len(sizes)} of 2 ranks came up", output
    return " and ".join(sorted(set(sizes))), output


def _version(text: str | None) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", text or "")[:3])


@check
def old_jube(environment: Environment, trial: Trial) -> Trap | None:
    """JUBE too old for the benchmark files."""
    tool = environment["tools"].get("jube")
    version = _version(tool and tool["version"])
    if not version or version >= OLDEST_JUBE:
        return None
    return Trap(
        "old_jube", "error", f"JUBE {tool['version']}",
        "the benchmark files use what JUBE has had since 2.5",
        "install 2.5.1 or later: Debian 12 and Ubuntu 24.04 have it as the package jube, EasyBuild as JUBE",
    )  # fmt: skip


@check
def mpi_mismatch(environment: Environment, trial: Trial) -> Trap | None:
    """mpirun and the library that mpi4py loads do not belong together, or MPI does not start."""
    if trial.ranks in ("2", "no mpirun"):
        return None
    launcher, library = environment["mpi"]["launcher"], environment["mpi"]["library"]
    if trial.ranks == "1":
        return Trap(
            "mpi_mismatch", "error",
            f"two ranks under mpirun ({launcher}) each believe to be alone (library: {library})",
            "mpirun and the library that mpi4py loads are of different MPIs: every network test would "
            "measure nothing",
            "put the mpirun of the same MPI first in PATH, or name its library: MPI4PY_LIBMPI=/…/libmpi.so",
        )  # fmt: skip
    last = [line.strip() for line in trial.mpi_output.splitlines() if line.strip(" -")][-3:]
    return Trap(
        "mpi_fails", "error",
        f"two ranks did not start: {trial.ranks}" + (f" ({'; '.join(last)})" if last else ""),
        "npb and the OSU benchmarks are MPI programs",
        "repeat it by hand: mpirun -n 2 .venv/bin/python -c 'from mpi4py import MPI; "
        "print(MPI.COMM_WORLD.size)'",
    )  # fmt: skip


@check
def oversubscribed(environment: Environment, trial: Trial) -> Trap | None:
    """More ranks than CPUs."""
    limits = environment["limits"]
    # "2(x3),1" is two tasks on each of three nodes and one on the next
    tasks = re.match(r"\d+", environment["variables"].get("SLURM_TASKS_PER_NODE", ""))
    ranks = int(tasks[0]) if tasks else 2
    if limits["cpus"] >= ranks:
        return None
    return Trap(
        "oversubscribed", "warning",
        f"{limits['cpus']} CPU(s) ({limits['affinity']}) for {ranks} ranks",
        "waiting ranks take turns with working ones: latencies of tens of µs where 0.2 µs is true",
        "give the job at least one CPU a rank (--cpus-per-task, taskset, the container's CPU set)",
    )  # fmt: skip


@check
def cpu_quota(environment: Environment, trial: Trial) -> Trap | None:
    """A cgroup quota below the CPU set."""
    limits = environment["limits"]
    quota = limits["cgroup_cores"]
    if quota is None or quota >= limits["cpus"]:
        return None
    return Trap(
        "cpu_quota", "warning", f"a CPU quota of {quota:g} cores on {limits['cpus']} CPUs (cgroup)",
        "the kernel stops all threads for the rest of each period (usually 100 ms) once it is used up",
        "lift the quota (docker --cpus, Kubernetes limits, systemd CPUQuota) or give whole CPUs instead",
    )  # fmt: skip


@check
def governor(environment: Environment, trial: Trial) -> Trap | None:
    """CPUs that slow down between messages."""
    governors = environment["cpu"]["frequency"]["governors"] or {}
    slow = {name: count for name, count in governors.items() if name != "performance"}
    if not slow:
        return None
    seen = ", ".join(f"{name} on {count} CPUs" for name, count in slow.items())
    return Trap(
        "governor", "warning", f"frequency governor {seen}",
        "a CPU that waits for messages is clocked down, so latencies depend on what ran before",
        "cpupower frequency-set -g performance (root), or Slurm's --cpu-freq=performance",
    )  # fmt: skip


@check
def memlock(environment: Environment, trial: Trial) -> Trap | None:
    """Too little memory may be locked for RDMA."""
    limits = environment["limits"]
    devices = sorted({port["device"] for port in environment["rdma"]})
    if not devices or limits["memlock_unlimited"] or limits["memlock_bytes"] >= ENOUGH_MEMLOCK:
        return None
    return Trap(
        "memlock", "warning", f"ulimit -l is {limits['memlock_bytes'] // 1024} KiB ({', '.join(devices)})",
        "RDMA registers its buffers as locked memory; without it verbs fail or MPI falls back to TCP",
        "memlock unlimited in /etc/security/limits.d, and LimitMEMLOCK=infinity for slurmd",
    )  # fmt: skip


@check
def rdma_down(environment: Environment, trial: Trial) -> Trap | None:
    """RDMA ports whose link is not up."""
    down = [port for port in environment["rdma"] if port["state"] != "ACTIVE"]
    if not down:
        return None
    names = ", ".join(f"{port['device']}/{port['port']} {port['state']}" for port in down)
    return Trap(
        "rdma_down", "note", f"RDMA ports not active: {names}",
        "tools that take the first device may take one of these",
        "name the device (-d for perftest, UCX_NET_DEVICES for MPI), or look at the cable and subnet manager",
    )  # fmt: skip


@check
def loaded(environment: Environment, trial: Trial) -> Trap | None:
    """Other processes that compute now."""
    cpus = environment["limits"]["cpus"]
    total = sum(entry.cores for entry in trial.busy)
    average = environment["load"]["average"]
    # A tenth of one core disturbs a latency test already; a daemon's heartbeat stays below it.
    if total < 0.1:
        return None
    names = ", ".join(f"{entry.name} ({entry.pid}) {entry.cores:.0%}" for entry in trial.busy[:4])
    return Trap(
        "loaded", "warning",
        f"{total:.1f} of {cpus} CPUs are busy now: {names}"
        + (f"; load average {average[0]:.2f}" if average else ""),
        "they take cores, caches and memory bandwidth from what is measured",
        "wait until they have ended, or measure in an exclusive job (sbatch --exclusive)",
    )  # fmt: skip


@check
def root_and_open_mpi(environment: Environment, trial: Trial) -> Trap | None:
    """Open MPI refuses root."""
    variables = environment["variables"]
    allowed = variables.get("OMPI_ALLOW_RUN_AS_ROOT") and variables.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    if os.geteuid() != 0 or allowed or "Open MPI" not in (environment["mpi"]["launcher"] or ""):
        return None
    return Trap(
        "root", "note", "root, without OMPI_ALLOW_RUN_AS_ROOT",
        "Open MPI's mpirun refuses to run as root; the localhost platform allows it, your own shell does not",
        "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or be a user",
    )  # fmt: skip


@check
def host_name(environment: Environment, trial: Trial) -> Trap | None:
    """A host name that other nodes cannot use."""
    host = environment["host"]
    if host["addresses"] is None:
        return Trap(
            "host_name", "warning", f"the host name {host['name']} does not resolve",
            "network tools are given the server by its name",
            "add it to /etc/hosts or DNS, or choose an address: npb --interface, a host file",
        )  # fmt: skip
    if not all(ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in host["addresses"]):
        return None
    return Trap(
        "host_name", "note", f"the host name {host['name']} is {', '.join(host['addresses'])} (loopback)",
        "no other node can reach this one by that name; on one machine it does not matter",
        "give the name the address of the cluster's network in /etc/hosts, or use npb --interface",
    )  # fmt: skip


@check
def huge_pages(environment: Environment, trial: Trial) -> Trap | None:
    """Transparent huge pages not for everybody."""
    setting = environment["memory"]["transparent_huge_pages"]
    if setting in (None, "always"):
        return None
    return Trap(
        "huge_pages", "note", f"transparent huge pages: {setting}",
        "memory bandwidth with 4 KiB pages is some per cent lower, by translation misses",
        "compare machines with one setting: echo always > /sys/kernel/mm/transparent_hugepage/enabled (root)",
    )  # fmt: skip


@check
def smt(environment: Environment, trial: Trial) -> Trap | None:
    """Two hardware threads a core."""
    cpu = environment["cpu"]
    if not cpu["cores"] or cpu["threads"] <= cpu["cores"]:
        return None
    return Trap(
        "smt", "note", f"{cpu['threads']} hardware threads on {cpu['cores']} cores",
        "threads of one core share its pipelines and caches: peak FLOP/s do not double, latencies vary",
        "place one thread a core (OMP_PLACES=cores, srun --hint=nomultithread)",
    )  # fmt: skip


@check
def no_counters(environment: Environment, trial: Trial) -> Trap | None:
    """Hardware counters out of reach."""
    flags = environment["cpu"]["flags"] or []
    if environment["cpu"]["architecture"] != "x86_64" or environment["tools"].get("likwid-perfctr") is None:
        return None
    # Intel announces its counters as arch_perfmon, AMD as perfctr_core (arch/x86/include/asm/cpufeatures.h)
    if not {"arch_perfmon", "perfctr_core"} & set(flags):
        return Trap(
            "no_counters", "note", "the CPU shows no performance counters, as in most virtual machines",
            "likwid-perfctr cannot count FLOP or memory traffic; likwid-bench does not need them",
            "count on the bare machine, or let the hypervisor pass the counters on (virtual PMU)",
        )  # fmt: skip
    paranoid = environment["kernel"]["perf_event_paranoid"]
    readable = os.access("/dev/cpu/0/msr", os.R_OK) or (paranoid is not None and paranoid <= 0)
    if os.geteuid() == 0 or readable:
        return None
    return Trap(
        "no_counters", "note", f"performance counters are forbidden (perf_event_paranoid {paranoid})",
        "likwid-perfctr cannot count FLOP or memory traffic",
        "LIKWID's access daemon, or sysctl kernel.perf_event_paranoid=0 (root)",
    )  # fmt: skip


@check
def virtual_machine(environment: Environment, trial: Trial) -> Trap | None:
    """Somebody else's load on the same hardware."""
    hypervisor = environment["virtualisation"]["hypervisor"]
    if hypervisor is None:
        return None
    return Trap(
        "virtual_machine", "note", f"a virtual machine ({hypervisor})",
        "its host's other guests take cores and caches unseen; numbers vary by the hour",
        "believe medians with their intervals only, and repeat at another time",
    )  # fmt: skip


@check
def clock_source(environment: Environment, trial: Trial) -> Trap | None:
    """A clock that is slow to read."""
    source = environment["kernel"]["clock_source"]
    # These are read through a system call or an I/O port, about 1 µs; the others without leaving user space.
    if source not in ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen"):
        return None
    others = environment["kernel"]["clock_sources"] or []
    return Trap(
        "clock_source", "warning", f"clock source {source} (there are: {', '.join(others)})",
        "each reading of the time costs a system call, which small-message latencies contain twice",
        "boot with tsc=reliable, or echo tsc > "
        "/sys/devices/system/clocksource/clocksource0/current_clocksource (root)",
    )  # fmt: skip
