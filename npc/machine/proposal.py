"""Nominal limits that follow from what a machine says of itself, each with where it comes from.

They are proposals: nobody has compared them with a data sheet. What follows from the instruction set and the
model's name is by Intel's product pages ("# of AVX-512 FMA Units"), Intel's Optimization Reference Manual
(248966) and AMD's Software Optimization Guides for families 17h, 19h and 1Ah.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from npc.document import below, entries
from npc.machine.memory import bandwidth
from npc.machine.platform import Interface, Platform, link_data_rate

#: Skylake and Cascade Lake with one AVX-512 unit: Bronze, Silver, and Gold 5xxx but for 5122 and 5222.
_ONE_UNIT: Final = re.compile(r"(Bronze|Silver) \d{4}|Gold 5(?!122|222)\d{3}")


class ProposedLimit(NamedTuple):
    """A limit that the machine itself suggests."""

    #: In the unit of the field of `npc.machine.platform.NodeLimits`; a bool for ``fma``.
    value: float | bool
    #: What it follows from, in words.
    why: str


def propose(environment: Mapping[str, Any]) -> dict[str, ProposedLimit]:
    """Key of ``[node]`` → the limit that an ``environment.json`` suggests; without keys that it says nothing
    about."""
    limits: dict[str, ProposedLimit] = {}
    cpu = below(environment, "cpu")
    cpu = cpu if isinstance(cpu, Mapping) else {}
    if cores := cpu.get("cores"):
        limits["cores"] = ProposedLimit(cores, "as the machine counts them")
    if clock := _clock(cpu):
        limits["clock_hz"] = clock
    limits |= _simd(cpu)
    dimms = entries(environment, "memory", "dimms")
    if moved := bandwidth(dimms, below(environment, "memory", "channels")):
        limits["memory_bandwidth"] = ProposedLimit(*moved)
    return limits


def _clock(cpu: Mapping[str, Any]) -> ProposedLimit | None:
    """The base clock: by the model's name (Intel's), the frequency driver, or the time-stamp counter."""
    if named := re.search(r"@ ?(\d+(?:\.\d+)?) ?GHz", cpu.get("model") or ""):
        return ProposedLimit(float(named[1]) * 1e9, "the base clock in the model's name")
    if base := below(cpu, "frequency", "base_hz"):
        return ProposedLimit(float(base), "the base clock that the frequency driver tells")
    if counter := below(cpu, "frequency", "counter_hz"):
        # on Intel's and AMD's server CPUs it counts at about the base clock
        return ProposedLimit(
            round(counter / 1e8) * 1e8, "the time-stamp counter's rate, mostly the base clock"
        )
    return None


def _simd(cpu: Mapping[str, Any]) -> dict[str, ProposedLimit]:
    """Width, units and FMA of the SIMD instructions that are executed at full rate."""
    flags, model = set(cpu.get("flags") or ()), cpu.get("model") or ""
    if not flags & {"sse2", "avx", "avx512f"}:
        return {}
    fma = bool(flags & {"fma", "fma4"})
    bits, units, why = 128, 2, "one addition and one multiplication a cycle"
    if "avx512f" in flags and cpu.get("vendor") == "AuthenticAMD":
        bits = 512 if "avx512_vp2intersect" in flags else 256
        why = "two units of 512 bits (Zen 5)" if bits == 512 else "AVX-512 in two units of 256 bits (Zen 4)"
    elif "avx512f" in flags:
        one = "avx512_vbmi2" not in flags and _ONE_UNIT.search(model)
        bits, units = 512, 1 if one or "Xeon" not in model else 2
        why = f"{'one AVX-512 unit' if units == 1 else 'two AVX-512 units'}, by the model"
    elif "avx" in flags:
        narrow = cpu.get("vendor") == "AuthenticAMD" and "clwb" not in flags
        bits = 128 if narrow else 256
        why = "two FMA units" if fma else why
        why = f"{why} of 128 bits (Zen)" if narrow and fma else why
    return {
        "simd_bits": ProposedLimit(bits, "by the CPU's flags"),
        "simd_units": ProposedLimit(units, why),
        "fma": ProposedLimit(fma, "flag fma" if fma else "no flag fma"),
    }


def links(environment: Mapping[str, Any]) -> dict[str, str | None]:
    """Interface that is up → its link; None where it has an address, but its rate is not known."""
    rates = {port.get("device"): port for port in entries(environment, "rdma") if port.get("rate")}
    link_of: dict[str, str | None] = {}
    for interface in entries(environment, "interfaces"):
        if interface.get("state") != "up" or interface.get("type") == "loopback":
            continue
        ports = [rates[device] for device in interface.get("rdma_devices") or () if device in rates]
        named = re.search(r"\((\d+)X (\w+)\)", ports[0]["rate"]) if ports else None
        if named and interface.get("type") == "infiniband":
            link = f"{named[1]}x {named[2]}"
        elif interface.get("speed_bit_s"):
            link = f"{interface['speed_bit_s'] / 1e9:g} GbE"
        else:
            link = ""
        try:
            link_data_rate(link)
            link_of[interface["name"]] = link
        except ValueError:  # no rate, or none that links have
            if interface.get("addresses"):
                link_of[interface["name"]] = None
    return link_of


def virtual(environment: Mapping[str, Any]) -> set[str]:
    """Interfaces without a device of their own (a bond, a container's), whose rate may be made up."""
    return {entry["name"] for entry in entries(environment, "interfaces") if entry.get("driver") is None}


def completed(platform: Platform, environment: Mapping[str, Any]) -> tuple[Platform, dict[str, str]]:
    """The platform, completed by what its machine suggests where its file says nothing; and key → what was
    added, and why."""
    node = {key: limit for key, limit in propose(environment).items() if getattr(platform, key) is None}
    added = {key: f"{shown(limit.value)}: {limit.why}" for key, limit in node.items()}
    links_of_node = {
        name: link
        for name, link in links(environment).items()
        if link and name not in virtual(environment) and not platform.interfaces
    }
    added |= {f"interfaces.{name}": f"{link}: as the interface says" for name, link in links_of_node.items()}
    whole = msgspec.structs.replace(
        platform,
        **{key: limit.value for key, limit in node.items()},
        proposed=(*platform.proposed, *node),
        interfaces={
            **platform.interfaces,
            **{name: Interface(name, link, link_data_rate(link)) for name, link in links_of_node.items()},
        },
    )
    return whole, added


def shown(value: float | bool) -> str:
    """As TOML has it."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}"
