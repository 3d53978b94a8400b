"""What a study changes on a node: where the kernel's files say it can be, and as it was before at the end."""

from __future__ import annotations

import ast
import json
import os
import re
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from npc.machine.sysfs import cores_of
from npc.observe.study.knobs import CannotChange, kept_free, set_frequency, triad
from tests.lab.strangers import needs_strangers, shared_folder, stranger
from tests.paths import ROOT

HOME = ROOT / "npc/observe/study"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """Eight cores with two hardware threads each on two NUMA nodes, as the kernel numbers them."""
    for cpu in range(16):
        topology = tmp_path / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "thread_siblings_list").write_text(f"{cpu % 8},{cpu % 8 + 8}\n")
    for node, cpus in enumerate(("0-3,8-11", "4-7,12-15")):
        (tmp_path / f"node/node{node}").mkdir(parents=True)
        (tmp_path / f"node/node{node}/cpulist").write_text(f"{cpus}\n")
    return tmp_path


def test_the_last_cores_of_each_numa_node_are_kept_free(sysfs: Path) -> None:
    every = frozenset(range(16))
    assert cores_of(every, sysfs)[:2] == [[0, 8], [1, 9]]
    assert kept_free(every, 0, sysfs) == []
    assert kept_free(every, 1, sysfs) == [[3, 11], [7, 15]]
    assert kept_free(every, 2, sysfs) == [[2, 10], [3, 11], [6, 14], [7, 15]]
    job = frozenset((0, 1, 4, 5))  # what a job has of the node
    assert kept_free(job, 1, sysfs) == [[1], [5]]
    with pytest.raises(
        CannotChange, match="2 competing processes on each NUMA node leave no core of CPU 0-1"
    ):
        kept_free(job, 2, sysfs)


@pytest.fixture
def cpufreq(tmp_path: Path) -> Path:
    for number in range(2):
        policy = tmp_path / f"cpu/cpufreq/policy{number}"
        policy.mkdir(parents=True)
        files = {"cpuinfo_min": 1_000_000, "cpuinfo_max": 3_500_000}
        files |= {"scaling_min": 1_200_000, "scaling_max": 3_500_000}
        for name, khz in files.items():
            (policy / f"{name}_freq").write_text(f"{khz}\n")
    return tmp_path


def clocks(root: Path) -> list[tuple[int, int]]:
    return [
        (int((policy / "scaling_min_freq").read_text()), int((policy / "scaling_max_freq").read_text()))
        for policy in sorted((root / "cpu/cpufreq").iterdir())
    ]


@pytest.mark.parametrize("hertz", [1.0e9, 2.4e9, 3.5e9])
def test_the_clock_is_held_and_put_back(cpufreq: Path, hertz: float) -> None:
    undo = set_frequency(hertz, cpufreq)
    assert clocks(cpufreq) == 2 * [(hertz / 1e3, hertz / 1e3)]
    undo()
    assert clocks(cpufreq) == 2 * [(1_200_000, 3_500_000)]


def test_a_clock_that_cannot_be_had_is_said_with_why(cpufreq: Path, tmp_path: Path) -> None:
    with pytest.raises(CannotChange, match=r"policy0 has 1 to 3\.5 GHz"):
        set_frequency(4e9, cpufreq)
    with pytest.raises(CannotChange, match="has no policy: is this a virtual machine"):
        set_frequency(2e9, tmp_path / "elsewhere")
    assert clocks(cpufreq) == 2 * [(1_200_000, 3_500_000)]


def test_a_triad_counts_only_where_it_validates() -> None:
    text = "Triad:           11418.2     0.035\nSolution Validates: avg error less than 1e-13\n"
    assert triad(text) == pytest.approx(11418.2e6)
    assert triad(text.replace("Validates", "fails")) is None


# -- with real processes ---------------------------------------------------------------------------------


def competitors(marker: str) -> list[int]:
    """Pids of the competing processes that were built in this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].decode(errors="replace").startswith(f"{marker}/competitor"):
                found.append(int(entry.name))
    return found


def within(seconds: float, true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs a core for the competing process")
def test_what_competes_begins_before_the_program_and_ends_with_it_however_it_ends(tmp_path: Path) -> None:
    subprocess.run(["bash", HOME / "build.sh", ROOT, "competitor", "clock"], cwd=tmp_path, check=True)
    asked = (
        f'{{"launch": "{tmp_path}/0000", "work": "{tmp_path}", "threads": 1, "memory": 0.5, "reserve": 0.5, '
    )
    asked += '"measure": ["cpu"]}'
    state = [sys.executable, "-ES", HOME / "node_state.py", asked]
    says = "import os; print(sorted(os.sched_getaffinity(0)), flush=True); input()"
    rank = subprocess.Popen(
        [*state, sys.executable, "-c", says], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert rank.stdout and rank.stdin
    cpus = ast.literal_eval(rank.stdout.readline())
    (other,) = competitors(str(tmp_path))
    theirs = os.sched_getaffinity(other)
    assert len(theirs) == 1 and not theirs & set(cpus), "each has its own core"
    (rates,) = tmp_path.glob("0000.rates.*.json")
    assert 2e8 < float(rates.read_text().split(":")[1].strip(" }")) < 1e10, "the clock in Hz"
    rank.kill()
    rank.wait()
    assert within(3, lambda: not competitors(str(tmp_path))), "nothing goes on after SIGKILL"
    failing = subprocess.run([*state, "no-such-program"], capture_output=True, text=True, check=False)
    assert failing.returncode == 127 and "no-such-program: No such file" in failing.stderr
    assert within(3, lambda: not competitors(str(tmp_path)))


@pytest.mark.slow
@needs_strangers
def test_ranks_wait_for_the_first_of_their_node_and_for_nobody_else(tmp_path: Path) -> None:
    with shared_folder() as shared:
        asked = json.dumps({"launch": f"{shared}/0", "work": str(shared), "threads": 1, "measure": []})
        state = [sys.executable, "-ES", HOME / "node_state.py", asked]
        mark = shared / f"0.changed.{socket.gethostname()}"
        with stranger("open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(60)", [mark]) as impostor:
            assert within(10, lambda: mark.exists() and mark.read_text() != "")
            second = subprocess.Popen([*state, "echo", "second"], stdout=subprocess.PIPE, text=True,
                                      env={**os.environ, "OMPI_COMM_WORLD_LOCAL_RANK": "1"})  # fmt: skip
            assert second.stdout is not None
            assert not select.select([second.stdout], [], [], 1.0)[0], "it has not believed the stranger"
            with subprocess.Popen([*state, "sleep", "60"]) as first:
                assert second.stdout.read() == "second\n"
                first.kill()
            assert second.wait() == 0
            impostor.kill()
        assert within(3, lambda: not mark.exists())


@pytest.mark.slow
@pytest.mark.netns
def test_the_network_is_shaped_while_the_program_runs_and_never_after(tmp_path: Path) -> None:
    """Of a namespace with two ends of a cable."""
    asked = {"launch": f"{tmp_path}/0", "work": str(tmp_path), "threads": 1, "network": 12.5e6, "measure": []}
    state = f"{sys.executable} -S {HOME}/node_state.py"
    script = f"""
        ip link add end0 type veth peer name end1 && ip link set end0 up && ip link set end1 up || exit 9
        {state} '{json.dumps(asked)}' true 2>&1
        {state} '{json.dumps(asked | {"interface": "end0"})}' tc qdisc show dev end0
        for i in $(seq 100); do tc qdisc show dev end0 | grep -q tbf || break; sleep 0.02; done
        echo after: $(tc qdisc show dev end0)
        tc qdisc add dev end0 root tbf rate 1mbit burst 10kb latency 50ms
        {state} '{json.dumps(asked | {"interface": "end0"})}' true 2>&1
    """
    done = subprocess.run(
        ["unshare", "--net", "bash", "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    two, shaped, after, somebodys = done.stdout.splitlines()
    assert re.fullmatch(r"unavailable: network: which of the interfaces \(end., end.\)\? --interface", two)
    assert "tbf" in shaped and "rate 100Mbit" in shaped
    assert after.startswith("after: ") and "tbf" not in after
    assert somebodys.startswith("unavailable: network: end0 has a queue discipline of somebody's: qdisc tbf")
