"""Why a run ended before its result: what the batch system wrote below the last line of a tool."""

from __future__ import annotations

import re
from typing import Final

#: What slurmstepd and srun print for a job, a step or a task; Slurm's source, src/slurmd/slurmstepd.
_CANCELLED: Final = re.compile(
    r"\n[^\n]{0,120}\*\*\* (?:JOB|STEP|TASK)[^\n]{1,120}? CANCELLED AT [^\s*]{1,40}"
    r"(?: DUE TO ([A-Za-z ]{1,40}?))?(?:,[^\n*]{1,80})? \*\*\*"
)
_MEMORY: Final = re.compile(r"\n[^\n]{0,120}(?:oom[-_]kill event|OOM Killed|task [0-9]+: Out Of Memory)")


def why_ended(lines: str) -> str:
    """What ended a run from outside, as the batch system says; empty where it says nothing."""
    if cancelled := _CANCELLED.search(lines):
        return f"Slurm cancelled it: {(cancelled[1] or 'no reason is printed').lower()}"
    return "it was killed: out of memory" if _MEMORY.search(lines) else ""
