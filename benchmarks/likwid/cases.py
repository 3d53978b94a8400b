"""The likwid-bench runs that suit this node: ``python cases.py > cases.jsonl`` for ``npc sample --cases``.

Kernels: of each family the widest that this CPU executes (likwid-bench lists kernels that it does not
have, and dies of an illegal instruction). Working sets: half of each cache level over all its instances,
as likwid-bench divides the set among its threads, and four times the last level for memory. Iterations
are set from the volume to move, because likwid-bench's own calibration costs three times the measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

#: Widest first; what a CPU must list in /proc/cpuinfo to execute it.
WIDTHS = (
    ("avx512_fma", {"avx512f"}),
    ("avx512", {"avx512f"}),
    ("avx_fma", {"avx", "fma"}),
    ("avx", {"avx"}),
    ("sse", {"sse2"}),
)
#: Arrays of doubles that a kernel streams through.
BANDWIDTH_KERNELS = {"load": 1, "copy": 2, "stream": 3, "triad": 4}
#: Bytes that each thread moves: 0.1 to 0.5 s at what a core does in each level.
VOLUME = {"L1": 30e9, "L2": 12e9, "L3": 6e9, "MEM": 4e9}
#: Elements that each thread works on, at 15 FLOP each: about 0.5 s of an AVX2 core.
PEAK_ELEMENTS = 1e9
PEAK_SET = 32 * 1024  # bytes a thread: in L1, so that no load limits the arithmetic
CACHES = Path("/sys/devices/system/cpu")


def widest(family: str, available: set[str], flags: set[str]) -> str:
    """The widest kernel of `family` that likwid-bench has and the CPU executes; the plain one if none."""
    for suffix, needs in WIDTHS:
        if f"{family}_{suffix}" in available and needs <= flags:
            return f"{family}_{suffix}"
    return family


def cache_bytes(cpus: set[int]) -> dict[str, int]:
    """Bytes of each cache level over the instances that `cpus` use: {"L1": …, "L2": …, "L3": …}."""
    instances: dict[tuple[str, str], int] = {}
    for cpu in cpus:
        for index in CACHES.glob(f"cpu{cpu}/cache/index*"):
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            size = int(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1)
            level = "L" + (index / "level").read_text().strip()
            instances[level, (index / "shared_cpu_list").read_text().strip()] = size
    levels: dict[str, int] = {}
    for (level, _), size in instances.items():
        levels[level] = levels.get(level, 0) + size
    return dict(sorted(levels.items()))


def working_sets(caches: dict[str, int], memory: int) -> dict[str, int]:
    """Bytes of the working set that lies in each level.

    Half the level; between the level and the one below where half would come close to that one (less than
    twice its size). A level no larger than one below it is left out. Memory is four times the largest
    level, and never more than a quarter of `memory`.
    """
    sets: dict[str, int] = {}
    below = 0
    for level, size in caches.items():
        if size // 2 >= 2 * below:
            sets[level] = size // 2
        elif size > below:
            sets[level] = (size + below) // 2
        below = max(below, size)
    sets["MEM"] = min(max(4 * below, 400_000_000), memory // 4)
    return sets


def likwid_size(size_bytes: int) -> str:
    """A size as likwid-bench reads it: whole kB of 1000 bytes."""
    return f"{max(1, size_bytes // 1000)}kB"


def main() -> int:
    """Write the cases to stdout; exit code 1 with the reason if likwid-bench is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=6, help="launches of each ceiling")
    parser.add_argument("--side-samples", type=int, default=3, help="launches of copy, stream and triad")
    parser.add_argument("--threads", type=int, help="at most so many (default: a thread for each CPU)")
    options = parser.parse_args()
    try:
        listed = subprocess.run(["likwid-bench", "-a"], capture_output=True, text=True, timeout=60).stdout
    except FileNotFoundError:
        print(f"unavailable: likwid-bench: not found in PATH on {os.uname().nodename}", file=sys.stderr)
        return 1
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"cases.py: likwid-bench -a: {error}", file=sys.stderr)
        return 1
    available = {line.split()[0] for line in listed.splitlines() if " - " in line}
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    flags = set(next((line for line in cpuinfo if line.startswith("flags")), "").split())
    cpus = set(sorted(os.sched_getaffinity(0))[: options.threads])
    threads = len(cpus)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")

    for family, precision in (("peakflops", "double"), ("peakflops_sp", "single")):
        kernel = widest(family, available, flags)
        element = 8 if precision == "double" else 4
        iterations = int(PEAK_ELEMENTS * element / PEAK_SET)
        emit(kernel, PEAK_SET * threads, threads, iterations, options.samples, {"precision": precision})
    for level, size in working_sets(cache_bytes(cpus), memory).items():
        for family in BANDWIDTH_KERNELS:
            kernel = widest(family, available, flags)
            iterations = max(10, int(VOLUME.get(level, VOLUME["L3"]) * threads / size))
            runs = options.samples if family == "load" else options.side_samples
            emit(kernel, size, threads, iterations, runs, {"level": level, "precision": "double"})
    return 0


def emit(kernel: str, size: int, threads: int, iterations: int, runs: int, params: dict[str, str]) -> None:
    """Print one case. The workgroup is the node (N), initialised by the threads that will use it (-W)."""
    command = f"-t {kernel} -W N:{likwid_size(size)}:{threads} -i {iterations}"
    name = f"{kernel} {params.get('level', params['precision'])}"
    print(json.dumps({"name": name, "values": {"case": command}, "runs": runs, "params": params}))


if __name__ == "__main__":
    sys.exit(main())
