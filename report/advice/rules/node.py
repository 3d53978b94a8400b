"""What holds a node back: sockets, clocks, pages, placement, neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import PurePath
from statistics import median
from typing import Any, Final

from npc.machine.sysfs import parse_cpus
from npc.records.record import Record
from npc.records.series import Series
from npc.records.units import METRICS, format_quantity
from npc.validity.rules.placement import MPI_STARTERS
from npc.validity.traffic import of_memory
from report.advice.rule import Evidence, Hint, Judgement, rule
from roofline.result import Ceiling

#: A second socket that adds less than this was not used.
_SECOND: Final = 1.3
#: Nodes differ by this; more is worth a name.
_SLOW: Final = 0.05
#: What reaches so much of its nominal limit is held back by nothing.
_NEAR_NOMINAL: Final = 0.9
#: Drivers whose powersave changes the clock with the load (intel_pstate.rst, amd-pstate.rst, active mode);
#: that of the others holds the lowest.
_DYNAMIC_POWERSAVE: Final = ("intel_pstate", "amd-pstate-epp")
_LEAST_NODES: Final = 3
_LEAST_SERIES: Final = 3


def _memory(evidence: Evidence) -> list[Ceiling]:
    return [ceiling for ceiling in evidence.roofline.of_kind("memory") if ceiling.level == "MEM"]


def _of_several_domains(evidence: Evidence) -> list[tuple[str, Any]]:
    """(host, processors) of nodes with several sockets or NUMA nodes."""
    return [
        (host, cpu)
        for host, cpu in evidence.facts("cpu")
        if (cpu.get("sockets") or 0) > 1 or len(cpu.get("numa_nodes") or ()) > 1
    ]


@rule(
    "one_socket",
    "the memory bandwidth of one socket only",
    "McCalpin, STREAM FAQ: each socket has memory of its own, and first touch places the pages; OpenMP 5.2, "
    "OMP_PROC_BIND=spread",
)
def one_socket(evidence: Evidence) -> Judgement:
    """Whole-node bandwidth of main memory by threads of one socket, or no more than one NUMA node's."""
    machines = _of_several_domains(evidence)
    ceilings = _memory(evidence)
    if not evidence.environments or not ceilings:
        return "no environment.json, or no bandwidth of main memory"
    if not machines:
        return []
    host, cpu = machines[0]
    sockets = max(cpu.get("sockets") or 1, len(cpu.get("numa_nodes") or ()))
    best = max(ceilings, key=lambda each: each.value)
    alone = _one_domain(evidence)
    threads = best.params.get("threads", "")
    seen = ""
    if alone is not None and best.value < _SECOND * alone:
        seen = (
            f"{best.name} reached {format_quantity(best.value, 'B/s', 3)} with all of {host}, one of its "
            f"{sockets} NUMA nodes "
            f"alone {format_quantity(alone, 'B/s', 3)}"
        )  # fmt: skip
    elif (
        alone is None and threads.isdecimal() and cpu.get("cores") and int(threads) <= cpu["cores"] // sockets
    ):
        seen = (
            f"{best.name} reached {format_quantity(best.value, 'B/s', 3)} with {threads} threads, but "
            f"{host} has {cpu['cores']} "
            f"cores in {sockets} sockets"
        )  # fmt: skip
    elif alone is None and (confined := _confined(evidence, host)):
        reached = format_quantity(best.value, "B/s", 3)
        seen = f"{best.name} reached {reached} on CPUs {confined} of one NUMA node only"
    if not seen:
        return []
    return [
        Hint(
            seen=seen,
            do="threads on all sockets (cores of the platform, OMP_PLACES=cores OMP_PROC_BIND=spread), "
            "pages touched first "
            "by the thread that uses them; numactl --interleave=all for programs that cannot",
            of="what is bound by memory",
            gain=float(sockets),
            raw=best.raw,
        )
    ]  # fmt: skip


def _one_domain(evidence: Evidence) -> float | None:
    """B/s of main memory measured in a single NUMA node or socket; None if nobody did."""
    groups: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for record in evidence.records:
        place = record.params.get("workgroup") or record.params.get("domain") or ""
        if (
            record.ok
            and record.value
            and of_memory(record)
            and place[:1] in ("M", "S")
            and place[1:2].isdecimal()
        ):
            groups[record.case, place].append(record.value)
    return max(map(median, groups.values()), default=None)


def _confined(evidence: Evidence, host: str) -> str:
    """The CPUs of this process where they are a part of one NUMA node of several; else nothing."""
    limits, cpus = dict(evidence.facts("limits")).get(host), dict(evidence.facts("cpu")).get(host)
    if not limits or not cpus or not limits.get("affinity"):
        return ""
    mine = parse_cpus(limits["affinity"])
    inside = [
        node for node in cpus.get("numa_nodes") or () if node.get("cpus") and mine <= parse_cpus(node["cpus"])
    ]
    return str(limits["affinity"]) if inside else ""


@rule(
    "governor",
    "a frequency governor that saves power",
    "Linux, Documentation/admin-guide/pm/cpufreq.rst and intel_pstate.rst: powersave",
)
def governor(evidence: Evidence) -> Judgement:
    """powersave where the measured peak is not near the nominal one; bounded by that, or by the clocks."""
    clocks = [(host, found) for host, found in evidence.facts("cpu", "frequency") if found.get("governors")]
    if not clocks:
        return "the machine does not tell its governors (virtual machines do not)"
    found = [(host, clock) for host, clock in clocks if clock["governors"].get("powersave")]
    compute = max(
        (each for each in evidence.roofline.of_kind("compute") if each.share),
        key=lambda each: each.share or 0.0,
        default=None,
    )
    share = compute.share if compute else None
    if not found or (share is not None and share > _NEAR_NOMINAL):
        return []
    host, clock = found[0]
    dynamic = clock.get("driver") in _DYNAMIC_POWERSAVE
    told, gain = "", None
    if compute and share:
        gain = 1 / share
        told = f"; {compute.name} reached {share:.0%} of its nominal limit"
    elif clock.get("min_hz") and clock.get("max_hz") and not dynamic:
        gain = clock["max_hz"] / clock["min_hz"]
    of = f" ({clock['driver']}: clocks follow the load, late)" if dynamic else ""
    return [
        Hint(
            seen=f"governor powersave on {clock['governors']['powersave']} CPUs of {host}{of}{told}",
            do="cpupower frequency-set -g performance (root), or Slurm's --cpu-freq=performance; then "
            "measure again",
            of="what waits for messages, and what follows a wait",
            gain=gain,
            raw=compute.raw if compute else (),
        )
    ]


@rule(
    "huge_pages",
    "memory in pages of 4 KiB",
    "Linux, Documentation/admin-guide/mm/transhuge.rst: fewer translation misses with pages of 2 MiB",
)
def huge_pages(evidence: Evidence) -> Judgement:
    """Transparent huge pages never, and main memory measured below its nominal bandwidth."""
    told = list(evidence.facts("memory", "transparent_huge_pages"))
    ceilings = _memory(evidence)
    if not told or not ceilings:
        return "no bandwidth of main memory, or the machine does not tell its setting"
    off = [host for host, setting in told if setting == "never"]
    if not off:
        return []
    best = max(ceilings, key=lambda each: each.value)
    if best.share is None:
        return "no nominal bandwidth of main memory (memory_bandwidth in platform.toml)"
    if best.share > _NEAR_NOMINAL:
        return []
    return [
        Hint(
            seen=f"transparent huge pages are off on {off[0]}; {best.name} reached "
            f"{format_quantity(best.value, 'B/s', 3)}, {best.share:.0%} of its nominal limit",
            do="echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (root), or huge pages in the "
            "program",
            of="what goes through much memory",
            gain=1 / best.share,
            raw=best.raw,
        )
    ]


#: Words and settings that let ranks and threads wander.
_UNBOUND: Final = (
    ("--bind-to", "none"),
    ("-bind-to", "none"),
    ("--cpu-bind=none", ""),
    ("--cpu_bind=none", ""),
)
_UNBINDING: Final = {
    "OMPI_MCA_hwloc_base_binding_policy": ("none",),
    "PRTE_MCA_hwloc_default_binding_policy": ("none",),
    "I_MPI_PIN": ("0", "no", "off", "disable"),
    "OMP_PROC_BIND": ("false",),
    "SLURM_CPU_BIND": ("none",),
}
#: One of these binds the threads of OpenMP; without any they wander. LIKWID binds by itself.
_THREADS_BOUND_BY: Final = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


@rule(
    "pinning",
    "ranks or threads that are not bound",
    "Open MPI mpirun(1), --bind-to; OpenMP 5.2, OMP_PROC_BIND; Hager, Wellein, Introduction to HPC for "
    "Scientists "
    "and Engineers, appendix A",
)  # fmt: skip
def pinning(evidence: Evidence) -> Judgement:
    """Launches that were not bound on a machine of several NUMA nodes, with the spread that they have."""
    machines = [host for host, _ in _of_several_domains(evidence)]
    if not evidence.environments:
        return "no environment.json"
    if not machines:
        return []
    unbound = {record.raw: why for record in evidence.records if (why := _unbound(record, evidence))}
    if not unbound:
        return []
    spread = _widest(evidence, unbound)
    if spread is None:
        return "too few launches to show what wandering costs"
    record, gain = spread
    return [
        Hint(
            seen=f"{unbound[record.raw]} on {machines[0]}; the best launch of {record.case} is {gain:.3g} "
            "times as good as the median",
            do="bind: mpirun --bind-to core --map-by …, OMP_PROC_BIND=spread OMP_PLACES=cores, srun "
            "--cpu-bind=cores",
            of=f"{record.benchmark} {record.case}",
            gain=gain,
            raw=(record.raw,),
        )
    ]


def _unbound(record: Record, evidence: Evidence) -> str:
    """Why the record's ranks or threads could wander: what its command line or its variables say; or nothing.

    What stands before the program on the command line (``env NAME=VALUE …``) counts before the job's.
    """
    launch = evidence.launches.get(record.raw)
    argv = launch.argv if launch else ()
    for words in _UNBOUND:
        if words[0] in argv and (not words[1] or words[1] in argv):
            return " ".join(filter(None, words))
    known = evidence.circumstances.environment(record, "variables")
    if known is None:
        return ""
    variables = {**known, **dict(word.split("=", 1) for word in argv if "=" in word)}
    for name, values in _UNBINDING.items():
        if variables.get(name, "").lower() in values:
            return f"{name}={variables[name]}"
    threads = record.params.get("threads", "")
    by_mpi = any(PurePath(word).name in MPI_STARTERS for word in argv)
    alone = argv and not by_mpi and record.benchmark != "likwid"
    if alone and threads.isdecimal() and int(threads) > 1 and not variables.keys() & set(_THREADS_BOUND_BY):
        return f"OMP_PROC_BIND is not set for {threads} threads"
    return ""


def _widest(evidence: Evidence, raws: Collection[str]) -> tuple[Record, float] | None:
    """A record of the series whose best launch is furthest from its median, and how far; of `raws` only."""
    series: defaultdict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in evidence.records:
        if record.ok and record.value and "statistic" not in record.params and record.raw in raws:
            series[Series.of(record)].append(record)
    found = []
    for records in series.values():
        better = METRICS[records[0].metric].better
        values = [record.value or 0.0 for record in records]
        if len(values) >= 4 and better != "neither":
            ratio = max(values) / median(values) if better == "higher" else median(values) / min(values)
            found.append((ratio, records[0]))
    return max(((record, ratio) for ratio, record in found), key=lambda each: each[1], default=None)


@rule(
    "taking_turns",
    "more ranks or threads than CPUs, or others' load",
    "docs/validity.md, rules oversubscribed, one_cpu, loaded; sched(7)",
)
def taking_turns(evidence: Evidence) -> Judgement:
    """What the rules against lies say of processes that had to share CPUs."""
    if not evidence.environments:
        return "no environment.json"
    by_rule: defaultdict[str, list[int]] = defaultdict(list)
    reasons: dict[str, str] = {}
    for finding in evidence.lies:
        if finding.rule.name in ("oversubscribed", "one_cpu", "loaded"):
            by_rule[finding.rule.name].append(finding.place)
            reasons.setdefault(finding.rule.name, finding.reason)
    todo = {
        "oversubscribed": "at most one rank or thread a CPU, and no --oversubscribe where it is not needed",
        "one_cpu": "two CPUs: npb --server-cpus and --client-cpus, a job with more of them",
        "loaded": "an exclusive job (sbatch --exclusive), or measure when the others have ended",
    }
    return [
        Hint(
            seen=f"{len(places)} records: {reasons[name]}",
            do=todo[name],
            of="these numbers, which nothing uses as they are",
            raw=tuple(dict.fromkeys(evidence.records[place].raw for place in places))[:6],
        )
        for name, places in by_rule.items()
    ]


@rule(
    "slow_node",
    "a node or link slower than the others",
    "docs/blame.md; single nodes: the median of a node's ratios to the median of the nodes",
)
def slow_node(evidence: Evidence) -> Judgement:
    """Suspects of measured pairs, and nodes whose own benchmarks are 5 % behind."""
    found = [
        Hint(
            seen=f"{suspect['kind']} {suspect['name']} in {suspect['series']}: {suspect['evidence']}",
            do=suspect.get("closer", "measure it alone"),
            of="what runs on it, and every job that waits for it",
            gain=_gain(suspect.get("slowdown")),
            raw=(),
        )
        for suspect in evidence.suspects
    ]
    nodes, series = _ratios(evidence)
    if not nodes and not evidence.suspects:
        return f"fewer than {_LEAST_NODES} nodes measured alike, and no pairs (npb --pairs)"
    for host, ratio in sorted(nodes.items(), key=lambda each: each[1]):
        if ratio < 1 - _SLOW:
            found.append(
                Hint(
                    seen=f"{host} reaches {ratio:.1%} of the other nodes' median, as the median of "
                    f"{series[host]} series",
                    do=f"on {host}: dmesg, clocks and governor, memory configuration, temperature; drain "
                    "it meanwhile",
                    of="every job that waits for it",
                    gain=1 / ratio,
                )
            )  # fmt: skip
    return found


def _gain(slowdown: float | None) -> float | None:
    return 1 / (1 - slowdown) if slowdown is not None and 0 < slowdown < 1 else None


def _ratios(evidence: Evidence) -> tuple[dict[str, float], dict[str, int]]:
    """How each node compares: the median over its series of the ratio to the median node, better above 1.

    Only series of one node each that at least `_LEAST_NODES` nodes have.
    """
    values: defaultdict[tuple[object, ...], defaultdict[str, list[float]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for record in evidence.records:
        hosts = set(record.hosts)
        usable = record.ok and record.value and "statistic" not in record.params
        if usable and len(hosts) == 1 and METRICS[record.metric].better != "neither":
            values[Series.of(record)][hosts.pop()].append(record.value or 0.0)
    ratios: defaultdict[str, list[float]] = defaultdict(list)
    for key, hosts_of in values.items():
        if len(hosts_of) < _LEAST_NODES:
            continue
        medians = {host: median(some) for host, some in hosts_of.items()}
        middle = median(medians.values())
        higher = METRICS[str(key[3])].better == "higher"
        for host, value in medians.items():
            ratios[host].append(value / middle if higher else middle / value)
    enough = {host: found for host, found in ratios.items() if len(found) >= _LEAST_SERIES}
    return {host: median(found) for host, found in enough.items()}, {h: len(f) for h, f in enough.items()}
