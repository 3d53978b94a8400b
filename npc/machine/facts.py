"""What an ``environment.json`` says of a machine, in words for people; and which machines differ."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from npc.document import below, entries
from npc.machine.pcie import IDLES
from npc.records.environment import read_environment
from npc.records.units import format_quantity, format_size, plural

#: Variables of an ``environment.json`` that only describe the job, NPC, or where files are.
_OF_NO_MATTER: Final = re.compile(
    r"(SLURM|PBS|LSB|NPC|JUBE|PMIX|HYDRA)_\w+|OMPI_(?!MCA_)\w+|PATH|LD_LIBRARY_PATH|VIRTUAL_ENV"
)
#: Among fewer machines it is not known which one differs.
LEAST: Final = 3


def of_machine(environment: Mapping[str, Any]) -> dict[str, str]:
    """The facts in an ``environment.json`` by which two runs may be compared: none about the run itself."""
    if not environment:
        return {}
    whole = {**dict(software(environment)), **dict(hardware(environment))}
    # each tool by itself; that of mpirun stands with MPI
    versions = {
        name: _text(tool, "version") for name, tool in _items(environment, "tools") if name != "mpirun"
    }
    facts = {what: text for what, text in whole.items() if what not in ("command", "tools", "Slurm job")}
    return {what: text for what, text in (facts | versions).items() if text}


def tuning(environment: Mapping[str, Any]) -> dict[str, str]:
    """The variables that change how MPI, OpenMP, network libraries and the loader work, by their names."""
    return {
        name: str(text)
        for name, text in _items(environment, "variables")
        if not _OF_NO_MATTER.fullmatch(name)
    }


def software(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(fact, what an ``environment.json`` says of it): the software."""
    yield "command", _text(environment, "command")
    changed = "and changes" if below(environment, "npc", "dirty") else ""
    yield (
        "NPC",
        _words(_text(environment, "npc", "version"), _text(environment, "npc", "commit")[:10], changed),
    )
    kernel = _words(_text(environment, "kernel", "name"), _text(environment, "kernel", "release"))
    yield "operating system", _words(_text(environment, "os", "name"), kernel, between=", ")
    yield (
        "MPI",
        _words(_text(environment, "mpi", "launcher"), _text(environment, "mpi", "library"), between="; "),
    )
    yield "Python", _text(environment, "python", "version")
    tools = [_words(name, _text(tool, "version")) for name, tool in _items(environment, "tools") if tool]
    yield "tools", ", ".join(tools)
    yield "Slurm job", _text(environment, "slurm", "SLURM_JOB_ID") or "none"


def hardware(environment: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """(fact, what an ``environment.json`` says of it): the hardware, and how it is set up."""
    inside = (_text(environment, "virtualisation", name) for name in ("hypervisor", "container"))
    yield "virtual machine, container", _words(*inside, between=", ") or "none seen"
    counts = (
        plural(number, name)
        for name in ("socket", "core", "thread")
        if isinstance(number := below(environment, "cpu", f"{name}s"), int)
    )
    yield "processor", _words(_text(environment, "cpu", "model"), *counts, between=", ")
    yield "caches", ", ".join(map(_cache, entries(environment, "cpu", "caches")))
    governors = (
        f"{name} ({number})" for name, number in _items(environment, "cpu", "frequency", "governors")
    )
    yield "governor", ", ".join(governors) or "not told"
    yield "memory", _bytes(below(environment, "memory", "total_bytes"))
    transparent = _text(environment, "memory", "transparent_huge_pages")
    yield "huge pages", f"{_text(environment, 'memory', 'huge_pages')} reserved, transparent: {transparent}"
    yield "interfaces", "; ".join(map(_interface, entries(environment, "interfaces")))
    ports = [
        _words(*(_text(port, key) for key in ("device", "state", "rate")))
        for port in entries(environment, "rdma")
    ]
    yield "RDMA", "; ".join(ports) or "none"
    yield "PCIe", "; ".join(map(_pcie, entries(environment, "pcie")))
    yield "GPUs", "; ".join(map(_gpu, entries(environment, "gpus")))


def odd_ones(environments: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Which machines differ from most others, and in what, a line for each fact. environments:
    ``environment.json`` by machine.

    Only facts that more than half of the machines share, and at least `LEAST` machines have.
    """
    facts = {name: of_machine(environment) for name, environment in environments.items()}
    lines = []
    for what in dict.fromkeys(what for facts_of_one in facts.values() for what in facts_of_one):
        values = {name: facts_of_one[what] for name, facts_of_one in facts.items() if what in facts_of_one}
        (usual, times), *_ = Counter(values.values()).most_common(1)
        if len(values) >= LEAST and times > len(values) / 2:
            odd = (name for name, value in values.items() if value != usual)
            lines += [f"{name}: {what} {values[name]}; {times} others have {usual}" for name in odd]
    return lines


def read_environments(files: Iterable[Path]) -> dict[str, Mapping[str, Any]]:
    """Host → its ``environment.json``, the newest one of these files. A file that cannot be read is passed
    over."""
    environments: dict[str, Mapping[str, Any]] = {}
    for file in files:
        environment = read_environment(file) or {}
        name, time = (
            _text(environment, "host", "name"),
            _text(environment, "time"),
        )  # all are UTC, in one format
        if name and time >= _text(environments.get(name, {}), "time"):
            environments[name] = environment
    return environments


def _cache(cache: Mapping[str, Any]) -> str:
    name = f"L{_text(cache, 'level')} {_text(cache, 'type')}"
    return f"{name} {_text(cache, 'instances')} × {_bytes(below(cache, 'size_bytes'))}"


def _interface(interface: Mapping[str, Any]) -> str:
    speed = below(interface, "speed_bit_s")
    rate = format_quantity(speed, "bit/s", 3) if isinstance(speed, int | float) else ""
    facts = [_text(interface, "type"), _text(interface, "state"), rate, f"MTU {_text(interface, 'mtu')}"]
    return f"{_text(interface, 'name')} ({_words(*facts, between=', ')})"


def _pcie(link: Mapping[str, Any]) -> str:
    transfers = below(link, "transfers_s") if _text(link, "kind") not in IDLES else None
    rate = f"{transfers / 1e9:g} GT/s" if isinstance(transfers, int | float) else ""
    return _words(_text(link, "name"), rate, f"x{_text(link, 'width')} of x{_text(link, 'max_width')}")


def _gpu(gpu: Mapping[str, Any]) -> str:
    ecc = {"True": "ECC on", "False": "ECC off"}.get(_text(gpu, "ecc"), "")
    limit = below(gpu, "power_limit_w")
    power = f"at most {limit:g} W" if isinstance(limit, int | float) else ""
    driver = f"driver {_text(gpu, 'driver')}"
    name, memory = f"{_text(gpu, 'index')}: {_text(gpu, 'name')}", _bytes(below(gpu, "memory_bytes"))
    return _words(name, memory, ecc, power, driver, between=", ")


def _text(environment: Any, *keys: str) -> str:
    value = below(environment, *keys)
    return "" if value is None else str(value)


def _items(environment: Any, *keys: str) -> Collection[tuple[str, Any]]:
    value = below(environment, *keys)
    return value.items() if isinstance(value, Mapping) else ()


def _words(*words: str, between: str = " ") -> str:
    return between.join(filter(None, words))


def _bytes(number: Any) -> str:
    return format_size(number) if isinstance(number, int | float) else "not told"
