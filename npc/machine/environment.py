"""Everything about this machine that a measurement may depend on, as JSON: what ``npc doctor --environment``
prints.

The fields are described in docs/files.md. What a machine does not tell (a container, another
architecture, no git) is null; nothing here raises because something is missing.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import socket
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import psutil

from npc.machine import container, counters, sysfs
from npc.machine.command import run
from npc.machine.gpus import gpus
from npc.machine.interfaces import interfaces, rdma_ports
from npc.machine.load import limits, load_average
from npc.machine.memory import channels, dimms
from npc.machine.pcie import pcie_links
from npc.machine.tools import TOOLS, VERSION_TIMEOUT_S, ToolStatus, find, find_all, os_release, search_path
from npc.machine.topology import processors
from npc.places import home
from npc.python import python
from npc.records.launch import now
from npc.version import VERSION

#: Raised whenever a field is renamed or changes its meaning; new fields do not raise it.
SCHEMA: Final = 1

#: Variables that change what MPI, OpenMP, UCX, libfabric, NCCL, BLAS, malloc, the loader or NPC do, or tell
#: of the job.
_VARIABLES: Final = re.compile(
    r"(SLURM|PBS|LSB|OMP|KMP|GOMP|OMPI|PMIX|PRTE|HYDRA|MPICH|MPIR_CVAR|I_MPI|MPI4PY|MV2|MVP|UCX|FI|PSM2?|HFI|MLX5"
    r"|HCOLL|SHARP|NCCL|RCCL|CUDA|HIP|ROCR|GPU|MKL|OPENBLAS|BLIS|GOTO|MALLOC|LIKWID|NPC|JUBE)_\w+"
    r"|GLIBC_TUNABLES|LD_PRELOAD|LD_LIBRARY_PATH|PATH|LOADEDMODULES|VIRTUAL_ENV"
)
#: Kernel parameters that change speed or noise. The rest of the command line is not kept.
_KERNEL_PARAMETERS: Final = re.compile(
    r"(?<!\S)(?:mitigations|nosmt|isolcpus|nohz|nohz_full|rcu_nocbs|idle|processor\.\w+|intel_idle\.\w+"
    r"|intel_pstate|amd_pstate|cpufreq\.\w+|transparent_hugepage|hugepages|hugepagesz|numa_balancing"
    r"|preempt|tsc|clocksource|iommu|intel_iommu|amd_iommu|spec_store_bypass_disable|nopti)(?:=\S*)?(?!\S)"
)
_SECRET: Final = re.compile(r"TOKEN|JWT|KEY|SECRET|PASSW|CREDENTIAL|COOKIE|NONCE", re.IGNORECASE)


def collect_environment(
    command: Sequence[str] | None = None,
    tools: Sequence[ToolStatus] | None = None,
    watch_s: float = 0.0,
    in_job: bool = False,
) -> dict[str, Any]:
    """The content of ``environment.json``.

    command: the command line that it belongs to, by default that of this process; tools: what `find_all`
    returned, if it was called already; watch_s: seconds in which to watch for processes that compute, before
    anything else is done; in_job: whether to leave out tools that no job starts.
    """
    load = load_average(watch_s=watch_s)
    wanted = [tool for tool in TOOLS if tool.in_jobs or not in_job]
    with ThreadPoolExecutor() as pool:
        # What has to ask other programs runs while the rest is read.
        looked_up = pool.submit(find_all, wanted) if tools is None else None
        library = pool.submit(mpi_library)
        commit = pool.submit(_checkout)
        addresses = pool.submit(_addresses_of_host)
        accelerators = pool.submit(gpus)
        around_tools = pool.submit(container.look)
        environment: dict[str, Any] = {
            "schema": SCHEMA,
            "time": now(),
            "command": shlex.join(command or sys.orig_argv),
            "directory": _working_directory(),
            "host": {"name": socket.gethostname()},
            "kernel": _kernel(),
            "os": _os(),
            "virtualisation": virtualisation(),
            "cpu": {"architecture": platform.machine() or None, **processors()},
            "memory": _memory(),
            "interfaces": interfaces(),
            "rdma": rdma_ports(),
            "pcie": pcie_links(),
            "counters": counters.raised(counters.read()),
            "limits": limits(),
            "load": load,
            "python": _python(),
            "variables": _variables(os.environ),
        }
        environment["slurm"] = _slurm(environment["variables"])
        environment["host"]["addresses"] = addresses.result()
        environment["gpus"] = accelerators.result()
        environment["container"] = around_tools.result()
        environment["npc"] = {"version": VERSION, **commit.result()}
        environment["tools"] = {
            status.tool.command: {"path": str(status.path), "version": status.version}
            if status.path
            else None
            for status in (looked_up.result() if looked_up else tools or ())
        }
        mpirun = environment["tools"].get("mpirun")
        environment["mpi"] = {"launcher": mpirun and mpirun["version"], "library": library.result()}
    return environment


def mpi_library() -> str | None:
    """What the MPI library that mpi4py finds calls itself, in one line; None if it cannot be loaded."""
    # In a process of its own: a library that does not fit may end the process that loads it.
    program = (
        "import mpi4py; mpi4py.rc.initialize = False; from mpi4py import MPI; "
        "print('library:', ' '.join(MPI.Get_library_version().split()))"
    )
    environ = {**os.environ, "PATH": search_path()}
    text = run(python("-c", program), "", VERSION_TIMEOUT_S, environ).text
    match = re.search(r"^library: (.+)", text, re.MULTILINE)
    # The string ends in a NUL byte under some libraries.
    return match[1].strip("\0 ") if match else None


#: A word in a guest's firmware (DMI) or clock sources → its hypervisor.
_HYPERVISORS: Final = {
    "QEMU": "qemu",
    "VMware": "vmware",
    "VirtualBox": "virtualbox",
    "Virtual Machine": "hyper-v",
    "Amazon EC2": "ec2",
    "Google Compute": "gce",
    "KVM": "kvm",
    "kvm-clock": "kvm",
    "hyperv_clocksource": "hyper-v",
    "xen": "xen",
}
_CONTAINERS: Final = {".dockerenv": "docker", "run/.containerenv": "podman", ".singularity.d": "apptainer"}


def virtualisation(root: Path = Path("/")) -> dict[str, str | None]:
    """The hypervisor and the container that this runs in, each None where there is no sign of one.

    A guest is recognised by the CPU's flag ``hypervisor`` (x86) or by its firmware. Its hypervisor is
    ``unknown`` where nothing names it.
    """
    dmi = root / "sys/class/dmi/id"
    firmware = f"{sysfs.text(dmi / 'sys_vendor')} {sysfs.text(dmi / 'product_name')}"
    clocks = sysfs.text(root / "sys/devices/system/clocksource/clocksource0/available_clocksource")
    signs = f"{firmware} {clocks}"
    named = next((name for sign, name in _HYPERVISORS.items() if sign in signs), None)
    flags = re.search(r"^flags\s*:(.*)", sysfs.text(root / "proc/cpuinfo") or "", re.MULTILINE)
    if flags:  # x86: the flag decides, whatever a bare-metal cloud machine's firmware is called
        named = (named or "unknown") if "hypervisor" in flags[1].split() else None
    container = next((name for file, name in _CONTAINERS.items() if (root / file).exists()), None)
    return {"hypervisor": named, "container": container}


def _working_directory() -> str | None:
    try:
        return str(Path.cwd())
    except OSError:  # it was removed
        return None


def _addresses_of_host() -> list[str] | None:
    """What this host's own name resolves to, None if it does not."""
    try:
        addresses = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return None
    return list(dict.fromkeys(str(entry[4][0]) for entry in addresses))


def _kernel() -> dict[str, Any]:
    clock = Path("/sys/devices/system/clocksource/clocksource0")
    return {
        "name": platform.system(),
        "release": platform.release(),
        "version": platform.version(),
        "parameters": _KERNEL_PARAMETERS.findall(sysfs.text(Path("/proc/cmdline")) or ""),
        "clock_source": sysfs.text(clock / "current_clocksource"),
        "clock_sources": (sysfs.text(clock / "available_clocksource") or "").split() or None,
        "perf_event_paranoid": sysfs.number(Path("/proc/sys/kernel/perf_event_paranoid")),
    }


def _os() -> dict[str, str | None]:
    release = os_release()
    return {"id": release.get("ID"), "version": release.get("VERSION_ID"), "name": release.get("PRETTY_NAME")}


def _memory() -> dict[str, Any]:
    memory = psutil.virtual_memory()
    meminfo = sysfs.text(Path("/proc/meminfo")) or ""
    pages = re.search(r"^HugePages_Total: +(\d+)", meminfo, re.MULTILINE)
    page_kib = re.search(r"^Hugepagesize: +(\d+) kB", meminfo, re.MULTILINE)
    huge = sysfs.text(Path("/sys/kernel/mm/transparent_hugepage/enabled"))
    chosen = re.search(r"\[(\w+)\]", huge or "")
    return {
        "total_bytes": memory.total,
        "available_bytes": memory.available,
        "swap_bytes": psutil.swap_memory().total,
        "huge_pages": int(pages[1]) if pages else None,
        "huge_page_bytes": int(page_kib[1]) * 1024 if page_kib else None,
        "transparent_huge_pages": chosen[1] if chosen else None,
        "dimms": dimms(),
        "channels": channels(),
    }


def _python() -> dict[str, Any]:
    packages: dict[str, str] = {}
    for folder in reversed(sys.path):  # the first folder that has a package comes last, and counts
        # by the names of their folders: to read all their headers takes a tenth of a second in each job
        for path in Path(folder).glob("*-*.*-info"):
            name, version = path.stem.split("-")[:2]
            packages[name.lower().replace("_", "-")] = version
    return {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable or None,
        "packages": dict(sorted(packages.items())),
    }


def _variables(environ: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(environ.items())
        if _VARIABLES.fullmatch(name) and not _SECRET.search(name)
    }


def _slurm(variables: Mapping[str, str]) -> dict[str, str] | None:
    """The job's own variables, None outside a job."""
    job = {name: value for name, value in variables.items() if name.startswith("SLURM_")}
    return job if "SLURM_JOB_ID" in job else None


def _checkout() -> dict[str, Any]:
    """Commit of the git checkout that this NPC runs from, and whether it was changed; None where there is
    none."""
    unknown: dict[str, Any] = {"commit": None, "dirty": None}
    folder = home()
    if not (folder / ".git").exists() or find("git") is None:
        return unknown
    git = ["git", "--no-optional-locks", "-C", str(folder)]
    commit = run([*git, "rev-parse", "HEAD"], timeout_s=VERSION_TIMEOUT_S).stdout
    if not re.fullmatch(r"[0-9a-f]{40,64}", commit.strip()):
        return unknown  # no commit yet, or git does not trust somebody else's folder
    status = [*git, "status", "--porcelain", "--untracked-files=no"]
    changes = run(status, timeout_s=VERSION_TIMEOUT_S)
    return {"commit": commit.strip(), "dirty": None if changes.problem else bool(changes.text.strip())}
