"""A launch: one fresh process of a tool, its arguments, where it ran and how it ended.

``npb`` and ``npc records sample`` write the same folder, so that one reader understands both::

    launches.jsonl     a header line {"tool", "planned", "job", "seed"}, then one line a launch, as it ends;
                       between them {"planned", "awaited"} where more launches follow than were planned
    raw/0007.out       what the tool printed, byte for byte (for npb: the client)
    raw/0007.err       its stderr; npb adds 0007.server.out and 0007.server.err

A launch is written whole or not at all: a reader passes over a half-written last line.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from itertools import pairwise
from pathlib import Path, PurePath
from typing import IO, Any, Final

import msgspec

from npc.files import LARGEST_TABLE, InvalidFile, naming, parse_json, read_bytes, read_end
from npc.launcher import SRUN_VALUE
from npc.records.record import OK

LAUNCHES: Final = "launches.jsonl"
#: Describes the node of the launches (`npc.machine.environment`).
ENVIRONMENT: Final = "environment.json"
RAW: Final = "raw"
#: ``mpirun`` prints a line of hyphens above and below its own messages. Open MPI's has 74; it may stand
#: behind the last line of a rank, where that has no line end.
_RULE: Final = re.compile("-{40,}")
_GLUED_RULE: Final = re.compile(r"(?<=[^-\n])-{74}$", re.MULTILINE)
#: What Slurm's daemon and ``mpirun`` say when a job is ended from outside, and ``srun`` of ranks that failed.
_ENDED_BY: Final = re.compile(
    r"slurmstepd\S*: error: \*\*\* .* \*\*\*|mpirun: Forwarding signal \d+ to job|"
    r"srun: error: \S+: tasks? [\d,-]+: Exited with exit code \d+|srun: Job step aborted: .*|"
    r"srun: launch/slurm: _step_signal: .*"
)
#: Open MPI's help text where ``srun`` gave its ranks no PMI, or another one than it speaks.
_NO_PMI: Final = re.compile(r'^The application appears to have been direct launched using "srun"', re.M)
#: What is to be done then.
_OTHER_PMI: Final = (
    "srun does not start ranks with the PMI of this MPI: mpirun does, or srun with another --mpi "
    '(srun --mpi=list): --set mpi_starter="srun --mpi=pmix"'
)
#: Lines that tell nothing: rules, the trace of ``bash -x`` (JUBE's own job scripts use it), qsub's last line.
_NOTHING: Final = re.compile(r"[-=*\s]*|\++ .*|Exiting\.")
#: Open MPI's help texts about a full disk or a missing right, for example in the folder of its session.
_KEPT_OUT: Final = re.compile(r"^ +(?:Directory|File|Filename|Path): +(/\S+)\n +Error: +(.+)$", re.M)
#: What Lmod prints where a module cannot be loaded: the reason, then advice to the end of the text.
_LMOD: Final = re.compile(
    r"^Lmod has detected the following error:\s*(.+?)\n\s*\n(?:.*\n)?\s*\n\Z", re.M | re.S
)
#: What Apptainer, Docker and Podman print where an image has no such program; crun puts its name in between.
_NOT_INSIDE: Final = re.compile(r"executable file (?:`[^`\n]*` )?not found in \$PATH")
#: A variable that is set for a program, before it or behind ``env``.
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
#: Options of Docker and Podman whose value is the next word: docker-run(1), podman-run(1).
_RUN_VALUE: Final = """
    -a --attach --annotation --add-host --cap-add --cap-drop --cgroup-parent --cgroupns --cidfile --connection
    -c --cpu-shares --cpus --cpuset-cpus --cpuset-mems --device --dns --entrypoint -e --env --env-file --gpus
    --group-add -h --hostname --ip --ipc -l --label --log-driver --log-level --log-opt -m --memory
    --memory-swap --mount --name --network --net --pid --pids-limit --platform --pull --root --runroot
    --runtime --security-opt --shm-size --storage-driver --storage-opt --stop-signal --stop-timeout --sysctl
    --tmpfs --ulimit -u --user --userns --uts -v --volume --volumes-from -w --workdir
"""
#: Options of Apptainer and Singularity whose value is the next word: apptainer-exec(1).
_EXEC_VALUE: Final = """
    --add-caps --app --apply-cgroups -B --bind --blkio-weight --config --cpu-shares --cpus --cpuset-cpus
    --cpuset-mems --cwd --dns --docker-host --drop-caps --env --env-file --fusemount -H --home --hostname
    --memory --memory-reservation --memory-swap --mount --network --network-args --no-mount -o --overlay
    --pids-limit --pwd -S --scratch --security --shm-size -W --workdir
"""
#: Command that people put before a tool → its options whose value is the next word, and patterns of its own
#: words before the tool (taskset's CPUs, timeout's duration, chrt's priority; ``ip netns exec NAME``; of a
#: container its command and its image).
_PREFIXES: Final[Mapping[str, tuple[frozenset[str], tuple[str, ...]]]] = {
    name: (frozenset(options.split()), tuple(own.split()))
    for name, options, own in (
        ("taskset", "", ".+"),
        ("numactl", "-C -N -m -i -w -p -P -S --physcpubind --cpunodebind --membind --interleave "
         "--weighted-interleave --preferred --preferred-many", ""),
        ("env", "-u --unset -C --chdir", ""),
        ("nice", "-n --adjustment", ""),
        ("ionice", "-c --class -n --classdata", ""),
        ("stdbuf", "-i --input -o --output -e --error", ""),
        ("timeout", "-k --kill-after -s --signal", ".+"),
        ("chrt", "-T --sched-runtime -P --sched-period -D --sched-deadline", r"\d+"),
        ("time", "-f --format -o --output", ""),
        ("setarch", "", r"linux\d\d|x86_64|i\d86|aarch64|ppc\w*|riscv\d\d"),
        ("prlimit", "", ""),
        ("nohup", "", ""),
        ("setsid", "", ""),
        ("likwid-pin", "-c -C", ""),
        ("hwloc-bind", "", ".+"),
        ("ip", "-n -netns", "netns exec .+"),
        ("srun", SRUN_VALUE, ""),
        *((name, _EXEC_VALUE, "exec|run .+") for name in ("apptainer", "singularity")),
        *((name, _RUN_VALUE, "run .+") for name in ("podman", "podman-hpc", "docker", "nerdctl")),
        ("enroot", "-c --conf -e --env -m --mount", "start .+"),
        ("ch-run", "-b --bind -c --cd -g --gid -m --mount -u --uid", ".+"),
        ("shifter", "--image -i -V --volume -e --env --env-file -w --workdir -m --module", ""),
    )
}  # fmt: skip
#: Those of them that start containers, and the option that names the image, where that is no word of its own
#: (Pyxis's of ``srun``).
_IMAGE_OPTIONS: Final = {"srun": "--container-image", "shifter": "--image"}
_CONTAINERS: Final = frozenset(
    (
        "apptainer",
        "singularity",
        "podman",
        "podman-hpc",
        "docker",
        "nerdctl",
        "enroot",
        "ch-run",
        *_IMAGE_OPTIONS,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One finished launch. `load`, `moved`, `energy` are None where nobody looked (`npc.machine.around`)."""

    #: Its number among the launches of the folder, which begins the names of its raw files.
    id: int
    #: Command line of the client or of the program, as it was started.
    argv: tuple[str, ...]
    #: When it started, ISO 8601 UTC.
    started: str
    #: Wall time in s.
    seconds: float
    #: Exit code, negative for a signal; None if it never started, or was stopped.
    exit: int | None
    #: ``ok``, or why its numbers must not be used.
    status: str = OK
    #: What the tool measured: ``tcp_bw``; empty where only its output says that.
    case: str = ""
    #: 0, 1, … among the launches of the same case.
    sample: int = 0
    #: What a sweep varied (``{"msg_size": "4096"}``), and the placement: ``server_cpus``, ``client_cpus``
    #: (Linux CPU lists such as ``0-3,8``), ``interface`` (the server's, between two hosts).
    params: Mapping[str, str] = field(default_factory=dict)
    #: How many nodes it ran on.
    nodes: int = 1
    #: Where it ran: the nodes' hosts, the server first; empty if not known.
    hosts: tuple[str, ...] = ()
    #: Path of the tool's output, relative to the folder; empty where there is none.
    raw: str = ""
    #: ``{"cores": 1.9, "others": [{"name": "xhpl", "cores": 0.7}]}``: cores that the program and all that it
    #: waited for used on average, and other processes, on the launcher's node. Of npb's two nodes it is the
    #: one where others took more, and each of the others has its ``host``.
    load: Mapping[str, Any] | None = None
    #: Host → counter of errors, losses or congestion (`npc.machine.counters`) → by how much it rose
    #: meanwhile; only counters that rose.
    moved: Mapping[str, Mapping[str, int]] | None = None
    #: ``{"joules": {host: J}, "seconds": {host: s}, "source": …}`` or ``{"unavailable": reason}``.
    energy: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastKnownMedian:
    """The reason for further launches: of all medians the one with the widest interval."""

    #: Benchmark and case, in words.
    what: str
    #: How far its interval reaches to one side, as a share of the median.
    precision: float
    #: How many samples it is of.
    samples: int
    #: How far the interval should reach at most, as a share of the median.
    goal: float

    def __str__(self) -> str:
        percent = 100 * self.precision
        reached = f"{percent:{'.2g' if percent < 100 else '.0f'}}" if percent < 1000 else "over 1000"
        return f"{self.what} ±{reached} % after {self.samples}, goal ±{100 * self.goal:.2g} %"


@dataclass(frozen=True, slots=True)
class Launches:
    """A folder of launches, as it is read back."""

    #: Where they are.
    folder: Path
    #: Name of the tool, whose parser reads the outputs; empty where nothing was written yet.
    tool: str
    #: How many launches there are to be, as far as that is known. A round that has begun is counted whole; a
    #: case that a round leaves out gets no more launches.
    planned: int
    #: The batch system's name for the job; empty outside of one.
    job: str
    #: In the order in which they ended.
    launches: tuple[Launch, ...]
    #: What further launches are for; None where their number is fixed.
    awaited: LeastKnownMedian | None = None


def command_of(argv: Sequence[str]) -> list[str]:
    """The tool's own command line, without what people put before a tool (``taskset -c 1 env X=Y qperf
    HOST``).

    The whole line where no tool follows (``nice -n 5``, ``ip link``).
    """
    words = list(argv)
    while words:
        name = PurePath(words[0]).name
        if _ASSIGNMENT.fullmatch(words[0]):
            del words[0]
        elif name in _PREFIXES:
            words = _behind(words[1:], *_PREFIXES[name])
        else:
            return words
    return list(argv)


def container_of(argv: Sequence[str]) -> str:
    """Name of the container image that a command line runs its tool in, without its folder; empty for none.

    Also where a launcher stands before it: ``mpirun -n 2 apptainer exec /osu.sif osu_bw`` → ``osu.sif``.
    """
    return _contained(argv)[0]


def not_inside(argv: Sequence[str], text: str) -> str:
    """The status of a launch whose container has no such tool, by what was printed; empty for any other."""
    image, command = _contained(argv) if _NOT_INSIDE.search(text) else ("", ())
    return f"unavailable: {tool_of(command)}: not found in PATH of the container {image}" if image else ""


def _contained(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """(the image's name, the command line in the container); empty where there is none."""
    for place, word in enumerate(argv):
        name, rest = PurePath(word).name, argv[place + 1 :]
        if name not in _CONTAINERS:
            continue
        command = _behind(list(rest), *_PREFIXES[name])
        before = rest[: len(rest) - len(command)]
        if option := _IMAGE_OPTIONS.get(name):
            for given, following in pairwise((*before, "")):
                if given.partition("=")[0] == option:
                    return PurePath(given.partition("=")[2] or following).name, command
        elif command:
            return PurePath(next(word for word in reversed(before) if word != "--")).name, command
    return "", ()


def _behind(words: list[str], valued: Collection[str], own: Sequence[str]) -> list[str]:
    """The words behind a prefix's options and its own words; none where one of these is missing."""
    expected = list(own)
    while words:
        if words[0].startswith("-"):
            del words[: 2 if words[0] in valued else 1]
        elif expected and re.fullmatch(expected[0], words[0]):
            del words[0], expected[0]
        else:
            break
    return [] if expected and len(own) > 1 else words


def tool_of(argv: Sequence[str]) -> str:
    """The tool's name: the program without its folder, and without what stands before it."""
    command = command_of(argv)
    return PurePath(command[0]).name if command else ""


def now() -> str:
    """The present moment as records have it: ISO 8601, UTC, milliseconds."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")


def batch_job() -> str:
    """The batch system's name for the job that this process runs in; empty outside of one."""
    # Grid Engine's JOB_ID is nobody's own name
    grid_engine = "JOB_ID" if "SGE_TASK_ID" in os.environ else ""
    jobs = map(os.environ.get, ("SLURM_JOB_ID", grid_engine, "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID"))
    return next(filter(None, jobs), "")


def last_words(path: Path) -> str:
    """Why a program failed, in one line of at most 200 characters, from the end of what it printed.

    The first of these that is there: a line ``unavailable: …``; a file that the launcher could not open or
    write; Lmod's reason, where nothing follows its message; the program's own last line; the first message of
    the launcher or the batch system (``mpirun`` prints its messages about a failed rank between two rules).
    """
    text = read_end(path, 16384)
    framed = False
    plain: list[str] = []
    comments: list[str] = []
    for line in filter(None, map(str.strip, _GLUED_RULE.sub(r"\n\g<0>", text).splitlines())):
        if _RULE.fullmatch(line):
            framed = not framed
        elif line.startswith("unavailable: "):
            return line[:200]
        else:
            (comments if framed or _ENDED_BY.fullmatch(line) else plain).append(line)
    if kept_out := _KEPT_OUT.search(text):
        return f"{kept_out[2].strip()}: {kept_out[1]}"[:200]
    if _NO_PMI.search(text):
        return _OTHER_PMI
    if lmod := _LMOD.search(text):
        return f"module load: {' '.join(lmod[1].split())}"[:200]
    telling = [line for line in plain if not _NOTHING.fullmatch(line)]
    words = telling[-1:] + comments[:1] + [""]
    return words[0][:200]


class LaunchLog:
    """Appends launches to ``launches.jsonl``. Each line is handed to the system before the next launch."""

    def __init__(self, folder: Path, tool: str, planned: int, seed: int | None = None) -> None:
        """Make `folder` and its ``raw``; raises OSError, FileExistsError if it holds launches already."""
        (folder / RAW).mkdir(parents=True)
        self.folder = folder
        self._stream: IO[str] = (folder / LAUNCHES).open("x", encoding="utf-8")
        self._write({"tool": tool, "planned": planned, "job": batch_job(), "seed": seed})

    def append(self, launch: Launch) -> None:
        """Write one launch."""
        self._write(dataclasses.asdict(launch))

    def expect(self, planned: int, awaited: LeastKnownMedian | None) -> None:
        """Write that there will be `planned` launches in all, and what the further ones are for."""
        self._write({"planned": planned, "awaited": dataclasses.asdict(awaited) if awaited else None})

    def close(self) -> None:
        """Flush to the disk and close."""
        with naming(self.folder / LAUNCHES):
            os.fsync(self._stream.fileno())
            self._stream.close()

    def _write(self, line: Mapping[str, Any]) -> None:
        with naming(self.folder / LAUNCHES):
            self._stream.write(json.dumps(line) + "\n")
            self._stream.flush()


class _Header(msgspec.Struct):
    """The first line."""

    #: Name of the tool.
    tool: str
    #: How many launches there are to be, as far as that is known at the start.
    planned: int
    #: The batch system's name for the job; empty outside of one.
    job: str = ""


class _Expected(msgspec.Struct):
    """A line where a round goes on."""

    #: How many launches there are to be, those before this line included.
    planned: int
    #: What the further ones are for; None if not known.
    awaited: LeastKnownMedian | None = None


def _launch(value: Any) -> Launch:
    """The launch of a line. Raises ValueError."""
    made = msgspec.convert(value, Launch)
    if made.raw.startswith("/") or ".." in made.raw.split("/"):
        raise ValueError(f"raw {made.raw!r} leads out of its folder")
    return made


def read_launches(folder: Path) -> Launches:
    """The launches of a folder. Raises FileNotFoundError without ``launches.jsonl``, and
    `npc.files.InvalidFile` where one of its lines is no launch."""
    path = folder / LAUNCHES
    lines = read_bytes(path, LARGEST_TABLE).split(b"\n")
    lines.pop()  # what follows the last line end: nothing, or the half-written line of a killed writer
    if not lines:
        return Launches(folder, "", 0, "", ())
    launches = []
    number = 1
    try:
        header = msgspec.convert(parse_json(lines[0]), _Header)
        expected = _Expected(header.planned)
        for number, line in enumerate(lines[1:], 2):
            decoded = parse_json(line)
            if isinstance(decoded, dict) and "planned" in decoded:
                expected = msgspec.convert(decoded, _Expected)
            else:
                launches.append(_launch(decoded))
    except (ValueError, msgspec.ValidationError) as error:
        raise InvalidFile(f"{path}:{number}: not a launch: {error}") from None
    planned, awaited = expected.planned, expected.awaited
    return Launches(folder, header.tool, planned, header.job, tuple(launches), awaited)
