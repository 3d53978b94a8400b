"""What else this machine is doing, and how much of it this process may use."""

from __future__ import annotations

import os
import re
import resource
import time
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc import processes
from npc.errors import InvalidUsage
from npc.machine import sysfs

#: cgroup v1 writes "no limit" as the largest multiple of the page size below 2^63.
_UNLIMITED: Final = 2**60
WATCH: Final = "NPC_WATCH"
#: Name of the entry for CPU time that the hypervisor gave to other guests.
HYPERVISOR: Final = "hypervisor"
#: Processes with fewer ticks of the kernel's clock are not listed: over a short launch that gives no rate.
LEAST_TICKS: Final = 10


def watch_s() -> float:
    """Seconds to watch for other processes that compute, before a job; 0: nobody looks, not during launches
    either.

    The variable ``NPC_WATCH``. Raises InvalidUsage.
    """
    text = os.environ.get(WATCH, "0.5")
    try:
        return float(text)
    except ValueError:
        raise InvalidUsage(f"{WATCH}={text}: expected seconds, 0 for not at all") from None


def load_average(root: Path = Path("/"), watch_s: float = 0.0) -> dict[str, Any]:
    """The ``load`` section of ``environment.json``: 1, 5 and 15 minutes, and runnable threads now.

    With `watch_s`, also the processes that used a tenth of a core or more during that time (seconds).
    """
    busy = [
        {"name": entry.name, "cores": round(entry.cores, 3)}
        for entry in (busy_processes(watch_s, root=root) if watch_s else ())
    ]
    # "0.20 0.18 0.12 2/86 11206": the fourth is runnable and existing threads, the reader itself among them
    match = re.match(r"([\d.]+) ([\d.]+) ([\d.]+) (\d+)/", sysfs.text(root / "proc/loadavg") or "")
    return {
        "average": [float(value) for value in match.groups()[:3]] if match else None,
        "runnable": max(0, int(match[4]) - 1) if match else None,
        "busy": busy if watch_s else None,
    }


class BusyProcess(NamedTuple):
    """A process that computed while it was watched, or the `HYPERVISOR`."""

    #: The kernel's number of the process; 0 for the hypervisor.
    pid: int
    #: The process's name as the kernel has it (``comm``), or `HYPERVISOR`.
    name: str
    #: Cores that it used on average: 0.5 is half of the time of one.
    cores: float


def busy_processes(seconds: float, at_least: float = 0.1, root: Path = Path("/")) -> list[BusyProcess]:
    """Processes that used `at_least` cores during the next `seconds`, busiest first, without this one.

    Loadavg looks back over minutes; this is what would run beside a benchmark started now.
    """
    monitor = LoadMonitor(root)
    time.sleep(seconds)
    return monitor.busy(at_least)


class LoadMonitor:
    """What processes compute from the moment when this is made until it is asked; only processes that exist
    at both moments.

    A process that starts or ends in between is not counted, whoever started it. So ranks that a batch system
    starts are not taken for the work of others, but short processes of others are not seen. One entry more is
    for the hypervisor: what it gave to other guests while this machine's CPUs had work to do.
    """

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before = {(process.pid, process.started): process for process in processes.everyone(root)}
        self._stolen = stolen_ticks(root)
        self._begun = time.monotonic()

    def busy(self, at_least: float = 0.1, least_ticks: int = 0, kernel: bool = True) -> list[BusyProcess]:
        """Processes that used `at_least` cores and `least_ticks` of the kernel's clock, busiest first,
        without this one.

        kernel: whether to list the kernel's own threads, which work for any process that calls it.
        """
        second = os.sysconf("SC_CLK_TCK") * (time.monotonic() - self._begun)
        busy = [
            BusyProcess(process.pid, process.name, ticks / second)
            for process in processes.everyone(self._root)
            if (ticks := process.ticks - self._before.get((process.pid, process.started), process).ticks)
            >= least_ticks
            and process.pid != os.getpid()
            and (kernel or not process.kernel)
        ]
        if (stolen := stolen_ticks(self._root) - self._stolen) >= max(least_ticks, 1):
            busy.append(BusyProcess(0, HYPERVISOR, stolen / second))
        return sorted((entry for entry in busy if entry.cores >= at_least), key=lambda entry: -entry.cores)

    def cores_of(self, pids: Iterable[int]) -> float:
        """Cores that these processes used on average, with all children that they have waited for."""
        second = os.sysconf("SC_CLK_TCK") * (time.monotonic() - self._begun)
        now = [process for pid in pids if (process := processes.read(pid, self._root))]
        then = [self._before.get((process.pid, process.started), process) for process in now]
        return sum(a.ticks + a.waited - b.ticks - b.waited for a, b in zip(now, then, strict=True)) / second


class LoadDuringLaunch:
    """What this node computes during one launch: the launch, and other processes."""

    def __init__(self) -> None:
        self._monitor = LoadMonitor()
        self._before = _cpu_of_children()
        self._begun = time.monotonic()

    def result(self, own: Collection[int] = ()) -> dict[str, Any]:
        """`npc.records.launch.Launch.load` of a launch that began when this was made and has just ended.

        own: processes of the launch that were there before it and go on.
        """
        seconds, used = time.monotonic() - self._begun, _cpu_of_children() - self._before
        cores = used / seconds + self._monitor.cores_of(own)
        others = self._monitor.busy(least_ticks=LEAST_TICKS, kernel=False)
        listed = [
            {"name": entry.name, "cores": round(entry.cores, 3)} for entry in others if entry.pid not in own
        ]
        return {"cores": round(cores, 3), "others": listed}


def busiest(nodes: Sequence[tuple[str, dict[str, Any] | None]]) -> dict[str, Any] | None:
    """`npc.records.launch.Launch.load` from (host, `LoadDuringLaunch.result`) of the launch's nodes: that of
    the node where other processes took most.

    On one host it is the first one, of npb's server: for the client, the server would be another process.
    None where one of them did not look.
    """
    both = [(host, computed) for host, computed in nodes if computed is not None]
    if len(both) < len(nodes) or not both:
        return None
    host, load = both[0]
    if all(name == host for name, _ in both):
        return {**load, "cores": round(sum(computed["cores"] for _, computed in both), 3)}
    host, load = max(
        both, key=lambda host_and_load: sum(entry["cores"] for entry in host_and_load[1]["others"])
    )
    return {**load, "others": [{**entry, "host": host} for entry in load["others"]]}


def _cpu_of_children() -> float:
    """CPU seconds of all that this process has waited for, and of what that had waited for (getrusage(2))."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def stolen_ticks(root: Path = Path("/")) -> int:
    """Ticks of the kernel's clock that all CPUs waited for the hypervisor: steal, field 8 of proc_stat(5)."""
    words = (sysfs.text(root / "proc/stat") or "").partition("\n")[0].split()
    return int(words[8]) if len(words) > 8 and words[0] == "cpu" else 0


def limits(root: Path = Path("/")) -> dict[str, Any]:
    """The ``limits`` section of ``environment.json``: CPUs, cores and bytes this process may have."""
    affinity = os.sched_getaffinity(0)
    memlock = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    return {
        "affinity": sysfs.format_cpus(affinity),
        "cpus": len(affinity),
        "cgroup_cores": cgroup_cores(root),
        "cgroup_memory_bytes": cgroup_memory_bytes(root),
        "memlock_bytes": None if memlock == resource.RLIM_INFINITY else memlock,
        "memlock_unlimited": memlock == resource.RLIM_INFINITY,
    }


def cgroup_cores(root: Path = Path("/")) -> float | None:
    """The tightest CPU quota of this process's cgroups, in cores; None without one (v2 and v1)."""
    quotas = []
    for folder in _cgroup_folders("cpu", root):
        words = (sysfs.text(folder / "cpu.max") or "").split()
        if len(words) == 2 and words[0] != "max":
            quotas.append(int(words[0]) / int(words[1]))
        quota, period = (sysfs.number(folder / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
        if quota is not None and quota > 0 and period:
            quotas.append(quota / period)
    return min(quotas, default=None)


def cgroup_memory_bytes(root: Path = Path("/")) -> int | None:
    """The tightest memory limit of this process's cgroups; None without one."""
    memory_limits = [
        limit
        for folder in _cgroup_folders("memory", root)
        for name in ("memory.max", "memory.limit_in_bytes")
        if (limit := sysfs.number(folder / name)) is not None and limit < _UNLIMITED
    ]
    return min(memory_limits, default=None)


def _cgroup_folders(controller: str, root: Path) -> list[Path]:
    """This process's cgroup of `controller` and its parents; the quota of any of them binds."""
    folders: list[Path] = []
    for line in (sysfs.text(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        mount = root / "sys/fs/cgroup"
        # v1 mounts "cpu,cpuacct" under that name or under the controller's own; v2 has one tree
        tops = [mount / names, mount / controller] if names else [mount, mount / "unified"]
        for top in tops:
            group = top / path.strip("/")
            folders += [folder for folder in (group, *group.parents) if folder.is_relative_to(top)]
    return list(dict.fromkeys(folders))
