"""How fast `npc characterise --each-node` submits a job for each of 1000 nodes (``make bench-each_node``).

sbatch, sinfo, squeue and scontrol are stand-ins that print what Slurm's print, so that this measures NPC and
JUBE alone. 1 if the last job is submitted later than `MOST_S`, the run takes more than `MOST_BYTES`, or Slurm
is asked more often for its nodes than `MOST_QUESTIONS` times.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.lab.jube_job import NPC

NODES: Final = 1000
#: From the start to the last submission, in s.
MOST_S: Final = 60.0
#: What the run's folder takes.
MOST_BYTES: Final = 100e6
#: Calls of sinfo and scontrol; JUBE prepares three benchmarks with three each.
MOST_QUESTIONS: Final = 30
_STAND_INS: Final = {
    # as sbatch(1): a line a job
    "sbatch": """[ "$1" = --version ] && { echo slurm 22.05.8; exit; }
echo x >> "$STAND_IN/jobs"
echo "Submitted batch job $(wc -l < "$STAND_IN/jobs")"
""",
    "sinfo": """echo "sinfo $*" >> "$STAND_IN/questions"
for word; do case "$word" in --format=*) form="${word#--format=}";; esac; done
for number in $(seq -w 1 "$NODES"); do
    case "$form" in
        "%P") echo "batch*"; exit;;
        "%P %l") echo "batch* 1-00:00:00"; exit;;
        "%P %c") echo "batch* 64";;
        "%P %N %T") echo "batch* n$number idle";;
        *) echo "n$number|idle|none";;
    esac
done""",
    "scontrol": 'echo "scontrol $*" >> "$STAND_IN/questions"',
    # the columns that npc asks for, as wide as it asks
    "squeue": """for number in $(seq 1 "$(wc -l < "$STAND_IN/jobs")"); do
    printf '%-40s%-20s%-80s%-12s%-250s%-20s%-20s%-12s%-24s\\n' \\
        "$number" RUNNING None 0 "n$number" 1:00 1:00:00 0 N/A
done""",
}


def main() -> int:
    """Measure once; 1 if a bar is missed."""
    with tempfile.TemporaryDirectory(prefix="npc-bench-") as name:
        folder = Path(name)
        for program, text in _STAND_INS.items():
            (folder / program).write_text(f"#!/bin/sh\n{text}\n")
            (folder / program).chmod(0o755)
        (folder / "jobs").touch()
        own = {name: str(folder) for name in ("HOME", "TMPDIR", "NPC_WORKPLACE", "NPC_LOCKS", "STAND_IN")}
        env = {**os.environ, **own, "NODES": str(NODES), "PATH": f"{folder}:{os.environ['PATH']}"}
        words = ["characterise", "--platform", "slurm", "--each-node", "--at-once", str(NODES)]
        begun = time.monotonic()
        with (folder / "printed").open("wb") as log:
            process = subprocess.Popen([NPC, *words], env=env, cwd=folder, stdout=log, stderr=log)
            try:
                submitted_s = _await_last(folder / "jobs", process, begun)
                time.sleep(10 * 0.5)  # some rounds of waiting
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait()
        stopped_s = time.monotonic() - begun
        jobs = len((folder / "jobs").read_text().splitlines())
        files = [path for path in (folder / "runs").rglob("*") if path.is_file()]
        size = sum(path.stat().st_size for path in files)
        questions = len((folder / "questions").read_text().splitlines())
        words = (folder / "printed").read_text().splitlines()[-3:]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{jobs} of {NODES} jobs submitted after {submitted_s:.1f} s, collected by {stopped_s:.1f} s")
    print(f"{size / 1e6:.1f} MB in {len(files)} files; sinfo and scontrol asked {questions} times")
    print(f"CPU time {used.ru_utime + used.ru_stime:.1f} s, at most {used.ru_maxrss / 1e3:.0f} MB of memory")
    bad = jobs < NODES or submitted_s > MOST_S or size > MOST_BYTES or questions > MOST_QUESTIONS
    if bad:
        print(*words, sep="\n")
    return int(bad)


def _await_last(jobs: Path, process: subprocess.Popen[bytes], begun: float) -> float:
    """Seconds until all jobs were submitted, or until it is plain that they will not be."""
    while process.poll() is None and time.monotonic() - begun < 3 * MOST_S:
        if len(jobs.read_text().splitlines()) >= NODES:
            break
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
    return time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
