"""Whose output a text is: what ``npc records parse FILE`` reads without a name, and its complaints."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys
from itertools import permutations
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result

from npc import parsers
from npc.parsers.commands.parse import parse
from npc.parsers.commands.recognise import parts_of, tool_of_program
from npc.records.reading import OK, Reading
from tests import captured
from tests.paths import ROOT

TOOLS: Final = sorted(set(captured.FOLDERS.values()))
#: HPCC's text has HPL's and STREAM's inside, which their parsers read, too.
INSIDE: Final = {("hpl", "hpcc"), ("stream", "hpcc")}
#: Written to stderr, or by a server: words that any program may print.
NOBODY_S: Final = {"osu_bw_np1.err", "qperf_server.txt"}


def run(*arguments: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(parse, [str(argument) for argument in arguments], input=stdin)


def complaint(*arguments: str | Path, stdin: str | bytes | None = None) -> str:
    """What is said of a text that cannot be used."""
    result = run(*arguments, stdin=stdin)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1), result.output
    return result.stderr.removeprefix("Error: ").rstrip("\n")


def own_text(path: Path) -> str:
    """A captured output as the tool printed it."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    return "".join(line for line in lines if not line.startswith("#@ "))


def read_without_name(text: str) -> dict[str, list[Reading]]:
    """Readings of each tool that is recognised."""
    return {part.tool: parsers.parse(*part) for part in parts_of(text)}


@pytest.mark.parametrize("folder", captured.FOLDERS)
def test_every_captured_output_is_known_without_its_tool_s_name(folder: str) -> None:
    """By the text alone where it has a number; else by the recorded command line, where there is one."""
    tool, wrong = captured.FOLDERS[folder], []
    for path in captured.outputs(folder):
        text, bare = path.read_text(encoding="utf-8"), own_text(path)
        readings = parsers.parse(tool, text)
        names_tool = text.startswith("#@ cmd:") and path.name not in NOBODY_S
        if names_tool and read_without_name(text) != {tool: readings}:
            wrong.append(f"{path.name}: {list(read_without_name(text))}")
        readings = parsers.parse(tool, bare)
        known = any(reading.value is not None for reading in readings)
        if read_without_name(bare) not in ([{tool: readings}] if known else [{tool: readings}, {}]):
            wrong.append(f"{path.name} without its command: {list(read_without_name(bare))}")
    assert not wrong, "\n".join(wrong)


def richest(tool: str) -> Path:
    """The captured output with most usable readings."""
    return max(
        (path for name, path in captured.all_outputs() if name == tool),
        key=lambda path: sum(reading.status == OK for reading in parsers.parse(tool, own_text(path))),
    )


RICHEST: Final = {tool: richest(tool) for tool in TOOLS}


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_another_parser_says_whose_output_it_is(tool: str) -> None:
    path = RICHEST[tool]
    for other in TOOLS:
        if other != tool and (other, tool) not in INSIDE:
            assert complaint(other, path) == f"{path}: looks like the output of {tool}, not of {other}"


@pytest.mark.slow
@pytest.mark.parametrize("folder", captured.FOLDERS)
def test_another_parser_says_whose_output_it_is_of_every_captured_output(folder: str) -> None:
    tool = captured.FOLDERS[folder]
    for path in captured.outputs(folder):
        if parts_of(path.read_text(encoding="utf-8")):
            for other in TOOLS:
                if other != tool and (other, tool) not in INSIDE:
                    assert (
                        complaint(other, path) == f"{path}: looks like the output of {tool}, not of {other}"
                    )


@pytest.mark.slow
@pytest.mark.parametrize("first", TOOLS)
def test_of_two_tools_in_one_text_each_part_is_read(first: str) -> None:
    """No table of one reaches into the rows of the other."""
    texts = {tool: own_text(path) for tool, path in RICHEST.items()}
    alone = {tool: parsers.parse(tool, text) for tool, text in texts.items()}
    for second in TOOLS:
        if second != first:
            readings: dict[str, list[Reading]] = {}
            for part in parts_of(texts[first] + texts[second]):
                readings.setdefault(part.tool, []).extend(parsers.parse(*part))
            assert list(readings) == [first, second]
            assert readings == {first: alone[first], second: alone[second]}, (first, second)


def test_of_several_tools_each_row_names_its_own_and_a_name_takes_one(tmp_path: Path) -> None:
    job = tmp_path / "slurm-17.out"
    job.write_text(own_text(RICHEST["osu"]) + own_text(RICHEST["imb"]) + own_text(RICHEST["stream"]))
    rows = list(csv.DictReader(io.StringIO(run(job, "--format", "csv").stdout)))
    assert list(rows[0])[:2] == ["tool", "case"]
    assert list(dict.fromkeys(row["tool"] for row in rows)) == ["osu", "imb", "stream"]
    table = run(job).stdout.splitlines()
    assert (table[0].split()[:2], table[-1].split()[:2]) == (["tool", "case"], ["stream", "triad"])
    alone = run("imb", RICHEST["imb"], "--format", "csv").stdout
    assert run("imb", job, "--format", "csv").stdout == alone


@pytest.mark.parametrize("before", ["> ", "    ", "0: ", "n01: ", "2026-11-02T10:10:10Z "])
def test_what_people_and_launchers_put_before_lines_hides_no_tool(before: str) -> None:
    for tool, path in RICHEST.items():
        decorated = "".join(before + line for line in own_text(path).splitlines(keepends=True))
        assert read_without_name(decorated) == {tool: parsers.parse(tool, decorated)}, tool


#: A text of four rates.
STREAM: Final = captured.text_of("stream", "stream_10M_t2.txt")


def test_a_half_number_at_the_end_of_several_tools_is_none(tmp_path: Path) -> None:
    stream, osu = STREAM, own_text(RICHEST["osu"]).rstrip("\n")
    readings = [reading for part in parts_of(stream + osu) for reading in parsers.parse(*part)]
    assert readings == parsers.parse("stream", stream) + parsers.parse("osu", osu)
    assert osu[-1].isdigit() and len(readings) < len(parsers.parse("osu", osu + "\n")) + 4


def test_a_tool_without_a_result_is_not_hidden_by_another(tmp_path: Path) -> None:
    job = tmp_path / "job.out"
    job.write_text(STREAM + "# OSU MPI Latency Test v7.4\n# Size  Latency (us)\n")
    result = run(job)
    assert (result.exit_code, result.stdout.count("stream")) == (1, 4)
    assert "osu_latency failed: the table has no row" in result.stderr
    job.write_text(captured.text_of("likwid", "bench_h.txt") + STREAM)
    result = run(job)  # a tool that was asked for its help has no result to show
    assert (result.exit_code, result.stdout.count("stream"), result.stderr) == (0, 4, "")


@pytest.mark.parametrize("permuted", list(permutations(["hpcc", "hpl", "stream"], 2)))
def test_what_hpcc_runs_is_its_own_and_what_runs_after_it_is_not(permuted: tuple[str, str]) -> None:
    text = "".join(own_text(RICHEST[tool]) for tool in permuted)
    assert list(dict.fromkeys(part.tool for part in parts_of(text))) == list(permuted)


@pytest.mark.parametrize(
    ("program", "tool"),
    [
        ("ib_write_bw", "perftest"), ("ib_read_lat", "perftest"), ("ib_atomic_bw", "perftest"),
        ("raw_ethernet_bw", "perftest"), ("osu_bw", "osu"), ("osu_mbw_mr", "osu"), ("osu_bw.py", "osu"),
        ("xhpl", "hpl"), ("xhpl.exe", "hpl"), ("xhpcg", "hpcg"), ("rochpcg", "hpcg"),
        ("xhpl_intel64_dynamic", "hpl"), ("all_reduce_perf", "nccl"), ("alltoall_perf", "nccl"),
        ("all_reduce_perf_mpi", "nccl"), ("nccl-tests", "nccl"), ("rccl-tests", "nccl"),
        ("IMB-MPI1", "imb"), ("IMB-P2P", "imb"), ("imb-mpi1", "imb"), ("NPtcp", "netpipe"),
        ("NPopenmpi", "netpipe"), ("stream", "stream"), ("stream_c.exe", "stream"), ("stream_mpi", "stream"),
        ("STREAM", "stream"), ("babelstream", "babelstream"), ("cuda-stream", "babelstream"),
        ("gpu-stream", "babelstream"), ("omp-stream", "babelstream"), ("mdtest", "mdtest"), ("ior", "ior"),
        ("IOR", "ior"), ("likwid-bench", "likwid"), ("likwid-perfctr", "likwid"), ("iperf", "iperf3"),
        ("iperf3", "iperf3"), ("darshan-parser", "darshan"), ("/opt/osu/libexec/osu_bw", "osu"),
        ("bmt", "himeno"), ("stream.x", "stream"), ("npb", ""), ("npc", ""), ("mpirun", ""),
        ("osu_bw.out", ""), ("stream.txt", ""),
        ("iperf3.json", ""), ("my_perf", ""), ("nosuch", ""), ("", ""), (".", ""), ("commands", ""),
    ],
)  # fmt: skip
def test_a_program_s_name_is_understood_as_its_tool(program: str, tool: str) -> None:
    assert tool_of_program(program) == tool


def test_the_first_of_several_words_may_be_a_tool_and_is_none_behind_a_slash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    osu, stream = own_text(RICHEST["osu"]), own_text(RICHEST["stream"])
    Path("osu_bw").write_text(stream)  # a file with the name of a program
    Path("b").write_text(osu)
    by_program = run("osu_bw", "b", "--format", "csv").stdout
    assert by_program == run("osu", RICHEST["osu"], "--format", "csv").stdout
    rows = csv.DictReader(io.StringIO(run("./osu_bw", "b", "--format", "csv").stdout))
    assert list(dict.fromkeys((row["file"], row["tool"]) for row in rows)) == [
        ("./osu_bw", "stream"),
        ("b", "osu"),
    ]
    alone = run("osu_bw")  # one word names no tool, where a file is called so
    assert (alone.exit_code, alone.stdout.split()[0]) == (0, "tool")
    assert "Missing FILE: 'xhpl' is a tool" in run("xhpl").stderr


def test_the_command_line_tells_the_tool_where_the_text_does_not() -> None:
    text = captured.text_of("perftest", "ib_write_bw_output_bandwidth.client.txt")
    assert complaint("-", stdin=text) == "standard input: no supported tool's output is recognised in it"
    words = ["--command", "ib_write_bw --output=bandwidth HOST", "--format", "csv"]
    assert "ib_write_bw,bandwidth" in run("-", *words, stdin=text).stdout


CANCELLED: Final = (
    "slurmstepd: error: *** JOB 17 ON n03 CANCELLED AT 2026-11-02T04:05:06 DUE TO TIME LIMIT ***"
)


@pytest.mark.parametrize(
    "line",
    [
        CANCELLED,
        "slurmstepd-n03: error: *** STEP 17.0 ON n03 CANCELLED AT 2026-11-02T04:05:06 ***",
        "slurmstepd: error: Detected 1 oom_kill event in StepId=17.0. Some step tasks have been OOM Killed.",
        "=>> PBS: job killed: walltime 3612 exceeded limit 3600",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "./xhpl: error while loading shared libraries: libmpi.so.40: cannot open shared object file",
        "/var/spool/slurmd/job00017/slurm_script: line 9: osu_bw: command not found",
        "sh: 1: ib_write_bw: not found",
        "slurmstepd: error: execve(): ./mdtest: No such file or directory",
        "mpirun was unable to find the specified executable file, and therefore did not launch the job.",
    ],
)  # fmt: skip
def test_a_program_that_was_ended_or_did_not_begin_is_what_is_said(line: str) -> None:
    job = f"Lmod is loading gcc/13.2\n{line}\n"
    assert complaint("-", stdin=job) == f"standard input: {line}"
    assert complaint("osu", "-", stdin=job) == f"standard input: {line}"


@pytest.mark.parametrize("tool", ["mdtest", "ior", "hpcg", "babelstream", "darshan", "nvbandwidth"])
def test_a_text_cut_off_before_a_result_is_its_tool_s(tool: str) -> None:
    """Of the first two lines, and of these with what Slurm wrote when it ended the job."""
    head = "".join(own_text(RICHEST[tool]).splitlines(keepends=True)[:3])
    for name in ([], [tool]):
        words = complaint(*name, "-", stdin=head)
        assert words.startswith((f"standard input: the output of {tool} without a result: cut off before one",
                                 "standard input: no usable reading: "))  # fmt: skip
        assert complaint(*name, "-", stdin=head + CANCELLED + "\n").endswith(CANCELLED)


#: Lines that people quote without the heading above them.
EXCERPTS: Final = {
    "iperf3": "[  5]   0.00-10.00  sec  1.09 GBytes   941 Mbits/sec    0             sender\n",
    "perftest": " 65536      5000             11000.12           10990.34\t\t   0.175845\n",
    "ior": "write     1290.15    1.26       0.060289  1048576  1024  0.032257  60.29  0.000028  60.32  0\n",
    "osu": "# Size      Bandwidth (MB/s)\n1             2.04\n2             4.11\n",
    "mdtest": "   File creation             :      15012.314      14890.112      14950.400         50.100\n",
    "nccl": "     1048576        262144     float     sum      -1    61.10   17.16   30.03      0\n",
    "fio": "   READ: bw=912MiB/s (956MB/s), 912MiB/s-912MiB/s (956MB/s-956MB/s), io=8192MiB\n",
    "likwid": "|          Metric          |  Core 0 |\n| Memory bandwidth [MB/s] |  98.4 |\n",
    "hpcg": "GFLOP/s Summary::Raw DDOT=18.0169\nGFLOP/s Summary::Raw Total=19.6268\n",
    "imb": "       #bytes #repetitions      t[usec]   Mbytes/sec\n         0      1000      0.31      0.00\n",
}  # fmt: skip


@pytest.mark.parametrize("tool", EXCERPTS)
def test_an_excerpt_says_whose_it_is_and_that_its_heading_is_missing(tool: str) -> None:
    """In the parser's words where it knows more of what is missing."""
    text = EXCERPTS[tool]
    for name in ([], [tool]):
        words = complaint(*name, "-", stdin=text)
        looks = rf"looks like {tool}('s \w+)?, but it(s heading is missing| is cut off): "
        assert re.search(looks, words), words
    other = complaint("qperf", "-", stdin=text)
    assert other.startswith(f"standard input: looks like {tool}, not qperf, but its heading is missing: ")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "empty"),
        (" \n\t\n", "empty"),
        (b"\x7fELF\x02\x01\x01\0\0\0", "a binary file, not a tool's text"),
        ("drwxr-xr-x 2 me me 4096 Nov 2 10:00 runs\n", "no supported tool's output is recognised in it"),
        ("Client connecting to n2, TCP port 5001\n[  3]  0.0-10.0 sec  1.09 GBytes   938 Mbits/sec\n",
         "looks like iperf 2, which is not read"),
        ("usage: blas LIBRARY THREADS {dgemm|zgemm}:N...\n", "no usable reading: dgemm failed: "),
    ],
)  # fmt: skip
def test_what_is_no_tool_s_text_is_said_to_be_none(text: str | bytes, words: str) -> None:
    for name in ("", "iperf"):
        if not (name and "blas" in str(text)):
            assert complaint(*filter(None, [name]), "-", stdin=text).startswith(f"standard input: {words}")


@pytest.mark.parametrize(
    ("name", "stdin", "reason"),
    [
        ("osu", own_text(RICHEST["qperf"]), "looks like the output of qperf, not of osu"),
        ("ib_send_bw", EXCERPTS["perftest"],
         "looks like perftest, but its heading is missing: size and units cannot be known"),
        ("", captured.text_of("likwid", "bench_h.txt"),
         "the output of likwid without a result: cut off before one, or nothing was measured"),
        ("qperf", captured.text_of("qperf", "fail_rds.txt"), "no usable reading: rds_bw failed:"),
        ("", "hello\n", "no supported tool's output is recognised in it"),
        ("", "", "empty"),
        ("", "\0", "a binary file, not a tool's text"),
    ],
    ids=lambda words: words.split(":")[0][:40],
)  # fmt: skip
def test_the_reasons_of_docs_tools_md_are_those_of_the_command(name: str, stdin: str, reason: str) -> None:
    assert complaint(*filter(None, [name]), "-", stdin=stdin).startswith(f"standard input: {reason}")
    assert f"`{reason}" in (ROOT / "docs/tools.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("tool", "text", "reason"),
    [
        ("hpl", "HPL-MxP NVIDIA 24.6.0\n", "HPL-MxP, in mixed precision, is not read"),
        ("hpl", "Intel(R) Optimized LINPACK Benchmark data\n\nCPUs: 2\n", "Intel's LINPACK is not read"),
        ("hpcg", "rocHPCG version: 0.8.8 (based on hpcg-3.1)\n", "file"),
        ("stream", " You are running each test 10 times\n", "STREAM in Fortran is not read"),
        ("likwid", "TABLE,Group 1 Metric,MEM,3,\n", "its CSV (-O) is not read"),
        ("netpipe", "Start testing with 7 trials for each message size\n", "NetPIPE 5 is not read"),
        ("babelstream", "BabelStream\nVersion: 5.0\nImplementation: OpenMP\n", "no table of several kernels"),
        ("osu", "# OSU OpenSHMEM Put Test v5.6.3\n# Size          Latency (us)\n1      1.02\n", "OpenSHMEM"),
        ("osu", "# OSU UPC MEMPUT Test v5.6.3\n# Size  Latency (us)\n1   1.02\n", "UPC MEMPUT is not read"),
        ("nccl", "numCycle,collective,ranks,rankspernode\n", "the CSV of rccl-tests is not read"),
    ],
)  # fmt: skip
def test_what_is_not_read_is_recognised_and_named(tool: str, text: str, reason: str) -> None:
    assert [part.tool for part in parts_of(text)] == [tool]
    assert reason in complaint("-", stdin=text)


def test_a_word_that_is_no_file_is_said_to_be_none() -> None:
    path = RICHEST["osu"]
    result = run("osu_bandwidth.out", path)
    assert result.exit_code == 2
    assert (
        "'osu_bandwidth.out' is no tool, no program of one and no file; the tools are: babelstream,"
        in result.stderr
    )
    assert "nosuch: No such file or directory" in run("nosuch").stderr


def completed(words: str, place: int) -> list[str]:
    """What bash is offered for the last of `words`."""
    npc = Path(sys.executable).with_name("npc")
    environment = {"_NPC_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(place)}
    done = subprocess.run([npc], env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


def test_the_shell_completes_tools_first_and_files_everywhere() -> None:
    assert completed("npc records parse hpc", 3) == ["plain,hpcc", "plain,hpcg", "file,hpc"]
    assert completed("npc records parse hpcc o", 4) == ["file,o"]


def test_a_site_s_parser_is_recognised_by_what_its_module_says(tmp_path: Path) -> None:
    files = {
        "site-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: site\nVersion: 1\n",
        "site-1.dist-info/entry_points.txt": "[npc.parsers]\n"
        "stopwatch = site_stopwatch\nsilent = site_silent\n",
        "site_silent.py": "def parse(text, argv): return iter(())\n",
        "site_stopwatch.py": "from npc.records.reading import Reading\n"
        "PROGRAMS, MARKS = 'tick', 'STOPWATCH '\n"
        "def parse(text, argv):\n    yield Reading('lap', 'time', 2.5)\n",
        "out.txt": "STOPWATCH 2.5\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    start = f"import sys; sys.path.append({str(tmp_path)!r})"
    program = f"{start}; from npc.parsers.commands.parse import parse; parse()"
    for words in (["out.txt"], ["tick", "out.txt"], ["stopwatch", "out.txt"]):
        done = subprocess.run(
            [sys.executable, "-c", program, *words], cwd=tmp_path, capture_output=True, text=True, timeout=60
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert "2.5 s" in done.stdout
