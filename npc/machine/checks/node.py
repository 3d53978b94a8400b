"""The node as a whole: its CPUs and who else uses them, its memory, its clock, its name."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator

from npc.machine.preflight import Environment, MpiTrial, check


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
