"""The likwid-bench runs that suit this node: ``python cases.py > cases.jsonl`` for ``npc records sample
--cases``.

Domains: the node (N), each socket (S0, …) or each NUMA node (M0, …) by itself, as likwid-bench names them.
Kernels: of each family the widest that this CPU executes (likwid-bench lists kernels that it does not
have, and dies of an illegal instruction). Working sets: half of each cache level over all its instances,
as likwid-bench divides the set among its threads, and four times the last level for memory. Iterations
are set from the volume to move, because likwid-bench's own calibration costs three times the measurement.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from npc.jobs.cases import numbers_of
from npc.machine.sysfs import parse_cpus
from npc.machine.topology import processors

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
#: The same with stores past the caches, which make sense in memory only.
NON_TEMPORAL_KERNELS = ("copy_mem", "stream_mem", "triad_mem")
#: Bytes that each thread moves: 0.1 to 0.3 s at what a core does in each level.
VOLUME = {"L1": 30e9, "L2": 12e9, "L3": 6e9, "MEM": 4e9}
#: Elements that each thread works on, at 15 FLOP each: about 0.3 s of an AVX2 core.
PEAK_ELEMENTS = 1e9
PEAK_SET = 32 * 1024  # bytes a thread: in L1, so that no load limits the arithmetic


def widest(family: str, available: set[str], flags: set[str]) -> str:
    """The widest kernel of `family` that likwid-bench has and the CPU executes; the plain one if none."""
    for suffix, needs in WIDTHS:
        if f"{family}_{suffix}" in available and needs <= flags:
            return f"{family}_{suffix}"
    return family


def variants(family: str, available: set[str], flags: set[str], every: bool) -> list[str]:
    """The widest kernel of `family`, or every one that likwid-bench has and the CPU executes."""
    if not every:
        return [widest(family, available, flags)]
    wide = [f"{family}_{suffix}" for suffix, needs in WIDTHS if needs <= flags]
    return [kernel for kernel in [*wide, family] if kernel in available]


def params_of(kernel: str, family: str, every: bool) -> dict[str, str]:
    """The variant as a param where every one is measured: it tells their series apart."""
    return {"variant": kernel.removeprefix(family).strip("_") or "scalar"} if every else {}


def domains_of(listed: str) -> dict[str, list[int]]:
    """Name → CPUs of what ``likwid-bench -p`` prints."""
    return {
        name: [int(cpu) for cpu in cpus.split()] for name, cpus in re.findall(r"Tag (\w+):([ \d]+)", listed)
    }


def chosen_domains(wanted: str, domains: dict[str, list[int]]) -> dict[str, list[int]]:
    """Those of the domains whose name or kind (S: every socket, M: every NUMA node) is asked for.

    Raises ValueError for one that is not there.
    """
    chosen: dict[str, list[int]] = {}
    for name in wanted.split(","):
        same = {
            domain: cpus
            for domain, cpus in domains.items()
            if name == domain or name == domain.rstrip("0123456789")
        }
        if not same:
            raise ValueError(f"likwid_domains {name}: this node has {', '.join(domains)}")
        chosen |= same
    return chosen


def cache_bytes(cpus: set[int], caches: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Bytes of each cache level over the instances that `cpus` use: {"L1": …, "L2": …, "L3": …}.
    caches: as `npc.machine.topology.processors` has them."""
    levels: dict[str, int] = {}
    for cache in caches:
        if cache["type"] != "instruction" and cache["size_bytes"]:
            used = sum(not cpus.isdisjoint(parse_cpus(shared)) for shared in cache["shared_cpus"])
            level = f"L{cache['level']}"
            levels[level] = levels.get(level, 0) + used * cache["size_bytes"]
    return {level: size for level, size in sorted(levels.items()) if size}


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


def ask_likwid(option: str) -> str:
    """What ``likwid-bench OPTION`` prints. Raises OSError, subprocess.TimeoutExpired."""
    return subprocess.run(["likwid-bench", option], capture_output=True, text=True, timeout=60).stdout


def keeps_the_clock(prefix: list[str]) -> bool:
    """Whether likwid-bench learns the same rate of its clock with `prefix` (short_start) before it.

    Its times follow from that rate, and another version may learn it another way. A full machine alone may
    move it by some percent. Raises OSError, subprocess.TimeoutExpired.
    """
    command = ["likwid-bench", "-t", "load", "-W", "N:16kB:1", "-i", "1000"]
    rates = []
    for words in (command, [*prefix, *command]):
        printed = subprocess.run(words, capture_output=True, text=True, timeout=60).stdout
        rates += map(int, re.findall(r"^CPU Clock:\s+(\d+)", printed, re.MULTILINE))
    return len(rates) == 2 and abs(rates[1] - rates[0]) < 0.1 * rates[0]


def main() -> int:
    """Write the cases to stdout; exit code 1 with the reason if likwid-bench is missing or cannot do it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--side-samples", default="0", help="launches of copy, stream and triad; auto: as of the ceilings"
    )
    parser.add_argument("--threads", type=int, help="largest number of threads (default: one for each CPU)")
    parser.add_argument("--counts", default="", help="numbers of threads, commas between (default: all)")
    parser.add_argument("--domains", default="N", help="N, S, M or single ones, commas between")
    parser.add_argument("--variants", choices=("widest", "all"), default="widest", help="SIMD widths")
    parser.add_argument("--non-temporal", choices=("no", "yes"), default="no", help="stores past the caches")
    parser.add_argument("--groups", default="", help="likwid-perfctr's groups, commas between")
    parser.add_argument("--prefix", type=shlex.split, default=[], help="words before likwid-bench")
    options = parser.parse_args()
    try:
        listed = ask_likwid("-a")
        allowed = sorted(os.sched_getaffinity(0))[: options.threads]
        whole = {"N": allowed}
        domains = chosen_domains(
            options.domains, domains_of(ask_likwid("-p")) if options.domains != "N" else whole
        )
        counts = numbers_of("likwid_threads", options.counts) if options.counts else []
        if options.prefix and not keeps_the_clock(options.prefix):
            reason = "likwid-bench learns another clock, or none, with short_start"
            print(f"cases.py: {reason}: it runs without", file=sys.stderr)
            options.prefix = []
    except FileNotFoundError:
        print(f"unavailable: likwid-bench: not found in PATH on {os.uname().nodename}", file=sys.stderr)
        return 1
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        print(f"cases.py: {error}", file=sys.stderr)
        return 1
    available = {line.split()[0] for line in listed.splitlines() if " - " in line}
    node = processors()
    flags, caches = set(node["flags"] or ()), node["caches"] or ()
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for domain, cpus in domains.items():
        usable = [cpu for cpu in cpus if cpu in allowed]
        for threads in sorted({min(count, len(usable)) for count in counts} or {len(usable)}):
            emit_kernels(options, available, flags, caches, memory, domain, set(usable[:threads]))
    return 0


def emit_kernels(
    options: argparse.Namespace,
    available: set[str],
    flags: set[str],
    caches: Sequence[Mapping[str, Any]],
    memory: int,
    domain: str,
    cpus: set[int],
) -> None:
    """Print the cases of one domain and number of threads: peaks, bandwidths, counters."""
    threads, every = len(cpus), options.variants == "all"
    levels = working_sets(cache_bytes(cpus, caches), memory)
    peak_iterations = {
        "double": int(PEAK_ELEMENTS * 8 / PEAK_SET),
        "single": int(PEAK_ELEMENTS * 4 / PEAK_SET),
    }
    for family, precision in (("peakflops", "double"), ("peakflops_sp", "single")):
        for kernel in variants(family, available, flags, every):
            words = (kernel, domain, PEAK_SET * threads, threads, peak_iterations[precision])
            emit(options.prefix, *words, "auto", {"precision": precision, **params_of(kernel, family, every)})
    for level, size in levels.items():
        iterations = max(10, int(VOLUME.get(level, VOLUME["L3"]) * threads / size))
        families = [*BANDWIDTH_KERNELS]
        if options.non_temporal == "yes" and level == "MEM":
            families += NON_TEMPORAL_KERNELS
        for family in families:
            runs = "auto" if family == "load" else options.side_samples
            for kernel in variants(family, available, flags, every):
                if kernel in available:
                    words = (kernel, domain, size, threads, iterations)
                    of = {"level": level, "precision": "double", **params_of(kernel, family, every)}
                    emit(options.prefix, *words, runs, of)
    for group in filter(None, options.groups.split(",")):
        kernel = widest("triad", available, flags)
        words = (kernel, domain, levels["MEM"], threads, 10)
        emit(
            [], *words, "1", {"counters": group}, group
        )  # no level: what was counted beside it is no ceiling


def emit(
    prefix: list[str],
    kernel: str,
    domain: str,
    size: int,
    threads: int,
    iterations: int,
    runs: str,
    params: dict[str, str],
    group: str = "",
) -> None:
    """Print one case. The working set is initialised by the threads that will use it (-W).

    runs: its launches, ``auto``: as many as npc records sample is told.
    """
    command = f"-t {kernel} -W {domain}:{likwid_size(size)}:{threads} -i {iterations}"
    counting = [
        sys.executable,
        str(Path(__file__).with_name("perfctr.py")),
        group,
        f"{domain}:0-{threads - 1}",
    ]
    program = shlex.join([*(counting if group else prefix), "likwid-bench"])
    of = params.get("level", params.get("precision", ""))
    name = " ".join(filter(None, (kernel, of, domain, str(threads), group)))
    if domain != "N":
        params = {**params, "domain": domain}
    case = {"name": name, "values": {"program": program, "case": command}, "params": params}
    print(json.dumps(case if runs == "auto" else {**case, "runs": int(runs)}))


if __name__ == "__main__":
    sys.exit(main())
