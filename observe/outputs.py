"""An observation as people read it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import click

from npc.observe.check_observer import table
from npc.observe.observation import Observation
from npc.observe.observer import RunObserver
from npc.records.units import METRICS, format_quantity, format_size, plural


def show(
    observation: Observation, observers: Sequence[RunObserver], folder: Path, silent: Sequence[str]
) -> None:
    """The table of nodes and ports, MPI's own count, what observers saw, and what was odd. silent: options
    whose pattern the program's output does not match."""

    def amount(value: float | None) -> str:
        return "unknown" if value is None else format_quantity(value, "B", 4)

    say = partial(click.echo, err=True)
    say(f"\nobserved: {shlex.join(observation.command)}")
    for node in observation.nodes:
        say(f"{node.host}: {plural(node.ranks, 'rank')}, {node.seconds:.2f} s")
        for port in node.ports:
            say(f"  {port.name:12} received {amount(port.received):>10}  sent {amount(port.sent):>10}")
        if node.io:
            reads, writes = (f"{calls:,} calls" for calls in (node.io.read_calls, node.io.write_calls))
            say(
                f"  {'I/O calls':12} read {amount(node.io.read):>14}  written {amount(node.io.written):>10}  "
                f"in {reads} and {writes}"
            )
            fetched, written = amount(node.io.storage_read), amount(node.io.storage_written)
            say(f"  {'storage':12} read {fetched:>14}  written {written:>10}")
    if observation.messages:
        for kind, (size, count) in observation.messages.kinds.items():
            say(f"MPI {kind}: {amount(size)} in {count} messages")
        for kind, (total, calls) in observation.messages.collectives.items():
            say(f"MPI collectives, {kind}: {calls} calls of all ranks, {format_size(total / calls)} each")
        if observation.messages.between_nodes is not None:
            say(f"MPI between nodes: {amount(observation.messages.between_nodes)}")
    for metric, value in observation.reported.items():
        say(f"{metric}: {format_quantity(value, METRICS[metric].unit, 4)}")
    counted = observation.counted
    if counted is not None:
        text = format_quantity(counted.flop, "FLOP", 4) if counted.flop is not None else counted.reason
        for host, moved in (counted.moved or {}).items():
            say(f"counted on {host}: {moved_line(moved)}")
        if not counted.moved:
            say(f"counted: {text}")
    contents = [(observer, observation.parts[observer.key]) for observer in observers]
    shown = [(observer, content) for observer, content in contents if content is not None]
    for line in (line for observer, content in shown for line in observer.lines(content)):
        say(line)
    if observation.overhead and observation.overhead.words:
        say(observation.overhead.words)
    measured = observation.overhead.measured if observation.overhead else None
    for line in table(measured) if measured else ():
        say(line)
    for option in silent:
        say(f"note: {option} catches no number above 0 in what the program printed")
    for note in observation.notes:
        say(f"note: {note}")
    after = (
        f"its pictures: npc report {folder}"
        if any(observer.alone for observer, _ in shown)
        else f"under the ceilings: npc roofline RUN {folder}"
    )
    say(f"kept in {folder}; {after}")


def moved_line(moved: Mapping[str, Any]) -> str:
    """``MEM 12 GB at 8 GB/s, its CPUs idle 3 % of the time``."""
    volume, rate = moved["bytes"], moved["bytes"] / moved["seconds"]
    idle = f", its CPUs idle {100 * moved['idle']:.3g} % of the time" if moved["idle"] is not None else ""
    return f"{moved['level']} {format_quantity(volume, 'B', 4)} at {format_quantity(rate, 'B/s', 4)}{idle}"
