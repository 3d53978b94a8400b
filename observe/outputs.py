"""An observation as people read it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

import click

from npc.records.units import format_quantity
from observe.observation import Observation


def show(observation: Observation, folder: Path, silent: Sequence[str]) -> None:
    """The table of nodes and ports, MPI's own count, and what was odd."""

    def amount(value: int | None) -> str:
        return "unknown" if value is None else format_quantity(value, "B", 4)

    click.echo(f"\nobserved: {shlex.join(observation.command)}", err=True)
    for node in observation.nodes:
        click.echo(f"{node.host}: {node.ranks} rank{'s' * (node.ranks != 1)}, {node.seconds:.2f} s", err=True)
        for port in node.ports:
            click.echo(
                f"  {port.name:12} received {amount(port.received):>10}  sent {amount(port.sent):>10}",
                err=True,
            )
    if observation.messages:
        for kind, (size, count) in observation.messages.kinds.items():
            click.echo(f"MPI {kind}: {format_quantity(size, 'B', 4)} in {count} messages", err=True)
        for kind, (total, calls) in observation.messages.collectives.items():
            mean = format_quantity(total / calls, "B", 4)
            click.echo(f"MPI collectives, {kind}: {calls} calls of all ranks, {mean} each", err=True)
        between = observation.messages.between_nodes
        if between is not None:
            click.echo(f"MPI between nodes: {format_quantity(between, 'B', 4)}", err=True)
    for metric, value in observation.reported.items():
        click.echo(
            f"{metric}: {format_quantity(value, 'FLOP/s' if metric == 'flops' else 'FLOP', 4)}", err=True
        )
    counted = observation.counted
    if counted is not None:
        found = format_quantity(counted.flop, "FLOP", 4) if counted.flop is not None else counted.reason
        click.echo(f"counted: {found}", err=True)
    for option in silent:
        click.echo(f"note: {option} catches no number above 0 in what the program printed", err=True)
    for note in observation.notes:
        click.echo(f"note: {note}", err=True)
    click.echo(f"kept in {folder}; under the ceilings: npc roofline RUN {folder}", err=True)
