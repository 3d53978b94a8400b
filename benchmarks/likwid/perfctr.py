"""``python perfctr.py GROUP CPUS COMMAND…``: the command under likwid-perfctr, or why counters cannot be had.

Only the measured loop is counted, which likwid-bench marks (``-m``), not its initialisation.

Most virtual machines have no counters, and without access to the registers (root, the msr module, LIKWID's
access daemon or perf) likwid-perfctr cannot read them: that is ``unavailable``, and no failure of the run.
"""

from __future__ import annotations

import subprocess
import sys

#: What likwid-perfctr says where it cannot count, whatever its exit code.
NO_COUNTERS = (
    "Cannot get access",
    "Cannot access",
    "No access",
    "Unsupported",
    "not supported",
    "permission",
)


def main(words: list[str]) -> int:
    """Become the command; exit code 1 with the reason where nothing is counted."""
    if len(words) < 3:
        print("usage: perfctr.py GROUP CPUS COMMAND", file=sys.stderr)
        return 2
    group, cpus, *command = words
    try:
        counting = ["likwid-perfctr", "-C", cpus, "-g", group, "-m", *command]
        ended = subprocess.run(counting, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        print("unavailable: likwid-perfctr: not found in PATH", file=sys.stderr)
        return 1
    print(ended.stdout, end="")
    print(ended.stderr, end="", file=sys.stderr)
    lines = (ended.stderr + ended.stdout).splitlines()
    if ended.returncode == 0 and " Metric " in ended.stdout:
        return 0
    reason = next((line.strip() for line in reversed(lines) if any(word in line for word in NO_COUNTERS)), "")
    if reason or ended.returncode == 0:
        print(
            f"unavailable: no counters for {group}: {reason or 'likwid-perfctr shows no metric'}",
            file=sys.stderr,
        )
        return 1
    return ended.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
