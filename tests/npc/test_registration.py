"""What a site's package adds by entry points: a section, a rule, a check, a parser; and what fails of it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from npc import registration

FILES = {
    "site_npc-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: site-npc\nVersion: 1.0\n",
    "site_npc-1.0.dist-info/entry_points.txt": """
[npc.sections]
queue = site_npc.section
broken = site_npc.broken
[npc.advice]
licence = site_npc.advice
[npc.checks]
badge = site_npc.check
broken = site_npc.broken
[npc.limits]
queue = site_npc.broken
[npc.parsers]
site = site_npc.tools
[npc.commands]
gone = npc.observe.no_such_part.command:gone
queue = site_npc.section:command
""",
    "site_npc/__init__.py": "",
    "site_npc/broken.py": "raise RuntimeError('no licence')\n",
    "site_npc/section.py": """
from npc.page.blocks import Text
TITLE, PLACE = "Queue", 15
def build(report):
    yield Text("three jobs wait")
""",
    "site_npc/rules.toml": """
[licence]
title = "a licence"
source = "the vendor"
do = "buy {number}"
of = "nothing"
untried = "it costs"
""",
    "site_npc/advice.py": """
from pathlib import Path
from npc.report.advice.rule import add_words, hint, rule
add_words(Path(__file__).with_name("rules.toml"))
@rule("licence")
def licence(run):
    return [hint("licence", "none is left", number="two")]
""",
    "site_npc/check.py": """
from npc.machine.preflight import check
@check("note", "it is the rule", "wear it")
def badge(environment, trial):
    yield "no badge"
""",
    "site_npc/tools/__init__.py": "",
    "site_npc/tools/broken.py": "import site_driver\n",
    "site_npc/tools/stopwatch.py": """
from npc.records.reading import Reading
def parse(text, argv):
    yield Reading("lap", "time", float(text))
""",
}
SHOW = """
import sys
sys.path.append({folder!r})
from pathlib import Path
from npc.cli import entry_points
from npc.parsers import names, parse
from npc.machine.preflight import Finding, _CHECKS, preflight, MpiTrial
from npc.registration import extensions
from npc.report.advice import Run, advise
from npc.report.page import build
from npc.report.runs import Report
run = Run(0, "here", Path("."), [], None)
sections, absent = build(Report([run], Path(".")))
print([section.name for section in sections][:3], [pair for pair in absent if pair[0] == "broken"])
print([hint.do for rule, hint in advise(run).hints])
list(extensions("checks"))
_CHECKS[:] = [check for check in _CHECKS if check[1] == "badge"]
print([(finding.name, finding.symptom) for finding in preflight({{}}, MpiTrial((), "2"))][-1])
print("stopwatch" in names() and "osu" in names(), parse("stopwatch", "2.5")[0].value)
print("gone" in entry_points(), "doctor" in entry_points())
"""

DOCTOR = """
import sys
sys.path.append({folder!r})
from npc.cli import main
main(["doctor", "--json"])
"""


def install(folder: Path) -> None:
    """The site's package, as an installer leaves it in a folder of modules."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_site_s_package_adds_to_the_page_to_advice_to_checks_and_to_parsers(tmp_path: Path) -> None:
    install(tmp_path)
    program = SHOW.format(folder=str(tmp_path))
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert shown.stderr == ""
    broken = "cannot be loaded: RuntimeError: no licence"
    assert shown.stdout.splitlines() == [
        f"['summary', 'queue', 'advice'] [('broken', '{broken}')]",
        "['buy two']",
        "('badge', 'no badge')",
        "True 2.5",
        "False True",
    ]


@pytest.mark.slow
def test_doctor_names_whatever_is_registered_in_any_group_and_cannot_be_loaded(tmp_path: Path) -> None:
    install(tmp_path)
    program = DOCTOR.format(folder=str(tmp_path))
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    findings = json.loads(shown.stdout)["traps"]
    unloadable = [finding for finding in findings if finding["name"] == "unloadable"]
    assert {finding["level"] for finding in unloadable} == {"warning"}
    assert [finding["seen"] for finding in unloadable] == [
        f"{module}, which site-npc 1.0 registers as npc.{kind}, cannot be loaded: {error}"
        for kind, module, error in (
            ("checks", "site_npc.broken", "RuntimeError: no licence"),
            (
                "commands",
                "site_npc.section:command",
                "AttributeError: module 'site_npc.section' has no attribute 'command'",
            ),
            ("limits", "site_npc.broken", "RuntimeError: no licence"),
            ("parsers", "site_npc.tools.broken", "ModuleNotFoundError: No module named 'site_driver'"),
            ("sections", "site_npc.broken", "RuntimeError: no licence"),
        )
    ]


def test_all_that_npc_itself_registers_can_be_loaded() -> None:
    assert list(registration.unloadable()) == []
