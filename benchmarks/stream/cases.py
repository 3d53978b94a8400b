"""The STREAM runs of this node: ``python cases.py > cases.jsonl`` for ``npc records sample --cases``.

One case for each number of threads, way of spreading them, domain and kind of stores. A domain is the whole
node (N) or a NUMA node by itself (M0, M1, …, as LIKWID calls them), whose threads are pinned to its cores, so
that the pages they touch first lie in its memory. A place is a core with all its hardware threads. The OpenMP
library prints what became of that for each thread, as the parser reads it.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from functools import partial

from npc.jobs.cases import numbers_of, words_of, write
from npc.machine.sysfs import cores_of, parse_cpus
from npc.machine.topology import processors
from npc.parsers.stream import AFFINITY_FORMAT

PROGRAMS = {"ordinary": "./stream", "non-temporal": "./stream_nontemporal"}
BINDINGS = ("spread", "close")


def domains(wanted: str, allowed: frozenset[int]) -> dict[str, list[list[int]]]:
    """Name → places: the node, its NUMA nodes that this process may use, or both."""
    groups_of_cpus = {"N": cores_of(allowed)} if wanted in ("node", "all") else {}
    if wanted in ("numa", "all"):
        for node in processors()["numa_nodes"] or []:
            cpus = parse_cpus(node["cpus"]) & allowed if node["cpus"] else frozenset()
            if cpus:
                groups_of_cpus[f"M{node['node']}"] = cores_of(cpus)
    return groups_of_cpus


def cases(options: argparse.Namespace) -> Iterator[dict[str, object]]:
    """All of them. Raises ValueError for a setting that cannot be."""
    bindings = words_of("stream_bind", options.bind, BINDINGS)
    stores = words_of("stream_stores", options.stores, PROGRAMS)
    if options.domains not in ("node", "numa", "all"):
        raise ValueError(f"stream_domains {options.domains}: node, numa or all")
    numbers = numbers_of("stream_threads", options.threads) if options.threads else []
    for domain, cores in domains(options.domains, frozenset(os.sched_getaffinity(0))).items():
        most = sum(map(len, cores))
        whole = options.cores if domain == "N" and options.cores else most
        for threads in sorted({min(number, most) for number in numbers} or {whole}):
            for bind in bindings:
                for kind in stores:
                    yield case_of(domain, cores, threads, bind, kind)


def case_of(domain: str, cores: list[list[int]], threads: int, bind: str, kind: str) -> dict[str, object]:
    """One case. More threads than cores get a place for each hardware thread."""
    units = cores if threads <= len(cores) else [[cpu] for core in cores for cpu in core]
    listed = ",".join("{" + ",".join(map(str, unit)) + "}" for unit in units)
    displayed = ["OMP_DISPLAY_AFFINITY=true", f"'OMP_AFFINITY_FORMAT={AFFINITY_FORMAT}'"]
    words = [f"OMP_NUM_THREADS={threads}", f"OMP_PROC_BIND={bind}", f"OMP_PLACES={listed}"]
    return {
        "name": f"{domain} {threads} {bind} {kind}",
        "values": {"case": " ".join([*words, *displayed, PROGRAMS[kind]])},
        "params": {"domain": domain, "bind": bind},
    }


def main() -> str | None:
    """Write the cases to stdout; returns what is wrong with the settings."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cores", type=int, help="threads of the whole node, where --threads says nothing")
    parser.add_argument("--threads", default="", help="numbers with commas between; empty: a domain's all")
    parser.add_argument("--bind", default="spread", help=f"of {', '.join(BINDINGS)}, commas between")
    parser.add_argument("--domains", default="node", help="node, numa or all")
    parser.add_argument("--stores", default="ordinary", help=f"of {', '.join(PROGRAMS)}, commas between")
    return write(partial(cases, parser.parse_args()))


if __name__ == "__main__":
    sys.exit(main())
