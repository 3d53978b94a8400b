"""JUBE is killed while it writes its state of a run, or has no room: the run goes on, jobs are not lost."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from npc.jobs.jube_state import COPY, LOST, restore, save
from npc.jobs.workpackages import read_workpackages
from tests.lab.cluster import Cluster, until
from tests.lab.jube_job import NPC, finish

HEAD = """<?xml version="1.0" encoding="UTF-8"?>
<jube><benchmark name="site" outpath="runs">
"""
#: So many workpackages that JUBE takes a moment to write its state.
MANY = (
    HEAD
    + """
<parameterset name="many"><parameter name="n" mode="python">",".join(map(str, range(40)))</parameter>
</parameterset>
<step name="job"><use>many</use><do>echo $n</do></step></benchmark></jube>"""
)


def test_a_state_that_is_not_whole_gets_the_last_one_that_was(tmp_path: Path) -> None:
    file = tmp_path / "workpackages.xml"
    assert not save(tmp_path), "no run yet"
    whole = '<?xml version="1.0"?>\n<workpackages>\n</workpackages>\n'
    for broken in ("", whole[:-20]):
        file.write_text(whole)
        assert save(tmp_path)
        file.write_text(broken)
        assert save(tmp_path), "the older copy stays"
        assert restore(tmp_path) == []
        assert file.read_text() == whole
    assert restore(tmp_path) == [] and not (tmp_path / COPY).exists()


def _writing(file: Path) -> bool:
    """Whether JUBE has just begun to write: it empties the file first."""
    with contextlib.suppress(FileNotFoundError):
        return file.stat().st_size == 0
    return False


@pytest.mark.slow
@pytest.mark.parametrize(
    ("who", "how"), [("jube", signal.SIGKILL), ("jube", signal.SIGTERM), ("npc", signal.SIGTERM)]
)
def test_stopped_at_the_moment_of_writing_a_characterisation_can_go_on(
    tmp_path: Path, who: str, how: signal.Signals
) -> None:
    (tmp_path / "site.xml").write_text(MANY)
    run = tmp_path / "runs/000000"
    words = [NPC, "characterise", "--benchmark", tmp_path / "site.xml", "--output", tmp_path / "runs"]
    log = tmp_path / "log"
    with log.open("w") as stream:
        npc = subprocess.Popen(words, stdout=stream, stderr=stream, start_new_session=True)
    try:
        until((run / COPY).exists, "there is a copy")
        limit = time.monotonic() + 20
        while not _writing(run / "workpackages.xml"):
            assert npc.poll() is None and time.monotonic() < limit, log.read_text()
        jube = next(
            child for child in psutil.Process(npc.pid).children() if "jube" in " ".join(child.cmdline())
        )
        if who == "npc":
            npc.send_signal(how)
        else:
            os.kill(jube.pid, how)
        npc.wait(60)
    finally:
        npc.kill()
        npc.wait()
    workpackages = read_workpackages(run)
    assert len(workpackages) == 40, log.read_text()
    if who == "jube":
        assert all(workpackage.done for workpackage in workpackages), "npc has gone on at once"
    ended = finish(NPC, "records", "wait", run)
    assert ended.returncode == 0, ended.stderr
    assert "40 done; now" in ended.stderr


@pytest.mark.slow
def test_a_full_disk_costs_the_state_neither_in_the_run_nor_later(tmp_path: Path) -> None:
    """JUBE's first state fits on it, what follows does not."""
    disk = tmp_path / "disk"
    disk.mkdir()
    (tmp_path / "site.xml").write_text(MANY.replace("echo $n", f"cp {tmp_path}/large large"))
    (tmp_path / "large").write_bytes(bytes(200_000))
    outside = f"""mount -t tmpfs -o size=4m none {disk} || exit 99
        {NPC} characterise --benchmark {tmp_path}/site.xml --output {disk}/runs
        find {disk}/runs -name large -delete; cp -r {disk}/runs {tmp_path}/runs"""
    ended = subprocess.run(
        ["unshare", "--mount", "sh", "-c", outside], capture_output=True, text=True, timeout=120, check=False
    )
    if ended.returncode == 99:
        pytest.skip("needs root: mounts a small disk")
    assert "No space left on device" in ended.stderr + ended.stdout, ended.stderr
    assert len(read_workpackages(tmp_path / "runs/000000")) == 40


JOBS = (
    HEAD
    + """
<parameterset name="p"><parameter name="x">1</parameter></parameterset>
<step name="build"><use>p</use><do>true</do></step>
<step name="execute" depend="build">
<do done_file="ready" error_file="error">sbatch -o out --wrap "sleep $x; touch ready"</do></step>
</benchmark></jube>"""
)


@pytest.mark.slow
@pytest.mark.slurm
def test_a_job_of_which_the_copy_knows_nothing_is_cancelled_and_submitted_again(tmp_path: Path) -> None:
    (tmp_path / "site.xml").write_text(JOBS)
    run = tmp_path / "runs/000000"
    file = run / "workpackages.xml"
    with Cluster(nodes=1) as one:

        def there(*words: str | Path) -> subprocess.CompletedProcess[str]:
            return one.run("head", list(words), cwd=tmp_path, timeout=120)

        assert there("jube", "run", "site.xml", "--hide-animation").returncode == 0
        root = file.read_text()
        second = root[root.index('<workpackage id="1"') : root.rindex("</workpackages>")]
        file.write_text("")
        named = there(NPC, "records", "wait", run)
        assert named.returncode == 2 and "000001_execute: its job 1 may still run" in named.stderr
        (run / COPY).write_text(root.replace(second, ""))  # as it was before the second step began
        ended = there(NPC, "records", "wait", run, "--least", "0.3s")
        assert ended.returncode == 0, ended.stderr
        assert "000001_execute: JUBE's state of it is lost; job 1 was cancelled" in ended.stderr
        assert "execute 1: done" in ended.stderr
        assert "Submitted batch job 2" in (run / "000001_execute/work/stdout").read_text()
    assert len(list((run / LOST).glob("000001_execute.*"))) == 1
