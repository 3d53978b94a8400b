"""Run a program of the system: what it prints, or in one line why it failed."""

from __future__ import annotations

from collections.abc import Sequence

from npc.errors import CommandFailed
from npc.machine.command import last_words, run


class NoAnswer(CommandFailed):
    """A program that is missing, fails or hangs; the message is its name and its own last words."""

    @property
    def is_private(self) -> bool:
        """Whether Slurm shows this to its operators alone: PrivateData of slurm.conf."""
        return "Access/permission denied" in str(self)


def ask(command: Sequence[str], timeout_s: float = 30.0) -> str:
    """What a program prints. Raises `NoAnswer`."""
    ended = run(command, timeout_s=timeout_s)
    if ended.returncode:
        name, words = command[0], last_words(ended)
        raise NoAnswer(words if name in words else f"{name}: {words}")
    return ended.stdout
