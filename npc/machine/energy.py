"""Joules of this node, as its processors or its own meters count them, before and after a launch.

* HPE Cray: ``/sys/cray/pm_counters/energy``, of the whole node (``12345 J 678 us``), which anybody may read.
* RAPL of Intel and AMD by the kernel's powercap: packages and their DRAM, ``energy_uj``, wrapping at
  ``max_energy_range_uj`` (kernel, Documentation/power/powercap/powercap.rst; Intel SDM vol. 3B, 15.10). Since
  its use as a side channel (CVE-2020-8694) only root may read it.
* ``energyN_input`` of hwmon with a label of a socket, in µJ (kernel, hwmon/sysfs-interface.rst).

They count what anybody on the node takes, idle processors too. RAPL leaves out network cards and fans.
"""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from npc.machine import sysfs

#: Gives everybody the right to read RAPL until the next boot.
RIGHT: Final = "chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj (root, after each boot)"
NOTHING: Final = "unavailable: no energy counters here (RAPL, hwmon, Cray), as in most virtual machines"
FORBIDDEN: Final = f"unavailable: RAPL may be read by root only: {RIGHT}"
#: The most that a package takes (W). Where a counter could wrap at this power between two readings, it may
#: have wrapped unseen.
MOST_W: Final = 1000.0


class EnergyReading(NamedTuple):
    """What the energy counters of this node show at one moment."""

    #: Who counts, and what: ``RAPL: package, dram``; empty where `problem` says why nobody does.
    source: str
    #: Counter → what it shows, in J, since a moment that only the counter knows.
    joules: Mapping[str, float]
    #: Counter → the value in J at which it begins again at 0; without those that never do.
    rounds: Mapping[str, float]
    #: Why there are no counters; empty if there are.
    problem: str = ""


def read(root: Path = Path("/")) -> EnergyReading:
    """The energy counters of this node."""
    return _cray(root) or _rapl(root) or _hwmon(root) or EnergyReading("", {}, {}, NOTHING)


def refusal(root: Path = Path("/")) -> str:
    """Why counters that are there may not be read; empty if they may, or if there are none."""
    problem = read(root).problem
    return problem if problem != NOTHING else ""


class Energy:
    """What this node takes during one launch (a `npc.machine.around.StartedObservation`)."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root
        self._before = read(root)
        self._begun = time.monotonic()

    def result(self, own: Collection[int] = ()) -> dict[str, Any]:
        """Since this was made ``{"joules": J, "seconds": s, "source": …}``, or ``{"unavailable": why}``."""
        after, seconds = read(self._root), time.monotonic() - self._begun
        if problem := self._before.problem or after.problem:
            return {"unavailable": problem.removeprefix("unavailable: ")}
        joules = 0.0
        for name, before in self._before.joules.items():
            whole = after.rounds.get(name, 0.0)
            if whole and seconds * MOST_W > whole:
                return {"unavailable": f"the counter {name} may have wrapped twice in {seconds:.0f} s"}
            used = after.joules.get(name, before) - before
            if used < 0 and not whole:
                return {"unavailable": f"the counter {name} was reset meanwhile"}
            joules += used if used >= 0 else used + whole
        if not joules:  # some virtual machines have counters that stand still
            return {"unavailable": f"the counters of {after.source} stand still"}
        return {"joules": round(joules, 6), "seconds": round(seconds, 6), "source": after.source}


def by_host(nodes: Sequence[tuple[str, dict[str, Any] | None]]) -> dict[str, Any] | None:
    """A launch's field ``energy`` from what was seen on its nodes; unavailable if it is so on one of them. Of
    two looks on one host the last is taken, that of npb's client: it is closer to the launch."""
    readings = {host: energy for host, energy in nodes if energy is not None}
    if not readings:
        return None
    for host, energy in readings.items():
        if "unavailable" in energy:
            return {"unavailable": f"{host}: {energy['unavailable']}"}
    sources = dict.fromkeys(energy["source"] for energy in readings.values())
    counted = {
        kind: {host: energy[kind] for host, energy in readings.items()} for kind in ("joules", "seconds")
    }
    return {**counted, "source": "; ".join(sources)}


def _cray(root: Path) -> EnergyReading | None:
    joules = re.match(r"(\d+) J", sysfs.text(root / "sys/cray/pm_counters/energy") or "")
    return EnergyReading("Cray: node", {"node": float(joules[1])}, {}) if joules else None


def _rapl(root: Path) -> EnergyReading | None:
    joules, rounds = {}, {}
    zones = [
        zone
        for zone in sorted((root / "sys/class/powercap").glob("intel-rapl:*"))
        if re.match(r"package|dram", sysfs.text(zone / "name") or "")
    ]
    for zone in zones:
        count = sysfs.number(zone / "energy_uj")
        if count is None:
            return EnergyReading("", {}, {}, FORBIDDEN)
        joules[zone.name] = count * 1e-6
        if whole := sysfs.number(zone / "max_energy_range_uj"):
            rounds[zone.name] = whole * 1e-6
    kinds = sorted({(sysfs.text(zone / "name") or "").partition("-")[0] for zone in zones}, reverse=True)
    return EnergyReading(f"RAPL: {', '.join(kinds)}", joules, rounds) if joules else None


def _hwmon(root: Path) -> EnergyReading | None:
    joules = {}
    for label in sorted((root / "sys/class/hwmon").glob("hwmon*/energy*_label")):
        count = sysfs.number(label.with_name(label.name.replace("_label", "_input")))
        if count is not None and "socket" in (sysfs.text(label) or "").lower():
            joules[f"{label.parent.name}/{sysfs.text(label)}"] = count * 1e-6
    return EnergyReading("hwmon: sockets", joules, {}) if joules else None
