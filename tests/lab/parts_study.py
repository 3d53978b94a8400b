"""A real study of a program whose parts are timed by its own clock (``timed_parts.c``).

Memory bandwidth is taken away by competitors on the CPU that streams, the network is a loopback interface
with a token bucket, what is written goes into a pipe that is read at a rate. The clock is nobody's to set,
so its share follows from Σα = 1. It needs root, and lives in a network namespace of its own::

    unshare -n python -m tests.lab.parts_study STUDIES [RUNS [SEED]]
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec

from npc.observe.study.records import Condition, ProgramRun, Study, write_study
from tests.lab.mpis import MPIS

SOURCE: Final = Path(__file__).with_name("timed_parts.c")
PARTS: Final = ("cpu", "memory", "network", "io")
#: Work that takes about 0.1 s in the reference: additions, and bytes.
WORK: Final[Mapping[str, float]] = {"cpu": 6e7, "memory": 2e9, "network": 2.5e6, "io": 3e6}
#: What the reference has: bytes/s of network and file.
USUAL: Final = {"network": 25e6, "io": 30e6}
CONDITIONS: Final = (
    Condition(name="reference", ranks=2),
    Condition(name="memory 1", ranks=2, memory=1),
    Condition(name="memory 2", ranks=2, memory=2),
    Condition(name="network / 2", ranks=2, network=12.5e6),
    Condition(name="network / 4", ranks=2, network=6.25e6),
    Condition(name="io / 2", ranks=2, io=15e6),
    Condition(name="io / 3", ranks=2, io=10e6),
    Condition(name="memory 1, network / 2", ranks=2, memory=1, network=12.5e6),
    Condition(name="network / 2, io / 2", ranks=2, network=12.5e6, io=15e6),
)
#: Bytes that are read at once.
CHUNK: Final = 16 << 10
LIMIT_S: Final = 60.0


class Timed(NamedTuple):
    """One run: the program's seconds, those of its parts, and the rates after it."""

    seconds: float
    parts: Mapping[str, float]
    rates: Mapping[str, float]


def build(folder: Path) -> Path:
    """Compile the program, and a competitor that only streams."""
    program = folder / "timed_parts"
    subprocess.run([MPIS["openmpi"].compiler, "-O2", "-o", program, SOURCE], check=True)
    return program


def first() -> None:
    """This process before all others on the CPUs, where sessions share them (sched_autogroup)."""
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("-20")


def shape(rate: float) -> None:
    """What loopback lets pass, in bytes/s."""
    shaped = f"tc qdisc replace dev lo root tbf rate {8 * rate:.0f}bit burst 80kb latency 800ms"
    subprocess.run(shaped.split(), check=True)


def drain(pipe: Path, rate: float) -> None:
    """Read a pipe to its end at `rate` bytes/s, and not faster after a rest."""
    free = 0.0
    with pipe.open("rb", buffering=0) as stream:
        while read := stream.read(CHUNK):
            free = max(free, time.monotonic()) + len(read) / rate
            time.sleep(max(0.0, free - time.monotonic()))


def launch(program: Path, work: Mapping[str, float], folder: Path) -> Timed:
    """A fresh process of each rank."""
    words = "-n 2 --oversubscribe --bind-to none --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include lo"
    amounts = [f"{work[part]:.0f}" for part in PARTS]
    said = subprocess.run(
        ["nice", "-n", "-20", MPIS["openmpi"].launcher, *words.split(), program, folder, *amounts],
        env={**os.environ, **MPIS["openmpi"].environment}, capture_output=True, text=True, check=True,
        timeout=LIMIT_S,
    ).stdout.split()  # fmt: skip
    numbers = [float(word) for word in said if not word.isalpha()]
    return Timed(
        numbers[0], dict(zip(PARTS, numbers[1:5], strict=True)), dict(zip(PARTS, numbers[5:], strict=True))
    )


@contextlib.contextmanager
def competitors(number: float | None) -> Iterator[None]:
    """Processes that stream on the CPU of rank 1, until the block ends."""
    code = "import numpy; a = numpy.ones(8 << 20)\nwhile True: a *= .999"
    words = ["nice", "-n", "-20", "taskset", "-c", "1", sys.executable, "-c", code]
    started = [subprocess.Popen(words) for _ in range(int(number or 0))]
    try:
        yield
    finally:
        for each in started:
            each.kill()
            each.wait()


def study(
    folder: Path,
    work: Mapping[str, float],
    runs: int,
    seed: int,
    conditions: Sequence[Condition] = CONDITIONS,
) -> tuple[Study, dict[str, float]]:
    """(a study of `runs` of each condition in shuffled order, the shares by the program's clock)."""
    program = build(folder)
    ran: list[ProgramRun] = []
    parts: list[Mapping[str, float]] = []
    first()
    os.mkfifo(folder / "written")
    order = [(each, sample) for each in conditions for sample in range(runs)]
    random.Random(seed).shuffle(order)
    for condition, sample in order:
        shape(condition.network or USUAL["network"])
        rate = condition.io or USUAL["io"]
        reader = threading.Thread(target=drain, args=(folder / "written", rate), daemon=True)
        reader.start()
        with competitors(condition.memory):
            timed = launch(program, work, folder)
        reader.join(LIMIT_S)
        measured = {name: rate for name, rate in timed.rates.items() if name != "cpu"}
        ran.append(ProgramRun(condition.name, sample, timed.seconds, "ok", measured))
        if condition is CONDITIONS[0]:
            parts.append({name: taken / timed.seconds for name, taken in timed.parts.items()})
    truth = {name: median(each[name] for each in parts) for name in ("memory", "network", "io")}
    truth["mpi"] = truth.pop("network")
    truth["cpu"] = 1 - sum(truth.values())
    made = Study(
        command=("timed_parts",), program="timed_parts", platform="localhost", started="", seed=seed,
        runs=runs, conditions=tuple(conditions), ran=tuple(ran),
    )  # fmt: skip
    return made, truth


def once(runs: int, folder: Path) -> None:
    """A short study: ``study.json`` and ``truth.json`` in a folder."""
    work = {
        name: amount * part for (name, amount), part in zip(WORK.items(), (0.3, 0.5, 0.4, 0.5), strict=True)
    }
    made, truth = study(folder, work, runs, seed=1, conditions=CONDITIONS[0:7:2])
    write_study(made, folder)
    (folder / "truth.json").write_bytes(msgspec.json.encode(truth))


def main(studies: int = 1, runs: int = 6, first_seed: int = 0) -> None:
    """Real studies of programs with parts of random size, and whether their shares come back."""
    from npc.observe.study.program_model import fit

    covered = 0
    for seed in range(first_seed, first_seed + studies):
        lot = random.Random(seed)
        work = {name: amount * lot.uniform(0.3, 2) for name, amount in WORK.items()}
        with tempfile.TemporaryDirectory() as folder:
            made, truth = study(Path(folder), work, runs, seed)
        kept = Path(tempfile.gettempdir()) / f"parts-{seed}"
        kept.mkdir(exist_ok=True)
        write_study(made, kept)
        model = fit(made)
        inside = True
        for name, value, low, high, _ in model.shares:
            if value is not None and low is not None and high is not None:
                inside &= low <= truth[name] <= high
                print(f"{seed} {name:7} true {truth[name]:.3f}  {value:.3f} [{low:.3f}, {high:.3f}]")
        covered += inside
        p = "none" if model.lack_of_fit is None else f"{model.lack_of_fit:.2g}"
        print(f"{seed} all within: {inside}, p = {p}, fits: {model.fits} {model.note}", flush=True)
    print(f"all shares within their intervals in {covered} of {studies} studies")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--once"]:
        once(int(sys.argv[2]), Path(sys.argv[3]))
    else:
        main(*map(int, sys.argv[1:]))
