"""What tries hints of advice, as it is registered (``npc.trials``): options of `npc advise`, and on the page
what came of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from npc.registration import extensions

if TYPE_CHECKING:
    import click

    from npc.report.advice import Advice
    from npc.report.runs import Run


class TrialModule(Protocol):
    """What a module has that is registered. It imports click, and what it needs else only in functions:
    ``npc advise --help`` loads it."""

    #: Options of `npc advise`, the first of which asks for a trial.
    OPTIONS: Sequence[click.Option]
    #: What they do, and the exit codes of that, as a paragraph of the command's help.
    HELP: str

    def is_asked(self, options: Mapping[str, Any]) -> bool:
        """Whether the values of its options, by their names in Python, ask for a trial.

        Raises click.UsageError for values that do not go together.
        """

    def try_hint(self, run: Run, advice: Advice, options: Mapping[str, Any], as_json: bool) -> None:
        """Try the hint, print what came of it, and end with the exit code of that."""

    def how_to_try(self, run: Run, advice: Advice, number: int) -> str:
        """The command that tries a hint (`number`: its place in `advice.hints`), or why there is none."""

    def is_trial(self, run: Run) -> bool:
        """Whether a run is one that it made: it is no measurement of the platform as it usually is."""

    def answers(self, trials: Sequence[Run]) -> dict[tuple[str, str], str]:
        """(rule's name, what a hint has seen) → what came of trying it, in words."""


def trial_modules() -> list[TrialModule]:
    """All that can be loaded; `npc.report.advice.advise` names the others."""
    return [cast(TrialModule, trial.module) for trial in extensions("trials") if trial.module]
