"""The ``gpus`` section of ``environment.json``: GPUs of this node as NVIDIA's driver tells of them."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from npc.machine import sysfs
from npc.machine.command import ToolOutput, run
from npc.machine.tools import find

#: A driver without persistence takes seconds for each GPU.
_TIMEOUT_S: Final = 30.0
#: Key → nvidia-smi's property, and the factor from its unit to the key's (0: it is a text). Drivers have had
#: these names since the V100; what a driver does not know is left out.
_PROPERTIES: Final[Mapping[str, tuple[str, float]]] = {
    "index": ("index", 1),
    "name": ("name", 0),
    "uuid": ("uuid", 0),
    "address": ("pci.bus_id", 0),
    "driver": ("driver_version", 0),
    "vbios": ("vbios_version", 0),
    "persistence": ("persistence_mode", 0),
    "compute_mode": ("compute_mode", 0),
    "mig": ("mig.mode.current", 0),
    "ecc": ("ecc.mode.current", 0),
    "uncorrected_errors": ("ecc.errors.uncorrected.volatile.total", 1),
    "clock_hz": ("clocks.sm", 1e6),
    "memory_clock_hz": ("clocks.mem", 1e6),
    "max_clock_hz": ("clocks.max.sm", 1e6),
    "max_memory_clock_hz": ("clocks.max.mem", 1e6),
    "power_w": ("power.draw", 1),
    "power_limit_w": ("power.limit", 1),
    "default_power_limit_w": ("power.default_limit", 1),
    "temperature_c": ("temperature.gpu", 1),
    "utilisation": ("utilization.gpu", 0.01),
    "memory_bytes": ("memory.total", 2**20),
    "used_bytes": ("memory.used", 2**20),
    "held_down_by": ("clocks_throttle_reasons.active", 0),
}
#: Bit → why clocks are low (nvml.h, nvmlClocksEventReason…), without idleness (1).
_REASONS: Final[Mapping[int, str]] = {
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "power brake",
    0x100: "display clocks",
}
_SWITCHES: Final = {"Enabled": True, "Disabled": False}


def gpus(root: Path = Path("/")) -> list[dict[str, Any]]:
    """Each GPU with its clocks (Hz), power (W), memory (B), errors, NUMA node, processes and links; an empty
    list without GPUs or without NVIDIA's driver. What it does not tell is None."""
    if find("nvidia-smi") is None:
        return []
    known = dict(_PROPERTIES)
    output = ""
    for _ in range(len(_PROPERTIES)):
        fields = ",".join(name for name, _ in known.values())
        answer = _ask(f"--query-gpu={fields}", "--format=csv,noheader,nounits")
        output = answer.text
        refused = re.search(r'Field "([^"]+)" is not a valid field', output)
        lacking = [key for key, (name, _) in known.items() if refused and name == refused[1]]
        if answer.problem or not lacking:
            break
        del known[lacking[0]]
    rows = [row for row in csv.reader(output.splitlines(), skipinitialspace=True) if len(row) == len(known)]
    described = [_properties(dict(zip(known, row, strict=True))) for row in rows]
    processes, links = list(_processes()) if described else [], dict(_links()) if described else {}
    for gpu in described:
        device = root / "sys/bus/pci/devices" / gpu["address"]
        node = sysfs.number(device / "numa_node")
        gpu["numa_node"] = None if node is None or node < 0 else node  # -1: the firmware does not say
        gpu["near_cpus"] = sysfs.text(device / "local_cpulist")
        gpu["processes"] = [process for uuid, process in processes if uuid == gpu["uuid"]]
        gpu["links"] = links.get(f"GPU{gpu['index']}", {})
    return described


def _ask(*arguments: str) -> ToolOutput:
    return run(["nvidia-smi", *arguments], timeout_s=_TIMEOUT_S)


def _properties(texts: Mapping[str, str]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, (_, factor) in _PROPERTIES.items():
        text = texts.get(key, "").strip()
        if factor:
            number = re.fullmatch(r"[0-9]+(\.[0-9]+)?", text)
            value = float(text) * factor if number else None
            values[key] = int(value) if value is not None and value.is_integer() else value
        elif text.startswith("[") or text in ("", "N/A"):  # [Not Supported], [N/A]
            values[key] = None
        else:
            values[key] = _SWITCHES.get(text, text)
    if values["address"]:  # 00000000:3B:00.0; the kernel writes 0000:3b:00.0
        values["address"] = values["address"].lower()[-12:]
    if values["held_down_by"] is not None:
        bits = int(values["held_down_by"], 16)
        values["held_down_by"] = [name for bit, name in _REASONS.items() if bits & bit]
    return values


def _processes() -> Iterator[tuple[str, dict[str, Any]]]:
    """(GPU's UUID, a process that computes on it)."""
    output = _ask("--query-compute-apps=gpu_uuid,pid,name,used_memory", "--format=csv,noheader,nounits").text
    for row in csv.reader(output.splitlines(), skipinitialspace=True):
        if len(row) == 4 and row[1].isdecimal():
            used = int(row[3]) * 2**20 if row[3].isdecimal() else None
            yield row[0], {"pid": int(row[1]), "name": Path(row[2]).name, "used_bytes": used}


def _links() -> Iterator[tuple[str, dict[str, str]]]:
    """(``GPU0``, what each other GPU or network card is reached by): ``NV18`` is 18 NVLinks, ``PIX`` one PCI
    Express bridge; a card by its name, ``mlx5_0``."""
    output = _ask("topo", "-m").text
    cards = dict(re.findall(r"^ +(NIC\d+): (\S+)", output, re.MULTILINE))
    heading, *rows = [[cell.strip() for cell in line.split("\t")] for line in output.splitlines()] or [[]]
    for row in rows:
        if re.fullmatch(r"GPU\d+", row[0]):
            reached = dict(zip(heading[1:], row[1:], strict=False))
            yield (
                row[0],
                {
                    cards.get(name, name): by
                    for name, by in reached.items()
                    if re.fullmatch(r"GPU\d+|NIC\d+|mlx\S+", name) and by != "X"
                },
            )
