"""Writes ``jube.yml``, the whole characterisation, from the benchmarks' own files: ``make jube.yml``.

Steps, analysers and tables are those of each ``benchmarks/NAME/benchmark.xml``; the catalogue has the tags.
JUBE includes XML into XML and YAML into YAML, but neither into the other (2.5.1, 2.7.1).
"""

from __future__ import annotations

import json
import os
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import yaml

from npc import catalogue
from npc.choices import TAGS
from npc.places import home
from npc.terminal import guard

#: The order of the steps: a benchmark a name. One that is added has its name at the end.
ORDER: Final = (
    "qperf", "perftest", "sockperf", "iperf3", "osu",
    "stream", "memory", "likwid", "blas", "fft", "fio", "noise",
    "hpcc", "himeno", "hpcg", "models", "imb", "netpipe", "nuttcp", "patterns", "ior", "mdtest",
    "gpu", "babelstream", "nvbandwidth", "nccl",
)  # fmt: skip
#: What does not run where nobody names a tag.
ON_REQUEST: Final = frozenset({"rdma", "apps", "models", "tools", "gpu"})
_PLAIN: Final = re.compile(r"[A-Za-z$][\w$./ ]*\w")
_HEAD: Final = """\
# Written by `make jube.yml` from benchmarks/*/benchmark.xml: change those, not this.
#
# The whole characterisation: one step a benchmark.
#
#   jube run jube.yml                                   all of it
#   jube run jube.yml --tag network memory              what belongs to these
#   jube run jube.yml --include-path platforms/NAME     on another machine
#   jube analyse runs && jube result runs               the headline numbers
#
# Without tags everything runs but what needs special hardware (rdma, gpu), takes long (apps), or is asked for
# (models, tools).

name: npc
outpath: runs
comment: NPC, the Network Performance Collector
"""


def jube_yml(suite: Path) -> str:
    """The text of ``jube.yml`` for the benchmarks in a suite's folder.

    Raises ValueError for a benchmark without a place in `ORDER` or a step in the catalogue.
    """
    folders = {file.parent.name for file in suite.glob("benchmarks/*/benchmark.xml")}
    if unknown := folders ^ set(ORDER):
        raise ValueError(f"in npc/catalogue/jube_yml.py or in benchmarks/, not in both: {sorted(unknown)}")
    tags = {name: tags_of(name) for name in ORDER}
    files = {name: ET.parse(suite / "benchmarks" / name / "benchmark.xml").getroot() for name in ORDER}
    labels: dict[str, str] = {}
    lines = [_HEAD]
    for part, write in {"step": _step, "analyser": _analyser, "result": _result}.items():
        lines.append(f"\n{part}:\n")
        for name in ORDER:
            tag = _tag(tags[name], labels)
            for element in files[name].iter(part):
                lines += [f"  {line}\n" for line in write(element, name, tag)]
    return "".join(lines)


def tags_of(benchmark: str) -> tuple[str, ...]:
    """The tags of a benchmark's steps, each once. Raises ValueError where there is none, or one of no run."""
    steps = [step for step in catalogue.steps() if step.name.split()[0] == benchmark]
    tags = tuple(dict.fromkeys(tag for step in steps for tag in step.tags))
    if not tags or set(tags) - set(TAGS):
        raise ValueError(f"the catalogue has no step of {benchmark} with tags of {', '.join(TAGS)}")
    return tags


def _tag(tags: tuple[str, ...], labels: dict[str, str]) -> str:
    """The condition of some tags; written out where it is first used, its name after that."""
    label, known = "_or_".join(tags), "_or_".join(tags) in labels
    without_any = "+".join(f"!{tag}" for tag in TAGS)
    labels[label] = "|".join(tags) if ON_REQUEST.issuperset(tags) else f"{'|'.join(tags)}|({without_any})"
    return f"*{label}" if known else f"&{label} {json.dumps(labels[label])}"


def _step(step: ET.Element, benchmark: str, tag: str) -> Iterator[str]:
    yield from _attributes(step, tag)
    yield from _several("use", [_use(use, benchmark) for use in step.iter("use")])
    yield from _several("do", [_flow([*do.attrib.items(), ("_", do.text or "")]) for do in step.iter("do")])


def _analyser(analyser: ET.Element, benchmark: str, tag: str) -> Iterator[str]:
    yield from _attributes(analyser, tag)
    yield from _several("use", [_use(use, benchmark) for use in analyser.iter("use")])
    analyses = [
        _flow([*analyse.attrib.items(), *(("file", file.text or "") for file in analyse)])
        for analyse in analyser.iter("analyse")
    ]
    yield from _several("analyse", analyses)


def _result(result: ET.Element, _: str, tag: str) -> Iterator[str]:
    yield from _attributes(result, tag)
    yield from _several("use", [use.text or "" for use in result.iter("use")])
    yield "  table:"
    for table in result.iter("table"):
        yield from (f"    {line}" for line in _attributes(table))
        yield "      column:"
        for column in table.iter("column"):
            yield f"        - {_flow([*column.attrib.items(), ('_', column.text or '')])}"


def _attributes(element: ET.Element, tag: str = "") -> Iterator[str]:
    """The beginning of an entry of a list. tag: the condition in the suite, as it is written."""
    items = [f"{name}: {_scalar(value)}" for name, value in element.attrib.items()]
    if tag:
        items.insert(1, f"tag: {tag}")
    for number, item in enumerate(items):
        yield f"  {item}" if number else f"- {item}"


def _several(name: str, values: Sequence[str]) -> Iterator[str]:
    if len(values) == 1:
        yield f"  {name}: {values[0]}"
    else:
        yield f"  {name}:"
        yield from (f"    - {value}" for value in values)


def _use(use: ET.Element, benchmark: str) -> str:
    """A ``<use>`` as seen from the suite's folder; JUBE looks for the platform's file in its include path."""
    source = use.attrib["from"]
    if source != "platform.xml":
        source = os.path.normpath(f"benchmarks/{benchmark}/{source}")
    return _flow([("from", source), ("_", use.text or "")])


def _flow(items: Iterable[tuple[str, str]]) -> str:
    return "{" + ", ".join(f"{name}: {_scalar(value)}" for name, value in items) + "}"


def _scalar(text: str) -> str:
    """A text in YAML; in quotes where it could be anything else without them."""
    plain = _PLAIN.fullmatch(text) and isinstance(yaml.safe_load(text), str)
    return text if plain else json.dumps(text, ensure_ascii=False)


if __name__ == "__main__":
    guard()
    try:
        (home() / "jube.yml").write_text(jube_yml(home()), encoding="utf-8")
    except (OSError, ValueError, ET.ParseError) as error:
        sys.exit(f"jube.yml: {error}")
