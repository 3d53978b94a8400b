"""Options that are seldom needed: ``--help`` leaves them out, ``--help-all`` shows them.

    @click.option("--seed", cls=RareOption, help="Seed of the order of the launches.")

`npc.cli` gives every command that has such options its ``--help-all``. They are options like all others
elsewhere: on the command line, in shell completion and in man pages.
"""

from __future__ import annotations

from typing import Final

import click

_ALL: Final = "npc.help_all"


class RareOption(click.Option):
    """An option that ``--help`` leaves out."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """As click does it where all options are shown, else None."""
        return super().get_help_record(ctx) if shows_all(ctx) else None


def show_all(ctx: click.Context) -> None:
    """From now on the help of this context, and of those below it, shows all options."""
    ctx.meta[_ALL] = True


def shows_all(ctx: click.Context) -> bool:
    """Whether help shows all options."""
    return bool(ctx.meta.get(_ALL))


def with_help_all(command: click.Command, purpose: str = "") -> click.Command:
    """The command, changed in place, with the option ``--help-all`` where it has rare options, or where the
    option has a `purpose` of its own; the commands below it likewise."""
    for below in getattr(command, "commands", {}).values():
        with_help_all(below)
    rare = any(isinstance(option, RareOption) for option in command.params)
    given = any("--help-all" in option.opts for option in command.params)
    if not given and (rare or purpose):
        add = click.option(
            "--help-all", is_flag=True, is_eager=True, expose_value=False, callback=_show,
            help=purpose or "Show this message with all options, and exit.",
        )  # fmt: skip
        add(command)
    return command


def _show(ctx: click.Context, option: click.Parameter, chosen: bool) -> None:
    if chosen and not ctx.resilient_parsing:
        show_all(ctx)
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()
