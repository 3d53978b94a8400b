"""Preflight checks: what about this machine will spoil a measurement, why, and what to do about it.

A check is a function of what `npc.machine.environment.collect_environment` saw, which says what is wrong, if
anything; a new one is one function with the decorator. Those that must try something out (start two ranks,
watch the processes) take its outcome from `MpiTrial`.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from npc.machine.command import run
from npc.machine.counters import is_full
from npc.machine.energy import RIGHT
from npc.machine.interfaces import with_lanes
from npc.machine.load import Busy
from npc.machine.pcie import narrow
from npc.machine.tools import find, search_path
from npc.python import python
from npc.records.units import format_size

#: The oldest JUBE that the benchmark files are tested with.
OLDEST_JUBE: Final = (2, 5)
#: perftest registers up to 2 × 8 MiB a queue pair under ``-a``; 64 KiB, the usual default, fails at once.
ENOUGH_MEMLOCK: Final = 64 * 2**20
MPI_TIMEOUT_S: Final = 20.0
WATCHED_S: Final = 0.3

Environment = Mapping[str, Any]
Level = Literal["error", "warning", "note"]
LEVELS: Final[tuple[Level, ...]] = ("error", "warning", "note")


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found. level: ``error`` the main job cannot run, ``warning`` numbers will be off, ``note``
    know it.

    name: stable, for ``--json``. seen, why, do: sentences for the person at the terminal.
    """

    name: str
    level: Level
    seen: str
    why: str
    do: str


@dataclass(frozen=True, slots=True)
class MpiTrial:
    """What was tried out. ranks: the size that two started ranks each saw, or why there is none; the first of
    them printed `npc.machine.mpi_variables.offered` as well."""

    busy: tuple[Busy, ...]
    ranks: str
    mpi_output: str = ""

    @property
    def mpi_variables(self) -> dict[str, Any] | None:
        """What the MPI library offers by MPI_T; None if that is not known."""
        found = re.search(r"^variables: ({.*})$", self.mpi_output, re.MULTILINE)
        variables: dict[str, Any] | None = json.loads(found[1]) if found else None
        return variables


#: Yields what is seen, where something is wrong.
Check = Callable[[Environment, MpiTrial], Iterator[str]]
_CHECKS: Final[list[tuple[Check, str, Level, str, str]]] = []


def check(level: Level, why: str, do: str, name: str = "") -> Callable[[Check], Check]:
    """Adds a check to those of `preflight`; the words are those of its `Finding`, named like the function."""

    def add(function: Check) -> Check:
        _CHECKS.append((function, name or function.__name__, level, why, do))
        return function

    return add


def preflight(environment: Environment, trial: MpiTrial) -> list[Finding]:
    """What all checks find, errors first."""
    found = [
        Finding(name, level, seen, why, do)
        for function, name, level, why, do in _CHECKS
        for seen in function(environment, trial)
    ]
    return sorted(found, key=lambda finding: LEVELS.index(finding.level))


def start_two_ranks() -> tuple[str, str]:
    """(``2`` or what the ranks saw instead, what ``mpirun`` printed), within `MPI_TIMEOUT_S`."""
    if find("mpirun") is None:
        return "no mpirun", ""
    # One write each, or the launcher mixes the lines of the ranks.
    program = (
        "import json, os; from mpi4py import MPI; from npc.machine.mpi_variables import offered; "
        "own = MPI.COMM_WORLD.Get_rank() == 0 and offered(); "
        "said = 'variables: ' + json.dumps(own) + '\\n' if own else ''; "
        "os.write(1, ('ranks: %d\\n' % MPI.COMM_WORLD.Get_size() + said).encode())"
    )
    environ = {
        **os.environ,
        "PATH": search_path(),
        # Root and a machine with one core have checks of their own; here the question is the library.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }
    # Open MPI takes the path that it was called by for its prefix, which of /bin/mpirun is none.
    argv = ["mpirun", "-n", "2", *python("-c", program)]
    answer = run(argv, "", MPI_TIMEOUT_S, environ)
    output, problem = answer.text, answer.problem
    sizes = re.findall(r"ranks: (\d+)", output)
    if problem or len(sizes) != 2:
        return problem or f"{len(sizes)} of 2 ranks came up", output
    return " and ".join(sorted(set(sizes))), output


@check(
    "error",
    "the benchmark files use what JUBE has had since 2.5",
    "install 2.5.1 or later: Debian 12 and Ubuntu 24.04 have it as the package jube, EasyBuild as JUBE",
)
def old_jube(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """JUBE too old for the benchmark files."""
    tool = environment["tools"].get("jube")
    version = re.match(r"(\d+)\.(\d+)", (tool and tool["version"]) or "")
    if version and (int(version[1]), int(version[2])) < OLDEST_JUBE:
        yield f"JUBE {tool['version']}"


@check(
    "error",
    "its Python lacks what it needs, and every run would end before it begins",
    "jube --version says why; for distutils, gone from Python since 3.12: apt-get install python3-setuptools",
)
def jube_fails(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """JUBE that does not start, as Ubuntu 24.04's package 2.5.1 alone."""
    tool = environment["tools"].get("jube")
    if tool and tool["path"] and not tool["version"]:
        yield f"{tool['path']} does not start"


@check(
    "error",
    "mpirun and mpi4py's library are of different MPIs: every network test would measure nothing",
    "put the mpirun of the same MPI first in PATH, or name its library: MPI4PY_LIBMPI=/…/libmpi.so",
)
def mpi_mismatch(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """mpirun and the library that mpi4py loads do not belong together."""
    if trial.ranks == "1":
        launcher, library = environment["mpi"]["launcher"], environment["mpi"]["library"]
        yield f"two ranks under mpirun ({launcher}) each believe to be alone (library: {library})"


@check(
    "warning",
    "what is measured is neither of the two as it was installed",
    "put the mpirun of the same MPI first in PATH, or name its library: MPI4PY_LIBMPI=/…/libmpi.so",
)
def mpi_versions(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """mpirun and the library that mpi4py loads are of one MPI, but of two versions."""
    said = (environment["mpi"][part] or "" for part in ("launcher", "library"))
    found = [re.search(r"(Open MPI|MPICH|Intel)\D*(\d+(?:\.\d+)*)", text) for text in said]
    if found[0] and found[1] and found[0][1] == found[1][1] and found[0][2] != found[1][2]:
        yield f"{found[0][1]}: mpirun {found[0][2]}, the library that mpi4py loads {found[1][2]}"


@check(
    "error",
    "npb and the OSU benchmarks are MPI programs",
    "repeat it by hand: mpirun -n 2 npc-python -c 'from mpi4py import MPI; print(MPI.COMM_WORLD.size)'",
)
def mpi_fails(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """MPI does not start."""
    if trial.ranks not in ("1", "2", "no mpirun"):
        last = [line.strip() for line in trial.mpi_output.splitlines() if line.strip(" -")][-3:]
        yield f"two ranks did not start: {trial.ranks}" + (f" ({'; '.join(last)})" if last else "")


@check(
    "note",
    "npc observe --mpit reads them; SPC tells unexpected and out-of-sequence messages, which MPI alone knows",
    "for more, build MPI with them: Open MPI's configure --enable-spc, MPICH's --enable-mpit-pvars=all",
)
def mpi_variables(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """The counters that MPI keeps of itself: most builds have few."""
    offered = trial.mpi_variables
    if offered is not None:
        said = environment["mpi"]["library"] or "MPI"
        library = re.sub(r"(\d+(\.\d+)+).*", r"\1", said, flags=re.DOTALL)
        classes = ", ".join(f"{count} {name}" for name, count in sorted(offered["classes"].items()))
        number = f"{sum(offered['classes'].values())} performance variables ({classes})"
        without = "" if "Open MPI" not in library else " with SPC" if offered["spc"] else " without SPC"
        yield f"{library}{without} has {number if classes else 'no performance variables'}"


@check(
    "warning",
    "NPC runs with modules that it was not tested with, or not at all",
    "unset PYTHONPATH, or install NPC into an environment of its own: python3 -m venv (docs/install.md)",
    name="shadows",
)
def taken_modules(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Modules of PYTHONPATH in place of ours."""
    yield from _shadows(taken=True)


@check(
    "note",
    "other Python programs take those; NPC and npb do not look there",
    "nothing; if the site's mpi4py is meant: export NPC_MPI4PY=FOLDER, the folder in which it is",
    name="shadows",
)
def other_modules(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Modules of PYTHONPATH that would be in place of ours."""
    yield from _shadows(taken=False)


def _shadows(taken: bool) -> Iterator[str]:
    from npc.machine.shadows import shadows

    found = [each for each in shadows() if each.taken is taken]
    for folder in dict.fromkeys(each.folder for each in found):
        names = ", ".join(each.name for each in found if each.folder == folder)
        yield f"{folder} has modules of the same names: {names}"


@check(
    "warning",
    "waiting ranks take turns with working ones: latencies of tens of µs where 0.2 µs is true",
    "give the job at least one CPU a rank (--cpus-per-task, taskset, the container's CPU set)",
)
def oversubscribed(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """More ranks than CPUs."""
    limits = environment["limits"]
    # "2(x3),1" is two tasks on each of three nodes and one on the next
    tasks = re.match(r"\d+", environment["variables"].get("SLURM_TASKS_PER_NODE", ""))
    ranks = int(tasks[0]) if tasks else 2
    if limits["cpus"] < ranks:
        yield f"{limits['cpus']} CPU(s) ({limits['affinity']}) for {ranks} ranks"


@check(
    "warning",
    "the kernel stops all threads for the rest of each period (usually 100 ms) once it is used up",
    "lift the quota (docker --cpus, Kubernetes limits, systemd CPUQuota) or give whole CPUs instead",
)
def cpu_quota(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A cgroup quota below the CPU set."""
    cpus, quota = environment["limits"]["cpus"], environment["limits"]["cgroup_cores"]
    if quota is not None and quota < cpus:
        yield f"a CPU quota of {quota:g} cores on {cpus} CPUs (cgroup)"


@check(
    "warning",
    "a CPU that waits for messages is clocked down, so latencies depend on what ran before",
    "cpupower frequency-set -g performance (root), or Slurm's --cpu-freq=performance",
)
def governor(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """CPUs that slow down between messages."""
    governors = environment["cpu"]["frequency"]["governors"] or {}
    slow = [f"{name} on {count} CPUs" for name, count in governors.items() if name != "performance"]
    if slow:
        yield f"frequency governor {', '.join(slow)}"


@check(
    "warning",
    "RDMA registers its buffers as locked memory; without it verbs fail or MPI falls back to TCP",
    "memlock unlimited in /etc/security/limits.d, and LimitMEMLOCK=infinity for slurmd",
)
def memlock(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Too little memory may be locked for RDMA."""
    limits = environment["limits"]
    devices = sorted({port["device"] for port in environment["rdma"]})
    if devices and not limits["memlock_unlimited"] and limits["memlock_bytes"] < ENOUGH_MEMLOCK:
        yield f"ulimit -l is {format_size(limits['memlock_bytes'])} ({', '.join(devices)})"


@check(
    "note",
    "tools that take the first device may take one of these",
    "name the device (-d for perftest, UCX_NET_DEVICES for MPI), or look at the cable and subnet manager",
)
def rdma_down(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """RDMA ports whose link is not up."""
    down = [port for port in environment["rdma"] if port["state"] != "ACTIVE"]
    if down:
        names = ", ".join(f"{port['device']}/{port['port']} {port['state']}" for port in down)
        yield f"RDMA ports not active: {names}"


@check(
    "warning",
    "it carries that part of what it could: a bad contact, a worn or wrong cable, a slot that is too small",
    "reseat card and cable, or another slot; lspci -vv shows LnkCap and LnkSta",
)
def narrow_pcie(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A card on fewer or slower PCI Express lanes than it has."""
    yield from narrow(environment["pcie"])


@check(
    "warning",
    "what it computes takes time and memory from what is measured",
    "wait for it or end it; nvidia-smi shows its processes",
)
def busy_gpu(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Somebody else's process on a GPU."""
    for gpu in environment["gpus"]:
        if names := ", ".join(f"{each['name']} ({each['pid']})" for each in gpu["processes"]):
            yield f"GPU {gpu['index']} is used by {names}"
        elif gpu["utilisation"]:
            yield f"GPU {gpu['index']} is {gpu['utilisation']:.0%} busy, and does not tell with whom"


@check(
    "warning",
    "it computes slower than others of its kind",
    "power cap: nvidia-smi -q -d POWER; application clocks: nvidia-smi -rac; heat: look at its fans and air",
)
def slow_gpu(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A GPU with a lower power limit than it left the factory with, or with clocks that are held down."""
    for gpu in environment["gpus"]:
        limit, default = gpu["power_limit_w"], gpu["default_power_limit_w"]
        if limit and default and limit < default:
            yield f"GPU {gpu['index']} may take {limit:g} of {default:g} W"
        if gpu["held_down_by"]:
            yield f"the clock of GPU {gpu['index']} is held down by: {', '.join(gpu['held_down_by'])}"


@check(
    "note",
    "the driver is loaded anew for every program, which takes seconds and forgets clocks that were set",
    "nvidia-smi -pm 1, or the service nvidia-persistenced",
)
def gpu_persistence(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A GPU without persistence mode."""
    off = [str(gpu["index"]) for gpu in environment["gpus"] if gpu["persistence"] is False]
    if off:
        yield f"persistence mode is off: GPU {', '.join(off)}"


@check(
    "warning",
    "its results cannot be trusted",
    "take the node out and have the GPU tested; nvidia-smi -q -d ECC shows where the errors are",
)
def gpu_errors(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Uncorrected memory errors since the driver was loaded."""
    for gpu in environment["gpus"]:
        if gpu["uncorrected_errors"]:
            yield f"GPU {gpu['index']} has {gpu['uncorrected_errors']} uncorrected memory errors"


@check(
    "note",
    "what is measured over it has this limit, not the card's",
    "look at cable, transceiver and the switch's port: ethtool DEV",
)
def slow_interface(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """An Ethernet link below the highest rate that both card and transceiver support."""
    for interface in environment["interfaces"]:
        speed, most = interface["speed_bit_s"], interface["supported_bit_s"]
        if interface["state"] == "up" and speed and most and speed < most:
            yield f"{interface['name']} runs at {speed / 1e9:g} of {most / 1e9:g} Gbit/s"


@check(
    "warning",
    "three of its four lanes are dead: a quarter of its bandwidth",
    "reseat or change the cable; iblinkinfo shows what both ends could do",
    name="rdma_lanes",
)
def one_lane(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """An InfiniBand link of one lane."""
    yield from with_lanes(environment["rdma"], 1)


@check(
    "note",
    "right for HDR100 and NDR200 by a splitter cable; else half of what the port could carry",
    "iblinkinfo shows what both ends could do",
    name="rdma_lanes",
)
def two_lanes(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """An InfiniBand link of two lanes."""
    yield from with_lanes(environment["rdma"], 2)


@check(
    "note",
    "they stay at their largest value: errors that come now are not seen, not by npc either",
    "perfquery -R DEV PORT sets them to 0 (root)",
)
def full_counters(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Counters of a port that have reached the end of their field."""
    full = [name for name, value in environment["counters"].items() if is_full(name, value)]
    if full:
        yield f"{len(full)} counter(s) are full: {', '.join(full[:4])}"


@check(
    "warning",
    "they take cores, caches and memory bandwidth from what is measured",
    "wait until they have ended, or measure in an exclusive job (sbatch --exclusive)",
)
def loaded(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Other processes that compute now."""
    cpus, average = environment["limits"]["cpus"], environment["load"]["average"]
    total = sum(entry.cores for entry in trial.busy)
    # A tenth of one core disturbs a latency test already; a daemon's heartbeat stays below it.
    if total >= 0.1:
        names = ", ".join(f"{entry.name} ({entry.pid}) {entry.cores:.0%}" for entry in trial.busy[:4])
        average_text = f"; load average {average[0]:.2f}" if average else ""
        yield f"{total:.1f} of {cpus} CPUs are busy now: {names}{average_text}"


@check(
    "note",
    "Open MPI's mpirun refuses to run as root; the localhost platform allows it, your own shell does not",
    "export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1, or be a user",
    name="root",
)
def root_and_open_mpi(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Open MPI refuses root."""
    variables = environment["variables"]
    allowed = variables.get("OMPI_ALLOW_RUN_AS_ROOT") and variables.get("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM")
    if os.geteuid() == 0 and not allowed and "Open MPI" in (environment["mpi"]["launcher"] or ""):
        yield "root, without OMPI_ALLOW_RUN_AS_ROOT"


@check(
    "warning",
    "network tools are given the server by its name",
    "add it to /etc/hosts or DNS, or choose an address: npb --interface, a host file",
    name="host_name",
)
def unknown_host_name(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A host name that nobody knows."""
    if environment["host"]["addresses"] is None:
        yield f"the host name {environment['host']['name']} does not resolve"


@check(
    "note",
    "no other node can reach this one by that name; on one machine it does not matter",
    "give the name the address of the cluster's network in /etc/hosts, or use npb --interface",
    name="host_name",
)
def loopback_host_name(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A host name that other nodes cannot use."""
    name, addresses = environment["host"]["name"], environment["host"]["addresses"]
    if addresses is not None and all(
        ipaddress.ip_address(address.partition("%")[0]).is_loopback for address in addresses
    ):
        yield f"the host name {name} is {', '.join(addresses)} (loopback)"


@check(
    "note",
    "memory bandwidth with 4 KiB pages is some per cent lower, by translation misses",
    "compare machines with one setting: echo always > /sys/kernel/mm/transparent_hugepage/enabled (root)",
)
def huge_pages(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Transparent huge pages not for everybody."""
    setting = environment["memory"]["transparent_huge_pages"]
    if setting not in (None, "always"):
        yield f"transparent huge pages: {setting}"


@check(
    "note",
    "threads of one core share its pipelines and caches: peak FLOP/s do not double, latencies vary",
    "place one thread a core (OMP_PLACES=cores, srun --hint=nomultithread)",
)
def smt(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Two hardware threads a core."""
    cpu = environment["cpu"]
    if cpu["cores"] and cpu["threads"] > cpu["cores"]:
        yield f"{cpu['threads']} hardware threads on {cpu['cores']} cores"


def _shows_counters(environment: Environment) -> bool | None:
    """Whether the CPU has hardware counters; None where LIKWID would not look for them."""
    if environment["cpu"]["architecture"] != "x86_64" or environment["tools"].get("likwid-perfctr") is None:
        return None
    # Intel announces its counters as arch_perfmon, AMD as perfctr_core (arch/x86/include/asm/cpufeatures.h)
    return bool({"arch_perfmon", "perfctr_core"} & set(environment["cpu"]["flags"] or []))


@check(
    "note",
    "likwid-perfctr cannot count FLOP or memory traffic; likwid-bench does not need them",
    "count on the bare machine, or let the hypervisor pass the counters on (virtual PMU)",
)
def no_counters(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A CPU without hardware counters."""
    if _shows_counters(environment) is False:
        yield "the CPU shows no performance counters, as in most virtual machines"


@check(
    "note",
    "likwid-perfctr cannot count FLOP or memory traffic",
    "LIKWID's access daemon, or sysctl kernel.perf_event_paranoid=0 (root)",
    name="no_counters",
)
def forbidden_counters(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Hardware counters out of reach."""
    paranoid = environment["kernel"]["perf_event_paranoid"]
    readable = os.access("/dev/cpu/0/msr", os.R_OK) or (paranoid is not None and paranoid <= 0)
    if _shows_counters(environment) and os.geteuid() != 0 and not readable:
        yield f"performance counters are forbidden (perf_event_paranoid {paranoid})"


@check(
    "note",
    "npc observe --hotspots records by it where the ranks compute",
    "on every node: apt-get install linux-perf (Ubuntu: linux-tools-$(uname -r); elsewhere the package perf)",
    name="perf",
)
def no_perf(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """No perf, or a script in its place that finds none for this kernel."""
    found = environment["tools"].get("perf")
    if found is None:
        yield "there is no perf"
    elif not found["version"]:
        from npc.machine.perf import find_perf

        other = find_perf()
        if other.problem:
            yield other.problem


@check(
    "note",
    "npc observe --hotspots sees the program by it, and the system in its stacks",
    "as root, on every node: sysctl kernel.perf_event_paranoid=1 (2: the program alone)",
    name="perf",
)
def perf_sees_part(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """perf that shows less than all to this user."""
    from npc.machine.perf import is_privileged, sight_at

    paranoid = environment["kernel"]["perf_event_paranoid"]
    seen = sight_at(paranoid, is_privileged())
    if environment["tools"].get("perf") and seen.line:
        what = "this user's programs, not the system" if seen.own else "nothing to this user"
        yield f"perf shows {what} (perf_event_paranoid {paranoid})"


@check(
    "note",
    "npc observe --probe counts by it what functions, system calls and the kernel do",
    "the line that it names, on every node",
    name="probes",
)
def no_probes(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """No bpftrace, or not the right to attach anything."""
    from npc.machine.bpftrace import refusal

    if reason := refusal(types=True):
        yield f"no probes: {reason}"


@check(
    "note",
    "joules and watts of each launch, and what a ceiling yields a watt",
    RIGHT,
)
def energy(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Energy counters that this user may not read."""
    from npc.machine.energy import refusal

    if reason := refusal():
        yield f"no energy: {reason.removeprefix('unavailable: ')}"


@check(
    "note",
    "npc observe --hotspots says by it how fast the hottest loops can be",
    "where npc observe runs: apt-get install llvm-19 binutils (elsewhere LLVM 19 or later)",
    name="llvm-mca",
)
def no_loop_model(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """No llvm-mca with a model of this processor."""
    from npc.machine.llvm import NoModel, model_of
    from npc.machine.processor import named

    try:
        model_of(named())
    except NoModel as reason:
        yield str(reason)
    if environment["tools"].get("objdump") is None:
        yield "there is no objdump"


@check(
    "note",
    "its host's other guests take cores and caches unseen; numbers vary by the hour",
    "believe medians with their intervals only, and repeat at another time",
)
def virtual_machine(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """Somebody else's load on the same hardware."""
    hypervisor = environment["virtualisation"]["hypervisor"]
    if hypervisor is not None:
        yield f"a virtual machine ({hypervisor})"


@check(
    "warning",
    "each reading of the time costs a system call, which small-message latencies contain twice",
    "boot with tsc=reliable, or echo tsc > "
    "/sys/devices/system/clocksource/clocksource0/current_clocksource (root)",
)
def clock_source(environment: Environment, trial: MpiTrial) -> Iterator[str]:
    """A clock that is slow to read."""
    source = environment["kernel"]["clock_source"]
    # These are read through a system call or an I/O port, about 1 µs; the others without leaving user space.
    if source in ("hpet", "acpi_pm", "jiffies", "refined-jiffies", "xen"):
        others = environment["kernel"]["clock_sources"] or []
        yield f"clock source {source} (there are: {', '.join(others)})"
