"""What ``npc doctor`` finds: tools, what is missing and how to get it here, what the preflight checks
find; as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from npc.columns import columns, sentences
from npc.errors import CommandFailed
from npc.machine.environment import collect_environment
from npc.machine.load import busy_processes
from npc.machine.preflight import WATCHED_S, Finding, MpiTrial, preflight, start_two_ranks
from npc.machine.tools import (
    SoftwareSource,
    ToolNeed,
    ToolStatus,
    find_all,
    missing_libraries,
    os_release,
    ways_to_get,
)
from npc.places import home, own, suite, workplace
from npc.terminal import styled

#: Raised whenever a key of the JSON is renamed or changes its meaning.
SCHEMA: Final = 1


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What `diagnose` saw of this machine."""

    #: Every tool of `npc.machine.tools.TOOLS`, those that are missing too.
    tools: tuple[ToolStatus, ...]
    #: What the preflight checks say, errors first; empty where only the tools were looked at.
    findings: tuple[Finding, ...]
    #: Why the main job cannot run, one sentence each; empty if it can.
    problems: tuple[str, ...]


def diagnose(missing_only: bool) -> Diagnosis:
    """Look at everything, or at the tools alone; takes one or two seconds, most of it to start two ranks."""
    tools = find_all()
    findings: list[Finding] = []
    if not missing_only:
        environment = collect_environment(tools=tools)
        # One after the other: the ranks must not be seen as somebody else's load.
        busy = tuple(busy_processes(WATCHED_S))
        findings = preflight(environment, MpiTrial(busy, *start_two_ranks()))
    problems = [
        *missing_for_main_job(tools),
        *(finding.symptom for finding in findings if finding.level == "error"),
    ]
    return Diagnosis(tuple(tools), tuple(findings), tuple(problems))


def missing_for_main_job(tools: Sequence[ToolStatus]) -> list[str]:
    """Why ``npc characterise`` cannot run with these tools, one sentence each; empty if it can."""
    problems = [
        f"{status.tool.name} is missing ({status.tool.command})"
        for status in tools
        if status.path is None and status.tool.need is ToolNeed.REQUIRED
    ]
    if not any(status.path for status in tools if status.tool.need is ToolNeed.BENCHMARK):
        problems.append("not one benchmark tool is there")
    try:
        suite()
    except CommandFailed as error:
        problems.append(str(error))
    return problems


def remedies(tools: Sequence[ToolStatus], site: SoftwareSource) -> list[tuple[str, str]]:
    """(tools, how to get them here) of those that the main job lacks; all packages of the system are in one
    line."""
    missing = [
        status for status in tools if status.path is None and status.tool.need is not ToolNeed.OPTIONAL
    ]
    packaged = [status for status in missing if site.package(status.tool)]
    lines = []
    if packaged:
        packages = " ".join(dict.fromkeys(site.package(status.tool) for status in packaged))
        names = ", ".join(status.tool.name for status in packaged)
        lines.append((names, site.install(packages)))
    if site.apt is not None and (libraries := missing_libraries()):
        lines.append(("libraries of blas, fft, hpcc", site.install(" ".join(libraries))))
    for status in missing:
        ways = ways_to_get(status.tool, site)
        if status in packaged:
            ways = ways[1:]  # its package is in the line above; the others are for who has no sudo
        if ways:
            lines.append((status.tool.name, "; or ".join(ways)))
    return lines


def as_json(diagnosis: Diagnosis, site: SoftwareSource) -> dict[str, Any]:
    """What ``--json`` prints; its keys are described in docs/commands.md."""
    return {
        "schema": SCHEMA,
        "ok": not diagnosis.problems,
        "problems": list(diagnosis.problems),
        "tools": [
            {
                **{name: getattr(status.tool, name) for name in ("command", "name", "used_by", "tags")},
                "path": str(status.path) if status.path else None,
                "version": status.version,
                "need": status.tool.need.value,
                "problem": status.problem or None,
                "get": ways_to_get(status.tool, site) if status.path is None else [],
            }
            for status in diagnosis.tools
        ],
        "traps": [
            {
                "name": finding.name,
                "level": finding.level,
                "seen": finding.symptom,
                "why": finding.why,
                "do": finding.do,
            }
            for finding in diagnosis.findings
        ],
    }


def lines_of(diagnosis: Diagnosis, site: SoftwareSource, missing_only: bool) -> Iterator[str]:
    """The diagnosis for people, line by line."""
    if not missing_only:
        yield from _lines_of_tools(diagnosis.tools)
    if ways := remedies(diagnosis.tools, site):
        system = os_release().get("PRETTY_NAME")
        yield f"Missing, and how to get it here{f' ({system})' if system else ''}:"
        yield from (f"  {names}: {way}" for names, way in ways)
    yield from _lines_of_findings(diagnosis.findings)
    if diagnosis.problems:
        yield f"The main job cannot run: {'; '.join(diagnosis.problems)}."
    elif not missing_only:
        place = "the present folder" if workplace() == Path.cwd() else workplace()
        where = "" if workplace() == home() else f" It writes into {place}; benchmarks: {home()}."
        yield f"\nThe main job can run: {own('npc')} characterise.{where}"


def _lines_of_tools(tools: Sequence[ToolStatus]) -> Iterator[str]:
    rows = [("tool", "version", "used by", "path")]
    for status in tools:
        version = (status.version or "?") if status.path else "missing"
        # the question mark is enough where a tool has no way to say its version
        problem = status.problem if status.tool.version_args or not status.path else ""
        where = ": ".join(filter(None, (str(status.path or ""), problem))) or "-"
        rows.append((status.tool.name, version, status.tool.used_by, where))
    heading, *lines = columns(rows)
    yield styled(heading, bold=True)
    for status, line in zip(tools, lines, strict=True):
        optional = status.tool.need is ToolNeed.OPTIONAL
        colour = "" if status.path or optional else "red"
        yield styled(line, colour, dim=optional and not status.path)


def _lines_of_findings(findings: Sequence[Finding]) -> Iterator[str]:
    colours = {"error": "red", "warning": "yellow", "note": "cyan"}
    for finding in findings:
        yield ""
        level, colon, text = sentences(f"{finding.level}: {finding.symptom}").partition(":")
        yield styled(level, colours[finding.level]) + colon + text
        yield sentences(f"  why: {finding.why}\n  do:  {finding.do}")
