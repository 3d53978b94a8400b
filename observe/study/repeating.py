"""``npc program study repeat``: a study done again, by its own plan, order and platform files, and what
differs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Final

from npc import __version__
from npc.columns import columns
from npc.machine.facts import of_machine
from npc.observe.study.making import sha256_of, write_folder
from npc.observe.study.outputs import ratio_text
from npc.observe.study.records import Expectation, Study, read_study
from npc.observe.study.starters import PLATFORMS, StudyPlace
from npc.records.environment import read_environment
from npc.records.launch import ENVIRONMENT, now
from npc.statistics.medians import false_discovery
from npc.statistics.rank_sum import rank_test

#: Conditions differ below this share of false ones among those that are called so.
_DISCOVERY: Final = 0.05


def prepare(
    folder: Path, output: Path | None, platform: Path | None, home: Path, limit_s: float | None
) -> StudyPlace:
    """The folder of the second study, with nothing measured yet. Raises ValueError, click.ClickException."""
    first = read_study(folder)
    again = (output or folder.with_name(f"{folder.name}-again")).absolute()
    source = platform or folder / PLATFORMS / first.platform
    there = Path(first.folder)
    study = replace(
        first,
        started=now(),
        platform=source.name,
        platform_folder=str(platform) if platform else first.platform_folder,
        folder=str(there if there.is_dir() else Path.cwd()),
        sha256=sha256_of(first.file) if Path(first.file).is_file() else "",
        version=__version__,
        expectations=tuple(Expectation(expectation.text, now()) for expectation in first.expectations),
        ran=(),
        model=None,
        best=(),
    )
    place = StudyPlace(again, home, limit_s)
    write_folder(study, place, source)
    return place


def differences(before: Path, after: Path) -> Iterator[str]:
    """What differs between two studies of one plan, a line each: machine and program, then times."""
    first, second = read_study(before), read_study(after)
    facts = [_facts(before, first), _facts(after, second)]
    for name in dict.fromkeys((*facts[0], *facts[1])):
        was, is_now = (fact.get(name, "not told") for fact in facts)
        if was != is_now:
            yield f"{name}: {was} → {is_now}"
    yield from _times(first, second)
    for old, new in zip(first.expectations, second.expectations, strict=False):
        if old.held != new.held:
            yield f"expected {old.text}: {old.held} → {new.held}"


def _facts(folder: Path, study: Study) -> dict[str, str]:
    """What may be the reason: the machine, the program, NPC, the platform's files."""
    environment = read_environment(folder / ENVIRONMENT) or {}
    facts = {name: text for name, text in of_machine(environment).items() if name != "NPC"}
    commit = of_machine(environment).get("NPC", study.version)
    facts |= {"program": study.sha256[:16], "NPC": commit, "platform": study.platform, "folder": study.folder}
    for file in sorted((folder / PLATFORMS).rglob("*")):
        if file.is_file():
            facts[str(file.relative_to(folder))] = sha256_of(str(file))[:16]
    return facts


def _times(first: Study, second: Study) -> Iterator[str]:
    """Each condition's times, now over then."""
    both = [
        (condition.name, then, new)
        for condition in first.conditions
        if (then := first.seconds(condition.name)) and (new := second.seconds(condition.name))
    ]
    if not both:
        yield "no condition has times on both sides"
        return
    chances = false_discovery([rank_test(then, new) for _, then, new in both])
    rows = [("condition", "seconds then", "now", "now over then", "")]
    for (name, then, new), chance in zip(both, chances, strict=True):
        differs = "differs" if chance <= _DISCOVERY else ""
        rows.append((name, f"{median(then):.4g}", f"{median(new):.4g}", ratio_text(then, new), differs))
    yield from columns(rows, right=(1, 2))
    number = sum(chance <= _DISCOVERY for chance in chances)
    yield f"{number} of {len(both)} conditions differ by their launches; days of one machine may, too"
