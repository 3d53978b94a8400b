"""Running a tool: what it prints, and how it ended, whatever goes wrong. Only the standard library."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

#: Exit codes of what cannot be run, as a shell has them, and of what took too long, as timeout(1) has it.
MISSING, TOO_LONG = 127, 124


def run(
    command: Sequence[str | Path],
    text: str = "",
    timeout_s: float = 120.0,
    environment: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """text: what it reads. One that cannot be run, or takes longer, has an exit code for that, and the reason
    as its error output."""
    name = Path(command[0]).name
    try:
        return subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired:
        said, code = f"{name} did not answer within {timeout_s:g} s", TOO_LONG
    except FileNotFoundError:
        said, code = f"there is no {name} here", MISSING
    except OSError as error:
        said, code = f"{name}: {error.strerror}", MISSING
    return subprocess.CompletedProcess(command, code, "", said)


def last_line(text: str) -> str:
    """The last line that says something; empty if none does."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


def last_words(ended: subprocess.CompletedProcess[str]) -> str:
    """The last line of what a tool said of its failure."""
    said = last_line(ended.stderr or ended.stdout)
    return said or f"{Path(ended.args[0]).name}: {exit_words(ended.returncode)}"


def exit_words(code: int) -> str:
    """``exit code 3``, and ``signal 9`` for -9."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"
