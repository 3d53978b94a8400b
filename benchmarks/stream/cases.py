"""The STREAM runs of this node: ``python cases.py > cases.jsonl`` for ``npc sample --cases``.

One case for each number of threads, way of spreading them, domain and kind of stores. A domain is the whole
node (N) or a NUMA node by itself (M0, M1, …, as LIKWID calls them), whose threads are pinned to its cores, so
that the pages they touch first lie in its memory. A place is a core with all its hardware threads. The OpenMP
library prints what became of that for each thread, as the parser reads it.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path

from npc.machine.sysfs import parse_cpus
from npc.machine.topology import processors
from parsers.stream import AFFINITY_FORMAT

CPUS = Path("/sys/devices/system/cpu")
PROGRAMS = {"ordinary": "./stream", "non-temporal": "./stream_nontemporal"}
BINDINGS = ("spread", "close")


def places(cpus: set[int]) -> list[list[int]]:
    """The cores that these CPUs are on: of each the CPUs among them, in order."""
    cores: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        siblings = CPUS / f"cpu{cpu}/topology/thread_siblings_list"
        core = siblings.read_text() if siblings.exists() else str(cpu)
        cores.setdefault(core, []).append(cpu)
    return list(cores.values())


def domains(wanted: str, allowed: set[int]) -> dict[str, list[list[int]]]:
    """Name → places: the node, its NUMA nodes that this process may use, or both."""
    found = {"N": places(allowed)} if wanted in ("node", "all") else {}
    if wanted in ("numa", "all"):
        for node in processors()["numa_nodes"] or []:
            cpus = parse_cpus(node["cpus"]) & allowed if node["cpus"] else set()
            if cpus:
                found[f"M{node['node']}"] = places(cpus)
    return found


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, help="threads of the whole node, where --threads says nothing")
    parser.add_argument("--threads", default="", help="numbers with commas between; empty: a domain's all")
    parser.add_argument("--bind", default="spread", help=f"of {', '.join(BINDINGS)}, commas between")
    parser.add_argument("--domains", default="node", help="node, numa or all")
    parser.add_argument("--stores", default="ordinary", help=f"of {', '.join(PROGRAMS)}, commas between")
    options = parser.parse_args()
    bindings, stores = options.bind.split(","), options.stores.split(",")
    if not set(bindings) <= set(BINDINGS):
        return f"cases.py: stream_bind {options.bind}: of {', '.join(BINDINGS)}"
    if not set(stores) <= set(PROGRAMS):
        return f"cases.py: stream_stores {options.stores}: of {', '.join(PROGRAMS)}"
    if options.domains not in ("node", "numa", "all"):
        return f"cases.py: stream_domains {options.domains}: node, numa or all"
    try:
        asked = [int(word) for word in options.threads.split(",") if word]
        if any(number < 1 for number in asked):
            raise ValueError
    except ValueError:
        return f"cases.py: stream_threads {options.threads}: whole numbers of at least 1, commas between"
    for domain, cores in domains(options.domains, os.sched_getaffinity(0)).items():
        most = sum(map(len, cores))
        whole = options.cores if domain == "N" and options.cores else most
        for threads in sorted({min(number, most) for number in asked} or {whole}):
            for bind in bindings:
                for kind in stores:
                    emit(domain, cores, threads, bind, kind)
    return None


def emit(domain: str, cores: list[list[int]], threads: int, bind: str, kind: str) -> None:
    """Print one case. More threads than cores get a place for each hardware thread."""
    units = cores if threads <= len(cores) else [[cpu] for core in cores for cpu in core]
    listed = ",".join("{" + ",".join(map(str, unit)) + "}" for unit in units)
    displayed = ["OMP_DISPLAY_AFFINITY=true", f"'OMP_AFFINITY_FORMAT={AFFINITY_FORMAT}'"]
    words = [f"OMP_NUM_THREADS={threads}", f"OMP_PROC_BIND={bind}", f"OMP_PLACES={listed}"]
    params = {"domain": domain, "bind": bind}
    name = f"{domain} {threads} {bind} {kind}"
    print(
        json.dumps(
            {
                "name": name,
                "values": {"case": " ".join([*words, *displayed, PROGRAMS[kind]])},
                "params": params,
            }
        )
    )


if __name__ == "__main__":
    sys.exit(main())
