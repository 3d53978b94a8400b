"""What ``npc platform new`` writes: a platform for this cluster, from what Slurm and one of its nodes say.

Slurm is asked for its partitions (``sinfo``, ``scontrol``); a node describes itself in a short job
(``srun npc doctor --environment``). What neither knows is a comment in the files, which says what to look up.
"""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from npc.document import below, entries
from npc.errors import CommandFailed, InvalidUsage
from npc.machine.ask import NoAnswer, ask
from npc.machine.platform import PLATFORM_FILE, PLATFORMS, read_platform
from npc.machine.proposal import links, propose, virtual
from npc.places import home
from npc.python import python
from npc.template import filled_in

#: The platform that a new one is based on, with Slurm or without, and the files that it has from there.
BASE: Final = "slurm"
ALONE: Final = "localhost"
SHARED: Final = {BASE: ("submit.job.in", "chainJobs.sh"), ALONE: ("submit.job.in",)}
_ELSEWHERE: Final = "run this on a login node of the cluster, or with --alone for this machine without Slurm"
_TEMPLATES: Final = Path(__file__).parent
#: One line a node: sockets, cores of a socket, threads of a core, CPUs, MB, features, generic resources.
_SINFO: Final = "%R|%n|%X|%Y|%Z|%c|%m|%f|%G"


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition as Slurm describes it."""

    #: As jobs ask for it: ``--partition``.
    name: str
    #: Whether a job that names no partition goes here.
    default: bool
    #: How many nodes it has.
    nodes: int
    #: Cores of the node with the fewest CPUs.
    cores: int
    #: CPUs (hardware threads) of that node.
    cpus: int
    #: Memory of that node in MB, as Slurm has it.
    memory_mb: int
    #: Whether all nodes have the same sockets, cores, threads, CPUs and memory.
    uniform: bool
    #: Features (for ``--constraint``) that any of its nodes has, sorted.
    features: tuple[str, ...]
    #: Generic resources, such as ``gpu:a100:4``, that any of its nodes has, sorted.
    gres: tuple[str, ...]
    #: Slurm's ``MaxTime``, such as ``1-00:00:00``; empty if Slurm does not say.
    time_limit: str
    #: Slurm's ``OverSubscribe``, such as ``EXCLUSIVE``; empty if Slurm does not say.
    exclusive: str


def has_slurm() -> bool:
    """Whether Slurm can be asked here."""
    return shutil.which("sinfo") is not None


def partitions() -> list[Partition]:
    """What Slurm says of this cluster. Raises CommandFailed where it does not answer."""
    if not has_slurm():
        raise CommandFailed(f"Slurm's sinfo is not here: {_ELSEWHERE}")
    try:
        return parse_partitions(
            ask(["sinfo", "--noheader", "--Node", f"--format={_SINFO}"]),
            ask(["scontrol", "--oneliner", "show", "partition"]),
        )
    except NoAnswer as error:
        raise CommandFailed(f"Slurm does not answer here ({error}): {_ELSEWHERE}") from None


def parse_partitions(nodes: str, partitions: str) -> list[Partition]:
    """The partitions from ``sinfo --Node`` in our format and ``scontrol --oneliner show partition``."""
    rows: dict[str, list[list[str]]] = {}
    for line in nodes.splitlines():
        name, *rest = line.split("|")
        if len(rest) == 8:
            rows.setdefault(name, []).append(rest)
    described = []
    for line in partitions.splitlines():
        fields = dict(word.partition("=")[::2] for word in line.split())
        own = rows.get(fields.get("PartitionName", ""))
        if not own:
            continue
        smallest = min(own, key=lambda row: (_number(row[4]), _number(row[5])))
        described.append(
            Partition(
                name=fields["PartitionName"],
                default=fields.get("Default") == "YES",
                nodes=len({row[0] for row in own}),
                cores=_number(smallest[1]) * _number(smallest[2]),
                cpus=_number(smallest[4]),
                memory_mb=_number(smallest[5]),
                uniform=len({tuple(row[1:6]) for row in own}) == 1,
                features=_words(row[6] for row in own),
                gres=_words(row[7] for row in own),
                time_limit=fields.get("MaxTime", ""),
                exclusive=fields.get("OverSubscribe", ""),
            )
        )
    return described


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
        cores=below(node, "cpu", "cores") or (partition.cores if partition else None),
        proposed=propose(node),
        links=links(node),
        virtual=virtual(node),
        gpu=next((gpu.get("name") for gpu in entries(node, "gpus")), None),
    )


def platform_xml(name: str, partition: Partition | None, account: str) -> str:
    """platform.xml: the differences from platforms/slurm, and in comments what to check; without a partition
    those from platforms/localhost."""
    base = BASE if partition else ALONE
    return filled_in(
        _TEMPLATES / "platform.xml.in", name=name, partition=partition, account=account, base=base
    )


def describe_node(partition: Partition, account: str, patience_s: float) -> dict[str, Any]:
    """What a node of the partition says of itself (``npc doctor --environment``). Raises
    CommandFailed."""
    job = ["srun", "--quiet", "--nodes=1", "--ntasks=1", "--exclusive", "--time=2", "--mpi=none"]
    job += [f"--immediate={max(1, round(patience_s))}", f"--partition={partition.name}"]
    job += [f"--account={account}"] if account else []
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
    (folder / "platform.xml").write_text(platform_xml(name, partition, account), encoding="utf-8")
    (folder / PLATFORM_FILE).write_text(platform_toml(name, partition, node), encoding="utf-8")
    read_platform(folder / PLATFORM_FILE)


def choose(partitions: Sequence[Partition], wanted: str | None) -> Partition:
    """The partition that is wanted, else Slurm's default one. Raises InvalidUsage."""
    names = ", ".join(partition.name for partition in partitions)
    if wanted is None:
        fitting = [partition for partition in partitions if partition.default]
        problem = f"Slurm has no default partition: --partition, one of {names}"
    else:
        fitting = [partition for partition in partitions if partition.name == wanted]
        problem = f"--partition {wanted}: there are {names}"
    if not fitting:
        raise InvalidUsage(problem)
    return fitting[0]
