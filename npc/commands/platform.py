"""``npc platform new``: a platform for this cluster, or machine, written from what it says of itself."""

from __future__ import annotations

import re
from typing import Any

import click


@click.group(short_help="Make the platform of a cluster, by `npc platform new`.")
def platform() -> None:
    """Platforms: what NPC knows of a cluster."""


@platform.command(short_help="Write platforms/NAME from what Slurm and a node say.")
@click.argument("name")
@click.option("--partition", "wanted", help="Slurm's partition (default: its default one).")
@click.option("--constraint", default="", help="Slurm's feature of the nodes, where they are not all alike.")
@click.option("--account", default="", help="Slurm's account, where jobs need one.")
@click.option(
    "--node/--no-node",
    "ask_node",
    default=True,
    show_default=True,
    help="Ask a node in a short job, or Slurm alone.",
)
@click.option(
    "--patience", type=float, default=60.0, show_default=True, help="Seconds to wait for a free node."
)
@click.option("--alone", is_flag=True, help="A platform of this machine alone, as where there is no Slurm.")
def new(
    name: str,
    wanted: str | None,
    constraint: str,
    account: str,
    ask_node: bool,
    patience: float,
    alone: bool,
) -> None:
    """Write platforms/NAME from what Slurm and one of its nodes say, or without Slurm this machine.

    Exit codes: 0, 1 (Slurm does not answer, nothing can be written), 2 usage.
    """
    from npc.errors import CommandFailed
    from npc.machine.new_platform import choose, describe_node, has_slurm, partitions, write_platform
    from npc.machine.platform import PLATFORMS, InvalidPlatform
    from npc.places import workplace
    from npc.records.units import plural

    if not re.fullmatch(r"[A-Za-z0-9][\w.-]*", name):
        raise click.UsageError(f"{name!r} is no name for a folder: letters, digits, - _ .")
    folder = workplace() / PLATFORMS / name
    if folder.exists():
        raise click.UsageError(f"{folder} exists: choose another name, or remove it first")
    if alone and (wanted or constraint or account):
        raise click.UsageError("--alone asks no Slurm: it has no --partition, --constraint and --account")
    for option, value in (("account", account), ("constraint", constraint)):
        if not re.fullmatch(r"[\w.:@+-]*", value, re.ASCII):  # a shell will read it
            raise click.UsageError(f"--{option} {value!r}: no {option} of Slurm has such a name")
    alone = alone or not (has_slurm() or wanted or constraint or account)
    chosen = None if alone else choose(partitions(constraint), wanted, constraint)
    node: dict[str, Any] = {}
    if chosen is None:
        from npc.machine.environment import collect_environment

        node = collect_environment(tools=())
    elif ask_node:
        try:
            node = describe_node(chosen, account, patience)
        except CommandFailed as error:
            click.echo(f"no node could be asked ({error}): platform.toml has only what Slurm knows", err=True)
    try:
        write_platform(folder, chosen, node, account)
    except OSError as error:
        raise click.ClickException(f"cannot write {folder}: {error.strerror}") from None
    except InvalidPlatform as error:
        raise click.ClickException(f"what the node said makes no platform: {error}") from None
    what = "this machine alone, without a scheduler"
    if chosen:
        what = f"partition {chosen.name}, {plural(chosen.nodes, 'node')}"
        what += f" with {plural(chosen.smallest.cores, 'core')}" if chosen.shown else ""
    click.echo(f"{folder}: {what}")
    if chosen and len(chosen.kinds) > 1:
        threads = plural(chosen.smallest.cores, "thread")
        click.echo(f"Its nodes are not alike, and each is measured with {threads}, as the first have cores:")
        click.echo("\n".join(f"  {kind}" for kind in chosen.kinds))
        features = ", ".join(chosen.features) or "but they have no feature"
        click.echo(f"For a platform of one kind: --constraint, {features}")
    click.echo(f"Look through both files, then: npc characterise --platform {name}")
