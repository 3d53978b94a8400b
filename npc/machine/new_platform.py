"""What ``npc platform new`` writes: a platform for this cluster, from what Slurm and one of its nodes say.

Slurm is asked for its partitions (``sinfo``, ``scontrol``); a node describes itself in a short job
(``srun npc doctor --environment``). What neither knows is a comment in the files, which says what to look up.

Where the nodes of a partition are not alike, its smallest ones are described: a job that takes no more fits
all of them.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from npc.document import below, entries
from npc.errors import CommandFailed, InvalidUsage
from npc.hostlist import expand, host_text
from npc.machine.ask import NoAnswer, ask
from npc.machine.platform import PLATFORM_FILE, PLATFORMS, read_platform
from npc.machine.proposal import links, propose, virtual
from npc.places import home
from npc.python import python
from npc.records.units import plural
from npc.template import filled_in

#: The platform that a new one is based on, with Slurm or without, and the files that it has from there.
BASE: Final = "slurm"
ALONE: Final = "localhost"
SHARED: Final = {BASE: ("submit.job.in", "chainJobs.sh"), ALONE: ("submit.job.in",)}
#: How long jobs are there (``timelimit`` of `BASE`), as Slurm writes it.
_TIME_LIMIT: Final = "00:30:00"
_ELSEWHERE: Final = "run this on a login node of the cluster, or with --alone for this machine without Slurm"
_TEMPLATES: Final = Path(__file__).parent
#: One line a node: sockets, cores of a socket, threads of a core, CPUs, MB, features, generic resources.
_SINFO: Final = "%R|%n|%X|%Y|%Z|%c|%m|%f|%G"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeKind:
    """Nodes with the same sockets, cores, threads, CPUs and memory."""

    #: Their names, as Slurm orders them.
    nodes: tuple[str, ...]
    #: Cores of one of them.
    cores: int
    #: CPUs (hardware threads) of one of them.
    cpus: int
    #: Memory of one of them in MB, as Slurm has it.
    memory_mb: int

    def __str__(self) -> str:
        size = f"{plural(self.cores, 'core')}, {plural(self.cpus, 'CPU')}, {self.memory_mb / 1000:.0f} GB"
        return f"{host_text(self.nodes)}: {size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition as Slurm describes it, or those of its nodes that have a feature."""

    #: As jobs ask for it: ``--partition``.
    name: str
    #: The feature that its nodes were chosen by (``--constraint``); empty for all of them.
    constraint: str = ""
    #: Whether a job that names no partition goes here.
    default: bool
    #: Its nodes by kind, those with the fewest CPUs first.
    kinds: tuple[NodeKind, ...]
    #: Whether Slurm showed the nodes; if not, the one kind is their average, without their cores.
    shown: bool = True
    #: Features (for ``--constraint``) that any of its nodes has, sorted.
    features: tuple[str, ...]
    #: Generic resources, such as ``gpu:a100:4``, that any of its nodes has, sorted.
    gres: tuple[str, ...]
    #: Slurm's ``MaxTime``, such as ``1-00:00:00``; empty if Slurm does not say.
    time_limit: str
    #: Slurm's ``OverSubscribe``, such as ``EXCLUSIVE``; empty if Slurm does not say.
    exclusive: str

    @property
    def nodes(self) -> int:
        """How many nodes it has."""
        return sum(len(kind.nodes) for kind in self.kinds)

    @property
    def smallest(self) -> NodeKind:
        """Those of its nodes with the fewest CPUs."""
        return self.kinds[0]

    @property
    def short(self) -> str:
        """`time_limit`, where the jobs of `BASE` take longer; else empty."""
        is_short = re.fullmatch(r"\d\d:\d\d:\d\d", self.time_limit) and self.time_limit < _TIME_LIMIT
        return self.time_limit if is_short else ""


def has_slurm() -> bool:
    """Whether Slurm can be asked here."""
    return shutil.which("sinfo") is not None


def partitions(constraint: str = "") -> list[Partition]:
    """What Slurm says of this cluster's partitions, and of their nodes with a feature. Raises CommandFailed
    where it does not answer."""
    if not has_slurm():
        raise CommandFailed(f"Slurm's sinfo is not here: {_ELSEWHERE}")
    try:
        partitions = ask(["scontrol", "--oneliner", "show", "partition"])
        try:
            nodes = ask(["sinfo", "--noheader", "--Node", f"--format={_SINFO}"])
        except NoAnswer as error:
            if not error.is_private or constraint:
                raise
            return averages(partitions)
        return parse_partitions(nodes, partitions, constraint)
    except NoAnswer as error:
        if error.is_private:
            raise CommandFailed(
                f"{error}: PrivateData of slurm.conf, so an operator of Slurm has to"
            ) from None
        raise CommandFailed(f"Slurm does not answer here ({error}): {_ELSEWHERE}") from None


def parse_partitions(nodes: str, partitions: str, constraint: str = "") -> list[Partition]:
    """The partitions from ``sinfo --Node`` in our format and ``scontrol --oneliner show partition``; of nodes
    with a feature, if `constraint` names one."""
    rows: dict[str, list[list[str]]] = {}
    for line in nodes.splitlines():
        name, *rest = line.split("|")
        if len(rest) == 8 and (not constraint or constraint in _words([rest[6]])):
            rows.setdefault(name, []).append(rest)
    described = []
    for fields in fields_of_partitions(partitions):
        own = rows.get(fields.get("PartitionName", ""))
        if not own:
            continue
        kinds: dict[tuple[str, ...], list[str]] = {}
        for row in own:
            kinds.setdefault(tuple(row[1:6]), []).append(row[0])
        described.append(
            _partition(
                fields,
                [
                    NodeKind(
                        nodes=tuple(dict.fromkeys(names)),
                        cores=_number(sockets) * _number(cores),
                        cpus=_number(cpus),
                        memory_mb=_number(memory),
                    )
                    for (sockets, cores, _, cpus, memory), names in kinds.items()
                ],
                constraint=constraint,
                features=_words(row[6] for row in own),
                gres=_words(row[7] for row in own),
            )
        )
    return described


def averages(partitions: str) -> list[Partition]:
    """The partitions from ``scontrol --oneliner show partition`` alone."""
    described = []
    for fields in fields_of_partitions(partitions):
        number = _number(fields.get("TotalNodes", ""))
        cpus = _number(fields.get("TotalCPUs", "")) // max(1, number)
        if cpus:
            memory = re.search(r"mem=(\d+)M", fields.get("TRES", ""))
            kind = NodeKind(
                nodes=tuple(expand(fields.get("Nodes", ""))),
                cores=cpus,
                cpus=cpus,
                memory_mb=int(memory[1]) // number if memory else 0,
            )
            described.append(_partition(fields, [kind], shown=False, features=(), gres=()))
    return described


def fields_of_partitions(partitions: str) -> Iterator[dict[str, str]]:
    """By name the fields of each line of ``scontrol --oneliner show partition``."""
    for line in partitions.splitlines():
        yield dict(word.partition("=")[::2] for word in line.split())


def _partition(fields: Mapping[str, str], kinds: Sequence[NodeKind], **more: Any) -> Partition:
    return Partition(
        name=fields["PartitionName"],
        default=fields.get("Default") == "YES",
        kinds=tuple(sorted(kinds, key=lambda kind: (kind.cpus, kind.memory_mb))),
        time_limit=fields.get("MaxTime", ""),
        exclusive=fields.get("OverSubscribe", ""),
        **more,
    )


def _number(text: str) -> int:
    digits = re.match(r"\d+", text)
    return int(digits[0]) if digits else 0


def _words(lists: Any) -> tuple[str, ...]:
    words = {word for text in lists for word in re.split(r",(?![^(]*\))", text)}
    return tuple(sorted(words - {"(null)", ""}))


def platform_toml(name: str, partition: Partition | None, node: Mapping[str, Any]) -> str:
    """platform.toml: values that are known or proposed as keys, all others as comments.

    node: what ``npc doctor --environment`` says there, or {}.
    """
    return filled_in(
        _TEMPLATES / "platform.toml.in",
        name=name,
        model=below(node, "cpu", "model") or "CPU",
        cores=below(node, "cpu", "cores") or (partition.smallest.cores if partition else None),
        proposed=propose(node),
        links=links(node),
        virtual=virtual(node),
        gpu=next((gpu.get("name") for gpu in entries(node, "gpus")), None),
    )


def platform_xml(
    name: str, partition: Partition | None, account: str, node: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """platform.xml: the differences from platforms/slurm, and in comments what to check; without a partition
    those from platforms/localhost.

    node: as `platform_toml` takes it, for the cores where Slurm does not show them.
    """
    cores = partition.smallest.cores if partition else 0
    return filled_in(
        _TEMPLATES / "platform.xml.in",
        name=name,
        partition=partition,
        account=account,
        base=BASE if partition else ALONE,
        cores=cores if partition and partition.shown else below(node, "cpu", "cores") or cores,
    )


def describe_node(partition: Partition, account: str, patience_s: float) -> dict[str, Any]:
    """What one of the partition's `smallest` nodes says of itself (``npc doctor --environment``). Raises
    CommandFailed."""
    larger = [node for kind in partition.kinds[1:] for node in kind.nodes]
    job = ["srun", "--quiet", "--nodes=1", "--ntasks=1", "--exclusive", "--time=2", "--mpi=none"]
    job += [f"--immediate={max(1, round(patience_s))}", f"--partition={partition.name}"]
    options = {"account": account, "constraint": partition.constraint, "exclude": ",".join(larger)}
    job += [f"--{option}={value}" for option, value in options.items() if value]
    output = ask([*job, *python("-m", "npc", "doctor", "--environment")], patience_s + 120)
    try:
        environment: dict[str, Any]
        # a site's prolog may print something before and behind it
        environment, _ = json.JSONDecoder().raw_decode(output, output.index("{"))
    except ValueError:
        raise CommandFailed(
            f"srun: npc doctor --environment did not describe the node: {output[:200]}"
        ) from None
    return environment


def write_platform(
    folder: Path, partition: Partition | None, node: Mapping[str, Any], account: str = ""
) -> None:
    """Make `folder` and write a platform into it; without a partition that of a single machine.

    Raises OSError, and `InvalidPlatform` where what the node said makes none.
    """
    folder.mkdir(parents=True)
    base = BASE if partition else ALONE
    if not (beside := folder.parent / base).exists():  # where NPC is installed from a wheel
        beside.unlink(missing_ok=True)  # a link to an NPC that has gone
        beside.symlink_to(home() / PLATFORMS / base)
    for shared in SHARED[base]:
        (folder / shared).symlink_to(Path("..") / base / shared)
    name = folder.name
    xml = platform_xml(name, partition, account, node)
    (folder / "platform.xml").write_text(xml, encoding="utf-8")
    (folder / PLATFORM_FILE).write_text(platform_toml(name, partition, node), encoding="utf-8")
    read_platform(folder / PLATFORM_FILE)


def choose(partitions: Sequence[Partition], wanted: str | None, constraint: str = "") -> Partition:
    """The partition that is wanted, else Slurm's default one; constraint: by which their nodes were chosen.
    Raises InvalidUsage."""
    names = ", ".join(partition.name for partition in partitions)
    if wanted is None:
        fitting = [partition for partition in partitions if partition.default]
        problem = f"Slurm has no default partition: --partition, one of {names}"
    else:
        fitting = [partition for partition in partitions if partition.name == wanted]
        problem = f"--partition {wanted}: there are {names}"
    if not fitting and constraint:
        problem = (
            f"--constraint {constraint}: no node of {wanted or 'the default partition'} has this feature"
        )
    if not fitting:
        raise InvalidUsage(problem)
    return fitting[0]
