"""Asking a program of the system: what it prints, or in one line why it says nothing."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence

import click


class NoAnswer(click.ClickException):
    """A program that is missing, fails or hangs; the message is its name and its own last words."""


def ask(command: Sequence[str], timeout_s: float = 30.0) -> str:
    """What a program prints. Raises `NoAnswer`."""
    name = command[0]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{name} did not answer within {timeout_s:g} s") from None
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        raise NoAnswer(f"there is no {name} here" if missing else f"{name}: {error.strerror}") from None
    if ended.returncode:
        words = (ended.stderr or ended.stdout).strip().splitlines() or [f"exit code {ended.returncode}"]
        raise NoAnswer(f"{name}: {words[-1].removeprefix(f'{name}: ')}")
    return ended.stdout
