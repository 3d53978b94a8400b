"""The commands of this room, a module each, and the options that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import click

from npc.choices import TAGS
from npc.commands.parameters import Duration, PathParameter

if TYPE_CHECKING:
    from pathlib import Path

    from npc.cron.node_parts import NodeRotation

HISTORY: Final = "history"
#: In a platform's history: held by the night that is running.
LOCK: Final = "nightly.lock"

of_history = click.option(
    "--history", type=PathParameter(file_okay=False), help="Folder of histories (default: history/)."
)
of_platform = click.option(
    "--platform",
    default="localhost",
    show_default=True,
    help="A folder in platforms/, or the path of another one.",
)

of_tags = click.option(
    "--tag", "tags", multiple=True,
    help=f"Part of the benchmarks: {', '.join(TAGS)}; may be repeated (default: the first five).",
)  # fmt: skip
of_settings = click.option(
    "--set",
    "given",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of a benchmark, such as samples=10 (docs/characterise.md); may be repeated.",
)
of_limit = click.option(
    "--limit", type=Duration(), help="Do not wait longer for jobs: 90s, 10m, 2h (default: never)."
)
of_each_node = click.option(
    "--each-node", is_flag=True,
    help="Measure every node of the partition: by itself, and with another one (docs/nightly.md).",
)  # fmt: skip
of_at_once = click.option(
    "--at-once", type=click.IntRange(1), default=8, show_default=True,
    help="Jobs of --each-node in the queue at once.",
)  # fmt: skip
of_node_benchmarks = click.option(
    "--node-benchmark", "node_benchmarks", multiple=True, metavar="NAME",
    help="What --each-node runs on a node: a folder in benchmarks/, or a JUBE file; may be repeated "
    "(default: stream, likwid).",
)  # fmt: skip


class NodeNames(click.ParamType):
    """Names of nodes: a list as Slurm writes it, or a file with such a list a line."""

    name = "list|file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """The names, each once; fails on a list that is none, and where there are no names."""
        from pathlib import Path

        from npc.files import read_text
        from npc.machine.fabric import expand

        if isinstance(value, tuple):
            return value
        text = str(value)
        try:
            lines = read_text(Path(text)).splitlines() if Path(text).is_file() else [text]
            names = (name for line in lines for name in expand(line.partition("#")[0]))
            nodes = tuple(dict.fromkeys(name.strip() for name in names))
        except (OSError, ValueError) as error:
            self.fail(f"{text}: {error}", param, ctx)
        if not nodes:
            self.fail(f"{text} names no node", param, ctx)
        return nodes


NODES_HELP: Final = "The only nodes of --each-node: n[1-16], or a file with such a list a line."


def _only_one(_: click.Context, __: click.Parameter, given: tuple[str, ...]) -> str | None:
    if len(given) > 1:
        raise click.BadParameter(f"measures by one, not by {' and '.join(given)}: a run for each, or --tag")
    return given[0] if given else None


of_benchmark = click.option(
    "--benchmark", multiple=True, callback=_only_one,
    help="Measure by this one alone: a folder in benchmarks/, or a JUBE file.",
)  # fmt: skip


def chosen(
    platform: str, tags: Sequence[str], given: Sequence[str], benchmark: str | None
) -> tuple[Path, Path, Path | None, dict[str, str]]:
    """The suite, the platform's folder, the JUBE file of one benchmark alone, and variables for the
    settings that were given. Raises click.UsageError for what does not exist."""
    from npc.jobs.suite import benchmark_file, environment_of_settings, platform_folder
    from npc.places import suite

    home = suite()
    for tag in tags:
        if tag not in TAGS:
            raise click.UsageError(f"--tag {tag}: there are {', '.join(TAGS)}")
    folder = platform_folder(home, platform)
    file = benchmark_file(home, benchmark) if benchmark else None
    return home, folder, file, environment_of_settings(home, folder, given, file)


def check_one_job(platform: Path) -> None:
    """Raises click.UsageError where --one-job is no way to measure the platform."""
    from npc.jobs.in_place import KNOWN
    from npc.jobs.suite import submit_command

    if (command := submit_command(platform)) not in KNOWN:
        takes = f"submits by {command}" if command else "does not say how it submits"
        known = " and ".join(KNOWN)
        raise click.UsageError(f"--one-job is for platforms that submit by {known}; {platform.name} {takes}")


def rotation_of(
    platform: Path,
    given: Sequence[str],
    within: int,
    at_once: int,
    benchmarks: Sequence[str],
    only: tuple[str, ...] = (),
) -> NodeRotation:
    """What --each-node does. Raises click.UsageError where it cannot."""
    import shutil

    from npc.cron.node_parts import NODE_BENCHMARKS, NodeRotation
    from npc.jobs.suite import benchmark_file, settings
    from npc.places import suite

    home = suite()
    if "nodelist" not in settings(home, platform) or shutil.which("sinfo") is None:
        raise click.UsageError(
            "--each-node needs Slurm, and a platform that has the setting nodelist: slurm, or one over it"
        )
    if any(word.startswith("nodelist=") for word in given):
        raise click.UsageError("--each-node chooses the nodes itself: leave out --set nodelist")
    for benchmark in benchmarks:
        benchmark_file(home, benchmark)
    return NodeRotation(
        within=within, at_once=at_once, benchmarks=tuple(benchmarks) or NODE_BENCHMARKS, only=only
    )


def folder_of(history: Path | None, platform: str) -> Path:
    """The history of a platform, in the folder of histories that was given or `npc.places.workplace`."""
    from npc.places import workplace

    return ((history or workplace() / HISTORY) / platform).resolve()
