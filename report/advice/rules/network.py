"""What keeps programs off the fast path of the network."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from npc.machine.preflight import ENOUGH_MEMLOCK
from npc.records.units import format_quantity, format_size
from npc.report.advice.rule import Judgement, hint, rule
from npc.report.runs import Run
from npc.roofline.fits import fit_records
from npc.roofline.messages import of_mpi
from npc.roofline.models.hockney import Hockney
from npc.roofline.result import Ceiling, Estimate

#: MPI that reaches no more of the RDMA rate than this does not use it: over verbs it loses a tenth at most.
_NOT_RDMA: Final = 0.6
#: MPI's latency over TCP is TCP's own and more; over RDMA it is a fifth of it or less.
_LIKE_TCP: Final = 0.6
#: What a library may add to the raw path (headers, matching, completion), and what Python adds to C.
_LIBRARY_S: Final = 2e-6
_PYTHON_S: Final = 5e-6
#: What a message through shared memory costs at most on a healthy node.
_SHARED_MEMORY_S: Final = 5e-6
_FAST_LINK: Final = 10e9  # bit/s
_USUAL_MTU, _JUMBO_MTU = 1500, 9000
_PORTS_OF_PYTHON: Final = "osu.py"


def _active(run: Run) -> list[tuple[str, Mapping[str, Any]]]:
    return [
        (host, port) for host, ports in run.facts("rdma") for port in ports if port.get("state") == "ACTIVE"
    ]


def _rate(run: Run) -> tuple[float, str] | None:
    """B/s of RDMA here and how that is known: as measured, else as the port says."""
    measured = run.links("rdma")
    if measured:
        return measured[0].value, f"{measured[0].name} reached {_text(measured[0])}"
    rates = [port["rate_bit_s"] for _, port in _active(run) if port.get("rate_bit_s")]
    return (max(rates) / 8, f"the port carries {format_quantity(max(rates) / 8, 'B/s')}") if rates else None


def _named(name: str, params: Mapping[str, str], nodes: int = 1) -> str:
    """An MPI test with what tells it from others of its name: the MPI and whatever else was varied."""
    conditions = [f"{key} {text}" for key, text in sorted(params.items()) if text]
    conditions += [f"{nodes} nodes"] if nodes > 1 else []
    return f"{name} ({', '.join(conditions)})" if conditions else name


def _of(estimate: Estimate) -> str:
    return _named(estimate.name, estimate.params)


def _text(estimate: Estimate) -> str:
    return format_quantity(estimate.value, estimate.unit, 3)


@rule("mpi_over_tcp")
def mpi_over_tcp(run: Run) -> Judgement:
    """MPI between nodes that is as slow as TCP beside an active RDMA port."""
    ports = _active(run)
    if not run.environments:
        return "no environment.json"
    if not ports:
        return "no active RDMA port"
    bandwidths, latencies = run.links("mpi"), run.latencies("mpi")
    if not bandwidths and not latencies:
        return "no MPI test between nodes"
    rate, tcp_latency, evidence = _rate(run), run.latencies("tcp"), []
    gains: list[float] = []
    if bandwidths and rate and bandwidths[0].value < _NOT_RDMA * rate[0]:
        tcp = run.links("tcp")
        if not tcp or bandwidths[0].value < 1.5 * tcp[0].value:
            beside = f", TCP {_text(tcp[0])}" if tcp else ""
            evidence.append(f"{_of(bandwidths[0])} reached {_text(bandwidths[0])}{beside}, but {rate[1]}")
            gains.append(rate[0] / bandwidths[0].value)
    quick = run.latencies("rdma")
    if latencies and tcp_latency and latencies[0].value > _LIKE_TCP * tcp_latency[0].value:
        evidence.append(
            f"{_of(latencies[0])} took {_text(latencies[0])}, {tcp_latency[0].name} {_text(tcp_latency[0])}"
            + (f", {quick[0].name} {_text(quick[0])}" if quick else "")
        )
        gains += [latencies[0].value / quick[0].value] if quick else []
    chosen = _settings(run)
    if not evidence and not (chosen and not bandwidths):
        return []
    memlock = [
        f"ulimit -l is {format_size(limits['memlock_bytes'])} on {host}, which keeps MPI off RDMA"
        for host, limits in run.facts("limits")
        if limits.get("memlock_bytes") is not None and limits["memlock_bytes"] < ENOUGH_MEMLOCK
    ]
    host, port = ports[0]
    evidence += [f"{port['device']}/{port['port']} of {host} is active"]
    evidence += [f"{chosen} is set"] if chosen else []
    raw = tuple(raw for estimate in (*bandwidths[:1], *latencies[:1]) for raw in estimate.raw)
    return [hint("mpi_over_tcp", "; ".join([*evidence, *memlock[:1]]), max(gains, default=None), raw)]


#: Settings that keep MPI on TCP: variable → what its value has, and must not have.
_FORCES_TCP: Final = {
    "OMPI_MCA_btl": ("tcp", "openib|uct|ofi"),
    "OMPI_MCA_pml": ("ob1", "ucx"),
    "UCX_TLS": ("tcp", "rc|dc|ud|all"),
    "FI_PROVIDER": ("tcp|sockets", "verbs|psm|cxi|efa|mlx"),
    "I_MPI_OFI_PROVIDER": ("tcp|sockets", "verbs|psm|cxi|efa|mlx"),
}


def _settings(run: Run) -> str:
    for _, variables in run.facts("variables"):
        for name, (forced, other) in _FORCES_TCP.items():
            value = variables.get(name, "")
            excluded = value.startswith("^")
            if value and not excluded and re.search(forced, value) and not re.search(other, value):
                return f"{name}={value}"
    return ""


@rule("small_messages")
def small_messages(run: Run) -> Judgement:
    """MPI's half round trip far above that of the path below it, between nodes and within one."""
    between, within = run.latencies("mpi"), run.latencies("mpi", nodes=False)
    raw = run.latencies("rdma") or run.latencies("tcp")
    if not within and not (between and raw):
        return "no MPI latency within a node, and none between nodes beside that of TCP or RDMA"
    hints = []
    if between and raw:
        allowed = _LIBRARY_S + (_PYTHON_S if _in_python(between[0], run) else 0)
        if between[0].value > 2 * raw[0].value and between[0].value - raw[0].value > allowed:
            below = f"the path below ({raw[0].name}) {_text(raw[0])}"
            evidence = f"{_of(between[0])} takes {_text(between[0])}, {below}"
            gain = between[0].value / raw[0].value
            hints.append(hint("small_messages.between", evidence, gain, between[0].raw))
    if within and within[0].value > _SHARED_MEMORY_S + (_PYTHON_S if _in_python(within[0], run) else 0):
        usual = f"through shared memory it is below {format_quantity(_SHARED_MEMORY_S, 's')}"
        evidence = f"{_of(within[0])} takes {_text(within[0])} within a node; {usual}"
        gain = within[0].value / _SHARED_MEMORY_S
        hints.append(hint("small_messages.within", evidence, gain, within[0].raw))
    return hints


def _in_python(estimate: Estimate, run: Run) -> bool:
    """Whether the test was one of mpi4py's ports, which pay about a microsecond for every call."""
    launches = [run.circumstances.launches[raw] for raw in estimate.raw if raw in run.circumstances.launches]
    return any(word.endswith(_PORTS_OF_PYTHON) for launch in launches for word in launch.argv) and not any(
        "--prefix" in launch.argv and _after(launch.argv, "--prefix") for launch in launches
    )


def _after(words: tuple[str, ...], flag: str) -> str:
    place = words.index(flag) + 1
    return words[place] if place < len(words) else ""


def _interfaces(run: Run) -> dict[str, Mapping[str, Any]]:
    """The network interfaces of the nodes that are up and whose rate is known, by name."""
    return {
        entry["name"]: entry
        for _, entries in run.facts("interfaces")
        for entry in entries
        if entry.get("speed_bit_s") and entry.get("state") in ("up", "unknown")
        and entry.get("type") != "loopback"
    }  # fmt: skip


@rule("interface")
def slow_interface(run: Run) -> Judgement:
    """TCP between nodes over a slow interface beside one at least twice as fast."""
    known, measured = _interfaces(run), run.links("tcp")
    if not measured:
        return "no TCP test between nodes"
    if len(known) < 2:
        return "fewer than two interfaces whose rate is known"
    best = measured[0]
    used = known.get(best.params.get("interface", ""))
    if used is None:
        return "no TCP test between nodes that names an interface of known rate"
    # InfiniBand that MPI uses by verbs is no reason to send sockets over it.
    by_verbs = any(link.value * 8 > used["speed_bit_s"] for link in run.links("mpi", "rdma"))
    others = [entry for entry in known.values() if not by_verbs or entry["type"] == used["type"]]
    fastest = max(others, key=lambda entry: float(entry["speed_bit_s"]))
    if fastest["speed_bit_s"] < 2 * used["speed_bit_s"]:
        return []
    slow, fast = (f"{interface['speed_bit_s'] / 1e9:g} Gbit/s" for interface in (used, fastest))
    evidence = f"{best.name} reached {_text(best)} over {used['name']} ({slow}); {fastest['name']} has {fast}"
    gain = fastest["speed_bit_s"] / 8 / best.value
    return [hint("interface", evidence, gain, best.raw, interface=fastest["name"])]


@rule("ipoib")
def ip_over_infiniband(run: Run) -> Judgement:
    """TCP over an InfiniBand interface that verbs use better."""
    of_type = {
        entry["name"] for _, entries in run.facts("interfaces") for entry in entries
        if entry.get("type") == "infiniband"
    }  # fmt: skip
    if not of_type:
        return "no InfiniBand interface"
    over = [link for link in run.links("tcp") if link.params.get("interface") in of_type]
    rate = _rate(run)
    if not over or rate is None:
        return "no TCP test that names the InfiniBand interface, or no rate of RDMA"
    best: Ceiling = over[0]
    if best.value > _NOT_RDMA * rate[0]:
        return []
    evidence = f"{best.name} over {best.params['interface']} reached {_text(best)}, but {rate[1]}"
    return [hint("ipoib", evidence, rate[0] / best.value, best.raw)]


@rule("mtu")
def small_frames(run: Run) -> Judgement:
    """A link of 10 Gbit/s or more with the usual MTU, on which TCP stays below 90 % of what frames allow."""
    measured = run.links("tcp")
    known = {
        name: entry for name, entry in _interfaces(run).items()
        if entry.get("type") == "ethernet" and entry.get("mtu")
    }  # fmt: skip
    if not measured:
        return "no TCP test between nodes"
    best = measured[0]
    name = best.params.get("interface") or (next(iter(known)) if len(known) == 1 else "")
    if name not in known:
        return "no Ethernet interface of known rate that the test names, or that is the only one"
    entry = known[name]
    rate, mtu = entry["speed_bit_s"] / 8, entry["mtu"]
    if rate * 8 < _FAST_LINK or mtu > _USUAL_MTU:
        return []
    usual, jumbo = (rate * (size - 52) / (size + 14) for size in (mtu, _JUMBO_MTU))
    if best.value > 0.9 * usual:
        return []
    evidence = (
        f"{best.name} reached {_text(best)} of the {format_quantity(usual, 'B/s', 3)} that frames of {mtu} "
        f"bytes leave on {name} ({rate * 8 / 1e9:g} Gbit/s): the CPU handles six times as many frames as "
        f"with {_JUMBO_MTU}"
    )
    return [hint("mtu", evidence, jumbo / best.value, best.raw, interface=name)]


@rule("eager_limit")
def eager_limit(run: Run) -> Judgement:
    """The switch of protocols that a sweep's model shows, where the other protocol's line is lower there."""
    fits = [
        (fit, fit.fitted)
        for fit in fit_records(run.records).fits
        if isinstance(fit.fitted, Hockney)
        and fit.kind == "half round trip"
        and of_mpi(fit.source.benchmark, fit.source.case)
    ]
    if not fits:
        return "no sweep of an MPI ping-pong over at least five sizes"
    hints = []
    for fit, fitted in fits:
        switches = [_switch(fitted, piece) for piece in range(len(fitted.pieces.splits) - 1)]
        worst = max(filter(None, switches), key=lambda switch: switch.gain, default=None)
        if worst is not None:
            evidence, words, gain, concerned, limit = worst
            test = _named(fit.source.name, fit.source.by_name, fit.source.nodes)
            evidence = f"{test}: {evidence}"
            hints.append(
                hint("eager_limit", evidence, gain, fit.raw, concerned, messages=words, limit=str(limit))
            )
    return hints


#: A jump that the model's own error does not explain.
_JUMP: Final = 1.25
#: The multiple of the largest measured size up to which a protocol's line is believed.
_FAR: Final = 4
#: What libraries count of a message beside its data, at most: an eager limit holds headers, too.
_HEADERS: Final = 1024


class _Switch(NamedTuple):
    """A switch of protocols at the wrong size."""

    #: Why it is wrong, in words: times of a message with either protocol.
    evidence: str
    #: From which size to which size it is wrong, in words.
    words: str
    #: How many times as fast messages of these sizes are at most with the other protocol.
    gain: float
    #: The least and the largest of these sizes, in bytes.
    sizes: tuple[int, int]
    #: The eager limit that changes just these sizes, in bytes.
    limit: int


def _switch(fitted: Any, piece: int) -> _Switch | None:
    """The switch after a piece; None where it is right."""
    below, above = int(fitted.pieces.range(piece)[1]), int(fitted.pieces.range(piece + 1)[0])
    (a1, b1), (a2, b2) = (
        tuple(number.value for number in fitted.pieces.line(place)) for place in (piece, piece + 1)
    )
    crossing = (a2 - a1) / (b1 - b2) if b1 > b2 else None
    least, last = max(_JUMP, 1 + 3 * fitted.residual_rms), int(fitted.x[-1])
    here, there = a2 + b2 * above, a1 + b1 * above
    if b1 > 0 and there > 0 and here / there > least:
        end = min(last, _FAR * above, last if crossing is None else crossing)
        evidence = _evidence("behind", below, above, here, there, "smaller", "low")
        words = f"{format_size(above)} to {format_size(end)}"
        return _Switch(evidence, words, here / there, (above, int(end)), int(end) + _HEADERS)
    here, there = a1 + b1 * below, a2 + b2 * below
    if b2 > 0 and there > 0 and here / there > least:
        start = max(1, below // _FAR, crossing or 1)
        evidence = _evidence("before", below, above, here, there, "larger", "high")
        words = f"{format_size(start)} to {format_size(below)}"
        return _Switch(evidence, words, here / there, (int(start), below), int(start))
    return None


def _evidence(side: str, below: int, above: int, here: float, there: float, others: str, limit: str) -> str:
    return (
        f"{side} the switch at {format_size(below)} … {format_size(above)} a message takes "
        f"{format_quantity(here, 's', 3)}, where the protocol of {others} ones would take "
        f"{format_quantity(there, 's', 3)}: the limit is too {limit}"
    )
