"""What holds a node back: sockets, clocks, pages, placement, neighbours."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection
from pathlib import PurePath
from statistics import median
from typing import Any, Final

from npc.launcher import MPI_STARTERS
from npc.machine.sysfs import parse_cpus
from npc.records.record import Record
from npc.records.series import Series
from npc.records.units import METRICS, format_quantity, plural
from npc.report.advice.rule import Judgement, hint, rule
from npc.report.nodes import Nodes
from npc.report.runs import Run
from npc.roofline.result import Ceiling
from npc.validity import Violation
from npc.validity.traffic import of_memory

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


def _memory(run: Run) -> list[Ceiling]:
    return [ceiling for ceiling in run.roofline.of_kind("memory") if ceiling.level == "MEM"]


def _of_several_domains(run: Run) -> list[tuple[str, Any]]:
    """(host, processors) of nodes with several sockets or NUMA nodes."""
    return [
        (host, cpu)
        for host, cpu in run.facts("cpu")
        if (cpu.get("sockets") or 0) > 1 or len(cpu.get("numa_nodes") or ()) > 1
    ]


@rule("one_socket")
def one_socket(run: Run) -> Judgement:
    """Whole-node bandwidth of main memory by threads of one socket, or no more than one NUMA node's."""
    machines = _of_several_domains(run)
    ceilings = _memory(run)
    if not run.environments or not ceilings:
        return "no environment.json, or no bandwidth of main memory"
    if not machines:
        return []
    host, cpu = machines[0]
    sockets = max(cpu.get("sockets") or 1, len(cpu.get("numa_nodes") or ()))
    best = max(ceilings, key=lambda ceiling: ceiling.value)
    alone = _one_domain(run)
    threads = best.params.get("threads", "")
    reached = f"{best.name} reached {format_quantity(best.value, 'B/s', 3)}"
    if alone is not None:
        if best.value >= _SECOND * alone:
            return []
        rate = format_quantity(alone, "B/s", 3)
        evidence = f"{reached} with all of {host}, one of its {sockets} NUMA nodes alone {rate}"
    elif threads.isdecimal() and cpu.get("cores") and int(threads) <= cpu["cores"] // sockets:
        evidence = f"{reached} with {plural(int(threads), 'thread')}, but {host} has {cpu['cores']} cores in "
        evidence += f"{sockets} sockets"
    elif confined := _confined(run, host):
        evidence = f"{reached} on CPUs {confined} of one NUMA node only"
    else:
        return []
    untried = ""
    if _confined(run, host):
        untried = "who started it allowed it these CPUs only: a job, or taskset, with those of all sockets"
    elif best.benchmark == "likwid":
        untried = "likwid-bench places its own threads: -w N:…"
    cores = str(cpu.get("cores") or "")
    return [hint("one_socket", evidence, float(sockets), best.raw, untried=untried, cores=cores)]


def _one_domain(run: Run) -> float | None:
    """B/s of main memory measured in a single NUMA node or socket; None where that was not done."""
    groups: defaultdict[tuple[str, str], list[float]] = defaultdict(list)
    for record in run.records:
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


def _confined(run: Run, host: str) -> str:
    """The CPUs of this process where they are a part of one NUMA node of several; else nothing."""
    limits, cpus = dict(run.facts("limits")).get(host), dict(run.facts("cpu")).get(host)
    if not limits or not cpus or not limits.get("affinity"):
        return ""
    mine = parse_cpus(limits["affinity"])
    inside = [
        node for node in cpus.get("numa_nodes") or () if node.get("cpus") and mine <= parse_cpus(node["cpus"])
    ]
    return str(limits["affinity"]) if inside else ""


@rule("governor")
def governor(run: Run) -> Judgement:
    """powersave where the measured peak is not near the nominal one; bounded by that, or by the clocks."""
    clocks = [(host, clock) for host, clock in run.facts("cpu", "frequency") if clock.get("governors")]
    if not clocks:
        return "the machine does not tell its governors (virtual machines do not)"
    powersaving = [(host, clock) for host, clock in clocks if clock["governors"].get("powersave")]
    compute = max(
        (ceiling for ceiling in run.roofline.of_kind("compute") if ceiling.share),
        key=lambda ceiling: ceiling.share or 0.0,
        default=None,
    )
    share = compute.share if compute else None
    if not powersaving or (share is not None and share > _NEAR_NOMINAL):
        return []
    host, clock = powersaving[0]
    dynamic = clock.get("driver") in _DYNAMIC_POWERSAVE
    of_limit, gain = "", None
    if compute and share:
        gain = 1 / share
        of_limit = f"; {compute.name} reached {share:.0%} of its nominal limit"
    elif clock.get("min_hz") and clock.get("max_hz") and not dynamic:
        gain = clock["max_hz"] / clock["min_hz"]
    of = f" ({clock['driver']}: clocks follow the load, late)" if dynamic else ""
    evidence = f"governor powersave on {clock['governors']['powersave']} CPUs of {host}{of}{of_limit}"
    return [hint("governor", evidence, gain, compute.raw if compute else ())]


@rule("huge_pages")
def huge_pages(run: Run) -> Judgement:
    """Transparent huge pages never, and main memory measured below its nominal bandwidth."""
    settings = list(run.facts("memory", "transparent_huge_pages"))
    ceilings = _memory(run)
    if not settings or not ceilings:
        return "no bandwidth of main memory, or the machine does not tell its setting"
    off = [host for host, setting in settings if setting == "never"]
    if not off:
        return []
    best = max(ceilings, key=lambda ceiling: ceiling.value)
    if best.share is None:
        return "no nominal bandwidth of main memory (memory_bandwidth in platform.toml)"
    if best.share > _NEAR_NOMINAL:
        return []
    reached = f"{best.name} reached {format_quantity(best.value, 'B/s', 3)}"
    evidence = f"transparent huge pages are off on {off[0]}; {reached}, {best.share:.0%} of its nominal limit"
    reserved = dict(run.facts("memory", "huge_pages")).get(off[0])
    untried = "root has reserved no huge pages (sysctl vm.nr_hugepages), so malloc gets none" * (
        reserved == 0
    )
    return [hint("huge_pages", evidence, 1 / best.share, best.raw, untried=untried)]


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
    "HYDRA_BINDING": ("none",),
    "OMP_PROC_BIND": ("false",),
    "SLURM_CPU_BIND": ("none",),
}
#: One of these binds the threads of OpenMP; without any they wander. LIKWID binds by itself.
_THREADS_BOUND_BY: Final = ("OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY")


@rule("pinning")
def pinning(run: Run) -> Judgement:
    """Launches that were not bound on a machine of several NUMA nodes, with the spread that they have."""
    machines = [host for host, _ in _of_several_domains(run)]
    if not run.environments:
        return "no environment.json"
    if not machines:
        return []
    unbound = {record.raw: why for record in run.records if (why := _unbound(record, run))}
    if not unbound:
        return []
    spread = _widest(run, unbound)
    if spread is None:
        return "too few launches to show what wandering costs"
    record, gain = spread
    best = f"the best launch of {record.case} is {gain:.3g} times as good as the median"
    evidence = f"{unbound[record.raw]} on {machines[0]}; {best}"
    # A rank's threads need more than one core.
    where = "socket" if record.params.get("threads", "1") != "1" else "core"
    test = f"{record.benchmark} {record.case}"
    return [hint("pinning", evidence, gain, (record.raw,), test=test, where=where)]


def _unbound(record: Record, run: Run) -> str:
    """Why the record's ranks or threads could wander: what its command line or its variables say; or nothing.

    What stands before the program on the command line (``env NAME=VALUE …``) counts before the job's.
    """
    launch = run.circumstances.launches.get(record.raw)
    argv = launch.argv if launch else ()
    for words in _UNBOUND:
        if words[0] in argv and (not words[1] or words[1] in argv):
            return " ".join(filter(None, words))
    known = run.circumstances.environment(record, "variables")
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


def _widest(run: Run, raws: Collection[str]) -> tuple[Record, float] | None:
    """A record of the series whose best launch is furthest from its median, and how far; of `raws` only."""
    series: defaultdict[tuple[object, ...], list[Record]] = defaultdict(list)
    for record in run.records:
        if record.ok and record.value and "statistic" not in record.params and record.raw in raws:
            series[Series.of(record)].append(record)
    ratios = []
    for records in series.values():
        better = METRICS[records[0].metric].better
        values = [record.value or 0.0 for record in records]
        if len(values) >= 4 and better != "neither":
            ratio = max(values) / median(values) if better == "higher" else median(values) / min(values)
            ratios.append((ratio, records[0]))
    return max(((record, ratio) for ratio, record in ratios), key=lambda entry: entry[1], default=None)


@rule("taking_turns")
def taking_turns(run: Run) -> Judgement:
    """What the rules against lies say of processes that had to share CPUs."""
    if not run.environments:
        return "no environment.json"
    by_rule: dict[str, list[Violation]] = {}
    for finding in run.findings:
        if finding.rule.name in ("oversubscribed", "one_cpu", "loaded"):
            by_rule.setdefault(finding.rule.name, []).append(finding)
    hints = []
    for name, alike in by_rule.items():
        raw = dict.fromkeys(run.records[finding.place].raw for finding in alike)
        evidence = f"{len(alike)} records: {alike[0].reason}"
        hints.append(hint(f"taking_turns.{name}", evidence, raw=tuple(raw)[:6]))
    return hints


@rule("slow_node")
def slow_node(run: Run) -> Judgement:
    """Suspects of measured pairs, and nodes whose own benchmarks are 5 % behind."""
    hints = []
    for suspect, series in run.suspects:
        evidence = f"{suspect.whom} in {series}: {suspect.evidence}"
        hints.append(hint("slow_node.pairs", evidence, _gain(suspect.slowdown), closer=suspect.closer))
    alone = Nodes.of_run((record for record in run.records if len(set(record.hosts)) == 1), _LEAST_NODES)
    nodes = [node for node in alone.compared() if node.series >= _LEAST_SERIES]
    if not nodes and not run.suspects:
        return f"fewer than {_LEAST_NODES} nodes measured alike, and no pairs (npb --pairs)"
    for node in sorted(nodes, key=lambda node: node.ratio or 0.0):
        if node.ratio and node.ratio < 1 - _SLOW:
            others = "other nodes' devices'" if node.device else "other nodes'"
            evidence = f"{node.name} reaches {node.ratio:.1%} of the {others} median, as the median of "
            evidence += f"{node.series} series"
            hints.append(hint("slow_node.alone", evidence, 1 / node.ratio, host=node.node))
    return hints


def _gain(slowdown: float | None) -> float | None:
    return 1 / (1 - slowdown) if slowdown is not None and 0 < slowdown < 1 else None
