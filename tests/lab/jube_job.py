"""Running JUBE and npc with real tools: in a network of their own, leaving nothing behind."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

from tests.lab.npb_job import Job, run
from tests.paths import ROOT

NPC = Path(sys.executable).with_name("npc")
#: Settings that measure next to nothing, but everything.
SMALL = {
    "NPC_SAMPLES": "1",
    "NPC_QPERF_SWEEP_SIZES": "16",
    "NPC_QPERF_BANDWIDTH_SIZES": "16K",
    "NPC_QPERF_BANDWIDTH_TESTS": "tcp_bw",
    "NPC_QPERF_LATENCY_SIZES": "1K",
    "NPC_QPERF_LATENCY_TESTS": "tcp_lat",
    "NPC_SOCKPERF_LATENCY_SIZES": "14",
    "NPC_SOCKPERF_THROUGHPUT_SIZES": "1K",
    "NPC_OSU_MAX_SIZE": "1024",
    "NPC_MODELS_MAX_SIZE": "1024",
    # the arrays stay four times the caches, or no number were valid
    "NPC_STREAM_CFLAGS": "-O3 -march=native -fopenmp -DNTIMES=2",
    "NPC_LIKWID_SIDE_SAMPLES": "0",
    "NPC_BLAS_SIZES": "64",
    "NPC_FFT_SIZES": "1d:2048",
    "NPC_FFT_PLANNER": "estimate",
    "NPC_HPCC_N": "1200",
    "NPC_PATTERNS_MAX_SIZE": "8192",
    "NPC_PATTERNS_SIZES": "8",
    "NPC_PATTERNS_LOOPS": "100",
    "NPC_PATTERNS_RING_TIME": "0.0003",
    "NPC_PATTERNS_COMMS": "shared",
    "NPC_IO_BYTES": "256M",
    "NPC_FIO_MILLISECONDS": "30",
    "NPC_HIMENO_SIZE": "S",
    "NPC_HIMENO_TASKS": "2",
    "NPC_HIMENO_TIME": "0.2",
}
#: The platform decides how Open MPI counts its slots, not the test.
_UNSET = ("OMPI_MCA_rmaps_base_oversubscribe", "PRTE_MCA_rmaps_default_mapping_policy", "OMP_NUM_THREADS")


#: A link of 2 Gbit/s: what tools send by memory, as fast as it goes, takes both CPUs from other tests. Its
#: queue is longer than what TCP has on its way, so nothing is lost.
_LINK = "ip link set lo up && tc qdisc add dev lo root tbf rate 2gbit burst 256kb latency 500ms"


@functools.cache
def own_network() -> tuple[str, ...]:
    """What to write before a command so that its ports are its own; nothing where that is not allowed.

    The tools use their customary ports here, which others may be using just now.
    """
    prefix = ("unshare", "--net", "sh", "-c", f'{_LINK} && exec "$@"', "sh")
    try:
        works = subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        works = False
    return prefix if works else ()


def command(*arguments: str | Path) -> list[str]:
    """The command in a network of its own, without variables that change what it measures."""
    unset = [word for name in _UNSET for word in ("-u", name)]
    return [*own_network(), "env", *unset, *map(str, arguments)]


def start(*arguments: str | Path, **environment: str) -> Job:
    """Start a command with small settings."""
    return Job(command=command(*arguments), **{**SMALL, **environment})


def finish(
    *arguments: str | Path, timeout_s: float = 120.0, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run a command with small settings to its end; fails if a process of it is left behind."""
    return run(timeout_s=timeout_s, command=command(*arguments), **{**SMALL, **environment})


def jube_run(file: str | Path, outpath: Path, *options: str | Path) -> list[str | Path]:
    """``jube run`` in the checkout, as one types it there."""
    in_checkout = ["sh", "-c", 'cd "$1" && shift && exec jube run "$@"', "sh", ROOT]
    return [*in_checkout, file, "--hide-animation", "--outpath", outpath, *options]


def run_jube(
    file: str | Path, outpath: Path, *options: str | Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run JUBE to its end; what the jobs made of it is in its table of states."""
    ended = finish(*jube_run(file, outpath, *options), **environment)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended


def states(ended: subprocess.CompletedProcess[str]) -> dict[str, dict[str, int]]:
    """JUBE's table of states: step → all, open, wait, error, done → number."""
    lines = (line.strip() for line in ended.stdout.splitlines())
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines if line.startswith("|")]
    heading = next(place for place, row in enumerate(rows) if row[0] == "stepname")
    return {
        row[0]: dict(zip(rows[heading][1:], map(int, row[1:]), strict=True)) for row in rows[heading + 2 :]
    }


def steps(run: Path) -> list[str]:
    """The steps of the run's workpackages, in their order."""
    root = ET.parse(run / "workpackages.xml").getroot()
    return [(element.findtext("step") or "").strip() for element in root.iter("workpackage")]


def job_scripts(run: Path) -> dict[str, str]:
    """Workpackage → its job script."""
    return {path.parts[-3]: path.read_text() for path in sorted(run.rglob("submit.job"))}


def results(outpath: Path) -> dict[str, list[dict[str, str]]]:
    """What ``jube analyse`` and ``jube result`` print: table → rows → column's title → cell."""
    subprocess.run(["jube", "analyse", str(outpath)], capture_output=True, check=True, timeout=60)
    printed = subprocess.run(
        ["jube", "result", str(outpath)], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    tables: dict[str, list[dict[str, str]]] = {}
    name, titles = "", list[str]()
    for line in printed.splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if re.fullmatch(r"\w+:", line):
            name, titles = line[:-1], []
        elif line.startswith("|-"):
            continue
        elif line.startswith("|") and not titles:
            titles, tables[name] = cells, []
        elif line.startswith("|"):
            tables[name].append(dict(zip(titles, cells, strict=True)))
    return tables


def path_without(folder: Path, *tools: str) -> str:
    """A PATH with all programs of this one but `tools`, which this machine then does not have."""
    folder.mkdir()
    for directory in os.environ["PATH"].split(os.pathsep):
        if Path(directory).is_dir():
            for program in Path(directory).iterdir():
                link = folder / program.name
                if program.name not in tools and not link.is_symlink():
                    link.symlink_to(program)
    assert not any(shutil.which(tool, path=str(folder)) for tool in tools)
    return str(folder)


def platform(folder: Path, name: str, **parameters: str) -> Path:
    """A second platform in `folder`: localhost under another name, with some parameters changed."""
    source = ROOT / "platforms" / "localhost"
    folder.mkdir()
    shutil.copy(source / "submit.job.in", folder)
    tree = ET.parse(source / "platform.xml")
    changes = {"npc_platform_name": name, **parameters}
    for element in tree.iter("parameter"):
        if element.get("name") in changes:
            element.text = changes.pop(element.attrib["name"])
    assert not changes, f"no such parameters: {changes}"
    tree.write(folder / "platform.xml", encoding="unicode")
    return folder
