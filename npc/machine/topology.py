"""The processors: what they are, how they share cores, caches and memory, and how fast they may run.

Read from /proc/cpuinfo and /sys/devices/system/{cpu,node} (Linux: Documentation/ABI/stable and testing,
sysfs-devices-system-cpu), so that it works on every architecture; what a kernel does not tell is None.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from npc.machine import sysfs
from npc.machine.command import run
from npc.machine.tools import VERSION_TIMEOUT_S


def processors(root: Path = Path("/")) -> dict[str, Any]:
    """The ``cpu`` section of ``environment.json``; `root` is where /proc and /sys are."""
    system = root / "sys/devices/system/cpu"
    cpus = _online(system)
    info = _cpuinfo(root / "proc/cpuinfo")
    siblings = [sysfs.text(system / f"cpu{cpu}/topology/thread_siblings_list") for cpu in cpus]
    packages = [sysfs.number(system / f"cpu{cpu}/topology/physical_package_id") for cpu in cpus]
    cores = len(set(siblings)) if cpus and None not in siblings else None
    flags = info.get("flags") or info.get("features") or info.get("isa")
    return {
        "model": _model(info, root),
        "vendor": info.get("vendor_id"),
        "flags": sorted(flags.split()) if flags else None,
        "sockets": len(set(packages)) if cpus and None not in packages else None,
        "cores": cores,
        "threads": len(cpus) or None,
        "online": sysfs.format_cpus(cpus) or None,
        "smt": sysfs.text(system / "smt/control"),
        "numa_nodes": _numa_nodes(root / "sys/devices/system/node"),
        "caches": _caches(system, cpus),
        "frequency": _frequency(system, cpus) | {"counter_hz": _counter_hz(info)},
    }


def _online(system: Path) -> list[int]:
    listed = sysfs.text(system / "online")
    try:
        return sorted(sysfs.parse_cpus(listed)) if listed else []
    except ValueError:
        return []


def _cpuinfo(path: Path) -> dict[str, str]:
    """The first processor's fields and those of the machine, names in lower case."""
    fields: dict[str, str] = {}
    for line in (sysfs.text(path) or "").splitlines():
        name, separator, value = line.partition(":")
        if separator:
            fields.setdefault(name.strip().lower(), value.strip())
    return fields


def _model(info: dict[str, str], root: Path) -> str | None:
    # x86; MIPS; POWER; old ARM kernels.
    for name in ("model name", "cpu model", "cpu", "uarch"):
        if info.get(name):
            return info[name]
    # 64-bit ARM has numbers only; lscpu knows their names. It describes this machine, not another root.
    if root == Path("/"):
        output = run(["lscpu"], "", VERSION_TIMEOUT_S, {"LC_ALL": "C"}).stdout
        named = re.search(r"^\s*Model name: *([^\s-].*)", output, re.MULTILINE)
        if named:
            return named[1]
    if "cpu implementer" in info:
        return f"implementer {info['cpu implementer']}, part {info.get('cpu part', 'unknown')}"
    return None


def _numa_nodes(system: Path) -> list[dict[str, Any]] | None:
    listed = sysfs.text(system / "online")
    if listed is None:
        return None
    nodes = []
    for node in sorted(sysfs.parse_cpus(listed)):
        total = re.search(r"MemTotal: +(\d+)", sysfs.text(system / f"node{node}/meminfo") or "")
        cpus = sysfs.text(system / f"node{node}/cpulist") or ""
        nodes.append({"node": node, "cpus": cpus, "memory_bytes": int(total[1]) * 1024 if total else None})
    return nodes


def _caches(system: Path, cpus: list[int]) -> list[dict[str, Any]] | None:
    """One entry for each level and kind: the size of one instance, and the CPUs that share each instance."""
    instances: dict[tuple[int, str, int | None], list[frozenset[int]]] = defaultdict(list)
    known: dict[str, set[int]] = defaultdict(set)  # CPUs whose cache of that index is known already
    for cpu in cpus:
        for index in sorted((system / f"cpu{cpu}/cache").glob("index[0-9]*")):
            if cpu in known[index.name]:
                continue
            level, kind = sysfs.number(index / "level"), sysfs.text(index / "type")
            if level is None or kind is None:
                continue
            shared = sysfs.parse_cpus(sysfs.text(index / "shared_cpu_list") or str(cpu))
            known[index.name] |= shared
            instances[level, kind.lower(), sysfs.size_bytes(index / "size")].append(shared)
    return [
        {
            "level": level,
            "type": kind,
            "size_bytes": size,
            "instances": len(shared),
            "shared_cpus": [sysfs.format_cpus(cpus) for cpus in shared],
        }
        for (level, kind, size), shared in sorted(instances.items(), key=lambda entry: entry[0][:2])
    ] or None


def _counter_hz(info: dict[str, str]) -> float | None:
    """Rate of x86's time-stamp counter, which is half of BogoMIPS in MHz; None where it is not constant."""
    mips = re.fullmatch(r"\d+\.\d+", info.get("bogomips", ""))
    constant = "constant_tsc" in info.get("flags", "").split()
    return float(mips[0]) / 2 * 1e6 if mips and constant else None


def _frequency(system: Path, cpus: list[int]) -> dict[str, Any]:
    """Governors with the number of CPUs that have them; lowest, highest and base frequency in Hz."""
    policies = [system / f"cpu{cpu}/cpufreq" for cpu in cpus]
    governors = Counter(filter(None, (sysfs.text(policy / "scaling_governor") for policy in policies)))
    lowest = [sysfs.number(policy / "scaling_min_freq") for policy in policies]
    highest = [sysfs.number(policy / "scaling_max_freq") for policy in policies]
    # kHz of intel_pstate, MHz of ACPI (AMD, ARM)
    base = sysfs.number(policies[0] / "base_frequency") if policies else None
    nominal = sysfs.number(system / f"cpu{cpus[0]}/acpi_cppc/nominal_freq") if cpus else None
    no_turbo = sysfs.number(system / "intel_pstate/no_turbo")
    boost = sysfs.number(system / "cpufreq/boost")
    return {
        "driver": sysfs.text(policies[0] / "scaling_driver") if policies else None,
        "governors": dict(governors) or None,
        "min_hz": min((value * 1000 for value in lowest if value), default=None),
        "max_hz": max((value * 1000 for value in highest if value), default=None),
        "base_hz": base * 1000 if base else nominal * 1_000_000 if nominal else None,
        "boost": bool(boost) if boost is not None else (not no_turbo if no_turbo is not None else None),
    }
