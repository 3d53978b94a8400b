"""Linux's perf on this node: where it is, and what it may show to this user.

perf works with other kernels' versions, too, but some distributions install a script in its place that wants
the running kernel's: then any other perf of this node is taken. This module uses the standard library alone,
since it is loaded beside every rank.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Final, NamedTuple

from npc.machine.command import run
from npc.processes import capabilities

#: What installs perf on Debian; Ubuntu calls it linux-tools-generic, others perf.
PACKAGE: Final = "linux-perf"
#: perf says its version in milliseconds.
_TIMEOUT_S: Final = 10.0
_PATHS: Final = ("usr/lib/linux-tools*/*/perf", "usr/lib/linux-tools*/perf*", "usr/bin/perf_*")
#: Capabilities to which kernel.perf_event_paranoid does not apply (capabilities(7)).
_CAP_SYS_ADMIN: Final = 1 << 21
_CAP_PERFMON: Final = 1 << 38


class Perf(NamedTuple):
    """The perf of this node."""

    #: Empty where there is none that runs.
    path: str
    #: As perf says it; empty without one.
    version: str
    #: Why there is none, and what to do; empty where there is one.
    problem: str = ""
    #: Whether it can compress what it records (zstd).
    compresses: bool = False


class PerfAccess(NamedTuple):
    """What perf may show to this user."""

    #: The user's own processes.
    own: bool
    #: The system in their stacks.
    kernel: bool
    #: The command that would allow more; empty where nothing is missing.
    line: str = ""


def find_perf(root: Path = Path("/")) -> Perf:
    """The perf of ``PATH``, or another kernel's."""
    given = shutil.which("perf")
    others = sorted((path for pattern in _PATHS for path in root.glob(pattern)), reverse=True)
    refusal = ""
    for path in [*filter(None, (given,)), *map(str, others)]:
        options = run([path, "version", "--build-options"], timeout_s=_TIMEOUT_S)
        version = re.search(r"perf version (\S+)", options.stdout)
        if options.returncode == 0 and version:
            compresses = re.search(r"zstd: \[ *on", options.stdout) is not None
            return Perf(path, version[1], compresses=compresses)
        # "WARNING: perf not found for kernel 5.15.0-91" (Ubuntu), "E: linux-perf-5.10 is not installed."
        words = (options.stderr or options.stdout).strip()
        refusal = (
            refusal or f"{path}: {words.splitlines()[0] if words else f'exit code {options.returncode}'}"
        )
    if refusal:
        return Perf("", "", f"{refusal} (apt-get install linux-perf; Ubuntu: linux-tools-$(uname -r))")
    return Perf("", "", f"there is no perf here (apt-get install {PACKAGE}; elsewhere the package perf)")


def perf_access(root: Path = Path("/")) -> PerfAccess:
    """What this process may see here."""
    try:
        level = int((root / "proc/sys/kernel/perf_event_paranoid").read_text())
    except (OSError, ValueError):
        level = None
    return perf_access_at(level, is_privileged(root))


def perf_access_at(level: int | None, privileged: bool) -> PerfAccess:
    """What kernel.perf_event_paranoid and the capabilities allow. level: None where the kernel has none.

    From 1 on no counting of whole CPUs, from 2 on no view of the system
    (Documentation/admin-guide/sysctl/kernel.rst); Debian's 3 and Ubuntu's 4 allow nothing without
    CAP_PERFMON.
    """
    if level is None:
        return PerfAccess(False, False, "a kernel with CONFIG_PERF_EVENTS")
    if level <= 1 or privileged:
        return PerfAccess(True, True)
    if level == 2:
        return PerfAccess(True, False, "sysctl kernel.perf_event_paranoid=1")
    return PerfAccess(False, False, "sysctl kernel.perf_event_paranoid=2, or 1 to see the system, too")


def is_privileged(root: Path = Path("/")) -> bool:
    """Whether kernel.perf_event_paranoid does not apply to this process."""
    return bool(capabilities(root) & (_CAP_SYS_ADMIN | _CAP_PERFMON))
