"""Waiting for jobs of a platform that is not ours: JUBE's own for PBS, whose jobs bash runs here."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from npc.records.run import read_run
from tests.lab.jube_job import NPC, finish

SHIPPED = Path("/usr/share/doc/jube/platform/pbs")
BENCHMARK = """
<jube><benchmark name="site" outpath="{folder}/runs">
  <parameterset name="systemParameter" init_with="platform.xml">
    <parameter name="nodes" type="int">2</parameter>
    <parameter name="threadspertask" type="int">1,4</parameter>
    <parameter name="executable">sh -c "{command}"</parameter>
    {more}
  </parameterset>
  <step name="site">
    <use from="platform.xml">executeset,executesub,jobfiles</use>
    <use>systemParameter</use>
    <do done_file="$done_file" error_file="$error_file">$submit $submit_script &gt;job.out 2&gt;job.err</do>
  </step>
</benchmark></jube>
"""

pytestmark = pytest.mark.slow


def waited(folder: Path, command: str, more: str = "") -> subprocess.CompletedProcess[str]:
    """`npc records wait` for a run of the command on JUBE's platform, and `npc records collect`."""
    (folder / "platform").mkdir(parents=True)
    text = (SHIPPED / "platform.xml").read_text().replace(">qsub<", ">bash<")
    text = text.replace(">mpiexec<", ">env<").replace("-np $tasks --exports=", "RANKS=$tasks EXPORTS=")
    (folder / "platform/platform.xml").write_text(text)
    (folder / "platform/submit.job.in").write_text((SHIPPED / "submit.job.in").read_text())
    (folder / "site.xml").write_text(BENCHMARK.format(folder=folder, command=command, more=more))
    words = ["run", folder / "site.xml", "--hide-animation", "--include-path", folder / "platform"]
    finish("jube", *words, PBS_O_WORKDIR=".")
    ended = finish(NPC, "records", "wait", folder / "runs", "--least", "0.2s")
    finish(NPC, "records", "collect", folder / "runs/000000")
    return ended


def test_a_platform_that_starts_no_process_is_refused_and_a_trace_is_nobodys_last_words(
    tmp_path: Path,
) -> None:
    ended = waited(tmp_path, "echo it does not converge &gt;&amp;2; exit 3")
    assert ended.returncode == 1, "nothing usable"
    told = {record.status for record in read_run(tmp_path / "runs/000000")}
    assert told == {
        "failed: it does not converge",
        "failed: the platform would start 0 processes: its tasks is 0 for nodes 2, taskspernode 1, "
        "threadspertask 4; in platform.xml it has to be $nodes * $taskspernode",
    }
    assert {record.nodes for record in read_run(tmp_path / "runs/000000")} == {2}


def test_what_is_unavailable_is_no_failure_and_the_platform_is_the_node_that_was_measured(
    tmp_path: Path,
) -> None:
    ended = waited(
        tmp_path,
        "echo unavailable: no such tool &gt;&amp;2; exit 1",
        """<parameter name="preprocess">printf '{"host": {"name": "n7"}}' &gt;environment.json</parameter>
        <parameter name="tasks" type="int">2</parameter>""",
    )
    assert ended.returncode == 0
    assert "2 unavailable; now: npc records collect" in ended.stderr
    assert {(r.status, r.platform) for r in read_run(tmp_path / "runs/000000")} == {
        ("unavailable: no such tool", "n7")
    }
