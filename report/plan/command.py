"""``npc plan GOAL``: what to measure, how long it takes, and the lines to type."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from npc.catalogue.row import Step
    from npc.report.plan.planning import Machine, Plan

SCHEMA: Final = 1
GOALS: Final = ("accept", "slow", "compare", "watch")
#: Questions that one model answers (`npc.roofline.choice.QUESTIONS`).
QUESTIONS: Final = (
    "message", "stream", "collective", "overlap", "burst", "layout", "superstep", "contention",
)  # fmt: skip


@click.command(short_help="What to measure for a question in the time there is.")
@click.argument("goal", type=click.Choice((*GOALS, *QUESTIONS)), metavar="GOAL")
@click.option(
    "--time",
    "budget_text",
    metavar="DURATION",
    default="10m",
    show_default=True,
    help="Time there is: 90s, 30m, 2h.",
)
@click.option("--platform", default="localhost", show_default=True, help="As npc characterise takes it.")
@click.option(
    "--nodes", type=click.IntRange(1), help="Nodes to look at (default: 1 without a scheduler, else 2)."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object (docs/plan.md).")
def plan(goal: str, budget_text: str, platform: str, nodes: int | None, as_json: bool) -> None:
    """Propose a run: benchmarks, samples, nodes, model, expected duration, and the lines that do it.

    GOAL: accept (is a new cluster as promised), slow (why is my MPI application slow), compare (two machines
    or states), watch (one machine, night by night); or a question that one model answers: message (how long
    one of any size takes), stream (how fast they follow each other), collective (also on more processes),
    overlap (what computing can hide), burst (small messages that are free), layout (strided data), superstep,
    contention (transfers at the same time). Exit codes: 0, 2 usage.
    """
    import json

    import msgspec

    from npc.cli import entry_points
    from npc.columns import sentences
    from npc.records.units import parse_duration
    from npc.report.plan.planning import TooLittleTime, make_model_plan, make_plan

    try:
        budget = parse_duration(budget_text)
    except ValueError as error:
        raise click.UsageError(f"--time: {error}") from None
    try:
        machine = _machine(platform, nodes)
        if goal in QUESTIONS:
            proposed = make_model_plan(goal, machine, budget)
        else:
            proposed = make_plan(goal, machine, budget, entry_points())
    except TooLittleTime as error:
        raise click.UsageError(f"--time {budget_text}: {error}") from None
    from npc.machine.programs import remembered

    known = remembered(platform)
    if as_json:
        settings = [msgspec.structs.asdict(setting) for setting in known]
        click.echo(json.dumps({**_document(proposed), "remembered": settings}, indent=1))
    else:
        lines = (
            ["Remembered of this platform:", *(f"  {setting.words}" for setting in known)] if known else []
        )
        click.echo(sentences("\n\n".join(filter(None, (_text(proposed), "\n".join(lines))))))


def _machine(name: str, nodes: int | None) -> Machine:
    """What this machine, and the platform's file, say."""
    from npc import catalogue
    from npc.catalogue.row import CACHE_A_CORE
    from npc.jobs.suite import (
        default_of,
        parameter_of,
        platform_folder,
        settings,
        submit_command,
    )
    from npc.jobs.workpackages import SHELLS
    from npc.machine.interfaces import rdma_ports
    from npc.machine.platform import PLATFORM_FILE, InvalidPlatform, read_platform
    from npc.machine.tools import TOOLS, find
    from npc.machine.topology import processors
    from npc.places import suite, typed, workplace
    from npc.report.plan.earlier import steps_seen
    from npc.report.plan.planning import Machine
    from npc.validity.rules.cache import last_level_bytes

    home = suite()
    folder = platform_folder(home, name)
    submit = Path(submit_command(folder)).name
    one_machine = submit in SHELLS
    if one_machine and (nodes or 1) > 1:
        raise click.UsageError(
            f"--nodes {nodes}: the platform {name} is one machine; --platform names a cluster"
        )
    try:
        limits = read_platform(folder / PLATFORM_FILE) if (folder / PLATFORM_FILE).exists() else None
    except InvalidPlatform as error:
        raise click.UsageError(str(error)) from None
    active = any(port["state"] == "ACTIVE" for port in rdma_ports())
    links = " ".join(interface.link for interface in limits.interfaces.values()) if limits else ""
    rdma = active if one_machine else True if active or "x " in links else None
    missing = {tool.command for tool in TOOLS if not _there(tool.command, find)}
    missing |= {
        step.commands[0]
        for step in catalogue.steps()
        if step.site
        and not any(os.environ.get(f"NPC_{name.upper()}") for name in step.site)
        and find(step.commands[0]) is None
    }
    # those of a cluster's nodes cannot be seen from here
    cpu = processors() if one_machine else {}
    caches = last_level_bytes(cpu.get("caches")) / (cpu.get("cores") or 1) / CACHE_A_CORE
    named = parameter_of(folder, "npc_platform_name") or folder.name
    return Machine(
        platform=name,
        name=named,
        folder=typed(folder),
        nodes=nodes or (1 if one_machine else 2),
        one_machine=one_machine,
        submit=submit,
        missing=frozenset(missing),
        earlier_steps=steps_seen(workplace() / "runs", named),
        rdma=rdma,
        queue=os.environ.get("NPC_QUEUE") or default_of(folder, "queue"),
        account=os.environ.get("NPC_ACCOUNT") or default_of(folder, "account"),
        timed="timelimit" in settings(home, folder),
        caches=caches or 1.0,
    )


def _there(command: str, find: Any) -> bool:
    if command == "osu_latency":
        from npc.machine.tools import look_up, named

        return look_up(named(command)).path is not None
    return find(command) is not None


def _document(plan: Plan) -> dict[str, Any]:
    from dataclasses import asdict

    document = asdict(plan)
    document["machine"]["missing"] = sorted(plan.machine.missing)
    document["machine"]["seen"] = {name: earlier.run for name, earlier in plan.machine.earlier_steps.items()}
    for step, row in zip(plan.steps, document["steps"], strict=True):
        row["sizes"] = dict(step.sizes)
        row["nodes"], row["all_nodes"] = max(step.nodes), list(step.nodes)
        row["expected_s"] = step.duration(plan.samples)
    return {"schema": SCHEMA, **document}


def _in_bytes(setting: str, text: str) -> str:
    """Its message and working-set sizes as everywhere: ``16 B, 4 KiB``; other settings as they are."""
    from npc.records.units import format_size, parse_size

    words = [word.strip() for word in text.split(",")]
    try:
        is_size = "size" in setting and setting != "hpcg_size"  # which is points
        return ", ".join(format_size(parse_size(word)) if is_size else word for word in words)
    except ValueError:
        return ", ".join(words)


def _node_counts(step: Step, machine: Machine) -> str:
    """On how many nodes each of its jobs runs, of those that there are."""
    return ", ".join(dict.fromkeys(str(min(number, machine.nodes)) for number in step.nodes))


def _expected(step: Step, plan: Plan) -> str:
    from npc.records.units import format_duration

    lacks = set(step.commands) & plan.machine.missing
    return "unavailable" if lacks else format_duration(step.duration(plan.samples))


def _text(plan: Plan) -> str:
    from npc.columns import columns
    from npc.page.blocks import Column, Table
    from npc.places import home, own, shown, workplace
    from npc.records.units import format_duration, plural
    from npc.statistics.medians import MIN_SAMPLES

    table: list[Column[Step]] = [
        Column("benchmark", lambda step: step.name),
        Column("tag", lambda step: "/".join(step.tags)),
        Column("nodes", lambda step: _node_counts(step, plan.machine)),
        Column("jobs", lambda step: str(step.jobs)),
        Column("launches", lambda step: str(step.launches_of(plan.samples))),
        Column("expected", lambda step: _expected(step, plan)),
        Column("measures", lambda step: step.measures),
        Column("sizes", lambda step: "; ".join(_in_bytes(name, text) for name, text in step.sizes)),
    ]
    path = [] if own("npc") == "npc" else [f"export PATH={shlex.quote(f'{sys.prefix}/bin')}:$PATH"]
    times = f", {plan.runs} times" if plan.runs > 1 else ""
    samples = plural(plan.samples, "sample")
    if plan.samples > MIN_SAMPLES:
        samples = f"{MIN_SAMPLES} samples, up to {plan.samples} where they are needed,"
    place = "the checkout" if workplace() == home() else shown(workplace())
    parts = (
        f"To know: {plan.question}\nModel:   {plan.model}.\n"
        f"Expect:  {format_duration(plan.seconds)} of {format_duration(plan.budget_s)}{times}, "
        f"{samples} of each case, waiting for nodes not counted.",
        "\n".join(columns(Table.of("", plan.steps, table).texts())),
        "\n".join(plan.notes),
        "\n  ".join([f"Type {'here' if place == '.' else f'in {place}'}:", *path, *plan.lines]),
        f"The same run by JUBE alone:\n  {plan.jube}",
    )
    return "\n\n".join(filter(None, parts))
