"""How a launch and what a parser read in its output become records: this is the only place.

``npb`` has the readings already, `npc.parsers.run.collect` reads them again from the raw files. Both get the
same records here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from npc.records.launch import Launch, container_of, tool_of
from npc.records.reading import Reading
from npc.records.record import OK, InvalidRecord, Record
from npc.records.series import CONTAINER, ENERGY_SOURCE, INTERFACE, RECEIVED, SIZE_NAMES, repeats_size
from npc.records.units import parse_size

#: The metric of a record without a number: every record needs one.
UNREAD: Final = "time"
#: What the cases of tests over the kernel's sockets begin with.
_SOCKETS: Final = ("tcp", "udp", "sctp")


class Origin(NamedTuple):
    """What all records of one folder of launches share."""

    #: Name of the platform that it was measured on.
    platform: str
    #: Name of the benchmark's folder.
    benchmark: str
    #: Name of the folder, or of the JUBE run that it is part of.
    run: str
    #: The batch system's name for the job; empty outside of one.
    job: str = ""


def records_of(launch: Launch, readings: Iterable[Reading], origin: Origin, raw: str) -> Iterator[Record]:
    """One record for each reading; for a launch without readings one record that says why. raw: path of the
    raw file as the records name it.

    The numbers of a failed launch are kept, but they get its status, so that nobody uses them. Where there
    are no numbers, the launch's status counts, which knows more than the parser of an empty text. Where one
    of the readings has the launch's status itself, only this row has failed, and the others are good.
    """
    readings = list(readings) or [unread(launch)]
    readings = [*readings, *_goodput(launch, readings), *_energy(launch, readings)]
    measured = any(reading.value is not None for reading in readings)
    in_one_row = any(reading.status == launch.status for reading in readings)
    for reading in readings:
        if launch.status != OK and not in_one_row and (reading.status == OK or not measured):
            reading = replace(reading, status=launch.status)
        try:
            yield _record(launch, reading, origin, raw)
        except InvalidRecord as error:
            broken = Reading(reading.case, UNREAD, None, None, f"invalid: {error}")
            yield _record(launch, broken, origin, raw)


def _energy(launch: Launch, readings: Sequence[Reading]) -> Iterator[Reading]:
    """Joules and watts of a whole launch that worked, on all its nodes together, where they are known."""
    energy = launch.energy or {}
    if "joules" not in energy or launch.status != OK:
        return
    cases = {reading.case for reading in readings}
    case = cases.pop() if len(cases) == 1 else launch.case or tool_of(launch.argv)
    joules, seconds = energy["joules"], energy["seconds"]
    watts = sum(joules[host] / seconds[host] for host in joules)
    params = {ENERGY_SOURCE: str(energy["source"])}
    yield Reading(case, "energy", float(sum(joules.values())), None, params=params)
    yield Reading(case, "power", watts, None, params=params)


def _goodput(launch: Launch, readings: Sequence[Reading]) -> Iterator[Reading]:
    """Rates at which data arrived, made of those that only the sender counted, where the launch knows which
    share arrived."""
    if RECEIVED not in launch.params:
        return
    received = {reading.metric for reading in readings if reading.params.get("side") != "send"}
    for reading in readings:
        if (
            reading.value is not None
            and reading.params.get("side") == "send"
            and reading.metric not in received
        ):
            params = {name: text for name, text in reading.params.items() if name != "side"}
            yield replace(reading, value=reading.value * float(launch.params[RECEIVED]), params=params)


def unread(launch: Launch, reason: str = "nothing in the output that could be read") -> Reading:
    """The reading that stands for a launch without any."""
    status = launch.status if launch.status != OK else f"failed: {reason}"
    return Reading(launch.case or tool_of(launch.argv), UNREAD, None, status=status)


def record_of_failure(
    status: str,
    origin: Origin,
    time: str,
    raw: str,
    case: str = "",
    nodes: int = 1,
    hosts: tuple[str, ...] = (),
) -> Record:
    """The record that stands for launches that never started. nodes, hosts: where they were to run."""
    where = {"nodes": nodes, "hosts": hosts, **origin._asdict()}
    return Record.of(Reading(case, UNREAD, None, status=status), time=time, raw=raw, **where)


def swept_size(params: Mapping[str, str]) -> int | None:
    """The message size in bytes that a sweep set; None if it varied something else."""
    for name in SIZE_NAMES:
        try:
            return parse_size(params[name])
        except (KeyError, ValueError):
            continue
    return None


def _record(launch: Launch, reading: Reading, origin: Origin, raw: str) -> Record:
    size = reading.size if reading.size is not None else swept_size(launch.params)
    over_sockets = reading.case.startswith(_SOCKETS)
    params = {
        name: text
        for name, text in {**launch.params, **reading.params}.items()
        # Sockets send over this interface. RDMA only uses its address to connect.
        if (name != INTERFACE or over_sockets) and not repeats_size(name, text, size)
    }
    if image := container_of(launch.argv):
        params[CONTAINER] = image
    status = reading.status
    wanted = launch.params.get("ranks")
    ran = int(params.get("ranks", 0)) + int(params.get("waiting", 0))
    if wanted and status == OK and str(ran) != wanted:
        # The launcher of one MPI with the library of another starts every process as a world of its own.
        status = f"invalid: {ran} MPI ranks ran, {wanted} were asked for"
    return Record.of(
        replace(reading, size=size, status=status, params=params),
        time=launch.started,
        nodes=launch.nodes,
        hosts=launch.hosts,
        sample=launch.sample,
        raw=raw,
        **origin._asdict(),
    )
