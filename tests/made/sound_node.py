"""A node with which nothing is wrong, for preflight checks."""

from __future__ import annotations

from typing import Any

import pytest

from npc.machine import preflight
from npc.machine.environment import collect_environment
from npc.machine.preflight import MpiTrial
from npc.registration import extensions

#: Nobody else computes, and two ranks find each other.
QUIET = MpiTrial(busy=(), ranks="2")


def sound_environment() -> dict[str, Any]:
    """This machine's environment, with what is wrong with it put right."""
    environment = collect_environment()
    environment["host"] |= {"name": "n1", "addresses": ["10.1.0.1", "fd00::1"]}
    environment["kernel"] |= {"clock_source": "tsc", "clock_sources": ["tsc", "hpet"]}
    environment["virtualisation"]["hypervisor"] = None
    environment["cpu"] |= {
        "architecture": "x86_64", "flags": ["arch_perfmon", "avx2"], "cores": 8, "threads": 8,
    }  # fmt: skip
    environment["cpu"]["frequency"]["governors"] = {"performance": 8}
    environment["memory"]["transparent_huge_pages"] = "always"
    environment |= {"rdma": [], "pcie": [], "gpus": [], "counters": {}}
    environment["limits"] |= {
        "affinity": "0-7", "cpus": 8, "cgroup_cores": None, "memlock_bytes": None, "memlock_unlimited": True,
    }  # fmt: skip
    environment["variables"] = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    environment["kernel"]["perf_event_paranoid"] = 0
    environment["tools"]["perf"] = {"path": "/usr/bin/perf", "version": "6.1.187"}
    return environment


def only_checks_of(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all that is registered, preflight makes the checks of modules below a package alone."""
    list(extensions("checks"))  # loads them all
    checks = [check for check in preflight._CHECKS if check[0].__module__.startswith(f"{package}.")]
    assert checks
    monkeypatch.setattr(preflight, "_CHECKS", checks)
