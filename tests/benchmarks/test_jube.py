"""The suite under JUBE alone: every benchmark by itself and together, on this platform and on others."""

from __future__ import annotations

import os
import re
import subprocess
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from npc import parsers
from npc.records.record import Record, read_csv
from tests.lab.jube_job import (
    NPC,
    finish,
    job_scripts,
    jube_run,
    path_without,
    platform,
    results,
    run_jube,
    start,
    states,
    steps,
)
from tests.lab.jube_tables import assert_same_numbers, collect
from tests.paths import ROOT

BENCHMARKS = sorted(path.parent.name for path in ROOT.glob("benchmarks/*/benchmark.xml"))
XML = sorted([*ROOT.glob("benchmarks/**/*.xml"), *ROOT.glob("platforms/*/platform.xml")])
NETWORK = ["qperf", "qperf", "qperf", "sockperf", "iperf3", "osu", "osu"]
RDMA = ["qperf", "qperf", "qperf", "perftest", "perftest"]
COMPUTE = ["likwid", "blas", "fft"]
#: What JUBE 2.5.1 and 2.7.1 both understand, of what the specs need: element → attributes.
UNDERSTOOD: dict[str, set[str]] = {
    "jube": set(),
    "benchmark": {"name", "outpath"},
    "comment": set(),
    "step": {"name"},
    "use": {"from"},
    "do": {"done_file", "error_file"},
    "analyser": {"name"},
    "analyse": {"step"},
    "file": set(),
    "result": set(),
    "table": {"name", "style", "filter", "tag"},
    "column": {"title"},
    "parameterset": {"name", "init_with"},
    "parameter": {"name", "mode", "type", "separator", "export", "tag"},
    "patternset": {"name"},
    "pattern": {"name", "type", "unit", "mode"},
    "substituteset": {"name", "init_with"},
    "iofile": {"in", "out"},
    "sub": {"source", "dest"},
    "fileset": {"name"},
    "copy": set(),
}
#: The job of a platform that only shows what it would run.
NOTHING = "touch $done_file; echo"


def suite() -> dict[str, Any]:
    """jube.yml."""
    loaded = yaml.safe_load((ROOT / "jube.yml").read_text())
    assert isinstance(loaded, dict)
    return loaded


# -- what the files say --------------------------------------------------------------------------------


@pytest.mark.parametrize("path", XML, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_xml_uses_only_what_both_versions_of_jube_understand(path: Path) -> None:
    for element in ET.parse(path).iter():
        assert element.tag in UNDERSTOOD
        assert set(element.attrib) <= UNDERSTOOD[element.tag], element.attrib


@pytest.mark.parametrize("path", XML, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_a_dollar_sign_is_followed_by_a_name_or_a_bracket(path: Path) -> None:
    """JUBE 2.7 doubles a dollar sign that begins nothing."""
    for element in ET.parse(path).iter():
        for text in (element.text or "", *element.attrib.values()):
            assert not re.search(r"\$(?![\w{(])", text), text


def test_the_suite_uses_only_what_both_versions_of_jube_understand() -> None:
    whole = suite()
    assert set(whole) == {"name", "outpath", "comment", "step", "analyser", "result"}
    for entry in [*whole["step"], *whole["analyser"], *whole["result"]]:
        assert set(entry) <= {"name", "tag", "use", "do", "analyse", "table"}
        assert "," not in entry["tag"], "lists with commas are gone in 2.7"


@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_benchmark_folder_is_whole(benchmark: str) -> None:
    folder = ROOT / "benchmarks" / benchmark
    assert benchmark in parsers.names()
    for name in ("platform.xml", "submit.job.in"):
        assert (folder / name).is_symlink()
        assert (folder / name).resolve() == ROOT / "platforms" / "localhost" / name
    sets = {element.get("name") for element in ET.parse(folder / "benchmark_spec.xml").getroot()}
    assert sets == {f"{benchmark}_param", "systemParameter", f"{benchmark}_pattern"}
    tree = ET.parse(folder / "benchmark.xml")
    assert tree.findtext("benchmark/comment"), "what jube info says"
    for column in tree.iter("column"):
        assert "," not in column.attrib["title"], "a comma ends a cell of CSV"


# -- steps and tags ------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("", [*NETWORK, "stream", "memory", *COMPUTE, "fio", "noise"]),
        ("compute", COMPUTE),
        ("network rdma", [*["qperf"] * 3, *RDMA, *NETWORK[3:]]),
        ("rdma memory", [*RDMA, "stream", "memory", "likwid"]),
        ("models", ["models"]),
        ("apps", ["hpcc", "himeno", "hpcg", *["patterns"] * 3]),
    ],
)
def test_tags_select_steps_and_no_tag_means_all(tmp_path: Path, tags: str, expected: list[str]) -> None:
    options = ["--include-path", platform(tmp_path / "none", "none", submit=NOTHING)]
    if tags:
        options += ["--tag", *tags.split()]
    run_jube("jube.yml", tmp_path / "runs", *options)
    assert steps(tmp_path / "runs/000000") == expected
    assert all((folder / "done").exists() for folder in (tmp_path / "runs/000000").glob("*_*"))


# -- the numbers ---------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(
    ("benchmark", "jobs", "numbers"),
    [
        pytest.param("qperf", 3, 4, marks=pytest.mark.links),
        pytest.param("sockperf", 2, 5, marks=pytest.mark.links),
        pytest.param("iperf3", 1, 2, marks=pytest.mark.links),
        ("osu", 2, 8),
        ("stream", 1, 4),
        ("likwid", 1, 3),
        ("blas", 1, 2),
        ("fft", 1, 1),
        ("himeno", 1, 2),
        ("models", 1, 5),
    ],
)
def test_jube_alone_runs_a_benchmark_and_its_numbers_are_the_records(
    tmp_path: Path, benchmark: str, jobs: int, numbers: int
) -> None:
    ended = run_jube(
        f"benchmarks/{benchmark}/benchmark.xml", tmp_path, NPC_SOCKPERF_TESTS="ping-pong,throughput"
    )
    assert states(ended) == {benchmark: {"all": jobs, "open": 0, "wait": 0, "error": 0, "done": jobs}}
    records = collect(tmp_path)
    assert {record.status for record in records} == {"ok"}
    assert {record.platform for record in records} == {"localhost"}
    assert assert_same_numbers(benchmark, tmp_path, records) == numbers


# -- other platforms -----------------------------------------------------------------------------------


@pytest.fixture
def second(tmp_path: Path) -> Path:
    """A platform that marks its jobs and runs nothing."""
    return platform(tmp_path / "second", "second", submit=NOTHING, env="export SITE_MARK=second")


def assert_of_second(scripts: Mapping[str, str], count: int) -> None:
    assert len(scripts) == count
    for name, script in scripts.items():
        assert "\nexport SITE_MARK=second\n" in script, name


@pytest.mark.slow
def test_a_second_platform_is_used_for_the_whole_suite(tmp_path: Path, second: Path) -> None:
    run_jube("jube.yml", tmp_path / "runs", "--include-path", second)
    assert_of_second(job_scripts(tmp_path / "runs/000000"), 14)
    assert "second" in (tmp_path / "runs/000000/workpackages.xml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", BENCHMARKS)
def test_a_second_platform_is_used_for_a_benchmark_alone(
    tmp_path: Path, second: Path, benchmark: str
) -> None:
    run_jube(f"benchmarks/{benchmark}/benchmark.xml", tmp_path / "runs", "--include-path", second)
    scripts = job_scripts(tmp_path / "runs/000000")
    assert_of_second(scripts, SMALL_JOBS[benchmark])


SMALL_JOBS = {
    "qperf": 3,
    "sockperf": 1,
    "iperf3": 1,
    "perftest": 2,
    "osu": 2,
    "stream": 1,
    "memory": 1,
    "likwid": 1,
    "blas": 1,
    "fft": 1,
    "fio": 1,
    "ior": 1,
    "mdtest": 1,
    "noise": 1,
    "gpu": 1,
    "babelstream": 1,
    "nvbandwidth": 1,
    "nccl": 1,
    "hpcc": 1,
    "himeno": 1,
    "hpcg": 1,
    "patterns": 3,
    "models": 1,
    "imb": 1,
    "netpipe": 1,
    "nuttcp": 2,
}


@pytest.mark.slow
def test_the_include_path_may_come_from_the_environment_and_names_the_platform(tmp_path: Path) -> None:
    site = platform(tmp_path / "site", "a-site", env="export SITE_MARK=second")
    ended = run_jube(
        "benchmarks/stream/benchmark.xml", tmp_path / "runs",
        JUBE_INCLUDE_PATH=str(site), NPC_CORES="1", NPC_STREAM_ARRAY_SIZE="1000000",
    )  # fmt: skip
    assert states(ended)["stream"]["done"] == 1
    records = list(collect_failures(tmp_path / "runs", 1))
    assert {record.platform for record in records} == {"a-site"}
    assert all("the cache was measured" in record.status for record in records)
    assert {row["threads"] for row in results(tmp_path / "runs")["stream"]} == {"1"}
    assert "counted = 1" in (tmp_path / "runs/000000" / records[0].raw).read_text()


@pytest.mark.slow
def test_openmp_variables_of_the_shell_do_not_change_what_a_node_has(tmp_path: Path) -> None:
    """nproc obeys them: with OMP_NUM_THREADS=1 a node would seem to have one core."""
    run_jube(
        "jube.yml", tmp_path / "runs",
        "--include-path", platform(tmp_path / "none", "none", submit=f"unset X; {NOTHING}"),
        "--tag", "memory", OMP_THREAD_LIMIT="1",
    )  # fmt: skip
    cpus = len(os.sched_getaffinity(0))
    script = next(text for name, text in job_scripts(tmp_path / "runs/000000").items() if "stream" in name)
    assert f"OMP_NUM_THREADS={cpus} " in script


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cores", "option"),
    [(1, " --use-hwthread-cpus "), (2, " $npc_ranks_in_container ")],
    ids=["hardware threads", "cores"],
)
def test_ranks_take_hardware_threads_before_they_share(tmp_path: Path, cores: int, option: str) -> None:
    """A machine of two CPUs, as lscpu tells of one with one core and of one with two."""
    programs = tmp_path / "bin"
    programs.mkdir()
    lines = "\n".join(f"{number},0" for number in [*range(cores), *range(cores)])
    for name, printed in (("lscpu", f"# Core,Socket\n{lines}"), ("nproc", "2")):
        (programs / name).write_text(f"#!/bin/sh\ncat <<'END'\n{printed}\nEND\n")
        (programs / name).chmod(0o755)
    path = f"{programs}:{path_without(tmp_path / 'all')}"
    options = ["--include-path", platform(tmp_path / "none", "none", submit=NOTHING)]
    run_jube("benchmarks/osu/benchmark.xml", tmp_path / "runs", *options, PATH=path, NPC_OSU_TASKS="2")
    pair, collective = job_scripts(tmp_path / "runs/000000").values()
    assert f"mpirun -n 2{option}" in pair
    assert "mpirun -n 4 --oversubscribe " in collective


# -- JUBE's own platform for Slurm -----------------------------------------------------------------------

FOREIGN = Path("/usr/share/doc/jube/platform/slurm")
needs_foreign = pytest.mark.skipif(
    not FOREIGN.is_dir(), reason="JUBE's platform files: apt-get install jube (Debian, Ubuntu)"
)
#: Stands in for Slurm: takes a job script, gives its number, and runs one after the other in the background.
SBATCH = """#!/bin/bash
value() { sed -n "s/^#SBATCH --$1=//p" "$2"; }
export SLURM_JOB_ID=4711 SLURM_NTASKS=$(value ntasks "$1")
flock "$0" bash "$1" >"$(value output "$1")" 2>"$(value error "$1")" </dev/null &
echo "Submitted batch job $SLURM_JOB_ID"
"""
SRUN = """#!/bin/bash
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
exec mpirun --bind-to none --oversubscribe -n "$SLURM_NTASKS" "$@"
"""


def slurm(folder: Path, sbatch: str = SBATCH) -> str:
    """A PATH that begins with stand-ins for sbatch and srun."""
    folder.mkdir()
    for name, text in (("sbatch", sbatch), ("srun", SRUN)):
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return f"{folder}{os.pathsep}{os.environ['PATH']}"


@needs_foreign
def test_a_platforms_parameters_are_those_of_jubes_platforms_or_have_our_prefix() -> None:
    """Of two values of one name, theirs and ours, JUBE makes no workpackage."""

    def names(path: Path) -> set[str]:
        return {element.attrib["name"] for element in ET.parse(path).iter("parameter")}

    customary = names(FOREIGN / "platform.xml")
    for path in ROOT.glob("platforms/*/platform.xml"):
        assert not {name for name in names(path) - customary if not name.startswith("npc_")}, path


#: Parameters of other people's specifications, in a set of their own.
THEIRS = (
    "modules", "reservation", "nodelist", "constraint", "qos", "exclusive", "job_name", "mapping", "binding",
    "resources", "slots", "shares", "cores_per_node", "platform_name", "dependency",
)  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["localhost", "slurm", "sge", "modular"])
def test_a_benchmark_whose_parameters_have_common_names_runs_on_our_platforms(
    tmp_path: Path, name: str
) -> None:
    theirs = "".join(f'<parameter name="{word}">of theirs</parameter>' for word in THEIRS)
    (tmp_path / "site.xml").write_text(
        f"""<jube><benchmark name="site" outpath="runs">
        <parameterset name="site_param">{theirs}</parameterset>
        <step name="site"><use>site_param</use>
            <use from="platform.xml">executeset,systemParameter,executesub,jobfiles</use>
            <do>echo $modules $submit</do></step></benchmark></jube>"""
    )
    run_jube(tmp_path / "site.xml", tmp_path / "runs", "--include-path", ROOT / "platforms" / name)
    assert (tmp_path / "runs/000000/000000_site/work/stdout").read_text().startswith("of theirs ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("starter", "expected"),
    [
        ("srun --mpi=pmix", "time -p srun --mpi=pmix --cpu_bind=none stream"),
        ("aprun", "time -p aprun --cpu_bind=none stream"),
    ],
)
def test_a_benchmark_with_options_for_the_starter_gets_the_starter_for_a_single_task(
    tmp_path: Path, starter: str, expected: str
) -> None:
    """Ours do without mpirun or srun there, but not without what alone reaches a compute node."""
    (tmp_path / "site.xml").write_text(
        """<jube><benchmark name="site" outpath="runs">
        <parameterset name="executeset" init_with="platform.xml">
            <parameter name="args_starter">--cpu_bind=none</parameter></parameterset>
        <parameterset name="systemParameter" init_with="platform.xml">
            <parameter name="measurement">time -p</parameter>
            <parameter name="executable">stream</parameter></parameterset>
        <step name="site"><use>executeset,systemParameter</use>
            <use from="platform.xml">executesub,jobfiles</use><do>true</do></step></benchmark></jube>"""
    )
    options = ["--include-path", ROOT / "platforms/slurm"]
    run_jube(tmp_path / "site.xml", tmp_path / "runs", *options, NPC_MPI_STARTER=starter)
    (script,) = job_scripts(tmp_path / "runs/000000").values()
    assert expected in [line.strip() for line in script.splitlines()]
    ours = "benchmarks/stream/benchmark.xml"
    run_jube(ours, tmp_path / "ours", *options, NPC_MPI_STARTER=starter, PATH=slurm(tmp_path / "bin"))
    (script,) = job_scripts(tmp_path / "ours/000000").values()
    reached = "aprun -n 1 $npc_ranks_in_container env" in script
    assert reached == (starter == "aprun") and "srun" not in script


@needs_foreign
@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["qperf", "stream"])
def test_jubes_own_platform_runs_a_benchmark_with_stand_ins_for_slurm(tmp_path: Path, benchmark: str) -> None:
    runs = tmp_path / "runs"
    job = start(
        *jube_run(f"benchmarks/{benchmark}/benchmark.xml", runs, "--include-path", FOREIGN),
        PATH=slurm(tmp_path / "bin"),
    )
    try:
        ended = job.wait()
        assert states(ended)[benchmark]["wait"] == SMALL_JOBS[benchmark], "JUBE does not wait for jobs"
        assert not job.left_behind(60), "the jobs have not ended"
    finally:
        job.kill()
    for verb, expected in (("continue", ""), ("status", "FINISHED")):
        said = subprocess.run(["jube", verb, str(runs)], capture_output=True, text=True, check=True)
        assert expected in said.stdout
    records = collect(runs)
    assert {record.status for record in records} == {"ok"}
    assert {record.job for record in records} == {"4711"}
    assert assert_same_numbers(benchmark, runs, records) > 0


@pytest.mark.slow
def test_datagrams_of_rdma_are_left_out_over_roce(tmp_path: Path) -> None:
    site = platform(tmp_path / "site", "site", submit="true")
    for cm, expected in (("", "rc_rdma_read_lat,ud_lat"), ("yes", "rc_rdma_read_lat")):
        runs = tmp_path / f"runs{cm}"
        benchmark = ("benchmarks/qperf/benchmark.xml", runs, "--include-path", site, "--tag", "rdma")
        run_jube(*benchmark, NPC_QPERF_RDMA_CM=cm)
        told = [
            re.search(r"--repeat test:(\S+)", script) for _, script in job_scripts(runs / "000000").items()
        ]
        assert [found[1] for found in told if found and "read_lat" in found[1]] == [
            f"rc_lat,rc_rdma_write_lat,{expected}"
        ]


@needs_foreign
@pytest.mark.slow
def test_jubes_own_platform_makes_right_job_scripts_of_the_whole_suite(tmp_path: Path) -> None:
    path = slurm(tmp_path / "bin", "#!/bin/sh\ntouch ready\necho Submitted batch job 1\n")
    run_jube("jube.yml", tmp_path / "runs", "--include-path", FOREIGN, PATH=path, NPC_CORES="20")
    scripts = job_scripts(tmp_path / "runs/000000")
    assert len(scripts) == 14
    for name, script in scripts.items():
        assert not re.search(r"#[A-Z_]{3,}#", script), name
        assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
        step = name.partition("_")[2]
        alone = step in ("stream", "memory", "noise", *COMPUTE)
        number = 1 if alone or step == "fio" else 2
        assert f"#SBATCH --nodes={number}\n#SBATCH --ntasks={number}\n" in script
        assert f"#SBATCH --cpus-per-task={20 if alone else 1}\n" in script
        if number == 1:  # a single task needs no MPI
            assert "srun " not in script and "/npc records sample" in script
            continue
        (line,) = (line for line in script.splitlines() if "srun " in line)
        before, after = line.split("srun ")
        assert ("npc records sample" in before) == (step == "osu")
        assert ("/npb --servercmd" in after) == (step in ("qperf", "sockperf", "iperf3"))


# -- jobs that fail --------------------------------------------------------------------------------------


def write_source(folder: Path, change: tuple[str, str]) -> str:
    text = (ROOT / "benchmarks/stream/stream.c").read_text()
    assert change[0] in text
    (folder / "wrong.c").write_text(text.replace(*change))
    return str(folder / "wrong.c")


def collect_failures(outpath: Path, code: int) -> Iterator[Record]:
    ended = finish(NPC, "records", "collect", outpath)
    assert ended.returncode == code, ended.stdout + ended.stderr
    for record in read_csv(outpath / "000000/records.csv"):
        if not record.ok:
            assert record.status.split(":")[0] in ended.stderr
            yield record


@pytest.mark.slow
def test_a_source_that_does_not_compile_is_an_error_with_the_compilers_words(tmp_path: Path) -> None:
    source = write_source(tmp_path, ("int main(", "int main(nonsense "))
    ended = run_jube("benchmarks/stream/benchmark.xml", tmp_path / "runs", NPC_STREAM_SOURCE=source)
    assert states(ended)["stream"]["error"] == 1
    (record,) = collect_failures(tmp_path / "runs", 1)
    assert (record.benchmark, record.value) == ("stream", None)
    assert record.status.startswith("failed: ")
    assert "error" in (tmp_path / "runs/000000/000000_stream/work/job.err").read_text()
    assert results(tmp_path / "runs")["stream"][0]["MEM triad best [GB/s]"] == ""


@pytest.mark.slow
def test_a_program_whose_result_is_wrong_gives_no_usable_number(tmp_path: Path) -> None:
    source = write_source(tmp_path, ("scalar * load(&c[i])", "1.001 * scalar * load(&c[i])"))
    settings = {"NPC_STREAM_SOURCE": source, "NPC_STREAM_ARRAY_SIZE": "1000000"}
    ended = run_jube("benchmarks/stream/benchmark.xml", tmp_path / "runs", **settings)
    assert states(ended)["stream"]["error"] == 1
    records = list(collect_failures(tmp_path / "runs", 1))
    assert {record.case for record in records} == {"copy", "scale", "add", "triad"}
    assert {record.status for record in records} == {"invalid: the arrays failed STREAM's validation"}
    (row,) = results(tmp_path / "runs")["stream"]
    assert row["MEM triad best [GB/s]"] == "", "JUBE does not believe it either"


@pytest.mark.slow
def test_a_tool_that_is_not_there_is_unavailable_and_the_others_go_on(tmp_path: Path) -> None:
    path = path_without(tmp_path / "programs", "likwid-bench")
    ended = run_jube("jube.yml", tmp_path / "runs", "--tag", "compute", "models", PATH=path)
    assert states(ended)["likwid"]["error"] == 1
    assert states(ended)["models"]["done"] == 1
    (record,) = collect_failures(tmp_path / "runs", 0)
    assert record.benchmark == "likwid"
    assert record.status.startswith("unavailable: likwid-bench: not found in PATH")
    usable = [each for each in read_csv(tmp_path / "runs/000000/records.csv") if each.ok]
    assert {each.benchmark for each in usable} == {"models", "blas", "fft"}
    assert all((tmp_path / "runs/000000" / each.raw).is_file() for each in usable)
    of_models = [each for each in usable if each.benchmark == "models"]
    assert assert_same_numbers("models", tmp_path / "runs", of_models) == 5
    tables = results(tmp_path / "runs")
    assert set(tables) == {"models", *COMPUTE}, "no table of what was not asked for"
    assert tables["likwid"][0]["peak best [GFLOP/s]"] == ""


@pytest.mark.slow
def test_a_network_tool_that_is_not_there_is_unavailable(tmp_path: Path) -> None:
    path = path_without(tmp_path / "programs", "qperf")
    ended = run_jube("benchmarks/qperf/benchmark.xml", tmp_path / "runs", PATH=path)
    assert states(ended)["qperf"]["error"] == 3
    records = list(collect_failures(tmp_path / "runs", 1))
    assert len(records) == 4
    for record in records:
        assert re.fullmatch(r"unavailable: server on \S+: qperf: not found in PATH", record.status)
    tables = results(tmp_path / "runs")
    assert set(tables) == {"qperf_bandwidth", "qperf_latency", "qperf_sweep"}, "no table that has no row"
    assert all(tables.values())


@pytest.mark.slow
def test_no_compiler_is_unavailable_and_says_what_to_do(tmp_path: Path) -> None:
    ended = run_jube("benchmarks/stream/benchmark.xml", tmp_path / "runs", NPC_STREAM_CC="no-such-cc -fast")
    assert states(ended)["stream"]["error"] == 1
    (record,) = collect_failures(tmp_path / "runs", 1)
    assert record.status.startswith("unavailable: no C compiler 'no-such-cc -fast'")
    assert "NPC_STREAM_CC" in record.status


def test_a_protocol_that_nuttcp_has_not_is_refused_with_those_it_has(tmp_path: Path) -> None:
    ended = finish(*jube_run("benchmarks/nuttcp/benchmark.xml", tmp_path), NPC_NUTTCP_PROTOCOLS="UDP")
    assert ended.returncode != 0
    assert "nuttcp_protocols UDP: of tcp, udp" in ended.stdout + ended.stderr
