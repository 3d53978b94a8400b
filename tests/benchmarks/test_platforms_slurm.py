"""The platforms for Slurm on a real cluster: where jobs run, what crosses the links, how job scripts end."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from npc.records.record import Record, read_csv
from tests.lab.cluster import Cluster, until
from tests.lab.jube_job import NPC, SMALL, job_scripts, states
from tests.paths import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.slurm]

FOREIGN = Path("/usr/share/doc/jube/platform/slurm")
MPIS = Path(sys.prefix) / "share/npc/mpi"
#: MPI's busy waiting shares two cores with everything else here.
TINY = {**SMALL, "NPC_OSU_MAX_SIZE": "4", "NPC_ENV": "export OMPI_MCA_mpi_yield_when_idle=1"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=4) as four:
        yield four


class Done(NamedTuple):
    """A run that has ended: what `npc records wait` returned, its folder, what Slurm and the links say of
    it."""

    code: int
    folder: Path
    jobs: list[dict[str, str]]
    received: dict[str, int]

    @property
    def records(self) -> list[Record]:
        return list(read_csv(self.folder / "records.csv"))


def run(
    cluster: Cluster, file: str | Path, outpath: Path, platform: str | Path, *options: str, **settings: str
) -> Done:
    """``jube run`` in the checkout on the head node, then ``npc records wait`` and ``npc records
    collect``."""
    known, before = len(jobs_of(cluster)), {node: cluster.bytes(node)[0] for node in cluster.nodes}
    jube = ["jube", "run", file, "--hide-animation", "--outpath", outpath, "--include-path", platform]
    env = {**TINY, **settings}
    submitted = cluster.run("head", [*jube, *options], env=env, timeout=120, cwd=ROOT)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    waited = cluster.run(
        "head", [NPC, "records", "wait", outpath, "--least", "0.3s", "--most", "0.5s"], timeout=200
    )
    cluster.run("head", [NPC, "records", "collect", outpath])
    after = {node: cluster.bytes(node)[0] for node in cluster.nodes}
    received = {node: after[node] - before[node] for node in cluster.nodes}
    return Done(waited.returncode, outpath / "000000", jobs_of(cluster)[known:], received)


def jobs_of(cluster: Cluster) -> list[dict[str, str]]:
    """Slurm's own record of every ended job, in the order of their ends."""
    path = cluster.folder / "log" / "jobcomp.txt"
    lines = path.read_text().splitlines() if path.exists() else []
    return [dict(word.partition("=")[::2] for word in line.split() if "=" in word) for line in lines]


def tcp_bandwidths(records: list[Record]) -> list[float]:
    """What clients sent servers in a second, by the tests that take one or more; not the sender's count."""
    return [
        record.value
        for record in records
        if record.value and record.metric == "bandwidth" and record.params.get("side") != "send"
        and (record.benchmark, record.case) in {("qperf", "tcp_bw"), ("iperf3", "tcp")}
    ]  # fmt: skip


# -- the benchmarks ------------------------------------------------------------------------------------


@pytest.mark.links
def test_the_network_benchmarks_run_on_two_nodes_and_their_bytes_cross_the_link(
    cluster: Cluster, tmp_path: Path
) -> None:
    done = run(cluster, "jube.yml", tmp_path, "platforms/slurm", "--tag", "network")
    records = [record for record in done.records if record.params.get("side") != "send"]
    assert done.code == 0, [record for record in done.records if not record.ok]
    assert {record.benchmark for record in records} >= {"qperf", "sockperf", "iperf3", "osu"}
    assert {(record.platform, record.nodes, record.hosts) for record in records} == {
        ("slurm", 2, ("n1", "n2"))
    }
    tcp = tcp_bandwidths(records)
    assert len(tcp) == 3, "qperf at one size and in its sweep, iperf3"
    assert done.received["n1"] > sum(tcp), "the server's node received what the tools say"
    assert done.received["n2"] > 1e5, "and sent what answers"
    assert max(done.received["n3"], done.received["n4"]) < 1e6, "nobody else did"
    spans = sorted((job["StartTime"], job["EndTime"]) for job in done.jobs)
    assert all(ended <= started for (_, ended), (started, _) in pairwise(spans)), (
        f"one after the other: {spans}"
    )
    for job in done.jobs:
        shown = cluster.run("head", ["scontrol", "show", "job", job["JobId"]], check=True).stdout
        assert " OverSubscribe=NO " in shown, "and with whole nodes to themselves"


def test_npb_runs_under_both_starters(cluster: Cluster, tmp_path: Path) -> None:
    starters = ("srun --mpi=pmix", "mpirun")
    done = run(
        cluster, "benchmarks/iperf3/benchmark.xml", tmp_path, "platforms/slurm",
        NPC_MPI_STARTER=";;".join(starters),
    )  # fmt: skip
    assert done.code == 0
    for starter, script in zip(starters, job_scripts(done.folder).values(), strict=True):
        assert f"\n {starter} -n 2 " in script
    assert {(record.status, record.hosts) for record in done.records} == {("ok", ("n1", "n2"))}
    assert len(done.jobs) == len({record.job for record in done.records}) == 2


#: Says where its threads may run, and leaves the beginning of a result for npc records sample to see.
THREADS = r"""
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>
#include <stdio.h>
int main(void)
{
    FILE *report = fopen("HPCG-Benchmark_.txt", "w");
    fputs("Final Summary::HPCG result is not looked for here\n", report);
    fclose(report);
#pragma omp parallel
#pragma omp critical
    {
        cpu_set_t set;
        sched_getaffinity(0, sizeof set, &set);
        for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
            if (CPU_ISSET(cpu, &set))
                printf("thread %d of %d on CPU %d\n", omp_get_thread_num(), omp_get_num_threads(), cpu);
    }
    return 0;
}
"""


def test_every_thread_of_a_rank_has_a_core_whichever_mpi_starts_it(tmp_path: Path) -> None:
    """One rank on each of two nodes with two threads: a launcher's own way would be one core for both."""
    (tmp_path / "xhpcg.c").write_text(THREADS)
    compiled = ["gcc", "-fopenmp", "-o", tmp_path / "xhpcg", tmp_path / "xhpcg.c"]
    subprocess.run(compiled, check=True, timeout=60)
    hydra = [path for path in (MPIS / "mpich", MPIS / "impi") if path.is_dir()]
    starters = ["mpirun", "srun --mpi=pmix", *(f"{path}/bin/mpirun" for path in hydra)]
    intel = f"export I_MPI_ROOT={MPIS}/impi LD_LIBRARY_PATH={MPIS}/impi/lib:{MPIS}/impi/lib/libfabric"
    settings = {
        "NPC_HPCG_PREFIX": str(tmp_path), "NPC_HPCG_TASKS": "1", "NPC_HPCG_THREADS": "2",
        "NPC_MPI_STARTER": ";;".join(starters), "NPC_ENV": intel, "NPC_HPCG_NODES": "2",
        "NPC_MAPPING": "ppr:1:socket",
    }  # fmt: skip
    with Cluster(nodes=2, extra_conf={"TaskPlugin": "task/affinity"}) as two:  # srun binds by it
        done = run(two, "benchmarks/hpcg/benchmark.xml", tmp_path / "runs", "platforms/slurm", **settings)
    assert done.code == 0
    places = ["thread 0 of 2 on CPU 0", "thread 1 of 2 on CPU 1"]
    for work, starter in zip(sorted(done.folder.glob("*_hpcg/work")), starters, strict=True):
        printed = (work / "launches/raw/0000.err").read_text()
        assert sorted(printed.splitlines()) == sorted(2 * places), starter
    told = {(r.params["rank_cpus"], r.params["mapping"]) for r in done.records if r.case == "observed"}
    assert told == {("0-1", "ppr:1:socket")}


def test_a_starter_whose_ranks_do_not_find_each_other_is_a_failure_with_its_reason(
    cluster: Cluster, tmp_path: Path
) -> None:
    """srun without a PMI starts two programs of one rank each."""
    settings = {"NPC_MPI_STARTER": "srun --mpi=none"}
    done = run(cluster, "benchmarks/iperf3/benchmark.xml", tmp_path, "platforms/slurm", **settings)
    assert done.code == 1
    (record,) = done.records
    assert record.status.startswith("failed: "), record
    (work,) = done.folder.glob("*_iperf3/work")
    assert (work / "error").exists() and not (work / "ready").exists()


def test_of_a_mistyped_queue_slurm_says_why(cluster: Cluster, tmp_path: Path) -> None:
    done = run(cluster, "benchmarks/stream/benchmark.xml", tmp_path, "platforms/slurm", NPC_QUEUE="nosuch")
    (record,) = done.records
    assert done.code == 1
    assert record.status.startswith("failed: sbatch: error:") and "artition" in record.status


def test_a_second_platform_runs_elsewhere(cluster: Cluster, tmp_path: Path) -> None:
    second = tmp_path / "second"
    shutil.copytree(ROOT / "platforms/fuchs-csc", second, symlinks=False)
    text = (second / "platform.xml").read_text().replace("../slurm", str(ROOT / "platforms/slurm"))
    text = text.replace("fuchs-csc", "second").replace("NPC_QUEUE:-fuchs", "NPC_QUEUE:-booster")
    per_step = """{"iperf3": "export IN_STEP=$jube_step_name", "osu": "exit 9"}.get("$jube_step_name", "")"""
    inner = '<parameterset name="systemParameter" init_with="[^"]*">'
    parameter = f'<parameter name="npc_site_env" mode="python" separator=";;">{per_step}</parameter>'
    text, found = re.subn(inner, lambda tag: tag[0] + parameter, text)
    assert found == 1
    (second / "platform.xml").write_text(text)
    done = run(cluster, "benchmarks/iperf3/benchmark.xml", tmp_path / "runs", second)
    assert done.code == 0
    assert {(record.platform, record.hosts) for record in done.records} == {("second", ("n3", "n4"))}
    assert {job["Partition"] for job in done.jobs} == {"booster"}
    (script,) = job_scripts(done.folder).values()
    assert "\nexport IN_STEP=iperf3\n" in script, "environment that depends on the benchmark"
    assert done.received["n3"] > 1e6 > done.received["n1"]


def test_modules_are_measured_in_one_job_and_are_a_matrix_on_the_page(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Two nodes of the booster, one of each of the others."""
    modules = {"NPC_QUEUE": "booster", "NPC_SECOND_QUEUE": "cluster all", "NPC_PAIRS_NODES": "4"}
    modules |= {"NPC_PAIRS_CLIENT": "qperf HOSTNAME -t 1 -uu tcp_lat tcp_bw"}
    done = run(cluster, "cron/pairs/benchmark.xml", tmp_path / "npb", "platforms/modular", **modules)
    assert done.code == 0
    assert {record.platform for record in done.records} == {"modular"}
    page = tmp_path / "page.html"
    assert cluster.run("head", [NPC, "report", done.folder, "--output", page], timeout=60).returncode == 0
    where = {"n3": "booster", "n4": "booster", "n1": "cluster", "n2": "all"}
    squares = {(where[server], where[client]) for server, client in (r.hosts for r in done.records)}
    (table,) = re.findall(r"<caption>Numbers: Modules: pairs tcp_bw.*?</table>", page.read_text(), re.DOTALL)
    rows = [re.findall(r">([^<>]+)<", row)[:3] for row in re.findall(r"<tr.*?</tr>", table, re.DOTALL)[1:]]
    expected = [[*pair, "within" if pair == ("booster", "booster") else "between"] for pair in squares]
    assert sorted(rows) == sorted(expected) and len(rows) == 7
    modules = {"NPC_QUEUE": "booster", "NPC_SECOND_QUEUE": "cluster"}
    modules |= {"NPC_HIMENO_NODES": "2", "NPC_HIMENO_TASKS": "1"}
    done = run(cluster, "benchmarks/himeno/benchmark.xml", tmp_path / "mpi", "platforms/modular", **modules)
    assert done.code == 0, [record for record in done.records if not record.ok]
    assert {(record.status, record.hosts) for record in done.records} == {("ok", ("n3", "n1"))}
    assert min(done.received["n3"], done.received["n1"]) > 1e5, "MPI talks both ways"


@pytest.mark.skipif(not FOREIGN.is_dir(), reason="JUBE's platform files: apt-get install jube")
def test_jubes_own_platform_for_slurm_runs_unmodified(tmp_path: Path) -> None:
    """It asks for the partition batch and starts ranks by plain srun."""
    settings = {"partitions": {"batch": "Nodes=ALL Default=YES"}, "extra_conf": {"MpiDefault": "pmix"}}
    with Cluster(nodes=2, **settings) as two:  # type: ignore[arg-type]
        done = run(two, "benchmarks/iperf3/benchmark.xml", tmp_path, FOREIGN)
        assert done.code == 0
        assert {(record.status, record.hosts) for record in done.records} == {("ok", ("n1", "n2"))}
        assert done.received["n1"] > sum(tcp_bandwidths(done.records)) > 0


# -- the job script ------------------------------------------------------------------------------------

BENCHMARK = """<?xml version="1.0" encoding="UTF-8"?>
<jube>
    <benchmark name="site" outpath="runs">
        <parameterset name="site_param">
            <parameter name="how">{hows}</parameter>
        </parameterset>
        <parameterset name="executeset" init_with="platform.xml">
            <parameter name="starter"></parameter>
            <parameter name="args_starter"></parameter>
        </parameterset>
        <parameterset name="systemParameter" init_with="platform.xml">
            <parameter name="nodes" type="int">{nodes}</parameter>
            <parameter name="preprocess" mode="python" separator=";;">{before}["$how"]</parameter>
            <parameter name="executable" mode="python" separator=";;">{program}["$how"]</parameter>
            <parameter name="postprocess">echo and so on</parameter>
        </parameterset>
        <step name="site">
            <use>site_param,executeset,systemParameter</use>
            <use from="platform.xml">executesub,jobfiles</use>
            <do done_file="$done_file" error_file="$error_file">$submit $submit_script</do>
        </step>
    </benchmark>
</jube>
"""


def write_benchmark(
    folder: Path, before: Mapping[str, str], program: Mapping[str, str], nodes: int = 1
) -> None:
    """Somebody else's benchmark, with one job for each key of `before` and `program`."""
    text = BENCHMARK.format(hows=",".join(program), nodes=nodes, before=dict(before), program=dict(program))
    (folder / "site.xml").write_text(text)


WAYS = """
case $1 in
    program) echo it does not converge >&2; exit 3;;
    signal) kill -KILL $$;;
    stopped) kill -TERM $PPID;;
esac
"""
#: how → (a line before the measurement, Slurm's state and exit code, words in job.err).
ENDINGS = {
    "well": ("", "COMPLETED", "0:0", ""),
    "preprocess": ("ls /no/such/input", "FAILED", "2:0", "cannot access '/no/such/input'"),
    "early": ("exit 0", "COMPLETED", "0:0", ""),
    "program": ("", "FAILED", "3:0", "it does not converge"),
    "signal": ("", "FAILED", "137:0", "Killed"),
    "stopped": ("", "FAILED", "143:0", ""),
    "mpirun": ("", "FAILED", "3:0", "it does not converge"),
}


def test_a_job_script_that_ends_early_in_any_way_leaves_the_error_file_and_no_done_file(
    cluster: Cluster, tmp_path: Path
) -> None:
    (tmp_path / "ways").write_text(WAYS)
    run_it = {how: f"sh {tmp_path}/ways {how}" for how in ENDINGS} | {
        "mpirun": f"mpirun -n 1 sh {tmp_path}/ways program"
    }
    write_benchmark(tmp_path, {how: before for how, (before, *_) in ENDINGS.items()}, run_it)
    jube = ["jube", "run", tmp_path / "site.xml", "--hide-animation"]
    jube += ["--include-path", ROOT / "platforms/slurm"]
    env = {"NPC_DEPENDENCY": "none", "NPC_EXCLUSIVE": "no"}
    known = len(jobs_of(cluster))
    submitted = cluster.run("head", [*jube, "--outpath", tmp_path / "runs"], env=env, timeout=120)
    assert submitted.returncode == 0, submitted.stdout + submitted.stderr
    until(lambda: len(jobs_of(cluster)) == known + len(ENDINGS), "all jobs have ended", limit_s=60)
    ended = {Path(job["WorkDir"]).parent.name: job for job in jobs_of(cluster)[known:]}
    for number, (how, (_, state, exit_code, words)) in enumerate(ENDINGS.items()):
        work = tmp_path / f"runs/000000/{number:06d}_site/work"
        job = ended[work.parent.name]
        assert (job["JobState"], job["ExitCode"]) == (state, exit_code), how
        assert (work / "ready").exists() == (how == "well"), how
        assert (work / "error").exists() == (how != "well"), how
        assert ("and so on" in (work / "job.out").read_text()) == (how == "well"), how
        assert words in (work / "job.err").read_text(), how
    again = ["jube", "continue", tmp_path / "runs", "--hide-animation"]
    told = states(cluster.run("head", again, timeout=60))
    assert told["site"] == {"all": 7, "open": 0, "wait": 0, "error": 6, "done": 1}


def test_every_option_of_the_platform_reaches_slurm(tmp_path: Path) -> None:
    write_benchmark(tmp_path, {"well": "module list"}, {"well": "true"}, nodes=2)
    modules = tmp_path / "module"
    modules.write_text('#!/bin/sh\necho "module $*"\n')
    modules.chmod(0o755)
    given = {
        "QUEUE": "booster", "CONSTRAINT": "booster", "GRES": "fast:1", "RESERVATION": "tonight",
        "TIMELIMIT": "00:07:00", "EXCLUSIVE": "user", "ACCOUNT": "physics", "JOB_NAME": "chosen",
        "MODULES": "gcc/13 openmpi/5", "ENV": "echo UCX_TLS=tcp", "MPI_STARTER": "srun --mpi=pmix",
        "NODELIST": "n3,n4", "ADDITIONAL_JOB_CONFIG": "#SBATCH --nice=7",
    }  # fmt: skip
    conf = {"GresTypes": "fast", "MinJobAge": "600"}
    gres = {"gres.conf": "NodeName=n[1-4] Name=fast Count=2 Flags=CountOnly\n"}
    with Cluster(nodes=4, extra_conf=conf, node_conf="Gres=fast:2", files=gres) as four:
        reserve = "scontrol create reservation ReservationName=tonight Users=root Nodes=n3,n4 Duration=60"
        four.run("head", [*reserve.split(), "StartTime=now"], check=True)
        path = f"{tmp_path}:{four.environment()['PATH']}"
        env = {"PATH": path, **{f"NPC_{name}": value for name, value in given.items()}}
        done = run(four, tmp_path / "site.xml", tmp_path / "runs", "platforms/slurm", **env)
        shown = four.run("head", ["scontrol", "show", "job", "1"], check=True).stdout
        for text in (
            "JobName=chosen", "Account=physics", "JobState=COMPLETED", "TimeLimit=00:07:00",
            "Partition=booster", "ReqNodeList=n[3-4]", "NumNodes=2", "NumTasks=2", "OverSubscribe=USER",
            "Features=booster", "Reservation=tonight", "TresPerNode=gres:fast:1", "Requeue=0", "Nice=7",
        ):  # fmt: skip
            assert text in shown, f"{text} is not in {shown}"
        out = (done.folder / "000000_site/work/job.out").read_text()
        assert out.startswith("module load gcc/13 openmpi/5\nUCX_TLS=tcp\nmodule list\n"), out


def test_jobs_of_a_chain_wait_for_the_one_before(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "job").write_text("#!/bin/sh\nsleep 1\n")
    script = ROOT / "platforms/slurm/chainJobs.sh"
    for number in range(2):
        chained = cluster.run("head", [script, "jobid", "job"], cwd=tmp_path)
        assert re.fullmatch(r"Submitted batch job \d+\n", chained.stdout), chained.stderr
        job = (tmp_path / "jobid").read_text().strip()
        shown = cluster.run("head", ["scontrol", "show", "job", job], check=True).stdout
        assert ("Dependency=(null)" not in shown) == (number == 1)
    assert cluster.run("head", [script, "jobid"]).returncode == 2


#: As Jülich writes its STREAM: modules of the step before, options of srun for a single
#: task, a program that the step before has compiled.
THEIR_STREAM = """<jube><benchmark name="theirs" outpath="runs">
    <parameterset name="compile_params"><parameter name="modules">GCC</parameter></parameterset>
    <parameterset name="systemParameter" init_with="platform.xml">
        <parameter name="threadspertask" type="int">1,2</parameter>
        <parameter name="constraint">#SBATCH --comment="cell"</parameter>
        <parameter name="additional_job_config">$constraint</parameter>
        <parameter name="measurement">time -p</parameter>
        <parameter name="executable">compile/stream.exe</parameter>
    </parameterset>
    <parameterset name="executeset" init_with="platform.xml">
        <parameter name="args_starter">--cpu-bind=none</parameter>
    </parameterset>
    <step name="compile"><use>compile_params</use>
        <do>gcc -O2 -fopenmp -DNTIMES=2 SOURCE -o stream.exe -lm</do></step>
    <step name="execute" depend="compile"><use>executeset,systemParameter</use>
        <use from="platform.xml">jobfiles,executesub</use>
        <do done_file="$done_file">$submit $submit_script</do></step>
    <analyser name="analyse"><analyse step="execute"><file>$outlogfile</file></analyse></analyser>
</benchmark></jube>
"""


def test_a_stream_that_somebody_else_specified_runs_and_is_read(cluster: Cluster, tmp_path: Path) -> None:
    source = str(ROOT / "benchmarks/stream/stream.c")
    (tmp_path / "site.xml").write_text(THEIR_STREAM.replace("SOURCE", source))
    done = run(
        cluster, tmp_path / "site.xml", tmp_path / "runs", "platforms/slurm",
        NPC_MPI_STARTER="srun --mpi=none", NPC_EXCLUSIVE="no",
    )  # fmt: skip
    assert done.code == 0
    for script in job_scripts(done.folder).values():
        assert "time -p srun --mpi=none --cpu-bind=none compile/stream.exe" in " ".join(script.split())
    triads = [record for record in done.records if record.case == "triad"]
    assert {(r.benchmark, r.platform, r.nodes, r.params["jube_threadspertask"]) for r in triads} == {
        ("stream", "slurm", 1, "1"), ("stream", "slurm", 1, "2"),
    }  # fmt: skip
    assert {record.job for record in triads} <= {job["JobId"] for job in done.jobs}
    assert all(record.value for record in triads)
