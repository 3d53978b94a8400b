"""``npc program study``: a program over a plan of conditions, what was expected of it before, and what came
of it."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from npc.choices import AUTO
from npc.commands.parameters import Duration, PathParameter, Runs, name_values, program_first
from npc.commands.rare_options import RareOption
from npc.cron.commands import of_limit, of_platform
from npc.files import read_text
from npc.observe.study.predicting import predict, study_in


class StudyCommands(click.Group):
    """``npc program study -- PROGRAM`` is ``npc program study run -- PROGRAM``."""

    #: The subcommand where none is named.
    usual = "run"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """The subcommand is `run` where none is named."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.usual, *args]
        return super().parse_args(ctx, args)


@click.group(cls=StudyCommands, short_help="Run a program under many conditions: what is best.")
def study() -> None:
    """Run a program over a plan of conditions, in shuffled fresh processes, by JUBE and so by Slurm.

    \b
    npc program study --ranks 1,2 --threads 1,2 -- ./himeno S -n 100
    npc program study --platform slurm --nodes 1,2,4 --ranks 8/node,16/node --binding core,none \\
        --expect "4 nodes >= 3.5 x 1 node" -- ./app input.dat
    npc program study show FOLDER
    """


study.add_command(predict)


class Values(click.ParamType):
    """Values with commas between, each of a kind."""

    name = "values"

    def __init__(self, kind: type[int] | type[float] | type[str]) -> None:
        self.kind = kind

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> object:
        """A tuple; fails on anything empty, twice the same, or not positive."""
        if isinstance(value, tuple):
            return value
        try:
            values = tuple(self.kind(word.strip()) for word in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r}: expected numbers with commas between", param, ctx)
        if len(set(values)) < len(values) or "" in values:
            self.fail(f"{value!r}: a value is missing, or there twice", param, ctx)
        if any(isinstance(number, int) and number < 1 for number in values):
            self.fail(f"{value!r}: expected whole numbers of at least 1", param, ctx)
        return values


@study.command(
    short_help="Run COMMAND in every condition (what npc program study does).",
    context_settings={"ignore_unknown_options": True},
)
@of_platform
@click.option(
    "--nodes", type=Values(int), default="1", show_default=True, help="Numbers of nodes, a job each."
)
@click.option(
    "--ranks", type=Values(str), show_default="1/node", metavar="N|N/node,…",
    help="MPI ranks, of all nodes together or on each.",
)  # fmt: skip
@click.option(
    "--cores", type=Values(str), metavar="N|N/node,…",
    help="Cores to fill, instead of --ranks: as many ranks as there is room for with their threads.",
)  # fmt: skip
@click.option("--threads", type=Values(int), default="1", show_default=True, help="Threads of each rank.")
@click.option(
    "--binding", type=Values(str), default="default", show_default=True, metavar="WAY,…",
    help="How ranks are bound: default (by the launcher), core, hwthread, none, ppr:N:socket, ppr:N:numa.",
)  # fmt: skip
@click.option(
    "--variable", "variables", multiple=True, metavar="NAME=V1,V2,…",
    help="Values of a variable of the program's environment; may be repeated.",
)  # fmt: skip
@click.option(
    "--memory", type=Values(float), default="0", show_default=True,
    help="Processes that take memory bandwidth, on other cores of each NUMA node; 0.5: one, half the time.",
)  # fmt: skip
@click.option(
    "--frequency", cls=RareOption, type=Values(str), default="usual", show_default=True, metavar="GHZ,…",
    help="Clocks of the CPUs (by cpufreq as root, or srun --cpu-freq); usual: as they are.",
)  # fmt: skip
@click.option(
    "--network", cls=RareOption, type=Values(str), default="usual", show_default=True,
    metavar="RATE|NAME=VALUE,…",
    help="What each node can send a second, as 100Mbit or 1GB (by tc as root); usual: as it is. NAME=VALUE: "
    "another network, by MPI's variable (OMPI_MCA_btl_tcp_if_include=eth1, UCX_NET_DEVICES=mlx5_1:1).",
)  # fmt: skip
@click.option(
    "--interface",
    cls=RareOption,
    default="",
    help="Network interface that --network slows down (default: the only one).",
)
@click.option(
    "--runs", type=Runs(), default=AUTO, show_default=True,
    help="Runs of each condition; auto: six, and more while its median is known no better than to 3 %.",
)  # fmt: skip
@click.option(
    "--expect", "expected", multiple=True, metavar="TEXT",
    help="Speeds that you expect, to be judged at the end: '4 nodes >= 3.5 x 1 node'; may be repeated.",
)  # fmt: skip
@click.option(
    "--name", cls=RareOption, default="", help="What to call the program (default: its file's name)."
)
@click.option(
    "--parser",
    "tool",
    cls=RareOption,
    default="",
    help="Parser of the program's output (default: by the program's name).",
)
@click.option(
    "--seconds", "says", cls=RareOption, default="", metavar="REGEX",
    help="Where the program prints its time (default: the run time); the first group is the seconds.",
)  # fmt: skip
@click.option(
    "--observe/--no-observe",
    default=True,
    show_default=True,
    help="Watch each run by npc observe, also inside MPI.",
)
@click.option(
    "--timeout",
    "timeout_s",
    cls=RareOption,
    type=Duration(),
    default="5m",
    show_default=True,
    help="How long a run may take.",
)
@click.option(
    "--seed",
    cls=RareOption,
    type=click.IntRange(0, 2**31),
    help="Seed of the order of the launches (default: from the clock).",
)
@click.option(
    "--set",
    "given",
    cls=RareOption,
    multiple=True,
    metavar="NAME=VALUE",
    help="A setting of the platform: timelimit=02:00:00.",
)
@of_limit
@click.option(
    "--output", type=PathParameter(file_okay=False), help="Folder of the study (default: study-PROGRAM)."
)
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, callback=program_first)
def run(
    platform: str,
    nodes: tuple[int, ...],
    ranks: tuple[str, ...] | None,
    cores: tuple[str, ...] | None,
    threads: tuple[int, ...],
    binding: tuple[str, ...],
    variables: tuple[str, ...],
    memory: tuple[float, ...],
    frequency: tuple[str, ...],
    network: tuple[str, ...],
    interface: str,
    runs: int | None,
    expected: tuple[str, ...],
    name: str,
    tool: str,
    says: str,
    observe: bool,
    timeout_s: float,
    seed: int | None,
    given: tuple[str, ...],
    limit: float | None,
    output: Path | None,
    command: tuple[str, ...],
) -> None:
    """Run COMMAND in every condition of the plan: the product of all values.

    The platform starts it on the nodes; a COMMAND that begins with mpirun or srun starts itself. {ranks},
    {nodes}, {threads} and {ranks_per_node} in it stand for the condition's. What was stopped goes on by
    `npc program study resume FOLDER`.

    Exit codes: 0 all runs worked, 1 none did, 2 usage, 5 jobs have not ended by the limit, 6 some failed,
    130 and 143 stopped.
    """
    import time

    from npc import __version__
    from npc.jobs.suite import platform_folder
    from npc.observe.study.making import begin
    from npc.observe.study.plan import Factors, conditions_of, expectation_of, hertz_of, network_of
    from npc.observe.study.records import Study
    from npc.places import suite
    from npc.records.launch import now
    from npc.statistics.medians import MIN_SAMPLES
    from npc.statistics.precision import USUAL

    if ranks and cores:
        raise click.UsageError("--cores is instead of --ranks")
    pairs = name_values("--variable", variables, r"([A-Za-z_]\w*)=(.*)", "NAME=VALUE,VALUE,…")
    of_each = {variable: values.split(",") for variable, values in pairs}
    try:
        factors = Factors(
            nodes=nodes, ranks=ranks or ("1/node",), cores=cores or (), threads=threads, binding=binding,
            memory=[number or None for number in memory], frequency=[hertz_of(word) for word in frequency],
            network=[network_of(word) for word in network], variables=of_each,
        )  # fmt: skip
        plan, notes = conditions_of(factors)
        folder = platform_folder(suite(), platform)
        draft = Study(
            command=command, program=name, platform=folder.name, platform_folder=str(folder), started=now(),
            seed=time.time_ns() % 2**31 if seed is None else seed, conditions=tuple(plan),
            runs=runs or MIN_SAMPLES, most=0 if runs else USUAL.most,
            tool=tool, timeout_s=timeout_s, says=says, settings=given, version=__version__,
            observed=observe, interface=interface, notes=tuple(notes),
            expectations=tuple(expectation_of(text, plan) for text in expected),
        )  # fmt: skip
        place = begin(draft, folder, output, limit)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    sys.exit(_go_on(place.folder, limit))


@study.command(short_help="Make the runs that a study still lacks.")
@click.argument("folder", type=PathParameter(exists=True, file_okay=False))
@of_limit
def resume(folder: Path, limit: float | None) -> None:
    """Make the runs that a study's FOLDER lacks. Exit codes: those of npc program study."""
    study_in(folder)
    sys.exit(_go_on(folder, limit))


@study.command(short_help="Do a study again, and say what differs.")
@click.argument("folder", type=PathParameter(exists=True, file_okay=False))
@click.option(
    "--output", type=PathParameter(file_okay=False), help="Folder of the new study (default: FOLDER-again)."
)
@click.option("--platform", help="Another platform (default: the study's own copy of its platform).")
@of_limit
def repeat(folder: Path, output: Path | None, platform: str | None, limit: float | None) -> None:
    """Do the study in FOLDER again, in the same order, and say what differs.

    Exit codes: those of npc program study.
    """
    from npc.jobs.suite import platform_folder
    from npc.observe.study.repeating import differences, prepare
    from npc.places import suite

    study_in(folder)
    home = suite()
    source = platform_folder(home, platform) if platform else None
    try:
        place = prepare(folder.resolve(), output, source, home, limit)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    code = _go_on(place.folder, limit)
    if code in (0, 6):
        click.echo("\n".join([f"beside {folder}:", *differences(folder, place.folder)]))
    sys.exit(code)


@study.command(short_help="Print what came of a study.")
@click.argument("folder", type=PathParameter(exists=True, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print study.json instead of the table.")
def show(folder: Path, as_json: bool) -> None:
    """What came of the study in FOLDER: placements, expectations, model."""
    from npc.observe.study.outputs import lines_of
    from npc.observe.study.records import STUDY

    known = study_in(folder)
    if as_json:
        click.echo(read_text(folder / STUDY).rstrip())
    else:
        click.echo("\n".join(lines_of(known)))


def _go_on(folder: Path, limit: float | None) -> int:
    """Run what is missing, say what came of it; the exit code."""
    import shlex

    from npc import locks
    from npc.observe.study.outputs import lines_of
    from npc.observe.study.records import read_study
    from npc.observe.study.remembering import keep_best
    from npc.observe.study.running import LOCK, go_on
    from npc.observe.study.starters import StudyPlace
    from npc.places import suite

    folder = folder.resolve()
    try:
        with locks.only_one(folder / LOCK):
            code = go_on(StudyPlace(folder, suite(), limit))
    except locks.LockHeld as who:
        raise click.ClickException(f"{folder} is being measured already ({who})") from None
    known = read_study(folder)
    click.echo("\n".join(lines_of(known)))
    if code == 0:
        for line in keep_best(known, folder):
            click.echo(line)
    word = shlex.quote(str(folder))
    if code >= 128 or code == 5:
        click.echo(f"not at its end: npc program study resume {word}", err=True)
    else:
        click.echo(f"study: {folder}")
    return code
